"""``privagg ldp estimate``: a state becomes frequencies with intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import rich_click as click

from privagg.cli._ldp_files import READABLE, out_is, read_survey_file, warned
from privagg.cli.common import Options, command, emit, note

__all__ = ["POSTS", "estimate"]

POSTS = ("norm-sub", "clip", "base-cut", "norm-cut", "mle", "none")
"""Said again here, so that the help needs no import of the mechanisms; a test compares them."""


@out_is("The estimates, as .csv or .json; else what stdout would get.")
@command(
    "estimate",
    examples=[
        "privagg ldp estimate state.bin --out estimates.csv",
        "privagg ldp estimate state.bin --post none --confidence 0.99 --report estimates.html",
    ],
    plots=True,
)
@click.argument("state", type=READABLE, metavar="STATE.bin")
@click.option(
    "--survey",
    type=READABLE,
    metavar="CONFIG.json",
    help="The survey that the state has to be of.  [default: whichever it holds]",
)
@click.option(
    "--post",
    type=click.Choice(POSTS),
    default="norm-sub",
    show_default=True,
    help="How published estimates are made of raw ones.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="FRACTION",
    help="Of each interval.",
)
@click.option(
    "--population",
    is_flag=True,
    help="The respondents are a sample: intervals are about those they were drawn from.",
)
def estimate(
    state: Path,
    survey: Path | None,
    post: str,
    confidence: float,
    population: bool,
    options: Options,
) -> None:
    """Estimate how frequent each value is, with intervals.

    The unbiased raw estimates are kept beside those that are published. Each interval is around the
    raw estimate and for itself: all of them together hold less often.
    """
    from privagg.cli._ldp_report import estimates_csv, estimates_report
    from privagg.protocols.collection import decode_state
    from privagg.report import write_file

    asked = None if survey is None else read_survey_file(survey)
    with warned():
        collector = decode_state(state.read_bytes(), asked, peer=state.name)
    found = collector.estimate(confidence, None if post == "none" else post, population=population)
    report = estimates_report(collector, found, state)
    if options.out is not None and options.out.suffix.lower() == ".csv":
        write_file(options.out, estimates_csv(found).encode())
        note(options, f"Wrote {options.out}")
        options = replace(options, out=None)
    emit(report, options)
