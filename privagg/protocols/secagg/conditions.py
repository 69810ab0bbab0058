"""The five conditions on a sparse graph, for numbers that were already validated.

:mod:`privagg.protocols.secagg.thresholds` states them and is the part to call. Here ``n`` clients,
``c`` corrupt ones, ``d`` dropouts and ``k`` neighbours; `two` says that the server may tell two
stories about who survived. Every decision is exact: floating point takes it where it can, whole
numbers where a value lies too close to its limit.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from privagg.protocols.secagg.hypergeometric import lower_quantile, upper_quantile

__all__ = [
    "bounds",
    "connected",
    "corrupt_bound",
    "log_disconnection",
    "search",
    "surviving_bound",
]

TIE = 1e-9
"""Distance from the limit, in logarithms, below which whole numbers decide on condition 1."""


def search(
    n: int, c: int, d: int, two: bool, sigma: int, eta: int, start: int = 2
) -> tuple[int, int, int, int] | None:
    """Return ``(k, t, t1, t2)`` for the smallest even ``k`` from `start` to ``n - 2`` that works.

    One more neighbour raises ``t1`` and ``t2`` by at most one each and lowers neither. So a
    threshold that lacks ``x`` shares needs at least ``x`` more neighbours, or ``2 x`` where the
    smallest threshold itself rises with every other neighbour: whole stretches of ``k`` are
    skipped, and none that works is missed.
    """
    k = _least_connected(n, min(n, c + d), sigma, start)
    while k is not None and k <= n - 2:
        t1, low, high = bounds(n, c, d, k, two, sigma, eta)
        if low <= high:
            return k, low, t1, high
        lack = (1 + two) * (low - high)
        k += lack + lack % 2
    return None


def bounds(n: int, c: int, d: int, k: int, two: bool, sigma: int, eta: int) -> tuple[int, int, int]:
    """Return ``t1`` and the smallest and the largest allowed threshold (conditions 2 to 5)."""
    t1 = corrupt_bound(n, c, k, sigma)
    low = (k + t1) // 2 + 1 if two else t1 + 1
    return t1, max(low, 2), surviving_bound(n, n - d, k, eta)


def corrupt_bound(n: int, c: int, k: int, sigma: int) -> int:
    """Condition 2: the corrupt neighbours that no client exceeds."""
    return upper_quantile(n, c, k, Fraction(1, n << (sigma + 1)))


def surviving_bound(n: int, survivors: int, k: int, eta: int) -> int:
    """Condition 3: the surviving neighbours that every client keeps."""
    return lower_quantile(n, survivors, k, Fraction(1, n << eta))


def connected(n: int, bad: int, k: int, sigma: int) -> bool:
    """Condition 1: whether the probability of a cut is below ``2**-(sigma + 1)``."""
    gap = log_disconnection(n, bad, k) + (sigma + 1) * math.log(2)
    return gap < 0 if abs(gap) > TIE else _connected_exactly(n, bad, k, sigma)


def log_disconnection(n: int, bad: int, k: int) -> float:
    """Return the natural logarithm of ``n (n - k - 1) / 2 * C(bad, k) / C(n, k)``."""
    if k > bad or k >= n - 1:
        return -math.inf
    i = np.arange(k, dtype=np.float64)
    return math.log(n) + math.log((n - k - 1) / 2) + float(np.log((bad - i) / (n - i)).sum())


def _connected_exactly(n: int, bad: int, k: int, sigma: int) -> bool:
    return n * (n - k - 1) * math.perm(bad, k) << sigma < math.perm(n, k)


def _least_connected(n: int, bad: int, sigma: int, start: int) -> int | None:
    """Return the smallest even ``k >= start`` that fulfils condition 1 (monotone in ``k``)."""
    low, end = (start + 1) // 2, (n - 2) // 2
    high = low
    # Doubling first: the answer is small even where a billion clients allow a large one.
    while high < end and not connected(n, bad, 2 * high, sigma):
        low, high = high + 1, min(2 * high, end)
    if high > end or not connected(n, bad, 2 * high, sigma):
        return None
    while low < high:
        middle = (low + high) // 2
        if connected(n, bad, 2 * middle, sigma):
            high = middle
        else:
            low = middle + 1
    return 2 * low
