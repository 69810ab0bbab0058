"""``privagg bench responses``: how fast releases of bags and learning from them are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rich_click as click

from privagg.cli.common import Options, command, emit, progress

__all__ = ["responses_command"]


def _count(flag: str, default: int, help: str) -> Callable[[Any], Any]:
    return click.option(
        flag,
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        metavar="INT",
        help=help,
    )


@command(
    "responses",
    examples=["privagg bench responses", "privagg bench responses --part fit --splits 5 --json"],
    library_names={"parts": "--part"},
)
@click.option(
    "--part",
    type=click.Choice(["fit", "path", "release"]),
    multiple=True,
    help="What is timed; may be repeated; everything if left out.",
)
@_count("--rows", 1_000_000, "Rows of the file that least squares reads.")
@_count("--features", 100, "Its features.")
@_count("--release-rows", 10_000_000, "Responses that are put into bags and released.")
@_count("--splits", 30, "Splits of breast_cancer whose accuracy is averaged.")
@_count("--repeats", 3, "Repetitions of the release; the median is shown.")
def responses_command(options: Options, part: tuple[str, ...], **values: int) -> None:
    """Time learning from bags.

    Fits to class shares of breast_cancer, beside scikit-learn on every row's own class; least
    squares of all interpolations and ridges from a Parquet file; and the release of a large table.
    """
    from privagg.bench import responses

    with progress(options) as step:
        report = responses.bench(parts=part or responses.PARTS, **values, step=step)
    emit(report, options)
