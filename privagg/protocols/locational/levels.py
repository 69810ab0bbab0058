"""Who is asked about which level of a hierarchy: the forecast, and the best split of respondents.

Respondents are dealt out over the levels, disjointly, and each spends its whole epsilon on the one
report of its level. Asking everyone about every level would split epsilon instead, which is worse
under local differential privacy.

Source: Cormode, Kulkarni, Srivastava, "Answering Range Queries Under Local Differential Privacy",
VLDB 2019, section 4.4 (sampling of levels, and consistency after Hay et al.).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, whole
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.locational.hierarchy import Consistent, Hierarchy, Vector, combine

__all__ = ["Split", "assign", "best_split", "forecast", "merge"]

_MOST_USERS = 2**40
_LEAST_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Split:
    """How respondents are split over levels, and what is forecast for it.

    Attributes
    ----------
    shares : (levels,) float64 array
        The part of the respondents that is asked about each level; they add up to 1.
    variance : (r,) float64 array
        Forecast of each region's frequency after consistency.
    error : float
        The mean of `variance`, level by level and weighed as asked.
    """

    shares: Vector
    variance: Vector = field(repr=False)
    error: float


def forecast(hierarchy: Hierarchy, unit: Any, users: int, shares: Any) -> Vector:
    """Return the variance of each region's frequency after consistency.

    Parameters
    ----------
    hierarchy : Hierarchy
        Of r regions.
    unit : (levels,) float array
        The variance of one report's estimate of a cell, for each level: ``oracle.variance(1, f)``
        of the oracle over that level's partition. Include ``population=True``: the respondents of
        one level are a sample of all.
    users : int
        Number of respondents on all levels together.
    shares : (levels,) float array
        Their split; a level with none is not measured. They add up to 1.

    Raises
    ------
    UsageError
        If an argument is not as described, or nobody is asked about the last level.
    """
    count = whole("users", users, 1, _MOST_USERS)
    each = _per_level("unit", unit, hierarchy)
    split = _per_level("shares", shares, hierarchy)
    if not np.isclose(split.sum(), 1, atol=1e-9) or split[-1] == 0:
        raise UsageError("shares", split.tolist(), "shares that add up to 1, the last above 0")
    return _forecast(hierarchy, each, count, split)


def _forecast(hierarchy: Hierarchy, unit: Vector, users: int, shares: Vector) -> Vector:
    precision = np.zeros(hierarchy.size)
    for level in range(hierarchy.levels):
        precision[hierarchy.partition(level)] += users * shares[level] / unit[level]
    variance = np.divide(1.0, precision, out=np.full(hierarchy.size, np.inf), where=precision > 0)
    return combine(hierarchy, np.zeros(hierarchy.size), variance).variance


def best_split(
    hierarchy: Hierarchy, unit: Any, users: int, weights: Any = None, *, steps: int = 60
) -> Split:
    """Return the split of respondents over levels with the least mean variance.

    The search starts at equal shares and moves a part of one level's respondents to another while
    that helps, with ever smaller parts.

    Parameters
    ----------
    hierarchy, unit, users
        As for :func:`forecast`.
    weights : (levels,) float array, optional
        How much the mean variance on each level counts; equally unless given. ``[0, 0, 1]`` asks
        for good leaves only.
    steps : int
        The most rounds of the search.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    levels = hierarchy.levels
    count = whole("users", users, 1, _MOST_USERS)
    each = _per_level("unit", unit, hierarchy)
    if (each == 0).any():
        raise UsageError("unit", "a variance of 0", "variances above 0")
    cares = np.ones(levels) if weights is None else _per_level("weights", weights, hierarchy)
    if not cares.sum() > 0:
        raise UsageError("weights", cares.tolist(), "one above 0")
    whole("steps", steps, 1, 10_000)
    members = [hierarchy.at(level) for level in range(levels)]

    def error(shares: Vector) -> float:
        found = _forecast(hierarchy, each, count, shares)
        means = np.array([found[regions].mean() for regions in members])
        return float(cares @ means / cares.sum())

    shares = np.full(levels, 1 / levels)
    best, part = error(shares), 0.5
    for _ in range(steps if levels > 1 else 0):
        tried = [_moved(shares, a, b, part) for a in range(levels) for b in range(levels) if a != b]
        errors = [error(one) for one in tried]
        at = int(np.argmin(errors))
        if errors[at] < best * (1 - 1e-6):
            best, shares = errors[at], tried[at]
        else:
            part /= 2
            if part < 0.01:
                break
    # A level hardly asked about is not worth its questions, but leaves are always asked about.
    small = (shares < _LEAST_SHARE) & (np.arange(levels) < levels - 1)
    shares = np.where(small, 0.0, shares) / shares[~small].sum()
    return Split(shares, _forecast(hierarchy, each, count, shares), error(shares))


def _moved(shares: Vector, source: int, target: int, part: float) -> Vector:
    found = shares.copy()
    found[target] += part * shares[source]
    found[source] -= part * shares[source]
    return found


def assign(users: int, shares: Any, entropy: Entropy = OS) -> NDArray[np.int64]:
    """Return the level that each respondent is asked about, at random.

    Each is drawn independently with 32-bit words; a level's share is met within 2**-32. It does
    not depend on anybody's value, and may be public.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    count = whole("users", users, 0, 2**31)
    split = as_array("shares", shares)
    good = split.ndim == 1 and split.size > 0 and split.dtype.kind in "iuf"
    if not good or not bool((split >= 0).all()) or not np.isclose(split.sum(), 1, atol=1e-9):
        raise UsageError("shares", "no split", "(levels,) shares from 0 that add up to 1")
    ends = np.floor(np.cumsum(split)[:-1] * 2.0**32)
    words = Draws(entropy).words32(count).astype(np.float64)
    return np.searchsorted(ends, words, side="right").astype(np.int64)


def merge(
    hierarchy: Hierarchy, estimates: Sequence[tuple[Any, Any, Any]], total: float | None = None
) -> Consistent:
    """Return consistent estimates from those of several partitions of the regions.

    Parameters
    ----------
    hierarchy : Hierarchy
        Of r regions; where the finest cells are not its leaves, cut it off there with
        :meth:`Hierarchy.below`.
    estimates : sequence of (regions, values, variance)
        Of each level or phase: the cells it asked about, their estimates and variances. A region
        asked about more than once is averaged.
    total : float, optional
        What all roots are known to add up to: 1 for frequencies.

    Raises
    ------
    UsageError
        If an argument is not as described, or a leaf has no estimate.
    """
    weighted, precision = np.zeros(hierarchy.size), np.zeros(hierarchy.size)
    for regions, values, variance in estimates:
        cells = as_array("regions", regions)
        if cells.ndim != 1 or cells.dtype.kind not in "iu":
            raise UsageError("regions", f"{cells.dtype} of shape {cells.shape}", "(c,) regions")
        if cells.size and not 0 <= int(cells.min()) <= int(cells.max()) < hierarchy.size:
            raise UsageError("regions", "a region that is none", f"0 to {hierarchy.size - 1}")
        spread = np.asarray(variance, np.float64)
        numbers = np.asarray(values, np.float64)
        if spread.shape != cells.shape or numbers.shape != cells.shape:
            raise UsageError("estimates", "lengths that differ", "one of each for each region")
        if not (np.isfinite(numbers) & np.isfinite(spread) & (spread > 0)).all():
            raise UsageError("estimates", "one that is not finite", "variances above 0, finite")
        np.add.at(weighted, cells, numbers / spread)
        np.add.at(precision, cells, 1 / spread)
    known = precision > 0
    values = np.divide(weighted, precision, out=np.zeros(hierarchy.size), where=known)
    variance = np.divide(1.0, precision, out=np.full(hierarchy.size, np.inf), where=known)
    if total is None:
        return combine(hierarchy, values, variance)
    # One root above all, whose value is known.
    above = np.where(hierarchy.parents < 0, hierarchy.size, hierarchy.parents)
    rooted = Hierarchy(np.concatenate([above, [-1]]))
    found = combine(rooted, np.append(values, float(total)), np.append(variance, 0.0))
    return Consistent(found.values[:-1], found.variance[:-1])


def _per_level(name: str, values: Any, hierarchy: Hierarchy) -> Vector:
    found = as_array(name, values)
    if found.shape != (hierarchy.levels,) or found.dtype.kind not in "iuf":
        allowed = f"({hierarchy.levels},) numbers, one for each level"
        raise UsageError(name, f"{found.dtype} array of shape {found.shape}", allowed)
    if not bool((np.isfinite(found) & (found >= 0)).all()):
        raise UsageError(name, "a negative or infinite one", "finite numbers from 0")
    return found.astype(np.float64)
