"""Which mechanism to take: every one's error, bytes and decoding time, before anyone reports.

Here it is called :func:`recommend`, and :data:`plan` as in every protocol.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privagg._validate import whole
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms.exact import check_epsilon
from privagg.mechanisms.state import MAX_REPORTS
from privagg.protocols.locational.aggregator import Aggregator
from privagg.protocols.locational.estimation import cell_variances
from privagg.protocols.locational.geo_oracles import GEO
from privagg.protocols.locational.geometry import Grid
from privagg.protocols.locational.params import FAMILIES, MECHANISMS, ORACLES, Params
from privagg.protocols.locational.respondent import Held, randomize

__all__ = ["WEIGHT", "Choice", "Forecast", "Plan", "forecast", "plan", "recommend"]

WEIGHT = 0.005
"""Of cost against error: ten times the bytes count as much as 1.2 % of the error."""

_SAMPLE = 1024
_MAX_ENTRIES = 2**28
"""Numbers in the sample's reports, beyond which nothing is measured."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one mechanism would give.

    Attributes
    ----------
    params : Params
        The survey with it.
    mse : float
        Expected squared error of a cell's raw frequency, for one report: divide by the respondents.
        Exact, for all cells alike frequent.
    bytes_per_report : float
        On the wire.
    decode_seconds : float or None
        CPU seconds to add up and estimate all reports; None where nothing was measured.
    excluded : str
        Why a limit excludes it; "" if none does.
    """

    params: Params
    mse: float
    bytes_per_report: float
    decode_seconds: float | None
    excluded: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The mechanism to take, and why.

    Attributes
    ----------
    params : Params
        The survey with it.
    why : str
        In words.
    forecasts : tuple of Forecast
        All of them, the least error first, excluded ones last.
    refused : dict of str to str
        Mechanisms that cannot be had, and why.
    """

    params: Params
    why: str
    forecasts: tuple[Forecast, ...]
    refused: dict[str, str]


def recommend(
    mechanism: str = "auto",
    *,
    users: int | None = None,
    max_bytes: float | None = None,
    max_seconds: float | None = None,
    **survey: Any,
) -> Choice:
    """Choose a mechanism, by error under limits.

    ``auto`` looks at every mechanism, a family at its own. Of those within the limits it takes the
    one with the least error, where ten times the bytes count as much as 1.2 % of the error, so that
    no more than a few per cent are given up; local hashing, whose decoding hashes every cell for
    every report, counts like reports of a bit for each cell. The Gaussian mechanism has a weaker
    guarantee: ``auto`` never takes it.

    Parameters
    ----------
    mechanism : str
        One of :data:`MECHANISMS`.
    users : int, optional
        Respondents; needed for `max_seconds`.
    max_bytes : float, optional
        Bytes that a report may have.
    max_seconds : float, optional
        CPU seconds that adding up and estimating may take; measured here, on a few reports.
    **survey
        The other arguments of :class:`Params`.

    Raises
    ------
    UsageError
        If an argument is not as described, or no mechanism is within the limits.
    """
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise UsageError("mechanism", mechanism, ", ".join(MECHANISMS))
    for name, limit in (("max_bytes", max_bytes), ("max_seconds", max_seconds)):
        if limit is not None:
            check_epsilon(limit, name)
    if max_seconds is not None and users is None:
        raise UsageError("users", None, "a number of respondents, with max_seconds")
    if users is not None:
        whole("users", users, 1, MAX_REPORTS)
    found: list[Forecast] = []
    refused: dict[str, str] = {}
    if survey.get("notion", "local") == "geo" and mechanism == "auto":
        names = [name for name in GEO if name != "planar-laplace" or _is_grid(survey)]
    else:
        names = _names(mechanism, int(survey.get("items", 1) or 1))
    for name in names:
        try:
            params = Params(mechanism=name, **survey)
        except UsageError as error:
            if len(names) == 1 or error.argument not in ("epsilon", "domain", "delta"):
                raise
            refused[name] = str(error)
            continue
        found.append(forecast(params, users=users, max_bytes=max_bytes, max_seconds=max_seconds))
    if not found:
        raise UsageError("epsilon", survey.get("epsilon"), "what some mechanism can realise")
    ordered = sorted(found, key=lambda one: (bool(one.excluded), one.mse))
    allowed = [one for one in ordered if not one.excluded]
    if not allowed:
        cheapest = min(ordered, key=lambda one: one.bytes_per_report)
        raise UsageError(
            "max_bytes" if max_bytes is not None else "max_seconds",
            max_bytes if max_bytes is not None else max_seconds,
            "limits that some mechanism keeps",
            f"{cheapest.params.oracle} has {cheapest.bytes_per_report:.4g} bytes per report.",
        )
    best = min(allowed, key=lambda one: one.mse * _cost(one) ** WEIGHT)
    return Choice(
        params=best.params,
        why=_why(mechanism, best, ordered),
        forecasts=tuple(ordered),
        refused=refused,
    )


def forecast(
    params: Params,
    *,
    users: int | None = None,
    max_bytes: float | None = None,
    max_seconds: float | None = None,
) -> Forecast:
    """Forecast one survey; arguments as for :func:`recommend`."""
    oracle = params.oracles[0]
    frequency = min(1.0, params.items / params.scale / oracle.k)
    each = np.full(oracle.k, frequency)
    mse = float(cell_variances(params, oracle, 1, each)[: params.cells.known].mean())
    size = params.report_bytes
    seconds = None
    if max_seconds is not None and users is not None:
        seconds = _decode_seconds(params, users)
    excluded = []
    if max_bytes is not None and size > max_bytes:
        excluded.append(f"{size:.4g} bytes per report")
    if max_seconds is not None and seconds is not None and seconds > max_seconds:
        excluded.append(f"{seconds:.3g} s to decode")
    return Forecast(
        params=params,
        mse=mse,
        bytes_per_report=size,
        decode_seconds=seconds,
        excluded=", ".join(excluded),
    )


Plan = Choice
plan = recommend
"""The names of a protocol's plan, and of what makes it, in every package of protocols."""


def _cost(one: Forecast) -> float:
    """Return the bytes of a report, or what is as much work."""
    hashes = one.params.cells.size / 8 if one.params.oracle == "olh" else 0.0
    return one.bytes_per_report + hashes


def _is_grid(survey: dict[str, Any]) -> bool:
    return isinstance(survey.get("regions"), Grid)


def _names(mechanism: str, items: int) -> list[str]:
    if mechanism == "auto":
        names = [name for name in ORACLES if name != "gaussian"]
    else:
        names = list(FAMILIES.get(mechanism, (mechanism,)))
    if len(names) > 1 and items == 1:
        names = [name for name in names if name != "privset"]  # for one item it is ss
    return names


def _why(mechanism: str, best: Forecast, ordered: Sequence[Forecast]) -> str:
    name = best.params.oracle
    error = f"n Var = {best.mse:.4g} a cell, {best.bytes_per_report:.3g} bytes per report"
    others = [one for one in ordered if one is not best]
    if not others:
        return f"{name}, as asked for by {mechanism}: {error}"
    allowed = [one for one in others if not one.excluded]
    text = f"{name}: {error}"
    if allowed and allowed[0].mse <= best.mse:
        first = allowed[0]
        more = best.mse / first.mse - 1
        text += (
            f"; {first.params.oracle} has {more:.1%} less error with "
            f"{first.bytes_per_report:.3g} bytes"
        )
    elif allowed:
        rest = ", ".join(f"{one.params.oracle} {one.mse:.4g}" for one in allowed[:4])
        text += f"; the least error (others: {rest})"
    gone = [f"{one.params.oracle} ({one.excluded})" for one in others if one.excluded]
    if gone:
        text += f"; over the limits: {', '.join(gone)}"
    return text if mechanism != "auto" else f"auto took {text}"


def _decode_seconds(params: Params, users: int) -> float:
    """Return CPU seconds to add up and estimate so many reports, measured on some."""
    sample = min(users, _SAMPLE)
    if sample * params.report_bytes > _MAX_ENTRIES:
        return math.inf
    rng = np.random.default_rng(0)
    codes = np.full((sample, params.items), -1, np.int64)
    codes[:, 0] = rng.integers(0, params.cells.known, sample)
    held = Held(codes, np.zeros(codes.shape), 0, 0)
    batches = [randomize(params, held, from_seed(0), group=g) for g in range(params.groups)]
    counting = estimating = math.inf
    for _ in range(2):  # the first may compile
        aggregator = Aggregator(params)
        began = time.process_time()
        for group, reports in enumerate(batches):
            aggregator.receive(reports, group=group)
        counting = min(counting, time.process_time() - began)
        began = time.process_time()
        aggregator.estimate()
        estimating = min(estimating, time.process_time() - began)
    return counting * users / sample / params.groups + estimating
