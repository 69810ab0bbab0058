"""AES in counter mode (FIPS 197; NIST SP 800-38A, 6.5) on a CUDA device, fused with the addition.

Rounds look words up in one table, that of FIPS 197's S-box times the first column of MixColumns;
the other columns' are its rotations. Every block of threads holds the table 32 times in shared
memory, a copy for each lane of a warp, all words of a copy in a bank of its own: no two lanes
collide, whatever they look up (C. Tezcan, "Optimization of Advanced Encryption Standard on Graphics
Processing Units", IEEE Access 9, 2021, section IV). So the count of shared-memory cycles does not
depend on secrets. Constant time is still not promised on a device that others use at the same time;
key schedules look their words up in global memory.

Words are little-endian throughout: byte r of word c is row r, column c of the state.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, types
from numpy.typing import NDArray

from privagg._cuda.jit import device, kernel

__all__ = [
    "BLOCK_BYTES",
    "LANES",
    "TABLE_BYTES",
    "accumulate_32",
    "accumulate_64",
    "block_words",
    "expand_keys",
    "load_table",
    "table",
]

BLOCK_BYTES = 16
LANES = 32
TABLE_BYTES = 256 * LANES * 4
"""Bytes of shared memory of a block of threads."""

_LANES64 = np.uint64(LANES)
_BYTE = np.uint32(0xFF)
_8, _16, _24, _32 = (np.uint32(bits) for bits in (8, 16, 24, 32))
_W32 = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_ZERO32, _ZERO64 = np.uint32(0), np.uint64(0)
_ONE64 = np.uint64(1)
_TWO, _POLYNOMIAL, _TOP = np.uint32(2), np.uint32(0x11B), np.uint32(0x100)
_WORD = types.uint32


def _product(a: int, b: int) -> int:
    """Multiply in GF(2**8) modulo x**8 + x**4 + x**3 + x + 1."""
    result = 0
    while b:
        if b & 1:
            result ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return result


@cache
def table() -> NDArray[np.uint32]:
    """Return, for every byte x with s = S(x), the bytes (2s, s, s, 3s) as one word."""
    logarithm, power, element = [0] * 256, [0] * 255, 1
    for exponent in range(255):
        power[exponent], logarithm[element] = element, exponent
        element = _product(element, 3)
    words = []
    for x in range(256):
        inverse = power[-logarithm[x] % 255] if x else 0
        s = 0x63
        for turn in range(5):
            s ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
        words.append(_product(s, 2) | s << 8 | s << 16 | _product(s, 3) << 24)
    return np.array(words, np.uint32)


@device
def _left(word: Any, bits: Any) -> Any:
    return np.uint32(np.uint32(word << bits) | np.uint32(word >> np.uint32(_32 - bits)))


@device
def _look_up(shared: Any, byte: Any, lane: Any) -> Any:
    return shared[np.uint64(byte) * _LANES64 + lane]


@device
def _substitute(words: Any, word: Any) -> Any:
    """Replace each byte by the S-box's: the second byte of the table's word."""
    return np.uint32(
        ((words[word & _BYTE] >> _8) & _BYTE)
        | np.uint32(((words[(word >> _8) & _BYTE] >> _8) & _BYTE) << _8)
        | np.uint32(((words[(word >> _16) & _BYTE] >> _8) & _BYTE) << _16)
        | np.uint32(((words[(word >> _24) & _BYTE] >> _8) & _BYTE) << _24)
    )


@kernel
def expand_keys(keys: Any, words: Any, number: Any, key_words: Any, rounds: Any, out: Any) -> None:
    """Expand keys of 4 or 8 words into round keys (FIPS 197, section 5.2).

    Parameters
    ----------
    keys, number : (number * key_words,) uint32
        The keys.
    words : (256,) uint32
        The table.
    key_words, rounds : int64
        4 and 10, or 8 and 14.
    out : (number * 4 * (rounds + 1),) uint32
        Receives the round keys.
    """
    for seed in range(cuda.grid(1), number, cuda.gridsize(1)):
        base = seed * 4 * (rounds + 1)
        constant = np.uint32(1)
        for k in range(key_words):
            out[base + k] = keys[seed * key_words + k]
        for k in range(key_words, 4 * (rounds + 1)):
            word = out[base + k - 1]
            if k % key_words == 0:
                word = np.uint32(_substitute(words, _left(word, _24)) ^ constant)
                constant = np.uint32(constant * _TWO)
                if constant >= _TOP:
                    constant = np.uint32(constant ^ _POLYNOMIAL)
            elif key_words > 6 and k % key_words == 4:
                word = _substitute(words, word)
            out[base + k] = np.uint32(out[base + k - key_words] ^ word)


@device
def load_table(shared: Any, words: Any) -> None:
    """Copy the table into shared memory, once for each lane. Every thread has to call it."""
    for place in range(cuda.threadIdx.x, 256 * LANES, cuda.blockDim.x):
        shared[place] = words[place // LANES]
    cuda.syncthreads()


@device
def _round(shared: Any, lane: Any, a: Any, b: Any, c: Any, d: Any, key: Any) -> Any:
    """Return a column after SubBytes, ShiftRows, MixColumns and AddRoundKey."""
    return np.uint32(
        _look_up(shared, a & _BYTE, lane)
        ^ _left(_look_up(shared, (b >> _8) & _BYTE, lane), _8)
        ^ _left(_look_up(shared, (c >> _16) & _BYTE, lane), _16)
        ^ _left(_look_up(shared, (d >> _24) & _BYTE, lane), _24)
        ^ key
    )


@device
def _last_round(shared: Any, lane: Any, a: Any, b: Any, c: Any, d: Any, key: Any) -> Any:
    """Return a column after SubBytes, ShiftRows and AddRoundKey."""
    first = (_look_up(shared, a & _BYTE, lane) >> _8) & _BYTE
    second = (_look_up(shared, (b >> _8) & _BYTE, lane) >> _8) & _BYTE
    third = (_look_up(shared, (c >> _16) & _BYTE, lane) >> _8) & _BYTE
    fourth = (_look_up(shared, (d >> _24) & _BYTE, lane) >> _8) & _BYTE
    return np.uint32(
        first ^ np.uint32(second << _8) ^ np.uint32(third << _16) ^ np.uint32(fourth << _24) ^ key
    )


@device
def _swap(word: Any) -> Any:
    """Turn the order of a word's bytes round."""
    return np.uint32(
        np.uint32(word << _24)
        | np.uint32(((word >> _8) & _BYTE) << _16)
        | np.uint32(((word >> _16) & _BYTE) << _8)
        | np.uint32(word >> _24)
    )


@device
def block_words(
    shared: Any, lane: Any, keys: Any, base: Any, rounds: Any, high: Any, low: Any
) -> Any:
    """Return the four words of the encryption of one counter.

    Parameters
    ----------
    shared, lane : (8192,) uint32, uint64
        The tables, and which of them is this thread's.
    keys, base, rounds : uint32 array, int64, int64
        Round keys, from index `base` on.
    high, low : uint64
        The counter, as a number.
    """
    a = np.uint32(_swap(np.uint32(high >> _W32)) ^ keys[base])
    b = np.uint32(_swap(np.uint32(high & _LOW)) ^ keys[base + 1])
    c = np.uint32(_swap(np.uint32(low >> _W32)) ^ keys[base + 2])
    d = np.uint32(_swap(np.uint32(low & _LOW)) ^ keys[base + 3])
    for turn in range(1, rounds):
        at = base + 4 * turn
        e = _round(shared, lane, a, b, c, d, keys[at])
        f = _round(shared, lane, b, c, d, a, keys[at + 1])
        g = _round(shared, lane, c, d, a, b, keys[at + 2])
        h = _round(shared, lane, d, a, b, c, keys[at + 3])
        a, b, c, d = e, f, g, h
    at = base + 4 * rounds
    return (
        _last_round(shared, lane, a, b, c, d, keys[at]),
        _last_round(shared, lane, b, c, d, a, keys[at + 1]),
        _last_round(shared, lane, c, d, a, b, keys[at + 2]),
        _last_round(shared, lane, d, a, b, c, keys[at + 3]),
    )


@kernel
def accumulate_32(
    accumulator: Any,
    count: Any,
    words: Any,
    keys: Any,
    counters: Any,
    signs: Any,
    number: Any,
    group: Any,
    first_block: Any,
    blocks: Any,
    skipped: Any,
) -> None:
    """Add streams of AES-128 to 32-bit words.

    Parameters
    ----------
    accumulator, count : (count,) uint32
        What is added to.
    words : (256,) uint32
        The table.
    keys, number : (number * 44,) uint32
        Round keys.
    counters : (number * 2,) uint64
        First counter blocks as numbers: high word, low word.
    signs : (number,) int8
        1 or -1.
    group : int64
        Seeds of a group; there are as many groups as the grid is high.
    first_block, blocks : uint64, int64
        Which blocks of the streams.
    skipped : int64
        Words of the first block that come before the accumulator's first.
    """
    shared = cuda.shared.array(0, _WORD)
    load_table(shared, words)
    lane = np.uint64(cuda.threadIdx.x % LANES)
    index = cuda.grid(1)
    if index < blocks:
        w, x, y, z = _ZERO32, _ZERO32, _ZERO32, _ZERO32
        start = cuda.blockIdx.y * group
        ahead = first_block + np.uint64(index)
        for seed in range(start, min(start + group, number)):
            low = counters[2 * seed + 1] + ahead
            high = counters[2 * seed] + (_ONE64 if low < ahead else _ZERO64)
            a, b, c, d = block_words(shared, lane, keys, seed * 44, 10, high, low)
            if signs[seed] > 0:
                w, x = np.uint32(w + a), np.uint32(x + b)
                y, z = np.uint32(y + c), np.uint32(z + d)
            else:
                w, x = np.uint32(w - a), np.uint32(x - b)
                y, z = np.uint32(y - c), np.uint32(z - d)
        place = index * 4 - skipped
        if place >= 0 and place < count:
            cuda.atomic.add(accumulator, place, w)
        if place + 1 >= 0 and place + 1 < count:
            cuda.atomic.add(accumulator, place + 1, x)
        if place + 2 >= 0 and place + 2 < count:
            cuda.atomic.add(accumulator, place + 2, y)
        if place + 3 >= 0 and place + 3 < count:
            cuda.atomic.add(accumulator, place + 3, z)


@kernel
def accumulate_64(
    accumulator: Any,
    count: Any,
    words: Any,
    keys: Any,
    counters: Any,
    signs: Any,
    number: Any,
    group: Any,
    first_block: Any,
    blocks: Any,
    skipped: Any,
) -> None:
    """Add streams of AES-128 to 64-bit words; parameters as of :func:`accumulate_32`."""
    shared = cuda.shared.array(0, _WORD)
    load_table(shared, words)
    lane = np.uint64(cuda.threadIdx.x % LANES)
    index = cuda.grid(1)
    if index < blocks:
        x, y = _ZERO64, _ZERO64
        start = cuda.blockIdx.y * group
        ahead = first_block + np.uint64(index)
        for seed in range(start, min(start + group, number)):
            low = counters[2 * seed + 1] + ahead
            high = counters[2 * seed] + (_ONE64 if low < ahead else _ZERO64)
            a, b, c, d = block_words(shared, lane, keys, seed * 44, 10, high, low)
            first = (np.uint64(b) << _W32) | np.uint64(a)
            second = (np.uint64(d) << _W32) | np.uint64(c)
            if signs[seed] > 0:
                x, y = x + first, y + second
            else:
                x, y = x - first, y - second
        place = index * 2 - skipped
        if place >= 0 and place < count:
            cuda.atomic.add(accumulator, place, x)
        if place + 1 >= 0 and place + 1 < count:
            cuda.atomic.add(accumulator, place + 1, y)
