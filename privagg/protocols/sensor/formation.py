"""From the query's flood to rosters: a network that is ready to run epochs, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor import clusters as forming
from privagg.protocols.sensor import flood
from privagg.protocols.sensor.air import Air, Ledger, fragments
from privagg.protocols.sensor.grouping import Grouping, Pairs, group, pairs
from privagg.protocols.sensor.network import Network
from privagg.protocols.sensor.params import Deployment, Params, Protocol
from privagg.protocols.sensor.uplink import Uplink

__all__ = [
    "HELLO_BYTES",
    "JOIN_HEAD",
    "ROSTER_HEAD",
    "STEPS",
    "Alive",
    "Formation",
    "form",
    "id_bytes",
]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

STEPS = ("hello", "join", "roster", "shares", "answers", "report")
"""The steps of a round, in order; a node can die before each of them."""

HELLO_BYTES = 8
"""Epoch, hops and flags."""

JOIN_HEAD = 4
"""The epoch; a tag follows. Who joins whom stands in the frame's header."""

ROSTER_HEAD = 4
"""The epoch; ids follow."""


def id_bytes(nodes: int) -> int:
    """Return the bytes of a node's id: 2 as motes have them, 4 where those are too few."""
    return 2 if nodes < 2**16 - 1 else 4


@dataclass(frozen=True, eq=False)
class Alive:
    """Who is there at each step of a round.

    Parameters
    ----------
    last : (nodes + 1,) int64 array
        The step before which each node dies; ``len(STEPS)`` for those that live on.
    """

    last: _Ints

    def at(self, step: str) -> _Bools:
        """Return who takes part in `step`, (nodes + 1,)."""
        result: _Bools = self.last > STEPS.index(step)
        return result

    @classmethod
    def of(cls, present: _Bools, deaths: Mapping[int, str]) -> Alive:
        """Return it for those `present` at first, of whom some die before a step."""
        last = np.where(present, len(STEPS), 0)
        for node, step in deaths.items():
            last[node] = min(last[node], STEPS.index(step))
        return cls(last)


@dataclass(frozen=True, eq=False)
class Formation:
    """A network with clusters and a tree.

    Attributes
    ----------
    network : Network
        Who hears whom.
    alive : Alive
        Who is there at which step.
    clusters : Clusters
        Who joined whom, before and after merging; without leaders for protocols on the tree alone.
    grouping, pair : Grouping, Pairs
        The clusters as arrays.
    collector : (clusters,) int64 array
        The row that collects the answers and reports: the leader, or the first member left if it
        dies on the way.
    rostered : (rows,) bool array
        Who got the roster.
    uplink : Uplink
        The tree.
    """

    network: Network
    alive: Alive
    clusters: forming.Clusters
    grouping: Grouping
    pair: Pairs
    collector: _Ints
    rostered: _Bools
    uplink: Uplink


def form(
    network: Network,
    deployment: Deployment,
    params: Params,
    alive: Alive,
    air: Air,
    ledger: Ledger,
) -> Formation:
    """Flood, elect, join, merge, send rosters, and grow the tree; count what it takes.

    Parameters
    ----------
    network : Network
        Who hears whom.
    deployment, params : Deployment, Params
        Flood policy and leader probability; smallest cluster.
    alive : Alive
        Who is there at which step.
    air, ledger : Air, Ledger
        Losses are drawn from the one and frames counted in the other.
    """
    lost = air.survives_formation()
    made = forming.form(
        network,
        probability=deployment.leader_probability,
        flood=deployment.flood,
        minimum=params.min_cluster,
        alive=alive.at("hello"),
        listens=alive.at("join"),
        loss=air.radio.loss,
        joins=lost,
        random=air.random,
    )
    clustered = params.protocol.clustered
    leader = made.leader if clustered else np.full(network.nodes + 1, -1, np.int64)
    grouping = group(leader)
    pair = pairs(grouping, network)
    _count(network, params, made, grouping, alive, air, ledger)
    reached = made.flood.reached
    if clustered:
        wanted = np.zeros(network.nodes + 1, np.bool_)
        wanted[grouping.leader] = True
        there = alive.at("roster")
        grown = flood.tree(network, wanted, there, reached)
        collector = _collectors(grouping, alive)
        moved = np.zeros_like(wanted)
        moved[grouping.node[collector]] = True
        if (moved & (grown.depth < 0)).any():
            # Successors find their own way up to a tree that stands.
            grown = flood.spread(network, there & reached, there & reached, begin=grown)
        # A relay that nobody needs sends nothing, so the tree may hold everyone.
        uplink = Uplink(grown)
    else:
        collector = grouping.leader_row
        uplink = Uplink(made.flood)
    sent = alive.at("roster")[grouping.leader][grouping.cluster]
    rostered = sent & alive.at("roster")[grouping.node]
    if lost:
        rostered &= grouping.is_leader | (air.random.random(len(rostered)) >= lost)
    return Formation(network, alive, made, grouping, pair, collector, rostered, uplink)


def _collectors(grouping: Grouping, alive: Alive) -> _Ints:
    """Return each cluster's leader row, or its first row that lives until the report."""
    there = alive.at("report")[grouping.node]
    result = grouping.leader_row.copy()
    for cluster in np.flatnonzero(~there[grouping.leader_row]):
        rows = np.arange(grouping.start[cluster], grouping.start[cluster + 1])
        left = rows[there[rows]]
        if len(left):
            result[cluster] = left[0]
    return result


def _count(
    network: Network,
    params: Params,
    made: forming.Clusters,
    grouping: Grouping,
    alive: Alive,
    air: Air,
    ledger: Ledger,
) -> None:
    """Count HELLO, JOIN and ROSTER, and apart from them what only the merging of clusters took."""
    air_hello = HELLO_BYTES + air.radio.overhead
    dissolved = np.zeros(network.nodes + 1, np.bool_)
    if params.protocol.clustered:
        dissolved = made.elected & (made.leader != np.arange(network.nodes + 1))
    everyone = made.sent_hello.sum() > made.elected.sum() + 1
    extra = dissolved if not everyone else np.zeros_like(dissolved)
    for kind, who in (("hello", made.sent_hello & ~extra), ("merge", made.sent_hello & extra)):
        nodes = np.flatnonzero(who)
        ledger.send(kind, nodes, np.ones(len(nodes)), np.full(len(nodes), air_hello), 1.0)
        _, receivers = network.around(nodes)
        ledger.receive(kind, receivers, np.full(len(receivers), air_hello))
    if not params.protocol.clustered:
        return
    acknowledged = air.radio.loss > 0
    join = JOIN_HEAD + params.tag_bytes
    joins = np.flatnonzero((made.leader >= 0) & (made.leader != np.arange(network.nodes + 1)))
    ledger.unicast(
        "join",
        joins,
        made.leader[joins],
        join,
        air.formation_sends((len(joins),)),
        acknowledged=acknowledged,
    )
    # Members of what was dissolved had joined it; its leader tells them, and joins elsewhere.
    first = np.flatnonzero((made.joined >= 0) & (made.joined != made.leader) & ~made.elected)
    ledger.unicast("merge", first, made.joined[first], join, acknowledged=acknowledged)
    told = np.unique(made.joined[first])
    ledger.send(
        "merge", told, np.ones(len(told)), np.full(len(told), join + air.radio.overhead), 1.0
    )
    ledger.receive("merge", first, np.full(len(first), join + air.radio.overhead))
    size = ROSTER_HEAD + id_bytes(network.nodes) * grouping.size
    if params.protocol is Protocol.CPDA_SEN_EFFICIENT:
        size = size + 4  # the leader's seed
    pieces = fragments(size, air.radio.payload)
    octets = size + pieces * air.radio.overhead
    sends = air.formation_sends((len(grouping.node),))
    most = np.maximum.reduceat(sends, grouping.start[:-1]) if grouping.count else sends
    most = most * alive.at("roster")[grouping.leader]
    ledger.send("roster", grouping.leader, pieces * most, octets * most, most > 0)
    members = np.flatnonzero(~grouping.is_leader)
    ledger.receive("roster", grouping.node[members], (octets * most)[grouping.cluster[members]])
