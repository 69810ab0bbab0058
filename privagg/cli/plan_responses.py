"""``privagg plan responses``: what can be learnt from bags, before anything is released."""

from __future__ import annotations

import rich_click as click

from privagg.cli.common import Options, command, emit, seed_option
from privagg.cli.plan_ldp import parse_sizes

__all__ = ["responses"]


@command(
    "responses",
    examples=[
        "privagg plan responses --samples 10000 --features 500 --snr 2 --epsilon 2",
        "privagg plan responses --samples 10000 --features 2000 --snr 1 --bag-size 5 "
        "--simulate 1000 --plot risk.png",
    ],
    plots=True,
    library_names={"simulated_rows": "--simulate"},
)
@click.option("--samples", type=click.IntRange(1), required=True, help="How many rows.")
@click.option("--features", type=click.IntRange(1), required=True, help="How many features.")
@click.option(
    "--snr",
    type=click.FloatRange(0, min_open=True),
    required=True,
    metavar="FLOAT",
    help="The variance of what features explain over that of the rest.",
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
@click.option("--bag-size", type=click.IntRange(1), help="Only this one.  [default: the best]")
@click.option("--sizes", metavar="K,K,...", help="Bag sizes to compare, such as 1,2,5,10.")
@click.option(
    "--simulate",
    "simulated",
    type=click.IntRange(0, 20_000),
    default=0,
    show_default=True,
    metavar="INT",
    help="Also draw so many rows, and show Monte Carlo beside theory.",
)
@seed_option
def responses(
    samples: int,
    features: int,
    snr: float,
    epsilon: float | None,
    delta: float,
    bag_size: int | None,
    sizes: str | None,
    simulated: int,
    seed: int | None,
    options: Options,
) -> None:
    """Plan learning from the mean responses of bags.

    Says the expected excess risk of every estimator, over the signal's variance, by closed forms
    that are exact for many samples and features; and the interpolation, ridge, bag size and
    clipping bound with the least.
    """
    from privagg.cli import _responses_report
    from privagg.entropy import from_seed
    from privagg.protocols.responses import planner

    found = planner.forecast(
        samples,
        features,
        snr,
        epsilon=epsilon,
        delta=delta,
        bag_size=bag_size,
        sizes=planner.SIZES if sizes is None else parse_sizes("--sizes", sizes),
        simulated_rows=simulated,
        entropy=from_seed(seed),
    )
    emit(_responses_report.plan(found, simulated, seed is not None), options)
