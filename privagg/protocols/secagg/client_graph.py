"""A client's part in drawing the sparse graph, so that no server chooses its neighbours.

Semi-malicious rounds only. When the keys of U1 are fixed (a Merkle root over them, collected
honestly), each client commits to 16 random bytes; when all commitments are fixed (another root), it
reveals them; the graph's seed is a digest of all openings. Whoever chose the others could not know
this client's opening before the root was fixed, and this client recomputes both root and graph, so
its neighbours are a uniform draw to it.

A server can claim that someone committed and did not reveal, and have the graph drawn again: each
draw is another chance for it. Clients allow :data:`MAX_ATTEMPTS` draws, which costs as many times
``2**-sigma``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.entropy import Entropy
from privagg.errors import PeerError
from privagg.protocols.secagg import derivations, graph, merkle
from privagg.protocols.secagg.client_state import ClientMemory
from privagg.protocols.secagg.messages import GraphChallenge, GraphRequest, KeyRoster
from privagg.protocols.secagg.params import Params

__all__ = ["MAX_ATTEMPTS", "commit", "key_leaf", "key_tree", "reveal", "roster_of", "verify"]

MAX_ATTEMPTS = 4
"""Draws of the graph that a client takes part in: the guarantee's ``sigma`` loses 2 bits."""

_SERVER = "server"


def key_leaf(context: bytes, client: int, row: bytes) -> bytes:
    """Return the leaf of a client's two public keys in the tree that fixes them."""
    return merkle.leaf(b"privagg secagg key", context, client.to_bytes(4, "little"), row)


def key_tree(
    context: bytes, members: NDArray[np.unsignedinteger[Any]], rows: NDArray[np.uint8]
) -> merkle.Tree:
    """Return the tree that fixes who has which keys: `rows` (clients, 64) of the `members`."""
    return merkle.Tree(
        [key_leaf(context, client, rows[client].tobytes()) for client in members.tolist()]
    )


def roster_of(context: bytes, key_root: bytes, graph_root: bytes) -> bytes:
    """Return the roster digest of a semi-malicious round: keys and graph in one."""
    return keys.digest(b"privagg secagg sparse roster", context, key_root, graph_root)


def commit(memory: ClientMemory, request: GraphRequest, entropy: Entropy) -> bytes:
    """Return this client's commitment for the next draw of the graph."""
    round = request.round
    if not request.present[memory.own_index]:
        raise PeerError(_SERVER, round, "this client is not among those that advertised keys")
    if memory.attempts and (
        request.key_root != memory.key_root or (request.present & ~memory.present).any()
    ):
        raise PeerError(_SERVER, round, "the keys or the cohort grew after they were fixed")
    if memory.attempts >= MAX_ATTEMPTS:
        raise PeerError(
            _SERVER, round, f"a draw of the graph after {memory.attempts}; at most {MAX_ATTEMPTS}"
        )
    memory.attempts += 1
    memory.key_root = request.key_root
    if memory.attempts == 1:
        memory.present = request.present
    memory.opening = entropy.take(derivations.OPENING_BYTES)
    return derivations.graph_commitment(
        memory.context, memory.key_root, memory.own_index, memory.opening
    )


def reveal(memory: ClientMemory, challenge: GraphChallenge) -> bytes:
    """Return this client's opening, now that the root over all commitments is fixed."""
    if not challenge.present[memory.own_index]:
        raise PeerError(_SERVER, challenge.round, "this client's commitment is left out")
    if (challenge.present & ~memory.present).any():
        raise PeerError(_SERVER, challenge.round, "a commitment of a client that has no keys")
    memory.committed = challenge.present
    memory.graph_root = challenge.root
    return memory.opening


def verify(memory: ClientMemory, params: Params, roster: KeyRoster) -> bytes:
    """Check that the roster shows this client's neighbours in the committed graph.

    Returns
    -------
    bytes
        The roster digest that the round's keys are bound to.

    Raises
    ------
    PeerError
        If an opening, a neighbour or a key is not what was committed to.
    """
    proof, context, index = roster.proof, memory.context, memory.own_index
    round = roster.round
    everyone = np.flatnonzero(memory.committed)
    if proof is None or len(proof.openings) != len(everyone):
        raise PeerError(_SERVER, round, f"not one opening for each of {len(everyone)} commitments")
    if roster.cohort != len(everyone):
        raise PeerError(_SERVER, round, f"a cohort of {roster.cohort}; {len(everyone)} committed")
    rows = [row.tobytes() for row in proof.openings]
    if rows[int(np.searchsorted(everyone, index))] != memory.opening:
        raise PeerError(_SERVER, round, "another opening in place of this client's")
    leaves = [
        derivations.graph_commitment(context, memory.key_root, int(client), opening)
        for client, opening in zip(everyone, rows, strict=True)
    ]
    if merkle.Tree(leaves).root != memory.graph_root:
        raise PeerError(_SERVER, round, "openings that are not those committed to")
    seed = derivations.graph_seed(context, memory.graph_root, proof.openings)
    drawn = graph.build(params.clients, params.neighbours, seed)
    own = drawn[index]
    if not np.array_equal(own[memory.committed[own]], roster.members):
        raise PeerError(_SERVER, round, "neighbours that are not those of the committed graph")
    places = np.cumsum(memory.present) - 1  # position of each client among the committed keys
    if proof.depth != merkle.depth(int(memory.present.sum())):
        raise PeerError(_SERVER, round, f"proofs of {proof.depth} steps for the keys")
    for member, row, path in zip(roster.members, roster.keys, proof.paths, strict=True):
        leaf = key_leaf(context, int(member), row.tobytes())
        if merkle.root_from_path(leaf, int(places[member]), path.tobytes()) != memory.key_root:
            raise PeerError(int(member), round, "keys that are not those fixed before the graph")
    # Where this client stands among the neighbours that each of its own is shown.
    memory.places = np.array(
        [
            int(np.searchsorted(drawn[member][memory.committed[drawn[member]]], index))
            for member in roster.members
        ],
        np.uint32,
    )
    return roster_of(context, memory.key_root, memory.graph_root)
