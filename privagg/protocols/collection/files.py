"""Files of reports and of states: read and written in parts, trusted in nothing.

Reports, integers little-endian::

    magic "PALF"   version u8   digest 32 bytes, the survey's
    batch after batch: its bytes u32, above 0, and the batch as the wire has it
    u32 of 0       reports in all u64

Such files may be strung together (``cat``): the next begins where one ends. A single batch, as
``Reports.encode`` and ``TupleReports.encode`` give it, is read as well. A state::

    magic "PALC"   version u8   bytes of the survey's file u32   that file   the state's wire form
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import BinaryIO

from privagg.errors import PeerError, UsageError
from privagg.protocols.collection.collector import Collector, refuse_other
from privagg.protocols.collection.survey import Batch, Survey
from privagg.wire import Reader, Writer

__all__ = [
    "REPORTS_MAGIC",
    "STATE_MAGIC",
    "decode_state",
    "encode_state",
    "read_reports",
    "rows_per_batch",
    "write_reports",
]

REPORTS_MAGIC = b"PALF"
STATE_MAGIC = b"PALC"
_BATCHES = (b"PALR", b"PAMR")
_VERSION = 1
_BATCH_BYTES = 1 << 21
_MOST_ROWS = 1 << 16
_MOST_BYTES = 1 << 26
_ROUND = "reports"


def rows_per_batch(survey: Survey) -> int:
    """Return how many respondents one batch of a file has: about two megabytes of reports."""
    return max(1, min(_MOST_ROWS, int(_BATCH_BYTES / max(survey.report_bytes, 1 / 64))))


def write_reports(survey: Survey, batches: Iterable[Batch], file: BinaryIO) -> int:
    """Write a file of reports, batch by batch, and return how many there are.

    Parameters
    ----------
    survey : Survey
        What they are reports of.
    batches : iterable of Reports or TupleReports
        Made one after the other: no more than one is held.
    file : binary file
        Where to write.

    Returns
    -------
    int
        How many there are.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    file.write(Writer().raw(REPORTS_MAGIC).u8(_VERSION).raw(survey.digest).getvalue())
    total = 0
    for batch in batches:
        if not len(batch):
            continue
        data = batch.encode()
        if len(data) > _limit(survey):
            raise UsageError("batches", f"one of {len(data):,} bytes", "smaller batches")
        file.write(struct.pack("<I", len(data)))
        file.write(data)
        total += len(batch)
    file.write(struct.pack("<IQ", 0, total))
    return total


def read_reports(
    survey: Survey,
    file: BinaryIO,
    *,
    peer: str = "respondent",
    progress: Callable[[int], None] = lambda size: None,
) -> Collector:
    """Count all reports in a file, batch by batch; all of them or none.

    Parameters
    ----------
    survey : Survey
        What they have to be reports of.
    file : binary file
        Read in order; it need not seek.
    peer : str
        Whose it is, for errors.
    progress : callable
        Told the bytes of each part that was counted.

    Raises
    ------
    PeerError
        Naming `peer`, if the file is none, is cut short, or of another survey.
    """
    collector = Collector(survey)
    magic = file.read(4)
    if magic in _BATCHES:
        data = magic + file.read()
        collector.receive(data, peer=peer)
        progress(len(data))
        return collector
    while True:
        _count(collector, magic, file, peer, progress)
        magic = file.read(4)
        if not magic:
            return collector


def _count(
    collector: Collector, magic: bytes, file: BinaryIO, peer: str, progress: Callable[[int], None]
) -> None:
    """Count the batches of one file whose first four bytes were read; check that it is whole."""
    if magic != REPORTS_MAGIC:
        raise PeerError(peer, _ROUND, f"expected {REPORTS_MAGIC!r} at the start, found {magic!r}")
    version, digest = struct.unpack("<B32s", _exactly(file, 33, peer))
    if version != _VERSION:
        raise PeerError(peer, _ROUND, f"expected version {_VERSION}, found {version}")
    refuse_other(digest, collector.survey, peer, _ROUND)
    limit, before = _limit(collector.survey), collector.users
    while True:
        (size,) = struct.unpack("<I", _exactly(file, 4, peer))
        if size == 0:
            break
        if size > limit:
            reason = f"expected batches of at most {limit:,} bytes, found {size:,}"
            raise PeerError(peer, _ROUND, reason)
        collector.receive(_exactly(file, size, peer), peer=peer)
        progress(size)
    (total,) = struct.unpack("<Q", _exactly(file, 8, peer))
    if total != collector.users - before:
        reason = f"says that it has {total} reports, and has {collector.users - before}"
        raise PeerError(peer, _ROUND, reason)


def _exactly(file: BinaryIO, size: int, peer: str) -> bytes:
    """Read so many bytes, as they come: what was only claimed is not allocated."""
    parts, left = [], size
    while left:
        part = file.read(min(left, 1 << 20))
        if not part:
            raise PeerError(peer, _ROUND, f"cut short: {left:,} more bytes expected")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _limit(survey: Survey) -> int:
    return min(_MOST_BYTES + 2 * int(survey.report_bytes), 2**32 - 1)


def encode_state(collector: Collector) -> bytes:
    """Return a state's file: the survey and the sums; equal ones give equal bytes."""
    survey = collector.survey.encode()
    writer = Writer().raw(STATE_MAGIC).u8(_VERSION).u32(len(survey)).raw(survey)
    return writer.raw(collector.state.encode()).getvalue()


def decode_state(
    data: bytes | bytearray | memoryview,
    survey: Survey | None = None,
    *,
    peer: str = "collector",
) -> Collector:
    """Read a state's file; trusts nothing.

    Parameters
    ----------
    data : bytes
        The file.
    survey : Survey, optional
        What it has to be a state of; any survey unless given.
    peer : str
        Whose it is, for errors.

    Raises
    ------
    PeerError
        Naming `peer`, if it is none, or of another survey.
    """
    reader = Reader(data, peer=peer, round="state")
    magic = reader.raw(4)
    if magic != STATE_MAGIC:
        reader.fail(f"expected {STATE_MAGIC!r} at the start, found {magic!r}")
    version = reader.u8()
    if version != _VERSION:
        reader.fail(f"expected version {_VERSION}, found {version}")
    config = reader.raw(reader.u32())
    try:
        found = Survey.decode(config, source=peer)
    except UsageError as error:
        raise PeerError(peer, "state", str(error)) from None
    if survey is not None:
        refuse_other(found.digest, survey, peer, "state")
    collector = Collector(found)
    collector.merge(reader.raw(reader.remaining), peer=peer)
    return collector
