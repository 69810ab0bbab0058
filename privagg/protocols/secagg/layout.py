"""What all messages have in common: header, sizes, and how bytes become a message.

The layouts themselves are in :mod:`privagg.protocols.secagg.messages` and, for the rounds that only
the stronger threat models have, in :mod:`privagg.protocols.secagg.messages_signed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privagg import keys, sharing, wire
from privagg.errors import PeerError, UsageError
from privagg.protocols.secagg.params import PROTOCOL_VERSION, Params
from privagg.protocols.secagg.thresholds import Graph

__all__ = [
    "CIPHERTEXT_BYTES",
    "DIGEST_BYTES",
    "FIELD_BITS",
    "HEADER_BYTES",
    "PLAINTEXT_BYTES",
    "SESSION_BYTES",
    "SHARE_WORDS",
    "TAG_BYTES",
    "Message",
    "pack_view",
    "read_flags",
    "view_bytes",
]

TAG_BYTES = 8
"""Bytes of the tag that names session, round and configuration."""

HEADER_BYTES = 2 + TAG_BYTES
"""Version, kind and tag."""

FIELD_BITS = 61
"""Bits of one share's field element, in GF(2**61 - 1)."""

SHARE_WORDS = 2 * sharing.LIMBS
"""Field elements in one ciphertext: a share of the mask key's seed, then one of the self mask's."""

PLAINTEXT_BYTES = wire.packed_size(SHARE_WORDS, FIELD_BITS)
"""Bytes of one pair of shares, bit-packed."""

CIPHERTEXT_BYTES = PLAINTEXT_BYTES + keys.TAG_BYTES
"""Bytes of one encrypted pair of shares."""

BOTH_KEYS = 2 * keys.KEY_BYTES
"""Bytes of a client's two public keys."""

DIGEST_BYTES = 32
"""Bytes of every digest, commitment and Merkle root."""

SESSION_BYTES = 16
"""Bytes that name a session."""

KINDS: dict[int, type[Message]] = {}
"""Every message by its kind; filled as the classes are made."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Message(ABC):
    """What all messages have: a tag, a kind, and the round they belong to."""

    kind: ClassVar[int]
    round: ClassVar[str]
    tag: bytes = field(repr=False)
    _read_under: ClassVar[bytes] = b""  # the parameters' digest, once it was decoded

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    def encode(self) -> bytes:
        """Return the canonical bytes of the message."""
        writer = wire.Writer().u8(PROTOCOL_VERSION).u8(self.kind).raw(self.tag)
        self._write(writer)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: bytes | memoryview, params: Params, *, peer: str | int) -> Self:
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
        if version != PROTOCOL_VERSION:
            reader.fail(f"protocol version {version} where {PROTOCOL_VERSION} is spoken")
        if kind != cls.kind:
            reader.fail(f"message kind {kind} where {cls.kind} ({cls.__name__}) is due")
        message = cls._read(reader, params, tag=reader.raw(TAG_BYTES))
        reader.end()
        object.__setattr__(message, "_read_under", params.digest())
        return message

    def checked(self, params: Params, *, peer: str | int) -> Self:
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
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self: ...


def view_bytes(params: Params) -> int:
    """Return the bytes of a client's view of its neighbours: a bit each, whoever is present."""
    return wire.bitmap_size(params.neighbours)


def pack_view(survivors: NDArray[np.bool_], params: Params) -> bytes:
    """Return the view that says so of the neighbours a client was shown."""
    octets = np.packbits(survivors, bitorder="little").tobytes()
    return octets.ljust(view_bytes(params), b"\0")


def read_flags(reader: wire.Reader, params: Params) -> NDArray[np.bool_]:
    """Read a counted bitmap over the roster's members."""
    count = reader.u32()
    limit = params.neighbours + (params.graph is Graph.COMPLETE)
    if count > limit:
        reader.fail(f"a bitmap over {count} members where there are at most {limit}")
    return reader.bitmap(count)
