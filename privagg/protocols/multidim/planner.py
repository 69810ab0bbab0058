"""What a survey will be worth and cost, before anyone answers: every protocol and oracle.

Errors are closed forms, exact for the raw estimates; privacy is that of
:class:`~privagg.protocols.multidim.params.Params`. Decoding seconds are measured on this machine,
on a few thousand reports.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privagg._validate import whole
from privagg.domain import Categorical, Domain
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms.base import check_frequencies
from privagg.mechanisms.estimate import interval_factor
from privagg.mechanisms.exact import check_epsilon
from privagg.mechanisms.state import MAX_REPORTS
from privagg.protocols.multidim.aggregator import Aggregator
from privagg.protocols.multidim.calibration import Calibration, PrivacyWarning
from privagg.protocols.multidim.estimation import variance
from privagg.protocols.multidim.messages import report_bytes
from privagg.protocols.multidim.params import Params, Protocol, oracles_of
from privagg.protocols.multidim.respondent import randomize_codes

__all__ = ["Forecast", "Plan", "forecast", "plan", "users_needed"]

_SAMPLE = 4096
"""Reports that are decoded to see how long it takes."""

_FREE = ("ue", "lh", "rr")
"""Families that other names choose the best of."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one protocol with one oracle would give.

    Attributes
    ----------
    params : Params
        The survey.
    mse : float
        Expected MSE of the raw estimates: mean over attributes of the mean over values.
    reach : float
        Half the width of the widest of all values' intervals.
    bytes_per_report : float
        On the wire.
    decode_seconds : float or None
        CPU seconds to aggregate all reports; None where nothing was measured.
    users_needed : int or None
        Respondents with which the widest interval would reach as wanted; None if nothing was
        wanted, or no number up to 2**38 is enough.
    excluded : str
        Why a limit excludes it; "" if none does.
    """

    params: Params
    mse: float
    reach: float
    bytes_per_report: float
    decode_seconds: float | None
    users_needed: int | None
    excluded: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All forecasts, the best first, and which one to take.

    Attributes
    ----------
    users : int
        Respondents.
    forecasts : tuple of Forecast
        By MSE; excluded ones last.
    recommended : Forecast or None
        The first that no limit excludes. Of the protocols that keep the stated epsilon, it has the
        least error.
    refused : dict of str to str
        Protocols and oracles that cannot realise epsilon, and why.
    """

    users: int
    forecasts: tuple[Forecast, ...]
    recommended: Forecast | None
    refused: dict[str, str]


def plan(
    users: int,
    domains: Sequence[int] | Mapping[str, Domain],
    epsilon: float,
    *,
    calibration: Calibration | str = Calibration.TUPLE,
    protocols: Sequence[str] = (Protocol.SPL, Protocol.SMP, Protocol.RSFD),
    frequency: float | None = None,
    confidence: float = 0.95,
    reach: float | None = None,
    max_bytes: float | None = None,
    max_seconds: float | None = None,
    measure: bool = True,
) -> Plan:
    """Forecast every protocol and oracle, and recommend one.

    Parameters
    ----------
    users : int
        Respondents.
    domains : sequence of int, or mapping of str to Domain
        The attributes: how many values each has, or their domains.
    epsilon : float
        What each report may have, under `calibration`.
    calibration : Calibration or str
        See :class:`Params`. Under ``published`` the protocols do not keep one epsilon, and are not
        comparable.
    protocols : sequence of str
        Which to forecast; ``rs+rfd`` has priors and is forecast by :func:`forecast` of its
        params.
    frequency : float, optional
        Of the value in question; unless given, all values of an attribute are equally frequent.
    confidence : float
        Of the intervals, each value for itself.
    reach : float, optional
        Half the width that an interval may have: adds `users_needed`.
    max_bytes, max_seconds : float, optional
        Limits: bytes of a report, CPU seconds to decode all of them.
    measure : bool
        Whether to measure the decoding; needed for `max_seconds`.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    count = whole("users", users, 1, MAX_REPORTS)
    attributes = _attributes(domains)
    check_epsilon(epsilon)
    interval_factor(confidence)
    if frequency is not None:
        check_frequencies(frequency)
    for name, value in (("reach", reach), ("max_bytes", max_bytes), ("max_seconds", max_seconds)):
        if value is not None:
            check_epsilon(value, name)
    if max_seconds is not None and not measure:
        raise UsageError("max_seconds", max_seconds, "None where nothing is measured")
    found: list[Forecast] = []
    refused: dict[str, str] = {}
    for protocol, oracle in _candidates(protocols):
        try:
            with warnings.catch_warnings():
                # A plan shows the exact epsilons beside the stated one.
                warnings.simplefilter("ignore", PrivacyWarning)
                params = Params(
                    attributes=attributes,
                    epsilon=epsilon,
                    protocol=protocol,
                    oracle=oracle,
                    calibration=Calibration(calibration),
                )
        except ValueError as error:
            if not isinstance(error, UsageError) or error.argument not in ("epsilon", "oracle"):
                raise
            refused[f"{protocol.value}[{oracle}]"] = str(error)
            continue
        found.append(
            forecast(
                params,
                count,
                frequency=frequency,
                confidence=confidence,
                reach=reach,
                max_bytes=max_bytes,
                max_seconds=max_seconds,
                measure=measure,
            )
        )
    if not found:
        raise UsageError("epsilon", epsilon, "what some oracle can realise", _first(refused))
    ordered = sorted(found, key=lambda one: (bool(one.excluded), one.mse))
    best = next((one for one in ordered if not one.excluded), None)
    return Plan(users=count, forecasts=tuple(ordered), recommended=best, refused=refused)


def forecast(
    params: Params,
    users: int,
    *,
    frequency: float | None = None,
    confidence: float = 0.95,
    reach: float | None = None,
    max_bytes: float | None = None,
    max_seconds: float | None = None,
    measure: bool = True,
) -> Forecast:
    """Forecast one survey; arguments as for :func:`plan`."""
    factor = interval_factor(confidence)
    spreads = _variances(params, users, frequency)
    size = report_bytes(params)
    seconds = _decode_seconds(params, users) if measure else None
    needed = None
    if reach is not None:
        needed = users_needed(params, reach, frequency=frequency, confidence=confidence)
    excluded = []
    if max_bytes is not None and size > max_bytes:
        excluded.append(f"{size:.4g} bytes per report")
    if max_seconds is not None and seconds is not None and seconds > max_seconds:
        excluded.append(f"{seconds:.3g} s to decode")
    return Forecast(
        params=params,
        mse=float(np.mean([one.mean() for one in spreads])),
        reach=factor * math.sqrt(max(float(one.max()) for one in spreads)),
        bytes_per_report=size,
        decode_seconds=seconds,
        users_needed=needed,
        excluded=", ".join(excluded),
    )


def users_needed(
    params: Params, reach: float, *, frequency: float | None = None, confidence: float = 0.95
) -> int | None:
    """Return the fewest respondents with whom every interval reaches at most `reach` to a side.

    Parameters
    ----------
    params : Params
        The survey.
    reach : float
        Half the width that is wanted, above 0.
    frequency, confidence : float
        As for :func:`plan`.

    Returns
    -------
    int or None
        None if even 2**38 are too few.
    """
    wanted = (check_epsilon(reach, "reach") / interval_factor(confidence)) ** 2

    def enough(users: int) -> bool:
        return max(float(one.max()) for one in _variances(params, users, frequency)) <= wanted

    if not enough(MAX_REPORTS):
        return None
    low, high = 0, 1
    while not enough(high):
        low, high = high, min(2 * high, MAX_REPORTS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _variances(params: Params, users: int, frequency: float | None) -> list[Any]:
    """Return each attribute's variances, about the respondents themselves."""
    return [
        variance(params, at, users, 1 / k if frequency is None else frequency)
        for at, k in enumerate(params.sizes)
    ]


def _decode_seconds(params: Params, users: int) -> float:
    """Return CPU seconds to aggregate so many reports, by decoding some."""
    sample = min(users, _SAMPLE)
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, k, sample, dtype=np.uint32) for k in params.sizes]
    reports = randomize_codes(params, codes, from_seed(0))
    counting = estimating = math.inf
    for _ in range(3):  # the first may compile
        aggregator = Aggregator(params)
        began = time.process_time()
        aggregator.receive(reports)
        counting = min(counting, time.process_time() - began)
        began = time.process_time()
        _raw_or_none(aggregator)
        estimating = min(estimating, time.process_time() - began)
    # Counting takes as long as there are reports; estimating from the sums does not.
    return counting * users / sample + estimating


def _raw_or_none(aggregator: Aggregator) -> None:
    try:
        aggregator.estimate(post=None)
    except UsageError as error:
        # Few respondents may leave an attribute of smp without a report.
        if error.argument != "state":
            raise


def _candidates(protocols: Sequence[str]) -> Iterator[tuple[Protocol, str]]:
    for name in protocols:
        try:
            protocol = Protocol(name)
        except ValueError:
            allowed = ", ".join(one.value for one in Protocol)
            raise UsageError("protocols", name, allowed) from None
        if protocol is Protocol.RSRFD:
            raise UsageError("protocols", name, "spl, smp, rs+fd", "Its error depends on priors.")
        for oracle in oracles_of(protocol):
            if oracle not in _FREE:
                yield protocol, oracle


def _attributes(domains: Any) -> Mapping[str, Domain]:
    if isinstance(domains, Mapping):
        return domains
    if isinstance(domains, str | bytes) or not isinstance(domains, Sequence) or not domains:
        raise UsageError("domains", type(domains).__name__, "sizes, or a mapping to domains")
    sizes = [whole("domains", k, 2, 2**24) for k in domains]
    return {f"attribute {at}": Categorical(range(k)) for at, k in enumerate(sizes)}


def _first(refused: Mapping[str, str]) -> str:
    return next(iter(refused.values()), "")
