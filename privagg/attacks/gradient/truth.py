"""What the auditor knows and the server does not: each layer's inputs. Needs ``torch``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.torch_models import require_torch
from privagg.attacks.gradient.views import Batch
from privagg.errors import UsageError

__all__ = ["LayerTruth", "layer_truths"]

_MOST = 512
"""Other examples that are passed through the model, for the chance line."""


@dataclass(frozen=True)
class LayerTruth:
    """Inputs of one linear layer.

    Attributes
    ----------
    inputs : (B, d) float array
        Of the batch; of a layer that sees several positions of an example, all of them.
    others : (n, d) float array
        Of examples that are not in the batch; perhaps none.
    zero_share : float
        Share of exact zeros among the gradients of the layer's outputs: what a ReLU turns off.
    is_input : bool
        Whether these are the model's own inputs, flat.
    """

    inputs: NDArray[np.float64] = field(repr=False)
    others: NDArray[np.float64] = field(repr=False)
    zero_share: float
    is_input: bool


def layer_truths(
    model: Any,
    batches: Sequence[Batch],
    others: NDArray[Any] | None = None,
    loss: Callable[[Any, Any], Any] | None = None,
) -> dict[str, LayerTruth]:
    """Return the inputs of every linear layer, by its name.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed: a copy is run, in the same mode.
    batches : sequence of Batch
        The clients' examples; each client's batch is run by itself, as BatchNorm would see it.
    others : (n, ...) array, optional
        Examples that are not in the batches.
    loss : callable, optional
        Mean cross-entropy if left out.

    Raises
    ------
    UsageError
        If the model does not take the examples.
    """
    torch = require_torch()
    measure = torch.nn.functional.cross_entropy if loss is None else loss
    own = copy.deepcopy(model)
    seen: dict[str, list[NDArray[Any]]] = {}
    outputs: dict[str, list[Any]] = {}
    recording = True

    def watch(name: str) -> Callable[[Any, tuple[Any, ...], Any], None]:
        def hook(_module: Any, given: tuple[Any, ...], out: Any) -> None:
            rows = given[0].detach().reshape(-1, given[0].shape[-1]).double().numpy()
            seen.setdefault(name, []).append(rows)
            if recording and out.requires_grad:
                out.retain_grad()
                outputs.setdefault(name, []).append(out)

        return hook

    for name, part in own.named_modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_hook(watch(name or "model"))
    try:
        for batch in batches:
            x = torch.as_tensor(np.asarray(batch.inputs))
            measure(own(x), torch.as_tensor(np.asarray(batch.labels))).backward()
        inside = {name: np.concatenate(rows) for name, rows in seen.items()}
        zeros = {name: _zeros(parts) for name, parts in outputs.items()}
        seen.clear()
        if others is not None and len(others):
            recording = False
            own.eval()
            with torch.no_grad():
                own(torch.as_tensor(np.asarray(others[:_MOST])))
        outside = {name: np.concatenate(rows) for name, rows in seen.items()}
    except (RuntimeError, ValueError, IndexError) as error:
        shape = np.asarray(batches[0].inputs).shape
        raise UsageError(
            "inputs", shape, "batches that the model and the loss take", str(error)[:200]
        ) from error
    flat = np.concatenate([np.asarray(b.inputs, np.float64).reshape(len(b), -1) for b in batches])
    return {
        name: LayerTruth(
            inputs=rows,
            others=outside.get(name, np.zeros((0, rows.shape[1]))),
            zero_share=zeros.get(name, 0.0),
            is_input=rows.shape == flat.shape and bool(np.allclose(rows, flat, atol=1e-6)),
        )
        for name, rows in inside.items()
    }


def _zeros(parts: Sequence[Any]) -> float:
    gradients = [part.grad for part in parts if part.grad is not None]
    total = sum(int(g.numel()) for g in gradients)
    return sum(int((g == 0).sum()) for g in gradients) / total if total else 0.0
