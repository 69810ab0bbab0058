"""Numbers to levels on a CUDA device: the same words as :mod:`privagg._levels` makes.

The random words of the rounding are those of :class:`privagg._levels.Noise`, AES-256 in counter
mode, made where they are used. Comparisons are of integers: a product that a subtraction follows
could be fused on a device, and then rounds otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, types

from privagg._cuda import aes
from privagg._cuda.arrays import grid, launch, upload
from privagg._cuda.jit import device, kernel
from privagg._cuda.streams import AES_THREADS, round_keys

__all__ = ["encode_floats", "encode_integers", "float_kernel", "integer_kernel"]

_0, _1 = np.uint64(0), np.uint64(1)
_32 = np.uint64(32)
_LOW_32 = np.uint64(2**32 - 1)
_TWO_32 = 4294967296.0
_WORD = types.uint32


@device
def _level(value: Any, noise: Any, clip: Any, scale: Any, top: Any) -> Any:
    """Return the level of a finite value: rounded up if the noise is below its fraction.

    Levels stay below 2**32, so that 32 bits of the fraction fit below them in one word; what is cut
    off says whether a noise equal to those bits is still below.
    """
    level = (min(max(value, -clip), clip) + clip) * scale
    scaled = level * _TWO_32  # exact: only the exponent changes
    fixed = np.uint64(scaled)
    whole, fraction = fixed >> _32, fixed & _LOW_32
    word = np.uint64(noise)
    up = _1 if word < fraction or (word == fraction and np.float64(fixed) < scaled) else _0
    return min(whole + up, top)


@kernel
def float_kernel(
    values: Any,
    count: Any,
    words: Any,
    keys: Any,
    clip: Any,
    scale: Any,
    top: Any,
    weight: Any,
    out: Any,
    found: Any,
) -> None:
    """Clip, scale, round and weight.

    Parameters
    ----------
    values, count : (count,) float32 or float64
        The numbers.
    words : (256,) uint32
        The table of AES.
    keys : (60,) uint32
        Round keys of AES-256.
    clip, scale : float64
        As of :func:`privagg._levels.float_levels`.
    top, weight : uint64
        Likewise.
    out : (count,) uint32 or uint64
        Receives the words.
    found : (2,) uint64
        Counts what was clipped, and what is not finite.
    """
    shared = cuda.shared.array(0, _WORD)
    aes.load_table(shared, words)
    lane = np.uint64(cuda.threadIdx.x % aes.LANES)
    clipped, odd = _0, _0
    for block in range(cuda.grid(1), (count + 3) // 4, cuda.gridsize(1)):
        noise = aes.block_words(shared, lane, keys, 0, 14, _0, np.uint64(block))
        for k in range(4):
            i = 4 * block + k
            if i < count:
                value = np.float64(values[i])
                if value - value == 0.0:
                    if abs(value) > clip:
                        clipped = clipped + _1
                    out[i] = weight * _level(value, noise[k], clip, scale, top)
                else:
                    odd = odd + _1
    if clipped > _0:
        cuda.atomic.add(found, 0, clipped)
    if odd > _0:
        cuda.atomic.add(found, 1, odd)


@kernel
def integer_kernel(
    values: Any, count: Any, offset: Any, top: Any, weight: Any, out: Any, found: Any
) -> None:
    """Add the offset and weight; count what is out of range in ``found[1]``."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        # Modulo 2**64 a value below the range becomes huge, so one comparison checks both ends.
        level = np.uint64(values[i]) + offset
        if level > top:
            cuda.atomic.add(found, 1, _1)
        out[i] = weight * level


def encode_floats(
    values: Any, clip: float, scale: float, top: int, weight: int, key: bytes, out: Any
) -> tuple[int, int]:
    """Encode a flat device array into another; return counts of clipped and of other values.

    `key` has 32 bytes, fresh for each vector. The arrays are on the current device.
    """
    count, found = int(values.size), upload(np.zeros(2, np.uint64))
    table = upload(aes.table())
    keys = round_keys(np.frombuffer(key, np.uint8).reshape(1, 32), table)
    blocks, _ = grid(-(-count // 4))
    launch(
        float_kernel,
        blocks,
        AES_THREADS,
        values,
        count,
        table,
        keys,
        clip,
        scale,
        np.uint64(top),
        np.uint64(weight),
        out,
        found,
        shared=aes.TABLE_BYTES,
    )
    clipped, odd = found.copy_to_host().tolist()
    return clipped, odd


def encode_integers(values: Any, offset: int, top: int, weight: int, out: Any) -> int:
    """Encode a flat device array of signed integers; return how many are out of range."""
    count, found = int(values.size), upload(np.zeros(2, np.uint64))
    settings = (np.uint64(offset), np.uint64(top), np.uint64(weight))
    launch(integer_kernel, *grid(count), values, count, *settings, out, found)
    return int(found.copy_to_host()[1])
