"""Messages of asynchronous use: like a round's, but each names the round its mask is of.

Keys are advertised once, by :class:`~privagg.protocols.lightsecagg.messages.AdvertiseKeys` and
:class:`~privagg.protocols.lightsecagg.messages.KeyRoster`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import wire
from privagg.errors import UsageError
from privagg.protocols._common import framing
from privagg.protocols._common.framing import HEADER_BYTES, Framed
from privagg.protocols.lightsecagg.messages import (
    AdvertiseKeys,
    CodedSum,
    KeyRoster,
    Start,
    elements_bytes,
    read_elements,
    share_bytes,
)
from privagg.protocols.lightsecagg.params import PROTOCOL_VERSION, Params

__all__ = [
    "KINDS",
    "BufferRequest",
    "BufferedSum",
    "DatedInput",
    "DatedMessage",
    "DatedShare",
    "DatedShares",
    "decode",
    "expect",
]

KINDS: dict[int, type[Framed[Params]]] = {
    kind.kind: kind for kind in (Start, AdvertiseKeys, KeyRoster)
}
"""Every message of a session by its kind."""


class DatedMessage(Framed[Params]):
    """What all messages with a date have; see :class:`Framed`."""

    version: ClassVar[int] = PROTOCOL_VERSION

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls


def decode(data: bytes | memoryview, params: Params, *, peer: str | int) -> Framed[Params]:
    """Read whatever message of a session `data` is.

    Raises
    ------
    PeerError
        If `data` is not the canonical encoding of any.
    """
    return framing.read(KINDS, data, params, peer=peer)


_M = TypeVar("_M", bound=Framed[Params])


def expect(message: object, kind: type[_M], params: Params, *, peer: str | int) -> _M:
    """Return `message`, which came from `peer`, if it is of that kind and well-formed.

    Raises
    ------
    UsageError
        If it is no such message.
    PeerError
        If it could not have been decoded.
    """
    if not isinstance(message, kind):
        raise UsageError("message", type(message).__name__, kind.__name__)
    return message.checked(params, peer=peer)


@dataclass(frozen=True, kw_only=True, eq=False)
class DatedShares(DatedMessage):
    """Client to server: coded shares of the mask of round `time`, one per peer, encrypted."""

    kind: ClassVar[int] = 21
    round: ClassVar[str] = "share-masks"
    time: int
    ciphertexts: NDArray[np.uint8] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.time).u32(len(self.ciphertexts)).raw_array(self.ciphertexts)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        time, count = reader.u32(), reader.u32()
        if count >= params.clients:
            reader.fail(f"{count} ciphertexts where there are {params.clients} clients")
        return cls(tag=tag, time=time, ciphertexts=reader.raw_array(count, share_bytes(params)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DatedShare(DatedMessage):
    """Server to client: what `sender` sealed for it in round `time`."""

    kind: ClassVar[int] = 22
    round: ClassVar[str] = "share-masks"
    time: int
    sender: int
    ciphertext: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.time).u32(self.sender).raw(self.ciphertext)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        time, sender = reader.u32(), reader.u32()
        return cls(tag=tag, time=time, sender=sender, ciphertext=reader.raw(share_bytes(params)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DatedInput(DatedMessage):
    """Client to server: its vector under the mask of round `time`."""

    kind: ClassVar[int] = 23
    round: ClassVar[str] = "masked-input"
    time: int
    bits: int
    vector: NDArray[Any] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.time).packed(self.vector, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        time, vector = reader.u32(), read_elements(reader, params.length, params)
        return cls(tag=tag, time=time, bits=params.bits, vector=vector)

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + 4 + elements_bytes(params, params.length)


@dataclass(frozen=True, kw_only=True, eq=False)
class BufferRequest(DatedMessage):
    """Server to clients: whose inputs, of which rounds, are in the buffer of round `now`."""

    kind: ClassVar[int] = 24
    round: ClassVar[str] = "unmasking"
    now: int
    senders: NDArray[np.uint32]
    times: NDArray[np.uint32]

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.now).u32(len(self.senders))
        writer.packed(self.senders, 32).packed(self.times, 32)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        now, count = reader.u32(), reader.u32()
        senders = reader.packed(count, 32, np.uint32)
        return cls(tag=tag, now=now, senders=senders, times=reader.packed(count, 32, np.uint32))


@dataclass(frozen=True, kw_only=True, eq=False)
class BufferedSum(DatedMessage):
    """Client to server: the weighted sum of its coded shares over the buffer of round `now`."""

    kind: ClassVar[int] = 25
    round: ClassVar[str] = "unmasking"
    now: int
    bits: int
    elements: NDArray[Any] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.now).packed(self.elements, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        now, elements = reader.u32(), read_elements(reader, params.piece, params)
        return cls(tag=tag, now=now, bits=params.bits, elements=elements)

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return CodedSum.size(params) + 4
