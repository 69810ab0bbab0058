"""Ticks that people read: 200k, 0.01 and whole clients, never an offset in a corner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privagg._report_choropleth import GRID, INK
from privagg._report_parts import SecondAxis, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["readable_numbers", "readable_powers", "second_axis", "whole_ticks"]


def whole_ticks() -> Any:
    """Return a locator of ticks for counts: there is no half a client."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True)


def readable_numbers(axis: Any) -> None:
    """Write 200k and 3M where numbers are large, and never an offset in the corner."""
    from matplotlib.ticker import EngFormatter, ScalarFormatter

    largest = max(abs(v) for v in axis.get_view_interval())
    large = 1e4 <= largest < 1e15
    axis.set_major_formatter(EngFormatter(sep="") if large else ScalarFormatter(useOffset=False))


def readable_powers(axis: Any) -> None:
    """Write 1, 10 and 100 on a logarithmic axis, and 2 and 5 between where there is room."""
    from matplotlib.ticker import (
        EngFormatter,
        FuncFormatter,
        LogFormatterMathtext,
        LogLocator,
        NullFormatter,
    )

    low, high = axis.get_view_interval()
    large, other = EngFormatter(sep=""), LogFormatterMathtext()
    for formatter in (large, other):
        formatter.set_axis(axis)

    def written(value: float, place: int | None = None) -> str:
        if 1e-3 <= value < 1e4:
            return f"{value:.9g}"
        return str(large(value, place) if 1e4 <= value < 1e15 else other(value, place))

    axis.set_major_formatter(FuncFormatter(written))
    axis.set_minor_formatter(NullFormatter())
    if high < 60 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def second_axis(axis: SecondAxis, axes: Axes) -> None:
    """Draw other names for places along x at the top of a plot."""
    from matplotlib.ticker import NullLocator

    top = axes.secondary_xaxis("top")
    top.set_xticks(axis.places, [printable(text).replace("$", r"\$") for text in axis.texts])
    top.xaxis.set_minor_locator(NullLocator())
    top.set_xlabel(printable(axis.label).replace("$", r"\$"), fontsize=10, color=INK)
    top.tick_params(colors=INK, labelsize=9)
    top.tick_params(which="both", color=GRID)
    top.patch.set_visible(False)
    for spine in top.spines.values():
        spine.set_color(GRID)
