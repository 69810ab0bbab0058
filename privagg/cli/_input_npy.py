"""NumPy's own formats, .npy and .npz: a header is checked against its file before it is believed.

A header is a Python literal that a file from elsewhere brings along. It is read as a literal of
limited length, its shape and dtype are checked, and the bytes that it claims must be there.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from privagg.cli._reading import fits_memory, reading
from privagg.errors import UsageError

__all__ = ["Arrays", "not_empty", "open_npy", "open_npz"]

_MAGIC = b"\x93NUMPY"
_LENGTHS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_MAX_HEADER = 10_000
"""NumPy's own limit; a header that says the shape of an array of numbers has about 100 bytes."""

_MAX_DIMS = 64
_SIMPLE = re.compile(r"[<>=|]?[?A-Za-z]\d{0,9}(\[\d{0,9}\w{1,7}\])?")
_METHODS = {
    zipfile.ZIP_STORED: "stored",
    zipfile.ZIP_DEFLATED: "deflate",
    zipfile.ZIP_BZIP2: "bzip2",
    zipfile.ZIP_LZMA: "LZMA",
}
_ENCRYPTED = 0x1
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Arrays:
    """Named arrays of a file: what they are is known, the numbers are read when asked for.

    Attributes
    ----------
    name : str
        The file's name, for messages.
    shapes, dtypes : dict
        Of each array, in the file's order.
    whole : callable
        Returns an array by its name.
    row : callable
        Returns an array's row by the array's name and an index.
    """

    name: str
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype[Any]]
    whole: Callable[[str], NDArray[Any]]
    row: Callable[[str, int], Any]


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize

    def check(self, where: str, found: int) -> None:
        """Refuse an array cut short, or followed by what nobody would read."""
        if found == self.size:
            return
        more = "" if found < self.size else "A second array in the file would be ignored."
        raise UsageError(
            where,
            f"{found:,} bytes after the header",
            f"the {self.size:,} of {self.dtype} numbers of shape {self.shape}",
            more,
        )


def not_empty(path: Path) -> None:
    """Refuse an empty file."""
    if path.stat().st_size == 0:
        raise UsageError(path.name, "an empty file", "a file with an input for each client")


def open_npy(path: Path) -> Arrays:
    """Map a file of one array into memory; its name is the empty string.

    Raises
    ------
    UsageError
        If it is no such file.
    """
    not_empty(path)
    array: NDArray[Any] = np.empty(0)
    with reading(path.name, "an .npy file of numbers"):
        with path.open("rb") as file:
            header = _header(file, path.name)
        if header.dtype.kind in "biufc":
            header.check(path.name, path.stat().st_size - header.offset)
            if header.size:
                array = np.memmap(
                    path,
                    header.dtype,
                    mode="r",
                    offset=header.offset,
                    shape=header.shape,
                    order="F" if header.fortran else "C",
                )
    return Arrays(
        path.name,
        {"": header.shape},
        {"": header.dtype},
        lambda _: array,
        lambda _, index: array[index],
    )


def open_npz(path: Path) -> Arrays:
    """Open a zip archive of arrays; each is read whole, and kept if it is read by rows.

    Raises
    ------
    UsageError
        If it is no such archive, is encrypted, or a member is no array; when an array is read, if
        it is damaged or larger than the memory.
    """
    not_empty(path)
    headers: dict[str, _Header] = {}
    members: dict[str, zipfile.ZipInfo] = {}
    with reading(path.name, "an .npz file of numbers"):
        archive = zipfile.ZipFile(path)
        for member in archive.infolist():
            name, where = _member(path, member)
            if name in members:
                raise UsageError(where, "a second member of this name", "distinct names")
            members[name] = member
            with reading(where, "an array of numbers"), archive.open(member) as file:
                headers[name] = _header(file, where)
            if headers[name].dtype.kind in "biufc":
                headers[name].check(where, member.file_size - headers[name].offset)

    def whole(name: str) -> NDArray[Any]:
        where = f"{path.name}, array {name!r}"
        fits_memory(where, headers[name].size)
        with reading(where, "an array of numbers"), archive.open(members[name]) as file:
            return _numbers(file, headers[name], where)

    kept: dict[str, NDArray[Any]] = {}

    def row(name: str, index: int) -> Any:
        if name not in kept:
            fits_memory(path.name, headers[name].size + sum(a.nbytes for a in kept.values()))
            kept[name] = whole(name)
        return kept[name][index]

    return Arrays(
        path.name,
        {name: header.shape for name, header in headers.items()},
        {name: header.dtype for name, header in headers.items()},
        whole,
        row,
    )


def _member(path: Path, member: zipfile.ZipInfo) -> tuple[str, str]:
    """Return an array's name, and where it is for messages."""
    name = member.filename.removesuffix(".npy")
    where = f"{path.name}, array {name!r}"
    if name == member.filename:
        hint = "np.savez(path, name=array) writes such a file."
        raise UsageError(path.name, f"a member {name!r}", "members named NAME.npy", hint)
    if member.flag_bits & _ENCRYPTED:
        raise UsageError(where, "encrypted", "an array that is not", "Unpack it first.")
    if member.compress_type not in _METHODS:
        found = f"compression method {member.compress_type}"
        raise UsageError(where, found, ", ".join(_METHODS.values()))
    return name, where


def _header(file: IO[bytes], where: str) -> _Header:
    """Read a header, and nothing behind it."""
    start = _exactly(file, len(_MAGIC) + 2)
    version = (start[-2], start[-1])
    if not start.startswith(_MAGIC) or version not in _LENGTHS:
        raise UsageError(where, "another format", "an array as np.save writes it")
    width = _LENGTHS[version]
    length = int.from_bytes(_exactly(file, width), "little")
    if length > _MAX_HEADER:
        raise UsageError(where, f"a header of {length:,} bytes", f"at most {_MAX_HEADER:,}")
    text = _exactly(file, length).decode("utf-8" if version == (3, 0) else "latin-1")
    with warnings.catch_warnings():  # of what is odd in a literal; it is refused below
        warnings.simplefilter("ignore")
        fields = ast.literal_eval(text.strip())
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        allowed = "a header of descr, fortran_order and shape"
        raise UsageError(where, "a header of other fields", allowed)
    shape, fortran = fields["shape"], fields["fortran_order"]
    # True is an int to Python, and 1 equals it.
    if (
        not isinstance(shape, tuple)
        or len(shape) > _MAX_DIMS
        or not all(type(length) is int and length >= 0 for length in shape)
        or not isinstance(fortran, bool)
    ):
        found = f"shape {shape!r}, fortran_order {fortran!r}"
        allowed = f"a tuple of at most {_MAX_DIMS} lengths, and True or False"
        raise UsageError(where, found, allowed)
    descr = fields["descr"]
    if not isinstance(descr, str) or not _SIMPLE.fullmatch(descr):
        raise UsageError(where, f"dtype {descr!r}", "integers and floats of at most 64 bits")
    return _Header(shape, np.dtype(descr), fortran, len(start) + width + length)


def _numbers(file: IO[bytes], header: _Header, where: str) -> NDArray[Any]:
    """Read an array's numbers; the end is read too, where a member's checksum is compared."""
    _exactly(file, header.offset)
    numbers = np.empty(math.prod(header.shape), header.dtype)
    target = numbers.view(np.uint8)
    for at in range(0, header.size, _CHUNK):
        size = min(_CHUNK, header.size - at)
        target[at : at + size] = np.frombuffer(_exactly(file, size), np.uint8)
    if file.read(1):
        raise UsageError(where, "bytes after the array", "one array in each member")
    return numbers.reshape(header.shape, order="F" if header.fortran else "C")


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    while len(data) < size:
        part = file.read(size - len(data))
        if not part:
            raise EOFError(f"{size:,} bytes expected, {len(data):,} there")
        data += part
    return data
