"""What an aggregator keeps of reports: sums, which add up in any order and anywhere.

The wire form, integers little-endian::

    magic "PALS"   version u8   flags u8 (1: made from a seed, insecure)   digest 32 bytes
    reports u64    sums u32     the sums, 8 bytes each, negative ones in two's complement
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg._validate import describe, whole
from privagg.errors import PeerError, UsageError
from privagg.mechanisms.reports import read_header
from privagg.wire import Reader, Writer

__all__ = ["MAX_REPORTS", "State"]

_MAGIC = b"PALS"
_VERSION = 1

MAX_REPORTS = 2**38
"""No report adds more than 2**24 to a sum, so sums of so many stay below 2**62."""


@dataclass(frozen=True, eq=False)
class State:
    """Sums over reports: nothing else of them is kept.

    States of one configuration add up (``+``, or ``sum`` over many) to the state of all their
    reports: aggregation streams over batches and merges across processes. Which reports a state
    holds is its holder's to know: a report counted twice is counted twice.

    Attributes
    ----------
    digest : bytes
        The mechanism's, 32 bytes.
    users : int
        How many reports were counted.
    sums : (s,) int64 array
        What the mechanism adds up.
    insecure : bool
        Whether any report came from a seed.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    digest: bytes
    users: int
    sums: NDArray[np.int64] = field(repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        whole("users", self.users, 0, MAX_REPORTS)
        sums = self.sums
        if not isinstance(sums, np.ndarray) or sums.ndim != 1 or sums.dtype != np.int64:
            raise UsageError("sums", describe(sums), "a 1-D array of int64")

    def check_size(self, size: int) -> None:
        """Raise `UsageError` unless there are `size` sums, as whoever reads them expects.

        Raises
        ------
        UsageError
            If there are others.
        """
        if self.sums.size != size:
            hint = "aggregate and decode_state return states that fit."
            raise UsageError("state", f"{self.sums.size} sums", f"{size} sums", hint)

    def __add__(self, other: object) -> State:
        """Return the state of both; `PeerError` if they are of different configurations."""
        if not isinstance(other, State):
            return NotImplemented
        if self.digest != other.digest:
            raise PeerError(
                "aggregator",
                "merge",
                f"states of different configurations: digests {self.digest[:8].hex()}... and "
                f"{other.digest[:8].hex()}... (mechanism, domain and epsilon must be the same)",
            )
        other.check_size(self.sums.size)
        return State(
            self.digest,
            self.users + other.users,
            self.sums + other.sums,
            self.insecure or other.insecure,
        )

    def __radd__(self, other: object) -> State:
        """Let ``sum(states)`` start from 0."""
        return self if other == 0 else NotImplemented

    def merge(self, other: State) -> State:
        """Return the state of both, as ``+`` does.

        Raises
        ------
        UsageError
            If the other is of another configuration, or the sums could wrap.
        """
        if not isinstance(other, State):
            raise UsageError("other", type(other).__name__, "a State")
        return self + other

    def encode(self) -> bytes:
        """Return the wire form; equal states give equal bytes."""
        writer = Writer().raw(_MAGIC).u8(_VERSION).u8(1 if self.insecure else 0).raw(self.digest)
        writer.u64(self.users).u32(self.sums.size)
        return writer.packed(self.sums.view(np.uint64), 64).getvalue()

    @staticmethod
    def decode(
        data: bytes | bytearray | memoryview,
        digest: bytes,
        size: int,
        *,
        peer: str | int = "aggregator",
        round: str = "state",
    ) -> State:
        """Read the wire form of a state of one configuration; trusts nothing.

        :meth:`Mechanism.decode_state` also checks that such sums can be.

        Parameters
        ----------
        data : bytes or bytearray or memoryview
            What was written; nothing in it is trusted.
        digest : bytes
            The 32 bytes that name the configuration.
        size : int
            How many sums there must be.
        peer : str or int
            Who sent it, for errors.
        round : str
            What it is for, for errors.

        Raises
        ------
        PeerError
            If the bytes are no such state, or one of another configuration.
        """
        reader = Reader(data, peer=peer, round=round)
        insecure = read_header(reader, _MAGIC, _VERSION, digest)
        users = reader.u64()
        if users > MAX_REPORTS:
            reader.fail(f"expected at most {MAX_REPORTS} reports, found {users}")
        found = reader.u32()
        if found != size:
            reader.fail(f"expected {size} sums, found {found}")
        sums = reader.packed(size, 64).view(np.int64)
        reader.end()
        return State(digest, users, sums, insecure)
