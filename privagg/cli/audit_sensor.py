"""``privagg audit sensor``: every attack on every protocol of sensor networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from privagg.cli._sensor_options import ATTACKS, PROTOCOLS
from privagg.cli.common import Options, command, emit, progress, seed_option
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.attacks.sensor import Audit
    from privagg.report import Report

__all__ = ["sensor"]


@command(
    "sensor",
    examples=[
        "privagg audit sensor",
        "privagg audit sensor --protocol cpda --attack modulo",
        "privagg audit sensor --protocol cpda-field --members 3 --runs 5000 --json",
    ],
    plots=True,
)
@click.option(
    "--protocol",
    "protocols",
    type=click.Choice(PROTOCOLS),
    multiple=True,
    help="Which to attack; may be repeated.  [default: all]",
)
@click.option(
    "--attack",
    "attacks",
    type=click.Choice(ATTACKS),
    multiple=True,
    help="Which attack; may be repeated.  [default: all]",
)
@click.option(
    "--runs",
    type=click.IntRange(10, 10**6),
    default=1000,
    show_default=True,
    metavar="INT",
    help="Clusters attacked; a tenth of them where real parties are played.",
)
@click.option(
    "--members",
    type=click.IntRange(3, 64),
    default=5,
    show_default=True,
    metavar="INT",
    help="Members of a cluster.",
)
@click.option(
    "--reading-bound",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    metavar="INT",
    help="Readings are whole numbers from 0 to this.",
)
@seed_option
def sensor(
    protocols: tuple[str, ...],
    attacks: tuple[str, ...],
    runs: int,
    members: int,
    reading_bound: int,
    seed: int | None,
    options: Options,
) -> None:
    """Attack the protocols of sensor networks and count the readings found.

    Beside each rate stands that of the best guess, and whether the attack does better (one-sided
    exact binomial test). Ends with 5 if a protocol leaks within what it promises.
    """
    from privagg.attacks.sensor import audit

    with progress(options) as step:
        found = audit(
            protocols=protocols or None,
            attacks=attacks or None,
            runs=runs,
            members=members,
            bound=reading_bound,
            seed=seed,
            progress=step,
        )
    if not found.findings:
        raise UsageError(
            "--attack",
            ", ".join(attacks),
            f"an attack that can be tried on {', '.join(protocols)}",
            "None was tried, which says nothing.",
        )
    emit(_report(found), options, leak=found.leak)


def _report(found: Audit) -> Report:
    from privagg.report import Cell, Plot, Report, Series, Table

    names = list(dict.fromkeys(str(f.subject.protocol) for f in found.findings))
    data = {
        "protocol": names[0] if len(names) == 1 else "all",
        "protocols": names,
        "members": found.setting.members,
        "reading_bound": found.setting.bound,
        "leak": found.leak,
        "attacks": [
            {
                "protocol": str(f.subject.protocol),
                "variant": f.subject.name,
                "name": f.attack,
                "runs": f.runs,
                "recovered": f.recovered,
                "rate": f.rate,
                "guess_rate": f.chance,
                "p_value": f.p_value,
                "finding": f.kind,
                "note": f.note,
            }
            for f in found.findings
        ],
        "insecure_seed": found.insecure_seed,
    }
    rows: list[list[Cell]] = [
        [f.subject.name, f.attack, f.runs, f.recovered, f.rate, f.chance, f.kind, f.note]
        for f in found.findings
    ]
    columns = ["protocol", "attack", "attacked", "found", "rate", "guessing", "finding", "note"]
    variants = list(dict.fromkeys(f.subject.name for f in found.findings))
    kinds = list(dict.fromkeys(f.attack for f in found.findings))
    rate = {(f.subject.name, f.attack): f.rate for f in found.findings}
    plots = []
    if rows:
        plots.append(
            Plot(
                kind="heatmap",
                title="Readings found, of those attacked; an attack that cannot be tried counts 0",
                x_label="attack",
                y_label="protocol",
                value_label="readings found [share]",
                series=[
                    Series(name, kinds, [rate.get((name, kind), 0.0) for kind in kinds])
                    for name in variants
                ],
            )
        )
    leaking = list(dict.fromkeys(f.subject.name for f in found.findings if f.leak))
    verdict = "No attack did better than guessing within what is promised."
    if leaking:
        verdict = f"Leak: {'; '.join(leaking)}."
    notes = [
        f"Clusters of {found.setting.members}; readings are whole numbers from 0 to "
        f"{found.setting.bound}, uniform.",
        "inherent: no protocol whose result is a sum prevents it. beyond the bound: more colluders "
        "than the protocol promises to withstand.",
    ]
    return Report(
        "Attacks on sensor protocols",
        data,
        [Table("Findings", columns, rows)],
        plots,
        notes,
        verdict,
    )
