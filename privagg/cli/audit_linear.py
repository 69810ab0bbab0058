"""``privagg audit linear``: which clients a participation log gives away, and when."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from privagg.cli.common import Options, command, emit, note, progress, seed_option, warn
from privagg.errors import UsageError

__all__ = ["linear"]

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@command(
    "linear",
    examples=[
        "privagg audit linear --participation log.csv",
        "privagg audit linear --participation log.parquet --schedules --report audit.html",
        "privagg audit linear --participation log.csv --sums sums.csv --low 0 --high 1",
    ],
    plots=True,
    library_names={"sums": "--sums", "budget": "--coalition-budget"},
)
@click.option(
    "--participation",
    type=_READABLE,
    required=True,
    metavar="FILE",
    help="Who took part when, .csv or .parquet: rounds in rows and clients in columns (0, 1 or"
    " weights), or a list with the columns client and round, and maybe weight.",
)
@click.option(
    "--layout",
    type=click.Choice(["auto", "matrix", "list"]),
    default="auto",
    show_default=True,
    help="How the file is laid out.",
)
@click.option(
    "--client-column", default="client", show_default=True, help="Names of clients, in a list."
)
@click.option("--round-column", default="round", show_default=True, help="Names of rounds.")
@click.option("--weight-column", default="weight", show_default=True, help="Weights, in a list.")
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a .csv names its columns; must be said if it is all numbers.",
)
@click.option(
    "--variation",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How much an input changes from round to round, over its norm: for the cosine.",
)
@click.option(
    "--noise",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Noise added to each sum, over an input's norm: for the cosine.",
)
@click.option(
    "--max-recoverable",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="INT",
    help="Clients that may be determined; more is a leak.",
)
@click.option(
    "--min-coalition",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="INT",
    help="A weighted sum of fewer clients than this, if exposed, is a leak too.",
)
@click.option(
    "--coalition-budget",
    type=click.FloatRange(min=0),
    default=1e6,
    show_default=True,
    help="Work on each size in the search for the smallest exposed sum.",
)
@click.option(
    "--schedules", is_flag=True, help="Compare with other schedules of as many clients and rounds."
)
@click.option(
    "--sums",
    type=_READABLE,
    metavar="FILE",
    help="Also: the sum of each round (columns round and another), for inputs known to be bounded.",
)
@click.option("--low", type=float, default=0.0, show_default=True, help="Least input, with --sums.")
@click.option(
    "--high", type=float, default=1.0, show_default=True, help="Greatest input, with --sums."
)
@click.option(
    "--whole/--real",
    default=True,
    show_default=True,
    help="Whether inputs are whole numbers, with --sums.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="By how much a sum may be off, with --sums.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Time limit of one program, with --sums; there are two for each input.",
)
@seed_option
def linear(
    participation: Path,
    layout: str,
    client_column: str,
    round_column: str,
    weight_column: str,
    header: bool | None,
    variation: float,
    noise: float,
    max_recoverable: int,
    min_coalition: int,
    coalition_budget: float,
    schedules: bool,
    sums: Path | None,
    low: float,
    high: float,
    whole: bool,
    tolerance: float,
    seconds: float,
    seed: int | None,
    options: Options,
) -> None:
    """Audit who took part in which rounds: whose input the sums give away, and when.

    Clients are found exactly, with the noise that their recovered input would carry, and so is the
    smallest set of clients whose weighted sum is exposed, or bounds on it. Ends with 5 if more is
    exposed than allowed.
    """
    from privagg import entropy
    from privagg.attacks import linear as attack
    from privagg.cli import _audit_linear_log, _audit_linear_report

    if high < low:
        raise UsageError("--high", high, f"at least --low, {low:g}")
    log, reading = _audit_linear_log.read_log(
        participation,
        layout=layout,
        client=client_column,
        round=round_column,
        weight=weight_column,
        header=header,
    )
    note(options, f"{participation.name}: {reading}.")
    source: entropy.Entropy = entropy.OS
    if seed is not None:
        warn("seeded: who knows the seed can make a log for which the answer is wrong.")
        source = entropy.from_seed(seed)
    given = None if sums is None else _audit_linear_log.read_sums(sums, log, round_column)
    ranges, compared = None, None
    with progress(options) as step:
        found = attack.audit(
            log,
            variation=variation,
            noise=noise,
            budget=coalition_budget,
            entropy=source.spawn("audit"),
            progress=lambda done, of: step("rounds", done, of),
        )
        if schedules:
            compared = attack.compare_schedules(
                len(log.clients),
                max(1, round(float(log.cohorts.mean()))),
                len(log.rounds),
                entropy=source.spawn("schedules"),
                progress=lambda done, of: step("schedules", done, of),
            )
        if given is not None:
            ranges = attack.feasible_ranges(
                log.weights,
                given,
                low=low,
                high=high,
                integer=whole,
                tolerance=tolerance,
                seconds=seconds,
                progress=lambda done, of: step("inputs", done, of),
            )
    leak = _audit_linear_report.leaks(found, ranges, max_recoverable, min_coalition)
    emit(
        _audit_linear_report.report(
            found,
            name=participation.name,
            reading=reading,
            max_recoverable=max_recoverable,
            min_coalition=min_coalition,
            ranges=ranges,
            schedules=compared,
            insecure_seed=seed is not None,
        ),
        options,
        leak=leak,
    )
