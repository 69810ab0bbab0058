"""How bytes become a message and a message bytes, whatever the protocol.

A header of version, kind and tag comes first; what follows is each message's own layout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from privagg import wire
from privagg.errors import PeerError, UsageError

__all__ = ["DIGEST_BYTES", "HEADER_BYTES", "SESSION_BYTES", "TAG_BYTES", "Agreed", "Framed", "read"]

TAG_BYTES = 8
"""Bytes of the tag that names session, round and configuration."""

HEADER_BYTES = 2 + TAG_BYTES
"""Version, kind and tag."""

DIGEST_BYTES = 32
"""Bytes of every digest, commitment and Merkle root."""

SESSION_BYTES = 16
"""Bytes that name a session."""


class Agreed(Protocol):
    """Parameters that all parties have agreed on."""

    def digest(self) -> bytes:
        """Return 32 bytes that name them."""


P = TypeVar("P", bound=Agreed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Framed(ABC, Generic[P]):
    """What all messages have: a tag, a kind, and the round they belong to."""

    version: ClassVar[int]
    kind: ClassVar[int]
    round: ClassVar[str]
    tag: bytes = field(repr=False)
    _read_under: ClassVar[bytes] = b""  # the parameters' digest, once it was decoded

    def encode(self) -> bytes:
        """Return the canonical bytes of the message."""
        writer = wire.Writer().u8(self.version).u8(self.kind).raw(self.tag)
        self._write(writer)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: bytes | memoryview, params: P, *, peer: str | int) -> Self:
        """Read the message from `data`, which came from `peer`.

        Raises
        ------
        PeerError
            If the bytes are not the canonical encoding of such a message under `params`.
        UsageError
            If `data` is not bytes.
        """
        reader = wire.Reader(data, peer=peer, round=cls.round)
        version, kind = reader.u8(), reader.u8()
        if version != cls.version:
            reader.fail(f"protocol version {version} where {cls.version} is spoken")
        if kind != cls.kind:
            reader.fail(f"message kind {kind} where {cls.kind} ({cls.__name__}) is due")
        message = cls._read(reader, params, tag=reader.raw(TAG_BYTES))
        reader.end()
        object.__setattr__(message, "_read_under", params.digest())
        return message

    def checked(self, params: P, *, peer: str | int) -> Self:
        """Return the message as it is after it was sent: what :meth:`decode` returned, itself.

        One that was put together in this process may have any field: it is written and read, so
        that every check of :meth:`decode` holds of it, too.

        Raises
        ------
        PeerError
            If it is no message under `params`; it came from `peer`.
        """
        if self._read_under == params.digest():
            return self
        return type(self).decode(self._written(peer), params, peer=peer)

    def _written(self, peer: str | int) -> bytes:
        try:
            return self.encode()
        except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, UsageError) else type(error).__name__
            raise PeerError(
                peer, self.round, f"a {type(self).__name__} that cannot be written: {reason}"
            ) from None

    @abstractmethod
    def _write(self, writer: wire.Writer) -> None: ...

    @classmethod
    @abstractmethod
    def _read(cls, reader: wire.Reader, params: P, *, tag: bytes) -> Self: ...


_F = TypeVar("_F", bound=Framed[Any])


def read(
    kinds: Mapping[int, type[_F]], data: bytes | memoryview, params: Any, *, peer: str | int
) -> _F:
    """Read whatever message of `kinds` `data` is; see :meth:`Framed.decode`.

    Raises
    ------
    PeerError
        If `data` is not the canonical encoding of any message under `params`.
    """
    reader = wire.Reader(data, peer=peer, round="any")
    reader.u8()
    kind = reader.u8()
    if kind not in kinds:
        reader.fail(f"message kind {kind}; known are {', '.join(map(str, sorted(kinds)))}")
    return kinds[kind].decode(data, params, peer=peer)
