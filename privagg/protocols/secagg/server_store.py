"""What the server keeps of the clients' messages: arrays of O(edges), one row per client.

It checks each message against what it keeps, and refuses what would make other clients leave: one
client must not end a round for all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg import keys, sharing
from privagg.errors import PeerError
from privagg.protocols.secagg import derivations, layout
from privagg.protocols.secagg.identity import SIGNATURE_BYTES, Directory
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    GraphProof,
    KeyRoster,
    MaskedInput,
    ShareKeys,
    UnmaskShares,
)
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.topology import Topology

__all__ = ["Store"]


class Store:
    """Keys, ciphertexts and shares of one round.

    Attributes
    ----------
    keys : (clients, 64) uint8 array
        Advertised c and s keys.
    signatures : (clients, 64) uint8 array
        Signatures over them, where there are some.
    survivor_signatures, sharer_signatures : (clients, 64) uint8 arrays
        Signatures over the survivor sets, and over whose ciphertexts came, where there are some.
    commitments : (clients, 32) uint8 array
        Commitments to the self-mask seeds.
    ciphertexts : (clients, k, CIPHERTEXT_BYTES) uint8 array
        Per sender and slot.
    shares : (clients, k, LIMBS) uint64 array
        Per responder and slot its share of that neighbour's secret.
    own_shares : (clients, LIMBS) uint64 array
        Per responder its share of its own secret (complete graph).
    missing : (clients, k) bool array
        Per responder and slot: the neighbour's ciphertext did not open.
    """

    def __init__(self, params: Params) -> None:
        clients, slots = params.clients, params.neighbours
        self._params = params
        self._seen_keys: set[bytes] = set()
        self.keys = np.zeros((clients, layout.BOTH_KEYS), np.uint8)
        self.signatures = np.zeros((clients if params.signed else 0, SIGNATURE_BYTES), np.uint8)
        self.survivor_signatures = np.zeros_like(self.signatures)
        self.sharer_signatures = np.zeros_like(self.signatures)
        self.commitments = np.zeros((clients, layout.DIGEST_BYTES), np.uint8)
        self.ciphertexts = np.zeros((clients, slots, layout.CIPHERTEXT_BYTES), np.uint8)
        self.shares = np.zeros((0, 0, sharing.LIMBS), np.uint64)
        self.own_shares = np.zeros((0, sharing.LIMBS), np.uint64)
        self.missing = np.zeros((0, 0), np.bool_)

    def expect_shares(self) -> None:
        """Make room for the shares of the last round; the ciphertexts are not needed any more."""
        clients, slots = self._params.clients, self._params.neighbours
        self.ciphertexts = np.zeros((0, slots, layout.CIPHERTEXT_BYTES), np.uint8)
        self.shares = np.zeros((clients, slots, sharing.LIMBS), np.uint64)
        self.own_shares = np.zeros((clients, sharing.LIMBS), np.uint64)
        self.missing = np.zeros((clients, slots), np.bool_)

    def take_keys(
        self, sender: int, message: AdvertiseKeys, context: bytes, directory: Directory | None
    ) -> None:
        """Keep a client's keys, if they are good, new and signed where they have to be."""
        pair = (message.cipher_key, message.mask_key)
        rows = np.frombuffer(b"".join(pair), np.uint8)
        if not keys.canonical_points(rows.reshape(2, -1)).all() or any(
            map(keys.is_low_order, pair)
        ):
            raise PeerError(
                sender, message.round, "a public key of low order or not canonically encoded"
            )
        if pair[0] == pair[1] or not self._seen_keys.isdisjoint(pair):
            raise PeerError(sender, message.round, "a public key that was advertised already")
        if self._params.signed:
            statement = derivations.advertise_statement(context, sender, *pair)
            if directory is None or not directory.verify(sender, statement, message.signature):
                raise PeerError(
                    sender, message.round, "keys that its identity has not signed for this round"
                )
            self.signatures[sender] = np.frombuffer(message.signature, np.uint8)
        self._seen_keys.update(pair)
        self.keys[sender] = rows

    def roster_of(
        self,
        members: NDArray[np.uint32],
        *,
        tag: bytes,
        cohort: int,
        digest: bytes = b"",
        proof: GraphProof | None = None,
    ) -> KeyRoster:
        """Return the roster that shows `members` and their keys."""
        signed = self._params.signed
        return KeyRoster(
            tag=tag,
            cohort=cohort,
            members=members,
            keys=self.keys[members],
            universe=self._params.clients if self._params.graph is Graph.COMPLETE else 0,
            digest=digest,
            signatures=self.signatures[members] if signed else None,
            proof=proof,
        )

    def take_signature(
        self,
        sender: int,
        message: ConsistencySignature | MaskedInput,
        statement: bytes,
        directory: Directory | None,
    ) -> None:
        """Keep a signature over survivors or sharers, if it is over those of the round."""
        if directory is None or not directory.verify(sender, statement, message.signature):
            raise PeerError(
                sender,
                message.round,
                "a signature that is not over the sets and model of the round",
            )
        survivors = isinstance(message, ConsistencySignature)
        kept = self.survivor_signatures if survivors else self.sharer_signatures
        kept[sender] = np.frombuffer(message.signature, np.uint8)

    def take_ciphertexts(
        self, sender: int, message: ShareKeys, topology: Topology, listed: NDArray[np.bool_]
    ) -> None:
        """Keep a client's ciphertexts, one per neighbour among the `listed`."""
        present = listed[topology.row(sender)]
        if len(message.ciphertexts) != int(present.sum()):
            raise PeerError(
                sender,
                message.round,
                f"{len(message.ciphertexts)} ciphertexts for {int(present.sum())} peers",
            )
        self.commitments[sender] = np.frombuffer(message.commitment, np.uint8)
        self.ciphertexts[sender, present] = message.ciphertexts

    def ciphertexts_for(
        self, client: int, topology: Topology, shared: NDArray[np.bool_]
    ) -> NDArray[np.uint8]:
        """Return the ciphertexts for `client` from its neighbours among the `shared`."""
        row, slots = topology.row(client), topology.slots(client)
        senders = shared[row]
        columns: NDArray[np.uint8] = self.ciphertexts[row[senders], slots[senders]]
        return columns

    def take_shares(
        self, sender: int, message: UnmaskShares, topology: Topology, shared: NDArray[np.bool_]
    ) -> None:
        """Keep a client's shares, one per neighbour among the `shared` (and its own)."""
        row = topology.row(sender)
        present = shared[row]
        shares, missing = message.shares, message.missing
        own = self._params.graph is Graph.COMPLETE
        expected = int(present.sum()) + own
        if len(shares) != expected:
            raise PeerError(
                sender, message.round, f"{len(shares)} shares for {expected} secrets of its peers"
            )
        if own:  # its own share stands in the roster's order, between those below and above it
            at = int(present[row < sender].sum())
            if missing[at]:
                raise PeerError(sender, message.round, "its share of its own secret is missing")
            self.own_shares[sender] = shares[at]
            shares, missing = np.delete(shares, at, axis=0), np.delete(missing, at)
        self.shares[sender, present] = shares
        self.missing[sender, present] = missing
