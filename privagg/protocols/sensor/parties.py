"""An epoch among real parties: every node does its own work, and both engines must agree.

Which frames arrive was drawn before; here each message is made by its sender, encoded, and decoded
by its receiver if it came. The clusters' sums, the total, the count and who answers are compared
with what the arrays say: a difference is a fault in this package, not a peer's. What is sent on is
played item by item; frames and bytes are counted by the arrays alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.entropy import Entropy
from privagg.errors import Abort
from privagg.protocols.sensor.base_station import BaseStation
from privagg.protocols.sensor.channel import Keyring, PoolKeys, UniqueKeys
from privagg.protocols.sensor.cluster_node import ClusterNode
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
    SenderSet,
    Shares,
)
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states import MemberState
from privagg.protocols.sensor.sums import Batch

__all__ = ["Cast", "Cluster", "Mismatch", "Stage", "make_keyrings", "same"]

_M = TypeVar("_M", bound=Message)


class Mismatch(AssertionError):
    """Parties and arrays disagree: a fault in this package."""


def make_keyrings(
    formation: Formation, entropy: Entropy, rings: Rings | None = None
) -> list[Keyring]:
    """Draw the keys of all nodes and the base station, which is the last."""
    count = formation.network.nodes + 1
    private = [entropy.take(keys.KEY_BYTES) for _ in range(count)]
    directory = {node: keys.public_key(key) for node, key in enumerate(private)}
    made: list[Keyring] = []
    for node in range(count):
        unique = UniqueKeys(node, private[node], directory)
        if rings is not None and node != formation.network.base_station:
            made.append(_Mixed(PoolKeys(node, rings), unique))
        else:
            made.append(unique)
    return made


class Stage:
    """What every cast has: parties, a base station, messages that are encoded and decoded.

    Attributes
    ----------
    sizes : Counter
        Bytes of this epoch's messages by kind and sender, as they were encoded.
    """

    def __init__(self, formation: Formation, params: Params) -> None:
        self.formation, self.params = formation, params
        self.sizes: Counter[tuple[str, int]] = Counter()

    def sent(self, message: _M, kind: type[_M], peer: int, members: int = 0) -> _M:
        """Return a message as its receiver decodes it."""
        octets = message.encode()
        self.sizes[kind.__name__, peer] += len(octets)
        return kind.decode(octets, self.params, peer=peer, members=members)


class Cast(Stage):
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
        super().__init__(formation, params)
        self.rings = make_keyrings(formation, entropy, rings)
        leads = set(formation.grouping.leader.tolist())
        self.nodes: list[Any] = [
            self.make(ring, ring.node in leads, entropy) for ring in self.rings
        ]
        self.station = BaseStation(params, self.rings[-1])

    def make(self, ring: Keyring, leads: bool, entropy: Entropy) -> ClusterNode:
        """Return a node's party."""
        return (Leader if leads else Member)(self.params, ring, entropy=entropy)

    def roster_of(self, leader: Any, epoch: int) -> Message:
        """Let a leader make its roster."""
        made: Message = leader.roster(epoch)
        return made

    def rosters(self, epoch: int) -> list[tuple[Any, int]]:
        """Let members join and leaders send rosters, by cluster."""
        group, alive = self.formation.grouping, self.formation.alive
        made = []
        for cluster in range(group.count):
            members = group.node[group.start[cluster] : group.start[cluster + 1]].tolist()
            head = int(group.leader[cluster])
            leader = self.nodes[head]
            hello = self.sent(leader.announce(epoch, 1), Hello, head)
            for node in members:
                if node != head:
                    joining = self.nodes[node].join(hello, head)
                    leader.admit(self.sent(joining, Join, node), node)
            roster = self.roster_of(leader, epoch)
            if alive.at("roster")[head]:
                made.append((self.sent(roster, type(roster), head), head))
            else:
                made.append((roster, -1))
        return made

    def play(self, cluster: Cluster, numbers: NDArray[Any]) -> list[Any] | None:
        """Play one cluster; return its sums, or None if it has none."""
        return cluster.play(numbers)

    def run(self, made: Batch, at: int, epoch: int, numbers: NDArray[Any]) -> None:
        """Play one epoch and compare it with what the arrays have made of it.

        Parameters
        ----------
        made : Batch
            What arrived, and the sums.
        at : int
            Which epoch of the batch.
        epoch : int
            Its number in messages; larger than any before.
        numbers : (nodes, width) array
            What each node adds.

        Raises
        ------
        Mismatch
            If anything differs.
        """
        assert made.answers is not None
        assert made.cluster_sums is not None
        self.sizes.clear()
        for node in self.nodes:
            node.begin_reports(epoch)
        self.station.query(epoch)
        for cluster, (roster, head) in enumerate(self.rosters(epoch)):
            found = None
            if head >= 0:
                found = self.play(Cluster(self, made, at, cluster, roster, head), numbers)
            expected = None
            if made.answers.success[at, cluster]:
                expected = [self.number(v) for v in made.cluster_sums[at, cluster]]
            self.compare(f"sum of cluster {cluster}", found, expected)
        self._climb(made, at)

    def _climb(self, made: Batch, at: int) -> None:
        formation = self.formation
        uplink, climb = formation.uplink, made.climb
        for level in reversed(uplink.levels):
            for node in level[climb.sent[at, level]].tolist():
                parent = int(uplink.parent[node])
                report = self.sent(self.nodes[node].report(parent), Report, node)
                if climb.arrived[at, node]:
                    root = parent == formation.network.base_station
                    (self.station if root else self.nodes[parent]).add(report, node)
        total, count = self.station.total()
        if made.totals[at, 0] is not None:
            self.compare("total", total, [self.number(v) for v in made.totals[at]])
            same("count", count, int(made.covered[at].sum()))

    def number(self, value: Any) -> Any:
        """Return a number of the arrays as the parties have it."""
        return int(value)

    def compare(self, what: str, found: Any, expected: Any) -> None:
        """Compare sums."""
        same(what, found, expected)


class _Mixed:
    """A key from the pool where rings share one, else a path key: here the unique one."""

    def __init__(self, pool: PoolKeys, unique: UniqueKeys) -> None:
        self.node = pool.node
        self._pool, self._unique = pool, unique

    def key(self, peer: int) -> bytes | None:
        return self._pool.key(peer) or self._unique.key(peer)


class Cluster:
    """One cluster in one epoch."""

    def __init__(
        self, cast: Cast, made: Batch, at: int, cluster: int, roster: Any, head: int
    ) -> None:
        formation = cast.formation
        self.made, self.index = made, cluster
        group, pair = formation.grouping, formation.pair
        assert made.answers is not None
        self.params, self.answers, self.at = cast.params, made.answers, at
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
        """Play the cluster; return its sums, or None if it has none."""
        bundles: dict[int, Shares] = {}
        for row in self.rows[(self.alive_shares & self.rostered)[self.rows]]:
            values = [int(v) for v in numbers[self.node[row]]]
            made = self.member[row].share(self.roster, values, self.head)
            if made is not None:
                bundles[row] = self.cast.sent(made, Shares, int(self.node[row]), len(self.rows))
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
                relay = self.cast.sent(relay, Relay, leader.node, len(self.rows))
                party.receive_relayed(relay, leader.node)
            elif party.state is not MemberState.SHARED:
                octets = relay.encode()
                back = Relay.decode_echoes(
                    octets, self.params, peer=leader.node, members=len(self.rows)
                )
                same("relayed echo", back, relay)
                party.receive_relayed(back, leader.node)

    def _agree(self, collector: Leader) -> None:
        answers, at, m = self.answers, self.at, len(self.rows)
        name = collector.node
        for row in self.rows[answers.bitmaps[at, self.rows]]:
            if row == self.collector_row:
                continue
            said = self.member[row].received(name)
            said = self.cast.sent(said, Received, int(self.node[row]), m)
            collector.note_received(said, int(self.node[row]))
        try:
            chosen = self.cast.sent(collector.choose_senders(), SenderSet, name, m)
        except Abort:
            same("senders", bool(answers.sets[at, self.rows].any()), False)
            return
        echoes: dict[int, Echo] = {}
        for row in self.rows[answers.sets[at, self.rows]]:
            try:
                echo = self.member[row].confirm(chosen, name)
            except Abort:
                continue
            echoes[row] = self.cast.sent(echo, Echo, int(self.node[row]), m)
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
            same(f"whether row {row} answers", able, ready)
            if said is not None and answers.answered[at, row]:
                name = int(self.node[row])
                said = self.cast.sent(said, Answer, name, len(self.rows))
                collector.collect(said, name)
        try:
            return collector.conclude()[0]
        except Abort:
            return None


def same(what: str, found: object, expected: object) -> None:
    """Require that parties and arrays agree."""
    if found != expected:
        raise Mismatch(f"{what}: the parties have {found}, the arrays {expected}")
