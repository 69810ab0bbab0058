"""A server that changes the model: how much it gains, and how a client notices.

Two changes make a linear layer copy single inputs into its gradient:

* an **imprint** block has the same weights in every row and rising biases: each row counts the
  inputs whose projection exceeds a threshold, and differences of neighbouring rows hold the inputs
  of one bin (Fowl et al., "Robbing the Fed", ICLR 2022);
* **trap weights** are rows whose negative part outweighs the positive one, so that hardly any input
  switches them on (Boenisch et al., "When the Curious Abandon Honesty", EuroS&P 2023).

:func:`detect` finds both in a model that a client was given, before it computes anything. A model
that passes is not proved harmless: a server may hide what it wants (SEER, 2023, does).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient.torch_models import require_torch
from privagg.errors import UsageError

__all__ = ["KINDS", "Suspicion", "detect", "expected_hits", "imprint_score", "trap_score"]

KINDS = ("imprint", "trap")
"""What is looked for."""

_IMPRINT = 0.5
_TRAP = 0.05


@dataclass(frozen=True)
class Suspicion:
    """A layer that looks made to leak.

    Attributes
    ----------
    layer : str
        Its name.
    kind : str
        ``imprint`` or ``trap``.
    score : float
        Of the detector.
    reason : str
        In words, with numbers.
    """

    layer: str
    kind: str
    score: float
    reason: str


def expected_hits(bins: int, inputs: int) -> float:
    """Return how many of N inputs an imprint block of k equally likely bins isolates, on average.

    ``N (1 - 1/k)^(N - 1)``: an input is read if no other falls into its bin, each with probability
    ``(1 - 1/k)^(N - 1)``. Over a sum of clients N is cohort times batch.

    Parameters
    ----------
    bins, inputs : int
        k and N, from 1.
    """
    k, n = whole("bins", bins, 1, 1 << 40), whole("inputs", inputs, 1, 1 << 40)
    if k == 1:
        return 1.0 if n == 1 else 0.0
    return n * math.exp((n - 1) * math.log1p(-1 / k))


def imprint_score(weight: NDArray[Any]) -> float:
    """Return the share of rows that are parallel to the most common one; 1 / h for random rows."""
    rows = _rows(weight)
    norms = np.linalg.norm(rows, axis=1)
    kept = rows[norms > 1e-12 * max(float(norms.max()), 1e-300)]
    if len(kept) < 2:
        return 0.0
    unit = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    if unit.shape[1] < 8:
        return 0.0  # In few dimensions rows are parallel by chance.
    alike = np.abs(unit @ unit.T) > 0.999
    return float(alike.sum(axis=1).max()) / len(rows)


def trap_score(weight: NDArray[Any]) -> float:
    """Return the median over rows of ``(negative - positive) / (negative + positive)`` sums.

    Rows drawn from a symmetric distribution have 0 up to about ``2 / sqrt(h d)``; trap weights are
    far above it.
    """
    rows = _rows(weight)
    total = np.abs(rows).sum(axis=1)
    return float(np.median(-rows.sum(axis=1) / np.maximum(total, 1e-300)))


def _rows(weight: NDArray[Any]) -> NDArray[np.float64]:
    rows = np.asarray(weight, np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise UsageError("weight", f"shape {rows.shape}", "a finite matrix, (h, d)")
    return rows


def detect(module: Any) -> list[Suspicion]:
    """Look at every linear layer of a model that a client was given.

    Parameters
    ----------
    module : torch.nn.Module
        As received, before training on it.

    Returns
    -------
    list of Suspicion
        Empty for usual initialisations and trained models; see the module for what it does not see.
    """
    torch = require_torch()
    found = []
    for name, part in module.named_modules():
        if not isinstance(part, torch.nn.Linear) or min(part.weight.shape) < 2:
            continue
        weight = part.weight.detach().cpu().numpy()
        h, d = weight.shape
        score = imprint_score(weight)
        if score >= max(_IMPRINT, 3 / h):
            biases = None if part.bias is None else part.bias.detach().cpu().numpy()
            bins = 0 if biases is None else len(np.unique(biases))
            found.append(
                Suspicion(
                    name or "model",
                    "imprint",
                    score,
                    f"{score:.0%} of {h} rows are parallel, with {bins} different biases: a batch "
                    f"of 64 would lose about {expected_hits(max(1, bins), 64):.0f} inputs",
                )
            )
            continue
        lean = trap_score(weight)
        if lean >= max(_TRAP, 8 / math.sqrt(h * d)):
            found.append(
                Suspicion(
                    name or "model",
                    "trap",
                    lean,
                    f"weights lean to the negative side by {lean:.0%} in half of all rows: "
                    "hardly any input switches a neuron on",
                )
            )
    return found
