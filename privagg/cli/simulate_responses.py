"""``privagg simulate responses``: release bags' responses, learn from them, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from privagg.cli.common import Options, command, emit, note, progress, seed_option
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.protocols.responses.clipping import PaidRange

__all__ = ["LOSSES", "MODELS", "responses"]

LOSSES = ("bag", "instance", "interpolate", "easyllp")
MODELS = ("auto", "linear", "logistic")
"""Said again here, so that the help needs no import of the protocol; a test compares them."""


@command(
    "responses",
    examples=[
        "privagg simulate responses --input adult --target income --bag-size 10 --epsilon 2",
        "privagg simulate responses --input people.parquet --target spend --bag-size 5 --loss bag "
        "--epsilon 4 --clip 0,500",
    ],
    plots=True,
)
@click.option(
    "--input",
    "source",
    required=True,
    metavar="NAME|FILE",
    help="A row per person: a bundled table, .csv or .parquet.",
)
@click.option("--target", required=True, metavar="COLUMN", help="The response.")
@click.option("--columns", metavar="A,B,...", help="The features.  [default: all others]")
@click.option(
    "--bag-size", type=click.IntRange(1), required=True, help="Rows of a bag; bags are random."
)
@click.option(
    "--loss", type=click.Choice(LOSSES), default="interpolate", show_default=True, help="Which."
)
@click.option(
    "--rho",
    type=click.FloatRange(0),
    metavar="FLOAT",
    help="From bag level (0) to instance level (1) and beyond.  [default: chosen from the release]",
)
@click.option(
    "--ridge",
    type=click.FloatRange(0),
    metavar="FLOAT",
    help="The penalty.  [default: chosen from the release]",
)
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default="auto",
    show_default=True,
    help="Of two classes; auto is linear where there is noise.",
)
@click.option(
    "--epsilon",
    type=click.FloatRange(0, min_open=True),
    metavar="FLOAT",
    help="Label differential privacy of the release.  [default: exact means]",
)
@click.option(
    "--delta",
    type=click.FloatRange(0, 0.1),
    default=0.0,
    show_default=True,
    metavar="FLOAT",
    help="0 for Laplace noise, else Gaussian.",
)
@click.option(
    "--clip",
    metavar="LOW,HIGH|paid:BOUND",
    help="Of a target of numbers: its public range, or one bought out of epsilon, within +-BOUND.",
)
@seed_option
def responses(
    source: str,
    target: str,
    columns: str | None,
    bag_size: int,
    loss: str,
    rho: float | None,
    ridge: float | None,
    model: str,
    epsilon: float | None,
    delta: float,
    clip: str | None,
    seed: int | None,
    options: Options,
) -> None:
    """Simulate a release of bags' responses, and learn from it.

    Rows are put into random bags, their responses released as means with label differential
    privacy, and a linear model is learnt from features and released means. Its error on held-out
    rows stands beside that of the same model with every row's own response, and with bags of 1 of
    the same epsilon.
    """
    from privagg.cli import _responses_report
    from privagg.cli._survey_inputs import parse_names, read_columns
    from privagg.protocols.responses import simulation

    written = (options.out, options.report, options.plot)
    table = read_columns(source, written)
    names = parse_names("--columns", columns)
    for name in (*names, target):
        if name not in table:
            raise UsageError("--target, --columns", name, f"columns of {source}")
    kept = {name: c for name, c in table.items() if not names or name in (*names, target)}
    setting = simulation.Setting(
        bag_size=bag_size,
        loss=loss,
        rho=rho,
        ridge=ridge,
        epsilon=epsilon,
        delta=delta,
        clip=_clip(clip),
        model=model,
    )
    note(options, f"{source}: {len(kept[target]):,} rows.")
    with progress(options) as step:
        step("release and fit", 0, 1)
        found = simulation.simulate(kept, target, setting, source=source, seed=seed)
        step("release and fit", 1, 1)
    emit(_responses_report.simulation(found), options)


def _clip(text: str | None) -> tuple[float, float] | PaidRange | None:
    if text is None:
        return None
    paid = text.startswith("paid:")
    try:
        ends = [float(part) for part in text.removeprefix("paid:").split(",")]
    except ValueError:
        ends = []
    if paid and len(ends) == 1 and 0 < ends[0] < float("inf"):
        from privagg.protocols.responses.clipping import PaidRange

        return PaidRange(candidates=tuple(ends[0] * at / 100 for at in range(1, 101)))
    if paid or len(ends) != 2:
        raise UsageError("--clip", text, "two numbers such as 0,500, or paid:1000")
    return ends[0], ends[1]
