"""From sums to regions: counts and means with their intervals.

Everything is estimated from frequencies of cells. A region's count is the sum of those of its
cells. Where its two cells are *low* and *high*, the mean is the middle of the range plus half of
its width times D / C, with D = f(high) - f(low) and C = f(high) + f(low). The interval is
Fieller's, which counts the covariance of D and C; a mean whose count's interval holds 0 is
withheld.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.mechanisms import State
from privagg.mechanisms.base import FrequencyOracle
from privagg.mechanisms.estimate import Vector, interval_factor
from privagg.mechanisms.postprocess import norm_sub
from privagg.protocols.locational.covariance import pair_covariances, sum_variances
from privagg.protocols.locational.params import Params
from privagg.protocols.locational.smoothing import smoothed
from privagg.protocols.locational.values import Number, Ranking

__all__ = ["POSTS", "CellEstimates", "RegionEstimates", "cell_variances", "estimate", "fieller"]

POSTS = ("norm-sub",)
"""How published frequencies are made of raw ones; None publishes the raw ones."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CellEstimates:
    """Frequencies of the cells of one group of respondents.

    Attributes
    ----------
    users : int
        Reports of the group.
    raw, values, variance : (R, k) float64 array
        Unbiased; post-processed; variance of the raw ones. Frequencies are per respondent: with
        several items they may add up to more than 1.
    total_variance : (R,) float64 array
        Of the sum over a region's cells, covariances included.
    covariance : (R,) float64 array
        Of a region's first two cells; 0 where it has one.
    other : float or None
        Raw frequency of the cell for unknown regions and values.
    """

    users: int
    raw: Vector
    values: Vector
    variance: Vector
    total_variance: Vector
    covariance: Vector
    other: float | None
    near: Vector = field(repr=False)
    spread: Vector = field(repr=False)
    """Of all cells: the frequencies that variances are computed at, per report, and variances."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionEstimates:
    """What is estimated of R regions, in J columns: categories, ranked items, or one.

    Attributes
    ----------
    params : Params
        The survey.
    users : int
        Reports counted.
    confidence : float
        Of each interval alone.
    insecure : bool
        Whether any report came from a seed.
    columns : tuple of str
        The columns' labels; one empty label where there is one column.
    means : bool
        Whether estimates are means, in the units of the value; else they are numbers of
        respondents.
    estimate : (R, J) float64 array
        Published: post-processed counts; means moved into their range, NaN where withheld.
    raw : (R, J) float64 array
        Unbiased counts; ratios as they are, NaN where withheld.
    low, high : (R, J) float64 array
        Intervals around the raw ones. NaN where withheld.
    withheld : (R, J) bool array
        Means whose count may be 0: there is no interval.
    wide : (R, J) bool array
        Intervals at least as wide as the estimate is large, and withheld ones: of little use.
    count, count_low, count_high : (R,) float64 array
        Respondents of each region whose value is known, raw, and the interval.
    smooth, smooth_low, smooth_high : (R, J) float64 array or None
        Of means: drawn towards the mean of all regions as far as noise warrants. Intervals rest on
        that model. See :mod:`privagg.protocols.locational.smoothing`.
    other : float or None
        Estimated number of respondents in no region, or without a value.
    cells : tuple of CellEstimates
        Of each group.
    """

    params: Params = field(repr=False)
    users: int
    confidence: float
    insecure: bool
    columns: tuple[str, ...]
    means: bool
    estimate: Vector = field(repr=False)
    raw: Vector = field(repr=False)
    low: Vector = field(repr=False)
    high: Vector = field(repr=False)
    withheld: Flags = field(repr=False)
    wide: Flags = field(repr=False)
    count: Vector = field(repr=False)
    count_low: Vector = field(repr=False)
    count_high: Vector = field(repr=False)
    smooth: Vector | None = field(repr=False)
    smooth_low: Vector | None = field(repr=False)
    smooth_high: Vector | None = field(repr=False)
    other: float | None
    cells: tuple[CellEstimates, ...] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The regions' names."""
        return self.params.regions.names

    @property
    def narrow(self) -> float:
        """Part of all intervals that are narrower than their estimate."""
        return float(1 - self.wide.mean())

    def parents(self) -> list[dict[str, Any]]:
        """Return one dict for each parent: its respondents, which are the sum of its children's."""
        params, found = self.params, []
        factor = interval_factor(self.confidence)
        for at, name in enumerate(params.regions.parent_names):
            children = np.flatnonzero(params.regions.parent_indices == at)
            k = params.value.k
            cells = (children[:, None] * k + np.arange(k)).reshape(1, -1)
            variance = 0.0
            for oracle, one in zip(params.oracles, self.cells, strict=True):
                own = sum_variances(
                    oracle, one.users, one.near, one.spread / params.scale**2, cells
                )
                variance += (one.users * params.scale) ** 2 * float(own[0])
            total = float(self.count[children].sum())
            reach = factor * variance**0.5
            found.append(
                {
                    "region": name,
                    "children": int(children.size),
                    "count": total,
                    "low": total - reach,
                    "high": total + reach,
                }
            )
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each region and column; None where a mean is withheld."""
        found = []
        for at, name in enumerate(self.names):
            for column, label in enumerate(self.columns):
                row: dict[str, Any] = {"region": name}
                if label:
                    row["value"] = label
                row |= {
                    "estimate": _number(self.estimate[at, column]),
                    "low": _number(self.low[at, column]),
                    "high": _number(self.high[at, column]),
                    "raw": _number(self.raw[at, column]),
                    "count": float(self.count[at]),
                    "count_low": float(self.count_low[at]),
                    "count_high": float(self.count_high[at]),
                    "wide": bool(self.wide[at, column]),
                    "withheld": bool(self.withheld[at, column]),
                }
                if self.smooth is not None:
                    assert self.smooth_low is not None
                    assert self.smooth_high is not None
                    row["smooth"] = _number(self.smooth[at, column])
                    row["smooth_low"] = _number(self.smooth_low[at, column])
                    row["smooth_high"] = _number(self.smooth_high[at, column])
                found.append(row)
        return found


def estimate(
    params: Params,
    states: Sequence[State],
    *,
    confidence: float = 0.95,
    post: str | None = "norm-sub",
) -> RegionEstimates:
    """Estimate every region from the sums of each group.

    Intervals are about the respondents themselves: all noise is the mechanism's (of numbers, also
    the rounding to an end of the range; of rankings, also who is in which group).

    Parameters
    ----------
    params : Params
        The survey.
    states : sequence of State
        One for each group.
    confidence : float
        Probability with which each interval alone holds the truth.
    post : str or None
        ``"norm-sub"``, or None to publish the raw estimates.

    Raises
    ------
    UsageError
        If a group has no report, or an argument is not as described.
    """
    factor = interval_factor(confidence)
    if post is not None and post not in POSTS:
        raise UsageError("post", post, f"{', '.join(POSTS)} or None")
    if len(states) != params.groups:
        raise UsageError("states", f"{len(states)} states", f"{params.groups}, one for each group")
    parts = []
    for group, (oracle, state) in enumerate(zip(params.oracles, states, strict=True)):
        if state.users == 0:
            which = f"no reports of group {group}" if params.groups > 1 else "no reports"
            raise UsageError("state", which, "at least one report")
        parts.append(_cells(params, oracle, state, post))
    users = sum(one.users for one in parts)
    weights = np.array([one.users for one in parts], np.float64)
    shares = np.array([one.raw.sum(axis=1) for one in parts])
    spreads = np.array([one.total_variance for one in parts])
    count = weights @ shares
    reach = factor * np.sqrt(weights**2 @ spreads)
    if params.value.numeric:
        made = [_mean(params, one, factor) for one in parts]
        low, high, raw, withheld = (
            np.stack(columns, axis=1) for columns in zip(*made, strict=True)
        )
        bottom, top = params.value.range
        published = np.clip(raw, bottom, top)
        smooth = [smoothed(params.value.range, *_moments(params, one), factor) for one in parts]
        soft: tuple[Vector | None, ...] = tuple(
            np.stack(columns, axis=1) for columns in zip(*smooth, strict=True)
        )
    else:
        (one,) = parts
        raw, published = users * one.raw, users * one.values
        each = factor * users * np.sqrt(one.variance)
        low, high = raw - each, raw + each
        withheld = np.zeros(raw.shape, np.bool_)
        soft = (None, None, None)
    with np.errstate(invalid="ignore"):
        wide = ~(high - low < np.abs(published))
    other = None if parts[0].other is None else sum(o.users * (o.other or 0.0) for o in parts)
    return RegionEstimates(
        params=params,
        users=users,
        confidence=float(confidence),
        insecure=any(state.insecure for state in states),
        columns=_columns(params),
        means=params.value.numeric,
        estimate=published,
        raw=raw,
        low=low,
        high=high,
        withheld=withheld,
        wide=wide,
        count=count,
        count_low=count - reach,
        count_high=count + reach,
        smooth=soft[0],
        smooth_low=soft[1],
        smooth_high=soft[2],
        other=other,
        cells=tuple(parts),
    )


def cell_variances(params: Params, oracle: FrequencyOracle, users: int, each: Vector) -> Vector:
    """Return the variance of raw frequencies of cells, per respondent.

    Parameters
    ----------
    params : Params
        The survey.
    oracle : FrequencyOracle
        Of one group.
    users : int
        Reports.
    each : (K,) float64 array
        Frequencies of all cells of the oracle's domain, per report: of reports on one of several
        items, those of the items drawn.
    """
    found = oracle._variances(users, each, False)
    if params.sampled:
        # Which of several items was drawn is chance too.
        found = found + each * (1 - 1 / params.items) / users
    return np.asarray(found * params.scale**2, np.float64)


def fieller(
    d: Vector, c: Vector, var_d: Vector, var_c: Vector, cov: Vector, factor: float
) -> tuple[Vector, Vector, Flags]:
    """Return the ends of Fieller's intervals of d / c, and where there is none.

    They are the ratios t with (d - t c)**2 <= factor**2 Var(d - t c): bounded if, and only if, c is
    `factor` standard deviations from 0. (Fieller, "Some Problems in Interval Estimation", JRSS B
    1954.)
    """
    square = factor**2
    a, b, e = c**2 - square * var_c, d * c - square * cov, d**2 - square * var_d
    none = (a <= 0) | (c <= 0)
    safe = np.where(none, 1.0, a)
    root = np.sqrt(np.maximum(b**2 - a * e, 0.0))
    low, high = (b - root) / safe, (b + root) / safe
    return np.where(none, np.nan, low), np.where(none, np.nan, high), none


def _cells(
    params: Params, oracle: FrequencyOracle, state: State, post: str | None
) -> CellEstimates:
    regions, k, known = len(params.regions), params.value.k, params.cells.known
    oracle._same(state.digest, "estimate", "aggregator")
    state.check_size(oracle.sums_size)
    raw = oracle._raw(state)
    # The closed forms need frequencies: the nearest that are some.
    exclusive = params.items == 1 or params.sampled
    near = norm_sub(raw) if exclusive else _at_most(raw, params.items)
    spread = cell_variances(params, oracle, state.users, near)
    scale = params.scale
    inside = slice(0, known)
    table = (scale * raw[inside]).reshape(regions, k)
    variance = spread[inside].reshape(regions, k)
    cells = np.arange(known).reshape(regions, k)
    total = sum_variances(oracle, state.users, near, spread / scale**2, cells)
    covariance = np.zeros(regions)
    if k > 1:
        first = pair_covariances(oracle, state.users, near, cells[:, 0], cells[:, 1])
        covariance = scale**2 * first
    other = params.cells.other
    return CellEstimates(
        users=state.users,
        raw=table,
        values=table if post is None else (scale * near[inside]).reshape(regions, k),
        variance=variance,
        total_variance=scale**2 * total,
        covariance=covariance,
        other=None if other is None else float(scale * raw[other]),
        near=near,
        spread=spread,
    )


def _at_most(raw: Vector, items: int) -> Vector:
    """Return the nearest frequencies that are not negative, with their sum, at most `items`."""
    total = min(float(raw.sum()), float(items))
    if total <= 0:
        return np.zeros(raw.size)
    return np.asarray(np.minimum(total * norm_sub(raw / total), 1.0), np.float64)


def _moments(params: Params, one: CellEstimates) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return D, C, their variances and covariance, of each region."""
    low, high = one.raw[:, 0], one.raw[:, 1]
    both = 2 * one.covariance
    sums = one.variance.sum(axis=1)
    d, c = high - low, high + low
    var_d = sums - both
    if isinstance(params.value, Number | Ranking):
        # Rounding to an end, at most: (1 - t**2) for each respondent, with t the region's mean.
        # Four more respondents, two at either end, keep t off the ends where there are few.
        t = np.clip(d / (np.maximum(c, 0.0) + 4 / one.users), -1, 1)
        var_d = var_d + np.maximum(c, 0.0) * (1 - t**2) / one.users
    return d, c, var_d, sums + both, one.variance[:, 1] - one.variance[:, 0]


def _mean(
    params: Params, one: CellEstimates, factor: float
) -> tuple[Vector, Vector, Vector, Flags]:
    d, c, var_d, var_c, cov = _moments(params, one)
    low, high, none = fieller(d, c, var_d, var_c, cov, factor)
    ratio = np.where(none, np.nan, d / np.where(none, 1.0, c))
    bottom, top = params.value.range
    middle, half = (bottom + top) / 2, (top - bottom) / 2
    # The truth is within the range: cut off there, an interval holds it as often.
    ends = (np.clip(middle + half * end, bottom, top) for end in (low, high))
    left, right = ends
    return left, right, middle + half * ratio, none


def _columns(params: Params) -> tuple[str, ...]:
    value = params.value
    if isinstance(value, Ranking):
        return value.items
    return ("",) if value.numeric else value.labels


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
