"""Bit-packed vectors on a CUDA device, in the layout of :mod:`privagg._packing`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from privagg._cuda.arrays import empty, grid, launch
from privagg._cuda.jit import device, kernel

__all__ = ["add_unpacked", "keep_low_bits", "mask_words", "unpack", "unpack_add", "unpack_store"]

_0, _1, _3, _7, _8 = (np.uint64(number) for number in (0, 1, 3, 7, 8))


@device
def _value(data: Any, index: Any, width: Any, mask: Any) -> Any:
    """Return value `index`, byte by byte; no byte after its last bit is read."""
    bit = np.uint64(index) * width
    value, done = _0, _0
    while done < width:
        at = bit + done
        shift = at & _7
        value = value | ((np.uint64(data[at >> _3]) >> shift) << done)
        done = done + (_8 - shift)
    return value & mask


@kernel
def unpack_store(data: Any, width: Any, mask: Any, out: Any, count: Any) -> None:
    """Write `count` values of `width` bits into words."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        out[i] = _value(data, i, width, mask)


@kernel
def unpack_add(data: Any, width: Any, mask: Any, out: Any, count: Any) -> None:
    """Add `count` values of `width` bits to words, which wrap."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        out[i] = np.uint64(out[i]) + _value(data, i, width, mask)


@kernel
def mask_words(out: Any, mask: Any, count: Any) -> None:
    """Keep the bits of `mask` of every word."""
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        out[i] = np.uint64(out[i]) & mask


def unpack(data: Any, count: int, bits: int, dtype: np.dtype[Any]) -> Any:
    """Return `count` values out of a flat device array of bytes, on the current device."""
    out = empty(count, dtype)
    if count:
        _launch(unpack_store, data, bits, out, count)
    return out


def add_unpacked(data: Any, bits: int, accumulator: Any) -> None:
    """Add the values of a bit-packed vector to a flat device array as long as it."""
    count = int(accumulator.size)
    if count:
        _launch(unpack_add, data, bits, accumulator, count)


def keep_low_bits(accumulator: Any, bits: int) -> None:
    """Reduce the words of a flat device array modulo ``2**bits``, in place."""
    count = int(accumulator.size)
    if count:
        launch(mask_words, *grid(count), accumulator, np.uint64(2**bits - 1), count)


def _launch(kernel: Any, data: Any, bits: int, out: Any, count: int) -> None:
    width, mask = np.uint64(bits), np.uint64(2**bits - 1)
    launch(kernel, *grid(count), data, width, mask, out, count)
