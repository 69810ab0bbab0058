"""Plots drawn by matplotlib's Figure objects: no pyplot, no global state, no display."""

from __future__ import annotations

import importlib.util
import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from privagg import _report_choropleth, _report_images, _report_ticks
from privagg._report_areas import Choropleth
from privagg._report_choropleth import GRID as _GRID
from privagg._report_choropleth import INK as _INK
from privagg._report_images import ImageGrid
from privagg._report_parts import Plot, cell_text, printable
from privagg.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SUFFIXES", "figure", "require", "save", "svg"]

SUFFIXES = (".png", ".svg", ".pdf")
"""File names that :func:`save` knows."""

# Okabe and Ito's palette without its yellow, which is too pale on white: all pairs are told apart
# with the common kinds of colour blindness. Markers and hatches repeat the distinction.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", ":")
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
_SIZE = (7.2, 4.2)
# In a page: as wide as its text, so that letters in pictures are as large as those around them.
_SIZE_IN_PAGE = (4.7, 3.3)
_LEGEND_LINE = 0.19
_LETTERS_IN_PAGE = 64
_MARKED_POINTS = 40
_NUMBERED_CELLS = 150
_LETTERS_ALONG_X = 60
_LETTERS_OF_TITLE = 52


def require(*modules: str) -> None:
    """Raise :class:`UsageError` unless the `modules` of the extra ``plots`` are installed."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise UsageError(
                name,
                "not installed",
                "the optional packages for plots and pages",
                "Install them: pip install 'privagg[plots]'",
            )


def figure(plots: Sequence[Plot | Choropleth | ImageGrid]) -> Figure:
    """Return one figure with all `plots`, in up to two columns.

    A choropleth, a grid of pictures, and an odd one out, takes a whole row.

    Raises
    ------
    UsageError
        If there is no plot, or matplotlib is not installed.
    """
    if not plots:
        raise UsageError("plots", "none", "a result that has plots")
    require("matplotlib")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows = _rows(plots)
    alone = len(plots) == 1 and not isinstance(plots[0], Choropleth)
    columns = 1 if alone else 2
    heights = [
        _report_images.height(row[0], _SIZE[0] * columns)
        if isinstance(row[0], ImageGrid)
        else _SIZE[1]
        for row in rows
    ]
    whole = Figure(
        figsize=(_SIZE[0] * columns, sum(heights)),
        layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1),
    )
    grid = whole.add_gridspec(len(rows), columns, height_ratios=heights)
    for number, row in enumerate(rows):
        for column, plot in enumerate(row):
            slot = grid[number, :] if len(row) == 1 else grid[number, column]
            if isinstance(plot, Choropleth):
                _report_choropleth.draw(plot, whole, slot)
            elif isinstance(plot, ImageGrid):
                _report_images.draw(plot, whole, slot)
            else:
                axes = whole.add_subplot(slot)
                entries = _draw(plot, axes)
                if entries:
                    _legend(entries, axes)
    return whole


def _rows(
    plots: Sequence[Plot | Choropleth | ImageGrid],
) -> list[list[Plot | Choropleth | ImageGrid]]:
    """Return the plots of each row, in their order."""
    rows: list[list[Plot | Choropleth | ImageGrid]] = []
    open_row = False
    for plot in plots:
        wide = isinstance(plot, Choropleth | ImageGrid)
        if open_row and not wide:
            rows[-1].append(plot)
            open_row = False
        else:
            rows.append([plot])
            open_row = not wide
    return rows


def save(
    plots: Sequence[Plot | Choropleth | ImageGrid], path: str | Path, target: BinaryIO | None = None
) -> None:
    """Write all `plots` as one picture to `path`; its suffix says the format.

    Parameters
    ----------
    plots : sequence of Plot and Choropleth
        At least one.
    path : str or Path
        Ends with one of :data:`SUFFIXES`.
    target : binary file, optional
        Written to instead of `path`, whose suffix still says the format.

    Raises
    ------
    UsageError
        If the suffix is another, there is no plot, or matplotlib is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError("plot", str(path), f"a file name ending in {', '.join(SUFFIXES)}")
    whole = figure(plots)
    import matplotlib

    # No date and no random id in the file: the same result gives the same picture.
    metadata = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    with matplotlib.rc_context({"svg.hashsalt": "privagg"}):
        whole.savefig(target or path, format=suffix[1:], dpi=150, metadata=metadata)


def svg(plot: Plot | ImageGrid, prefix: str) -> str:
    """Return `plot` as an SVG element to stand in a page, in the page's own colours.

    Ink and grid become the CSS variables ``--ink`` and ``--grid``; the ground is transparent.
    There is no address in it, not even a namespace's, and no title: the page writes it above.

    Parameters
    ----------
    plot : Plot
        What to draw.
    prefix : str
        Put before every id, so that several pictures can share a page.
    """
    import matplotlib

    whole = figure([plot]) if isinstance(plot, ImageGrid) else _in_page(plot)
    whole.patch.set_visible(False)
    for axes in whole.axes:
        axes.patch.set_visible(False)
        axes.set_title("", loc="left")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        whole.savefig(buffer, format="svg")
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    # Only tags are touched: the text between them is the report's own.
    return re.sub(r"<[^>]*>", lambda tag: _for_page(tag[0], prefix), text).strip()


def _in_page(plot: Plot) -> Figure:
    """Return a figure of one plot that is narrow: its legend is below."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    require("matplotlib")
    width, height = _SIZE_IN_PAGE
    whole = Figure(layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05))
    entries = _draw(plot, whole.add_subplot(), _LETTERS_IN_PAGE - 18)
    labels = [textwrap.fill(label, _LETTERS_IN_PAGE - 6) for label in _labels(entries)]
    if entries:
        longest = max(len(line) for label in labels for line in label.split("\n"))
        columns = max(1, min(len(labels), _LETTERS_IN_PAGE // (longest + 6)))
        lines = sum(1 + label.count("\n") for label in labels)
        height += _LEGEND_LINE * (-(-lines // columns) + 1)
        whole.legend(
            [entry[0] for entry in entries],
            labels,
            loc="outside lower left",
            ncols=columns,
            frameon=False,
            fontsize=9,
            labelcolor=_INK,
        )
    whole.set_size_inches(width, height)
    return whole


def _for_page(tag: str, prefix: str) -> str:
    tag = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", tag).replace(" xlink:href=", " href=")
    tag = tag.replace(' id="', f' id="{prefix}')
    tag = re.sub(r'( href="#|url\(#)', rf"\g<1>{prefix}", tag)
    return tag.replace(_INK, "var(--ink)").replace(_GRID, "var(--grid)")


def _literal(text: str) -> str:
    """Keep matplotlib from reading dollar signs as mathematics."""
    return printable(text).replace("$", r"\$")


def _draw(plot: Plot, axes: Axes, room: int = _LETTERS_ALONG_X) -> list[tuple[Any, str]]:
    """Draw `plot` and return what its legend has to name; nothing where that is clear."""
    title = textwrap.fill(_literal(plot.title), _LETTERS_OF_TITLE)
    axes.set_title(title, loc="left", fontsize=12, color=_INK, pad=10)
    axes.set_xlabel(_literal(plot.x_label), fontsize=10, color=_INK)
    axes.set_ylabel(_literal(plot.y_label), fontsize=10, color=_INK)
    axes.tick_params(colors=_INK, labelsize=9)
    axes.tick_params(which="both", color=_GRID)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(_GRID)
    if plot.kind == "heatmap":
        _heatmap(plot, axes, room)
        return []
    if plot.kind == "map":
        return _map(plot, axes)
    entries = _lines(plot, axes) if plot.kind == "line" else _bars(plot, axes, room)
    entries += _references(plot, axes)
    axes.grid(visible=True, axis="both" if plot.kind == "line" else "y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if plot.log_x:
        axes.set_xscale("log")
        _report_ticks.readable_powers(axes.xaxis)
    if plot.log_y:
        axes.set_yscale("log")
        _report_ticks.readable_powers(axes.yaxis)
    else:
        _start_at_zero(plot, axes)
    if not plot.log_y:
        if all(v.is_integer() for one in plot.series for v in one.y):
            axes.yaxis.set_major_locator(_report_ticks.whole_ticks())
        _report_ticks.readable_numbers(axes.yaxis)
    if plot.kind == "line" and not plot.log_x:
        if all(float(v).is_integer() for one in plot.series for v in one.x):
            axes.xaxis.set_major_locator(_report_ticks.whole_ticks())
        _report_ticks.readable_numbers(axes.xaxis)
    if plot.second_x is not None:
        _report_ticks.second_axis(plot.second_x, axes)
    return entries if len(entries) > 1 else []


def _start_at_zero(plot: Plot, axes: Axes) -> None:
    """Show the zero of bars always, of lines where it would not squeeze them."""
    values = [v for one in plot.series for v in (*one.y, *one.low, *one.high)]
    values += [one.value for one in plot.references if one.axis == "y"]
    low, high = min(values), max(values)
    flat = low == high
    if low >= 0 and high > 0 and (plot.kind != "line" or low < high / 2 or flat):
        axes.set_ylim(bottom=0)


def _lines(plot: Plot, axes: Axes) -> list[tuple[Any, str]]:
    entries = []
    for index, one in enumerate(plot.series):
        (line,) = axes.plot(
            [float(v) for v in one.x],
            one.y,
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index // len(_COLOURS) % len(_DASHES)],
            marker=_MARKERS[index % len(_MARKERS)] if len(one.x) <= _MARKED_POINTS else "",
            markersize=5,
            linewidth=1.8,
        )
        entries.append((line, one.name))
    return entries


def _bars(plot: Plot, axes: Axes, room: int) -> list[tuple[Any, str]]:
    labels = [v if isinstance(v, str) else cell_text(v) for v in plot.series[0].x]
    stacked = plot.kind == "stacked-bar"
    width = 0.7 if stacked else 0.8 / len(plot.series)
    entries = []
    above, below = [0.0] * len(labels), [0.0] * len(labels)
    for index, one in enumerate(plot.series):
        shift = 0.0 if stacked else (index - (len(plot.series) - 1) / 2) * width
        # Negative parts are stacked downwards, so that no part hides another.
        bottoms = [above[i] if v >= 0 else below[i] for i, v in enumerate(one.y)] if stacked else 0
        bars = axes.bar(
            [i + shift for i in range(len(labels))],
            one.y,
            width=width,
            bottom=bottoms,
            color=_COLOURS[index % len(_COLOURS)],
            hatch=_HATCHES[index % len(_HATCHES)],
            edgecolor="#ffffff",
            linewidth=0.5,
        )
        if one.low:
            # Around its own middle: the bar may be of another estimate, outside of it.
            middles = [(low + high) / 2 for low, high in zip(one.low, one.high, strict=True)]
            reach = [abs(high - low) / 2 for low, high in zip(one.low, one.high, strict=True)]
            places = [i + shift for i in range(len(labels))]
            axes.errorbar(places, middles, yerr=reach, fmt="none", ecolor=_INK, capsize=3)
        for i, value in enumerate(one.y):
            (above if value >= 0 else below)[i] += value
        entries.append((bars, one.name))
    _name_ticks(axes, labels, "x", room)
    axes.tick_params(axis="x", length=0)
    return entries[::-1] if stacked else entries


def _map(plot: Plot, axes: Axes) -> list[tuple[Any, str]]:
    """Draw segments first, then points in the colours of the series, the last ones on top."""
    entries: list[tuple[Any, str]] = []
    axes.set_aspect("equal")
    for index, one in enumerate(plot.segments):
        gap = float("nan")
        pairs = list(zip(one.x, one.y, strict=True))
        points = [p for k in range(0, len(pairs), 2) for p in (*pairs[k : k + 2], (gap, gap))]
        (line,) = axes.plot(
            [float(x) for x, _ in points],
            [y for _, y in points],
            color=_INK if index else _COLOURS[-1],
            linewidth=1.2 if index else 0.6,
            alpha=0.8,
        )
        entries.append((line, one.name))
    for index, one in enumerate(plot.series):
        (marks,) = axes.plot(
            [float(v) for v in one.x],
            one.y,
            color=_COLOURS[index % len(_COLOURS)],
            linestyle="",
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=5 if len(one.x) <= _MARKED_POINTS * 10 else 2,
        )
        entries.append((marks, one.name))
    return entries


def _heatmap(plot: Plot, axes: Axes, room: int) -> None:
    columns = [v if isinstance(v, str) else cell_text(v) for v in plot.series[0].x]
    image = axes.imshow([one.y for one in plot.series], aspect="auto", cmap="cividis")
    _name_ticks(axes, columns, "x", room)
    _name_ticks(axes, [one.name for one in plot.series], "y", room)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    bar.set_label(_literal(plot.value_label), fontsize=10, color=_INK)
    bar.ax.tick_params(colors=_INK, labelsize=9)
    bar.outline.set_visible(False)
    values = [v for one in plot.series for v in one.y]
    texts = _cell_texts(plot, len(columns), room)
    middle = min(values) + 0.55 * (max(values) - min(values))
    for index, text in enumerate(texts):
        row, column = divmod(index, len(columns))
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=8,
            color="#000000" if values[index] > middle else "#ffffff",
        )


def _cell_texts(plot: Plot, columns: int, room: int) -> list[str]:
    """Return the number of each cell of a heat map; none if there is no room to read them."""
    values = [v for one in plot.series for v in one.y]
    if len(values) > _NUMBERED_CELLS:
        return []
    names = max(len(_shorten(one.name)) for one in plot.series)
    letters = 1.6 * room - 12 - 1.1 * names
    for digits in (3, 2):
        texts = [cell_text(round(value, digits)) for value in values]
        if columns * (max(map(len, texts)) + 0.4) <= letters:
            return texts
    return []


def _references(plot: Plot, axes: Axes) -> list[tuple[Any, str]]:
    entries = []
    for index, one in enumerate(plot.references):
        draw = axes.axhline if one.axis == "y" else axes.axvline
        dash = (0, (6, 2)) if index % 2 == 0 else (0, (2, 2))
        entries.append((draw(one.value, color=_INK, linestyle=dash, linewidth=1.2), one.label))
    return entries


def _name_ticks(axes: Axes, labels: Sequence[str], axis: str, room: int) -> None:
    """Name every position, or every n-th where there are too many to read."""
    step = max(1, -(-len(labels) // (room * 2 // 3)))
    shown = range(0, len(labels), step)
    texts = [_shorten(labels[i]) for i in shown]
    if axis == "y":
        axes.set_yticks(list(shown), [_literal(t) for t in texts])
        return
    room = room // len(texts)
    longest_word = max(len(word) for text in texts for word in (text.split() or [""]))
    turned: dict[str, Any] = {}
    if longest_word <= room:
        texts = [textwrap.fill(text, max(room, 1)) for text in texts]
    else:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(list(shown), [_literal(t) for t in texts], **turned)


def _shorten(label: str) -> str:
    return label if len(label) <= 32 else label[:31] + "…"


def _labels(entries: Sequence[tuple[Any, str]]) -> list[str]:
    # A label that starts with an underscore would be left out: matplotlib keeps such names to
    # itself. A word joiner before it changes nothing that is seen.
    return ["\u2060" + t if t.startswith("_") else t for t in (_literal(e[1]) for e in entries)]


def _legend(entries: Sequence[tuple[Any, str]], axes: Axes) -> None:
    axes.legend(
        [e[0] for e in entries],
        _labels(entries),
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize=9,
        labelcolor=_INK,
    )
