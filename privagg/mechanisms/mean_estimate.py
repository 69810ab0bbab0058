"""The estimate of a mean, with its variance and interval; the raw, unbiased one always kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["MeanEstimate"]


@dataclass(frozen=True)
class MeanEstimate:
    """An estimated mean, in the units of the domain.

    Attributes
    ----------
    raw : float
        Unbiased; it may lie outside the domain.
    value : float
        The same, moved to the domain's nearer end if it lies outside: that to publish.
    variance : float
        Variance of `raw`, squared units of the domain: the closed form at the estimated second
        moment of the values, and at its worst where reports do not tell it.
    low, high : float
        Interval around `raw`, by the normal approximation.
    users : int
        How many reports were counted.
    confidence : float
        Probability with which the interval holds the true mean.
    population : bool
        Whether variance and interval count the respondents as a sample of a large population; if
        not, they are about the respondents themselves, and all noise is the mechanism's.
    mechanism : str
        The mechanism's name.
    epsilon, epsilon_realised, delta : float
        What was stated, what each report really has, and what it may be missed by.
    insecure : bool
        Whether any report came from a seed.
    """

    raw: float
    value: float
    variance: float
    low: float
    high: float
    users: int
    confidence: float
    population: bool
    mechanism: str
    epsilon: float
    epsilon_realised: float
    delta: float
    insecure: bool

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict: value (the word mean), estimate, raw, deviation, low, high."""
        return [
            {
                "value": "mean",
                "estimate": self.value,
                "raw": self.raw,
                "deviation": self.variance**0.5,
                "low": self.low,
                "high": self.high,
            }
        ]
