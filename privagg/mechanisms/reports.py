"""Reports: what respondents send, bit-packed, and bound to the configuration they were made under.

The wire form of a batch, integers little-endian::

    magic "PALR"   version u8   flags u8 (1: made from a seed, insecure)   digest 32 bytes
    reports u64    column after column

A column holds a number of each report side by side, each of the same bits, least significant bit
first; a bitmap's rows start at whole bytes. What the numbers are, the mechanism says. The digest
(SHA-256) covers mechanism, domain, epsilon and thresholds, so reports of another survey, or of an
older version of this one, are refused instead of counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import PeerError, UsageError
from privagg.wire import Reader, Writer

__all__ = ["Column", "Reports"]

_MAGIC = b"PALR"
_VERSION = 1
_INSECURE = 1


@dataclass(frozen=True)
class Column:
    """One column of a mechanism's reports.

    Parameters
    ----------
    name : str
        What it holds.
    bits : int
        Bits of each number, 1 to 64; of a bitmap, bits of each row.
    count : int
        Numbers per report; 1 for a bitmap.
    limit : int
        Numbers are below it; ``2**bits`` unless given.
    bitmap : bool
        Whether each report is a row of bits. In memory it is ``ceil(bits / 64)`` words of 64 bits,
        least significant bit first, the bits after the last zero.
    """

    name: str
    bits: int
    count: int = 1
    limit: int = 0
    bitmap: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the numbers are in memory: the smallest unsigned integer; uint64 for bitmaps."""
        bits = 64 if self.bitmap else self.bits
        return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if bits <= 8 * size))

    @property
    def words(self) -> int:
        """Items of a report in memory."""
        return (self.bits + 63) // 64 if self.bitmap else self.count

    @property
    def report_bits(self) -> int:
        """Bits of a report on the wire, among many."""
        return 8 * ((self.bits + 7) // 8) if self.bitmap else self.bits * self.count

    def write(self, writer: Writer, values: NDArray[Any]) -> None:
        """Append the column."""
        if self.bitmap:
            octets = values.astype("<u8", copy=False).view(np.uint8)
            writer.raw_array(octets[:, : (self.bits + 7) // 8])
        else:
            flat: NDArray[Any] = values.reshape(-1).astype(self._word, copy=False)
            writer.packed(flat, self.bits)

    @property
    def _word(self) -> np.dtype[Any]:
        """What the wire packs the numbers from."""
        return np.dtype(np.uint64 if self.bits > 32 else np.uint32)

    def read(self, reader: Reader, reports: int) -> NDArray[Any]:
        """Read the column of a number of reports, and check each number and spare bit."""
        if not self.bitmap:
            flat = reader.packed(reports * self.count, self.bits, self._word)
            if self.limit and flat.size and int(flat.max()) >= self.limit:
                reader.fail(f"column {self.name}: found a number of {self.limit} or more")
            flat = flat.astype(self.dtype, copy=False)
            return flat if self.count == 1 else flat.reshape(reports, self.count)
        octets = (self.bits + 7) // 8
        raw = reader.raw_array(reports, octets)
        if self.bits % 8 and raw.size and int(raw[:, -1].max()) >> self.bits % 8:
            reader.fail(f"column {self.name}: found bits after the last of {self.bits}")
        rows = np.zeros((reports, 8 * self.words), np.uint8)
        rows[:, :octets] = raw
        return rows.view("<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True, eq=False)
class Reports:
    """The reports of some respondents, as their mechanism made them.

    Attributes
    ----------
    digest : bytes
        The mechanism's, 32 bytes.
    layout : tuple of Column
        What the columns are.
    columns : tuple of ndarray
        One array per column, the reports along its first axis.
    insecure : bool
        Whether any report came from a seed: whoever knows it knows the values.
    """

    digest: bytes
    layout: tuple[Column, ...]
    columns: tuple[NDArray[Any], ...] = field(repr=False)
    insecure: bool = False

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def report_bytes(self) -> float:
        """Bytes of one report on the wire, the batch's header of 46 bytes aside."""
        return sum(column.report_bits for column in self.layout) / 8

    def __getitem__(self, part: slice) -> Reports:
        """Return a batch of some of the reports, not copied."""
        if not isinstance(part, slice):
            raise UsageError("part", type(part).__name__, "a slice, such as reports[3:4]")
        columns = tuple(column[part] for column in self.columns)
        return Reports(self.digest, self.layout, columns, self.insecure)

    @staticmethod
    def concatenate(batches: Iterable[Reports]) -> Reports:
        """Return one batch of the reports of several, in their order.

        Parameters
        ----------
        batches : iterable of reports
            Batches of one configuration.

        Raises
        ------
        UsageError
            If there is no batch.
        PeerError
            If they were made under different configurations.
        """
        every = list(batches)
        if not every:
            raise UsageError("batches", "none", "at least one")
        first = every[0]
        for one in every:
            if one.digest != first.digest:
                raise PeerError("respondent", "reports", _other(one.digest, first.digest))
        arrays = [np.concatenate(parts) for parts in zip(*(b.columns for b in every), strict=True)]
        return Reports(
            first.digest, first.layout, tuple(arrays), any(batch.insecure for batch in every)
        )

    def encode(self) -> bytes:
        """Return the wire form; the same reports always give the same bytes."""
        writer = Writer().raw(_MAGIC).u8(_VERSION).u8(_INSECURE if self.insecure else 0)
        writer.raw(self.digest).u64(len(self))
        for column, values in zip(self.layout, self.columns, strict=True):
            column.write(writer, np.ascontiguousarray(values))
        return writer.getvalue()

    @staticmethod
    def decode(
        data: bytes | bytearray | memoryview,
        digest: bytes,
        layout: Sequence[Column],
        *,
        peer: str | int = "respondent",
        round: str = "reports",
    ) -> Reports:
        """Read the wire form of reports under one configuration; trusts nothing.

        :meth:`Mechanism.decode_reports` also checks what only the mechanism knows.

        Parameters
        ----------
        data : bytes or bytearray or memoryview
            What was written; nothing in it is trusted.
        digest : bytes
            The 32 bytes that name the configuration.
        layout : sequence of Column
            Columns of a report.
        peer : str or int
            Who sent it, for errors.
        round : str
            What it is for, for errors.

        Raises
        ------
        PeerError
            If the bytes are no such batch, or one of another configuration.
        """
        reader = Reader(data, peer=peer, round=round)
        insecure = read_header(reader, _MAGIC, _VERSION, digest)
        reports = reader.u64()
        if reports * sum(column.report_bits for column in layout) > 8 * reader.remaining:
            reader.fail(f"found {reader.remaining} bytes, too few for {reports} reports")
        columns = tuple(column.read(reader, reports) for column in layout)
        reader.end()
        return Reports(digest, tuple(layout), columns, insecure)


def read_header(reader: Reader, magic: bytes, version: int, digest: bytes) -> bool:
    """Read what reports and states begin with; return whether they are marked insecure."""
    found = reader.raw(len(magic))
    if found != magic:
        reader.fail(f"expected {magic!r} at the start, found {found!r}")
    number = reader.u8()
    if number != version:
        reader.fail(f"expected version {version}, found {number}")
    flags = reader.u8()
    if flags & ~_INSECURE:
        reader.fail(f"expected flags 0 or 1, found {flags}")
    stated = reader.raw(32)
    if stated != digest:
        reader.fail(_other(stated, digest))
    return bool(flags)


def _other(found: bytes, expected: bytes) -> str:
    return (
        f"made under another configuration: digest {found[:8].hex()}..., "
        f"expected {expected[:8].hex()}... (mechanism, domain and epsilon must be the same)"
    )
