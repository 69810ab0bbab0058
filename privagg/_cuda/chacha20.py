"""ChaCha20 (RFC 8439) on a CUDA device, fused with the addition.

A thread makes one block of the stream of every seed of its group and sums them in registers; the
accumulator is read and written once. Groups of seeds run side by side and add atomically: sums of
words wrap alike in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, types

from privagg._cuda.jit import device, kernel

__all__ = ["BLOCK_BYTES", "SEED_WORDS", "accumulate_32", "accumulate_64"]

BLOCK_BYTES = 64
SEED_WORDS = 11
"""32-bit words of a seed: the key's eight and the nonce's three."""

_16, _12, _8, _7 = (np.uint32(bits) for bits in (16, 12, 8, 7))
_EXPA, _ND_3, _2_BY, _TE_K = (
    np.uint32(word) for word in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
)
_ZERO32, _ZERO64 = np.uint32(0), np.uint64(0)
_32 = np.uint64(32)
_WORD = types.uint32
_WORD64 = types.uint64


@device
def _rotate(word: Any, left: Any) -> Any:
    return np.uint32(np.uint32(word << left) | np.uint32(word >> np.uint32(np.uint32(32) - left)))


@device
def _quarter_round(state: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Do a quarter round on four words of the state (RFC 8439, section 2.1)."""
    state[a] = np.uint32(state[a] + state[b])
    state[d] = _rotate(np.uint32(state[d] ^ state[a]), _16)
    state[c] = np.uint32(state[c] + state[d])
    state[b] = _rotate(np.uint32(state[b] ^ state[c]), _12)
    state[a] = np.uint32(state[a] + state[b])
    state[d] = _rotate(np.uint32(state[d] ^ state[a]), _8)
    state[c] = np.uint32(state[c] + state[d])
    state[b] = _rotate(np.uint32(state[b] ^ state[c]), _7)


@device
def _block(seeds: Any, seed: Any, counter: Any, initial: Any, state: Any) -> None:
    """Leave block `counter` of a stream in `state` (RFC 8439, section 2.3)."""
    initial[0], initial[1], initial[2], initial[3] = _EXPA, _ND_3, _2_BY, _TE_K
    for k in range(8):
        initial[4 + k] = seeds[seed * SEED_WORDS + k]
    initial[12] = counter
    for k in range(3):
        initial[13 + k] = seeds[seed * SEED_WORDS + 8 + k]
    for k in range(16):
        state[k] = initial[k]
    for _ in range(10):
        _quarter_round(state, 0, 4, 8, 12)
        _quarter_round(state, 1, 5, 9, 13)
        _quarter_round(state, 2, 6, 10, 14)
        _quarter_round(state, 3, 7, 11, 15)
        _quarter_round(state, 0, 5, 10, 15)
        _quarter_round(state, 1, 6, 11, 12)
        _quarter_round(state, 2, 7, 8, 13)
        _quarter_round(state, 3, 4, 9, 14)
    for k in range(16):
        state[k] = np.uint32(state[k] + initial[k])


@kernel
def accumulate_32(
    accumulator: Any,
    count: Any,
    seeds: Any,
    signs: Any,
    number: Any,
    group: Any,
    first_block: Any,
    blocks: Any,
    skipped: Any,
) -> None:
    """Add streams to 32-bit words.

    Parameters
    ----------
    accumulator, count : (count,) uint32
        What is added to.
    seeds, number : (number * 11,) uint32
        Keys and nonces.
    signs : (number,) int8
        1 or -1.
    group : int64
        Seeds of a group; there are as many groups as the grid is high.
    first_block, blocks : uint32, int64
        Which blocks of the streams.
    skipped : int64
        Words of the first block that come before the accumulator's first.
    """
    index = cuda.grid(1)
    if index < blocks:
        initial = cuda.local.array(16, _WORD)
        state = cuda.local.array(16, _WORD)
        sums = cuda.local.array(16, _WORD)
        for k in range(16):
            sums[k] = _ZERO32
        counter = np.uint32(np.uint64(first_block) + np.uint64(index))
        start = cuda.blockIdx.y * group
        for seed in range(start, min(start + group, number)):
            _block(seeds, seed, counter, initial, state)
            if signs[seed] > 0:
                for k in range(16):
                    sums[k] = np.uint32(sums[k] + state[k])
            else:
                for k in range(16):
                    sums[k] = np.uint32(sums[k] - state[k])
        for k in range(16):
            place = index * 16 + k - skipped
            if place >= 0 and place < count:
                cuda.atomic.add(accumulator, place, sums[k])


@kernel
def accumulate_64(
    accumulator: Any,
    count: Any,
    seeds: Any,
    signs: Any,
    number: Any,
    group: Any,
    first_block: Any,
    blocks: Any,
    skipped: Any,
) -> None:
    """Add streams to 64-bit words; parameters as of :func:`accumulate_32`."""
    index = cuda.grid(1)
    if index < blocks:
        initial = cuda.local.array(16, _WORD)
        state = cuda.local.array(16, _WORD)
        sums = cuda.local.array(8, _WORD64)
        for k in range(8):
            sums[k] = _ZERO64
        counter = np.uint32(np.uint64(first_block) + np.uint64(index))
        start = cuda.blockIdx.y * group
        for seed in range(start, min(start + group, number)):
            _block(seeds, seed, counter, initial, state)
            for k in range(8):
                word = (np.uint64(state[2 * k + 1]) << _32) | np.uint64(state[2 * k])
                if signs[seed] > 0:
                    sums[k] = sums[k] + word
                else:
                    sums[k] = sums[k] - word
        for k in range(8):
            place = index * 8 + k - skipped
            if place >= 0 and place < count:
                cuda.atomic.add(accumulator, place, sums[k])
