"""What goes wrong while a file of others is read, as one kind of error that names the file."""

from __future__ import annotations

import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privagg.errors import UsageError

__all__ = ["BROKEN", "fits_memory", "memory_here", "read_text", "reading"]

BROKEN: tuple[type[Exception], ...] = (
    OSError,  # the disk's errors, and bz2's for a damaged stream
    EOFError,  # zipfile, bz2 and lzma where a stream ends early
    ValueError,  # most of NumPy, json, tomllib; UnicodeDecodeError
    TypeError,  # literals, shapes and dtypes of the wrong kind
    KeyError,  # pyarrow for columns, zipfile for members
    IndexError,  # bytes where a format promised more
    SyntaxError,  # ast of an .npy header
    RuntimeError,  # encrypted zip members; RecursionError; NotImplementedError
    ArithmeticError,  # OverflowError: offsets beyond the machine's integers
    MemoryError,  # sizes that a file claims
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
"""What Python's readers and NumPy's raise for content that they cannot read."""


@contextmanager
def reading(
    where: str, allowed: str, *more: type[Exception], found: str = "not readable"
) -> Iterator[None]:
    """Turn what the body's libraries raise into an error that names the file.

    Parameters
    ----------
    where : str
        The file, and the place in it.
    allowed : str
        What it should be.
    *more : exception types
        Of the library that reads, beside :data:`BROKEN`.
    found : str
        What the file then is; the library's reason follows it.

    Raises
    ------
    UsageError
        For these; one that the body raised itself is left as it is.
    """
    try:
        yield
    except UsageError:
        raise
    except (*BROKEN, *more) as error:
        raise UsageError(where, f"{found} ({_reason(error)})", allowed) from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "more than this machine's memory holds"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def read_text(path: Path, limit: int) -> str:
    """Return a file's text (UTF-8) of at most `limit` bytes; no more than that is ever read.

    Raises
    ------
    UsageError
        If it is larger, or no text.
    """
    with reading(path.name, "a text file in UTF-8"):
        with path.open("rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise UsageError(path.name, f"more than {limit:,} bytes", f"at most {limit:,} bytes")
        return content.decode("utf-8-sig")


def fits_memory(where: str, size: int) -> None:
    """Refuse numbers that this machine's memory cannot hold, before anything is allocated.

    Raises
    ------
    UsageError
        If `size` bytes are more than the machine has.
    """
    _, total = memory_here()
    if total is not None and size > total:
        raise UsageError(
            where,
            f"{size:,} bytes of numbers",
            f"what this machine's memory holds: {total:,} bytes",
            "An .npy or a .safetensors file is read row by row.",
        )


def memory_here() -> tuple[int | None, int | None]:
    """Return the bytes of memory available now, and in all; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return found["MemAvailable"], found["MemTotal"]
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return None, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None, None
