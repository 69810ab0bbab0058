"""``privagg audit linear``: which clients a participation log gives away, and when."""

from __future__ import annotations

import math
from pathlib import Path

import rich_click as click

from privagg.cli._unused import refuse_unused
from privagg.cli.common import Options, command, emit, note, progress, seed_option, warn
from privagg.errors import UsageError

__all__ = ["linear"]

_OF_PARTICIPATION = ("layout", "weight_column", "low", "high", "whole", "tolerance")
_OF_COUNTS = ("interval", "noisy")
_OF_SUMS = ("low", "high", "whole", "tolerance", "seconds")
"""Options that have an effect only beside --participation, --counts and --sums."""

_OF_SENSOR = ("coalition", "links", "eavesdropper", "epoch")
_OF_LOG = (
    *("participation", "counts", *_OF_COUNTS, *_OF_PARTICIPATION, "seconds", "sums", "schedules"),
    *("client_column", "round_column", "header", "variation", "noise", "gain", "max_recoverable"),
    *("min_coalition", "coalition_budget", "seed"),
)
"""Options of sensor transcripts, and of participation logs."""

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@command(
    "linear",
    examples=[
        "privagg audit linear --participation log.csv",
        "privagg audit linear --participation log.parquet --schedules --report audit.html",
        "privagg audit linear --participation log.csv --sums sums.csv --low 0 --high 1",
        "privagg audit linear --counts counts.csv --sums sums.npy --interval 10",
        "privagg audit linear --sensor-transcript net.jsonl --coalition 3,5 --links 1-2",
    ],
    plots=True,
    library_names={"sums": "--sums", "budget": "--coalition-budget"},
)
@click.option(
    "--participation",
    type=_READABLE,
    metavar="FILE",
    help="Who took part when, .csv or .parquet: rounds in rows and clients in columns (0, 1 or"
    " weights), or a list with the columns client and round, and maybe weight.",
)
@click.option(
    "--counts",
    type=_READABLE,
    metavar="FILE",
    help="In its place: in how many rounds of each interval a client took part, a row for each"
    " client. The log is then found again from these and --sums, the rounds' vectors.",
)
@click.option(
    "--interval",
    type=click.IntRange(min=1),
    metavar="INT",
    help="Rounds in an interval of --counts; the last may be shorter.",
)
@click.option(
    "--noisy", is_flag=True, help="With --counts: inputs change from round to round, a little."
)
@click.option(
    "--layout",
    type=click.Choice(["auto", "matrix", "list"]),
    default="auto",
    show_default=True,
    help="How the file is laid out.",
)
@click.option(
    "--client-column",
    default="client",
    show_default=True,
    metavar="COLUMN",
    help="Names of clients, in a list.",
)
@click.option(
    "--round-column",
    default="round",
    show_default=True,
    metavar="COLUMN",
    help="Names of rounds.",
)
@click.option(
    "--weight-column",
    default="weight",
    show_default=True,
    metavar="COLUMN",
    help="Weights, in a list.",
)
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
    "--gain/--no-gain",
    default=None,
    help="Whether to compute noise gains and cosines.  [default: unless the log is large]",
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
    help="Also: the sum of each round (columns round and another), for inputs known to be bounded."
    " With --counts a vector for each round: .npy, or a column for each coordinate.",
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
    metavar="SECONDS",
    help="Time limit of one program, with --sums; there are two for each input or client.",
)
@click.option(
    "--sensor-transcript",
    type=_READABLE,
    metavar="FILE.jsonl",
    help="In place of a log: who sent what in a sensor network, from simulate sensor --transcript.",
)
@click.option(
    "--coalition",
    metavar="NODES",
    help="Of --sensor-transcript: who colludes, such as 3,5 or 3,base.",
)
@click.option(
    "--links",
    multiple=True,
    metavar="A-B",
    help="Of --sensor-transcript: whose keys are known, such as 1-2,3-4; may be repeated.",
)
@click.option(
    "--eavesdropper", is_flag=True, help="Of --sensor-transcript: all clear traffic is heard."
)
@click.option(
    "--epoch",
    type=click.IntRange(min=0),
    metavar="INT",
    help="Of --sensor-transcript: which.  [default: 0]",
)
@seed_option
def linear(
    participation: Path | None,
    counts: Path | None,
    interval: int | None,
    noisy: bool,
    layout: str,
    client_column: str,
    round_column: str,
    weight_column: str,
    header: bool | None,
    variation: float,
    noise: float,
    gain: bool | None,
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
    sensor_transcript: Path | None,
    coalition: str | None,
    links: tuple[str, ...],
    eavesdropper: bool,
    epoch: int | None,
    seed: int | None,
    options: Options,
) -> None:
    """Audit who took part in which rounds: whose input the sums give away, and when.

    Clients are found exactly, with the noise that their recovered input would carry, and so is the
    smallest set of clients whose weighted sum is exposed, or bounds on it. Ends with 5 if more is
    exposed than allowed. With --sensor-transcript it audits an epoch of a sensor network instead:
    what a coalition learns of it, and how few nodes learn another's reading.
    """
    if sensor_transcript is not None:
        refuse_unused(_OF_LOG, "with --sensor-transcript")
        from privagg.cli import _audit_linear_sensor

        _audit_linear_sensor.audit(
            sensor_transcript,
            epoch=0 if epoch is None else epoch,
            coalition=coalition,
            links=links,
            eavesdropper=eavesdropper,
            options=options,
        )
        return
    refuse_unused(_OF_SENSOR, "without --sensor-transcript")
    from privagg import entropy
    from privagg.attacks import linear as attack
    from privagg.cli import _audit_linear_counts, _audit_linear_log, _audit_linear_report

    _check(participation, counts, interval, sums)
    for flag, value in (("--low", low), ("--high", high)):
        if not math.isfinite(value):
            raise UsageError(flag, value, "a finite number")
    if high < low:
        raise UsageError("--high", high, f"at least --low, {low:g}")
    if counts is not None:
        assert sums is not None
        assert interval is not None
        with progress(options) as step:
            log, reading, rebuilt = _audit_linear_counts.rebuild(
                counts,
                sums,
                interval,
                noisy=noisy,
                seconds=seconds,
                client=client_column,
                round=round_column,
                header=header,
                step=step,
            )
        sums, name = None, counts.name
        others = int((~rebuilt.found.unique).sum())
        if others:
            warn(f"columns that are not the only ones that fit: {others:,}; the log may be another")
    else:
        assert participation is not None
        name, rebuilt = participation.name, None
        log, reading = _audit_linear_log.read_log(
            participation,
            layout=layout,
            client=client_column,
            round=round_column,
            weight=weight_column,
            header=header,
        )
    note(options, f"{name}: {reading}.")
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
            name=name,
            reading=reading,
            max_recoverable=max_recoverable,
            min_coalition=min_coalition,
            ranges=ranges,
            schedules=compared,
            insecure_seed=seed is not None,
            gains=found.gain_work <= attack.GAIN_WORK if gain is None else gain,
            rebuilt=rebuilt,
        ),
        options,
        leak=leak,
    )


def _check(
    participation: Path | None, counts: Path | None, interval: int | None, sums: Path | None
) -> None:
    """Require what belongs together, and nothing that would have no effect."""
    if (participation is None) == (counts is None):
        found = "neither" if counts is None else "both"
        raise UsageError("--participation", f"{found} of it and --counts", "one of them")
    there = "--participation" if counts is None else "--counts"
    unused = dict.fromkeys(_OF_PARTICIPATION if counts else _OF_COUNTS, f"with {there}")
    if sums is None:
        unused |= dict.fromkeys(_OF_SUMS, "without --sums")
    for name, where in unused.items():
        refuse_unused((name,), where)
    if counts is not None and sums is None:
        raise UsageError("--sums", "not given", "the rounds' vectors, beside --counts")
    if counts is not None and interval is None:
        raise UsageError("--interval", "not given", "rounds in an interval of --counts")
