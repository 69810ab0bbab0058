"""Bags of rows with like scores: one-dimensional k-means with a least size, solved exactly.

For the instance-level loss the best bags hold rows whose expected responses are alike. In one
dimension an optimal clustering cuts the sorted scores into runs, and a run of 2k or more can be cut
again, so that only lengths from k to 2k - 1 are tried: O(n k) after sorting.

The score must come from elsewhere: an earlier model, or public knowledge. Bags sorted by the
responses themselves, or by a model fitted to them, reveal them by who is with whom, and no noise
on the sums mends that.

Source: Javanmard, Fahrbach, Mirrokni, "PriorBoost: An Adaptive Algorithm for Learning from
Aggregate Responses", ICML 2024 (arXiv 2402.04987), for the reduction; the recursion is our own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg._validate import as_array, refuse_masked, whole
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags

__all__ = ["by_score"]

Reals = NDArray[np.float64]


def by_score(scores: Any, size: int) -> Bags:
    """Return the bags of at least `size` rows with the least sum of squares within bags.

    Parameters
    ----------
    scores : (n,) array
        A prior guess of each row's response, finite; public, or of no more privacy than the bags.
    size : int
        The least number of rows of a bag, from 1 to n; bags have at most ``2 size - 1`` rows.

    Raises
    ------
    UsageError
        If a score is not finite, or the size is not allowed.
    """
    refuse_masked("scores", scores)
    column = as_array("scores", scores)
    if column.ndim != 1 or not column.size or column.dtype.kind not in "fiu":
        raise UsageError("scores", f"shape {column.shape}, {column.dtype}", "a number for each row")
    column = column.astype(np.float64)
    if not (np.abs(column) <= 1e100).all():
        raise UsageError("scores", "a score that is not finite", "numbers up to 1e100")
    k = whole("size", size, 1, column.size)
    order = np.argsort(column, kind="stable")
    ordered = column[order] - column.mean()
    cuts = (_lengths if JIT else _lengths_plain)(ordered, k)
    ends = []
    at = column.size
    while at > 0:
        ends.append(at)
        at -= int(cuts[at])
    number = np.searchsorted(np.array(ends[::-1]), np.arange(column.size), side="right")
    labels = np.empty((column.size, 1), np.int32)
    labels[order, 0] = number
    return Bags(column.size, labels)


@kernel
def _lengths(ordered: Any, k: int) -> Any:
    """Return for each prefix the length of the last run of its best clustering; 0: none."""
    n = ordered.size
    first = np.zeros(n + 1)
    second = np.zeros(n + 1)
    for i in range(n):
        first[i + 1] = first[i] + ordered[i]
        second[i + 1] = second[i] + ordered[i] * ordered[i]
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros(n + 1, np.int64)
    for i in range(k, n + 1):
        for length in range(k, min(2 * k, i + 1)):
            before = i - length
            total = first[i] - first[before]
            cost = best[before] + second[i] - second[before] - total * total / length
            if cost < best[i]:
                best[i] = cost
                taken[i] = length
    return taken


def _lengths_plain(ordered: Reals, k: int) -> NDArray[np.int64]:
    """Do the same with slices."""
    n = ordered.size
    best, taken = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
    best[0] = 0.0
    for i in range(k, n + 1):
        for length in range(k, min(2 * k, i + 1)):
            run = ordered[i - length : i]
            cost = best[i - length] + float(((run - run.mean()) ** 2).sum())
            if cost < best[i]:
                best[i], taken[i] = cost, length
    return taken
