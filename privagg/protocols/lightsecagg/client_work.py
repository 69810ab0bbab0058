"""What a client computes: encoding its mask, encrypting, decrypting and adding coded shares.

The functions are free of decisions: what may be done when, and what must be checked before, is in
:mod:`privagg.protocols.lightsecagg.client`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg import keys, wire
from privagg._validate import refuse_masked
from privagg.encoding import Encoded
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.field import Elements
from privagg.protocols.lightsecagg import derivations
from privagg.protocols.lightsecagg.client_state import ClientMemory
from privagg.protocols.lightsecagg.messages import KeyRoster, ShareBundle, elements_bytes
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.secagg import pairing

__all__ = [
    "add_shares",
    "draw_mask",
    "encode_input",
    "mask_input",
    "open_shares",
    "seal_shares",
    "unpacked",
]


def draw_mask(params: Params, entropy: Entropy) -> tuple[Elements, Elements]:
    """Draw a mask z (length,) and encode it under fresh noise: (N, piece) coded shares.

    Mask and noise are both uniform, by rejection, straight from `entropy`: nothing is expanded from
    a seed, so that what T coded shares hide rests on the system's generator alone.
    """
    code = params.code
    mask = fields.uniform(entropy, params.length, params.field)
    noise = fields.uniform(entropy, (params.privacy, params.piece), params.field)
    return mask, code.split(mask, noise)


def seal_shares(
    memory: ClientMemory, params: Params, roster: KeyRoster, shares: Elements
) -> NDArray[np.uint8]:
    """Encrypt each peer's coded share (peers, share_bytes); keep the keys of the way back.

    `shares` (N, piece) has a row for every client; those of clients outside the roster stay here
    and are forgotten.

    Raises
    ------
    PeerError
        If a peer's key is a point of low order.
    """
    own = memory.own_index
    private, _ = derivations.cipher_keys(memory.cipher_seed, memory.context, own)
    others = roster.members != own
    peers = roster.members[others]
    packed = b"".join(wire.pack_bits(shares[peer], params.bits) for peer in peers)
    plain = np.frombuffer(packed, np.uint8).reshape(len(peers), -1)
    memory.inward = np.zeros((len(others), keys.AEAD_KEY_BYTES), np.uint8)
    sent, memory.inward[others] = pairing.seal_each(
        private,
        roster.keys[others],
        plain,
        context=memory.context,
        roster=memory.roster,
        own=own,
        peers=peers,
        round=roster.round,
    )
    return sent


def open_shares(
    memory: ClientMemory, params: Params, bundle: ShareBundle
) -> tuple[Elements, NDArray[np.bool_]]:
    """Open the peers' coded shares.

    Returns
    -------
    held : (members, piece) array of elements
        The share held of each member's mask; zero where there is none.
    opened : (members,) bool array
        Whose ciphertext opened for this round, sender and receiver, to elements below the modulus.
    """
    held = np.zeros((len(memory.members), params.piece), params.word)
    opened = np.zeros(len(memory.members), np.bool_)
    plain, opened[bundle.present] = pairing.open_each(
        memory.inward[bundle.present],
        bundle.ciphertexts,
        context=memory.context,
        roster=memory.roster,
        own=memory.own_index,
        peers=memory.members[bundle.present],
    )
    for slot, row in zip(np.flatnonzero(bundle.present), plain, strict=True):
        share = unpacked(row, params) if opened[slot] else None
        opened[slot] = share is not None
        if share is not None:
            held[slot] = share
    return held, opened


def unpacked(row: NDArray[np.uint8], params: Params) -> Elements | None:
    """Return the elements of one plaintext, or None if it is not canonical."""
    if len(row) != elements_bytes(params, params.piece):
        return None
    try:
        share = wire.unpack_bits(row.data, params.piece, params.bits, params.word)
    except wire.LayoutError:
        return None
    return share if np.all(share < params.word.type(params.field.modulus)) else None


def encode_input(params: Params, vector: object, weight: int, entropy: Entropy) -> Encoded:
    """Encode a client's numbers, and its weight where there are weights.

    Raises
    ------
    UsageError
        If they do not fit the parameters.
    """
    refuse_masked("vector", vector)
    try:
        values = np.asarray(vector)
    except ValueError:  # NumPy's for lists of unequal lengths
        raise UsageError("vector", "ragged lists", f"a ({params.dim},) array") from None
    if values.shape != (params.dim,):
        raise UsageError("vector", f"shape {values.shape}", f"({params.dim},), as params.dim says")
    return params.encoding.encode(values, weight=weight, clients=params.clients, entropy=entropy)


def mask_input(params: Params, words: NDArray[Any], mask: Elements) -> Elements:
    """Return the encoded vector plus the mask, in the field; the sum of inputs cannot reach p."""
    return fields.add(words.astype(params.word), mask, params.field)


def add_shares(params: Params, held: Elements, weights: Elements | None = None) -> Elements:
    """Return the sum of the rows of `held` (m, piece), each times its weight if there are some."""
    rows = np.ascontiguousarray(held)
    if weights is None:
        return fields.sum_rows(rows, params.field)
    return fields.weighted_sum(weights, rows, params.field)
