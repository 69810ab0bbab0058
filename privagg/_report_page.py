"""A report as one page of HTML that loads nothing: tables, pictures and data are inside it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from privagg import __version__, _report_choropleth, _report_draw
from privagg._report_areas import Choropleth
from privagg._report_images import ImageGrid
from privagg._report_parts import Plot, Table, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["page"]

_LONGEST_JSON = 200_000
_LETTERS_ON_PAPER = 95
_FRAMES = {Choropleth: "maps", ImageGrid: "scroll grid", Plot: "scroll drawn"}
_KINDS = {"stacked-bar": "stacked bars", "bar": "bars", "line": "lines", "heatmap": "heat map"}


def page(
    *,
    title: str,
    verdict: str,
    tables: Sequence[Table],
    plots: Sequence[Plot | Choropleth | ImageGrid],
    notes: Sequence[str],
    json: str,
) -> str:
    """Return the page.

    Every string is escaped: titles, cells and labels may come from a file or a peer. The page
    forbids itself scripts and requests by a content security policy.

    Parameters
    ----------
    title, verdict : str
        Its head and the sentence under it.
    tables, plots, notes : sequence
        Its body, in this order.
    json : str
        The data, shown folded; too long a text is replaced by its length.

    Raises
    ------
    UsageError
        If jinja2, or matplotlib where there are plots, is not installed.
    """
    drawn = any(isinstance(plot, Plot | ImageGrid) for plot in plots)
    _report_draw.require("jinja2", *(["matplotlib"] if drawn else []))
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    source = resources.files("privagg").joinpath("_report_page.html").read_text("utf-8")
    fields: Mapping[str, object] = {
        "version": __version__,
        "title": printable(title),
        "verdict": printable(verdict),
        "tables": [
            {
                "title": printable(table.title),
                "heads": table.heads,
                "rows": table.texts(),
                "wide": _least_letters(table) > _LETTERS_ON_PAPER,
                "numeric": [table.is_numeric(i) for i in range(len(table.heads))],
            }
            for table in tables
        ],
        # The pictures are the one thing that the page takes as markup ("safe" in the template):
        # they are of our own making, and the labels inside them are escaped.
        "plots": [
            {
                "title": printable(p.title),
                "words": printable(_words(p)),
                "svg": _picture(p, f"plot{i}-"),
                # What is inside a group can be reached; a picture is one thing.
                "role": "group" if isinstance(p, Choropleth) else "img",
                "frame": _FRAMES[type(p)],
            }
            for i, p in enumerate(plots)
        ],
        "notes": [printable(note) for note in notes],
        "json": json if len(json) <= _LONGEST_JSON else None,
        "json_size": f"{len(json):,}",
    }
    return environment.from_string(source).render(fields)


def _picture(plot: Plot | Choropleth | ImageGrid, prefix: str) -> str:
    if isinstance(plot, Choropleth):
        return _report_choropleth.markup(plot, prefix)
    return _report_draw.svg(plot, prefix)


def _least_letters(table: Table) -> int:
    """Return the letters in a row whose columns are as narrow as their longest words."""
    columns = zip(table.heads, *table.texts(), strict=True)
    longest = [
        max(len(word) for text in column for word in text.split() or [""]) for column in columns
    ]
    return sum(longest) + 2 * len(longest)


def _words(plot: Plot | Choropleth | ImageGrid) -> str:
    """Return what a picture is, for those who do not see it; the tables have its numbers."""
    if not isinstance(plot, Plot):
        return plot.title
    kind = _KINDS.get(plot.kind, plot.kind)
    words = f"{plot.title}: {kind}, {plot.y_label} by {plot.x_label}"
    if plot.value_label:
        words += f"; colour: {plot.value_label}"
    names = [one.name for one in plot.series if one.name]
    if plot.kind != "heatmap" and len(names) > 1:
        words += f"; {', '.join(names)}"
    return words
