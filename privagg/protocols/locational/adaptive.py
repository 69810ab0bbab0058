"""Adaptive splitting: sparse regions are not asked about in detail.

The respondents are dealt out over phases, disjointly. The first phase is asked about coarse
regions; a region whose noisy count is high enough is split into its children for the next phase,
the others stay whole. A respondent takes part in one phase only, so that its report is as private
as any; which regions are split depends on earlier reports, which are already private. All phases
are put together by :func:`privagg.protocols.locational.levels.merge`.

The estimates of one phase are unbiased given the partition it was asked about. The partition itself
was chosen by the noise of earlier ones, so that an estimate of an earlier phase, averaged in, is a
little higher than it should be for regions that were split, and lower for others; a threshold of
several standard deviations keeps that small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.errors import UsageError
from privagg.protocols.locational.hierarchy import Hierarchy

__all__ = ["Refined", "refine", "threshold"]


@dataclass(frozen=True, eq=False)
class Refined:
    """The next phase's partition.

    Attributes
    ----------
    partition : (c,) int64 array
        Its cells, in ascending order.
    split, kept : (s,) and (t,) int64 arrays
        Which cells of the partition before were split, and which could be but were not.
    """

    partition: NDArray[np.int64]
    split: NDArray[np.int64]
    kept: NDArray[np.int64]


def threshold(hierarchy: Hierarchy, partition: Any, deviation: float, factor: float = 2.0) -> Any:
    """Return the value from which it is worth splitting each cell.

    A cell with c children is worth it if a child of average size would stand out: with value v / c
    above `factor` times the standard deviation with which the next phase estimates a cell.

    Parameters
    ----------
    hierarchy, partition
        The cells in question.
    deviation : float
        Forecast standard deviation of one cell in the next phase, in the units of the values.
    factor : float
        How many of them.

    Returns
    -------
    (c,) float64 array
        Infinite for leaves.

    Raises
    ------
    UsageError
        If `deviation` or `factor` is no finite number above 0.
    """
    for name, number in (("deviation", deviation), ("factor", factor)):
        real = isinstance(number, int | float | np.floating) and not isinstance(number, bool)
        if not real or not 0 < number < np.inf:
            raise UsageError(name, number, "a finite number above 0")
    children = hierarchy.children[np.asarray(partition)]
    return np.where(children > 0, factor * deviation * children, np.inf)


def refine(hierarchy: Hierarchy, partition: Any, values: Any, least: Any) -> Refined:
    """Split the cells of a partition whose noisy value is at least a threshold.

    Parameters
    ----------
    hierarchy : Hierarchy
        Of the regions.
    partition : (c,) int array
        Cells that hold each leaf once.
    values : (c,) float array
        The noisy, unbiased estimate of each.
    least : float or (c,) float array
        The threshold of each; see :func:`threshold`.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    hierarchy.cell_of(partition)
    cells = np.asarray(partition, np.int64)
    numbers, limits = as_array("values", values), as_array("least", least)
    if numbers.shape != cells.shape or numbers.dtype.kind not in "iuf":
        raise UsageError("values", f"shape {numbers.shape}", f"({cells.size},) numbers")
    if limits.shape not in ((), cells.shape) or limits.dtype.kind not in "iuf":
        raise UsageError("least", f"shape {limits.shape}", f"a number, or ({cells.size},) numbers")
    if not np.isfinite(numbers).all() or np.isnan(limits).any():
        raise UsageError("values", "one that is not finite", "finite estimates")
    inner = hierarchy.children[cells] > 0
    high = inner & (numbers >= limits)
    split = cells[high]
    below = np.flatnonzero(np.isin(hierarchy.parents, split))
    following = np.sort(np.concatenate([cells[~high], below])).astype(np.int64)
    return Refined(following, split, cells[inner & ~high])
