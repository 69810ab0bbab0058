"""``privagg bench``: how fast things are on this machine, beside peers that are installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from privagg.cli.common import Options, command, emit, progress
from privagg.errors import UsageError

__all__ = [
    "attacks_command",
    "field_command",
    "flower_command",
    "ldp_command",
    "prg_command",
    "secagg_command",
    "sensor_command",
]

_AGAINST: Callable[[Any], Any] = click.option(
    "--against",
    type=click.Choice(["flower"]),
    help="Also run this project's own functions on the same work; it must be installed.",
)


def _repeats(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--repeats",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        metavar="INT",
        help="Repetitions; the median is shown, with the quartiles.",
    )


def _count(
    flag: str, default: int | list[int], help: str, *, name: str = "", **more: Any
) -> Callable[[Any], Any]:
    return click.option(
        flag,
        *([name] if name else []),
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        metavar="INT",
        help=help,
        **more,
    )


@command("prg", examples=["privagg bench prg", "privagg bench prg --json --out prg.json"])
@_count("--length", 1 << 20, "32-bit words of the long vector.")
@_count("--short", 1000, "Words of the short vectors.")
@_count("--neighbours", 100, "Streams added to a short vector.")
@_repeats(9)
@_AGAINST
def prg_command(options: Options, against: str | None, **values: int) -> None:
    """Time the mask streams.

    Every path of both ciphers that this machine can run, beside the ciphers of the libraries that
    are installed, with the floors that the instructions and the memory set.
    """
    from privagg.bench import prg

    with progress(options) as step:
        report = prg.bench(**values, against_flower=against is not None, step=step)
    emit(report, options)


@command(
    "field",
    examples=["privagg bench field", "privagg bench field --part arithmetic --columns 50000"],
    library_names={"parts": "--part"},
)
@click.option(
    "--part",
    type=click.Choice(["arithmetic", "sharing", "lightsecagg"]),
    multiple=True,
    help="What is timed; may be repeated; everything if left out.",
)
@_count("--length", 1 << 16, "Elements of the vectors that are multiplied.")
@_count("--columns", 5000, "Columns of the matrices, 100 x 70 by 70 x INT.")
@_count("--transform", 1 << 20, "Length of the transforms, a power of two.")
@_count("--clients", 1000, "Shares of a secret; clients of LightSecAgg.")
@click.option(
    "--threshold",
    type=click.IntRange(min=2),
    metavar="INT",
    help="Shares that rebuild it; two thirds of the clients if left out.",
)
@_count("--secrets", 1000, "Secrets rebuilt at once.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="With cuda: what CUDA arrays can do, beside one core, on larger arrays.",
)
@_repeats(9)
@_AGAINST
def field_command(
    options: Options, part: tuple[str, ...], against: str | None, device: str, **values: Any
) -> None:
    """Time fields, secret sharing and the coded masks of LightSecAgg.

    Beside NumPy, plain Python integers, and the libraries that are installed, with the floors that
    multiplications and memory set. What would take too long is extrapolated from a small case, and
    says so.
    """
    if device == "cuda":
        _field_on_cuda(options, values)
        return
    from privagg.bench import field

    with progress(options) as step:
        report = field.bench(
            parts=part or field.PARTS, **values, against_flower=against is not None, step=step
        )
    emit(report, options)


def _field_on_cuda(options: Options, values: dict[str, Any]) -> None:
    """Time the device; sizes that were not given are larger than the processor's."""
    source = get_current_context().get_parameter_source
    given = [name for name in values if source(name) is not ParameterSource.DEFAULT]
    for name in ("part", "against", "clients", "threshold", "secrets"):
        if source(name) is not ParameterSource.DEFAULT:
            raise UsageError(name, "given with --device cuda", "--device cpu, or none of it")
    from privagg.bench import field_cuda

    chosen = {name: values[name] for name in given}
    with progress(options) as step:
        report = field_cuda.bench(**chosen, step=step)
    emit(report, options)


@command(
    "secagg",
    examples=[
        "privagg bench secagg",
        "privagg bench secagg --clients 50 --clients 100 --dim 10000 --dim 100000",
        "privagg bench secagg --dim 1000000 --against flower",
    ],
    plots=True,
    library_names={"dims": "--dim"},
    former_names={"--dropped": "--dropout"},
)
@_count("--clients", [100], "Size of the cohort; may be repeated.", multiple=True)
@_count("--dim", [100_000], "Numbers per client; may be repeated.", multiple=True)
@click.option(
    "--graph",
    type=click.Choice(["complete", "sparse"]),
    default="complete",
    show_default=True,
    help="Who shares secrets with whom: everyone, or some neighbours.",
)
@click.option(
    "--dropout",
    "dropped",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.1,
    show_default=True,
    metavar="FRACTION",
    help="Clients that leave after they shared their keys.",
)
@click.option(
    "--prg",
    type=click.Choice(["aes-128-ctr", "chacha20"]),
    default="aes-128-ctr",
    show_default=True,
    help="The mask stream.",
)
@_repeats(3)
@_count("--workers", 1, "Processes for the clients, threads for unmasking.")
@_AGAINST
def secagg_command(
    options: Options,
    against: str | None,
    clients: tuple[int, ...],
    dim: tuple[int, ...],
    **values: Any,
) -> None:
    """Time whole rounds.

    The CPU time of one client and of the server, all messages and checks included, beside what the
    planner predicts.
    """
    from privagg.bench import secagg

    with progress(options) as step:
        report = secagg.bench(
            clients=clients, dims=dim, **values, against_flower=against is not None, step=step
        )
    emit(report, options)


@command(
    "ldp",
    examples=["privagg bench ldp", "privagg bench ldp --part olh --values 100 --json"],
    library_names={"parts": "--part"},
)
@click.option(
    "--part",
    type=click.Choice(["grr", "oue", "olh", "rs+fd", "noise"]),
    multiple=True,
    help="What is timed; may be repeated; everything if left out.",
)
@_count("--users", 1_000_000, "Respondents of OUE, OLH and RS+FD[OUE-z].")
@_count("--grr-users", 10_000_000, "Respondents of GRR.")
@click.option(
    "--values",
    type=click.IntRange(min=2),
    default=1024,
    show_default=True,
    metavar="INT",
    help="Values of OLH's domain.",
)
@_repeats(5)
def ldp_command(options: Options, part: tuple[str, ...], **values: Any) -> None:
    """Time local differential privacy.

    Randomising, aggregating, and surveys of several attributes, beside NumPy, and multi-freq-ldpy
    and pure-ldp where they are installed. What would take too long is extrapolated from a small
    case, and says so.
    """
    from privagg.bench import ldp

    with progress(options) as step:
        report = ldp.bench(parts=part or ldp.PARTS, **values, step=step)
    emit(report, options)


@command(
    "sensor",
    examples=["privagg bench sensor", "privagg bench sensor --part epochs --nodes 200 --json"],
    library_names={"parts": "--part", "logs": "--log"},
)
@click.option(
    "--part",
    type=click.Choice(["epochs", "parties", "large", "participation"]),
    multiple=True,
    help="What is timed; may be repeated; everything if left out.",
)
@_count("--nodes", 600, "Of the network whose epochs are timed, and whose nodes are parties.")
@_count("--epochs", 1000, "Epochs of cpda-field, computed as arrays.")
@_count("--large", 600_000, "Nodes of one large network, for one epoch.")
@click.option(
    "--log",
    "logs",
    type=click.IntRange(min=1),
    nargs=2,
    multiple=True,
    metavar="CLIENTS ROUNDS",
    help="Of a participation log; may be repeated.  [default: 1000 1000 and 5000 2000]",
)
@_repeats(3)
def sensor_command(
    options: Options, part: tuple[str, ...], logs: tuple[tuple[int, int], ...], **values: Any
) -> None:
    """Time sensor networks, and audits of participation logs.

    Epochs as arrays, one network with keys, encryption and every message, a large one; and how long
    it takes to say which clients a log gives away and when, beside a decomposition by NumPy.
    """
    from privagg.bench import sensor

    if logs:
        values["logs"] = logs
    with progress(options) as step:
        report = sensor.bench(parts=part or sensor.PARTS, **values, step=step)
    emit(report, options)


@command(
    "flower",
    examples=["privagg bench flower", "privagg bench flower --nodes 10 --dropped 1 --json"],
)
@_count("--nodes", 20, "Nodes of the round.")
@_count("--dim", 100_000, "Parameters of the model.")
@click.option(
    "--dropped",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    metavar="INT",
    help="Nodes lost while they train.",
)
@_repeats(3)
def flower_command(options: Options, **values: int) -> None:
    """Time one round in Flower, by our workflow and by its own SecAgg+.

    The CPU time of all parties and the bytes that nodes send, on the same job in one run. Flower
    must be installed.
    """
    from privagg.bench import flower_round

    with progress(options) as step:
        report = flower_round.bench(**values, step=step)
    emit(report, options)


@command(
    "locational",
    examples=[
        "privagg bench locational",
        "privagg bench locational --mechanism olh --users 100000 --cells 1000 --json",
    ],
    library_names={"mechanisms": "--mechanism"},
)
@click.option(
    "--mechanism",
    type=click.Choice(["ss", "grr", "oue", "sue", "olh", "pgr", "hr", "gaussian"]),
    multiple=True,
    help="What is timed; may be repeated; pgr and hr if left out.",
)
@_count("--users", 1_000_000, "Reports.")
@_count("--cells", 10_000, "Cells: regions times values.")
@click.option(
    "--epsilon",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="FLOAT",
    help="Of each report.",
)
@_repeats(3)
def locational_command(options: Options, mechanism: tuple[str, ...], **values: Any) -> None:
    """Time statistics by region.

    Adding up and estimating reports over many cells, in batches; randomising them is timed apart.
    """
    from privagg.bench import locational

    with progress(options) as step:
        report = locational.bench(mechanisms=mechanism or locational.FASTEST, **values, step=step)
    emit(report, options)


@command(
    "attacks",
    examples=[
        "privagg bench attacks",
        "privagg bench attacks --case 32x256 --runs 1 --published --json",
    ],
    library_names={"cases": "--case"},
    former_names={"--seeds": "--runs", "--budget": "--seconds"},
)
@click.option(
    "--case",
    multiple=True,
    metavar="BATCHxWIDTH",
    help="A batch and a layer's width, as in 32x256; may be repeated.",
)
@_count("--runs", 5, "Runs of each case.", name="seeds")
@click.option(
    "--published", is_flag=True, help="Also run the published objective once per case: minutes."
)
@_count("--iterations", 25_000, "Steps of the published objective.")
@click.option(
    "--seconds",
    "budget",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="CPU time of one exact recovery.",
)
def attacks_command(options: Options, case: tuple[str, ...], **values: Any) -> None:
    """Measure attacks on gradients.

    How much of a batch comes back from the gradient of a linear layer, without an oracle, and the
    CPU time; beside scikit-learn's FastICA where it is installed.
    """
    from privagg.bench import attacks

    cases = [_case(text) for text in case] or attacks.CASES
    with progress(options) as step:
        report = attacks.bench(cases=cases, **values, step=step)
    emit(report, options)


def _case(text: str) -> tuple[int, int]:
    """Return a batch and a width."""
    batch, _, width = text.partition("x")
    if not (batch.isascii() and batch.isdigit() and width.isascii() and width.isdigit()):
        raise UsageError("--case", text, "a batch and a width, as in 32x256")
    return int(batch), int(width)
