"""What a round's keys, ciphertexts and signatures are bound to.

The derivations are those of :mod:`privagg.protocols.secagg.derivations`. What keeps the two
protocols apart is the context, 32 bytes that enter each of them: it has a label of its own, so that
no key and no statement of one protocol is one of the other.
"""

from __future__ import annotations

from privagg import keys
from privagg.protocols._common.framing import Agreed
from privagg.protocols.lightsecagg.params import PROTOCOL_VERSION
from privagg.protocols.secagg import derivations
from privagg.protocols.secagg.derivations import (
    SEED_BYTES,
    model_digest,
    roster_digest,
    survivor_statement,
)

__all__ = [
    "SEED_BYTES",
    "advertise_statement",
    "cipher_keys",
    "context",
    "input_statement",
    "model_digest",
    "roster_digest",
    "survivor_statement",
]


def context(params: Agreed, session: bytes, round_number: int, identities: bytes = b"") -> bytes:
    """Return the 32 bytes that every derivation and signature of this round is bound to.

    `identities` is the digest of the directory of identities, empty in semi-honest rounds.
    """
    return keys.digest(
        b"privagg lightsecagg context",
        PROTOCOL_VERSION.to_bytes(2, "little"),
        session,
        round_number.to_bytes(4, "little"),
        params.digest(),
        identities,
    )


def cipher_keys(seed: bytes, context: bytes, client: int) -> tuple[bytes, bytes]:
    """Return the X25519 (private, public) keys that coded shares to `client` travel under."""
    return derivations.key_pair(seed, b"cipher", context, client)


def advertise_statement(context: bytes, client: int, cipher_key: bytes) -> bytes:
    """Return what a client signs in round 0: its key, for this round and index only."""
    return derivations.advertise_statement(context, client, cipher_key, b"")


def input_statement(context: bytes, roster: bytes, model: bytes, client: int) -> bytes:
    """Return what a client signs with its masked input: that it takes part, with this model."""
    ends = client.to_bytes(4, "little")
    return keys.digest(b"privagg lightsecagg input", context, roster, model, ends)
