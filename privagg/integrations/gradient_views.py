"""What a server sees of federated training, made by running it: views for gradient audits.

:class:`FederatedView` plays the clients of one round: each takes the gradient of its batch, or
several local SGD steps, with DP-SGD noise if asked for, compresses it, and sends it, plainly or
through a real secure aggregation round in this process, with its fixed-point encoding. What comes
out is what a server would have, for :func:`privagg.attacks.gradient.audit`. Needs the extra
``torch``.

DP-SGD is Opacus': gradients of single examples are clipped to ``clip``, added up, and Gaussian
noise of standard deviation ``noise * clip`` is added **to the sum** of each client, before it is
divided by the batch. (Programs that add ``noise * clip`` to the mean add ``batch`` times as much.)
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient.views import Batch, Noise, Seen
from privagg.errors import UsageError
from privagg.integrations._gradient_compression import check_compression, compress
from privagg.protocols import secagg

__all__ = ["FederatedView", "noisy_sum", "train"]

Loss = Callable[[Any, Any], Any]


class _Sent(NamedTuple):
    vectors: list[NDArray[np.float32]]
    exact: list[NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class FederatedView:
    """One round of federated learning as its server sees it.

    Parameters
    ----------
    model : torch.nn.Module
        The shared model, in the mode (train or eval) in which clients run it. It is not changed.
    loss : callable, optional
        Of outputs and labels, a mean over the batch; cross-entropy if left out.
    loss_scale : float
        What clients multiply the loss by, unknown to the server.
    secagg : bool
        Whether gradients are summed by a secure aggregation round; else the server adds them up
        itself, and is attacked through the sum alone.
    bits : int, optional
        With `secagg`: bits of a number of the fixed-point encoding, 16 to 32; 32 if left out.
    noise : float
        Noise multiplier of DP-SGD; 0 is none.
    clip : float, optional
        Of each example's gradient, L2; required with noise. Alone, it clips and adds no noise.
    local_steps : int
        SGD steps of each client; one is a plain gradient. With more, each step takes the next part
        of the client's batch, around and around.
    local_batch : int, optional
        Examples of a local step; the whole batch if left out.
    rate : float
        Learning rate of local steps.
    compression : str, optional
        ``fp16``, ``int8``, ``sign`` or ``top-0.1`` (that share of the numbers, by size).
    seed : int
        Of noise and rounding: an audit is repeatable, and its round insecure.

    Raises
    ------
    UsageError
        If an argument is out of range or does not go with the others.
    """

    model: torch.nn.Module = field(repr=False)
    loss: Loss | None = field(default=None, repr=False)
    loss_scale: float = 1.0
    secagg: bool = False
    bits: int | None = None
    noise: float = 0.0
    clip: float | None = None
    local_steps: int = 1
    local_batch: int | None = None
    rate: float = 0.01
    compression: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise UsageError("model", type(self.model).__name__, "a torch.nn.Module")
        _number("loss_scale", self.loss_scale, 0, 1e12)
        _number("noise", self.noise, -1e-300, 1e9)
        _number("rate", self.rate, 0, 1e6)
        whole("local_steps", self.local_steps, 1, 10**6)
        if self.local_batch is not None:
            whole("local_batch", self.local_batch, 1, 10**9)
        if self.bits is not None:
            whole("bits", self.bits, 2, 32)
            if not self.secagg:
                raise UsageError("bits", self.bits, "nothing without secagg")
        if self.noise and self.clip is None:
            raise UsageError("clip", "none", "a bound of the gradients' norm, with noise")
        if self.clip is not None:
            _number("clip", self.clip, 0, 1e12)
        if self.clip is not None and self.local_steps > 1:
            raise UsageError(
                "local_steps", self.local_steps, "1 with clip or noise", "Audit a step at a time."
            )
        check_compression(self.compression)

    def __call__(self, batches: Sequence[Batch]) -> Seen:
        """Play a round with a client for each batch."""
        if not batches or not all(isinstance(batch, Batch) for batch in batches):
            raise UsageError("batches", type(batches).__name__, "a sequence of Batch, one a client")
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        if not names:
            raise UsageError("model", "no parameter that is trained", "a model with parameters")
        sent = self._send(batches)
        weights = np.array([len(batch) for batch in batches], np.float64)
        weights /= weights.sum()
        scaled = [
            v * np.float32(w * len(batches)) for v, w in zip(sent.vectors, weights, strict=True)
        ]
        mean, rounding = self._aggregate(scaled)
        floor = rounding
        exact = sum(w * v.astype(np.float64) for v, w in zip(sent.exact, weights, strict=True))
        if self.compression is not None:
            floor = math.hypot(floor, float(np.sqrt(np.mean(np.square(mean - exact)))))
        total = sum(len(batch) for batch in batches)
        return Seen(
            gradients=self._split(mean.astype(np.float32), names),
            batch=total,
            clients=len(batches),
            floor=floor,
            rounding=rounding,
            noise=self._noise(len(batches), total),
            ledger=tuple(self._ledger(batches)),
            single=len(batches) == 1 or not self.secagg,
        )

    def _send(self, batches: Sequence[Batch]) -> _Sent:
        vectors, exact = [], []
        for client, batch in enumerate(batches):
            plain = self._update(batch, client)
            bad = int(plain.size - np.count_nonzero(np.isfinite(plain)))
            if bad:
                raise UsageError(
                    "gradients",
                    f"{bad} of {plain.size} values of client {client} not finite",
                    "finite numbers",
                    "The training diverged or a loss overflowed: look at the learning rate and at "
                    "the inputs' scale.",
                )
            exact.append(plain)
            sizes = [p.numel() for p in self.model.parameters() if p.requires_grad]
            vectors.append(compress(plain, self.compression, self.seed + client, sizes))
        return _Sent(vectors, exact)

    def _update(self, batch: Batch, client: int) -> NDArray[np.float32]:
        x = torch.as_tensor(np.asarray(batch.inputs))
        y = torch.as_tensor(np.asarray(batch.labels))
        if self.clip is not None:
            generator = torch.Generator().manual_seed(self.seed * 1009 + client)
            parts = noisy_sum(
                self.model,
                x,
                y,
                noise=self.noise,
                clip=self.clip,
                loss=self._measure,
                generator=generator,
            )
            return _flat(parts) / np.float32(len(batch))
        local = copy.deepcopy(self.model)
        parameters = [p for p in local.parameters() if p.requires_grad]
        before = _flat(parameters)
        size = len(batch) if self.local_batch is None else min(self.local_batch, len(batch))
        at = 0
        for _ in range(self.local_steps):
            pick = [(at + n) % len(batch) for n in range(size)]
            at = (at + size) % len(batch)
            gradients = self._gradients(local, parameters, x[pick], y[pick])
            if self.local_steps == 1:
                return _flat(gradients)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(self.rate * gradient)
        return (before - _flat(parameters)) / np.float32(self.rate)

    def _measure(self, outputs: Any, labels: Any) -> Any:
        measure = torch.nn.functional.cross_entropy if self.loss is None else self.loss
        return measure(outputs, labels) * self.loss_scale

    def _gradients(self, model: Any, parameters: list[Any], x: Any, y: Any) -> list[Any]:
        try:
            value = self._measure(model(x), y)
            taken = torch.autograd.grad(value, parameters, allow_unused=True)
        except (RuntimeError, ValueError, IndexError) as error:
            raise UsageError(
                "inputs",
                tuple(x.shape),
                "a batch that the model and the loss take",
                str(error)[:200],
            ) from error
        return [
            torch.zeros_like(p) if g is None else g for p, g in zip(parameters, taken, strict=True)
        ]

    def _aggregate(self, vectors: list[NDArray[np.float32]]) -> tuple[NDArray[np.float64], float]:
        """Return the clients' mean, and what rounding changed in an entry."""
        if not self.secagg:
            return np.mean(vectors, axis=0, dtype=np.float64), 0.0
        if len(vectors) < 2:
            raise UsageError(
                "secagg", f"{len(vectors)} client", "at least 2", "A sum over one hides nothing."
            )
        bits = 32 if self.bits is None else self.bits
        bound = max(float(np.abs(vector).max()) for vector in vectors)
        params = secagg.Params.recommend(
            clients=len(vectors),
            dim=len(vectors[0]),
            value_bits=bits,
            clip=bound or 1.0,
            corrupt=0.0,
            dropout=0.0,
        )
        result = secagg.run(params, vectors, seed=self.seed)
        step = 2 * bound / (2**bits - 1)
        # Stochastic rounding: the variance of one number is at most step^2 / 4, 1/6 on average.
        return np.asarray(result.mean, np.float64), step / math.sqrt(6 * len(vectors))

    def _split(
        self, vector: NDArray[np.float32], names: list[str]
    ) -> dict[str, NDArray[np.float32]]:
        shapes = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        found, at = {}, 0
        for name in names:
            size = math.prod(shapes[name])
            found[name] = vector[at : at + size].reshape(shapes[name])
            at += size
        return found

    def _noise(self, clients: int, total: int) -> Noise | None:
        if self.clip is None or not self.noise:
            return None
        deviation = self.noise * math.sqrt(clients) * self.clip / total
        return Noise(multiplier=self.noise, clip=self.clip, steps=1, deviation=deviation)

    def _ledger(self, batches: Sequence[Batch]) -> list[tuple[str, str]]:
        clients, sizes = len(batches), sorted({len(batch) for batch in batches})
        examples = " or ".join(map(str, sizes))
        if self.secagg:
            bits = 32 if self.bits is None else self.bits
            sees = f"the sum over {clients} clients, {bits}-bit fixed point, nothing else"
        elif clients > 1:
            sees = f"each of {clients} clients' gradients; attacked here through their sum"
        else:
            sees = "one client's gradient"
        update = "one gradient"
        if self.local_steps > 1:
            update = f"the difference of {self.local_steps} local SGD steps, rate {self.rate:g}"
        noise = "none"
        if self.clip is not None:
            noise = f"examples clipped to {self.clip:g}" + (
                f", noise {self.noise:g} x clip on each client's sum"
                if self.noise
                else ", no noise"
            )
        return [
            ("The server sees", sees),
            ("Each client sends", f"{update} of {examples} examples"),
            ("Compression", self.compression or "none"),
            ("Noise", noise),
            ("The server knows", "the model's weights, its loss, the batch size and the cohort"),
            ("The server does not know", "inputs, labels, the norm of any one gradient"),
            ("The server is", "honest but curious: it does not change the model"),
            ("Mode of the model", "train" if self.model.training else "eval"),
        ]


def noisy_sum(
    model: torch.nn.Module,
    inputs: Any,
    labels: Any,
    *,
    noise: float,
    clip: float,
    loss: Loss | None = None,
    generator: torch.Generator | None = None,
) -> list[torch.Tensor]:
    """Return one step of Opacus' DP-SGD: the sum of clipped gradients, with its noise.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed.
    inputs, labels : tensors
        The batch.
    noise, clip : float
        Noise multiplier and bound of the norm.
    loss : callable, optional
        A mean over the batch.
    generator : torch.Generator, optional
        Of the noise.

    Raises
    ------
    UsageError
        If Opacus is not installed, or has no gradient of single examples for the model (BatchNorm).
    """
    try:
        from opacus import GradSampleModule
        from opacus.optimizers.optimizer import DPOptimizer
    except ImportError:
        hint = "Install it: pip install 'privagg[torch]'"
        raise UsageError("opacus", "not installed", "Opacus", hint) from None
    measure = torch.nn.functional.cross_entropy if loss is None else loss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sampled = GradSampleModule(copy.deepcopy(model))
            held = [p for p in sampled.parameters() if p.requires_grad]
            optimizer = DPOptimizer(
                torch.optim.SGD(held, lr=1.0),
                noise_multiplier=float(noise),
                max_grad_norm=float(clip),
                expected_batch_size=len(inputs),
                loss_reduction="mean",
                generator=generator,
            )
            measure(sampled(inputs), labels).backward()
            optimizer.pre_step()
        except (RuntimeError, ValueError, IndexError, NotImplementedError) as error:
            raise UsageError(
                "model",
                type(model).__name__,
                "one that Opacus has gradients of examples for",
                f"{str(error).strip()[:200]} BatchNorm mixes examples: replace it by GroupNorm.",
            ) from error
    return [p.grad.detach() * len(inputs) for p in held]


def train(
    model: torch.nn.Module,
    inputs: Any,
    labels: Any,
    *,
    epochs: int,
    batch: int = 32,
    rate: float = 1e-3,
    loss: Loss | None = None,
    seed: int = 0,
) -> torch.nn.Module:
    """Return a copy of the model after some epochs of Adam: a later stage of training.

    Gradients of examples that the model fits are small: an untrained model is the worst case.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed.
    inputs, labels : arrays
        The examples.
    epochs : int
        From 0, which returns a copy as it is.
    batch, rate
        Of the training.
    loss : callable, optional
        Mean cross-entropy if left out.
    seed : int
        Of the order.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    count = whole("epochs", epochs, 0, 10**6)
    later = copy.deepcopy(model)
    if not count:
        return later
    x, y = torch.as_tensor(np.asarray(inputs)), torch.as_tensor(np.asarray(labels))
    measure = torch.nn.functional.cross_entropy if loss is None else loss
    optimizer = torch.optim.Adam(later.parameters(), lr=rate)
    source = torch.Generator().manual_seed(seed)
    mode = later.training
    later.train()
    for _ in range(count):
        order = torch.randperm(len(x), generator=source)
        for at in range(0, len(x), batch):
            pick = order[at : at + batch]
            optimizer.zero_grad()
            measure(later(x[pick]), y[pick]).backward()
            optimizer.step()
    later.train(mode)
    return later


def _flat(parts: Sequence[Any]) -> NDArray[np.float32]:
    joined: NDArray[np.float32] = np.concatenate(
        [part.detach().cpu().numpy().astype(np.float32).ravel() for part in parts]
    )
    return joined


def _number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
        raise UsageError(name, value, f"a number above {max(low, 0):g} and below {high:g}")
