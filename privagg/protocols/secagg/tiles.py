"""Vectors by tiles: what is too long for memory passes through it a piece at a time.

Coordinates are taken in tiles of :data:`TILE`, a multiple of 8, so that each but the last fills
whole bytes when it is bit-packed. Mask streams can be entered at any word, so that a tile is
encoded, masked and packed on its own, and the bytes are those that the whole vector would give.

Arrays may be memory maps (``numpy.memmap``): the pages of a finished tile are then given back to
the system, which keeps them in its cache or writes them out, so that a process holds a few tiles of
each map and no more.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import prg, wire
from privagg._cuda.arrays import is_device_array
from privagg.encoding import Aggregate, Encoding
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg.params import Params

__all__ = [
    "TILE",
    "Masks",
    "Packed",
    "Progress",
    "add",
    "add_reduced",
    "create",
    "decode",
    "fault",
    "on_host",
    "release",
    "spans",
    "unmask",
    "write",
]

TILE = 1 << 18
"""Coordinates in a tile: a megabyte or two, which the second-level cache holds."""

_SHORTEST = 1 << 12
"""Below this many coordinates a thread is not worth its while."""

Masks = tuple[NDArray[np.uint8], NDArray[np.int8]]
"""Streams to add: seeds and signs, as for :func:`privagg.prg.accumulate`."""

Progress = Callable[[int, int], None]
"""Called with the coordinates done and those to do."""


def spans(length: int, workers: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the (first, end) of the tiles of a vector of `length`; short ones for more threads."""
    size = TILE
    if workers > 1:
        size = max(_SHORTEST, min(TILE, -(-length // workers // _SHORTEST) * _SHORTEST))
    for first in range(0, length, size):
        yield first, min(first + size, length)


_NO_SUCH_CALL = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def create(path: Path, dtype: Any, length: int) -> NDArray[Any]:
    """Make a file of zeros and map it, with its room on the disk taken beforehand.

    A map of a file with holes ends the process by a signal when the disk is full as a page is
    written; so an error comes here instead, where the system can say so.

    Parameters
    ----------
    path : Path
        The file; replaced if it is there.
    dtype : dtype
        Of its numbers.
    length : int
        How many.

    Returns
    -------
    (length,) memory map

    Raises
    ------
    OSError
        If the disk is full, or the file may not be so long.
    """
    size = length * np.dtype(dtype).itemsize
    with path.open("wb") as file:
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in _NO_SUCH_CALL:
                    raise OSError(error.errno, error.strerror, str(path)) from None
    return np.memmap(path, dtype, "r+", shape=(length,))


def release(part: NDArray[Any]) -> None:
    """Give the pages of `part` back to the system, if it is a view of a ``numpy.memmap``.

    Nothing is lost: what was written stays in the system's cache until it is in the file. Anything
    else is left alone, and so is a map that is copied on write, whose changes are in no file.
    """
    base: Any = part
    in_file = False
    while isinstance(base, np.ndarray | memoryview):
        if isinstance(base, np.memmap):
            in_file = base.mode != "c"
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if not in_file or not isinstance(base, mmap.mmap) or not hasattr(base, "madvise"):
        return
    whole = np.frombuffer(base, np.uint8)
    begin = part.ctypes.data - whole.ctypes.data
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    end = begin + part.nbytes
    if end < len(whole):
        end -= end % mmap.PAGESIZE
    if end > first:
        base.madvise(mmap.MADV_DONTNEED, first, end - first)


class Packed:
    """A bit-packed vector that is unpacked a tile at a time.

    Parameters
    ----------
    data : (ceil(count * bits / 8),) uint8 array
        The bits; not copied, so that it must not change.
    count, bits : int
        Coordinates, and bits of each.
    dtype : dtype
        What they are unpacked to: uint32 or uint64.
    """

    __slots__ = ("bits", "count", "data", "dtype")

    def __init__(self, data: NDArray[np.uint8], count: int, bits: int, dtype: Any) -> None:
        self.data, self.count, self.bits, self.dtype = data, count, bits, np.dtype(dtype)

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Bytes as it is packed."""
        return self.data.nbytes

    def tile(self, first: int, end: int) -> NDArray[Any]:
        """Return coordinates `first` to `end`; `first` is a multiple of 8."""
        part = self._bytes(first, end)
        return wire.unpack_bits(part.data, end - first, self.bits, self.dtype)

    def forget(self, first: int, end: int) -> None:
        """Release the pages of coordinates `first` to `end`."""
        release(self._bytes(first, end))

    def _bytes(self, first: int, end: int) -> NDArray[np.uint8]:
        return self.data[first * self.bits // 8 : (end * self.bits + 7) // 8]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole vector, unpacked."""
        if copy is False:
            raise ValueError("a packed vector is copied to become an array")
        whole = self.tile(0, self.count)
        return whole if dtype is None else whole.astype(dtype)

    def __repr__(self) -> str:
        return f"Packed({self.count} coordinates of {self.bits} bits)"


def fault(vector: object, params: Params) -> str:
    """Say what keeps `vector` from being a masked vector under `params`; nothing if it is one."""
    length, bits, word = params.length, params.modulus_bits, params.word
    if isinstance(vector, Packed):
        if (vector.count, vector.bits, vector.dtype) != (length, bits, word):
            return f"{vector!r} where {length} of {bits} bits are due"
        data = vector.data
        whole = isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 1
        if not whole or data.size != wire.packed_size(length, bits):
            return "another size than it says"
        # The bits after the last coordinate are zero, as in every message.
        return "bits after its end" if int(data[-1]) >> ((length * bits - 1) % 8 + 1) else ""
    if not isinstance(vector, np.ndarray) or isinstance(vector, np.ma.MaskedArray):
        return f"type {type(vector).__name__}"
    if vector.dtype != word or vector.shape != (length,):
        return f"{vector.dtype}, shape {vector.shape} where {word}, ({length},) is due"
    return "words beyond the modulus" if int(vector.max()) >> bits else ""


def add(accumulator: NDArray[Any], vector: NDArray[Any] | Packed) -> None:
    """Add a vector to the accumulator, in place, tile by tile where it is packed."""
    if is_device_array(accumulator):
        from privagg.protocols.secagg import device

        device.add(accumulator, vector)
        return
    if not isinstance(vector, Packed):
        np.add(accumulator, vector, out=accumulator)
        return
    for first, end in spans(len(vector)):
        part = accumulator[first:end]
        np.add(part, vector.tile(first, end), out=part)
        release(part)
        vector.forget(first, end)


def on_host(part: NDArray[Any]) -> NDArray[Any]:
    """Return a part of an accumulator; a copy if it lies on a CUDA device."""
    if not is_device_array(part):
        return part
    from privagg.protocols.secagg import device

    return device.to_host(part)


def write(
    params: Params,
    values: NDArray[Any],
    masks: Masks,
    out: NDArray[np.uint8],
    *,
    weight: int,
    entropy: Entropy,
    progress: Progress | None = None,
) -> int:
    """Encode, mask and pack a client's vector into `out`, tile by tile.

    Parameters
    ----------
    params : Params
        The round.
    values : (dim,) array
        The client's numbers; a memory map of them is read once.
    masks : Masks
        The streams to add.
    out : (ceil(length * modulus_bits / 8),) uint8 array
        Receives the packed vector.
    weight : int
        The client's weight.
    entropy : Entropy
        Source of the rounding.
    progress : callable, optional
        See :data:`Progress`.

    Returns
    -------
    int
        Coordinates outside the clip.

    Raises
    ------
    UsageError
        If a value does not fit the encoding, naming where. `out` is then not to be sent.
    """
    seeds, signs = masks
    bits, length = params.modulus_bits, params.length
    low_bits = params.word.type(2**bits - 1)
    clipped = 0
    for first, end in spans(length):
        numbers = values[first : min(end, params.dim)]
        if len(numbers):
            words, outside = _encode(params, numbers, first, weight, entropy)
            words = words[: end - first]
            clipped += outside
        else:  # the weight alone is left for the last tile
            words = np.full(1, weight, params.word)
        prg.accumulate(words, seeds, signs, suite=params.prg, start=first)
        words &= low_bits
        place = out[first * bits // 8 : (end * bits + 7) // 8]
        place[:] = np.frombuffer(wire.pack_bits(words, bits), np.uint8)
        release(place)
        release(numbers)
        if progress is not None:
            progress(end, length)
    return clipped


def _encode(
    params: Params, numbers: NDArray[Any], first: int, weight: int, entropy: Entropy
) -> tuple[NDArray[Any], int]:
    """Encode a tile; where there are weights, the weight follows it."""
    try:
        encoded = params.encoding.encode(
            np.asarray(numbers), weight=weight, clients=params.clients, entropy=entropy
        )
    except UsageError as error:
        where = f"{error.argument}[{first}:{first + len(numbers)}]"
        raise UsageError(where, error.found, error.allowed, error.hint) from None
    return encoded.words, encoded.clipped


def unmask(params: Params, accumulator: NDArray[Any], masks: Masks, span: tuple[int, int]) -> None:
    """Take masks off coordinates `span` of the accumulator, in place, mod 2**modulus_bits."""
    first, end = span
    part = accumulator[first:end]
    prg.accumulate(part, *masks, suite=params.prg, start=first)
    if is_device_array(part):
        from privagg.protocols.secagg import device

        device.reduce(part, params.modulus_bits)
        return
    np.bitwise_and(part, params.word.type(2**params.modulus_bits - 1), out=part)
    release(part)


def add_reduced(
    params: Params, accumulator: NDArray[Any], words: NDArray[Any], span: tuple[int, int]
) -> None:
    """Add words to coordinates `span` of the accumulator, in place, mod 2**modulus_bits."""
    part = accumulator[span[0] : span[1]]
    np.add(part, words, out=part)
    np.bitwise_and(part, params.word.type(2**params.modulus_bits - 1), out=part)
    release(part)


def decode(
    encoding: Encoding, accumulator: NDArray[Any], *, count: int, total: NDArray[Any]
) -> Aggregate:
    """Decode the sum of the survivors' words into `total`, tile by tile.

    Parameters
    ----------
    encoding : Encoding
        The round's.
    accumulator : (length,) uint32 or uint64 array
        The sum, unmasked.
    count : int
        Survivors in it.
    total : (dim,) int64 array, or float64 for floats
        Receives the sums.

    Returns
    -------
    Aggregate
        Its total is `total`, its mean is empty: it would be as long again.

    Raises
    ------
    UsageError
        As :meth:`privagg.encoding.Encoding.decode`.
    """
    weights = count
    tail = np.zeros(0, np.uint32)
    if encoding.weighted:
        tail = on_host(accumulator[len(total) :])
    for first, end in spans(len(total)):
        words = np.concatenate([on_host(accumulator[first:end]), tail])
        part = encoding.decode(words, count=count)
        total[first:end] = part.total
        weights = part.weight_total
        release(accumulator[first:end])
        release(total[first:end])
    return Aggregate(total, np.zeros(0), weights, count)
