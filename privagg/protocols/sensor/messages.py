"""The messages of the protocol and their byte layouts.

A mote's frame has its sender, receiver and kind in the header (they are the transport's knowledge),
so that the layouts here are bare: fixed, canonical, and as short as the counts in a report say.
Decoding checks sizes first; anything else is a :class:`~privagg.errors.PeerError`.

Ciphertexts are opaque here. What opens them is in :mod:`privagg.protocols.sensor.channel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self

from privagg import wire
from privagg.protocols.sensor.formation import id_bytes
from privagg.protocols.sensor.params import Arithmetic, Params

__all__ = [
    "Answer",
    "Echo",
    "Hello",
    "Items",
    "Join",
    "Message",
    "Received",
    "Relay",
    "RelayedItems",
    "Report",
    "Roster",
    "Sealed",
    "SenderSet",
    "Shares",
    "bitmap",
    "element_bytes",
    "flags_of",
    "item_bytes",
    "read_ids",
    "write_ids",
]


def element_bytes(params: Params) -> int:
    """Return the bytes of a number on the tree: 4 or 8, of a field element or a real number."""
    if params.arithmetic is Arithmetic.REAL:
        return params.real_bytes
    return 4 if params.field.bits <= 32 else 8


def item_bytes(params: Params) -> int:
    """Return the bytes of a sealed vector of elements."""
    return element_bytes(params) * params.width + params.tag_bytes


def bitmap(flags: list[bool]) -> bytes:
    """Pack a bit for each member, least significant first."""
    octets = bytearray((len(flags) + 7) // 8)
    for place, flag in enumerate(flags):
        octets[place >> 3] |= flag << (place & 7)
    return bytes(octets)


def flags_of(octets: bytes, members: int) -> list[bool]:
    """Unpack what :func:`bitmap` packed."""
    return [bool(octets[place >> 3] >> (place & 7) & 1) for place in range(members)]


@dataclass(frozen=True, kw_only=True)
class Message(ABC):
    """What all messages have: a kind, for the nonce, and the step they belong to."""

    kind: ClassVar[int]
    round: ClassVar[str]

    @abstractmethod
    def encode(self) -> bytes:
        """Return the canonical bytes."""

    @classmethod
    def decode(cls, data: bytes, params: Params, *, peer: int, members: int = 0) -> Self:
        """Read a message that `peer` sent.

        Parameters
        ----------
        data : bytes
            A frame's payload, put together from its fragments.
        params : Params
            Of the run.
        peer : int
            The sender in the frame's header.
        members : int
            Size of the roster that the receiver holds; 0 before there is one.

        Raises
        ------
        PeerError
            If the bytes are not the canonical encoding of such a message.
        """
        reader = wire.Reader(data, peer=peer, round=cls.round)
        message = cls._read(reader, params, members)
        reader.end()
        return message

    @classmethod
    @abstractmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self: ...


@dataclass(frozen=True, kw_only=True)
class Sealed(Message):
    """A message that is one ciphertext."""

    sealed: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Return the ciphertext, as long as what is sealed and a tag."""
        return self.sealed


@dataclass(frozen=True, kw_only=True)
class Items(Message):
    """A message of an item for each other member, in the roster's order."""

    items: tuple[bytes, ...] = field(repr=False)

    def encode(self) -> bytes:
        """Return the items, one after the other."""
        return b"".join(self.items)


@dataclass(frozen=True, kw_only=True)
class RelayedItems(Message):
    """Items of one origin that the leader sends on."""

    position: int
    items: tuple[bytes, ...] = field(repr=False)

    def encode(self) -> bytes:
        """Return the origin's position in the roster in 2 bytes, then the items."""
        return wire.Writer().u16(self.position).getvalue() + b"".join(self.items)

    @classmethod
    def _of_size(cls, reader: wire.Reader, size: int, members: int) -> Self:
        position = reader.u16()
        if position >= members:
            reader.fail(f"position {position} in a roster of {members}")
        count, rest = divmod(reader.remaining, size)
        if rest or not 1 <= count < members:
            reader.fail(f"{reader.remaining} bytes where 1 to {members - 1} items of {size} fit")
        return cls(position=position, items=tuple(reader.raw(size) for _ in range(count)))


def write_ids(writer: wire.Writer, members: tuple[int, ...], size: int) -> None:
    """Write ids of 2 or 4 bytes."""
    for node in members:
        if size == 2:
            writer.u16(node)
        else:
            writer.u32(node)


def read_ids(reader: wire.Reader, size: int) -> tuple[int, ...]:
    """Read ids of 2 or 4 bytes, up to the end."""
    count, rest = divmod(reader.remaining, size)
    if rest:
        reader.fail(f"{reader.remaining} bytes of ids where each has {size}")
    return tuple(reader.u16() if size == 2 else reader.u32() for _ in range(count))


@dataclass(frozen=True, kw_only=True)
class Hello(Message):
    """The query, flooded: who forwards it, how far from the base station, and whether it leads."""

    kind: ClassVar[int] = 1
    round: ClassVar[str] = "hello"
    epoch: int
    hops: int
    leads: bool

    def encode(self) -> bytes:
        """Return 8 bytes."""
        return wire.Writer().u32(self.epoch).u16(self.hops).u16(int(self.leads)).getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        epoch, hops, flag = reader.u32(), reader.u16(), reader.u16()
        if flag > 1:
            reader.fail(f"flags {flag} where 0 or 1 is allowed")
        return cls(epoch=epoch, hops=hops, leads=bool(flag))


@dataclass(frozen=True, kw_only=True)
class Join(Message):
    """A node joins the cluster of a leader that it shares a key with; the tag proves the key."""

    kind: ClassVar[int] = 2
    round: ClassVar[str] = "join"
    epoch: int
    tag: bytes

    def encode(self) -> bytes:
        """Return 4 bytes and a tag."""
        return wire.Writer().u32(self.epoch).raw(self.tag).getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(epoch=reader.u32(), tag=reader.raw(params.tag_bytes))


@dataclass(frozen=True, kw_only=True)
class Roster(Message):
    """Who is in the cluster; a member's position in it is its point."""

    kind: ClassVar[int] = 3
    round: ClassVar[str] = "roster"
    epoch: int
    members: tuple[int, ...]
    id_size: int

    def encode(self) -> bytes:
        """Return 4 bytes and an id for each member."""
        writer = wire.Writer().u32(self.epoch)
        write_ids(writer, self.members, self.id_size)
        return writer.getvalue()

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        size = id_bytes(params.nodes)
        return cls(epoch=reader.u32(), members=read_ids(reader, size), id_size=size)


@dataclass(frozen=True, kw_only=True)
class Shares(Items):
    """A member's sealed shares for all others, in the roster's order, itself left out."""

    kind: ClassVar[int] = 4
    round: ClassVar[str] = "shares"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        size = item_bytes(params)
        return cls(items=tuple(reader.raw(size) for _ in range(members - 1)))


@dataclass(frozen=True, kw_only=True)
class Relay(RelayedItems):
    """Items of one origin that the leader sends on; only their receivers can tell whose is whose.

    `of` is the kind of message they come from: :class:`Shares` or :class:`Echo`.
    """

    kind: ClassVar[int] = 5
    round: ClassVar[str] = "shares"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls._of_size(reader, item_bytes(params), members)

    @classmethod
    def decode_echoes(cls, data: bytes, params: Params, *, peer: int, members: int) -> Self:
        """Read relayed echoes, which are tags alone."""
        reader = wire.Reader(data, peer=peer, round="echo")
        message = cls._of_size(reader, params.tag_bytes, members)
        reader.end()
        return message


@dataclass(frozen=True, kw_only=True)
class Received(Sealed):
    """Threshold mode: whose shares a member has, sealed for the collector."""

    kind: ClassVar[int] = 6
    round: ClassVar[str] = "received"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(sealed=reader.raw((members + 7) // 8 + params.tag_bytes))


@dataclass(frozen=True, kw_only=True)
class SenderSet(Message):
    """Threshold mode: whose readings the sum is to hold."""

    kind: ClassVar[int] = 7
    round: ClassVar[str] = "senders"
    senders: tuple[bool, ...]

    def encode(self) -> bytes:
        """Return a bit for each member."""
        return bitmap(list(self.senders))

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        octets = reader.raw((members + 7) // 8)
        flags = flags_of(octets, members)
        if bitmap(flags) != octets:
            reader.fail("bits beyond the roster's end")
        return cls(senders=tuple(flags))


@dataclass(frozen=True, kw_only=True)
class Echo(Items):
    """Threshold mode: a tag over the set of senders for each other member, as :class:`Shares`."""

    kind: ClassVar[int] = 8
    round: ClassVar[str] = "echo"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(items=tuple(reader.raw(params.tag_bytes) for _ in range(members - 1)))


@dataclass(frozen=True, kw_only=True)
class Answer(Sealed):
    """The sum of the shares that a member holds, or its masked numbers, sealed for the collector.

    One answer is sent in an epoch; a successor of the leader gets the same, sealed for it.
    """

    kind: ClassVar[int] = 9
    round: ClassVar[str] = "answer"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(sealed=reader.raw(item_bytes(params)))


@dataclass(frozen=True, kw_only=True)
class Report(Sealed):
    """Sums and count on their way up the tree, sealed for the parent."""

    kind: ClassVar[int] = 10
    round: ClassVar[str] = "report"

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        return cls(sealed=reader.raw(element_bytes(params) * params.width + 4 + params.tag_bytes))
