"""A plan of LightSecAgg as a report, and both protocols side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from privagg.cli._lightsecagg import guarantee, parameter_rows, parameters, params_of, size
from privagg.cli._secagg_options import RoundOptions
from privagg.errors import UsageError
from privagg.protocols import lightsecagg, secagg
from privagg.protocols.lightsecagg import Comparison, Plan, compare
from privagg.protocols.lightsecagg.calibration import Units, free, measure
from privagg.protocols.secagg import calibration as theirs
from privagg.report import Cell, Column, Plot, Reference, Report, Series, Table

__all__ = ["comparison", "report"]

_NAMES = {"bonawitz": "Bonawitz", "lightsecagg": "LightSecAgg"}
_DROPOUTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
_SMALLEST, _POINTS = 16, 9


def report(given: RoundOptions, *, calibrated: bool) -> Report:
    """Report a plan of LightSecAgg."""
    params = params_of(given)
    plan = lightsecagg.plan(params, units=None if calibrated else free())
    data = parameters(params) | {
        "survivors_expected": params.clients - params.dropouts,
        "expansion": plan.expansion,
        "bytes_up_per_client": plan.bytes_up_per_client,
        "bytes_down_per_client": plan.bytes_down_per_client,
        "bytes_up": plan.bytes_up,
        "bytes_down": plan.bytes_down,
        "bytes_server": plan.bytes_server,
        "elements_relayed": plan.elements_relayed,
        "memory_server": plan.memory_server,
        "memory_client": plan.memory_client,
        "cpu_seconds_client": plan.cpu_seconds_client if calibrated else None,
        "cpu_seconds_server": plan.cpu_seconds_server if calibrated else None,
        "cpu_seconds_recovery": plan.cpu_seconds_recovery if calibrated else None,
    }
    rounds = list(plan.bytes_up)
    return Report(
        title=f"Plan: LightSecAgg of {params.clients:,} clients' {params.dim:,} numbers",
        data=data,
        tables=[
            Table("Parameters", ["", "value", "meaning"], _cells(parameter_rows(params))),
            _messages(plan),
            _costs(plan, calibrated),
        ],
        plots=[
            Plot(
                kind="bar",
                title="Bytes per client if nobody drops out",
                x_label="round",
                y_label="bytes [B]",
                series=[
                    Series("up", rounds, list(plan.bytes_up.values())),
                    Series("down", rounds, [plan.bytes_down[name] for name in rounds]),
                ],
                log_y=True,
            )
        ],
        notes=[
            "Bytes if nobody drops out: the most that a client sends and receives. Coded shares "
            "can be sent before there is anything to aggregate.",
            f"The server relays N (N - 1) ceil(d / (U - T)) = {plan.elements_relayed:,} field "
            "elements of coded shares, encrypted.",
            "--protocol compare puts this beside the pairwise masks.",
        ],
        verdict=f"Guarantee: {guarantee(params)}.",
    )


def comparison(given: RoundOptions, *, calibrated: bool, plots: bool) -> Report:
    """Report one cohort under both protocols, and recommend one.

    Without a calibration there are no seconds, and no recommendation.
    """
    mine, other = params_of(given), given.params()
    if calibrated:
        ours, them = measure(mine), theirs.measure(other)
    else:
        ours, them = free(), _no_seconds()
    both = compare(secagg.plan(other, units=them), lightsecagg.plan(mine, units=ours))
    seconds = both.seconds if calibrated else {}
    data = {
        "protocol": "compare",
        "threat": mine.threat.value,
        "clients": mine.clients,
        "dim": mine.dim,
        "corrupt": mine.corrupt,
        "dropout": mine.dropout,
        "bandwidth": both.bandwidth,
        "recommended": both.recommended if calibrated else None,
        "protocols": {name: _figures(both, name, calibrated) for name in _NAMES},
    }
    return Report(
        title=f"Plans: {mine.clients:,} clients' {mine.dim:,} numbers under two protocols",
        data=data,
        tables=[_both_table(both, calibrated)],
        plots=list(_crossover(given, ours, them)) if plots and calibrated else [],
        notes=[
            f"Seconds of a round: one client's CPU, its bytes at {size(both.bandwidth, 'B')}/s, "
            "and the server's CPU on one core, one after the other; no latency.",
            "The server's CPU after the stated dropout: pairwise masks of clients that left after "
            "sharing keys are taken off one by one; coded masks at once, whoever left.",
        ],
        verdict=(
            f"Recommended: {_NAMES[both.recommended]}, {seconds[both.recommended]:.3g} s against "
            f"{max(seconds.values()):.3g} s."
            if calibrated
            else "Calibrate to have one recommended."
        ),
    )


def _cells(rows: list[list[str]]) -> list[list[Cell]]:
    return [list(row) for row in rows]


def _no_seconds() -> theirs.Units:
    from dataclasses import fields

    return theirs.Units(**{one.name: 0.0 for one in fields(theirs.Units)})


def _figures(both: Comparison, name: str, calibrated: bool) -> dict[str, object]:
    plan: Any = getattr(both, name)
    seconds = {
        "cpu_seconds_client": plan.cpu_seconds_client,
        "cpu_seconds_server": plan.cpu_seconds_server,
        "seconds": both.seconds[name],
    }
    return {
        "threshold": plan.params.threshold,
        "expansion": plan.expansion,
        "bytes_up_per_client": plan.bytes_up_per_client,
        "bytes_down_per_client": plan.bytes_down_per_client,
        "bytes_server": plan.bytes_server,
        "memory_server": plan.memory_server,
        **(seconds if calibrated else dict.fromkeys(seconds)),
    }


def _messages(plan: Plan) -> Table:
    rows: list[list[Cell]] = [
        [name, plan.bytes_up[name], plan.bytes_down[name]] for name in plan.bytes_up
    ]
    rows.append(["all", plan.bytes_up_per_client, plan.bytes_down_per_client])
    columns: list[Column | str] = [
        "round",
        Column("up per client", "B"),
        Column("down per client", "B"),
    ]
    return Table("Messages", columns, rows)


def _costs(plan: Plan, calibrated: bool) -> Table:
    rows: list[list[Cell]] = [
        ["expansion: a client's bytes over its vector's", f"{plan.expansion:.4g}"],
        ["coded shares, up and as many down", size(plan.bytes_shares, "B")],
        ["bytes through the server", size(plan.bytes_server, "B")],
        ["memory of the server", size(plan.memory_server, "B")],
        ["memory of a client", size(plan.memory_client, "B")],
    ]
    if calibrated:
        rows += [
            ["CPU of one client", size(plan.cpu_seconds_client, "s")],
            ["CPU of the server", size(plan.cpu_seconds_server, "s")],
            ["of which after the last answer", size(plan.cpu_seconds_recovery, "s")],
        ]
    return Table("Costs", ["", "value"], rows)


def _both_table(both: Comparison, calibrated: bool) -> Table:
    plans: list[Any] = [both.bonawitz, both.lightsecagg]

    def row(label: str, unit: str, name: str) -> list[Cell]:
        return [label, *(size(getattr(plan, name), unit) for plan in plans)]

    rows: list[list[Cell]] = [
        ["threshold", *(str(plan.params.threshold) for plan in plans)],
        ["expansion", *(f"{plan.expansion:.4g}" for plan in plans)],
        row("up per client", "B", "bytes_up_per_client"),
        row("down per client", "B", "bytes_down_per_client"),
        row("bytes through the server", "B", "bytes_server"),
        row("memory of the server", "B", "memory_server"),
    ]
    if calibrated:
        rows += [
            row("CPU of one client", "s", "cpu_seconds_client"),
            row("CPU of the server", "s", "cpu_seconds_server"),
            ["seconds of a round", *(size(both.seconds[name], "s") for name in _NAMES)],
        ]
    return Table("Costs", ["", *_NAMES.values()], rows)


def _crossover(given: RoundOptions, ours: Units, them: theirs.Units) -> Iterator[Plot]:
    """Plot seconds of a round over the cohort, and over the dropout."""
    assert given.clients is not None
    largest = lightsecagg.params.MAX_CLIENTS
    sizes = sorted(
        {max(_SMALLEST, min(given.clients << shift >> 4, largest)) for shift in range(_POINTS)}
        | {given.clients}
    )
    for title, label, log, at, values in (
        ("Seconds of a round over the size of the cohort", "clients", True, "clients", sizes),
        ("Seconds of a round over the dropout", "dropout [fraction]", False, "dropout", _DROPOUTS),
    ):
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in _NAMES}
        for value in values:
            if at == "clients":
                found = _both_at(replace(given, clients=int(value)), ours, them)
            else:
                found = _both_at(replace(given, dropout=value), ours, them)
            for name, seconds in found.items():
                points[name].append((value, seconds))
        series = [
            Series(_NAMES[name], [x for x, _ in line], [y for _, y in line])
            for name, line in points.items()
            if line
        ]
        if series:
            here: float = getattr(given, at)
            yield Plot(
                kind="line",
                title=title,
                x_label=label,
                y_label="time [s]",
                series=series,
                log_x=log,
                log_y=True,
                references=[Reference(here, "this plan", axis="x")],
            )


def _both_at(given: RoundOptions, ours: Units, them: theirs.Units) -> dict[str, float]:
    """Return the seconds under both protocols, with their own thresholds; none if infeasible."""
    free_choice = replace(given, threshold=None, min_cohort=None)
    try:
        both = compare(
            secagg.plan(free_choice.params(), units=them),
            lightsecagg.plan(params_of(free_choice), units=ours),
        )
    except UsageError:
        return {}
    return both.seconds
