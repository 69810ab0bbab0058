"""Counts and means on two levels of regions, states and counties say, that agree with one another.

Respondents are dealt out over the levels, publicly and at random; each reports once, about its
level, with all of epsilon. The estimates of both levels are then averaged by their variances, such
that parents are the sums of their children. Adaptively, some are asked about parents first, and
only parents that turn out large enough are split for the rest: sparse children are not asked about.

Guarantee: that of each report, as in :class:`privagg.protocols.locational.Params`. Which level
somebody was asked about says nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector, interval_factor
from privagg.protocols.locational.adaptive import refine, threshold
from privagg.protocols.locational.aggregator import Aggregator
from privagg.protocols.locational.estimation import fieller
from privagg.protocols.locational.hierarchy import Hierarchy
from privagg.protocols.locational.levels import assign, best_split, merge
from privagg.protocols.locational.params import Params
from privagg.protocols.locational.regions import RegionList
from privagg.protocols.locational.respondent import Held, hold, randomize
from privagg.protocols.locational.rounds import Chunk

__all__ = ["Nested", "run_nested"]

_FIRST = 0.25
"""Part of the respondents that is asked about parents where the rest depends on it."""


@dataclass(frozen=True, kw_only=True)
class Nested:
    """Estimates of parents and children.

    Attributes
    ----------
    params : Params
        The survey of the children.
    names : tuple of str
        The regions of both levels that are estimated, parents first.
    level : (r,) int64 array
        0 for parents, 1 for children.
    parent : (r,) int64 array
        The number of each one's parent among these, -1 for parents.
    count, variance : (r, k) float64 array
        Estimated respondents of each region and value, and the variance; those of children add up
        to their parent's, where it was split.
    low, high : (r, k) float64 array
        Intervals.
    truth : (r, k) float64 array
        What a simulation knows; of numbers, what rounding gives on average.
    means : (3, r) float64 array or None
        Of booleans and numbers: the mean of each region, and the ends of its interval, Fieller's;
        NaN where the interval of its respondents holds 0.
    shares : tuple of float
        Parts of the respondents that were asked in each phase.
    cells : tuple of int
        Regions that each phase asked about.
    confidence : float
        Of each interval.
    users : int
        Respondents.
    """

    params: Params = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    level: NDArray[np.int64] = field(repr=False)
    parent: NDArray[np.int64] = field(repr=False)
    count: Vector = field(repr=False)
    variance: Vector = field(repr=False)
    low: Vector = field(repr=False)
    high: Vector = field(repr=False)
    truth: Vector = field(repr=False)
    means: Vector | None = field(repr=False)
    shares: tuple[float, ...]
    cells: tuple[int, ...]
    confidence: float
    users: int

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each region and value; means are None where they are withheld."""
        found: list[dict[str, Any]] = []
        for at, name in enumerate(self.names):
            if self.means is not None:
                above = int(self.parent[at])
                mean, low, high = (
                    None if math.isnan(one) else float(one) for one in self.means[:, at]
                )
                found.append(
                    {
                        "region": name,
                        "level": int(self.level[at]),
                        "parent": None if above < 0 else self.names[above],
                        "estimate": mean,
                        "low": low,
                        "high": high,
                        "count": float(self.count[at].sum()),
                    }
                )
                continue
            for column, label in enumerate(self.params.value.labels):
                row: dict[str, Any] = {"region": name, "level": int(self.level[at])}
                if label:
                    row["value"] = label
                above = int(self.parent[at])
                row |= {
                    "parent": None if above < 0 else self.names[above],
                    "estimate": float(self.count[at, column]),
                    "low": float(self.low[at, column]),
                    "high": float(self.high[at, column]),
                }
                found.append(row)
        return found

    @property
    def true_rows(self) -> Vector:
        """What a simulation knows of each of :meth:`rows`; NaN where a region is empty."""
        if self.means is None:
            return self.truth.reshape(-1)
        size = self.truth.sum(axis=1)
        ratio = (self.truth[:, 1] - self.truth[:, 0]) / np.where(size > 0, size, np.nan)
        bottom, top = self.params.value.range
        return np.asarray((bottom + top) / 2 + (top - bottom) / 2 * ratio, np.float64)


def run_nested(
    params: Params,
    chunks: Callable[[], Iterable[Chunk]],
    *,
    adaptive: bool = False,
    confidence: float = 0.95,
    seed: int | None = None,
) -> Nested:
    """Let every respondent report about one level, and make both levels agree.

    Parameters
    ----------
    params : Params
        The survey of the children; their regions have parents, and the value is no ranking.
    chunks : callable
        Returns the respondents, chunk by chunk; called once for each phase.
    adaptive : bool
        Whether only large parents are split.
    confidence : float
        Of each interval.
    seed : int, optional
        Makes the run repeatable, and insecure.

    Raises
    ------
    UsageError
        If the survey is not as described, or nobody was asked about some level.
    """
    factor = interval_factor(confidence)
    _check(params)
    source = entropies.from_seed(seed).spawn("nested")
    # Who is asked about what is public, and drawn the same way in every phase.
    dealt = entropies.from_seed(int.from_bytes(source.spawn("dealing").take(8), "little"))
    hierarchy = _hierarchy(params)
    partition = hierarchy.partition(0)
    surveys = [_survey(params, hierarchy, hierarchy.partition(level)) for level in (0, 1)]
    if adaptive:
        shares = np.array([_FIRST, 1 - _FIRST])
    else:
        unit = [one.oracles[0].variance(1, 1 / one.cells.size, population=True) for one in surveys]
        shares = best_split(hierarchy, unit, 1000).shares
    estimates: list[list[tuple[Any, Any, Any]]] = [[] for _ in range(params.value.k)]
    sizes: list[int] = []
    users = 0
    truth = np.zeros((hierarchy.leaves.size, params.value.k))
    for phase in (0, 1):
        if phase == 1 and not adaptive:
            partition = hierarchy.partition(1)
        if shares[phase] == 0:
            continue
        survey = _survey(params, hierarchy, partition)
        at = hierarchy.cell_of(partition)[hierarchy.leaves]
        aggregator = Aggregator(survey)
        users, truth = 0, np.zeros(truth.shape)
        for number, chunk in enumerate(chunks()):
            own = source.spawn(f"phase {phase}, chunk {number}")
            held = hold(params, chunk.places, chunk.values, entropy=own.spawn("rounding"))
            level = assign(len(held), shares, dealt.spawn(f"chunk {number}"))
            codes = held.codes[:, 0]
            known = codes < params.cells.known
            truth += _truth(params, held, known).reshape(truth.shape)
            users += codes.size
            moved = _moved(codes[level == phase], at, params, survey)
            some = Held(moved[:, None], np.zeros((moved.size, 1)), 0, 0)
            aggregator.receive(randomize(survey, some, own.spawn("reports")))
        if aggregator.users == 0:
            raise UsageError("chunks", "nobody on some level", "more respondents")
        found = aggregator.estimate(confidence, None).cells[0]
        sample = np.clip(found.raw, 0, 1)
        spread = found.variance + sample * (1 - sample) / aggregator.users
        for column in range(params.value.k):
            estimates[column].append((partition, found.raw[:, column], spread[:, column]))
        sizes.append(partition.size)
        if adaptive and phase == 0:
            rest = max(1.0, aggregator.users * (1 - _FIRST) / _FIRST)
            each = surveys[1].oracles[0].variance(1, 0.0) * params.value.k / rest
            limits = threshold(hierarchy, partition, math.sqrt(each))
            partition = refine(hierarchy, partition, found.raw.sum(axis=1), limits).partition
    # What was not split has no children here.
    part, numbers = hierarchy.below(partition)
    place = np.full(hierarchy.size, -1, np.int64)
    place[numbers] = np.arange(numbers.size)
    whole_known = params.value.k == 1 and not params.other
    columns = [
        merge(
            part,
            [(place[cells], values, spread) for cells, values, spread in own],
            1.0 if whole_known else None,
        )
        for own in estimates
    ]
    count = users * np.stack([one.values for one in columns], axis=1)
    variance = users**2 * np.stack([one.variance for one in columns], axis=1)
    reach = factor * np.sqrt(variance)
    every = (*params.regions.parent_names, *params.regions.names)
    totals = np.stack([hierarchy.sums(column) for column in truth.T], axis=1)
    return Nested(
        params=params,
        names=tuple(every[at] for at in numbers),
        level=hierarchy.depths[numbers],
        parent=part.parents,
        count=count,
        variance=variance,
        low=count - reach,
        high=count + reach,
        truth=totals[numbers],
        means=_means(params, count, variance, users, factor) if params.value.numeric else None,
        shares=tuple(float(one) for one in shares),
        cells=tuple(sizes),
        confidence=float(confidence),
        users=users,
    )


def _check(params: Any) -> None:
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params")
    if params.regions.parents is None:
        raise UsageError("regions", "regions without parents", "a parent of every region")
    if params.groups > 1 or params.items > 1 or params.notion != "local":
        allowed = "no ranking, one item, the local notion"
        raise UsageError("params", params.value.kind, allowed)


def _truth(params: Params, held: Held, known: NDArray[np.bool_]) -> Vector:
    """Return respondents of each cell; of numbers, those that rounding gives on average."""
    codes, size = held.codes[known, 0], params.cells.known
    if not params.value.numeric:
        return np.bincount(codes, minlength=size).astype(np.float64)
    exact, first = held.exact[known, 0], codes // 2 * 2
    low = np.bincount(first, (1 - exact) / 2, size)
    return np.asarray(low + np.bincount(first + 1, (1 + exact) / 2, size), np.float64)


def _means(params: Params, count: Vector, variance: Vector, users: int, factor: float) -> Vector:
    """Return means and their intervals, (3, r), from estimated respondents at either end."""
    low, high = count.T
    d, c = high - low, high + low
    # Who was asked varies like a multinomial; the noise of the two cells hardly goes together.
    both = -2 * np.maximum(low, 0) * np.maximum(high, 0) / users
    total = variance.sum(axis=1)
    left, right, none = fieller(
        d, c, total - both, total + both, variance[:, 1] - variance[:, 0], factor
    )
    ratio = np.where(none, np.nan, d / np.where(none, 1.0, c))
    bottom, top = params.value.range
    found = (bottom + top) / 2 + (top - bottom) / 2 * np.stack([ratio, left, right])
    return np.asarray(np.clip(found, bottom, top), np.float64)


def _hierarchy(params: Params) -> Hierarchy:
    """Return parents, then children, as one forest."""
    above = params.regions.parent_indices
    roots = len(params.regions.parent_names)
    return Hierarchy(np.concatenate([np.full(roots, -1, np.int64), above]))


def _survey(params: Params, hierarchy: Hierarchy, partition: NDArray[np.int64]) -> Params:
    """Return the survey of one phase: its regions are the cells of a partition."""
    every = (*params.regions.parent_names, *params.regions.names)
    depths = hierarchy.depths
    # A parent may be called like one of its children.
    names = [f"{depths[at]}:{every[at]}" for at in partition]
    return replace(params, regions=RegionList(names))


def _moved(
    codes: NDArray[np.int64], at: NDArray[np.int64], params: Params, survey: Params
) -> NDArray[np.int64]:
    """Return cells of children as cells of a phase."""
    k, known = params.value.k, params.cells.known
    region = np.minimum(codes // k, at.size - 1)
    return np.where(codes < known, at[region] * k + codes % k, codes - known + survey.cells.known)
