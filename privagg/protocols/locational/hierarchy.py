"""Hierarchies of regions, and estimates that agree: parents equal the sum of their children.

Each respondent is asked about one level only, with full epsilon, and reports the cell of that
level's partition. The levels' estimates then correct one another: bottom-up, a region's own
estimate is averaged with the sum over its children; top-down, what is missing between a parent and
its children is dealt out among them. Both are weighted by variances, so that the result is the
generalised least squares solution for independent estimates, of any tree; unbiased estimates stay
unbiased, and no variance grows. It costs no privacy.

Source: Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of Differentially Private Histograms
Through Consistency", VLDB 2010, section 4, there for equal variances and numbers of children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.errors import UsageError

__all__ = ["Consistent", "Hierarchy", "Vector", "combine"]

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

_MOST = 2**20


class Hierarchy:
    """A forest of regions, such as states and their counties.

    Parameters
    ----------
    parents : (r,) sequence of int
        The parent of each region, -1 where it has none; at most 2**20 regions.

    Raises
    ------
    UsageError
        If it is not such a sequence, or regions are their own ancestors.
    """

    def __init__(self, parents: Sequence[int] | NDArray[np.integer]) -> None:
        found = as_array("parents", parents)
        if found.ndim != 1 or not 0 < found.size <= _MOST or found.dtype.kind not in "iu":
            shown = f"{found.dtype} array of shape {found.shape}"
            raise UsageError("parents", shown, f"(r,) whole numbers, r up to {_MOST}")
        if int(found.min()) < -1 or int(found.max()) >= found.size:
            raise UsageError("parents", "a region that is none", f"-1 to {found.size - 1}")
        self._parents = found.astype(np.int64)
        depths = np.where(self._parents < 0, 0, -1)
        order = [np.flatnonzero(depths == 0)]
        while order[-1].size:
            below = (depths < 0) & (depths[self._parents] == len(order) - 1)
            depths[below] = len(order)
            order.append(np.flatnonzero(below))
        if (depths < 0).any():
            raise UsageError("parents", "a region that is its own ancestor", "a forest")
        self._depths = depths
        self._levels = order[:-1]

    @property
    def size(self) -> int:
        """How many regions there are, on all levels."""
        return int(self._parents.size)

    @property
    def parents(self) -> Indices:
        """The parent of each region, -1 where it has none; a copy."""
        return self._parents.copy()

    @property
    def depths(self) -> Indices:
        """How many ancestors each region has; a copy."""
        return self._depths.copy()

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self._levels)

    @property
    def children(self) -> Indices:
        """How many children each region has."""
        inner = self._parents[self._parents >= 0]
        return np.bincount(inner, minlength=self.size).astype(np.int64)

    @property
    def leaves(self) -> Indices:
        """The regions without children."""
        return np.flatnonzero(self.children == 0)

    def at(self, level: int) -> Indices:
        """Return the regions with so many ancestors."""
        return self._levels[level].copy()

    def partition(self, level: int) -> Indices:
        """Return the cells that respondents of a level report: each leaf is in just one.

        These are the regions of the level, and leaves above it.

        Raises
        ------
        UsageError
            If there is no such level.
        """
        if isinstance(level, bool) or not 0 <= level < self.levels:
            raise UsageError("level", level, f"0 to {self.levels - 1}")
        above = (self.children == 0) & (self._depths < level)
        return np.flatnonzero(above | (self._depths == level))

    def cell_of(self, partition: Any) -> Indices:
        """Return, for each region, the position in `partition` of the cell that holds it, or -1.

        Raises
        ------
        UsageError
            If a leaf lies in no cell, or in two.
        """
        cells = _regions("partition", partition, self.size)
        found = np.full(self.size, -1, np.int64)
        found[cells] = np.arange(cells.size)
        if np.unique(cells).size != cells.size:
            raise UsageError("partition", "a region twice", "each once")
        for regions in self._levels[1:]:
            above = found[self._parents[regions]]
            if ((above >= 0) & (found[regions] >= 0)).any():
                raise UsageError("partition", "a region and its ancestor", "cells that are apart")
            found[regions] = np.maximum(above, found[regions])
        if (found[self.leaves] < 0).any():
            raise UsageError("partition", "a leaf in no cell", "a cell for every leaf")
        return found

    def sums(self, leaves: Any) -> Vector:
        """Return the value of each region, given those of the leaves in the order of `leaves`."""
        values = as_array("leaves", leaves)
        if values.shape != (self.leaves.size,) or values.dtype.kind not in "iuf":
            raise UsageError("leaves", f"shape {values.shape}", f"({self.leaves.size},) numbers")
        found = np.zeros(self.size)
        found[self.leaves] = values
        for regions in self._levels[:0:-1]:
            np.add.at(found, self._parents[regions], found[regions])
        return found

    def below(self, partition: Any) -> tuple[Hierarchy, Indices]:
        """Return the hierarchy cut off below the cells of a partition, and its regions' numbers."""
        self.cell_of(partition)
        kept = np.zeros(self.size, bool)
        at = _regions("partition", partition, self.size)
        while at.size:
            kept[at] = True
            at = np.unique(self._parents[at])
            at = at[at >= 0]
        regions = np.flatnonzero(kept)
        numbers = np.full(self.size + 1, -1, np.int64)
        numbers[regions] = np.arange(regions.size)
        return Hierarchy(numbers[self._parents[regions]]), regions

    def __repr__(self) -> str:
        return f"Hierarchy({self.size} regions, {self.levels} levels)"


@dataclass(frozen=True, eq=False)
class Consistent:
    """Estimates of all regions of a hierarchy that agree with one another.

    Attributes
    ----------
    values : (r,) float64 array
        One for each region; those of children add up to their parent's.
    variance : (r,) float64 array
        The variance of each, if the variances that went in are right and the estimates were
        independent.
    """

    values: Vector = field(repr=False)
    variance: Vector = field(repr=False)


def combine(hierarchy: Hierarchy, values: Any, variance: Any) -> Consistent:
    """Make the estimates of a hierarchy agree, by generalised least squares.

    Parameters
    ----------
    hierarchy : Hierarchy
        Of r regions.
    values : (r,) float array
        An estimate of each region; of those with infinite variance, anything.
    variance : (r,) float array
        The variance of each: 0 for what is known, infinite for what was not measured, which no leaf
        may be. Estimates of
        one level by a frequency oracle are slightly correlated (they share respondents), which is
        left out: with k cells by about f f' / n, small beside the noise.

    Raises
    ------
    UsageError
        If an argument is not as described, or what is known does not add up.
    """
    own, spread = _estimates(hierarchy, values, variance)
    parents = hierarchy.parents
    levels = [hierarchy.at(level) for level in range(hierarchy.levels)]
    # Bottom-up: each region's best estimate from itself and all below it, and its children's sum.
    upward, upward_spread = own.copy(), spread.copy()
    sums, sum_spread = np.zeros(hierarchy.size), np.zeros(hierarchy.size)
    inner = hierarchy.children > 0
    for regions in reversed(levels):
        here = regions[inner[regions]]
        upward[here], upward_spread[here] = _averaged(
            own[here], spread[here], sums[here], sum_spread[here]
        )
        below = regions[parents[regions] >= 0]
        np.add.at(sums, parents[below], upward[below])
        np.add.at(sum_spread, parents[below], upward_spread[below])
    # Top-down: what a parent has more than its children is theirs in proportion to variances.
    found, final = upward.copy(), upward_spread.copy()
    for regions in levels[1:]:
        above = parents[regions]
        total = sum_spread[above]
        share = np.divide(
            upward_spread[regions], total, out=np.zeros(regions.size), where=total > 0
        )
        found[regions] += share * (found[above] - sums[above])
        final[regions] += share**2 * (final[above] - total)
    return Consistent(found, np.maximum(final, 0.0))


def _averaged(
    first: Vector, first_spread: Vector, second: Vector, second_spread: Vector
) -> tuple[Vector, Vector]:
    """Return two estimates averaged, each weighted by the other's variance."""
    exact = (first_spread == 0) & (second_spread == 0)
    if (exact & ~np.isclose(first, second, rtol=1e-9, atol=1e-12)).any():
        raise UsageError("variance", "0 for regions whose sums differ", "what is known to agree")
    # The weight of the first; the second is never infinite.
    weight = np.ones(first.size)
    np.divide(second_spread, first_spread + second_spread, out=weight, where=~exact)
    weighed = np.where(np.isinf(first_spread), 0.0, first_spread)
    spread = np.where(np.isinf(first_spread), second_spread, weight * weighed)
    return weight * first + (1 - weight) * second, spread


def _estimates(hierarchy: Any, values: Any, variance: Any) -> tuple[Vector, Vector]:
    if not isinstance(hierarchy, Hierarchy):
        raise UsageError("hierarchy", type(hierarchy).__name__, "a Hierarchy")
    own, spread = as_array("values", values), as_array("variance", variance)
    for name, one in (("values", own), ("variance", spread)):
        if one.shape != (hierarchy.size,) or one.dtype.kind not in "iuf":
            raise UsageError(name, f"{one.dtype} array of shape {one.shape}", "a number a region")
    own, spread = own.astype(np.float64), spread.astype(np.float64)
    if not (spread >= 0).all():
        raise UsageError("variance", "a negative one or NaN", "variances from 0, or infinite")
    if np.isinf(spread[hierarchy.leaves]).any():
        hint = "Cut the hierarchy off where the estimates end: Hierarchy.below."
        raise UsageError("variance", "a leaf without an estimate", "an estimate of each", hint)
    own = np.where(np.isinf(spread), 0.0, own)
    if not np.isfinite(own).all():
        raise UsageError("values", "one that is not finite", "finite estimates")
    return own, spread


def _regions(name: str, regions: Any, size: int) -> Indices:
    found = as_array(name, regions)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise UsageError(name, f"{found.dtype} array of shape {found.shape}", "(c,) regions")
    if int(found.min()) < 0 or int(found.max()) >= size:
        raise UsageError(name, "a region that is none", f"0 to {size - 1}")
    return found.astype(np.int64)
