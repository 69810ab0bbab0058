"""Tables of ad reports: displays and clicks by one feature, and by two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, describe, refuse_masked, whole
from privagg.errors import UsageError

__all__ = ["Layout", "Tables", "check_tables"]

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]

_MAX_CELLS = 2**27
_MAX_FEATURES = 1000


@dataclass(frozen=True)
class Layout:
    """Which tables there are: one for each feature, and one for each pair of features.

    All cells are declared beforehand, empty ones too: which cells a report has must not depend on
    the data.

    Parameters
    ----------
    cardinalities : sequence of int
        How many values each categorical feature has.
    pairs : bool
        Whether there are tables for pairs.

    Raises
    ------
    UsageError
        If a feature has no value, or there would be more than 1,000 features or 2**27 cells.
    """

    cardinalities: tuple[int, ...]
    pairs: bool = True
    tables: tuple[tuple[int, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.cardinalities, Sequence) or isinstance(self.cardinalities, str):
            raise UsageError("cardinalities", describe(self.cardinalities), "a tuple of sizes")
        if not 1 <= len(self.cardinalities) <= _MAX_FEATURES:
            found = f"{len(self.cardinalities)} features"
            raise UsageError("cardinalities", found, f"1 to {_MAX_FEATURES}")
        if not isinstance(self.pairs, bool):
            raise UsageError("pairs", self.pairs, "True or False")
        sizes = tuple(whole("cardinalities", c, 1, 2**31) for c in self.cardinalities)
        singles: list[tuple[int, ...]] = [(f,) for f in range(len(sizes))]
        both = list(itertools.combinations(range(len(sizes)), 2)) if self.pairs else []
        object.__setattr__(self, "cardinalities", sizes)
        object.__setattr__(self, "tables", tuple(singles + both))
        if self.cells > _MAX_CELLS:
            raise UsageError(
                "cardinalities",
                f"{self.cells:,} cells",
                f"at most {_MAX_CELLS:,}",
                "Put rare values of the largest features together.",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each table has."""
        return tuple(math.prod(self.cardinalities[f] for f in table) for table in self.tables)

    @property
    def cells(self) -> int:
        """How many cells there are in all."""
        return sum(self.sizes)

    @cached_property
    def starts(self) -> Ints:
        """The number of each table's first cell."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def index(self, codes: Any) -> NDArray[np.int32]:
        """Return the number of each row's cell in each table.

        Parameters
        ----------
        codes : (n, f) integer array
            The features' values, from 0.

        Returns
        -------
        (n, t) int32 array

        Raises
        ------
        UsageError
            If a value is not declared.
        """
        refuse_masked("codes", codes)
        rows = as_array("codes", codes)
        if rows.ndim != 2 or rows.shape[1] != len(self.cardinalities):
            raise UsageError(
                "codes", f"shape {rows.shape}", f"{len(self.cardinalities)} columns, one a feature"
            )
        if rows.dtype.kind not in "iu":
            raise UsageError("codes", f"{rows.dtype}", "whole numbers from 0")
        for f, size in enumerate(self.cardinalities):
            if rows.shape[0] and not 0 <= rows[:, f].min() <= rows[:, f].max() < size:
                raise UsageError("codes", f"a value of feature {f}", f"0 to {size - 1}")
        found = np.empty((rows.shape[0], len(self.tables)), np.int32)
        for t, (table, start) in enumerate(zip(self.tables, self.starts, strict=True)):
            cell = rows[:, table[0]].astype(np.int64)
            for f in table[1:]:
                cell = cell * self.cardinalities[f] + rows[:, f]
            found[:, t] = cell + start
        return found


@dataclass(frozen=True, eq=False)
class Tables:
    """Counts of all cells.

    Attributes
    ----------
    layout : Layout
    displays : (cells,) float64 array
        How many rows fall in each cell.
    clicks : (cells,) float64 array
        How many of them have label 1.
    kept : (cells,) bool array
        Which cells the report has.
    """

    layout: Layout
    displays: Reals
    clicks: Reals
    kept: NDArray[np.bool_]

    @classmethod
    def count(cls, layout: Layout, codes: Any, labels: Any) -> Tables:
        """Return the exact counts; no privacy.

        Parameters
        ----------
        layout : Layout
        codes : (n, f) integer array
        labels : (n,) array of 0 and 1

        Raises
        ------
        UsageError
            If a value is not declared, or a label not 0 or 1.
        """
        index = layout.index(codes)
        refuse_masked("labels", labels)
        y = as_array("labels", labels)
        if y.shape != (index.shape[0],) or not np.isin(y, (0, 1)).all():
            raise UsageError("labels", f"shape {y.shape}", "0 or 1 for each row")
        displays, clicks = np.zeros(layout.cells), np.zeros(layout.cells)
        weights = y.astype(np.float64)
        for t, (start, size) in enumerate(zip(layout.starts, layout.sizes, strict=True)):
            cell = index[:, t] - start
            displays[start : start + size] = np.bincount(cell, minlength=size)
            clicks[start : start + size] = np.bincount(cell, weights, minlength=size)
        return cls(layout, displays, clicks, np.ones(layout.cells, bool))

    @property
    def total(self) -> float:
        """How many rows there are, by the mean over the tables of single features."""
        return self._mean_total(self.displays)

    @property
    def clicked(self) -> float:
        """How many have label 1, likewise."""
        return self._mean_total(self.clicks)

    def _mean_total(self, values: Reals) -> float:
        singles = self.singles()
        size = sum(self.layout.sizes[: len(singles)])
        return float(values[:size].sum()) / len(singles)

    def share(self) -> float:
        """Return the clicks of a display.

        Raises
        ------
        UsageError
            If the tables count no displays, or all or none of these are clicked.
        """
        found = self.clicked / self.total if self.total > 0 else 0.0
        if not 0 < found < 1:
            raise UsageError("tables", f"{found:.3g} clicks a display", "above 0 and below 1")
        return found

    def singles(self) -> Sequence[int]:
        """Return the numbers of the tables of single features."""
        return range(len(self.layout.cardinalities))


def check_tables(tables: Any) -> Tables:
    """Return `tables`.

    Raises
    ------
    UsageError
        If it is something else.
    """
    if not isinstance(tables, Tables):
        raise UsageError("tables", describe(tables), "Tables: a report's, or Tables.count's")
    return tables
