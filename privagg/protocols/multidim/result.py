"""What a simulated survey gives back: estimates, their errors, what they cost, how private."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg.mechanisms.estimate import Estimate
from privagg.protocols.multidim.params import Params

__all__ = ["Result", "Truth"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """What only a simulation can know.

    Attributes
    ----------
    frequencies : dict of attribute to (k,) float64 array
        Of each value, among the respondents.
    unknown : dict of attribute to int
        How many values were outside the declared domain.
    """

    frequencies: dict[str, Vector] = field(repr=False)
    unknown: dict[str, int] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of the runs of one simulated survey.

    An MSE is, as in the papers, the mean over attributes of the mean over values of the squared
    error of an estimated frequency among the respondents.

    Attributes
    ----------
    params : Params
        The survey.
    users : int
        Respondents.
    runs : int
        How often all of them reported.
    estimates : dict of attribute to Estimate
        Of the first run.
    post : str or None
        How the published estimates were made of the raw ones.
    mse, mse_error : float
        Of the published estimates: mean over the runs, and the standard error of that mean
        (0 for a single run, which has none).
    mse_raw, mse_raw_error : float
        The same of the raw, unbiased estimates.
    mse_theory : float
        What the closed form says of the raw ones.
    covered : float
        Part of all intervals, over values and runs, that held the true frequency.
    bytes_per_report : float
        On the wire, the header of a batch left out.
    seconds : dict
        CPU seconds of one run: ``respondents`` for all of them, and ``aggregator``.
    truth : Truth
        What only a simulation can know.
    insecure_seed : bool
        The runs were seeded: whoever knows the seed knows every value.
    """

    params: Params
    users: int
    runs: int
    estimates: dict[str, Estimate] = field(repr=False)
    post: str | None
    mse: float
    mse_error: float
    mse_raw: float
    mse_raw_error: float
    mse_theory: float
    covered: float
    bytes_per_report: float
    seconds: dict[str, float]
    truth: Truth = field(repr=False)
    insecure_seed: bool
