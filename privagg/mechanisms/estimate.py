"""Frequency estimates with their variance and interval; the raw, unbiased ones always kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["Estimate", "interval_factor"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated frequencies of the values of a domain.

    Attributes
    ----------
    labels : sequence of k labels
        The values, in the order of their codes.
    raw : (k,) float64 array
        Unbiased estimates: some may be negative, and they need not add up to 1.
    values : (k,) float64 array
        The estimates after post-processing; those to publish. Biased, unless `post` is None.
    variance : (k,) float64 array
        Variance of each raw estimate, by the closed form at the estimated frequencies.
    low, high : (k,) float64 array
        Interval around each raw estimate, by the normal approximation: each alone holds the true
        frequency with probability `confidence`; all k together do not.
    users : int
        How many reports were counted.
    confidence : float
        The probability for which the intervals were made.
    population : bool
        Whether variance and intervals count the respondents as a sample of a large population;
        if not, they are about the respondents themselves, and all noise is the mechanism's.
    post : str or None
        How `values` were made of `raw`.
    mechanism : str
        The mechanism's name.
    epsilon, epsilon_realised : float
        What was stated, and what each report really has.
    insecure : bool
        Whether any report came from a seed.
    """

    labels: Sequence[Any]
    raw: Vector = field(repr=False)
    values: Vector = field(repr=False)
    variance: Vector = field(repr=False)
    low: Vector = field(repr=False)
    high: Vector = field(repr=False)
    users: int
    confidence: float
    population: bool
    post: str | None
    mechanism: str
    epsilon: float
    epsilon_realised: float
    insecure: bool

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per value: value, estimate, raw, deviation, low, high."""
        return [
            {
                "value": label,
                "estimate": float(self.values[at]),
                "raw": float(self.raw[at]),
                "deviation": float(self.variance[at] ** 0.5),
                "low": float(self.low[at]),
                "high": float(self.high[at]),
            }
            for at, label in enumerate(self.labels)
        ]


def interval_factor(confidence: float) -> float:
    """Return how many standard deviations an interval reaches to either side.

    Raises
    ------
    UsageError
        If `confidence` is no number strictly between 0 and 1.
    """
    real = isinstance(confidence, int | float | np.floating) and not isinstance(confidence, bool)
    if not real or not 0 < confidence < 1:
        raise UsageError("confidence", confidence, "a number between 0 and 1, such as 0.95")
    # From the small tail: the large one is 1 in floats where the confidence is nearly 1.
    return -NormalDist().inv_cdf((1 - float(confidence)) / 2)
