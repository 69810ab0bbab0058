"""Clusters as arrays: rows of members, pairs within a cluster, and what fits into which frame.

A *row* is one membership: members are ordered by cluster, and within it by id, so that a member's
position (1 to m) is its place in the sorted roster. A *pair* is an ordered pair of rows of one
cluster. No Python object exists for a member or a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor.network import Network

__all__ = ["RELAY_HEAD", "Bundles", "Grouping", "Pairs", "group", "pairs"]

RELAY_HEAD = 2
"""Bytes before relayed items: the origin's position in the roster."""

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Members by cluster.

    Attributes
    ----------
    node : (rows,) int64 array
        The node of each row.
    start : (clusters + 1,) int64 array
        The rows of cluster c are ``start[c]`` to ``start[c + 1] - 1``.
    leader_row : (clusters,) int64 array
        The row of each cluster's leader.
    """

    node: _Ints
    start: _Ints
    leader_row: _Ints

    @property
    def count(self) -> int:
        """Number of clusters."""
        return len(self.leader_row)

    @cached_property
    def size(self) -> _Ints:
        """Members of each cluster, its leader included."""
        return np.diff(self.start)

    @cached_property
    def cluster(self) -> _Ints:
        """The cluster of each row."""
        return np.repeat(np.arange(self.count), self.size)

    @cached_property
    def position(self) -> _Ints:
        """Each row's place in the sorted roster, from 0."""
        return np.arange(len(self.node)) - self.start[self.cluster]

    @property
    def leader(self) -> _Ints:
        """The leading node of each cluster."""
        return self.node[self.leader_row]

    @cached_property
    def is_leader(self) -> _Bools:
        """Which rows lead."""
        flags = np.zeros(len(self.node), np.bool_)
        flags[self.leader_row] = True
        return flags

    def by_size(self) -> list[tuple[int, _Ints]]:
        """Return, for each size m there is, the clusters of that size."""
        return [(int(m), np.flatnonzero(self.size == m)) for m in np.unique(self.size)]

    def rows_of(self, clusters: _Ints, size: int) -> _Ints:
        """Return the rows of clusters of one size, shape (clusters, size)."""
        return self.start[clusters][:, None] + np.arange(size)

    def every(self, flags: _Bools) -> _Bools:
        """Say of each cluster whether all its rows are set; rows are the last axis of `flags`."""
        if not self.count:
            return np.zeros((*flags.shape[:-1], 0), np.bool_)
        return np.asarray(np.logical_and.reduceat(flags, self.start[:-1], axis=-1))


def group(leader: _Ints) -> Grouping:
    """Order nodes by cluster.

    Parameters
    ----------
    leader : (count,) int64 array
        The leader of each node, its own index for leaders, -1 for who is in no cluster.
    """
    node = np.flatnonzero(leader >= 0)
    order = np.lexsort((node, leader[node]))
    node = node[order]
    heads, first = np.unique(leader[node], return_index=True)
    start = np.concatenate([first, [len(node)]]).astype(np.int64)
    leads = np.flatnonzero(leader[node] == node)
    assert len(leads) == len(heads)
    return Grouping(node, start, leads)


@dataclass(frozen=True, eq=False)
class Pairs:
    """All ordered pairs of different rows of one cluster, by origin, then by target.

    Attributes
    ----------
    origin, target : (pairs,) int64 arrays
        Rows.
    rank : (pairs,) int64 array
        Place of the target among the origin's targets, from 0. Every row is a target, as a cluster
        has two members at least.
    direct : (pairs,) bool array
        Whether they hear each other; else the leader relays, whom all members hear.
    """

    origin: _Ints
    target: _Ints
    rank: _Ints
    direct: _Bools

    @cached_property
    def _by_target(self) -> tuple[_Ints, _Ints]:
        order = np.argsort(self.target, kind="stable")
        return order, np.flatnonzero(np.diff(self.target[order], prepend=-1))

    def all_into(self, flags: _Bools) -> _Bools:
        """Say of each row whether all pairs to it are set; pairs are the last axis of `flags`."""
        order, begins = self._by_target
        if not len(begins):
            return flags
        return np.asarray(np.logical_and.reduceat(flags[:, order], begins, axis=1))

    def count_into(self, flags: _Bools) -> _Ints:
        """Return for each row how many pairs to it are set."""
        order, begins = self._by_target
        counts = flags[:, order].astype(np.int64)
        return np.asarray(np.add.reduceat(counts, begins, axis=1)) if len(begins) else counts


def pairs(grouping: Grouping, network: Network) -> Pairs:
    """Return all ordered pairs within clusters."""
    size = grouping.size[grouping.cluster]
    counts = size - 1
    rows = np.arange(len(grouping.node))
    origin = np.repeat(rows, counts)
    rank = np.arange(len(origin)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = rank + (rank >= grouping.position[origin])
    target = grouping.start[grouping.cluster[origin]] + place
    direct = network.hears(grouping.node[origin], grouping.node[target])
    return Pairs(origin, target, rank, direct)


@dataclass(frozen=True, eq=False)
class Bundles:
    """Who hears which frame, when each member broadcasts one item for each other member.

    The items stand in the roster's order, so that nothing names their receivers. An item for a
    member out of range is taken up by the leader and sent on, the items of one origin together.

    Attributes
    ----------
    frames : int
        Frames of all bundles.
    frame_origin, frame_items : (frames,) int64 arrays
        The sending row, and how many items are in it.
    link_frame, link_row : (links,) int64 arrays
        Each frame's addressed receivers, by frame: who needs an item in it, or relays one.
    frame_first : (frames,) int64 array
        Index of each frame's first link.
    hop : (pairs,) int64 array
        The link over which each pair's item leaves its origin.
    relayed : (relayed pairs,) int64 array
        The pairs that are relayed.
    relay_frame : (relayed pairs,) int64 array
        The relay's frame, ascending.
    relay_first, relay_cluster : (relay frames,) int64 arrays
        Index of each relay frame's first relayed pair; its cluster.
    parts : (clusters,) int64 array
        Frames that one item takes, if it does not fit into one; else 1.
    item : (clusters,) int64 array
        Bytes of an item.
    """

    frames: int
    frame_origin: _Ints
    frame_items: _Ints
    link_frame: _Ints
    link_row: _Ints
    frame_first: _Ints
    hop: _Ints
    relayed: _Ints
    relay_frame: _Ints
    relay_first: _Ints
    relay_cluster: _Ints
    parts: _Ints
    item: _Ints

    @classmethod
    def of(cls, grouping: Grouping, pair: Pairs, item: _Ints, payload: int) -> Bundles:
        """Lay the items of `item` bytes (one size for each cluster) out in frames."""
        per = np.maximum(1, payload // item)
        behind = np.maximum(1, (payload - RELAY_HEAD) // item)[grouping.cluster]
        parts = np.maximum(1, -(-item // payload))
        size = grouping.size[grouping.cluster]
        each = per[grouping.cluster]
        count = -(-(size - 1) // each)
        first = np.cumsum(count) - count
        frames = int(count.sum())
        frame_origin = np.repeat(np.arange(len(size)), count)
        place = np.arange(frames) - first[frame_origin]
        left = size[frame_origin] - 1 - place * each[frame_origin]
        frame_items = np.minimum(each[frame_origin], left)

        frame = first[pair.origin] + pair.rank // each[pair.origin]
        leader = grouping.leader_row[grouping.cluster[pair.origin]]
        receiver = np.where(pair.direct, pair.target, leader)
        rows = max(len(grouping.node), 1)
        keys, hop = np.unique(frame * rows + receiver, return_inverse=True)
        link_frame = keys // rows

        relayed = np.flatnonzero(~pair.direct)
        origin = pair.origin[relayed]
        changes = np.diff(origin, prepend=-1) != 0
        begins = np.flatnonzero(changes)
        rank = np.arange(len(relayed)) - begins[np.cumsum(changes) - 1] if len(relayed) else relayed
        slot = rank // behind[origin]
        new = changes | (np.diff(slot, prepend=-1) != 0)
        relay_first = np.flatnonzero(new)
        return cls(
            frames=frames,
            frame_origin=frame_origin,
            frame_items=frame_items,
            link_frame=link_frame,
            link_row=keys % rows,
            frame_first=np.searchsorted(link_frame, np.arange(frames)),
            hop=hop.reshape(-1),
            relayed=relayed,
            relay_frame=np.cumsum(new) - 1,
            relay_first=relay_first,
            relay_cluster=grouping.cluster[origin[relay_first]],
            parts=parts,
            item=item,
        )
