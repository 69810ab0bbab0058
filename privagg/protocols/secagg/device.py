"""The server's vectors on a CUDA device.

Keys are agreed and secrets rebuilt on the host; the streams of the masks, which are most of the
work of a long vector, are made and taken off on the device. What a
:class:`~privagg.protocols.secagg.streaming.StreamingServer` does on NumPy arrays, it does on a CUDA
array if that is its accumulator. :func:`unmask_sum` does it at once, from seeds and a packed sum.

Guarantee: the sum is the one that the host computes. The device sees what the server sees; who else
may read its memory, or time what runs there, is for the operator to know
(:mod:`privagg._cuda.aes`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import prg, wire
from privagg._cuda import arrays
from privagg._validate import whole
from privagg.encoding import Aggregate
from privagg.errors import UsageError
from privagg.protocols.secagg import tiles
from privagg.protocols.secagg.params import Params

__all__ = ["MEMORY", "add", "clear", "reduce", "require", "to_host", "unmask_sum"]

MEMORY = 1 << 30
"""Bytes of the device that :func:`unmask_sum` takes unless told otherwise."""

_SEEDS = 1 << 24
"""Bytes for a chunk of seeds, their round keys and small tables."""


def require(name: str, array: object, length: int, dtype: np.dtype[Any]) -> None:
    """Raise :class:`UsageError` unless `array` is a (length,) CUDA array of `dtype`."""
    allowed = f"a C-contiguous ({length},) CUDA array of {dtype}"
    view = arrays.checked(name, array, allowed)
    if view.dtype != dtype or tuple(view.shape) != (length,):
        found = f"a CUDA array of {view.dtype}, shape {tuple(view.shape)}"
        raise UsageError(name, found, allowed)


def _view(accumulator: object) -> Any:
    return arrays.checked("accumulator", accumulator, "a C-contiguous CUDA array")


def clear(accumulator: Any) -> None:
    """Set all words to zero."""
    from privagg._cuda.bits import keep_low_bits

    view = _view(accumulator)
    with arrays.current(arrays.device_of(view)):
        keep_low_bits(view, 0)


def to_host(part: Any) -> NDArray[Any]:
    """Copy a CUDA array."""
    view = _view(part)
    copied: NDArray[Any] = view.copy_to_host()
    return copied


def reduce(accumulator: Any, bits: int) -> None:
    """Reduce all words modulo ``2**bits``, in place."""
    from privagg._cuda.bits import keep_low_bits

    view = _view(accumulator)
    with arrays.current(arrays.device_of(view)):
        keep_low_bits(view, bits)


def add(accumulator: Any, vector: NDArray[Any] | tiles.Packed) -> None:
    """Add a vector of the host to the accumulator, in place.

    A packed vector goes to the device as it is, a tile at a time.
    """
    from privagg._cuda.bits import add_unpacked

    view = _view(accumulator)
    with arrays.current(arrays.device_of(view)):
        if not isinstance(vector, tiles.Packed):
            # Words as wide as they are stored are a bit-packed vector, too.
            data = np.ascontiguousarray(vector, vector.dtype.newbyteorder("<")).view(np.uint8)
            add_unpacked(arrays.upload(data), 8 * vector.dtype.itemsize, view)
            return
        for first, end in tiles.spans(len(vector)):
            begin, bits = first * vector.bits // 8, vector.bits
            data = vector.data[begin : (end * bits + 7) // 8]
            add_unpacked(arrays.upload(data), bits, view[first:end])
            vector.forget(first, end)


def unmask_sum(
    params: Params,
    packed: bytes | memoryview | NDArray[np.uint8],
    seeds: NDArray[np.uint8],
    signs: NDArray[np.int8],
    *,
    count: int,
    memory: int = MEMORY,
) -> Aggregate:
    """Take the masks off a sum of masked vectors on the current CUDA device, and decode it.

    The sum goes through the device by tiles of coordinates, as long as `memory` allows.

    Parameters
    ----------
    params : Params
        The round's: length, modulus, encoding and mask stream.
    packed : bytes-like
        The sum modulo ``2**params.modulus_bits``, as :func:`privagg.wire.pack_bits` writes it.
    seeds : (m, seed_bytes) uint8 array
        Seeds of the streams.
    signs : (m,) int8 array
        +1 adds a stream to the sum, -1 takes it off. They are what cancels the masks: -1 for the
        self masks of the survivors.
    count : int
        Survivors in the sum.
    memory : int
        Bytes of the device to take at most, besides what the driver and the kernels take.

    Returns
    -------
    Aggregate

    Raises
    ------
    UsageError
        If an argument is not as described, there is no CUDA device, or as
        :meth:`privagg.encoding.Encoding.decode`.
    LayoutError
        If `packed` has another size than the parameters say, or bits after its end.
    """
    length, bits, word = params.length, params.modulus_bits, params.word
    buffer = packed.data if isinstance(packed, np.ndarray) else packed
    data = np.frombuffer(wire.checked_bits(buffer, length, bits), np.uint8)
    each = word.itemsize + -(-bits // 8)
    least = _SEEDS + 8 * each
    tile = (whole("memory", memory, least, 2**48) - _SEEDS) // each // 8 * 8
    arrays.module("unmask_sum")
    words = np.empty(length, word)
    from privagg._cuda.bits import keep_low_bits, unpack

    for first in range(0, length, tile):
        end = min(first + tile, length)
        part = arrays.upload(data[first * bits // 8 : (end * bits + 7) // 8])
        sums = unpack(part, end - first, bits, word)
        prg.accumulate(sums, seeds, signs, suite=params.prg, start=first)
        keep_low_bits(sums, bits)
        sums.copy_to_host(words[first:end])
        del part, sums
        arrays.free()
    return params.encoding.decode(words, count=count)
