"""How every key, seed and digest of a round is derived, in one place.

Each derivation names its purpose, the round's *context* (protocol version, session, round number
and the digest of the parameters) and the parties it is between, so that no two uses share an output
and nothing of one round opens another's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.protocols.secagg.params import PROTOCOL_VERSION, Params

__all__ = [
    "SEED_BYTES",
    "associated_data",
    "commitment",
    "context",
    "key_pair",
    "pairwise_mask_seed",
    "roster_digest",
    "roster_root",
    "self_mask_seed",
    "share_keys",
]

SEED_BYTES = 16
"""Size of the three independent secrets of a client: seeds of c, of s, and the self mask's b."""


def context(params: Params, session: bytes, round_number: int) -> bytes:
    """Return the 32 bytes that every derivation of this round is bound to."""
    return keys.digest(
        b"privagg secagg context",
        PROTOCOL_VERSION.to_bytes(2, "little"),
        session,
        round_number.to_bytes(4, "little"),
        params.digest(),
    )


def key_pair(seed: bytes, purpose: bytes, context: bytes, client: int) -> tuple[bytes, bytes]:
    """Return the X25519 (private, public) keys of `client` for ``b"cipher"`` or ``b"mask"``."""
    info = b"privagg secagg key " + purpose + client.to_bytes(4, "little")
    private = keys.derive(seed, salt=context, info=info, length=keys.KEY_BYTES)
    return private, keys.public_key(private)


def _pair(label: bytes, roster: bytes, one: int, other: int) -> bytes:
    low, high = min(one, other), max(one, other)
    return label + roster + low.to_bytes(4, "little") + high.to_bytes(4, "little")


def share_keys(
    secret: bytes, context: bytes, roster: bytes, own: int, peer: int
) -> tuple[bytes, bytes]:
    """Return the AES-128 keys (own to peer, peer to own) of a pair whose c keys agree on `secret`.

    They are directional, and each encrypts one message only.
    """
    info = _pair(b"privagg secagg share keys", roster, own, peer)
    both = keys.derive(secret, salt=context, info=info, length=2 * keys.AEAD_KEY_BYTES)
    upward, downward = both[: keys.AEAD_KEY_BYTES], both[keys.AEAD_KEY_BYTES :]
    return (upward, downward) if own < peer else (downward, upward)


def associated_data(context: bytes, roster: bytes, sender: int, receiver: int) -> bytes:
    """Return what a ciphertext is bound to: version, session, round, params, roster, parties."""
    ends = sender.to_bytes(4, "little") + receiver.to_bytes(4, "little")
    return b"privagg secagg shares" + context + roster + ends


def pairwise_mask_seed(
    secret: bytes, context: bytes, roster: bytes, one: int, other: int, length: int
) -> bytes:
    """Return the mask stream's key and counter block for a pair whose s keys agree on `secret`."""
    info = _pair(b"privagg secagg pairwise mask", roster, one, other)
    return keys.derive(secret, salt=context, info=info, length=length)


def self_mask_seed(seed: bytes, context: bytes, client: int, length: int) -> bytes:
    """Return the mask stream's key and counter block for a client's self-mask seed b."""
    info = b"privagg secagg self mask" + client.to_bytes(4, "little")
    return keys.derive(seed, salt=context, info=info, length=length)


def commitment(seed: bytes, context: bytes, client: int) -> bytes:
    """Return the commitment to a self-mask seed b that the server checks a rebuilt b against.

    Hiding because b has 128 bits of entropy, binding because SHA-256 is collision resistant.
    """
    ends = client.to_bytes(4, "little")
    return keys.digest(b"privagg secagg self mask commitment", context, ends, seed)


def roster_digest(context: bytes, members: NDArray[np.uint32], rows: NDArray[np.uint8]) -> bytes:
    """Return the digest over the members (U1) and all their keys that each client computes."""
    ids = members.astype("<u4").tobytes()
    return keys.digest(b"privagg secagg roster", context, ids, rows.tobytes())


def roster_root(context: bytes, members: Sequence[int], rows: NDArray[np.uint8]) -> bytes:
    """Return the Merkle root over the members and their keys, for graphs where none sees them all.

    The tree is that of RFC 6962, section 2.1 (leaves and nodes hashed under different prefixes);
    its paths are what a client of a stronger threat model checks its neighbours' keys with.
    """
    level = [
        hashlib.sha256(b"\0" + context + int(client).to_bytes(4, "little") + row.tobytes()).digest()
        for client, row in zip(members, rows, strict=True)
    ]
    while len(level) > 1:
        paired = [
            hashlib.sha256(b"\1" + left + right).digest()
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]
