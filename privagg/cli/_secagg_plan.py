"""A plan as a report, and what growing the cohort would do to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from privagg.cli._secagg_costs import bytes_only
from privagg.cli._secagg_options import GRAPHS, RoundOptions
from privagg.cli._secagg_shared import count, guarantee, parameters
from privagg.errors import UsageError
from privagg.protocols.secagg import Graph, Params, Plan, Threat, recommended_workers, thresholds
from privagg.protocols.secagg.params import MAX_CLIENTS
from privagg.report import Cell, Column, Plot, Reference, Report, Series, Table

__all__ = ["report"]

_SMALLEST, _POINTS = 16, 9


def report(plan: Plan, given: RoundOptions, *, calibrated: bool, plots: bool) -> Report:
    """Report a plan.

    Parameters
    ----------
    plan : Plan
        The plan.
    given : RoundOptions
        The options, for the plots over other cohorts.
    calibrated : bool
        Whether the plan's seconds were measured.
    plots : bool
        Whether to plan the other cohorts too.
    """
    params = plan.params
    workers = recommended_workers(params)
    expected = params.clients - thresholds.dropouts(params.clients, params.dropout)
    data = parameters(params) | {
        "privacy": None,
        "survivors_expected": expected,
        "sigma": params.sigma,
        "eta": params.eta,
        "expansion": plan.expansion,
        "expansion_formula": plan.expansion_formula,
        "expansion_graph_proof": plan.bytes_graph_proof / params.raw_bytes,
        "bytes_up_per_client": plan.bytes_up_per_client,
        "bytes_down_per_client": plan.bytes_down_per_client,
        "bytes_up": plan.bytes_up,
        "bytes_down": plan.bytes_down,
        "bytes_server": plan.bytes_server,
        "memory_server": plan.memory_server,
        "cpu_seconds_client": plan.cpu_seconds_client if calibrated else None,
        "cpu_seconds_server": plan.cpu_seconds_server if calibrated else None,
        "simulation_workers": workers,
        "simulation_seconds": plan.wall_seconds(workers) if calibrated else None,
    }
    notes = ["Bytes if nobody drops out: the most that a client sends and receives."]
    if calibrated:
        notes.append(
            "CPU seconds on one core of this machine; the server's if the stated dropout leaves "
            "after sharing its keys, when its work is largest."
        )
    notes += _other_graph(given, params)
    return Report(
        title=f"Plan: secure aggregation of {params.clients:,} clients' {params.dim:,} numbers",
        data=data,
        tables=[_choices(params, expected), _messages(plan), _costs(plan, calibrated, workers)],
        plots=list(_plots(plan, given)) if plots else [],
        notes=notes,
        verdict=f"Guarantee: {guarantee(params)}.",
    )


def _choices(params: Params, expected: int) -> Table:
    encoding = params.encoding
    numbers = "integers" if encoding.clip is None else f"floats within ±{encoding.clip:.6g}"
    everyone = params.graph is Graph.COMPLETE
    holders = "every client holds them" if everyone else "a client's neighbours hold them"
    rows: list[list[Cell]] = [
        [
            "threat model",
            params.threat.value,
            f"{count(params.corrupt)} may collude with the server",
        ],
        ["graph", params.graph.value, "who shares secrets with whom"],
        ["neighbours", str(params.neighbours), "of each client"],
        ["threshold", str(params.threshold), f"shares rebuild a secret; {holders}"],
        ["smallest cohort", str(params.min_cohort), f"inputs in the sum; {expected} are expected"],
        [
            "modulus",
            f"2**{params.modulus_bits}",
            "sums of residues, which are meant to wrap around"
            if encoding.kind == "ring"
            else f"no sum of {encoding.value_bits}-bit {numbers} wraps around",
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


def _costs(plan: Plan, calibrated: bool, workers: int) -> Table:
    def amount(value: float, unit: str) -> str:
        return Table("", [Column("", unit)], [[value]]).texts()[0][0]

    rows: list[list[Cell]] = [
        ["expansion: a client's bytes over its vector's", f"{plan.expansion:.4g}"],
        ["expansion by the paper's formula", f"{plan.expansion_formula:.4g}"],
        *_proof(plan),
        ["bytes through the server", amount(plan.bytes_server, "B")],
        ["memory of the server", amount(plan.memory_server, "B")],
    ]
    if calibrated:
        rows += [
            ["CPU of one client", amount(plan.cpu_seconds_client, "s")],
            ["CPU of the server", amount(plan.cpu_seconds_server, "s")],
            [
                f"a simulation of it here, --workers {workers}, by the clock",
                amount(plan.wall_seconds(workers), "s"),
            ],
        ]
    return Table("Costs", ["", "value"], rows)


def _proof(plan: Plan) -> Iterator[list[Cell]]:
    if plan.bytes_graph_proof:
        apart = plan.bytes_graph_proof / plan.params.raw_bytes
        yield ["apart from it: the proof of a client's neighbours", f"{apart:.4g}"]


def _threat_for(given: RoundOptions, graph: str) -> str:
    """Return the threat model nearest to the given one that rounds on `graph` have."""
    paired = {Threat.ACTIVE.value: Graph.COMPLETE.value, Threat.SEMI_MALICIOUS.value: "sparse"}
    fits = paired.get(given.threat, graph) == graph
    return given.threat if fits else next(name for name, its in paired.items() if its == graph)


def _for_graph(given: RoundOptions, graph: str, clients: int) -> Plan | None:
    """Return the bill of another graph and cohort, with its own threshold; None if infeasible."""
    other = replace(
        given,
        graph=graph,
        threat=_threat_for(given, graph),
        clients=clients,
        threshold=None,
        neighbours=None,
        min_cohort=None,
    )
    try:
        return bytes_only(other.params())
    except UsageError:
        return None


def _other_graph(given: RoundOptions, params: Params) -> Iterator[str]:
    (graph,) = set(GRAPHS) - {params.graph.value}
    plan, threat = _for_graph(given, graph, params.clients), _threat_for(given, graph)
    flags = f"--graph {graph}" + ("" if threat == given.threat else f" --threat {threat}")
    if plan is None:
        yield f"{flags} is not feasible for these fractions of {params.clients} clients."
        return
    yield (
        f"With {flags}: expansion {plan.expansion:.4g}, {plan.params.neighbours} "
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
                threat = _threat_for(given, graph)
                name = graph if threat == given.threat else f"{graph}, {threat}"
                series.append(Series(name, list(points), amounts))
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
