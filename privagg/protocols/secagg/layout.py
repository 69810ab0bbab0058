"""What all messages have in common: header, sizes, and how bytes become a message.

The layouts themselves are in :mod:`privagg.protocols.secagg.messages` and, for the rounds that only
the stronger threat models have, in :mod:`privagg.protocols.secagg.messages_signed`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privagg import keys, sharing, wire
from privagg.protocols._common.framing import (
    DIGEST_BYTES,
    HEADER_BYTES,
    SESSION_BYTES,
    TAG_BYTES,
    Framed,
)
from privagg.protocols.secagg.params import PROTOCOL_VERSION, Params
from privagg.protocols.secagg.thresholds import Graph

__all__ = [
    "CIPHERTEXT_BYTES",
    "DIGEST_BYTES",
    "FIELD_BITS",
    "HEADER_BYTES",
    "PLAINTEXT_BYTES",
    "SESSION_BYTES",
    "SHARE_WORDS",
    "TAG_BYTES",
    "Message",
    "pack_view",
    "read_flags",
    "view_bytes",
]

FIELD_BITS = 61
"""Bits of one share's field element, in GF(2**61 - 1)."""

SHARE_WORDS = 2 * sharing.LIMBS
"""Field elements in one ciphertext: a share of the mask key's seed, then one of the self mask's."""

PLAINTEXT_BYTES = wire.packed_size(SHARE_WORDS, FIELD_BITS)
"""Bytes of one pair of shares, bit-packed."""

CIPHERTEXT_BYTES = PLAINTEXT_BYTES + keys.TAG_BYTES
"""Bytes of one encrypted pair of shares."""

BOTH_KEYS = 2 * keys.KEY_BYTES
"""Bytes of a client's two public keys."""

KINDS: dict[int, type[Message]] = {}
"""Every message by its kind; filled as the classes are made."""


class Message(Framed[Params]):
    """What all messages of this protocol have; see :class:`Framed`."""

    version: ClassVar[int] = PROTOCOL_VERSION

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls


def view_bytes(params: Params) -> int:
    """Return the bytes of a client's view of its neighbours: a bit each, whoever is present."""
    return wire.bitmap_size(params.neighbours)


def pack_view(survivors: NDArray[np.bool_], params: Params) -> bytes:
    """Return the view that says so of the neighbours a client was shown."""
    octets = np.packbits(survivors, bitorder="little").tobytes()
    return octets.ljust(view_bytes(params), b"\0")


def read_flags(reader: wire.Reader, params: Params) -> NDArray[np.bool_]:
    """Read a counted bitmap over the roster's members."""
    count = reader.u32()
    limit = params.neighbours + (params.graph is Graph.COMPLETE)
    if count > limit:
        reader.fail(f"a bitmap over {count} members where there are at most {limit}")
    return reader.bitmap(count)
