"""Uniform subsets of fixed size, as rows of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg.mechanisms._kernels.bits import Words, row_words

__all__ = ["draw_subsets", "positions_of", "set_sizes"]

_U1 = np.uint64(1)
_U6 = np.uint64(6)
_U63 = np.uint64(63)


def draw_subsets(
    codes: NDArray[np.uint32], inside: NDArray[np.bool_], picks: NDArray[np.uint32], k: int
) -> Words:
    """Return for each respondent a subset of w of k values, as a row of bits.

    Where `inside` holds it is the value itself and w - 1 of the others, else w of the others,
    uniformly: Floyd's algorithm (Bentley, "Programming Pearls: A Sample of Brilliance", CACM 1987)
    over the k - 1 others.

    Parameters
    ----------
    codes : (n,) uint32 array
        The values.
    inside : (n,) bool array
        Whether the subset holds the value.
    picks : (n, w) uint32 array
        In column s, uniform numbers from 0 to ``k - 1 - w + s``. Subsets that hold the value leave
        the first column unused.
    k : int
        How many values.
    """
    if not JIT:
        return subsets_plain(codes, inside, picks, k)
    rows = np.zeros((codes.size, row_words(k)), np.uint64)
    subsets(codes, inside, picks, k - 1 - picks.shape[1], rows)
    return rows


@kernel
def subsets(codes: Any, inside: Any, picks: Any, first: Any, rows: Any) -> None:
    """Set the bits of each row; numbers of others skip the value itself."""
    for i in range(codes.size):
        own = np.uint64(codes[i])
        row = rows[i]
        start = 0
        if inside[i]:
            row[own >> _U6] |= _U1 << (own & _U63)
            start = 1
        for s in range(start, picks.shape[1]):
            pick = np.uint64(picks[i, s])
            if pick >= own:
                pick += _U1
            if row[pick >> _U6] >> (pick & _U63) & _U1:
                # Taken already: the newest number, which cannot be.
                pick = np.uint64(first + s)
                if pick >= own:
                    pick += _U1
            row[pick >> _U6] |= _U1 << (pick & _U63)


def subsets_plain(
    codes: NDArray[np.uint32], inside: NDArray[np.bool_], picks: NDArray[np.uint32], k: int
) -> Words:
    """Do the same step by step, all respondents at once."""
    n, w = picks.shape
    member = np.zeros((n, 64 * row_words(k)), np.bool_)
    everyone, own = np.arange(n), codes.astype(np.int64)
    member[everyone[inside], own[inside]] = True
    for s in range(w):
        rows = everyone if s else everyone[~inside]
        pick = picks[rows, s].astype(np.int64)
        pick += pick >= own[rows]
        newest = np.full(rows.size, k - 1 - w + s)
        newest += newest >= own[rows]
        member[rows, np.where(member[rows, pick], newest, pick)] = True
    return np.packbits(member, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def positions_of(rows: Words, w: int) -> NDArray[np.uint32]:
    """Return the positions of the w bits of each row, in increasing order: ``(n, w)``."""
    octets = rows.astype("<u8", copy=False).view(np.uint8)
    found = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))[1]
    return found.astype(np.uint32).reshape(len(rows), w)


def set_sizes(rows: Words) -> NDArray[np.int64]:
    """Return how many bits of each row are set."""
    sizes = np.zeros(len(rows), np.int64)
    for start in range(0, len(rows), 1 << 12):
        octets = rows[start : start + (1 << 12)].astype("<u8", copy=False).view(np.uint8)
        sizes[start : start + (1 << 12)] = np.unpackbits(octets, axis=1).sum(axis=1)
    return sizes
