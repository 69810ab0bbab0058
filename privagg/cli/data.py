"""``privagg data``: the bundled data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click
from click.shell_completion import CompletionItem

from privagg import datasets
from privagg.cli.common import Options, command, emit
from privagg.errors import UsageError
from privagg.report import Plot, Report, Series, Table

if TYPE_CHECKING:
    import pyarrow

__all__ = ["list_command", "show_command"]

_MOST_BARS = 20


@command("list", examples=["privagg data list", "privagg data list --json"])
def list_command(options: Options) -> None:
    """List the bundled data sets."""
    infos = [datasets.info(name) for name in datasets.names()]
    emit(
        Report(
            title="Bundled data sets",
            data={"datasets": [_info(one) for one in infos]},
            tables=[
                Table(
                    "Tables",
                    ["name", "rows", "columns", "title"],
                    [[i.name, i.rows, len(i.columns), i.title] for i in infos],
                )
            ],
            verdict="privagg data show NAME shows one, with its source and licence.",
        ),
        options,
    )


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[CompletionItem]:
    return [CompletionItem(n) for n in datasets.names() if n.startswith(start)]


@command(
    "show",
    examples=["privagg data show adult", "privagg data show adult --column age --plot age.png"],
    plots=True,
)
@click.argument("name", shell_complete=_complete)
@click.option("--rows", type=click.IntRange(min=0), default=5, show_default=True, help="How many.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="Only this column; may be repeated.",
)
def show_command(name: str, rows: int, columns: tuple[str, ...], options: Options) -> None:
    """Show a bundled data set.

    Its columns, its first rows, its source and licence; the plots show how often each value
    occurs.
    """
    info = datasets.info(name)
    for column in columns:
        if column not in info.columns:
            raise UsageError("--column", column, f"columns of {name}: {', '.join(info.columns)}")
    table = datasets.load(name)
    if columns:
        table = table.select(list(dict.fromkeys(columns)))
    head = table.slice(0, rows).to_pylist()
    summaries = [_summary(field, table.column(field)) for field in table.column_names]
    emit(
        Report(
            title=f"{info.name}: {info.title}",
            data=_info(info) | {"summary": summaries, "head": head},
            tables=[
                Table(
                    "Columns",
                    ["column", "type", "distinct", "missing", "values"],
                    [
                        [s["name"], s["type"], s["distinct"], s["missing"], _values(s)]
                        for s in summaries
                    ],
                ),
                *(
                    [
                        Table(
                            "First row" if len(head) == 1 else f"First {len(head)} rows",
                            table.column_names,
                            _rows(head),
                        )
                    ]
                    if head
                    else []
                ),
            ],
            plots=[_plot(field, table.column(field)) for field in table.column_names]
            if options.plot or options.report
            else [],
            notes=[f"Source: {info.source}", f"Licence: {info.licence}"],
            verdict=f"{info.rows:,} rows, {len(info.columns)} columns.",
        ),
        options,
    )


def _info(info: datasets.Info) -> dict[str, Any]:
    return {
        "name": info.name,
        "title": info.title,
        "rows": info.rows,
        "columns": list(info.columns),
        "source": info.source,
        "licence": info.licence,
    }


def _rows(head: list[dict[str, Any]]) -> list[list[Any]]:
    # Text, so that a year or a code is not written with a thousands separator.
    return [["-" if v is None else str(v) for v in row.values()] for row in head]


def _counts(column: pyarrow.ChunkedArray) -> list[tuple[Any, int]]:
    """Return the values that occur and how often, the most frequent first."""
    pairs = [(one["values"], one["counts"]) for one in column.value_counts().to_pylist()]
    known = [(value, count) for value, count in pairs if value is not None]
    return sorted(known, key=lambda pair: (-pair[1], str(pair[0])))


def _is_number(column: pyarrow.ChunkedArray) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type))


def _summary(name: str, column: pyarrow.ChunkedArray) -> dict[str, Any]:
    import pyarrow
    import pyarrow.compute

    counts = _counts(column)
    kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
    found: dict[str, Any] = {
        "name": name,
        "type": str(kind),
        "distinct": len(counts),
        "missing": column.null_count,
    }
    if _is_number(column):
        found |= pyarrow.compute.min_max(column).as_py()
    else:
        found["most_frequent"] = [str(value) for value, _ in counts[:3]]
    return found


def _values(summary: dict[str, Any]) -> str:
    if "min" in summary:
        return f"{summary['min']} to {summary['max']}"
    dots = ", …" if summary["distinct"] > len(summary["most_frequent"]) else ""
    return ", ".join(summary["most_frequent"]) + dots


def _plot(name: str, column: pyarrow.ChunkedArray) -> Plot:
    counts = _counts(column)
    title = f"{name}: how often"
    if _is_number(column) and len(counts) > _MOST_BARS:
        import numpy as np

        values = column.drop_null().to_numpy()
        edges = _edges(values.min().item(), values.max().item())
        heights, _ = np.histogram(values, bins=edges)
        x = [f"{edge:.6g}" for edge in edges[:-1]]
        series = Series("rows", x, heights.tolist())
        return Plot(
            kind="bar", title=title, x_label=f"{name}, from", y_label="rows", series=[series]
        )
    shown = counts[:_MOST_BARS]
    if len(counts) > len(shown):
        title += f", the {len(shown)} most frequent of {len(counts)} values"
    if _is_number(column):
        shown = sorted(shown)
    series = Series("rows", [str(value) for value, _ in shown], [count for _, count in shown])
    return Plot(kind="bar", title=title, x_label=name, y_label="rows", series=[series])


def _edges(low: float, high: float) -> list[float]:
    """Return edges of at most `_MOST_BARS` equal bins; between integers, of integers."""
    if isinstance(low, int) and isinstance(high, int):
        step = -(-(high - low + 1) // _MOST_BARS)
        return list(range(low, high + step + 1, step))
    return [low + (high - low) * i / _MOST_BARS for i in range(_MOST_BARS + 1)]
