"""``privagg audit responses``: what released bags say about single labels."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from privagg.cli.common import Options, command, emit, note

__all__ = ["responses"]


@command(
    "responses",
    examples=[
        "privagg audit responses --bags released.parquet",
        "privagg audit responses --bags monday.parquet --bags tuesday.parquet --json",
        "privagg audit responses --bags released.parquet --prior 0.05 --max-advantage 0.01",
    ],
    plots=True,
)
@click.option(
    "--bags",
    "paths",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="FILE.parquet",
    help="A release of labels 0 and 1; may be repeated, for several of the same rows.",
)
@click.option(
    "--prior",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="FRACTION",
    help="Probability of label 1 by the features.  [default: column prior, or the released mean]",
)
@click.option(
    "--max-certain",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="INT",
    help="Labels that may become certain.",
)
@click.option(
    "--max-advantage",
    type=click.FloatRange(0, 1),
    metavar="FRACTION",
    help="How much more often a guess may be right than without the release.",
)
@click.option(
    "--examine",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    metavar="INT",
    help="Groups of labels that integer programs are asked about; 0 for none.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of each integer program.",
)
def responses(
    paths: tuple[Path, ...],
    prior: float | None,
    max_certain: int,
    max_advantage: float | None,
    examine: int,
    seconds: float,
    options: Options,
) -> None:
    """Say what released counts of bags tell about single labels.

    The exact posterior of each label, how much more often it lets one guess right, which labels
    become certain, also by several releases together, and the epsilon of randomised response that
    tells as much. Ends with 5 if more labels become certain, or guesses become better, than
    allowed.
    """
    from privagg.attacks.responses_audit import audit, read_prior
    from privagg.cli import _audit_responses_report
    from privagg.protocols.responses.result import Released

    releases = [Released.read(path) for path in paths]
    believed: object = prior
    if prior is None:
        found = (read_prior(path, releases[0].bags.rows) for path in paths)
        believed = next((one for one in found if one is not None), None)
    note(options, f"{len(paths)} release(s), {sum(one.bags.count for one in releases):,} bags.")
    result = audit(releases, believed, examine=examine, seconds=seconds)
    report, leak = _audit_responses_report.report(
        result, releases, max_certain=max_certain, max_advantage=max_advantage
    )
    emit(report, options, leak=leak)
