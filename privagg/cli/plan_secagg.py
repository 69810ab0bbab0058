"""``privagg plan secagg``: parameters and costs of a round before anyone sends anything."""

from __future__ import annotations

from typing import Any

import rich_click as click

from privagg.cli._privacy_options import PrivacyOptions, ResidueOptions, privacy_options
from privagg.cli._secagg_options import RoundOptions, round_options
from privagg.cli.common import Options, command, emit, note
from privagg.errors import UsageError

__all__ = ["secagg"]

_USUAL = {"clients": 1000, "dim": 16384}
"""What is planned for where the command line does not say; it is said on stderr."""


@command(
    "secagg",
    examples=[
        "privagg plan secagg --clients 1000 --dim 1000000",
        "privagg plan secagg --clients 1000 --dim 1000000 --graph sparse --corrupt 0.1",
        "privagg plan secagg --clients 100 --dim 50000 --clip 1 --max-weight 500",
        "privagg plan secagg --epsilon 4 --delta 1e-6 --rounds 100",
        "privagg plan secagg --clients 1000 --dim 100000 --dropout 0.3 --protocol compare",
    ],
    plots=True,
)
@round_options
@privacy_options
@click.option(
    "--protocol",
    type=click.Choice(("bonawitz", "lightsecagg", "compare")),
    default="bonawitz",
    show_default=True,
    help="Pairwise masks, one-shot recovery of coded masks, or both side by side.",
)
@click.option(
    "--calibrate/--no-calibrate",
    default=True,
    help="Measure this machine, about a second, to predict CPU seconds.",
)
def secagg(protocol: str, calibrate: bool, options: Options, **values: Any) -> None:
    """Plan a secure aggregation round.

    Threshold, neighbours and modulus from what may go wrong; bytes from the layouts that encode the
    messages; CPU seconds from a short calibration of this machine. What is insecure, could wrap
    around or could not finish is refused, with the nearest that works.
    """
    from privagg.cli import _secagg_costs, _secagg_plan
    from privagg.protocols import secagg as bonawitz

    for name, usual in _USUAL.items():
        if values[name] is None:
            note(options, f"No --{name} given: planned for {usual}.")
            values[name] = usual
    given = RoundOptions.take(values)
    privacy = PrivacyOptions.take(values, given)
    if given.weights is not None and given.max_weight is None:
        hint = "For example the largest number of examples that a client may have."
        raise UsageError("--max-weight", "nothing", "the largest weight, with --weights", hint)
    if calibrate:
        note(options, "Measuring this machine ...")
    drawn = options.report is not None or options.plot is not None
    if protocol != "bonawitz":
        if privacy is not None:
            raise UsageError("--protocol", protocol, "bonawitz with --epsilon: its sums wrap")
        from privagg.cli import _lightsecagg_plan

        if protocol == "compare":
            emit(_lightsecagg_plan.comparison(given, calibrated=calibrate, plots=drawn), options)
        else:
            emit(_lightsecagg_plan.report(given, calibrated=calibrate), options)
        return
    if privacy is None:
        params = given.params()
    else:
        mechanism, params = privacy.mechanism(given)
        given = ResidueOptions.of(given, params)
    plan = bonawitz.plan(params) if calibrate else _secagg_costs.bytes_only(params)
    report = _secagg_plan.report(plan, given, calibrated=calibrate, plots=drawn)
    if privacy is not None:
        from privagg.cli import _privacy_report

        report = _privacy_report.planned(report, mechanism, params, privacy)
    emit(report, options)
