"""Exact confidence bounds of a probability, from how often something happened."""

from __future__ import annotations

import math
from collections.abc import Callable

from privagg._validate import whole
from privagg.errors import UsageError

__all__ = ["lower_bound", "upper_bound"]

_TERMS = 40_000


def lower_bound(hits: int, trials: int, alpha: float) -> float:
    """Return a bound that the probability is below with probability at most `alpha`.

    Source: Clopper, Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of
    the Binomial", Biometrika 1934: the least p with which at least so many hits have probability
    `alpha`.

    Parameters
    ----------
    hits, trials : int
        How often it happened, of how many.
    alpha : float
        Strictly between 0 and 1.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """
    _check(hits, trials, alpha)
    if hits == 0:
        return 0.0
    return _root(lambda p: _beta(p, hits, trials - hits + 1) - alpha)


def upper_bound(hits: int, trials: int, alpha: float) -> float:
    """Return a bound that the probability is above with probability at most `alpha`.

    Parameters
    ----------
    hits : int
        How often it happened.
    trials : int
        How often it could have.
    alpha : float
        Probability of a wrong bound, above 0 and below 1.
    """
    return 1.0 - lower_bound(trials - hits, trials, alpha)


def _check(hits: int, trials: int, alpha: float) -> None:
    whole("trials", trials, 1, 2**53)
    whole("hits", hits, 0, trials)
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise UsageError("alpha", alpha, "a number between 0 and 1")


def _root(rising: Callable[[float], float]) -> float:
    """Return where a rising function crosses zero, rounded down: by bisection."""
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function: P(at least a hits of a + b - 1) at x."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front += a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) / a * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of the function (DLMF 8.17.22) by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / _off_zero(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _off_zero(1 + term * d, tiny)
            c = _off_zero(1 + term / c, tiny)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _off_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
