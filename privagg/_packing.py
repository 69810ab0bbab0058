"""Kernels that pack unsigned integers of 1 to 64 bits side by side, and take them apart again.

The layout is a bit string, least significant bit first: bit ``j`` of value ``i`` is bit
``i * bits + j`` of the string, and bit ``k`` of the string is bit ``k % 8`` of byte ``k // 8``.
Bits after the last value are zero.

Each kernel has a plain NumPy twin, which serves ``PRIVAGG_JIT=0`` and is the tests' oracle. Nothing
here validates: :mod:`privagg.wire` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = ["pack_kernel", "pack_plain", "unpack_kernel", "unpack_plain"]

Unsigned = NDArray[np.uint32] | NDArray[np.uint64]
"""The word types that cross the wire."""

# Numba turns uint64 mixed with a signed integer into a float, so every constant is typed.
_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U3 = np.uint64(3)
_U7 = np.uint64(7)
_U8 = np.uint64(8)
_U64 = np.uint64(64)

_CHUNK = 1 << 15
"""Values the plain path expands to single bits at once; a multiple of 8 ends on a whole byte."""


@kernel
def pack_kernel(values: Any, width: Any, out: Any) -> Any:
    """Pack `values` into the 64-bit words of `out`; return the OR of all values.

    Parameters
    ----------
    values : (d,) uint32 or uint64 array
        What to pack.
    width : uint64
        Bits per value, 1 to 64.
    out : (ceil(d * width / 64),) uint64 array
        Receives the bit string, in words of the machine's own byte order.

    Returns
    -------
    uint64
        The OR of all values: it has a bit at `width` or above if, and only if, a value does not
        fit (and `out` is then meaningless).
    """
    seen = _U0
    word = _U0
    fill = _U0
    at = _U0
    for i in range(np.uint64(values.size)):
        value = np.uint64(values[i])
        seen |= value
        word |= value << fill
        fill += width
        if fill >= _U64:
            out[at] = word
            at += _U1
            fill -= _U64
            # The high part of `value` that did not fit. A shift by 64 is undefined: when the word
            # was filled exactly, nothing is left over.
            word = value >> (width - fill) if fill > _U0 else _U0
    if fill > _U0:
        out[at] = word
    return seen


def pack_plain(values: Unsigned, bits: int) -> NDArray[np.uint8]:
    """Pack `values` by expanding them to single bits; return ``(ceil(d * bits / 8),)`` uint8."""
    parts = [np.empty(0, np.uint8)]
    for start in range(0, values.size, _CHUNK):
        wide = values[start : start + _CHUNK].astype("<u8")
        single = np.unpackbits(wide.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        parts.append(np.packbits(single[:, :bits].reshape(-1), bitorder="little"))
    return np.concatenate(parts)


@kernel
def _load(data: Any, at: Any) -> Any:
    """Return the 8 bytes from `at` as a little-endian word (the compiler makes it one load)."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@kernel
def unpack_kernel(data: Any, width: Any, mask: Any, out: Any) -> None:
    """Take `out.size` values of `width` bits out of `data`.

    Parameters
    ----------
    data : (ceil(d * width / 8),) uint8 array
        The bit string.
    width, mask : uint64
        Bits per value, 1 to 64, and ``2**width - 1``.
    out : (d,) uint32 or uint64 array
        Receives the values.
    """
    size = np.uint64(data.size)
    count = np.uint64(out.size)
    # Values whose nine bytes lie within `data` need no bounds check: 8 for the word, and one more
    # for widths above 57, whose bits can spill over.
    inner = _U0
    if size > _U8:
        inner = min(count, ((size - _U8) * _U8 - _U1) // width + _U1)
    bit = _U0
    if width <= np.uint64(57):
        for i in range(inner):
            out[i] = (_load(data, bit >> _U3) >> (bit & _U7)) & mask
            bit += width
    else:
        for i in range(inner):
            at = bit >> _U3
            shift = bit & _U7
            value = _load(data, at) >> shift
            if shift > _U0:
                value |= np.uint64(data[at + _U8]) << (_U64 - shift)
            out[i] = value & mask
            bit += width
    for i in range(inner, count):
        value = _U0
        done = _U0
        while done < width:
            at = bit + done
            shift = at & _U7
            value |= (np.uint64(data[at >> _U3]) >> shift) << done
            done += _U8 - shift
        out[i] = value & mask
        bit += width


def unpack_plain(
    data: NDArray[np.uint8], count: int, bits: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Take `count` values of `bits` bits out of `data`; return a ``(count,)`` array of `dtype`."""
    out = np.empty(count, dtype)
    for start in range(0, count, _CHUNK):
        part = out[start : start + _CHUNK]
        first = start * bits // 8
        single = np.unpackbits(
            data[first : first + (part.size * bits + 7) // 8],
            count=part.size * bits,
            bitorder="little",
        )
        wide = np.zeros((part.size, 64), np.uint8)
        wide[:, :bits] = single.reshape(-1, bits)
        part[:] = np.packbits(wide, axis=1, bitorder="little").reshape(-1).view("<u8")
    return out
