"""The server's part in drawing the sparse graph from the clients' randomness (semi-malicious).

See :mod:`privagg.protocols.secagg.client_graph` for what the clients check of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import client_graph, derivations, layout, merkle
from privagg.protocols.secagg.messages import (
    GraphChallenge,
    GraphCommitment,
    GraphProof,
    GraphRequest,
    GraphReveal,
    Message,
)
from privagg.protocols.secagg.params import Params

__all__ = ["GraphDraw"]


class GraphDraw:
    """Keys fixed, commitments collected, openings checked, proofs given.

    Parameters
    ----------
    params : Params
        The round.
    context : bytes
        The round's context.
    present : (clients,) bool array
        U1: whose keys are fixed.
    public_keys : (clients, 64) uint8 array
        Their keys.
    """

    def __init__(
        self,
        params: Params,
        context: bytes,
        present: NDArray[np.bool_],
        public_keys: NDArray[np.uint8],
    ) -> None:
        self._params = params
        self._context = context
        self._places = np.cumsum(present) - 1
        members = np.flatnonzero(present).astype(np.uint32)
        self._keys = client_graph.key_tree(context, members, public_keys)
        self._commitments = np.zeros((params.clients, layout.DIGEST_BYTES), np.uint8)
        self._openings = np.zeros((params.clients, derivations.OPENING_BYTES), np.uint8)
        self._root = b""
        self._committed = np.zeros(params.clients, np.bool_)
        self.attempt = 0

    def request(self, tag: bytes, present: NDArray[np.bool_]) -> GraphRequest:
        """Return what asks a client for its commitment."""
        return GraphRequest(
            tag=tag, attempt=self.attempt, present=present, key_root=self._keys.root
        )

    def is_late(self, sender: int, message: Message) -> bool:
        """Say whether a message belongs to an earlier draw of the graph.

        Raises
        ------
        PeerError
            If it belongs to a draw that has not begun.
        """
        if not isinstance(message, GraphCommitment | GraphReveal):
            return False
        if message.attempt > self.attempt:
            raise PeerError(
                sender,
                message.round,
                f"draw {message.attempt} of the graph while {self.attempt} is being collected",
            )
        return message.attempt < self.attempt

    def take_commitment(self, sender: int, message: GraphCommitment) -> None:
        """Keep a commitment."""
        self._commitments[sender] = np.frombuffer(message.commitment, np.uint8)

    def fix(self, committed: NDArray[np.bool_]) -> None:
        """Fix the commitments of all that sent one."""
        self._committed = committed.copy()
        self._root = merkle.Tree(
            [self._commitments[client].tobytes() for client in np.flatnonzero(committed)]
        ).root

    def challenge(self, tag: bytes) -> GraphChallenge:
        """Return what asks a client to open its commitment."""
        return GraphChallenge(
            tag=tag, attempt=self.attempt, present=self._committed, root=self._root
        )

    def take_opening(self, sender: int, message: GraphReveal) -> None:
        """Keep an opening, if it opens the sender's commitment."""
        found = derivations.graph_commitment(
            self._context, self._keys.root, sender, message.opening
        )
        if found != self._commitments[sender].tobytes():
            raise PeerError(sender, message.round, "an opening that is not what it committed to")
        self._openings[sender] = np.frombuffer(message.opening, np.uint8)

    def again(self) -> None:
        """Start over, because someone committed and did not reveal.

        Raises
        ------
        Abort
            If no client would take part in another draw.
        """
        self.attempt += 1
        if self.attempt >= client_graph.MAX_ATTEMPTS:
            raise Abort(
                "round reveal-graph: in every draw of the graph someone committed and did not "
                "reveal; draws",
                0,
                1,
            )

    def seed(self) -> bytes:
        """Return the graph's seed from all openings."""
        return derivations.graph_seed(self._context, self._root, self._openings[self._committed])

    def roster(self) -> bytes:
        """Return the roster digest that keys are bound to."""
        return client_graph.roster_of(self._context, self._keys.root, self._root)

    def proof(self, members: NDArray[np.uint32]) -> GraphProof:
        """Return why `members` are a client's neighbours, with the keys they committed to."""
        paths = b"".join(self._keys.path(int(self._places[member])) for member in members)
        width = len(paths) // max(len(members), 1)
        return GraphProof(
            openings=self._openings[self._committed],
            paths=np.frombuffer(paths, np.uint8).reshape(len(members), width),
            depth=width // merkle.DIGEST_BYTES,
        )
