"""Amplification by shuffling: what a central observer learns when a trusted shuffler mixes reports.

Respondents send reports of a local randomiser, each with epsilon-local differential privacy, to a
shuffler that drops all identities and permutes the reports uniformly at random. Whoever sees only
the permuted reports sees them under a smaller central (epsilon, delta). Adjacency: the value of one
of n respondents is replaced by any other.

This holds against those who see the shuffler's output only. The shuffler itself, or an aggregator
that colludes with it or can link reports to senders, is left with the local epsilon. Nothing is
amplified against reports that carry something else that tells respondents apart, such as a time,
an address, or an attribute that was sampled from a list known to be one's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms.exact import check_epsilon

__all__ = ["Amplified", "Bound", "amplified", "closed_form", "divergence"]

Bound = Literal["best", "closed form", "clones"]
"""Which bound is asked for."""

_MOST = 10**9
_BUCKETS = 120
_REACH = 12.0
"""How many standard deviations of a binomial are summed; what lies beyond is added to delta."""

_BEYOND = 2 * math.exp(-(_REACH**2) / 2)
"""Hoeffding's bound of what lies beyond, for a fair coin."""

_WORTH = 0.99
_ROUNDING = 1e-8
"""More than what rounding changes of a binomial's probabilities, as a part of them."""


@dataclass(frozen=True)
class Amplified:
    """What shuffling makes of a local guarantee.

    Attributes
    ----------
    epsilon, delta : float
        The central guarantee: (epsilon, delta)-differential privacy of the shuffled reports, one
        respondent's value replaced. Where nothing is amplified, the local epsilon, with delta 0.
    holds : bool
        Whether it is below the local one.
    reason : str
        Which theorem it is from, or why it is the local one.
    local : float
        The local epsilon.
    users : int
        How many reports are shuffled.
    """

    epsilon: float
    delta: float
    holds: bool
    reason: str
    local: float
    users: int


def amplified(epsilon: float, n: int, delta: float, bound: Bound = "best") -> Amplified:
    """Return the central guarantee of n shuffled reports.

    Parameters
    ----------
    epsilon : float
        The local epsilon of each report, above 0; delta must be 0 there.
    n : int
        Number of reports that are mixed together; 1 to 1e9.
    delta : float
        Of the central guarantee; strictly between 0 and 1. It should be far below 1 / n.
    bound : {"best", "closed form", "clones"}
        "closed form": theorem 3.1 of Feldman, McMillan, Talwar, "Hiding Among the Clones", FOCS
        2021, only where its condition holds. "clones": the same reduction, its divergence summed up
        numerically, with all rounding upwards; it has no condition. "best": the smaller.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    local = check_epsilon(epsilon)
    users = whole("n", n, 1, _MOST)
    real = isinstance(delta, float | int | np.floating) and not isinstance(delta, bool)
    if not real or not 0 < delta < 1:
        raise UsageError("delta", delta, "a number strictly between 0 and 1")
    if bound not in get_args(Bound):
        raise UsageError("bound", bound, f"one of {', '.join(get_args(Bound))}")
    target = float(delta)
    found, reason = local, "nothing is amplified: no bound is below the local epsilon"
    if bound != "clones":
        closed = closed_form(local, users, target)
        if closed is None:
            most = users / (16 * math.log(4 / target))
            limit = f"ln({most:.4g}) = {math.log(most):.4g}" if most > 1 else "nothing"
            reason = f"the theorem asks for a local epsilon up to {limit} with these n and delta"
        elif closed < found:
            found, reason = closed, "Feldman, McMillan, Talwar 2021, theorem 3.1, closed form"
    if bound != "closed form" and local < 30:
        summed = _smallest(local, users, target)
        if summed < found:
            found, reason = summed, "Feldman, McMillan, Talwar 2021, reduction to clones, summed up"
    # A trace below the local epsilon is not worth a delta.
    holds = found < _WORTH * local
    if not holds and found < local:
        found, reason = local, "too few reports: shuffling takes off less than 1 %"
    return Amplified(found, target if holds else 0.0, holds, reason, local, users)


def closed_form(epsilon: float, n: int, delta: float) -> float | None:
    """Return the closed form of theorem 3.1, or None where its condition fails.

    With e the local epsilon: if e <= ln(n / (16 ln(4 / delta))), the central epsilon is
    ln(1 + (e**e - 1) / (e**e + 1) (8 sqrt(e**e ln(4 / delta) / n) + 8 e**e / n)).
    """
    if epsilon > 40 or math.exp(epsilon) * 16 * math.log(4 / delta) > n:
        return None
    weight = math.exp(epsilon)
    spread = 8 * math.sqrt(weight * math.log(4 / delta) / n) + 8 * weight / n
    return math.log1p(math.tanh(epsilon / 2) * spread)


def divergence(central: float, epsilon: float, n: int) -> float:
    """Return an upper bound of delta at a central epsilon, by the reduction to clones.

    Every randomiser with a local epsilon e writes the report of anybody else as a mixture in which
    the reports of the two values that are to be told apart have weight e**-e / 2 each. So of the
    n - 1 others C ~ Bin(n - 1, e**-e) are clones, A ~ Bin(C, 1/2) of them of the first kind, and
    what is seen is no more than the counts (A + D, C - A + 1 - D) or the same swapped, with
    D ~ Bernoulli(e**e / (e**e + 1)). Given C the likelihood ratio grows with the first count, so
    the hockey-stick divergence is a difference of binomial tails; it falls in C, so that a bucket
    of different C counts as its least.

    Parameters
    ----------
    central : float
        From 0.
    epsilon, n
        As for :func:`amplified`.
    """
    return _Clones(epsilon, n).delta(central)


class _Clones:
    """The buckets of C and the binomial tails of each, kept for many central epsilons."""

    def __init__(self, epsilon: float, n: int) -> None:
        self._keep = 1 / (1 + math.exp(-epsilon))
        others, rate = n - 1, math.exp(-epsilon)
        mean, spread = others * rate, math.sqrt(others * rate * (1 - rate))
        # What lies beyond is few clones, counted as none, or many, counted as the last bucket.
        low = max(0, math.floor(mean - _REACH * spread - 80))
        high = min(others, math.ceil(mean + _REACH * spread + 80))
        step = max(1, -(-(high + 1 - low) // _BUCKETS))
        masses = _binomial(others, low, high, rate)
        starts = np.arange(0, masses.size, step)
        weights = np.add.reduceat(masses, starts) * (1 + _ROUNDING)
        self._buckets = [(0, _BEYOND)]
        self._buckets += list(zip((starts + low).tolist(), weights.tolist(), strict=True))
        self._tails = [_Tail(count) for count, _ in self._buckets]

    def delta(self, central: float) -> float:
        """Return the divergence at e**central."""
        keep, grown = self._keep, math.exp(central)
        if keep <= grown * (1 - keep):
            return 0.0
        # More than e**central: keep u + (1 - keep) (c + 1 - u) over the same with u and c + 1 - u
        # swapped, where u is the first count.
        slope = (2 * keep - 1) * (1 + grown)
        offset = grown * keep - (1 - keep)
        total = 0.0
        for (count, weight), tail in zip(self._buckets, self._tails, strict=True):
            least = math.floor((count + 1) * offset / slope) + 1
            before, after = tail(least - 1), tail(least)
            first = (keep * before + (1 - keep) * after) * (1 + _ROUNDING)
            second = ((1 - keep) * before + keep * after) * (1 - _ROUNDING)
            total += weight * (max(0.0, first - grown * second) + (1 + grown) * _BEYOND)
        return total


class _Tail:
    """P(Bin(count, 1/2) >= t), for t by call."""

    def __init__(self, count: int) -> None:
        reach = math.ceil(_REACH * math.sqrt(count) / 2) + 1
        self._low = max(0, count // 2 - reach)
        high = min(count, count // 2 + reach + 1)
        tails = np.cumsum(_binomial(count, self._low, high, 0.5)[::-1])[::-1]
        self._tails = np.minimum(tails / tails[0], 1.0)

    def __call__(self, least: int) -> float:
        at = least - self._low
        if at <= 0:
            return 1.0
        return float(self._tails[at]) if at < self._tails.size else 0.0


def _binomial(count: int, low: int, high: int, rate: float) -> NDArray[np.float64]:
    """Return P(Bin(count, rate) = t) for t from low to high, scaled to add up to 1.

    By ratios of neighbours, which are near 1 where it matters: there is no large logarithm whose
    digits could cancel.
    """
    if rate >= 1:
        return np.where(np.arange(low, high + 1) == count, 1.0, 0.0)
    at = np.arange(low, high, dtype=np.float64)
    steps = np.log((count - at) * rate / ((at + 1) * (1 - rate)))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum(), np.float64)


def _smallest(epsilon: float, n: int, delta: float) -> float:
    """Return the least central epsilon whose divergence is at most delta; the local one if none."""
    clones = _Clones(epsilon, n)
    low, high = 0.0, epsilon
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if clones.delta(middle) <= delta else (middle, high)
    return high
