"""What a simulated survey gives back: estimates, how far off they are, what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from privagg.mechanisms.estimate import Vector
from privagg.protocols.locational.estimation import RegionEstimates
from privagg.protocols.locational.params import Params

__all__ = ["Result", "Truth"]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What only a simulation can know.

    Attributes
    ----------
    frequencies : (R, k) float64 array
        Of each region's cells, per respondent; of numbers the two that rounding gives on average.
    estimates : (R, J) float64 array
        What is estimated: counts, or means (NaN where a region has no respondent).
    count : (R,) float64 array
        Respondents of each region whose value is known.
    unknown, clamped : int
        Items in no region or without a value, and numbers moved to an end of their range.
    mse, mse_raw : float
        Mean over cells of the squared error of published and of raw frequencies; over all runs.
    mse_zero, mse_uniform : float
        The same of a predictor that says 0 everywhere, and of one that spreads all evenly: what
        knows nothing. A survey with a larger error tells less than they do.
    mse_estimates : float
        Mean of the squared errors of the first run's estimates, in their units, those withheld left
        out. NaN if all are.
    """

    frequencies: Vector = field(repr=False)
    estimates: Vector = field(repr=False)
    count: Vector = field(repr=False)
    unknown: int
    clamped: int
    mse: float
    mse_raw: float
    mse_zero: float
    mse_uniform: float
    mse_estimates: float

    @property
    def beaten(self) -> bool:
        """Whether the published frequencies are no better than what knows nothing."""
        return self.mse >= min(self.mse_zero, self.mse_uniform)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of the runs of one simulated survey.

    Attributes
    ----------
    params : Params
        The survey.
    users, runs : int
        Respondents; how often all of them reported.
    estimates : RegionEstimates
        Of the first run.
    mse_theory : float
        What the closed form says of the raw frequencies' error.
    covered, intervals : float, int
        Part of the intervals of raw estimates, over regions, columns and runs, that held the truth,
        and how many there were; withheld ones are none.
    covered_all : float or None
        The same with withheld means counted as intervals of the whole range, which hold the truth.
        Where most regions are nearly empty, means are shown of those whose count came out too high:
        of these alone, `covered` may be far below the confidence.
    covered_counts : float
        The same of the counts' intervals.
    covered_smooth : float or None
        The same of the smoothed means'.
    bytes_per_report : float
        On the wire.
    seconds : dict
        CPU seconds of one run: ``respondents`` for all of them, and ``aggregator``.
    truth : Truth
        What only a simulation can know.
    insecure_seed : bool
        The runs were seeded: whoever knows the seed knows every region and value.
    """

    params: Params
    users: int
    runs: int
    estimates: RegionEstimates = field(repr=False)
    mse_theory: float
    covered: float | None
    intervals: int
    covered_all: float | None
    covered_counts: float
    covered_smooth: float | None
    bytes_per_report: float
    seconds: dict[str, float]
    truth: Truth = field(repr=False)
    insecure_seed: bool
