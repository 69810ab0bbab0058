"""Strict, canonical binary layouts: what every message is written and read with.

Integers are little-endian and of fixed width, bits are packed least significant first, and there
are no tags, no optional fields and no padding but the zero bits that fill a last byte. So a layout
has one encoding per message: whatever :class:`Reader` accepts, :class:`Writer` writes back byte for
byte.

What arrives is hostile until proven otherwise: every size is compared with the bytes that are there
before anything is allocated, and every failure is a :class:`~privagg.errors.PeerError` that says
who sent it, in which round, what was expected and what was found. This module authenticates
nothing: a well-formed message may still be a lie.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from privagg._cuda import arrays
from privagg._cuda.arrays import is_device_array
from privagg._jit import JIT
from privagg._packing import Unsigned, pack_kernel, pack_plain, unpack_kernel, unpack_plain
from privagg._validate import describe, refuse_masked
from privagg.errors import PeerError, UsageError

__all__ = [
    "LayoutError",
    "Reader",
    "Writer",
    "bitmap_size",
    "checked_bits",
    "pack_bits",
    "packed_size",
    "unpack_bits",
]

BytesLike = bytes | bytearray | memoryview

_WORDS = (np.dtype(np.uint32), np.dtype(np.uint64))


class LayoutError(ValueError):
    """Bytes that are no canonical packed vector; :class:`Reader` turns it into a `PeerError`."""


def packed_size(count: int, bits: int) -> int:
    """Return the bytes that `count` values of `bits` bits take: ``ceil(count * bits / 8)``.

    Raises
    ------
    UsageError
        If `count` is negative, or `bits` is not from 1 to 64.
    """
    return (_natural("count", count) * _width(bits) + 7) // 8


def bitmap_size(count: int) -> int:
    """Return the bytes of a bitmap of `count` bits: ``ceil(count / 8)``.

    Raises
    ------
    UsageError
        If `count` is negative.
    """
    return (_natural("count", count) + 7) // 8


def pack_bits(values: Unsigned, bits: int) -> bytes:
    """Pack unsigned integers side by side, least significant bit first.

    Parameters
    ----------
    values : (d,) uint32 or uint64 array
        What to pack, each below ``2**bits``.
    bits : int
        Bits per value, 1 to 64.

    Returns
    -------
    bytes
        ``ceil(d * bits / 8)`` bytes; the bits after the last value are zero.

    Raises
    ------
    UsageError
        If `values` is not such an array, `bits` is out of range, or a value does not fit (its
        position is named, its value is not: it may be secret).
    """
    return _pack(values, bits).tobytes()


def unpack_bits(
    buffer: BytesLike, count: int, bits: int, dtype: DTypeLike = np.uint64
) -> NDArray[Any]:
    """Take `count` unsigned integers of `bits` bits out of what :func:`pack_bits` wrote.

    Parameters
    ----------
    buffer : bytes-like
        Exactly ``ceil(count * bits / 8)`` bytes.
    count : int
        How many values.
    bits : int
        Bits per value, 1 to 64.
    dtype : dtype
        uint32 (for `bits` up to 32) or uint64.

    Returns
    -------
    (count,) array of `dtype`
        The values, each below ``2**bits``. They lie on the device if `buffer`, then a CUDA array
        of bytes, does.

    Raises
    ------
    LayoutError
        If the buffer has another size, or a bit after the last value is not zero.
    UsageError
        If an argument is not of the kinds above.
    """
    word = _word(dtype, bits)
    if is_device_array(buffer):
        return _unpack_on_device(buffer, count, bits, word)
    data = np.frombuffer(checked_bits(buffer, count, bits), np.uint8)
    if not JIT:
        return unpack_plain(data, count, bits, word)
    data.flags.writeable = False  # one compiled version, whatever the buffer's owner allows
    out = np.empty(count, word)
    unpack_kernel(data, np.uint64(bits), np.uint64((1 << bits) - 1), out)
    return out


def checked_bits(buffer: BytesLike, count: int, bits: int) -> memoryview:
    """Return a view of `count` numbers of `bits` bits that :func:`pack_bits` wrote to `buffer`.

    Raises
    ------
    LayoutError
        If the buffer has another size, or a bit after the last value is not zero.
    """
    view = _view("buffer", buffer)
    _check_packed(np.frombuffer(view[-1:], np.uint8), len(view), count, bits)
    return view


def _check_packed(last: NDArray[np.uint8], found: int, count: int, bits: int) -> None:
    """Check the number of bytes, and in the last of them the bits after the last value."""
    size = packed_size(count, bits)
    if found != size:
        raise LayoutError(f"expected {size} bytes ({count} values of {bits} bits), found {found}")
    if found:
        _check_padding(last, count * bits)


def _unpack_on_device(buffer: Any, count: int, bits: int, word: np.dtype[Any]) -> NDArray[Any]:
    data: Any = arrays.checked("buffer", buffer, "a C-contiguous CUDA array of uint8")
    if data.dtype != np.uint8:
        raise UsageError("buffer", f"a CUDA array of {data.dtype}", "a CUDA array of uint8")
    with arrays.current(arrays.device_of(data)):
        from privagg._cuda.bits import unpack

        flat, size = arrays.flat(data), int(data.size)
        last = flat[size - 1 :].copy_to_host() if size else np.zeros(0, np.uint8)
        _check_packed(last, size, count, bits)
        values: NDArray[Any] = unpack(flat, count, bits, word)  # of its interface, not its type
        return values


class Writer:
    """Write a message, field by field.

    Every method but :meth:`getvalue` returns the writer, so that fields can be chained in the order
    of the layout.
    """

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []

    def u8(self, value: int) -> Writer:
        """Append `value`, from 0 to ``2**8 - 1``, and return the writer."""
        return self._integer(value, 1)

    def u16(self, value: int) -> Writer:
        """Append `value`, from 0 to ``2**16 - 1``, little-endian, and return the writer."""
        return self._integer(value, 2)

    def u32(self, value: int) -> Writer:
        """Append `value`, from 0 to ``2**32 - 1``, little-endian, and return the writer."""
        return self._integer(value, 4)

    def u64(self, value: int) -> Writer:
        """Append `value`, from 0 to ``2**64 - 1``, little-endian, and return the writer."""
        return self._integer(value, 8)

    def raw(self, data: BytesLike) -> Writer:
        """Append `data` as it is, and return the writer; its length is the layout's business."""
        self._parts.append(data if isinstance(data, bytes) else bytes(_view("data", data)))
        return self

    def raw_array(self, rows: NDArray[np.uint8]) -> Writer:
        """Append `rows`, a ``(count, width)`` uint8 array, row after row; return the writer.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        refuse_masked("rows", rows)
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.ndim != 2:
            raise UsageError("rows", describe(rows), "a (count, width) uint8 array")
        self._parts.append(rows.tobytes())
        return self

    def bitmap(self, flags: NDArray[np.bool_]) -> Writer:
        """Append `flags`, ``(n,)`` bools, 8 to a byte, lowest bit first; return the writer.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        refuse_masked("flags", flags)
        if not isinstance(flags, np.ndarray) or flags.dtype != np.bool_ or flags.ndim != 1:
            raise UsageError("flags", describe(flags), "a 1-D bool array")
        self._parts.append(np.packbits(flags, bitorder="little").tobytes())
        return self

    def packed(self, values: Unsigned, bits: int) -> Writer:
        """Append a vector of unsigned integers of `bits` bits; see :func:`pack_bits`."""
        self._parts.append(_pack(values, bits).data)
        return self

    def getvalue(self) -> bytes:
        """Return what was written so far."""
        return b"".join(self._parts)

    def __repr__(self) -> str:
        return f"Writer({sum(len(part) for part in self._parts)} bytes)"

    def _integer(self, value: int, size: int) -> Writer:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | np.integer)
            or not 0 <= int(value) < 1 << 8 * size
        ):
            raise UsageError("value", value, f"an integer from 0 to 2**{8 * size} - 1")
        self._parts.append(int(value).to_bytes(size, "little"))
        return self


class Reader:
    """Read a message that `peer` sent, field by field, and trust none of it.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        The message. It is not copied: it must not change while it is read.
    peer : int or str
        Who sent it: a client's index, or ``"server"``.
    round : str
        The protocol's round in which it arrived.

    Raises
    ------
    UsageError
        If `data` is not bytes-like.
    """

    def __init__(self, data: BytesLike, *, peer: str | int, round: str) -> None:
        self._data = _view("data", data)
        self._at = 0
        self._peer = peer
        self._round = round

    @property
    def remaining(self) -> int:
        """Bytes not yet read."""
        return len(self._data) - self._at

    def u8(self) -> int:
        """Read an integer from 0 to ``2**8 - 1``."""
        return self._integer(1)

    def u16(self) -> int:
        """Read an integer from 0 to ``2**16 - 1``, little-endian."""
        return self._integer(2)

    def u32(self) -> int:
        """Read an integer from 0 to ``2**32 - 1``, little-endian."""
        return self._integer(4)

    def u64(self) -> int:
        """Read an integer from 0 to ``2**64 - 1``, little-endian."""
        return self._integer(8)

    def raw(self, count: int) -> bytes:
        """Read `count` bytes."""
        return bytes(self._take(_natural("count", count), "bytes"))

    def raw_array(self, count: int, width: int) -> NDArray[np.uint8]:
        """Read `count` rows of `width` bytes into a new ``(count, width)`` uint8 array."""
        rows, columns = _natural("count", count), _natural("width", width)
        what = f"bytes ({rows} rows of {columns})"
        part = np.frombuffer(self._take(rows * columns, what), np.uint8)
        return part.reshape(rows, columns).copy()

    def bitmap(self, count: int) -> NDArray[np.bool_]:
        """Read a bitmap of `count` bits, (count,) bool; the bits after the last must be zero."""
        size = bitmap_size(count)
        part = np.frombuffer(self._take(size, f"bytes (a bitmap of {count})"), np.uint8)
        try:
            _check_padding(part, count)
        except LayoutError as error:
            self.fail(f"bitmap ending at byte {self._at}: {error}")
        return np.unpackbits(part, count=count, bitorder="little").view(np.bool_)

    def packed(self, count: int, bits: int, dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Read a ``(count,)`` vector of unsigned integers of `bits` bits as `dtype`.

        `dtype` is uint64, or uint32 for `bits` up to 32; see :func:`unpack_bits`.
        """
        word = _word(dtype, bits)
        size = packed_size(count, bits)
        part = self._take(size, f"bytes ({count} values of {bits} bits)")
        try:
            return unpack_bits(part, count, bits, word)
        except LayoutError as error:
            self.fail(f"packed vector ending at byte {self._at}: {error}")

    def packed_bytes(self, count: int, bits: int) -> NDArray[np.uint8]:
        """Read `count` numbers of `bits` bits as they are, (bytes,) uint8, not copied."""
        size = packed_size(count, bits)
        part = np.frombuffer(self._take(size, f"bytes ({count} values of {bits} bits)"), np.uint8)
        try:
            _check_padding(part, count * bits)
        except LayoutError as error:
            self.fail(f"packed vector ending at byte {self._at}: {error}")
        return part

    def end(self) -> None:
        """Check that nothing is left."""
        if self.remaining:
            self.fail(
                f"expected the message to end after {self._at} bytes, found {self.remaining} more"
            )

    def fail(self, reason: str) -> NoReturn:
        """Raise the :class:`~privagg.errors.PeerError` of this message's sender and round.

        For what only the caller can judge, such as a version or an index out of range.

        Parameters
        ----------
        reason : str
            What is wrong with it.

        Raises
        ------
        PeerError
            Always.
        """
        raise PeerError(self._peer, self._round, reason) from None

    def __repr__(self) -> str:
        return (
            f"Reader(peer={self._peer!r}, round={self._round!r}, at byte {self._at} of "
            f"{len(self._data)})"
        )

    def _take(self, size: int, what: str) -> memoryview:
        if size > self.remaining:
            self.fail(f"expected {size} {what} at byte {self._at}, found {self.remaining}")
        part = self._data[self._at : self._at + size]
        self._at += size
        return part

    def _integer(self, size: int) -> int:
        return int.from_bytes(self._take(size, f"bytes (u{8 * size})"), "little")


def _pack(values: Unsigned, bits: int) -> NDArray[np.uint8]:
    """Validate and pack; return ``(ceil(d * bits / 8),)`` uint8."""
    _width(bits)
    refuse_masked("values", values)
    if not isinstance(values, np.ndarray) or values.dtype not in _WORDS or values.ndim != 1:
        raise UsageError("values", describe(values), "a 1-D uint32 or uint64 array")
    size = packed_size(values.size, bits)
    if JIT:
        # A read-only view: one compiled version serves writable and read-only arrays.
        view = np.ascontiguousarray(values).view()
        view.flags.writeable = False
        words = np.empty((size + 7) // 8, np.uint64)
        seen = int(pack_kernel(view, np.uint64(bits), words))
    else:
        seen = int(np.bitwise_or.reduce(values)) if values.size else 0
    if seen >> bits:
        at = int(np.argmax(values > np.uint64((1 << bits) - 1)))
        raise UsageError(
            "values",
            f"an integer of {int(values[at]).bit_length()} bits at index {at}",
            f"integers from 0 to 2**{bits} - 1",
        )
    if JIT:
        return words.astype("<u8", copy=False).view(np.uint8)[:size]
    return pack_plain(values, bits)


def _check_padding(data: NDArray[np.uint8], used: int) -> None:
    """Check that in the last byte of `data` the bits from `used` on are zero."""
    if used % 8 and int(data[-1]) >> used % 8:
        raise LayoutError(
            f"expected zero in the last {8 - used % 8} bits, found last byte {int(data[-1]):#04x}"
        )


def _view(argument: str, data: object) -> memoryview:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(argument, type(data).__name__, "bytes, bytearray or memoryview")
    view = memoryview(data)
    if not view.c_contiguous:
        raise UsageError(argument, "a strided memoryview", "a contiguous one", "Copy it first.")
    return view if view.format == "B" and view.ndim == 1 else memoryview(view.tobytes())


def _natural(argument: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or int(value) < 0:
        raise UsageError(argument, value, "an integer, 0 or more")
    return int(value)


def _width(bits: int) -> int:
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= 64:
        raise UsageError("bits", bits, "an integer from 1 to 64")
    return int(bits)


def _word(dtype: DTypeLike, bits: int) -> np.dtype[Any]:
    """Return the dtype that values of `bits` bits are read into."""
    try:
        word = np.dtype(dtype)
    except TypeError:
        word = np.dtype(object)
    if word not in _WORDS:
        raise UsageError("dtype", dtype, "uint32 or uint64")
    if 8 * word.itemsize < _width(bits):
        raise UsageError("dtype", "uint32", f"uint64, as values have {bits} bits")
    return word
