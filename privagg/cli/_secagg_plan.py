"""A plan as a report, and what growing the cohort would do to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from privagg.cli._secagg_costs import bytes_only
from privagg.cli._secagg_options import GRAPHS, RoundOptions
from privagg.cli._secagg_report import count, guarantee, parameters
from privagg.errors import UsageError
from privagg.protocols.secagg import Graph, Params, Plan, Threat, thresholds
from privagg.protocols.secagg.params import MAX_CLIENTS
from privagg.report import Cell, Column, Plot, Reference, Report, Series, Table

__all__ = ["parameters_for", "report"]

_SMALLEST, _POINTS = 16, 9


def parameters_for(given: RoundOptions) -> tuple[Params, Threat]:
    """Return parameters, and the threat model that their threshold and neighbours are for.

    Where rounds against a threat model are not built, the threshold and the neighbours are still
    planned against it; the parameters then are those of a semi-honest round with these two.

    Raises
    ------
    UsageError, CapacityError
        If nothing fits; the message says what would.
    """
    threat = Threat(given.threat)
    try:
        return given.params(), threat
    except UsageError as error:
        if error.argument != "threat" or threat is Threat.SEMI_HONEST:
            raise
    clients = given.clients or 0
    corrupt = thresholds.corrupted(clients, given.corrupt)
    threshold, neighbours = given.threshold, given.neighbours
    if given.graph == Graph.COMPLETE:
        if threshold is None:
            threshold = thresholds.choose_complete(
                clients, corrupt=corrupt, dropout=given.dropout, threat=threat
            )
        thresholds.check_complete(
            clients, corrupt=corrupt, dropout=given.dropout, threshold=threshold, threat=threat
        )
    else:
        if threshold is None or neighbours is None:
            choice = thresholds.choose_sparse(
                clients, corrupt=given.corrupt, dropout=given.dropout, threat=threat
            )
            threshold = choice.threshold if threshold is None else threshold
            neighbours = choice.neighbours if neighbours is None else neighbours
        thresholds.check_sparse(
            clients,
            corrupt=corrupt,
            dropout=given.dropout,
            neighbours=neighbours,
            threshold=threshold,
            threat=threat,
        )
    semi_honest = Threat.SEMI_HONEST.value
    return given.params(threat=semi_honest, threshold=threshold, neighbours=neighbours), threat


def report(
    plan: Plan, threat: Threat, given: RoundOptions, *, calibrated: bool, plots: bool
) -> Report:
    """Report a plan.

    Parameters
    ----------
    plan : Plan
        The plan.
    threat : Threat
        What the threshold and the neighbours are for; see :func:`parameters_for`.
    given : RoundOptions
        The options, for the plots over other cohorts.
    calibrated : bool
        Whether the plan's seconds were measured.
    plots : bool
        Whether to plan the other cohorts too.
    """
    params = plan.params
    expected = params.clients - thresholds.dropouts(params.clients, params.dropout)
    data = parameters(params) | {
        "threat": threat.value,
        "messages_of": params.threat.value,
        "survivors_expected": expected,
        "sigma": params.sigma,
        "eta": params.eta,
        "expansion": plan.expansion,
        "expansion_formula": plan.expansion_formula,
        "bytes_up_per_client": plan.bytes_up_per_client,
        "bytes_down_per_client": plan.bytes_down_per_client,
        "bytes_up": plan.bytes_up,
        "bytes_down": plan.bytes_down,
        "bytes_server": plan.bytes_server,
        "memory_server": plan.memory_server,
        "cpu_seconds_client": plan.cpu_seconds_client if calibrated else None,
        "cpu_seconds_server": plan.cpu_seconds_server if calibrated else None,
    }
    notes = ["Bytes if nobody drops out: the most that a client sends and receives."]
    if calibrated:
        notes.append(
            "CPU seconds on one core of this machine; the server's if the stated dropout leaves "
            "after sharing its keys, when its work is largest."
        )
    if threat is not params.threat:
        notes.append(
            f"Threshold and neighbours hold against a {threat.value} server. Bytes and seconds are "
            f"those of the {params.threat.value} messages: rounds against a {threat.value} server "
            "have more, and are not part of this version."
        )
        verdict = f"Planned against a {threat.value} server with {count(params.corrupt)} corrupt."
    else:
        verdict = f"Guarantee: {guarantee(params)}."
    notes += _other_graph(given, params)
    return Report(
        title=f"Plan: secure aggregation of {params.clients:,} clients' {params.dim:,} numbers",
        data=data,
        tables=[_choices(params, threat, expected), _messages(plan), _costs(plan, calibrated)],
        plots=list(_plots(plan, given)) if plots else [],
        notes=notes,
        verdict=verdict,
    )


def _choices(params: Params, threat: Threat, expected: int) -> Table:
    encoding = params.encoding
    numbers = "integers" if encoding.clip is None else f"floats within ±{encoding.clip:.6g}"
    everyone = params.graph is Graph.COMPLETE
    holders = "every client holds them" if everyone else "a client's neighbours hold them"
    rows: list[list[Cell]] = [
        ["threat model", threat.value, f"{count(params.corrupt)} may collude with the server"],
        ["graph", params.graph.value, "who shares secrets with whom"],
        ["neighbours", str(params.neighbours), "of each client"],
        ["threshold", str(params.threshold), f"shares rebuild a secret; {holders}"],
        ["smallest cohort", str(params.min_cohort), f"inputs in the sum; {expected} are expected"],
        [
            "modulus",
            f"2**{params.modulus_bits}",
            f"no sum of {encoding.value_bits}-bit {numbers} wraps around",
        ],
        ["mask stream", params.prg.value, ""],
    ]
    if encoding.weighted:
        rows.append(["weights", f"0 to {encoding.max_weight}", "masked like the numbers"])
    return Table("Parameters", ["", "value", "meaning"], rows)


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
    def amount(value: float, unit: str) -> str:
        return Table("", [Column("", unit)], [[value]]).texts()[0][0]

    rows: list[list[Cell]] = [
        ["expansion: a client's bytes over its vector's", f"{plan.expansion:.4g}"],
        ["expansion by the paper's formula", f"{plan.expansion_formula:.4g}"],
        ["bytes through the server", amount(plan.bytes_server, "B")],
        ["memory of the server", amount(plan.memory_server, "B")],
    ]
    if calibrated:
        rows += [
            ["CPU of one client", amount(plan.cpu_seconds_client, "s")],
            ["CPU of the server", amount(plan.cpu_seconds_server, "s")],
        ]
    return Table("Costs", ["", "value"], rows)


def _for_graph(given: RoundOptions, graph: str, clients: int) -> Plan | None:
    """Return the bill of another graph and cohort, with its own threshold; None if infeasible."""
    other = replace(
        given, graph=graph, clients=clients, threshold=None, neighbours=None, min_cohort=None
    )
    try:
        params, _ = parameters_for(other)
    except UsageError:
        return None
    return bytes_only(params)


def _other_graph(given: RoundOptions, params: Params) -> Iterator[str]:
    (graph,) = set(GRAPHS) - {params.graph.value}
    plan = _for_graph(given, graph, params.clients)
    if plan is None:
        yield f"The {graph} graph is not feasible for these fractions of {params.clients} clients."
        return
    yield (
        f"With --graph {graph}: expansion {plan.expansion:.4g}, {plan.params.neighbours} "
        f"neighbours, threshold {plan.params.threshold}."
    )


def _plots(plan: Plan, given: RoundOptions) -> Iterator[Plot]:
    params = plan.params
    rounds = list(plan.bytes_up)
    yield Plot(
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
    sizes = sorted(
        {max(2, min(params.clients << shift >> 4, MAX_CLIENTS)) for shift in range(_POINTS)}
    )
    bills = {graph: {n: _for_graph(given, graph, n) for n in sizes} for graph in GRAPHS}
    for title, label, value in (
        ("Expansion over the size of the cohort", "expansion [times]", "expansion"),
        ("Bytes per client over the size of the cohort", "bytes up and down [B]", "bytes"),
    ):
        series = []
        for graph, found in bills.items():
            points = {n: bill for n, bill in found.items() if bill is not None}
            amounts = [
                bill.expansion
                if value == "expansion"
                else bill.bytes_up_per_client + bill.bytes_down_per_client
                for bill in points.values()
            ]
            if points:
                series.append(Series(graph, list(points), amounts))
        if series:
            yield Plot(
                kind="line",
                title=title,
                x_label="clients",
                y_label=label,
                series=series,
                log_x=True,
                references=[Reference(params.clients, "this plan", axis="x")],
            )
