"""Baselines that optimise: images whose gradient is like the one that was seen. Need ``torch``.

* :func:`inverting_gradients`: cosine distance plus total variation, Adam on the signs of the
  gradient. Geiping, Bauermeister, Dröge, Moeller, "Inverting Gradients - How Easy Is It to Break
  Privacy in Federated Learning?", NeurIPS 2020.
* :func:`dlg`: squared distance by L-BFGS, images and soft labels together. Zhu, Liu, Han, "Deep
  Leakage from Gradients", NeurIPS 2019.

They need no linear layer, and prove nothing: the result is judged against the truth alone. They
take minutes where separation takes tenths of a second, and depend on their learning rates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient.recovery import Recovery
from privagg.attacks.gradient.torch_models import require_torch
from privagg.errors import UsageError

__all__ = ["dlg", "inverting_gradients"]

Loss = Callable[[Any, Any], Any]


def inverting_gradients(
    model: Any,
    gradients: Mapping[str, NDArray[Any]],
    shape: tuple[int, ...],
    batch: int,
    *,
    iterations: int = 300,
    rate: float = 0.1,
    total_variation: float = 1e-3,
    bounds: tuple[float, float] = (0.0, 1.0),
    labels: NDArray[np.integer] | None = None,
    loss: Loss | None = None,
    seed: int = 0,
    seconds: float | None = None,
) -> Recovery:
    """Recover a batch by cosine distance and total variation.

    Parameters
    ----------
    model : torch.nn.Module
        Known to the server; not changed.
    gradients : mapping of str to array
        What it saw, by the parameters' names.
    shape : tuple of int
        Of one input.
    batch : int
        How many.
    iterations, rate : int, float
        Steps of Adam, and its first rate, which falls by a tenth at 3/8, 5/8 and 7/8 of them; the
        paper takes 24,000 and 0.1.
    total_variation : float
        Weight of the mean absolute first difference; inputs that are no images have none.
    bounds : (low, high)
        Valid values; kept to in every step.
    labels : (batch,) int array, optional
        Counted labels; soft labels are sought if left out.
    loss : callable, optional
        Of outputs and labels; mean cross-entropy if left out.
    seed : int
        Of the start.
    seconds : float, optional
        CPU time after which it stops, and says so.

    Raises
    ------
    UsageError
        If the gradients do not fit the model.
    """
    torch = require_torch()
    began = time.process_time()
    steps = whole("iterations", iterations, 1, 10**7)
    goal = _Goal(model, gradients, shape, batch, labels, loss, seed, bounds)
    optimiser = torch.optim.Adam(goal.sought, lr=float(rate))
    marks = [steps * 3 // 8, steps * 5 // 8, steps * 7 // 8]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, marks, gamma=0.1)
    distance = torch.ones(())
    done = 0
    while done < steps:
        done += 1
        dots = own = seen = 0.0
        for mine, other in zip(goal.gradients(), goal.seen, strict=True):
            dots, own = dots + (mine * other).sum(), own + (mine * mine).sum()
            seen = seen + (other * other).sum()
        distance = 1 - dots / torch.sqrt(own * seen + 1e-30)
        total = distance
        if len(shape) == 3:
            images = goal.images
            variation = images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()
            total = total + total_variation * variation
        taken = torch.autograd.grad(total, goal.sought)
        for variable, gradient in zip(goal.sought, taken, strict=True):
            variable.grad = gradient.sign()
        optimiser.step()
        schedule.step()
        goal.clamp()
        if _over(began, seconds):
            break
    notes = _stopped(done, steps, seconds)
    return goal.recovery("inverting_gradients", began, done, float(distance.detach()), notes)


def dlg(
    model: Any,
    gradients: Mapping[str, NDArray[Any]],
    shape: tuple[int, ...],
    batch: int,
    *,
    iterations: int = 60,
    rate: float = 1.0,
    bounds: tuple[float, float] = (0.0, 1.0),
    labels: NDArray[np.integer] | None = None,
    loss: Loss | None = None,
    seed: int = 0,
    seconds: float | None = None,
) -> Recovery:
    """Recover a batch by squared distance and L-BFGS.

    Parameters
    ----------
    model, gradients, shape, batch, bounds, labels, loss, seed, seconds
        As for :func:`inverting_gradients`; bounds are applied at the end.
    iterations, rate : int, float
        Of L-BFGS, with up to 20 evaluations each.

    Raises
    ------
    UsageError
        If the gradients do not fit the model.
    """
    torch = require_torch()
    began = time.process_time()
    steps = whole("iterations", iterations, 1, 10**6)
    goal = _Goal(model, gradients, shape, batch, labels, loss, seed, bounds)
    # Gradients of a mean are small: relative distances have one learning rate for all models.
    size = sum(float((other * other).sum()) for other in goal.seen)
    optimiser = torch.optim.LBFGS(
        goal.sought, lr=float(rate), max_iter=20, line_search_fn="strong_wolfe"
    )
    last = [float("nan")]
    best: tuple[float, Any] = (float("inf"), goal.images.detach().clone())

    def distance() -> Any:
        optimiser.zero_grad()
        total = torch.zeros(())
        for mine, other in zip(goal.gradients(), goal.seen, strict=True):
            total = total + ((mine - other) ** 2).sum()
        total = total / max(size, 1e-30)
        total.backward(inputs=goal.sought)
        last[0] = float(total.detach())
        return total

    done = 0
    stopped: tuple[str, ...] = ()
    for done in range(1, steps + 1):
        before = best[0]
        optimiser.step(distance)
        if not np.isfinite(last[0]):
            break
        if last[0] < best[0]:
            best = (last[0], goal.images.detach().clone())
        if before - best[0] < 1e-9 * max(1.0, before) and done > 5:
            break
        if _over(began, seconds):
            stopped = _stopped(done, steps, seconds)
            break
    with torch.no_grad():
        goal.images.copy_(best[1])
    goal.clamp()
    notes = () if best[0] < 1e-3 else (f"did not converge: relative distance {best[0]:.2g}",)
    return goal.recovery("dlg", began, done, best[0], (*notes, *stopped))


def _over(began: float, seconds: float | None) -> bool:
    return seconds is not None and time.process_time() - began > seconds


def _stopped(done: int, steps: int, seconds: float | None) -> tuple[str, ...]:
    if done == steps or seconds is None:
        return ()
    return (f"stopped after {done} of {steps} steps: its limit is {seconds:g} CPU seconds",)


class _Goal:
    """Images and labels that are sought, and the gradients they have."""

    def __init__(
        self,
        model: Any,
        gradients: Mapping[str, NDArray[Any]],
        shape: tuple[int, ...],
        batch: int,
        labels: NDArray[np.integer] | None,
        loss: Loss | None,
        seed: int,
        bounds: tuple[float, float],
    ) -> None:
        torch = require_torch()
        known = {n: p for n, p in model.named_parameters() if p.requires_grad}
        names = [name for name in known if name in gradients]
        if not names:
            raise UsageError("gradients", "none of the model's", "by the parameters' names")
        for name in names:
            if tuple(gradients[name].shape) != tuple(known[name].shape):
                raise UsageError(
                    f"gradients[{name!r}]",
                    tuple(gradients[name].shape),
                    f"the parameter's shape {tuple(known[name].shape)}",
                )
        count = whole("batch", batch, 1, 1 << 20)
        low, high = bounds
        source = torch.Generator().manual_seed(seed)
        self.bounds, self.model, self.batch = bounds, model, count
        self.parameters = [known[name] for name in names]
        self.seen = [torch.as_tensor(np.asarray(gradients[name])) for name in names]
        start = torch.rand((count, *shape), generator=source) * (high - low) + low
        self.images = start.requires_grad_()
        self.sought: list[Any] = [self.images]
        self.labels = None if labels is None else torch.as_tensor(np.asarray(labels))
        self.measure = torch.nn.functional.cross_entropy if loss is None else loss
        if self.labels is None:
            with torch.no_grad():
                classes = model(self.images[:2]).shape[-1]
            self.logits = torch.zeros((count, classes)).requires_grad_()
            self.sought.append(self.logits)

    def gradients(self) -> Any:
        torch = require_torch()
        target = torch.softmax(self.logits, dim=-1) if self.labels is None else self.labels
        value = self.measure(self.model(self.images), target)
        return torch.autograd.grad(value, self.parameters, create_graph=True)

    def clamp(self) -> None:
        with require_torch().no_grad():
            self.images.clamp_(*self.bounds)

    def recovery(
        self,
        method: str,
        began: float,
        steps: int,
        distance: float,
        notes: tuple[str, ...] = (),
    ) -> Recovery:
        return Recovery(
            inputs=self.images.detach().reshape(self.batch, -1).double().numpy(),
            method=method,
            cpu_seconds=time.process_time() - began,
            rank=self.batch,
            batch=self.batch,
            diagnosis=notes,
            details={"iterations": steps, "distance": distance},
        )
