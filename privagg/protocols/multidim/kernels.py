"""Reports with fakes as rows of bits: made attribute by attribute, and counted.

Each respondent has one word of 64 bits for the true value, whose top bits are compared with the
thresholds, and one of 32 bits per attribute for a fake value; unary attributes with random fakes
take one more for the bit of the value. Words are drawn whether or not they are used, so that how
many are drawn says nothing of anyone. Each kernel has a plain twin in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg.protocols.multidim.fields import Counts

__all__ = [
    "Rows",
    "codes_of",
    "count_codes",
    "draw_fakes",
    "put_codes",
    "put_true",
    "set_true_bits",
]

Rows = NDArray[np.uint64]

_U1 = np.uint64(1)
_U6 = np.uint64(6)
_U32 = np.uint64(32)
_U63 = np.uint64(63)
_U64 = np.uint64(64)


def draw_fakes(words: NDArray[np.uint32], ends: Counts | None, k: int) -> NDArray[np.uint32]:
    """Return a fake value for each word.

    Parameters
    ----------
    words : (n,) uint32 array
        Uniform.
    ends : (k,) uint64 array, optional
        For a prior: the first word that does not draw value v or one before it. Without, the fakes
        are uniform: the word times k, the high half of it.
    k : int
        How many values.
    """
    if ends is not None:
        return np.searchsorted(ends, words.astype(np.uint64), side="right").astype(np.uint32)
    return (words.astype(np.uint64) * np.uint64(k) >> _U32).astype(np.uint32)


def put_true(
    fakes: NDArray[np.uint32],
    codes: NDArray[np.uint32],
    true: NDArray[np.bool_],
    words: Rows,
    bits: int,
    other: int,
    k: int,
) -> None:
    """Replace the fakes of those whose true attribute this is by randomised response, in place.

    Parameters
    ----------
    fakes, codes : (n,) uint32 array
        The fakes, and the values.
    true : (n,) bool array
        Whose true attribute this is.
    words : (n,) uint64 array
        Uniform; the top `bits` of them count.
    bits, other, k : int
        Of the :class:`~privagg.mechanisms.exact.Split`.
    """
    replace = _put_true if JIT else put_true_plain
    replace(fakes, codes, true, words, np.uint64(64 - bits), np.uint64(other), np.uint64(k))


@kernel
def _put_true(
    fakes: Any, codes: Any, true: Any, words: Any, shift: Any, other: Any, k: Any
) -> None:
    lies = (k - _U1) * other
    for i in range(codes.size):
        if true[i]:
            word = words[i] >> shift
            value = codes[i]
            if word < lies:
                at = np.uint32(word // other)
                value = np.uint32(at + np.uint32(1)) if at >= value else at
            fakes[i] = value


def put_true_plain(
    fakes: NDArray[np.uint32],
    codes: NDArray[np.uint32],
    true: NDArray[np.bool_],
    words: Rows,
    shift: Any,
    other: Any,
    k: Any,
) -> None:
    """Do the same with whole arrays."""
    word = words[true] >> shift
    own = codes[true].astype(np.uint64)
    at = word // other
    at += at >= own
    fakes[true] = np.where(word < (k - _U1) * other, at, own).astype(np.uint32)


def put_codes(rows: Rows, values: NDArray[np.uint32], offset: int, width: int) -> None:
    """Write a value of `width` bits into each row from bit `offset` on, where zeros stand."""
    put = _put_codes if JIT else put_codes_plain
    put(rows, values, np.uint64(offset), np.uint64(width))


@kernel
def _put_codes(rows: Any, values: Any, offset: Any, width: Any) -> None:
    at, shift = offset >> _U6, offset & _U63
    spills = shift + width > _U64
    for i in range(values.size):
        value = np.uint64(values[i])
        rows[i, at] |= value << shift
        if spills:
            rows[i, at + _U1] |= value >> (_U64 - shift)


def put_codes_plain(rows: Rows, values: NDArray[np.uint32], offset: Any, width: Any) -> None:
    """Do the same bit by bit."""
    for bit in range(int(width)):
        at = int(offset) + bit
        lit = values.astype(np.uint64) >> np.uint64(bit) & _U1
        rows[:, at // 64] |= lit << np.uint64(at % 64)


def codes_of(rows: Rows, offset: int, width: int) -> NDArray[np.uint32]:
    """Return the value of `width` bits that each row has from bit `offset` on."""
    at, shift = divmod(offset, 64)
    found = rows[:, at] >> np.uint64(shift)
    if shift + width > 64:
        found |= rows[:, at + 1] << np.uint64(64 - shift)
    return (found & np.uint64((1 << width) - 1)).astype(np.uint32)


def count_codes(rows: Rows, offset: int, width: int) -> NDArray[np.int64]:
    """Return how many rows have each value of `width` bits there, ``(2**width,)``."""
    size = 1 << width
    if not JIT:
        return np.bincount(codes_of(rows, offset, width), minlength=size).astype(np.int64)
    tables = np.zeros((2, size), np.int64)
    _count_codes(rows, np.uint64(offset), np.uint64(width), tables)
    found: NDArray[np.int64] = tables.sum(axis=0)
    return found


@kernel
def _count_codes(rows: Any, offset: Any, width: Any, tables: Any) -> None:
    """Count into two tables in turn, so that equal neighbours need not wait for one another."""
    at, shift = offset >> _U6, offset & _U63
    mask = (_U1 << width) - _U1
    spills = shift + width > _U64
    for i in range(rows.shape[0]):
        value = rows[i, at] >> shift
        if spills:
            value |= rows[i, at + _U1] << (_U64 - shift)
        tables[i & 1, value & mask] += 1


def set_true_bits(
    rows: Rows,
    places: NDArray[np.uint32],
    true: NDArray[np.bool_],
    words: NDArray[Any],
    shift: int,
    one: int,
) -> None:
    """Set the bit at each row's place anew, where `true` says so, in place.

    Parameters
    ----------
    rows : (n, w) uint64 array
        The reports.
    places : (n,) uint32 array
        Bits, counted from the start of the row.
    true : (n,) bool array
        Which rows to change.
    words : (n,) uint32 or uint64 array
        Uniform; ``word >> shift`` below `one` sets the bit, otherwise it is cleared.
    shift, one : int
        As above.
    """
    change = _set_true_bits if JIT else set_true_bits_plain
    change(rows, places, true, words, np.uint64(shift), np.uint64(one))


@kernel
def _set_true_bits(rows: Any, places: Any, true: Any, words: Any, shift: Any, one: Any) -> None:
    for i in range(places.size):
        if true[i]:
            place = np.uint64(places[i])
            at, bit = place >> _U6, place & _U63
            lit = np.uint64((np.uint64(words[i]) >> shift) < one)
            rows[i, at] = rows[i, at] & ~(_U1 << bit) | lit << bit


def set_true_bits_plain(
    rows: Rows,
    places: NDArray[np.uint32],
    true: NDArray[np.bool_],
    words: NDArray[Any],
    shift: Any,
    one: Any,
) -> None:
    """Do the same with whole arrays."""
    chosen = np.flatnonzero(true)
    at = chosen, (places[chosen] >> np.uint32(6)).astype(np.intp)
    bit = (places[chosen] & np.uint32(63)).astype(np.uint64)
    lit = (words[chosen].astype(np.uint64) >> shift < one).astype(np.uint64)
    rows[at] = rows[at] & ~(_U1 << bit) | lit << bit
