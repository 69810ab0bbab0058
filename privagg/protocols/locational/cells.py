"""The product domain: a cell for each region and value, and those for whatever is in none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privagg.domain import Domain
from privagg.domain.base import Codes, check_codes
from privagg.errors import UsageError
from privagg.protocols.locational.regions import Regions
from privagg.protocols.locational.values import Value

__all__ = ["OTHER", "Cells"]

OTHER = "OTHER"
"""The label of the cell for respondents in no region, or without a value."""


class Cells(Domain):
    """Regions times values, as one domain: what a frequency oracle reports one cell of.

    Cell ``region * k + value``; then, where declared, one cell for everything unknown (whoever is
    in it is hidden by epsilon like everyone else), and one for "no item" of respondents with fewer
    items than were declared.

    Parameters
    ----------
    regions : Regions
        The declared regions.
    value : Value
        The declared value.
    other : bool
        Whether there is a cell for unknown regions and values.
    padding : bool
        Whether there is a cell for "no item".
    group : int
        The coordinate asked for; reports of different groups are not mixed up.

    Raises
    ------
    UsageError
        If there is only one cell.
    """

    def __init__(
        self,
        regions: Regions,
        value: Value,
        *,
        other: bool = False,
        padding: bool = False,
        group: int = 0,
    ) -> None:
        self._regions, self._value, self._group = regions, value, group
        self._other, self._padding = other, padding
        if self.size < 2:
            hint = "One region and no value: everybody's report would be the same."
            raise UsageError("regions", "one cell", "two or more cells", hint)

    @property
    def known(self) -> int:
        """How many cells are of a region and a value."""
        return len(self._regions) * self._value.k

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.known + self._other + self._padding

    @property
    def other(self) -> int | None:
        """The cell for unknown regions and values, where there is one."""
        return self.known if self._other else None

    @property
    def padding(self) -> int | None:
        """The cell for "no item", where there is one."""
        return self.known + self._other if self._padding else None

    @property
    def labels(self) -> Sequence[Any]:
        """Pairs of region and value; last, the cells for unknown ones and for "no item"."""
        pairs = [(name, label) for name in self._regions.names for label in self._value.labels]
        return [*pairs, *[(OTHER, "")] * self._other, *[("", "")] * self._padding]

    def encode(self, values: Any, unknown: str | None = None) -> Codes:
        """Return numbers of cells as codes: they are their own codes."""
        return check_codes(np.asarray(values), self.size, "values")

    def unknown_count(self, values: Any) -> int:
        """Return how many numbers are in the cell for unknown ones; for simulations only."""
        codes = self.encode(values)
        return int((codes == self.known).sum()) if self._other else 0

    def describe(self) -> dict[str, Any]:
        """Return the digest of the regions, the value's domain, and which more cells there are."""
        return {
            "kind": "cells",
            "regions": self._regions.digest.hex(),
            "value": self._value.describe(),
            "other": self._other,
            "padding": self._padding,
            "group": self._group,
        }

    def __repr__(self) -> str:
        return f"Cells({len(self._regions)} regions, {self._value.kind}, {self.size} in all)"
