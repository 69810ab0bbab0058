"""The query's flood: who hears it, who forwards it, and the tree it leaves behind.

The base station broadcasts HELLO. A node that forwards it does so once, after the first copy it
hears. With :attr:`~privagg.protocols.sensor.params.Flood.ALL` every node forwards; with ``LEADERS``
only leaders do, as the papers on CPDA have it, and whoever hears no leader stays outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor.network import Network

__all__ = ["Spread", "spread", "tree"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Spread:
    """How far something spread through the network.

    Attributes
    ----------
    parent : (nodes + 1,) int64 array
        From whom each node heard it first, lowest index among equals; -1 where nobody.
    depth : (nodes + 1,) int64 array
        Hops from the source; -1 where it did not come.
    """

    parent: _Ints
    depth: _Ints

    @property
    def reached(self) -> _Bools:
        """Which nodes heard it, the source among them."""
        return self.depth >= 0


def spread(
    network: Network,
    forwards: _Bools,
    alive: _Bools,
    heard: _Bools | None = None,
    begin: Spread | None = None,
) -> Spread:
    """Flood from the base station, level by level.

    Parameters
    ----------
    network : Network
        Who hears whom.
    forwards : (nodes + 1,) bool array
        Who sends it on.
    alive : (nodes + 1,) bool array
        Who is there at all.
    heard : (links,) bool array, optional
        Over ``network.neighbours``: which copies are not lost. All by default.
    begin : Spread, optional
        Go on from where another flood came: its nodes keep parent and depth.
    """
    count = network.nodes + 1
    if begin is None:
        parent = np.full(count, -1, np.int64)
        depth = np.full(count, -1, np.int64)
        depth[network.base_station] = 0
    else:
        parent, depth = begin.parent.copy(), begin.depth.copy()
    level = int(depth[depth >= 0].min())
    last = int(depth.max())
    while True:
        front = np.flatnonzero((depth == level) & forwards & alive)
        if len(front):
            senders, receivers, links = _links(network, front)
            open_ = (depth[receivers] < 0) & alive[receivers]
            if heard is not None:
                open_ &= heard[links]
            senders, receivers = senders[open_], receivers[open_]
            # Written backwards: of several senders the lowest index stays.
            parent[receivers[::-1]] = senders[::-1]
            depth[receivers] = level + 1
            if len(receivers):
                last = max(last, level + 1)
        level += 1
        if level > last:
            return Spread(parent, depth)


def _links(network: Network, nodes: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    counts = network.start[nodes + 1] - network.start[nodes]
    senders = np.repeat(nodes, counts)
    first = np.repeat(network.start[nodes] - np.cumsum(counts) + counts, counts)
    links = first + np.arange(counts.sum())
    return senders, network.neighbours[links], links


def tree(network: Network, wanted: _Bools, alive: _Bools, reached: _Bools) -> Spread:
    """Return a tree over the base station and the `wanted` nodes, with few others as relays.

    A wanted node (a leader) hangs from a wanted one where a path of such leads to the base station:
    these send anyway. The rest is reached through relays.

    Parameters
    ----------
    network : Network
        Who hears whom.
    wanted, alive, reached : (nodes + 1,) bool arrays
        Who has something to report; who is there; who heard the query.
    """
    able = alive & reached
    inner = wanted.copy()
    inner[network.base_station] = True
    first = spread(network, inner & able, able)
    return spread(network, able, able, begin=_only(first, inner))


def _only(found: Spread, kept: _Bools) -> Spread:
    """Forget where it came to others than `kept`: they may find a better place later."""
    inside = kept & found.reached
    return Spread(np.where(inside, found.parent, -1), np.where(inside, found.depth, -1))
