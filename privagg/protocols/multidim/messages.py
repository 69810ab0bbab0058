"""What respondents send: reports of several attributes, bit-packed, bound to their survey.

The wire form of a batch, integers little-endian::

    magic "PAMR"   version u8   flags u8 (1: made from a seed, insecure)   digest 32 bytes
    reports u64 for each group, then column after column of each group

A group holds reports of equal layout: ``smp`` has one for each attribute, which is how its reports
say which attribute they are about; the other protocols have one. Columns are those of
:mod:`privagg.mechanisms.reports`. The digest covers attributes, protocol, oracle, epsilon,
calibration, priors and thresholds: reports of another survey are refused instead of counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import PeerError, UsageError
from privagg.mechanisms.reports import read_header
from privagg.protocols.multidim.layout import groups_of
from privagg.protocols.multidim.params import Params, Protocol
from privagg.wire import Reader, Writer

__all__ = ["HEADER_BYTES", "TupleReports", "report_bytes"]

_MAGIC = b"PAMR"
_VERSION = 1
_INSECURE = 1

HEADER_BYTES = len(_MAGIC) + 2 + 32
"""Bytes of a batch before its counts."""

Columns = tuple[NDArray[Any], ...]


@dataclass(frozen=True, eq=False)
class TupleReports:
    """The reports of some respondents.

    Attributes
    ----------
    params : Params
        The survey.
    groups : tuple of tuple of ndarray
        For each group its columns, the reports along the first axis. In a group for each attribute
        the reports stand in their respondents' order, but which respondents is not kept.
    insecure : bool
        Whether any report came from a seed: whoever knows it knows the values.
    """

    params: Params = field(repr=False)
    groups: tuple[Columns, ...] = field(repr=False)
    insecure: bool = False

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """Reports in each group."""
        return tuple(len(columns[0]) for columns in self.groups)

    @staticmethod
    def concatenate(batches: Iterable[TupleReports]) -> TupleReports:
        """Return one batch of the reports of several.

        Parameters
        ----------
        batches : iterable of reports
            Batches of one configuration.

        Raises
        ------
        UsageError
            If there is no batch.
        PeerError
            If they are of different surveys.
        """
        every = list(batches)
        if not every:
            raise UsageError("batches", "none", "at least one")
        first = every[0].params
        for one in every:
            if one.params.digest != first.digest:
                raise PeerError("respondent", "reports", "reports of different surveys")
        groups = tuple(
            tuple(np.concatenate(parts) for parts in zip(*columns, strict=True))
            for columns in zip(*(one.groups for one in every), strict=True)
        )
        return TupleReports(first, groups, any(one.insecure for one in every))

    def encode(self) -> bytes:
        """Return the wire form; the same reports always give the same bytes."""
        writer = Writer().raw(_MAGIC).u8(_VERSION).u8(_INSECURE if self.insecure else 0)
        writer.raw(self.params.digest)
        for count in self.counts:
            writer.u64(count)
        for layout, columns in zip(groups_of(self.params), self.groups, strict=True):
            for column, values in zip(layout, columns, strict=True):
                column.write(writer, np.ascontiguousarray(values))
        return writer.getvalue()

    @classmethod
    def decode(
        cls,
        data: bytes | bytearray | memoryview,
        params: Params,
        *,
        peer: str | int = "respondent",
        round: str = "reports",
    ) -> TupleReports:
        """Read the wire form of reports of one survey; trusts nothing.

        Parameters
        ----------
        data : bytes or bytearray or memoryview
            What was written; nothing in it is trusted.
        params : Params
            The parameters that all parties agreed on.
        peer : str or int
            Who sent it, for errors.
        round : str
            What it is for, for errors.

        Raises
        ------
        PeerError
            If the bytes are no such batch, one of another survey, or hold what no respondent sends.
        """
        reader = Reader(data, peer=peer, round=round)
        insecure = read_header(reader, _MAGIC, _VERSION, params.digest)
        layouts = groups_of(params)
        counts = [reader.u64() for _ in layouts]
        needed = sum(
            count * sum(column.report_bits for column in layout)
            for count, layout in zip(counts, layouts, strict=True)
        )
        if needed > 8 * reader.remaining:
            reader.fail(f"found {reader.remaining} bytes, too few for {sum(counts)} reports")
        groups = tuple(
            tuple(column.read(reader, count) for column in layout)
            for count, layout in zip(counts, layouts, strict=True)
        )
        reader.end()
        return cls(params, groups, insecure)


def report_bytes(params: Params) -> float:
    """Return the bytes of one report on the wire, among many.

    Of ``smp`` it is the average over the attributes, and the attribute's number is counted.
    """
    sizes = [sum(column.report_bits for column in layout) for layout in groups_of(params)]
    number = (params.d - 1).bit_length() if params.protocol is Protocol.SMP else 0
    return (sum(sizes) / len(sizes) + number) / 8
