"""How every key, seed and digest of a round is derived, in one place.

Each derivation names its purpose, the round's *context* (protocol version, session, round number
and the digest of the parameters) and the parties it is between, so that no two uses share an output
and nothing of one round opens another's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg._validate import refuse_masked
from privagg.errors import UsageError
from privagg.protocols.secagg.params import PROTOCOL_VERSION, Params

__all__ = [
    "OPENING_BYTES",
    "SEED_BYTES",
    "advertise_statement",
    "associated_data",
    "commitment",
    "context",
    "graph_commitment",
    "graph_seed",
    "key_pair",
    "model_digest",
    "pairwise_mask_seed",
    "roster_digest",
    "self_mask_seed",
    "share_keys",
    "survivor_statement",
    "view_statement",
]

SEED_BYTES = 16
"""Size of the three independent secrets of a client: seeds of c, of s, and the self mask's b."""


OPENING_BYTES = 16
"""Size of a client's contribution to the graph of a semi-malicious round."""


def context(params: Params, session: bytes, round_number: int, identities: bytes = b"") -> bytes:
    """Return the 32 bytes that every derivation and signature of this round is bound to.

    `identities` is the digest of the directory of identities, empty in semi-honest rounds.
    """
    return keys.digest(
        b"privagg secagg context",
        PROTOCOL_VERSION.to_bytes(2, "little"),
        session,
        round_number.to_bytes(4, "little"),
        params.digest(),
        identities,
    )


def advertise_statement(context: bytes, client: int, cipher_key: bytes, mask_key: bytes) -> bytes:
    """Return what a client signs in round 0: its two keys, for this round and index only."""
    ends = client.to_bytes(4, "little")
    return keys.digest(b"privagg secagg advertise", context, ends, cipher_key, mask_key)


def survivor_statement(
    context: bytes,
    roster: bytes,
    model: bytes,
    holders: NDArray[np.uint32],
    survivors: NDArray[np.uint32],
) -> bytes:
    """Return what a client signs in the consistency check: the sets U2 and U3 it was shown.

    The roster's digest and the digest of the model stand beside them, so that clients which were
    shown other keys or another model do not accept each other's signatures.
    """
    sets = (holders.astype("<u4").tobytes(), survivors.astype("<u4").tobytes())
    return keys.digest(b"privagg secagg survivors", context, roster, model, *sets)


def view_statement(
    purpose: bytes, context: bytes, roster: bytes, model: bytes, client: int, view: bytes
) -> bytes:
    """Return what a client of the sparse graph signs of its neighbours: its view of them.

    `view` has a bit per neighbour that `client` was shown, in the width that
    :func:`privagg.protocols.secagg.layout.view_bytes` says: set, for ``b"sharers"``, if its
    ciphertext came (with the masked input); for ``b"survivors"``, if the server says it survived
    (in the consistency check).
    """
    ends = client.to_bytes(4, "little")
    return keys.digest(b"privagg secagg view " + purpose, context, roster, model, ends, view)


def model_digest(arrays: Iterable[NDArray[Any]]) -> bytes:
    """Return the digest of shared parameters that binds a client's masks to them.

    Parameters
    ----------
    arrays : iterable of arrays
        The parameters in a fixed order; shapes, dtypes and contents count.

    Returns
    -------
    bytes
        32 bytes for ``Client.masked_input(..., model=...)``.

    Raises
    ------
    UsageError
        If it is no iterable of arrays, or an array is masked or of objects.
    """
    if not isinstance(arrays, Iterable) or isinstance(arrays, str | bytes | Mapping):
        raise UsageError(
            "arrays",
            type(arrays).__name__,
            "arrays in a fixed order",
            "Of a PyTorch model: privagg.integrations.torch.model_digest.",
        )
    state = hashlib.sha256(b"privagg model")
    for array in arrays:
        refuse_masked("arrays", array)
        plain = np.ascontiguousarray(array)
        if plain.dtype.hasobject:
            raise UsageError("arrays", f"dtype {plain.dtype}", "arrays of numbers")
        state.update(f"|{plain.dtype.str}{plain.shape}|".encode())
        state.update(plain.reshape(-1).view(np.uint8).data if plain.size else b"")
    return state.digest()


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
    secret: bytes,
    context: bytes,
    roster: bytes,
    one: int,
    other: int,
    length: int,
    model: bytes = b"",
) -> bytes:
    """Return the mask stream's key and counter block for a pair whose s keys agree on `secret`.

    `model` is the digest of the parameters that the client was shown: masks of clients that were
    shown different ones do not cancel, and the server is left with noise.
    """
    info = _pair(b"privagg secagg pairwise mask", roster, one, other) + model
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


def graph_commitment(context: bytes, roster: bytes, client: int, opening: bytes) -> bytes:
    """Return a client's commitment to its part of the graph's seed, bound to the committed keys."""
    ends = client.to_bytes(4, "little")
    return keys.digest(b"privagg secagg graph commitment", context, roster, ends, opening)


def graph_seed(context: bytes, root: bytes, openings: NDArray[np.uint8]) -> bytes:
    """Return the 32-byte seed of the graph from all openings of one set of commitments.

    It is uniform if one opening was drawn at random after `root` had fixed all the others.
    """
    return keys.digest(b"privagg secagg graph seed", context, root, openings.tobytes())
