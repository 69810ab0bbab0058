"""``privagg simulate multidim``: a survey under local differential privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rich_click as click

from privagg.cli._survey_options import SurveyOptions, survey_options
from privagg.cli.common import Options, command, emit, note, progress, seed_option

__all__ = ["POSTS", "multidim"]

POSTS = ("norm-sub", "clip", "base-cut", "norm-cut", "none")
"""Said again here, so that the help needs no import of the protocol; a test compares them."""


@command(
    "multidim",
    examples=[
        "privagg simulate multidim --input adult --epsilon 1",
        "privagg simulate multidim --input adult --protocol rs+fd --epsilon 1.0986 --runs 20",
        "privagg simulate multidim --input people.parquet --columns sex,income --out estimates.csv",
    ],
    plots=True,
)
@click.option(
    "--input",
    "source",
    required=True,
    metavar="NAME|FILE",
    help="A row per respondent: a bundled table, .csv or .parquet.",
)
@survey_options
@click.option(
    "--runs", type=click.IntRange(1, 10**6), default=1, show_default=True, help="How often."
)
@click.option(
    "--post",
    type=click.Choice(POSTS),
    default="norm-sub",
    show_default=True,
    help="How published estimates are made of raw ones; clip is the papers'.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="FRACTION",
    help="Of each interval.",
)
@seed_option
def multidim(
    source: str,
    runs: int,
    post: str,
    confidence: float,
    seed: int | None,
    options: Options,
    **values: Any,
) -> None:
    """Simulate a survey of several attributes under local differential privacy.

    Every respondent randomises a tuple of values into one report; the aggregator estimates how
    frequent each value is. The result says how far off the estimates are, what the closed form
    expects, and what a report's privacy is: exactly, for any two tuples and for one attribute.
    With --out FILE.csv the estimates of the first run are written there.
    """
    from privagg.cli import _multidim_report
    from privagg.cli._survey_inputs import parse_names, read_survey
    from privagg.protocols import multidim as protocol
    from privagg.report import write_file

    given = SurveyOptions.take(values)
    written = (options.out, options.report, options.plot)
    columns = parse_names("--columns", given.columns)
    inputs = read_survey(source, columns, given.attributes, given.unknown, written)
    note(options, f"{inputs.source}: {inputs.users:,} respondents; {inputs.reading}.")
    params = given.params(inputs, seed)
    with progress(options) as step:
        result = protocol.run(
            params,
            inputs.columns,
            runs=runs,
            post=None if post == "none" else post,
            confidence=confidence,
            seed=seed,
            progress=step,
        )
    report = _multidim_report.simulation(result, inputs)
    if options.out is not None and options.out.suffix.lower() == ".csv":
        write_file(options.out, _multidim_report.estimates_csv(result).encode())
        note(options, f"Wrote {options.out}")
        options = replace(options, out=None)
    emit(report, options)
