"""What goes on inside clusters in an epoch: which messages are sent, and which arrive.

All of it is decided here, for many clusters and epochs at once, and nothing depends on a reading.
The arithmetic then uses what arrived; so do the parties, message by message, when they are run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor import senders as choice_of_senders
from privagg.protocols.sensor.air import Air, Ledger, fragments
from privagg.protocols.sensor.grouping import RELAY_HEAD, Bundles, Grouping, Pairs
from privagg.protocols.sensor.network import Network

__all__ = ["Answers", "Exchange", "bitmap_bytes"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def bitmap_bytes(size: _Ints | int) -> _Ints:
    """Return the bytes of a bit for each of `size` members."""
    return np.asarray((np.asarray(size) + 7) // 8, np.int64)


@dataclass(frozen=True, eq=False)
class Answers:
    """What the clusters' collectors got.

    Attributes
    ----------
    shares : (epochs, pairs) bool array
        Which shares arrived.
    bitmaps, sets : (epochs, rows) bool arrays
        Threshold mode: whose list of shares came to the collector; who was told the senders.
    echoes : (epochs, pairs) bool array
        Threshold mode: which echoes arrived.
    senders, holders : (epochs, rows) bool arrays
        Whose readings are in the sum; who has all that is needed to answer.
    answered : (epochs, rows) bool array
        Whose answer came to the collector.
    success : (epochs, clusters) bool array
        Whether the cluster has a sum.
    chosen : (epochs, rows) bool array
        Threshold mode: whose readings the collector chose, whether or not there is a sum.
    seeds : (epochs, pairs) bool array
        Which seeds arrived, where members announce their own; else none.
    """

    shares: _Bools
    bitmaps: _Bools
    sets: _Bools
    echoes: _Bools
    senders: _Bools
    holders: _Bools
    answered: _Bools
    success: _Bools
    chosen: _Bools
    seeds: _Bools


@dataclass(frozen=True, eq=False)
class Exchange:
    """The clusters of a formation, ready to run epochs.

    Parameters
    ----------
    network : Network
        Who hears whom.
    grouping, pair : Grouping, Pairs
        The clusters.
    alive_shares, alive_answers : (nodes + 1,) bool arrays
        Who is there when shares are sent, and when answers are.
    collector : (clusters,) int64 array
        The row that collects: the leader, or its successor.
    """

    network: Network
    grouping: Grouping
    pair: Pairs
    alive_shares: _Bools
    alive_answers: _Bools
    collector: _Ints

    def bundle(
        self,
        kind: str,
        bundles: Bundles,
        sends: _Bools,
        there: _Bools,
        air: Air,
        ledger: Ledger,
        repeats: _Ints | None = None,
    ) -> _Bools:
        """Let rows broadcast their bundles; return which items arrived, (epochs, pairs).

        Parameters
        ----------
        kind : str
            What it is, for the ledger; relays are counted as ``relay``.
        bundles : Bundles
            The layout.
        sends : (epochs, rows) bool array
            Who sends.
        there : (rows,) bool array
            Who is there and has the roster.
        air, ledger : Air, Ledger
            Losses and counts.
        repeats : (epochs, clusters) int64 array, optional
            How often the whole exchange takes place; once if not given.
        """
        group, pair = self.grouping, self.pair
        epochs = len(sends)
        if not len(pair.origin):
            return np.zeros((epochs, 0), np.bool_)
        parts = int(bundles.parts.max(initial=1))
        tries = air.tries((epochs, len(bundles.link_frame)), parts)
        counts = np.where(there[bundles.link_row], air.sent(tries), air.most)
        frame_sent = np.maximum.reduceat(counts, bundles.frame_first, axis=1)
        frame_sent = frame_sent * (sends & there)[:, bundles.frame_origin]
        link_ok = air.arrived(tries) & there[bundles.link_row]
        left = link_ok[:, bundles.hop] & (sends & there)[:, pair.origin]
        self._count_bundles(kind, bundles, frame_sent, there, air, ledger, repeats)
        if not len(bundles.relayed):
            return left
        relayed = bundles.relayed
        relay = group.leader[group.cluster[pair.origin[relayed]]]
        # All hear their leader; a successor may be out of range, and then cannot relay.
        near = self.network.hears(group.node[pair.origin[relayed]], relay)
        near &= self.network.hears(group.node[pair.target[relayed]], relay)
        held = left[:, relayed] & near
        tries = air.tries((epochs, len(relayed)), parts)
        target_there = there[pair.target[relayed]]
        comes = held & air.arrived(tries) & target_there
        counts = np.where(target_there, air.sent(tries), air.most) * held
        self._count_relays(bundles, counts, held, air, ledger, repeats)
        left[:, relayed] = comes
        return left

    def _times(self, values: NDArray[np.int64], cluster: _Ints, repeats: _Ints | None) -> _Ints:
        if repeats is None:
            return np.asarray(values.sum(axis=0), np.int64)
        return np.asarray((values * repeats[:, cluster]).sum(axis=0), np.int64)

    def _count_bundles(
        self,
        kind: str,
        bundles: Bundles,
        frame_sent: NDArray[np.int64],
        there: _Bools,
        air: Air,
        ledger: Ledger,
        repeats: _Ints | None,
    ) -> None:
        group, pair = self.grouping, self.pair
        cluster = group.cluster[bundles.frame_origin]
        sent = self._times(frame_sent, cluster, repeats)
        parts = bundles.parts[cluster]
        payload = bundles.item[cluster] * bundles.frame_items
        octets = sent * (payload + parts * air.radio.overhead)
        rows = len(group.node)
        first = np.diff(bundles.frame_origin, prepend=-1) != 0
        said = self._times((frame_sent > 0).astype(np.int64), cluster, repeats) * first
        ledger.send(kind, group.node[bundles.frame_origin], sent * parts, octets, said)
        # Every member in range listens to the whole bundle: nothing in it names its receivers.
        total = np.bincount(bundles.frame_origin, weights=octets, minlength=rows)
        hears = pair.direct & there[pair.target]
        ledger.receive(kind, group.node[pair.target[hears]], total[pair.origin[hears]])
        if air.radio.retries:
            once = self._times((frame_sent > 0).astype(np.int64), cluster, repeats) * parts
            row = bundles.link_row
            listens = there[row]
            ledger.acknowledge(
                group.node[row[listens]],
                group.node[bundles.frame_origin[bundles.link_frame[listens]]],
                once[bundles.link_frame[listens]],
            )

    def _count_relays(
        self,
        bundles: Bundles,
        counts: NDArray[np.int64],
        held: _Bools,
        air: Air,
        ledger: Ledger,
        repeats: _Ints | None,
    ) -> None:
        group, pair = self.grouping, self.pair
        cluster = bundles.relay_cluster
        frame_sent = np.maximum.reduceat(counts, bundles.relay_first, axis=1)
        items = np.add.reduceat(held.astype(np.int64), bundles.relay_first, axis=1)
        parts, item = bundles.parts[cluster], bundles.item[cluster]
        octets = frame_sent * (items * item + RELAY_HEAD + parts * air.radio.overhead)
        total = self._times(octets, cluster, repeats)
        leader = group.leader[cluster]
        frames = self._times(frame_sent * parts, cluster, repeats)
        said = self._times((frame_sent > 0).astype(np.int64), cluster, repeats)
        ledger.send("relay", leader, frames, total, said)
        target = group.node[pair.target[bundles.relayed]]
        ledger.receive("relay", target, total[bundles.relay_frame])
        if air.radio.retries:
            once = self._times(held.astype(np.int64), cluster[bundles.relay_frame], repeats)
            ledger.acknowledge(target, leader[bundles.relay_frame], once)

    def announce(
        self,
        kind: str,
        octets: _Ints | int,
        sends: _Bools,
        air: Air,
        ledger: Ledger,
        repeats: _Ints | None = None,
    ) -> _Bools:
        """Let rows broadcast `octets` bytes to their cluster; return what came, (epochs, pairs).

        The leader sends on what members out of range need, in one message. Used for seeds.
        """
        group, pair = self.grouping, self.pair
        there = self.alive_shares[group.node]
        sends = sends & there
        tries = air.tries((len(sends), len(pair.origin)))
        hears = pair.direct & there[pair.target]
        counts = np.where(there[pair.target], air.sent(tries), air.most) * pair.direct
        got = air.arrived(tries) & hears & sends[:, pair.origin]
        begins = np.flatnonzero(np.diff(pair.origin, prepend=-1))
        often = np.maximum.reduceat(counts, begins, axis=1) * sends[:, pair.origin[begins]]
        rows = pair.origin[begins]
        sent = self._times(often.astype(np.int64), group.cluster[rows], repeats)
        air_bytes = np.asarray(octets) + air.radio.overhead
        ledger.send(kind, group.node[rows], sent, sent * air_bytes, sent > 0)
        per_row = np.bincount(rows, weights=sent * air_bytes, minlength=len(group.node))
        ledger.receive(kind, group.node[pair.target[hears]], per_row[pair.origin[hears]])
        # What the leader has heard itself it sends on; one message holds all that is needed.
        far = np.zeros(len(group.node), np.bool_)
        far[pair.origin[~pair.direct]] = True
        number = np.bincount(group.cluster[far], minlength=group.count)
        to_leader = np.ones((len(sends), len(group.node)), np.bool_)
        up = group.is_leader[pair.target]
        to_leader[:, pair.origin[up]] = got[:, up]
        relay = np.flatnonzero(number)
        pieces = fragments(number[relay] * octets, air.radio.payload)
        second = air.tries((len(sends), len(group.node)))
        back = air.arrived(second) & there
        needs = ~pair.direct
        got[:, needs] = to_leader[:, pair.origin[needs]] & back[:, pair.target[needs]]
        got[:, needs] &= there[group.leader_row[group.cluster[pair.origin[needs]]]]
        waiting = np.zeros(len(group.node), np.bool_)
        waiting[pair.target[needs]] = True
        if len(relay):
            count = np.where(waiting, air.sent(second), 1)
            most = np.maximum.reduceat(count, group.start[:-1], axis=1)[:, relay]
            most = most * there[group.leader_row[relay]]
            frames = self._times(most.astype(np.int64), relay, repeats) * pieces
            payload = number[relay] * octets + pieces * air.radio.overhead
            total = self._times(most.astype(np.int64), relay, repeats) * payload
            ledger.send(f"{kind}-relay", group.leader[relay], frames, total, frames > 0)
            each = np.zeros(group.count)
            each[relay] = total
            ledger.receive(f"{kind}-relay", group.node[waiting], each[group.cluster[waiting]])
        return got

    def collect(
        self,
        kind: str,
        octets: _Ints,
        sends: _Bools,
        air: Air,
        ledger: Ledger,
        *,
        again: _Bools | None = None,
    ) -> _Bools:
        """Let rows send `octets` bytes (by cluster) to their collector; say whose came.

        The collector's own counts as come. A successor out of range is reached over the members
        that both hear: such a message takes two hops. Rows in `again` send a second time, to the
        successor of a leader that died with the answers.
        """
        group = self.grouping
        there = self.alive_answers[group.node]
        collector = self.collector[group.cluster]
        own = np.arange(len(group.node)) == collector
        hops = self._hops()
        reach = (hops > 0) & there & there[collector]
        first = air.tries(sends.shape)
        tries = np.maximum(first, air.tries(sends.shape)) if (hops > 1).any() else first
        comes = sends & there & ((air.arrived(tries) & reach) | own)
        times = np.where(there[collector], air.sent(tries), air.most) * (sends & there & ~own)
        times = times.sum(axis=0) * np.maximum(hops, 1)
        if again is not None:
            times = times + (sends & there).sum(axis=0) * again
        live = np.flatnonzero(times)
        ledger.unicast(
            kind,
            group.node[live],
            group.node[collector[live]],
            octets[group.cluster[live]],
            times[live],
            acknowledged=bool(air.radio.retries),
        )
        return np.asarray(comes)

    def _hops(self) -> _Ints:
        """Return each row's hops to its collector: 1, 2 over a member, or 0 for no way."""
        group = self.grouping
        collector = self.collector[group.cluster]
        near = self.network.hears(group.node, group.node[collector])
        hops = np.where(near, 1, 0)
        there = self.alive_answers[group.node]
        for row in np.flatnonzero(~near & there):
            cluster = group.cluster[row]
            others = np.arange(group.start[cluster], group.start[cluster + 1])
            others = others[there[others]]
            via = self.network.hears(group.node[others], group.node[row][None])
            via &= self.network.hears(group.node[others], group.node[collector[row]][None])
            if via.any():
                hops[row] = 2
        return hops

    def tell(self, kind: str, octets: _Ints, sends: _Bools, air: Air, ledger: Ledger) -> _Bools:
        """Let collectors broadcast `octets` bytes (by cluster) to their members; say who heard.

        Parameters
        ----------
        sends : (epochs, clusters) bool array
            Which collectors send.
        """
        group = self.grouping
        there = self.alive_answers[group.node]
        hops = self._hops()
        tries = air.tries((len(sends), len(group.node)))
        own = np.arange(len(group.node)) == self.collector[group.cluster]
        heard = sends[:, group.cluster] & there & ((air.arrived(tries) & (hops > 0)) | own)
        counts = np.where(there, air.sent(tries), 1)
        counts = np.where(own, 1, counts)
        most = np.maximum.reduceat(counts, group.start[:-1], axis=1) * sends
        total = most.sum(axis=0)
        pieces = fragments(octets, air.radio.payload)
        air_bytes = octets + pieces * air.radio.overhead
        ledger.send(kind, group.node[self.collector], total * pieces, total * air_bytes, total > 0)
        listens = there & ~own
        ledger.receive(kind, group.node[listens], (total * air_bytes)[group.cluster[listens]])
        return np.asarray(heard)

    def choose(self, shares: _Bools, bitmaps: _Bools, drops: int) -> _Bools:
        """Return the senders, (epochs, rows), from what came where."""
        group, pair = self.grouping, self.pair
        epochs, rows = bitmaps.shape
        senders = np.zeros((epochs, rows), np.bool_)
        first_pair = np.searchsorted(pair.origin, group.start[:-1])
        for m, clusters in group.by_size():
            at = group.rows_of(clusters, m)
            received = np.ones((epochs, len(clusters), m, m), np.bool_)
            links = first_pair[clusters][:, None] + np.arange(m * (m - 1))
            origin, target = np.nonzero(~np.eye(m, dtype=np.bool_))
            received[:, :, target, origin] = shares[:, links]
            received &= bitmaps[:, at][..., None]  # the collector's own is among them
            chosen, _ = choice_of_senders.choose(received.reshape(-1, m, m), drops)
            senders[:, at] = chosen.reshape(epochs, len(clusters), m)
        return senders
