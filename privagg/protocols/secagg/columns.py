"""Columns of shares: rows of field elements, each row bit-packed into whole bytes.

A plaintext of the share-keys round is one row: 2 * LIMBS elements of 61 bits, 366 bits in 46 bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.secagg.layout import FIELD_BITS, SHARE_WORDS

__all__ = ["pack_rows", "unpack_rows"]

_USED = SHARE_WORDS * FIELD_BITS


def pack_rows(rows: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return (m, PLAINTEXT_BYTES) bytes for `rows` (m, SHARE_WORDS) of reduced elements."""
    octets = np.ascontiguousarray(rows).astype("<u8").view(np.uint8)
    bits = np.unpackbits(octets.reshape(len(rows), SHARE_WORDS, 8), axis=2, bitorder="little")
    used = bits[:, :, :FIELD_BITS].reshape(len(rows), _USED)
    return np.packbits(used, axis=1, bitorder="little")


def unpack_rows(packed: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the (m, SHARE_WORDS) elements of `packed` (m, PLAINTEXT_BYTES), and which rows count.

    A row counts if it is canonical: no bit set beyond the last element, every element reduced.
    """
    count = len(packed)
    bits = np.unpackbits(packed, axis=1, bitorder="little")
    words = np.zeros((count, SHARE_WORDS, 64), np.uint8)
    words[:, :, :FIELD_BITS] = bits[:, :_USED].reshape(count, SHARE_WORDS, FIELD_BITS)
    octets = np.packbits(words, axis=2, bitorder="little")
    elements = octets.reshape(count, SHARE_WORDS * 8).view("<u8").astype(np.uint64)
    reduced = (elements != np.uint64(2**FIELD_BITS - 1)).all(axis=1)
    return elements, reduced & ~bits[:, _USED:].any(axis=1)
