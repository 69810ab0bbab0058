"""An epoch among real parties: every node does its own work, and both engines must agree.

Which frames arrive was drawn before; here each message is made by its sender, encoded, and decoded
by its receiver if it came. The clusters' sums, the total, the count and who answers are compared
with what the arrays say: a difference is a fault in this package, not a peer's. What is sent on is
played item by item; frames and bytes are counted by the arrays alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.entropy import Entropy
from privagg.errors import Abort, UsageError
from privagg.protocols.sensor.base_station import BaseStation
from privagg.protocols.sensor.channel import Keyring, PoolKeys, UniqueKeys
from privagg.protocols.sensor.formation import Formation
from privagg.protocols.sensor.keypool import Rings
from privagg.protocols.sensor.leader import Leader
from privagg.protocols.sensor.member import Member
from privagg.protocols.sensor.messages import (
    Answer,
    Echo,
    Hello,
    Join,
    Message,
    Received,
    Relay,
    Report,
    Roster,
    SenderSet,
    Shares,
)
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states import MemberState
from privagg.protocols.sensor.sums import Batch

__all__ = ["Cast", "Mismatch", "check"]

_M = TypeVar("_M", bound=Message)


class Mismatch(AssertionError):
    """Parties and arrays disagree: a fault in this package."""


def check(params: Params) -> None:
    """Require a protocol whose parties there are."""
    if params.protocol not in (Protocol.CPDA_FIELD, Protocol.MASK_CLUSTER):
        raise UsageError(
            "engine",
            "parties",
            f"'arrays' with {params.protocol}",
            "There are parties for cpda-field and mask-cluster.",
        )


class Cast:
    """All parties of a network, with their keys, over several epochs.

    Parameters
    ----------
    formation : Formation
        The network.
    params : Params
        Of the run.
    entropy : Entropy
        Of keys and coefficients.
    rings : Rings, optional
        Where link keys come from a pool.
    """

    def __init__(
        self, formation: Formation, params: Params, entropy: Entropy, rings: Rings | None = None
    ) -> None:
        self._formation, self._params = formation, params
        count = formation.network.nodes + 1
        private = [entropy.take(keys.KEY_BYTES) for _ in range(count)]
        directory = {node: keys.public_key(key) for node, key in enumerate(private)}
        group = formation.grouping
        leads = set(group.leader.tolist())
        self.rings: list[Keyring] = []
        self.nodes: list[Member] = []
        for node in range(count):
            unique = UniqueKeys(node, private[node], directory)
            station = formation.network.base_station
            ring: Keyring = unique
            if rings is not None and node != station:
                ring = _Mixed(PoolKeys(node, rings), unique)
            elif rings is not None:
                ring = unique
            self.rings.append(ring)
            kind = Leader if node in leads else Member
            self.nodes.append(kind(params, ring, entropy=entropy))
        self.station = BaseStation(params, self.rings[-1])

    def rosters(self, epoch: int) -> list[tuple[Roster, int]]:
        """Let members join and leaders send rosters, by cluster."""
        group, alive = self._formation.grouping, self._formation.alive
        made = []
        for cluster in range(group.count):
            members = group.node[group.start[cluster] : group.start[cluster + 1]].tolist()
            head = int(group.leader[cluster])
            leader = self.nodes[head]
            assert isinstance(leader, Leader)
            hello = _sent(leader.announce(epoch, 1), Hello, self._params, head)
            for node in members:
                if node != head:
                    joining = self.nodes[node].join(hello, head)
                    leader.admit(_sent(joining, Join, self._params, node), node)
            roster = leader.roster(epoch)
            if alive.at("roster")[head]:
                made.append((_sent(roster, Roster, self._params, head), head))
            else:
                made.append((roster, -1))
        return made

    def run(self, made: Batch, at: int, epoch: int, numbers: NDArray[np.int64]) -> None:
        """Play one epoch and compare it with what the arrays have made of it.

        Parameters
        ----------
        made : Batch
            What arrived, and the sums.
        at : int
            Which epoch of the batch.
        epoch : int
            Its number in messages; larger than any before.
        numbers : (nodes, width) int64 array
            What each node adds.

        Raises
        ------
        Mismatch
            If anything differs.
        """
        assert made.answers is not None
        assert made.cluster_sums is not None
        for node in self.nodes:
            node.begin_reports(epoch)
        self.station.query(epoch)
        for cluster, (roster, head) in enumerate(self.rosters(epoch)):
            found = None
            if head >= 0:
                found = _Cluster(self, made, at, cluster, roster, head).play(numbers)
            expected = None
            if made.answers.success[at, cluster]:
                expected = [int(v) for v in made.cluster_sums[at, cluster]]
            _same(f"sum of cluster {cluster}", found, expected)
        self._climb(made, at)

    def _climb(self, made: Batch, at: int) -> None:
        formation = self._formation
        uplink, climb = formation.uplink, made.climb
        for level in reversed(uplink.levels):
            for node in level[climb.sent[at, level]].tolist():
                parent = int(uplink.parent[node])
                report = _sent(self.nodes[node].report(parent), Report, self._params, node)
                if climb.arrived[at, node]:
                    root = parent == formation.network.base_station
                    (self.station if root else self.nodes[parent]).add(report, node)
        total, count = self.station.total()
        _same("total", total, [int(v) for v in made.totals[at]])
        _same("count", count, int(made.covered[at].sum()))


class _Mixed:
    """A key from the pool where rings share one, else a path key: here the unique one."""

    def __init__(self, pool: PoolKeys, unique: UniqueKeys) -> None:
        self.node = pool.node
        self._pool, self._unique = pool, unique

    def key(self, peer: int) -> bytes | None:
        return self._pool.key(peer) or self._unique.key(peer)


class _Cluster:
    """One cluster in one epoch."""

    def __init__(
        self, cast: Cast, made: Batch, at: int, cluster: int, roster: Roster, head: int
    ) -> None:
        formation = cast._formation
        group, pair = formation.grouping, formation.pair
        assert made.answers is not None
        self.params, self.answers, self.at = cast._params, made.answers, at
        self.roster, self.head = roster, head
        self.rows = np.arange(group.start[cluster], group.start[cluster + 1])
        self.names = group.node[self.rows].tolist()
        first, last = np.searchsorted(pair.origin, [self.rows[0], self.rows[-1] + 1])
        self.pairs = np.arange(first, last)
        self.pair = pair
        self.node = group.node
        self.member = {
            row: cast.nodes[name] for row, name in zip(self.rows, self.names, strict=True)
        }
        alive = formation.alive
        self.alive_shares = alive.at("shares")[group.node]
        self.alive_answers = alive.at("answers")[group.node]
        self.rostered = formation.rostered
        self.collector_row = int(formation.collector[cluster])
        self.cast = cast
        self.group = group

    def play(self, numbers: NDArray[np.int64]) -> list[int] | None:
        bundles: dict[int, Shares] = {}
        for row in self.rows[(self.alive_shares & self.rostered)[self.rows]]:
            values = [int(v) for v in numbers[self.node[row]]]
            made = self.member[row].share(self.roster, values, self.head)
            if made is not None:
                bundles[row] = _sent(made, Shares, self.params, int(self.node[row]), len(self.rows))
        if self.params.protocol is not Protocol.MASK_CLUSTER:
            leader = self.cast.nodes[self.head]
            assert isinstance(leader, Leader)
            self._deliver(bundles, self.answers.shares[self.at], leader)
        if not (self.alive_answers & self.rostered)[self.collector_row]:
            return None
        collector = self._collector()
        if self.params.drops:
            self._agree(collector)
        return self._answer(collector)

    def _collector(self) -> Leader:
        party = self.member[self.collector_row]
        if party.node != self.head:
            party = Leader.take_over(party)
            self.member[self.collector_row] = party
            self.cast.nodes[party.node] = party
        assert isinstance(party, Leader)
        return party

    def _deliver(
        self, bundles: Mapping[int, Shares | Echo], arrived: NDArray[np.bool_], leader: Leader
    ) -> None:
        for at in self.pairs[arrived[self.pairs]]:
            origin, target = int(self.pair.origin[at]), int(self.pair.target[at])
            bundle, name = bundles[origin], int(self.node[origin])
            party = self.member[target]
            if self.pair.direct[at]:
                if isinstance(bundle, Shares):
                    party.receive(bundle, name)
                elif party.state is not MemberState.SHARED:
                    party.hear_echo(bundle, name)
                continue
            relay = leader.relay(bundle, name, [int(self.node[target])])
            if isinstance(bundle, Shares):
                relay = _sent(relay, Relay, self.params, leader.node, len(self.rows))
                party.receive_relayed(relay, leader.node)
            elif party.state is not MemberState.SHARED:
                octets = relay.encode()
                back = Relay.decode_echoes(
                    octets, self.params, peer=leader.node, members=len(self.rows)
                )
                _same("relayed echo", back, relay)
                party.receive_relayed(back, leader.node)

    def _agree(self, collector: Leader) -> None:
        answers, at, m = self.answers, self.at, len(self.rows)
        name = collector.node
        for row in self.rows[answers.bitmaps[at, self.rows]]:
            if row == self.collector_row:
                continue
            said = self.member[row].received(name)
            said = _sent(said, Received, self.params, int(self.node[row]), m)
            collector.note_received(said, int(self.node[row]))
        try:
            chosen = _sent(collector.choose_senders(), SenderSet, self.params, name, m)
        except Abort:
            _same("senders", bool(answers.sets[at, self.rows].any()), False)
            return
        echoes: dict[int, Echo] = {}
        for row in self.rows[answers.sets[at, self.rows]]:
            try:
                echo = self.member[row].confirm(chosen, name)
            except Abort:
                continue
            echoes[row] = _sent(echo, Echo, self.params, int(self.node[row]), m)
        self._deliver(echoes, answers.echoes[at], collector)

    def _answer(self, collector: Leader) -> list[int] | None:
        answers, at = self.answers, self.at
        for row in self.rows:
            ready = bool(answers.holders[at, row])
            if row == self.collector_row:
                continue
            able, said = True, None
            try:
                gone = not (self.alive_answers & self.alive_shares & self.rostered)[row]
                if gone or int(self.node[row]) == self.head:
                    raise Abort("gone, without a roster, or a leader that died", 0, 1)
                said = self.member[row].answer(collector.node)
            except Abort:
                able = False
            except Exception:
                if self.params.drops and not ready:
                    able = False
                else:
                    raise
            _same(f"whether row {row} answers", able, ready)
            if said is not None and answers.answered[at, row]:
                name = int(self.node[row])
                said = _sent(said, Answer, self.params, name, len(self.rows))
                collector.collect(said, name)
        try:
            return collector.conclude()[0]
        except Abort:
            return None


def _sent(message: _M, kind: type[_M], params: Params, peer: int, members: int = 0) -> _M:
    """Return a message as its receiver decodes it."""
    return kind.decode(message.encode(), params, peer=peer, members=members)


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Mismatch(f"{what}: the parties have {found}, the arrays {expected}")
