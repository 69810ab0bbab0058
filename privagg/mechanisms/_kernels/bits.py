"""Rows of random bits, made and counted 64 at a time.

A bit that is set with probability ``count / 2**bits`` is the comparison of a uniform number of that
many digits with `count`. Digit by digit, from the most significant, a whole word of such bits is
compared at once: after each digit half of those still undecided are decided. All words take twelve
digits; the few that hold an undecided bit then (one in 64) take twelve more, and so on. So nothing
is cut off, and yet most words cost twelve words of randomness. The words taken do not depend on any
respondent's value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg.mechanisms._draws import Draws

__all__ = ["count_bits", "mask_rows", "noise_rows", "row_words", "set_bits"]

_GROUP = 12
"""Digits compared before the undecided words are looked at; a multiple of four."""

_TILE = 4096
"""Words of bits made at once: their digits take 384 KiB."""

_CODES = 1 << 15
"""Codes whose words are drawn at once."""

_CHUNK = 16 * _TILE
"""Words of bits whose undecided ones are looked at together."""

_ALL = np.uint64(2**64 - 1)
_U0 = np.uint64(0)
_U1 = np.uint64(1)

Words = NDArray[np.uint64]


def row_words(width: int) -> int:
    """Return how many 64-bit words a row of `width` bits takes."""
    return (width + 63) // 64


def noise_rows(rows: int, width: int, count: int, bits: int, draws: Draws) -> Words:
    """Return ``(rows, ceil(width / 64))`` words of independent bits.

    Each of the first `width` bits of a row is set with probability ``count / 2**bits``, exactly;
    the bits after them are zero.
    """
    words = row_words(width)
    out = np.empty(rows * words, np.uint64)
    digits = np.array([count >> bits - 1 - at & 1 for at in range(bits)], np.uint64) * _ALL
    random = np.empty(_GROUP * min(_TILE, out.size), np.uint64)
    # After the last digit that is one, nothing more is below; the kernel takes four at a time.
    last = int(np.flatnonzero(digits)[-1]) // 4 * 4 + 4
    open_ = np.empty(min(_CHUNK, out.size), np.uint64)
    for start in range(0, out.size, _CHUNK):
        part = out[start : start + _CHUNK]
        still = open_[: part.size]
        part[:] = 0
        still[:] = _ALL
        for tile in range(0, part.size, _TILE):
            span = slice(tile, tile + _TILE)
            _compare(part[span], still[span], digits[:_GROUP], random, draws)
        for first in range(_GROUP, last, _GROUP):
            at = np.flatnonzero(still)
            if not at.size:
                break
            below, undecided = part[at], still[at]
            for tile in range(0, at.size, _TILE):
                span = slice(tile, tile + _TILE)
                more = digits[first : min(first + _GROUP, last)]
                _compare(below[span], undecided[span], more, random, draws)
            part[at], still[at] = below, undecided
    found = out.reshape(rows, words)
    mask_rows(found, width)
    return found


def _compare(below: Words, undecided: Words, digits: Words, buffer: Words, draws: Draws) -> None:
    """Compare some more digits; bits found below are set, and decided ones closed."""
    random = buffer[: digits.size * below.size].reshape(digits.size, -1)
    draws.fill(random)
    if JIT:
        compared(random, digits, below, undecided)
    else:
        compared_plain(random, digits, below, undecided)


@kernel
def compared(random: Any, digits: Any, below: Any, undecided: Any) -> None:
    """Compare digits of ``(digits, words)`` random words with a number's, in place.

    Four digits at a time, a multiple of which there must be: the words in between stay in
    registers. 512 words at a time: all of them stay in the first cache.
    """
    for start in range(0, below.size, 512):
        found, open_ = below[start : start + 512], undecided[start : start + 512]
        for at in range(0, digits.size, 4):
            d0, d1, d2, d3 = digits[at], digits[at + 1], digits[at + 2], digits[at + 3]
            r0, r1 = random[at, start : start + 512], random[at + 1, start : start + 512]
            r2, r3 = random[at + 2, start : start + 512], random[at + 3, start : start + 512]
            for i in range(found.size):
                still = open_[i]
                smaller = found[i] | still & d0 & ~r0[i]
                still &= ~(d0 ^ r0[i])
                smaller |= still & d1 & ~r1[i]
                still &= ~(d1 ^ r1[i])
                smaller |= still & d2 & ~r2[i]
                still &= ~(d2 ^ r2[i])
                smaller |= still & d3 & ~r3[i]
                still &= ~(d3 ^ r3[i])
                found[i] = smaller
                open_[i] = still


def compared_plain(random: Words, digits: Words, below: Words, undecided: Words) -> None:
    """Do the same on single bits, each a number of its own."""
    single = np.unpackbits(random.view(np.uint8).reshape(len(digits), -1), axis=1).astype(np.int64)
    scale = 2 ** np.arange(len(digits) - 1, -1, -1)
    numbers = scale @ single
    target = int(scale @ (digits & _U1).astype(np.int64))
    still = np.unpackbits(undecided.view(np.uint8)).astype(bool)
    smaller = np.packbits(still & (numbers < target)).view(np.uint64)
    equal = np.packbits(still & (numbers == target)).view(np.uint64)
    below |= smaller
    undecided[:] = equal


def mask_rows(rows: Words, width: int) -> None:
    """Set the bits from `width` on to zero, in place."""
    if width % 64:
        rows[:, -1] &= np.uint64((1 << width % 64) - 1)


def set_bits(rows: Words, codes: NDArray[np.uint32], one: int, bits: int, draws: Draws) -> None:
    """Draw the bit at each row's code anew: set with probability ``one / 2**bits``, in place."""
    for start in range(0, codes.size, _CODES):
        part, own = rows[start : start + _CODES], codes[start : start + _CODES]
        words = draws.words(own.size, bits)
        if JIT:
            replaced_bits(part, own, words, words.dtype.type(one))
        else:
            replaced_bits_plain(part, own, words, one)


@kernel
def replaced_bits(rows: Any, codes: Any, words: Any, one: Any) -> None:
    """Put a bit at the code of each row: whether its word is below `one`."""
    for i in range(codes.size):
        code = np.uint64(codes[i])
        shift = code & np.uint64(63)
        at = code >> np.uint64(6)
        lit = np.uint64(words[i] < one)
        rows[i, at] = rows[i, at] & ~(_U1 << shift) | lit << shift


def replaced_bits_plain(
    rows: Words, codes: NDArray[np.uint32], words: NDArray[Any], one: int
) -> None:
    """Do the same with whole arrays."""
    at = np.arange(codes.size), (codes >> np.uint32(6)).astype(np.intp)
    shift = (codes & np.uint32(63)).astype(np.uint64)
    lit = (words < words.dtype.type(one)).astype(np.uint64)
    rows[at] = rows[at] & ~(_U1 << shift) | lit << shift


def count_bits(rows: Words, width: int) -> NDArray[np.int64]:
    """Return how many rows have each bit set, ``(width,)``."""
    words = rows.shape[1]
    counts = np.zeros(words * 64, np.int64)
    if not JIT:
        for start in range(0, len(rows), 1 << 12):
            octets = rows[start : start + (1 << 12)].astype("<u8").view(np.uint8)
            counts += np.unpackbits(octets, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
        return counts[:width]
    flat = np.ascontiguousarray(rows).reshape(-1)
    lanes = words * _LANES
    positions = np.zeros((_DIGITS, lanes), np.uint64)
    by_lane = np.zeros((lanes, 64), np.int64)
    counted(flat, positions, by_lane)
    total: NDArray[np.int64] = by_lane.reshape(_LANES, words * 64).sum(axis=0)
    return total[:width]


_LANES = 8
_DIGITS = 12
_FLUSH = 1 << (_DIGITS - 4)
"""Blocks of 16 rows after which the vertical counters could overflow."""


@kernel
def _add3(a: Any, b: Any, c: Any) -> Any:
    """Add three bits in each place: the carry and the sum."""
    half = a ^ b
    return (a & b) | (half & c), half ^ c


@kernel
def _flush(positions: Any, by_lane: Any) -> None:
    """Add the vertical counters to the counts, and clear them."""
    for digit in range(positions.shape[0]):
        for lane in range(positions.shape[1]):
            word = positions[digit, lane]
            if word != _U0:
                counts = by_lane[lane]
                for bit in range(64):
                    counts[bit] += np.int64((word >> np.uint64(bit)) & _U1) << digit
                positions[digit, lane] = _U0


@kernel
def counted(flat: Any, positions: Any, by_lane: Any) -> None:
    """Count the bits of a flat run of words, lane by lane (word modulo the number of lanes).

    Positional population count: sixteen words of a lane are added bit-sliced by a tree of full
    adders, and the carry into the sixteens ripples through vertical counters (Mula, Kurz, Lemire,
    "Faster Population Counts Using AVX2 Instructions", 2018, applied to positions).
    """
    lanes = positions.shape[1]
    ones, twos, fours, eights = positions[0], positions[1], positions[2], positions[3]
    block = 16 * lanes
    whole = flat.size // block
    filled = 0
    for number in range(whole):
        part = flat[number * block : (number + 1) * block]
        r0, r1, r2, r3 = part[:lanes], part[lanes:], part[2 * lanes :], part[3 * lanes :]
        r4, r5, r6, r7 = part[4 * lanes :], part[5 * lanes :], part[6 * lanes :], part[7 * lanes :]
        s0, s1, s2, s3 = (
            part[8 * lanes :],
            part[9 * lanes :],
            part[10 * lanes :],
            part[11 * lanes :],
        )
        s4, s5, s6, s7 = (
            part[12 * lanes :],
            part[13 * lanes :],
            part[14 * lanes :],
            part[15 * lanes :],
        )
        for i in range(lanes):
            a, one = _add3(ones[i], r0[i], r1[i])
            b, one = _add3(one, r2[i], r3[i])
            c, two = _add3(twos[i], a, b)
            a, one = _add3(one, r4[i], r5[i])
            b, one = _add3(one, r6[i], r7[i])
            d, two = _add3(two, a, b)
            e, four = _add3(fours[i], c, d)
            a, one = _add3(one, s0[i], s1[i])
            b, one = _add3(one, s2[i], s3[i])
            c, two = _add3(two, a, b)
            a, one = _add3(one, s4[i], s5[i])
            b, one = _add3(one, s6[i], s7[i])
            d, two = _add3(two, a, b)
            f, four = _add3(four, c, d)
            carry, eight = _add3(eights[i], e, f)
            ones[i], twos[i], fours[i], eights[i] = one, two, four, eight
            for digit in range(4, _DIGITS):
                old = positions[digit, i]
                positions[digit, i] = old ^ carry
                carry &= old
        filled += 1
        if filled == _FLUSH - 1:
            _flush(positions, by_lane)
            filled = 0
    _flush(positions, by_lane)
    for at in range(whole * block, flat.size):
        counts = by_lane[at % lanes]
        for bit in range(64):
            counts[bit] += np.int64((flat[at] >> np.uint64(bit)) & _U1)
