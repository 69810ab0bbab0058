"""The parts of a report as data: tables of cells, plots of named series. Nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from privagg.errors import UsageError

__all__ = [
    "Cell",
    "Column",
    "Plot",
    "PlotKind",
    "Reference",
    "SecondAxis",
    "Series",
    "Table",
    "cell_text",
    "printable",
]

Cell: TypeAlias = str | bool | int | float | None
"""What a table holds; NumPy scalars are taken as well."""

PlotKind: TypeAlias = Literal["line", "bar", "stacked-bar", "heatmap", "map"]

_DECIMAL_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def printable(text: str) -> str:
    r"""Return `text` with control characters as ``\x1b`` escapes, newline and tab kept.

    Strings of a report may come from a file or a peer; a terminal would obey them.
    """
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def cell_text(value: object, unit: str = "") -> str:
    """Return `value` as people read it.

    Bytes (unit ``"B"``) and seconds (unit ``"s"``) get a decimal prefix; other numbers get
    thousands separators or four significant digits, and their unit stands in the column's head.

    Parameters
    ----------
    value : str, bool, int, float or None
        NumPy scalars are taken as well. None becomes a dash.
    unit : str
        The column's unit.

    Raises
    ------
    UsageError
        If `value` is of another type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return printable(value)
        case int() | float() if unit == "B":
            return _bytes(value)
        case int() | float() if unit == "s":
            return _seconds(value)
        case int():
            return f"{value:,}"
        case float():
            return _number(value)
    raise UsageError("cell", type(value).__name__, "a string, a number, a boolean or None")


def _number(value: float) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _bytes(value: float) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    scaled, index = float(value), 0
    while abs(scaled) >= 999.5 and index < len(_DECIMAL_PREFIXES) - 1:
        scaled, index = scaled / 1000, index + 1
    digits = f"{scaled:.0f}" if index == 0 and scaled == round(scaled) else f"{scaled:.3g}"
    return f"{digits} {_DECIMAL_PREFIXES[index]}B"


def _seconds(value: float) -> str:
    size = abs(value)
    if size == 0:
        return "0 s"
    if not 1e-9 <= size < 1e7:
        return f"{value:.3g} s"
    if size >= 7200:
        return f"{value / 3600:.3g} h"
    if size >= 120:
        return f"{value / 60:.3g} min"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if size >= 0.9995 * scale:
            return f"{value / scale:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head and the unit of its numbers.

    Parameters
    ----------
    name : str
        What the numbers are.
    unit : str
        ``"B"`` and ``"s"`` are written with each number (``1.3 MB``, ``20 ms``); any other unit
        is written once, in the head.
    """

    name: str
    unit: str = ""

    @property
    def head(self) -> str:
        """The column's head, with its unit where the cells do not carry it."""
        name = printable(self.name)
        return name if self.unit in ("", "B", "s") else f"{name} [{printable(self.unit)}]"


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table.

    Parameters
    ----------
    title : str
        What the table shows.
    columns : sequence of Column or str
        A string is a column without a unit.
    rows : sequence of sequences of cells
        As many cells in each row as there are columns.

    Raises
    ------
    UsageError
        If a row has another number of cells than there are columns.
    """

    title: str
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        heads = tuple(c if isinstance(c, Column) else Column(c) for c in self.columns)
        rows = tuple(tuple(row) for row in self.rows)
        for index, row in enumerate(rows):
            if len(row) != len(heads):
                raise UsageError(
                    f"rows[{index}] of table {self.title!r}",
                    f"{len(row)} cells",
                    f"{len(heads)} cells, one for each column",
                )
        object.__setattr__(self, "columns", heads)
        object.__setattr__(self, "rows", rows)

    @property
    def heads(self) -> tuple[str, ...]:
        """The columns' heads."""
        return tuple(Column(c).head if isinstance(c, str) else c.head for c in self.columns)

    def texts(self) -> list[list[str]]:
        """Return the cells as text, row by row."""
        units = [c.unit if isinstance(c, Column) else "" for c in self.columns]
        return [
            [cell_text(value, unit) for value, unit in zip(row, units, strict=True)]
            for row in self.rows
        ]

    def is_numeric(self, column: int) -> bool:
        """Whether `column` holds numbers, and so is aligned to the right."""
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(
            isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values
        )


@dataclass(frozen=True, slots=True)
class Series:
    """One named series of a plot.

    Parameters
    ----------
    name : str
        Its entry in the legend; in a heat map the row's label.
    x : sequence of float or str
        Positions of a line; category labels of bars; column labels of a heat map.
    y : sequence of float
        As many as `x`; finite.
    low, high : sequence of float
        The ends of an interval for each bar, both or neither; drawn as a whisker.

    Raises
    ------
    UsageError
        If the lengths differ or a number is not finite.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def __post_init__(self) -> None:
        x = tuple(v if isinstance(v, str) else float(v) for v in self.x)
        y = tuple(float(v) for v in self.y)
        low, high = tuple(map(float, self.low)), tuple(map(float, self.high))
        for axis, found in (("y", y), *((("low", low), ("high", high)) if low or high else ())):
            if len(x) != len(found):
                raise UsageError(
                    f"{axis} of series {self.name!r}",
                    f"{len(found)} values",
                    f"{len(x)} values, as many as x",
                )
        for axis, values in (("x", x), ("y", y), ("low", low), ("high", high)):
            for index, value in enumerate(values):
                if isinstance(value, float) and not math.isfinite(value):
                    raise UsageError(
                        f"{axis}[{index}] of series {self.name!r}", value, "a finite number"
                    )
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@dataclass(frozen=True, slots=True)
class Reference:
    """A dashed line across a plot, for what a formula or a limit says.

    Parameters
    ----------
    value : float
        Where.
    label : str
        Its entry in the legend.
    axis : {"x", "y"}
        The axis on which `value` lies.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    value: float
    label: str
    axis: Literal["x", "y"] = "y"

    def __post_init__(self) -> None:
        if self.axis not in ("x", "y"):
            raise UsageError("axis", self.axis, "'x' or 'y'")
        if not math.isfinite(self.value):
            raise UsageError(f"reference {self.label!r}", self.value, "a finite number")


@dataclass(frozen=True, slots=True)
class SecondAxis:
    """A second scale along the top of a plot of lines: other names for places along x.

    Parameters
    ----------
    label : str
        What the names are, with the unit.
    places : sequence of float
        Where, on the plot's own x axis.
    texts : sequence of str
        A name for each place.

    Raises
    ------
    UsageError
        If places and texts are not as many, or a place is not finite.
    """

    label: str
    places: Sequence[float]
    texts: Sequence[str]

    def __post_init__(self) -> None:
        places = tuple(float(v) for v in self.places)
        if not places or len(places) != len(self.texts):
            raise UsageError(
                f"texts of axis {self.label!r}",
                f"{len(self.texts)} texts",
                f"{len(places) or 'some'}, one for each place",
            )
        for place in places:
            if not math.isfinite(place):
                raise UsageError(f"places of axis {self.label!r}", place, "finite numbers")
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "texts", tuple(self.texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture as data.

    Parameters
    ----------
    kind : {"line", "bar", "stacked-bar", "heatmap", "map"}
        Bars and heat maps need the same `x` in every series; a heat map has one series a row. A map
        shows points in the plane, both axes to one scale.
    title, x_label, y_label : str
        Labels name the unit: ``"bytes up per client [B]"``.
    series : sequence of Series
        At least one.
    value_label : str
        What the colours of a heat map mean, with the unit.
    log_x, log_y : bool
        Logarithmic axes; then every number on the axis must be positive.
    references : sequence of Reference
        Lines drawn across; not for heat maps and maps.
    segments : sequence of Series
        Of a map only: straight lines from each point of even index to the next, under the points.
    second_x : SecondAxis, optional
        Of lines only: a second scale, along the top.

    Raises
    ------
    UsageError
        If the parts do not fit together.
    """

    kind: PlotKind
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    value_label: str = ""
    log_x: bool = False
    log_y: bool = False
    references: Sequence[Reference] = ()
    segments: Sequence[Series] = ()
    second_x: SecondAxis | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", tuple(self.series))
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "references", tuple(self.references))
        where = f"of plot {self.title!r}"
        if self.kind not in get_args(PlotKind):
            raise UsageError(f"kind {where}", self.kind, f"one of {', '.join(get_args(PlotKind))}")
        if not self.series or not all(s.x for s in self.series):
            raise UsageError(f"series {where}", "no points", "at least one point in every series")
        if self.kind == "map":
            if self.log_x or self.log_y or self.references:
                raise UsageError(f"kind {where}", "map", "a map without log axes and references")
            if any(len(one.x) % 2 for one in self.segments):
                raise UsageError(f"segments {where}", "an odd number of points", "two for a line")
        elif self.segments:
            raise UsageError(f"segments {where}", self.kind, "a map")
        if self.kind in ("line", "map"):
            for one in (*self.series, *self.segments):
                if any(isinstance(v, str) for v in one.x):
                    raise UsageError(f"x of {one.name!r} {where}", "text", "numbers", "Use bars.")
        elif any(one.x != self.series[0].x for one in self.series):
            raise UsageError(f"x {where}", "series that differ in x", "the same x in every series")
        if self.kind != "bar" and any(one.low for one in self.series):
            raise UsageError(f"low {where}", "whiskers", "none: only bars side by side have them")
        if self.log_x and self.kind != "line":
            raise UsageError(f"log_x {where}", True, "False: only lines have numbers along x")
        if self.kind == "heatmap" and (self.log_y or self.references):
            raise UsageError(f"kind {where}", "heatmap", "a heat map without log_y and references")
        if self.second_x is not None and self.kind != "line":
            raise UsageError(f"second_x {where}", self.kind, "a plot of lines")
        self._check_log("x", self.log_x)
        self._check_log("y", self.log_y)

    def _check_log(self, axis: Literal["x", "y"], log: bool) -> None:
        if not log:
            return
        values = [v for one in self.series for v in (one.x if axis == "x" else one.y)]
        values += [r.value for r in self.references if r.axis == axis]
        if axis == "x" and self.second_x is not None:
            values += self.second_x.places
        for value in values:
            if not isinstance(value, str) and value <= 0:
                raise UsageError(
                    f"{axis} of plot {self.title!r}", value, f"positive numbers with log_{axis}"
                )
