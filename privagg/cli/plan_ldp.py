"""``privagg plan ldp``: errors, intervals and costs of a survey before anyone answers."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from privagg.cli._survey_options import PROTOCOLS, calibration_option
from privagg.cli.common import Options, command, emit, note
from privagg.errors import UsageError

__all__ = ["ldp", "parse_sizes"]

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@command(
    "ldp",
    examples=[
        "privagg plan ldp --users 45000 --domain 7,16,7,14 --epsilon 1",
        "privagg plan ldp --users 45000 --attributes survey.toml --epsilon 1 --max-bytes 4",
        "privagg plan ldp --users 45000 --domain 7,16,7,14 --epsilon 1 --interval 0.01",
    ],
    plots=True,
)
@click.option("--users", type=click.IntRange(1, 2**38), required=True, help="How many respondents.")
@click.option(
    "--domain", metavar="K,K,...", help="How many values each attribute has, such as 7,16,7,14."
)
@click.option("--attributes", type=_READABLE, metavar="FILE.toml", help="Declared domains instead.")
@click.option(
    "--epsilon",
    type=click.FloatRange(0, min_open=True),
    required=True,
    metavar="FLOAT",
    help="What a report may have.",
)
@calibration_option
@click.option(
    "--protocol",
    "protocols",
    type=click.Choice(PROTOCOLS[:3]),
    multiple=True,
    help="Only this one; may be repeated.  [default: all]",
)
@click.option(
    "--frequency",
    type=click.FloatRange(0, 1),
    metavar="FRACTION",
    help="Of the value in question.  [default: all values of an attribute alike]",
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
    "--interval",
    type=click.FloatRange(0, min_open=True),
    metavar="FLOAT",
    help="Also say how many respondents it takes for intervals of plus or minus this.",
)
@click.option(
    "--max-bytes",
    type=click.FloatRange(0, min_open=True),
    metavar="FLOAT",
    help="Exclude longer reports.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="FLOAT",
    help="Exclude what takes more CPU seconds to decode, on this machine.",
)
@click.option(
    "--calibrate/--no-calibrate",
    default=True,
    help="Measure this machine's decoding, some seconds.",
)
def ldp(
    users: int,
    domain: str | None,
    attributes: Path | None,
    epsilon: float,
    calibration: str,
    protocols: tuple[str, ...],
    frequency: float | None,
    confidence: float,
    interval: float | None,
    max_bytes: float | None,
    max_seconds: float | None,
    calibrate: bool,
    options: Options,
) -> None:
    """Plan a survey under local differential privacy.

    Forecasts the error and the intervals of every protocol and oracle, at equal epsilon for the
    adjacency that --calibration names, and recommends one within the limits. Errors are closed
    forms of raw estimates; post-processing makes them smaller. rs+rfd is left out: its error
    depends on its priors.
    """
    from privagg.cli import _plan_ldp_report
    from privagg.domain import read_attributes
    from privagg.protocols import multidim

    if (domain is None) == (attributes is None):
        raise UsageError("--domain", str(domain), "either --domain or --attributes")
    if max_seconds is not None and not calibrate:
        raise UsageError("--max-seconds", max_seconds, "nothing beside --no-calibrate")
    domains = parse_sizes("--domain", domain) if attributes is None else read_attributes(attributes)
    if calibrate:
        note(options, "Measuring how long reports take to decode ...")
    plan = multidim.plan(
        users,
        domains,
        epsilon,
        calibration=calibration,
        protocols=protocols or PROTOCOLS[:3],
        frequency=frequency,
        confidence=confidence,
        reach=interval,
        max_bytes=max_bytes,
        max_seconds=max_seconds,
        measure=calibrate,
    )
    emit(_plan_ldp_report.report(plan, confidence, interval, frequency), options)


def parse_sizes(flag: str, text: str | None) -> list[int]:
    """Return the numbers in a list separated by commas."""
    parts = [] if text is None else text.split(",")
    if not parts or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise UsageError(flag, str(text), "whole numbers separated by commas, such as 7,16,7,14")
    return [int(part) for part in parts]
