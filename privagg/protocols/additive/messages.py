"""The messages of the protocol and their layouts: see :mod:`privagg.protocols._common.framing`.

Who sent a message is the transport's knowledge. The tag names parameters and session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privagg import keys, wire
from privagg.errors import UsageError
from privagg.protocols._common import framing
from privagg.protocols._common.framing import SESSION_BYTES, TAG_BYTES, Framed
from privagg.protocols.additive.params import SEED_BYTES, Params

__all__ = [
    "KINDS",
    "Cohort",
    "MaskSum",
    "MaskedInput",
    "Message",
    "SeedHolders",
    "SeedShare",
    "decode",
    "tag_of",
]

KINDS: dict[int, type[Message]] = {}
"""Every message by its kind; filled as the classes are made."""


class Message(Framed[Params]):
    """What all messages of this protocol have."""

    version: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls


def tag_of(params: Params, session: bytes) -> bytes:
    """Return the tag of a session.

    Raises
    ------
    UsageError
        If `params` are none of this protocol, or `session` is not 16 bytes.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "additive.Params")
    if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
        raise UsageError("session", type(session).__name__, f"{SESSION_BYTES} bytes")
    return keys.digest(b"privagg additive session", params.digest(), session)[:TAG_BYTES]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedShare(Message):
    """Client to helper: the seed of one mask."""

    kind: ClassVar[int] = 1
    round: ClassVar[str] = "share-seeds"
    seed: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.seed)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, seed=reader.raw(SEED_BYTES))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Members(Message):
    """A set of clients."""

    kind: ClassVar[int] = 0
    members: NDArray[np.bool_]

    def _write(self, writer: wire.Writer) -> None:
        writer.bitmap(self.members)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, members=reader.bitmap(params.clients))


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedHolders(_Members):
    """Helper to leader, then leader to each of these clients: whose seeds are there."""

    kind: ClassVar[int] = 2
    round: ClassVar[str] = "masked-input"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort(_Members):
    """Leader to helper: whose masked vectors are in the sum."""

    kind: ClassVar[int] = 4
    round: ClassVar[str] = "sum-masks"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Vector(Message):
    """Words modulo ``2**bits``, bit-packed."""

    kind: ClassVar[int] = 0
    bits: int
    vector: NDArray[Any] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.packed(self.vector, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, bits=params.bits, vector=reader.packed(params.dim, params.bits))


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedInput(_Vector):
    """Client to leader: the vector and all masks, added up."""

    kind: ClassVar[int] = 3
    round: ClassVar[str] = "masked-input"


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskSum(_Vector):
    """Helper to leader: the sum of the cohort's masks."""

    kind: ClassVar[int] = 5
    round: ClassVar[str] = "sum-masks"


for _kind in (0,):
    KINDS.pop(_kind)  # sets and vectors as such are no messages


def decode(data: bytes | memoryview, params: Params, *, peer: str | int) -> Message:
    """Read any message of this protocol.

    Parameters
    ----------
    data : bytes
        What arrived.
    params : Params
        What all have agreed on.
    peer : str or int
        Who sent it, for the error.

    Raises
    ------
    PeerError
        If `data` is not the canonical encoding of a message under `params`.
    UsageError
        If an argument is of another type.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "additive.Params")
    return framing.read(KINDS, data, params, peer=peer)
