"""A simulated sensor network as a report: JSON for programs; tables, plots and words for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor import QueryKind, Result
from privagg.protocols.sensor.clusters import Clusters
from privagg.report import Cell, Column, Plot, Report, Series, Table

__all__ = ["report"]

_IN_JSON = 1000
"""So many epochs are listed one by one in the JSON object."""

_DRAWN = 3000
"""Networks up to this size are drawn."""


def report(
    result: Result, source: str, powers: Sequence[tuple[int, float, float, int]] | None = None
) -> Report:
    """Report a simulation.

    Parameters
    ----------
    result : Result
        The simulation.
    source : str
        Where the readings come from.
    powers : sequence of (k, estimate, relative error, bits of the sum), optional
        What sums of powers give in place of the maximum or minimum.
    """
    params, deployment, costs = result.params, result.deployment, result.costs
    sizes = result.formation.grouping.size
    energy, searched = result.all_models(), result.query.bisects
    data: dict[str, object] = {
        "protocol": str(params.protocol),
        "secure": result.secure,
        "guarantee": result.guarantee,
        "nodes": deployment.nodes,
        "clusters": result.clusters,
        "mean_cluster_size": result.mean_cluster_size,
        "cluster_sizes": {str(m): int((sizes == m).sum()) for m in np.unique(sizes)},
        "coverage": result.coverage,
        "messages_per_node": result.messages,
        "frames_per_node": costs.frames,
        "bytes_per_node": costs.octets,
        "microjoules_per_node": result.microjoules(),
        "accuracy": result.accuracy,
        "query": str(result.query.kind),
        "answer": result.answers[0],
        "true_answer": result.true_answers[0],
        "sum": None if searched else result.sums[0],
        "true_sum": None if searched else result.true_sums[0],
        "count": result.counts[-1 if searched else 0],
        "rounded": result.rounded,
        "epochs": len(result.counts),
        "per_epoch": None
        if searched
        else {
            "sum": result.sums[:_IN_JSON],
            "true_sum": result.true_sums[:_IN_JSON],
            "count": result.counts[:_IN_JSON],
        },
        "bisection": [
            {
                "threshold": step.threshold,
                "count": step.count,
                "true_count": step.true_count,
                "readings": step.readings,
            }
            for step in result.bisection
        ],
        "power_approximation": None
        if powers is None
        else [
            {"power": k, "estimate": estimate, "relative_error": error, "bits": bits}
            for k, estimate, error, bits in powers
        ],
        "most_frames": costs.most_frames,
        "by_kind": {
            kind: {"messages": said, "frames": frames, "bytes": octets}
            for kind, (said, frames, octets) in costs.by_kind.items()
        },
        "energy": energy,
        "energy_counted": {
            "model": result.energy.model,
            "overhearing": result.energy.overhearing,
            "idle": result.energy.idle(deployment.range),
        },
        "mean_degree": result.mean_degree,
        "depth": int(result.formation.uplink.spread.depth.max()),
        "formations": result.formations,
        "flood": str(deployment.flood),
        "loss": result.radio.loss,
        "retries": result.radio.retries,
        "payload": result.radio.payload,
        "corrupt": params.corrupt,
        "drops": params.drops,
        "min_cluster": params.min_cluster,
        "field": params.field.name,
        "keys": str(params.keys),
        "key_statistics": result.key_statistics,
        "engine": result.engine,
        "input": source,
        "insecure_seed": result.insecure_seed,
    }
    return Report(
        title=f"Sensor network: {params.protocol}, {source}",
        data=data,
        tables=[*_tables(result), *_power_table(result, powers)],
        plots=list(_plots(result)),
        notes=[*_notes(result), *([_POWERS] if powers else [])],
        verdict=_verdict(result),
    )


_POWERS = (
    "The sums of powers are computed here from all readings, to show their error: no protocol ran "
    "with them, and the answer above does not rest on them. Bits are those that "
    "the sum may need."
)


def _power_table(
    result: Result, powers: Sequence[tuple[int, float, float, int]] | None
) -> Iterator[Table]:
    if powers is not None:
        name = str(result.query.kind)
        rows: list[list[Cell]] = [[k, estimate, error, bits] for k, estimate, error, bits in powers]
        heads = ["power", f"in place of the {name}", "relative error", "bits of the sum"]
        yield Table("Demonstration: what sums of powers would give", heads, rows)


def _tables(result: Result) -> Iterator[Table]:
    costs, deployment = result.costs, result.deployment
    rows: list[list[Cell]] = [
        ["nodes", deployment.nodes],
        ["neighbours of a node", result.mean_degree],
        ["clusters", result.clusters],
        ["mean cluster size", result.mean_cluster_size],
        ["readings in the sum, of all", result.coverage],
        [f"{result.query.kind}", _shown(result.answers[0])],
        ["its true value", _shown(result.true_answers[0])],
        *([] if result.query.bisects else [["sum over true sum", result.accuracy]]),
        ["messages per node, as papers count", result.messages],
        ["frames per node", costs.frames],
        ["bytes on air per node", costs.octets],
        [f"microjoules per node ({result.energy.model})", result.microjoules()],
        ["frames of the busiest node", costs.most_frames],
    ]
    epochs = len(result.counts)
    title = "Result" if epochs == 1 else f"Result, {epochs} epochs; answers of the first"
    if result.query.bisects:
        title = f"Result, by counting in {epochs} epochs; costs of all of them"
    yield Table(title, ["", "value"], rows)
    kinds: list[list[Cell]] = [
        [kind, said, frames, octets] for kind, (said, frames, octets) in costs.by_kind.items()
    ]
    columns: list[Column | str] = ["kind", "messages", "frames", Column("on air", "B")]
    yield Table(f"Sent per node, {_span(result)}", columns, kinds)
    models: list[list[Cell]] = [
        [name, parts["sent"], parts["received"], parts["overheard"]]
        for name, parts in result.all_models().items()
    ]
    heads: list[Column | str] = [
        "radio",
        Column("sending", "µJ"),
        Column("receiving what is meant for it", "µJ"),
        Column("hearing all neighbours", "µJ"),
    ]
    yield Table("Energy per node", heads, models)
    if result.bisection:
        beyond = "at or above it" if result.query.kind is QueryKind.MAX else "at or below it"
        steps: list[list[Cell]] = [
            [step.threshold, step.count, step.true_count, step.readings]
            for step in result.bisection
        ]
        heads_ = ["threshold", f"readings {beyond}", "of all nodes", "readings that took part"]
        yield Table("Bisection", heads_, steps)


def _span(result: Result) -> str:
    """Say what the costs are of."""
    steps = len(result.bisection)
    return f"one formation and {steps} epochs" if steps else "one formation and one epoch"


def _shown(value: Any) -> Cell:
    if isinstance(value, list):
        return ", ".join(f"{part:,}" for part in value[:20])
    return value if value is None or isinstance(value, int | float) else str(value)


def _notes(result: Result) -> Iterator[str]:
    yield f"Guarantee: {result.guarantee}."
    if result.insecure_seed:
        yield "Seeded, so insecure: who knows the seed knows every secret of this run."
    if result.rounded:
        yield (
            f"Readings between two steps: {result.rounded:,}. They were rounded, and so is what "
            f"is called true; a --scale above {result.scale} keeps more."
        )
    if any(total is None for total in result.sums):
        lost = sum(total is None for total in result.sums)
        yield f"In {lost} of {len(result.sums)} epochs a slice was lost: nothing can be decoded."
    if "merge" in result.costs.by_kind:
        frames = result.costs.by_kind["merge"][1]
        yield f"Dissolving small clusters took {frames:.2f} frames per node, apart from the rest."
    if result.key_statistics:
        found = result.key_statistics
        yield (
            f"Of the links in clusters {found['linked']:.1%} share a key of the pool. A given third"
            f" node has it for {found['overheard_by_one']:.1%} of these, somebody in range for"
            f" {found['overheard_in_range']:.1%}."
        )
    if result.params.protocol.in_field and result.params.protocol.clustered:
        yield "Not held: a right sum, if a member or leader lies; what the sum itself says."


def _verdict(result: Result) -> str:
    params = result.params
    if params.protocol.broken:
        return f"INSECURE: {params.protocol} does not hide readings from a leader."
    if None in [step.count for step in result.bisection]:
        return f"A count could not be decoded: the {result.query.kind} is not known."
    if result.sums[0] is None:
        return "The sum could not be decoded."
    at = -1 if result.query.bisects else 0
    counted = f"{result.counts[at]} of {result.deployment.nodes} readings"
    return f"The base station has the {result.query.kind} of {counted}: {_shown(result.answers[0])}"


def _plots(result: Result) -> Iterator[Plot]:
    if result.deployment.nodes <= _DRAWN:
        yield _network(result)
    costs = result.costs
    kinds = list(costs.by_kind)
    if kinds:  # else nobody heard the query, and nothing was sent
        yield Plot(
            kind="bar",
            title="Frames per node by kind of message",
            x_label="kind",
            y_label="frames per node",
            series=[Series("frames", kinds, [costs.by_kind[kind][1] for kind in kinds])],
        )
    models = result.all_models()
    names = ["sending", "receiving", "overhearing"]
    parts = ["sent", "received", "overheard"]
    yield Plot(
        kind="bar",
        title=f"Energy per node, {_span(result)}",
        x_label="spent on",
        y_label="energy [µJ]",
        log_y=all(models[name][part] > 0 for name in models for part in parts),
        series=[Series(name, names, [models[name][part] for part in parts]) for name in models],
    )
    sizes = result.formation.grouping.size
    if len(sizes):
        present = np.arange(int(sizes.min()), int(sizes.max()) + 1)
        yield Plot(
            kind="bar",
            title="Cluster sizes",
            x_label="members",
            y_label="clusters",
            series=[
                Series("clusters", [str(m) for m in present], [(sizes == m).sum() for m in present])
            ],
        )


def _network(result: Result) -> Plot:
    """Draw places, clusters, and the part of the tree that reports go over."""
    formation = result.formation
    places = formation.network.positions
    clusters: Clusters = formation.clusters
    group, station = formation.grouping, formation.network.base_station
    inside = np.zeros(len(places), np.bool_)
    inside[group.node] = True
    leads = np.zeros(len(places), np.bool_)
    leads[group.leader] = True
    segments = []
    if result.params.protocol.clustered:
        members = np.flatnonzero(inside & ~leads)
        segments.append(_lines("cluster", places, members, clusters.leader[members]))
        used = _used(formation.uplink.parent, group.leader, station)
    else:
        inside = formation.clusters.flood.reached.copy()
        used = np.flatnonzero(inside & (formation.uplink.parent >= 0))
        segments.append(_lines("cluster", places, used[:0], used[:0]))
    segments.append(_lines("tree", places, used, formation.uplink.parent[used]))
    outside = ~inside
    outside[station] = False
    groups = [
        ("member", np.flatnonzero(inside & ~leads & (np.arange(len(places)) != station))),
        ("leader", np.flatnonzero(leads)),
        ("outside", np.flatnonzero(outside)),
        ("base station", np.array([station])),
    ]
    return Plot(
        kind="map",
        title=f"{result.deployment.nodes} nodes, {result.clusters} clusters",
        x_label="x [m]",
        y_label="y [m]",
        series=[
            Series(name, places[who, 0].tolist(), places[who, 1].tolist())
            for name, who in groups
            if len(who)
        ],
        segments=[one for one in segments if one.x],
    )


def _lines(
    name: str, places: NDArray[np.float64], a: NDArray[np.int64], b: NDArray[np.int64]
) -> Series:
    ends = np.stack([places[a], places[b]], axis=1).reshape(-1, 2)
    return Series(name, ends[:, 0].tolist(), ends[:, 1].tolist())


def _used(parent: NDArray[np.int64], leaders: NDArray[np.int64], station: int) -> NDArray[np.int64]:
    """Return the nodes on the way from a leader to the base station."""
    used: set[int] = set()
    for leader in leaders.tolist():
        node = leader
        while node >= 0 and node != station and node not in used and parent[node] >= 0:
            used.add(node)
            node = int(parent[node])
    return np.array(sorted(used), np.int64)
