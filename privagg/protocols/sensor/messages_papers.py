"""The messages of `smart`, `cmt` and the papers' variants of CPDA, and their byte layouts.

As in :mod:`privagg.protocols.sensor.messages`: bare, canonical, sizes checked first. Seeds and sums
of `cpda` and `cpda-sen-checked` are in clear, as the papers have them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from privagg import wire
from privagg.protocols.sensor.faithful import efficient_seed, share_bytes
from privagg.protocols.sensor.formation import id_bytes
from privagg.protocols.sensor.messages import (
    Items,
    Message,
    RelayedItems,
    Sealed,
    bitmap,
    element_bytes,
    flags_of,
    item_bytes,
    read_ids,
    write_ids,
)
from privagg.protocols.sensor.params import Arithmetic, Params

__all__ = [
    "Assembled",
    "CmtReport",
    "EfficientAnswer",
    "PaperRelay",
    "PaperShares",
    "Redo",
    "Seed",
    "SeedRelay",
    "SeededRoster",
    "Slice",
    "answer_size",
    "read_numbers",
    "share_size",
    "write_numbers",
]


def share_size(params: Params, members: int) -> int:
    """Return the bytes of a sealed share in a cluster of so many members."""
    return int(share_bytes(params, np.array([members]))[0][0])


def answer_size(params: Params, members: int) -> int:
    """Return the bytes of an answer to the leader."""
    return int(share_bytes(params, np.array([members]))[1][0])


def write_numbers(numbers: Sequence[int | float], params: Params, octets: int) -> bytes:
    """Write signed integers, or real numbers, of so many bytes each, little-endian."""
    return _number_bytes(numbers, octets, params.arithmetic is Arithmetic.REAL)


def _number_bytes(numbers: Sequence[int | float], octets: int, real: bool) -> bytes:
    if real:
        return struct.pack(f"<{len(numbers)}{'d' if octets == 8 else 'f'}", *numbers)
    return b"".join(int(n).to_bytes(octets, "little", signed=True) for n in numbers)


def read_numbers(data: bytes, params: Params, octets: int) -> list[int | float]:
    """Read what :func:`write_numbers` wrote; the length was checked."""
    if params.arithmetic is Arithmetic.REAL:
        return list(struct.unpack(f"<{len(data) // octets}{'d' if octets == 8 else 'f'}", data))
    return [
        int.from_bytes(data[at : at + octets], "little", signed=True)
        for at in range(0, len(data), octets)
    ]


@dataclass(frozen=True, kw_only=True)
class Seed(Message):
    """The seeds that a member chose, one for each number, for all to hear."""

    kind: ClassVar[int] = 16
    round: ClassVar[str] = "seeds"
    seeds: tuple[int, ...]

    def encode(self) -> bytes:
        """Return 4 bytes for each."""
        writer = wire.Writer()
        for seed in self.seeds:
            writer.u32(seed)
        return writer.getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(seeds=_seeds(reader, params))


def _seeds(reader: wire.Reader, params: Params) -> tuple[int, ...]:
    seeds = tuple(reader.u32() for _ in range(params.width))
    if not all(1 <= seed <= params.seed_max for seed in seeds):
        reader.fail(f"a seed outside 1 to {params.seed_max}")
    return seeds


@dataclass(frozen=True, kw_only=True)
class SeedRelay(Message):
    """Seeds that the leader sends on to members out of range: whose, and which."""

    kind: ClassVar[int] = 17
    round: ClassVar[str] = "seeds"
    origins: tuple[bool, ...]
    seeds: tuple[tuple[int, ...], ...]

    def encode(self) -> bytes:
        """Return a bit for each member, then the seeds of those that are set."""
        writer = wire.Writer().raw(bitmap(list(self.origins)))
        for seeds in self.seeds:
            for seed in seeds:
                writer.u32(seed)
        return writer.getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        octets = reader.raw((members + 7) // 8)
        flags = flags_of(octets, members)
        if bitmap(flags) != octets:
            reader.fail("bits beyond the roster's end")
        seeds = tuple(_seeds(reader, params) for _ in range(sum(flags)))
        return cls(origins=tuple(flags), seeds=seeds)


@dataclass(frozen=True, kw_only=True)
class PaperShares(Items):
    """A member's sealed shares for all others, in the roster's order, itself left out.

    Numbers are integers or reals. ``cpda-sen-checked`` may send such a message up to 20 times in an
    epoch; which time it is goes into the nonce.
    """

    kind: ClassVar[int] = 64
    round: ClassVar[str] = "shares"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        size = share_size(params, members)
        return cls(items=tuple(reader.raw(size) for _ in range(members - 1)))


@dataclass(frozen=True, kw_only=True)
class PaperRelay(RelayedItems):
    """Items of one origin that the leader sends on; only their receivers can open them."""

    kind: ClassVar[int] = 18
    round: ClassVar[str] = "shares"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls._of_size(reader, share_size(params, members), members)


@dataclass(frozen=True, kw_only=True)
class Redo(Message):
    """``cpda-sen-checked``: what a member holds fails the check; all draw coefficients again."""

    kind: ClassVar[int] = 19
    round: ClassVar[str] = "redo"
    attempt: int

    def encode(self) -> bytes:
        """Return the number of the attempt that failed, in 2 bytes."""
        return wire.Writer().u16(self.attempt).getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(attempt=reader.u16())


@dataclass(frozen=True, kw_only=True)
class Assembled(Message):
    """The sum of the shares that a member holds (F), in clear."""

    kind: ClassVar[int] = 20
    round: ClassVar[str] = "answer"
    numbers: tuple[int | float, ...]
    octets: int
    """Bytes of each number."""
    real: bool

    def encode(self) -> bytes:
        """Return the numbers, signed, little-endian."""
        return _number_bytes(self.numbers, self.octets, self.real)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        octets = answer_size(params, members) // params.width
        numbers = read_numbers(reader.raw(octets * params.width), params, octets)
        real = params.arithmetic is Arithmetic.REAL
        if real and not np.isfinite(numbers).all():
            reader.fail("a number that is not finite")
        return cls(numbers=tuple(numbers), octets=octets, real=real)


@dataclass(frozen=True, kw_only=True)
class SeededRoster(Message):
    """``cpda-sen-efficient``: who is in the cluster, and the leader's seed, a power of two."""

    kind: ClassVar[int] = 21
    round: ClassVar[str] = "roster"
    epoch: int
    members: tuple[int, ...]
    id_size: int
    exponent: int

    def encode(self) -> bytes:
        """Return 4 bytes, the exponent in 4, and an id for each member."""
        writer = wire.Writer().u32(self.epoch).u32(self.exponent)
        write_ids(writer, self.members, self.id_size)
        return writer.getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        size = id_bytes(params.nodes)
        epoch, exponent = reader.u32(), reader.u32()
        nodes = read_ids(reader, size)
        if nodes and exponent != efficient_seed(params, len(nodes)).bit_length() - 1:
            reader.fail(f"the exponent {exponent}, where another separates the digits")
        return cls(epoch=epoch, members=nodes, id_size=size, exponent=exponent)


@dataclass(frozen=True, kw_only=True)
class EfficientAnswer(Sealed):
    """``cpda-sen-efficient``: a member's one share, sealed for the leader, who can read it all."""

    kind: ClassVar[int] = 22
    round: ClassVar[str] = "answer"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(sealed=reader.raw(share_size(params, members)))


@dataclass(frozen=True, kw_only=True)
class Slice(Sealed):
    """``smart``: a slice of a neighbour's numbers, sealed for who gets it."""

    kind: ClassVar[int] = 23
    round: ClassVar[str] = "slice"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(sealed=reader.raw(item_bytes(params)))


@dataclass(frozen=True, kw_only=True)
class CmtReport(Sealed):
    """``cmt``: added ciphertexts, how many, and who is silent below; sealed for the hop."""

    kind: ClassVar[int] = 24
    round: ClassVar[str] = "report"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        least = element_bytes(params) * params.width + 4 + params.tag_bytes
        size = id_bytes(params.nodes)
        listed, rest = divmod(reader.remaining - least, size)
        if rest or not 0 <= listed <= params.nodes:
            reader.fail(f"{reader.remaining} bytes where {least} and ids of {size} are due")
        return cls(sealed=reader.raw(reader.remaining))
