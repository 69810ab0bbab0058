"""Checks of what the attacks on local differential privacy are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms import FrequencyOracle
from privagg.mechanisms.estimate import Vector, interval_factor
from privagg.protocols.multidim import Params, TupleReports

__all__ = [
    "check_beliefs",
    "check_confidence",
    "check_faked",
    "check_oracle",
    "check_params",
    "check_reports",
    "check_seed",
]


def check_oracle(oracle: object) -> None:
    """Refuse what is no frequency oracle.

    Parameters
    ----------
    oracle : object
        A frequency oracle.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if not isinstance(oracle, FrequencyOracle):
        hint = "Such as privagg.mechanisms.GRR(domain, epsilon)."
        raise UsageError("oracle", type(oracle).__name__, "a frequency oracle", hint)


def check_params(params: object) -> None:
    """Refuse what is no survey.

    Parameters
    ----------
    params : object
        What should be the parameters of a survey.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params")


def check_faked(params: object) -> None:
    """Refuse what is no survey with fakes.

    Parameters
    ----------
    params : object
        What should be the parameters of a survey with fakes.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if not isinstance(params, Params) or not params.protocol.faked:
        found = params.protocol.value if isinstance(params, Params) else type(params).__name__
        raise UsageError("params", found, "a survey with fakes: rs+fd or rs+rfd")


def check_reports(params: Params, reports: object) -> None:
    """Refuse what are no reports of this survey.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    reports : object
        What should be reports of it.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if not isinstance(reports, TupleReports):
        raise UsageError("reports", type(reports).__name__, "TupleReports")
    if reports.params.digest != params.digest:
        raise UsageError("reports", "those of another survey", "reports of this one")


def check_beliefs(params: Params, beliefs: object) -> list[Vector]:
    """Return beliefs as arrays: for each attribute numbers from 0 that add up to 1.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    beliefs : sequence of arrays
        One per attribute, of its number of values; numbers from 0 that add up to 1.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if not isinstance(beliefs, Sequence) or isinstance(beliefs, str | bytes):
        raise UsageError("beliefs", type(beliefs).__name__, "a list of arrays, one per attribute")
    try:
        arrays = [np.asarray(one, np.float64) for one in beliefs]
    except (TypeError, ValueError):
        raise UsageError("beliefs", "others", "arrays of numbers") from None
    shapes, wanted = [one.shape for one in arrays], [(k,) for k in params.sizes]
    if shapes != wanted:
        raise UsageError("beliefs", f"shapes {shapes}", f"shapes {wanted}")
    if not all(bool((one >= 0).all()) and abs(one.sum() - 1) <= 1e-6 for one in arrays):
        raise UsageError("beliefs", "others", "numbers from 0 that add up to 1, per attribute")
    return arrays


def check_seed(seed: object) -> int:
    """Return a seed, if it is one: an experiment that cannot be repeated is none.

    Parameters
    ----------
    seed : object
        Makes a run repeatable, from 0.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    return whole("seed", seed, 0, 2**64 - 1)


def check_confidence(confidence: float) -> float:
    """Return a confidence strictly between 0 and 1 as a float.

    Parameters
    ----------
    confidence : float
        Strictly between 0 and 1.
    """
    interval_factor(confidence)
    return float(confidence)
