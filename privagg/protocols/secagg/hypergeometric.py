"""Quantiles of hypergeometric tails, decided exactly.

Draw `draws` of `population` clients without putting any back; ``X`` counts the drawn ones among
`marked`. Thresholds and degrees depend on the point at which a tail of ``X`` passes a limit such
as ``2**-41 / n``. Floating point finds that point; where a tail lies too close to the limit for
floating point to tell, whole numbers decide.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["lower_quantile", "upper_quantile"]

TIE = 1e-9
"""Relative distance from the limit below which whole numbers decide.

The floating point tails are off by less: a weight is a product of at most ``18 * sqrt(draws)``
ratios, each with four roundings of ``2**-53``, and a sum has twice as many terms, which makes
4e-10 for a billion draws.
"""


def upper_quantile(
    population: int, marked: int, draws: int, limit: Fraction, *, strict: bool = False
) -> int:
    """Return the smallest ``x`` for which ``P[X > x] <= limit``.

    Parameters
    ----------
    population, marked, draws : int
        Parameters of the hypergeometric distribution: ``0 <= marked <= population`` and
        ``0 <= draws <= population``. Not checked here.
    limit : Fraction
        From 1e-250 to below 1.
    strict : bool
        Ask for ``P[X > x] < limit`` instead.
    """
    low, high = max(0, draws + marked - population), min(draws, marked)
    if low == high:
        return low
    first, weights = _weights(population, marked, draws, low, high)
    # Summed from the far end, so that small terms are not lost: P[X >= first + i] over the limit.
    tail = np.cumsum(weights[::-1])[::-1]
    ratio = tail / (tail[0] * float(limit))
    near = np.flatnonzero(np.abs(ratio - 1.0) < TIE)
    if near.size == 0:
        return first + int(np.count_nonzero(ratio > 1.0)) - 1
    x = max(low, first + int(near[0]) - 1)
    while not _tail_fits(population, marked, draws, x, limit, strict):
        x += 1
    return x


def lower_quantile(population: int, marked: int, draws: int, limit: Fraction) -> int:
    """Return the smallest ``x`` for which ``P[X <= x] >= limit``; parameters as above.

    It is the largest ``x`` for which ``P[X < x] < limit``.
    """
    # draws - X counts the drawn clients that are not marked.
    return draws - upper_quantile(population, population - marked, draws, limit, strict=True)


def _weights(
    population: int, marked: int, draws: int, low: int, high: int
) -> tuple[int, NDArray[np.float64]]:
    """Return ``(first, w)`` with ``w[i]`` proportional to ``P[X = first + i]``, 1 at the mode.

    Hoeffding's inequality for draws without replacement, ``P[|X - mean| >= s] <=
    2 exp(-2 s**2 / draws)``, leaves less than 1e-280 outside of the window.
    """
    mode = min(max((draws + 1) * (marked + 1) // (population + 2), low), high)
    half = math.ceil(18 * math.sqrt(draws)) + 2
    first, last = max(low, mode - half), min(high, mode + half)
    rest = population - marked - draws
    up = np.arange(mode, last, dtype=np.float64)
    down = np.arange(mode, first, -1, dtype=np.float64)
    rising = np.cumprod((draws - up) * (marked - up) / ((up + 1) * (rest + up + 1)))
    falling = np.cumprod(down * (rest + down) / ((draws - down + 1) * (marked - down + 1)))
    return first, np.concatenate((falling[::-1], np.ones(1), rising))


def _tail_fits(
    population: int, marked: int, draws: int, x: int, limit: Fraction, strict: bool
) -> bool:
    """Whether ``P[X > x] <= limit`` (``<`` if `strict`), in whole numbers."""
    high = min(draws, marked)
    if x >= high:
        return True
    at = x + 1
    term = math.comb(marked, at) * math.comb(population - marked, draws - at)
    total = term
    rest = population - marked - draws
    for j in range(at, high):
        term = term * (draws - j) * (marked - j) // ((j + 1) * (rest + j + 1))
        total += term
    left = total * limit.denominator
    right = math.comb(population, draws) * limit.numerator
    return left < right if strict else left <= right
