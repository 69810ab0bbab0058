"""The graph as the server uses it: rows of neighbours, and the place of each edge in both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.secagg import graph
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.thresholds import Graph

__all__ = ["Topology"]


class Topology:
    """Neighbours and slots of every client; the complete graph is never written out.

    A *slot* is the position of a client in a neighbour's row. What client u holds for its neighbour
    v is stored at ``[u, slot of v in u's row]``, so that one array serves both graphs.

    Parameters
    ----------
    params : Params
        Clients, graph and degree.
    seed : bytes
        32 bytes that determine the sparse graph: the server's choice in a semi-honest round, of all
        clients' randomness in a semi-malicious one.
    """

    def __init__(self, params: Params, seed: bytes) -> None:
        self._clients = params.clients
        self._rows: NDArray[np.int32] | None = None
        self._slots: NDArray[np.int32] | None = None
        if params.graph is Graph.SPARSE:
            self._rows = graph.build(params.clients, params.neighbours, seed)
            self._slots = graph.reverse_positions(self._rows)

    def row(self, client: int) -> NDArray[np.uint32]:
        """Return the neighbours of `client`, (k,) ascending."""
        if self._rows is not None:
            row: NDArray[np.uint32] = self._rows[client].astype(np.uint32)
            return row
        everyone = np.arange(self._clients - 1, dtype=np.uint32)
        everyone[client:] += np.uint32(1)
        return everyone

    def slots(self, client: int) -> NDArray[np.intp]:
        """Return, for each neighbour of `client`, the slot of `client` in that neighbour's row."""
        if self._slots is not None:
            slots: NDArray[np.intp] = self._slots[client].astype(np.intp)
            return slots
        row = self.row(client)
        return np.where(row < client, client - 1, client).astype(np.intp)

    def count(self, flags: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return for each client how many of its neighbours are flagged, (n,)."""
        if self._rows is not None:
            counts: NDArray[np.intp] = flags[self._rows].sum(axis=1)
            return counts
        return np.asarray(int(flags.sum()) - flags, dtype=np.intp)
