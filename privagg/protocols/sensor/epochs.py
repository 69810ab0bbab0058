"""Epochs on a network that is ready: what each protocol sends, and what comes of it.

Everything here is independent of the readings but for one thing: ``cpda-sen-checked`` draws again
until its checks pass, so that the number of tries is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor.air import Air, Ledger
from privagg.protocols.sensor.exchange import Answers, Exchange, bitmap_bytes
from privagg.protocols.sensor.faithful import share_bytes
from privagg.protocols.sensor.formation import Formation, id_bytes
from privagg.protocols.sensor.grouping import Bundles, Grouping
from privagg.protocols.sensor.params import Arithmetic, Params, Protocol
from privagg.protocols.sensor.uplink import Climb

__all__ = [
    "COUNT_BYTES",
    "SEED_BYTES",
    "Sliced",
    "Tried",
    "cluster_epochs",
    "number_bytes",
    "report_bytes",
    "slice_epochs",
    "tree_epochs",
]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

COUNT_BYTES = 4
"""Bytes of the number of readings beside a sum."""

SEED_BYTES = 4
"""Bytes of a seed, where nodes choose their own."""


@dataclass(frozen=True, eq=False)
class Tried:
    """How often ``cpda-sen-checked`` drew before its checks passed.

    Attributes
    ----------
    seeds, shares : (epochs, clusters) int64 arrays
        Times that seeds and shares were sent.
    passed : (epochs, clusters) bool array
        Whether the checks passed in the end.
    """

    seeds: _Ints
    shares: _Ints
    passed: _Bools


def number_bytes(params: Params) -> int:
    """Return the bytes of a number of a report, in the field or as a faithful variant writes it."""
    if params.protocol is Protocol.CPDA and params.arithmetic is Arithmetic.REAL:
        return params.real_bytes
    return 4 if params.field.bits <= 32 else 8


def report_bytes(params: Params) -> int:
    """Return the bytes of a report up the tree: numbers, count and tag."""
    return number_bytes(params) * params.width + COUNT_BYTES + params.tag_bytes


def cluster_epochs(
    formation: Formation,
    params: Params,
    air: Air,
    ledger: Ledger,
    epochs: int,
    tried: Tried | None = None,
) -> tuple[Answers, Climb]:
    """Run epochs in clusters and up the tree.

    Returns
    -------
    answers : Answers
        What the collectors got.
    climb : Climb
        What the base station got.
    """
    group, pair, alive = formation.grouping, formation.pair, formation.alive
    exchange = Exchange(
        formation.network, group, pair, alive.at("shares"), alive.at("answers"), formation.collector
    )
    nodes, rows = formation.network.nodes + 1, len(group.node)
    everyone = np.repeat(formation.rostered[None], epochs, axis=0)
    there = alive.at("shares")[group.node] & alive.at("answers")[group.node]
    item, answer = share_bytes(params, group.size)
    shares = np.ones((epochs, len(pair.origin)), np.bool_)
    holders = everyone & there
    seeds = np.zeros((epochs, 0), np.bool_)
    if params.protocol.shares:
        able = everyone
        if params.protocol is not Protocol.CPDA_FIELD:
            times = None if tried is None else tried.seeds
            seeds = exchange.announce("seeds", SEED_BYTES, everyone, air, ledger, times)
            able = pair.all_into(seeds)
        bundles = Bundles.of(group, pair, item, air.radio.payload)
        times = None if tried is None else tried.shares
        listens = alive.at("shares")[group.node] & formation.rostered
        shares = exchange.bundle("shares", bundles, able, listens, air, ledger, times)
        if not params.drops:
            holders = pair.all_into(shares) & everyone & there
    if tried is not None:
        holders = holders & tried.passed[:, group.cluster]
    nothing = np.zeros((epochs, 0), np.bool_)
    bitmaps = sets = echoes = nothing
    senders = everyone
    if params.drops:
        bitmaps, sets, echoes, senders, holders = _agree(
            exchange, params, shares, air, ledger, everyone
        )
    chosen = senders
    # A leader that dies takes its own answer along: only threshold mode can do without.
    holders = holders & ~(group.is_leader & (formation.collector[group.cluster] != np.arange(rows)))
    again = _asked_again(formation)
    answered = exchange.collect("answer", answer, holders, air, ledger, again=again)
    if params.drops:
        count = np.add.reduceat(answered.astype(np.int64), group.start[:-1], axis=1)
        own = answered[:, formation.collector]
        success = (count >= group.size - params.drops) & own
        senders = senders & success[:, group.cluster]
    else:
        success = group.every(answered)
        senders = success[:, group.cluster]
    own_report = np.zeros((epochs, nodes), np.bool_)
    own_report[:, group.node[formation.collector]] = success
    climb = formation.uplink.climb(
        own_report, alive.at("report"), air, ledger, payload=report_bytes(params)
    )
    return (
        Answers(shares, bitmaps, sets, echoes, senders, holders, answered, success, chosen, seeds),
        climb,
    )


def _agree(
    exchange: Exchange, params: Params, shares: _Bools, air: Air, ledger: Ledger, everyone: _Bools
) -> tuple[_Bools, _Bools, _Bools, _Bools, _Bools]:
    """Threshold mode: lists of shares to the collector, its choice, echoes of it to one another.

    A member answers when it was told the senders, has the shares of all of them, and holds echoes
    of the same set from so many members that they are t with itself.
    """
    group, pair = exchange.grouping, exchange.pair
    size = bitmap_bytes(group.size) + params.tag_bytes
    bitmaps = exchange.collect("received", size, everyone, air, ledger)
    senders = exchange.choose(shares, bitmaps, params.drops)
    chosen = np.logical_or.reduceat(senders, group.start[:-1], axis=1)
    sets = exchange.tell("senders", bitmap_bytes(group.size), chosen, air, ledger)
    # A member whose list was lost may hold all that is needed, too.
    echoing = pair.all_into(shares | ~senders[:, pair.origin]) & sets & everyone
    tags = np.full(group.count, params.tag_bytes, np.int64)
    # Who collects also relays: after the leader's death its successor.
    led = replace(exchange, grouping=Grouping(group.node, group.start, exchange.collector))
    layout = Bundles.of(led.grouping, pair, tags, air.radio.payload)
    listens = exchange.alive_answers[group.node] & everyone[0]
    echoes = led.bundle("echo", layout, echoing, listens, air, ledger)
    quorum = pair.count_into(echoes) + 1 >= (group.size - params.drops)[group.cluster]
    return bitmaps, sets, echoes, senders, echoing & quorum


def _asked_again(formation: Formation) -> _Bools:
    """Say which rows answer twice: their leader had the answers and died before its report."""
    group, alive = formation.grouping, formation.alive
    lead = group.leader
    clusters = alive.at("answers")[lead] & ~alive.at("report")[lead]
    return np.asarray(clusters[group.cluster])


def tree_epochs(
    formation: Formation, params: Params, air: Air, ledger: Ledger, epochs: int
) -> Climb:
    """Let every node that heard the query report its own number up the tree."""
    network, alive = formation.network, formation.alive
    own = formation.clusters.flood.reached & alive.at("report")
    own[network.base_station] = False
    ids = id_bytes(network.nodes) if params.protocol is Protocol.CMT else 0
    return formation.uplink.climb(
        np.repeat(own[None], epochs, axis=0),
        alive.at("report"),
        air,
        ledger,
        payload=report_bytes(params),
        id_bytes=ids,
    )


@dataclass(frozen=True, eq=False)
class Sliced:
    """Slices of ``smart``: who cut what for whom, and what arrived.

    Attributes
    ----------
    origin, target : (slices,) int64 arrays
        Nodes.
    arrived : (epochs, slices) bool array
        Which came.
    takes_part : (nodes + 1,) bool array
        Who has a neighbour to give slices to.
    kept : bool
        Whether origins know what did not arrive, and keep it: plain slices with acknowledgements.
    """

    origin: _Ints
    target: _Ints
    arrived: _Bools
    takes_part: _Bools
    kept: bool

    def whole(self, reached: _Bools) -> _Bools:
        """Say of each epoch whether every slice is in the sum twice or not at all, (epochs,).

        Parameters
        ----------
        reached : (epochs, nodes + 1) bool array
            Whose reports came to the base station.
        """
        cut = self.arrived | ~np.bool_(self.kept)
        taken = cut & reached[:, self.origin]
        added = self.arrived & reached[:, self.target]
        return np.asarray((taken == added).all(axis=1))


def slice_epochs(
    formation: Formation, params: Params, air: Air, ledger: Ledger, epochs: int
) -> Sliced:
    """Let every node send ``J - 1`` slices to as many different neighbours, at random.

    The neighbours are drawn once for all epochs of a formation; a node's parent is none of them. A
    node with fewer neighbours cuts fewer slices; one without any stays outside, and is given none:
    what it reports would be the slices that it holds, and nothing else.
    """
    network = formation.network
    there = formation.clusters.flood.reached & formation.alive.at("shares")
    there[network.base_station] = False
    senders, receivers = network.around(np.flatnonzero(there))
    # A parent reads the report that the slice was taken from: with both it has too much.
    keep = there[receivers] & (receivers != formation.uplink.parent[senders])
    senders, receivers = senders[keep], receivers[keep]
    while not (takes := np.isin(receivers, senders)).all():
        senders, receivers = senders[takes], receivers[takes]
    order = np.lexsort((air.random.random(len(senders)), senders))
    senders, receivers = senders[order], receivers[order]
    begins = np.flatnonzero(np.diff(senders, prepend=-1))
    lengths = np.diff(np.append(begins, len(senders)))
    rank = np.arange(len(senders)) - np.repeat(begins, lengths)
    chosen = rank < params.slices - 1
    origin, target = senders[chosen], receivers[chosen]
    takes_part = np.zeros(network.nodes + 1, np.bool_)
    takes_part[origin] = True
    tries = air.tries((epochs, len(origin)))
    octets = number_bytes(params) * params.width + params.tag_bytes
    ledger.unicast(
        "slice",
        origin,
        target,
        octets,
        air.sent(tries).sum(axis=0, dtype=np.int64),
        acknowledged=bool(air.radio.retries),
    )
    kept = params.plain_slices and air.radio.retries > 0
    return Sliced(origin, target, air.arrived(tries), takes_part, kept)
