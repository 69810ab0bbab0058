"""What the server keeps of the clients' messages, and what it refuses.

It checks each message against what it keeps, and refuses what would make other clients leave: one
client must not end a round for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg import keys
from privagg.errors import PeerError
from privagg.protocols.lightsecagg import derivations, messages
from privagg.protocols.lightsecagg.messages import (
    AdvertiseKeys,
    CodedSum,
    ConsistencySignature,
    MaskedInput,
    ShareMasks,
)
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.secagg.identity import SIGNATURE_BYTES, Directory

__all__ = ["Store"]


class Store:
    """Keys, ciphertexts and the sum so far.

    Attributes
    ----------
    keys : (clients, 32) uint8 array
        Advertised keys.
    key_signatures, input_signatures, survivor_signatures : (clients, 64) uint8 arrays
        Signatures over keys, over taking part and over the survivor set, where there are some.
    ciphertexts : dict of client to (peers, share_bytes) uint8 array
        What each client sealed for its peers, until it is handed on.
    total : (length,) array of elements
        The sum of the masked vectors that came.
    missing : (clients, clients) bool array
        Per holder and dealer: the dealer's coded share did not open.
    sums : dict of client to (piece,) array of elements
        Coded sums.
    """

    def __init__(self, params: Params, directory: Directory | None) -> None:
        clients = params.clients
        self._params, self._directory = params, directory
        self._seen_keys: set[bytes] = set()
        self.keys = np.zeros((clients, keys.KEY_BYTES), np.uint8)
        self.key_signatures = np.zeros((clients * params.signed, SIGNATURE_BYTES), np.uint8)
        self.input_signatures = np.zeros_like(self.key_signatures)
        self.survivor_signatures = np.zeros_like(self.key_signatures)
        self.ciphertexts: dict[int, NDArray[np.uint8]] = {}
        self.total: NDArray[Any] = np.zeros(params.length, params.word)
        self.missing = np.zeros((clients, clients), np.bool_)
        self.sums: dict[int, NDArray[Any]] = {}

    def _verify(self, sender: int, statement: bytes, signature: bytes, what: str, at: str) -> None:
        directory = self._directory
        if directory is None or not directory.verify(sender, statement, signature):
            raise PeerError(sender, at, what)

    def take_key(self, sender: int, message: AdvertiseKeys, context: bytes) -> None:
        """Keep a client's key, if it is good, new and signed where it has to be."""
        key = message.cipher_key
        row = np.frombuffer(key, np.uint8)
        if not keys.canonical_points(row[np.newaxis]).all() or keys.is_low_order(key):
            raise PeerError(
                sender, message.round, "a public key of low order or not canonically encoded"
            )
        if key in self._seen_keys:
            raise PeerError(sender, message.round, "a public key that was advertised already")
        if self._params.signed:
            statement = derivations.advertise_statement(context, sender, key)
            self._verify(
                sender,
                statement,
                message.signature,
                "keys that its identity has not signed for this round",
                message.round,
            )
            self.key_signatures[sender] = np.frombuffer(message.signature, np.uint8)
        self._seen_keys.add(key)
        self.keys[sender] = row

    def take_ciphertexts(self, sender: int, message: ShareMasks, peers: int) -> None:
        """Keep a client's ciphertexts, one per peer of the roster."""
        if len(message.ciphertexts) != peers:
            raise PeerError(
                sender, message.round, f"{len(message.ciphertexts)} ciphertexts for {peers} peers"
            )
        self.ciphertexts[sender] = message.ciphertexts

    def ciphertexts_for(self, slot: int, senders: list[tuple[int, int]]) -> NDArray[np.uint8]:
        """Return what was sealed for the member at `slot`; `senders` are clients with slots."""
        # A sender's own slot is left out of its rows.
        rows = [self.ciphertexts[client][slot - (at < slot)] for client, at in senders]
        width = messages.share_bytes(self._params)
        return np.concatenate(rows).reshape(-1, width) if rows else np.zeros((0, width), np.uint8)

    def take_input(
        self, sender: int, message: MaskedInput, statement: bytes, sharers: NDArray[np.uint32]
    ) -> None:
        """Add a masked vector to the sum; note whose shares did not open."""
        if self._params.signed:
            self._verify(
                sender,
                statement,
                message.signature,
                "an input that is not signed for this round and its model",
                message.round,
            )
            self.input_signatures[sender] = np.frombuffer(message.signature, np.uint8)
        self.missing[sender, sharers] = message.missing
        self.total = fields.add(self.total, message.vector, self._params.field)

    def take_signature(self, sender: int, message: ConsistencySignature, statement: bytes) -> None:
        """Keep a signature over the survivors, if it is over those of the round."""
        self._verify(
            sender,
            statement,
            message.signature,
            "a signature that is not over the sets and model of the round",
            message.round,
        )
        self.survivor_signatures[sender] = np.frombuffer(message.signature, np.uint8)

    def take_sum(self, sender: int, message: CodedSum) -> None:
        """Keep a coded sum."""
        self.sums[sender] = message.elements

    def forget(self) -> None:
        """Drop what no later message needs."""
        self.ciphertexts, self.sums = {}, {}
        self.total = np.zeros(0, self._params.word)
