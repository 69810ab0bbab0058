"""The way up the tree: who reports, what arrives at the base station.

Reports go from the leaves up; each node adds what its children sent to its own and sends one report
(Madden et al., TAG, OSDI 2002). What a node sent is lost with everything below it if the frame is,
or if its parent is gone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor.air import Air, Ledger, fragments
from privagg.protocols.sensor.flood import Spread

__all__ = ["Climb", "Uplink"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Climb:
    """What happened to the reports of some epochs.

    Attributes
    ----------
    sent, arrived, reached : (epochs, nodes + 1) bool arrays
        Who sent a report; whose came to its parent; whose came to the base station.
    missing : (epochs, nodes + 1) int64 array
        Ids of silent children that a node's report lists (``cmt``), else zero.
    """

    sent: _Bools
    arrived: _Bools
    reached: _Bools
    missing: _Ints


@dataclass(frozen=True, eq=False)
class Uplink:
    """A tree, by levels.

    Parameters
    ----------
    spread : Spread
        Parents and depths.
    """

    spread: Spread

    @property
    def parent(self) -> _Ints:
        """Parent of each node; -1 for the root and for who is not in the tree."""
        return self.spread.parent

    @cached_property
    def levels(self) -> list[_Ints]:
        """The nodes of each depth, from 1 on, each level ordered by parent."""
        depth, parent = self.spread.depth, self.spread.parent
        inside = np.flatnonzero(depth > 0)
        inside = inside[np.lexsort((parent[inside], depth[inside]))]
        ends = np.searchsorted(depth[inside], np.arange(1, int(depth.max()) + 2))
        return [inside[a:b] for a, b in itertools.pairwise(ends)]

    def climb(
        self,
        own: _Bools,
        alive: _Bools,
        air: Air,
        ledger: Ledger,
        *,
        payload: int,
        id_bytes: int = 0,
    ) -> Climb:
        """Let everyone report who has something to report.

        Parameters
        ----------
        own : (epochs, nodes + 1) bool array
            Who has something of its own.
        alive : (nodes + 1,) bool array
            Who is there.
        air, ledger : Air, Ledger
            Losses are drawn from the one and frames counted in the other.
        payload : int
            Bytes of a report.
        id_bytes : int
            Bytes of an id in the list of silent children; 0 if reports have no such list.
        """
        has = own & alive
        sent = np.zeros_like(has)
        arrived = np.zeros_like(has)
        missing = np.zeros(has.shape, np.int64)
        for nodes in reversed(self.levels):
            parents = self.parent[nodes]
            sends = has[:, nodes]
            tries = air.tries(sends.shape)
            comes = sends & air.arrived(tries) & alive[parents]
            sent[:, nodes], arrived[:, nodes] = sends, comes
            heads, first = np.unique(parents, return_index=True)
            has[:, heads] |= np.logical_or.reduceat(comes, first, axis=1) & alive[heads]
            size: _Ints = np.full(sends.shape, payload, np.int64)
            if id_bytes:
                size += id_bytes * missing[:, nodes]
                lists = np.where(comes, missing[:, nodes], 1)
                missing[:, heads] += np.add.reduceat(lists, first, axis=1)
            times = np.where(alive[parents], air.sent(tries), air.most) * sends
            self._count(ledger, air, nodes, size, times)
        reached = np.zeros_like(has)
        reached[:, self.spread.depth == 0] = True
        for nodes in self.levels:
            reached[:, nodes] = arrived[:, nodes] & reached[:, self.parent[nodes]]
        return Climb(sent, arrived, reached, missing)

    def _count(
        self, ledger: Ledger, air: Air, nodes: _Ints, size: _Ints, times: NDArray[np.int64]
    ) -> None:
        pieces = fragments(size, air.radio.payload)
        octets = ((size + pieces * air.radio.overhead) * times).sum(axis=0)
        frames = (pieces * times).sum(axis=0)
        said = (times > 0).sum(axis=0)
        ledger.send("report", nodes, frames, octets, said)
        ledger.receive("report", self.parent[nodes], octets)
        if air.radio.retries:
            ledger.acknowledge(self.parent[nodes], nodes, (pieces * (times > 0)).sum(axis=0))
