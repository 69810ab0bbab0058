"""Hashing values into a few cells with a function of each respondent's own, and its decoding.

The function of seed (a, b), both uniform words of w bits, is h(x) = ((a x + b) mod 2**w) cut into g
intervals: cell y is the words from ``low[y]`` to ``low[y + 1] - 1``. The ends of the intervals are
multiples of 2**(w - t), so that only the top t bits count.

For values below 2**m and t <= w - m + 1, the top t bits of a x + b are pairwise independent and
uniform over the seeds: exactly, not nearly (Dietzfelbinger, "Universal Hashing and k-wise
Independent Random Variables via Integer Arithmetic without Primes", STACS 1996, theorem 3).
So two different values fall into one cell with the same probability, the sum of the squared parts
of the cells, for every pair of values: what the estimator needs. Whether a value is in a cell is
one addition and one comparison: (a x + b - low[y]) mod 2**w < width.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel

__all__ = ["Cells", "count_supported", "hash_values"]

_TILE = 2048
"""Values whose counters are kept in the first cache."""

_REPORTS = 1 << 20
"""Reports counted before the 32-bit counters are emptied."""


class Cells:
    """The words of `bits` bits cut into `g` intervals whose ends are multiples of a step.

    Parameters
    ----------
    k : int
        How many values are hashed; for 32-bit words at most 2**16.
    g : int
        How many cells.
    bits : int
        Bits of the words: 32 or 64.
    """

    def __init__(self, k: int, g: int, bits: int) -> None:
        self.g, self.bits = g, bits
        self.top = bits - (k - 1).bit_length() + 1
        size, shift = 1 << self.top, bits - self.top
        ends = [-(-cell * size // g) for cell in range(g + 1)]
        parts = [ends[cell + 1] - ends[cell] for cell in range(g)]
        self.collision = Fraction(sum(part * part for part in parts), size * size)
        dtype = np.dtype(f"u{bits // 8}")
        self.low: NDArray[Any] = np.array([end << shift for end in ends[:-1]], dtype)
        self.width: NDArray[Any] = np.array([part << shift for part in parts], dtype)


def hash_values(
    values: NDArray[np.uint32], a: NDArray[Any], b: NDArray[Any], cells: Cells
) -> NDArray[np.uint32]:
    """Return the cell of each value under each respondent's own seed."""
    hashed = a * values.astype(a.dtype) + b
    found: NDArray[np.intp] = np.searchsorted(cells.low, hashed, side="right") - 1
    return found.astype(np.uint32)


def count_supported(
    a: NDArray[Any], b: NDArray[Any], y: NDArray[np.uint32], cells: Cells, k: int
) -> NDArray[np.int64]:
    """Return for each of k values how many reports have it in their cell."""
    base, width = b - cells.low[y], cells.width[y]
    counts = np.zeros(k, np.int64)
    for start in range(0, k, _TILE):
        part = counts[start : start + _TILE]
        if not JIT:
            part += decoded_plain(a, base, width, start, part.size)
            continue
        for from_ in range(0, a.size, _REPORTS):
            span = slice(from_, from_ + _REPORTS)
            tile = np.zeros(part.size, a.dtype)
            decode = decoded_32 if cells.bits == 32 else decoded_64
            decode(a[span], base[span], width[span], a.dtype.type(start), tile)
            part += tile.astype(np.int64)
    return counts


def decoded_plain(
    a: NDArray[Any], base: NDArray[Any], width: NDArray[Any], first: int, count: int
) -> NDArray[np.int64]:
    """Count value by value, all reports at once."""
    found = np.empty(count, np.int64)
    for at in range(count):
        found[at] = int((a * a.dtype.type(first + at) + base < width).sum())
    return found


@kernel
def decoded_32(a: Any, base: Any, width: Any, first: Any, counts: Any) -> None:
    """Add to `counts` how many reports support each value from `first` on; eight a turn.

    The inner loop is over values, so that a vector holds neighbouring values' hashes and the
    counters are read and written once for eight reports.
    """
    whole = a.size - a.size % 8
    for i in range(0, whole, 8):
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        a4, a5, a6, a7 = a[i + 4], a[i + 5], a[i + 6], a[i + 7]
        b0, b1, b2, b3 = base[i], base[i + 1], base[i + 2], base[i + 3]
        b4, b5, b6, b7 = base[i + 4], base[i + 5], base[i + 6], base[i + 7]
        w0, w1, w2, w3 = width[i], width[i + 1], width[i + 2], width[i + 3]
        w4, w5, w6, w7 = width[i + 4], width[i + 5], width[i + 6], width[i + 7]
        for j in range(counts.size):
            x = np.uint32(first + np.uint32(j))
            hits = counts[j]
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a0 * x) + b0) < w0))
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a1 * x) + b1) < w1))
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a2 * x) + b2) < w2))
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a3 * x) + b3) < w3))
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a4 * x) + b4) < w4))
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a5 * x) + b5) < w5))
            hits = np.uint32(hits + np.uint32(np.uint32(np.uint32(a6 * x) + b6) < w6))
            counts[j] = np.uint32(hits + np.uint32(np.uint32(np.uint32(a7 * x) + b7) < w7))
    for i in range(whole, a.size):
        for j in range(counts.size):
            x = np.uint32(first + np.uint32(j))
            hit = np.uint32(np.uint32(np.uint32(a[i] * x) + base[i]) < width[i])
            counts[j] = np.uint32(counts[j] + hit)


@kernel
def decoded_64(a: Any, base: Any, width: Any, first: Any, counts: Any) -> None:
    """Do the same with 64-bit words, for more than 2**16 values; two reports a turn."""
    whole = a.size - a.size % 2
    for i in range(0, whole, 2):
        a0, a1, b0, b1, w0, w1 = a[i], a[i + 1], base[i], base[i + 1], width[i], width[i + 1]
        for j in range(counts.size):
            x = first + np.uint64(j)
            counts[j] += np.uint64(a0 * x + b0 < w0) + np.uint64(a1 * x + b1 < w1)
    for i in range(whole, a.size):
        for j in range(counts.size):
            counts[j] += np.uint64(a[i] * (first + np.uint64(j)) + base[i] < width[i])
