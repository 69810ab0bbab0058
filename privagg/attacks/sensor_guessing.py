"""What guessing achieves, and whether an attack does better."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError

__all__ = ["best_guess", "best_guess_of_sum", "tail"]

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@lru_cache(maxsize=64)
def _counts(terms: int, bound: int) -> tuple[float, ...]:
    """Return the probability of each sum of `terms` uniform readings from 0 to `bound`."""
    one = np.full(bound + 1, 1 / (bound + 1))
    result = np.ones(1)
    for _ in range(terms):
        result = np.convolve(result, one)
    return tuple(result)


def best_guess(honest_sums: _Ints, honest: int, bound: int) -> tuple[_Ints, _Floats]:
    """Return the likeliest reading of one of `honest` nodes whose sum is known, and its chance.

    Parameters
    ----------
    honest_sums : (runs,) int64 array
        Sum of the readings that the adversary does not know.
    honest : int
        How many these are; 1 is no guess.
    bound : int
        Readings are uniform from 0 to this.

    Returns
    -------
    guess : (runs,) int64 array
        What to say.
    chance : (runs,) float array
        The probability that it is right, given the sum: nobody who knows no more can do better.
    """
    rest = np.array(_counts(honest - 1, bound))
    guesses = np.zeros(len(honest_sums), np.int64)
    chances = np.zeros(len(honest_sums))
    for at, total in enumerate(honest_sums.tolist()):
        values = np.arange(max(0, total - len(rest) + 1), min(bound, total) + 1)
        weight = rest[total - values]
        best = int(np.argmax(weight))
        guesses[at] = values[best]
        chances[at] = weight[best] / weight.sum()
    return guesses, chances


def best_guess_of_sum(terms: int, bound: int) -> tuple[int, float]:
    """Return the likeliest sum of `terms` readings, and its chance.

    Parameters
    ----------
    terms : int
        How many readings.
    bound : int
        The largest reading.
    """
    chances = np.array(_counts(terms, bound))
    return int(np.argmax(chances)), float(chances.max())


def tail(runs: int, recovered: int, chance: float) -> float:
    """Return the probability of `recovered` or more successes in `runs` at `chance` each.

    The one-sided exact binomial test: small where an attack does better than guessing.

    Raises
    ------
    UsageError
        If the numbers are no counts, or the chance is no probability.
    """
    whole("runs", runs, 0, 10**9)
    whole("recovered", recovered, 0, runs)
    if not 0 <= chance <= 1:
        raise UsageError("chance", chance, "a probability")
    if recovered == 0 or chance == 1:
        return 1.0
    if chance == 0:
        return 0.0
    log_p, log_q = math.log(chance), math.log1p(-chance)
    terms = [
        math.lgamma(runs + 1)
        - math.lgamma(k + 1)
        - math.lgamma(runs - k + 1)
        + k * log_p
        + (runs - k) * log_q
        for k in range(recovered, runs + 1)
    ]
    top = max(terms)
    return min(1.0, math.exp(top) * math.fsum(math.exp(term - top) for term in terms))
