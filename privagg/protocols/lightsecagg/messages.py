"""The messages of the protocol and their byte layouts.

Every message is a frozen dataclass with ``encode()`` and ``decode(data, params, peer=...)``.
Layouts are fixed and canonical: decoding and encoding again gives the same bytes, and anything else
is a :class:`~privagg.errors.PeerError`, an element that is not below the prime among it. Sizes are
checked before memory is taken.

All start with a header of 10 bytes: protocol version, kind, and a tag of 8 bytes which names the
session, round and configuration. Who sent a message is the transport's knowledge and is not
repeated in it; ids of others are bitmaps. Coded shares, vectors and sums are bit-packed, as many
bits for each element as the modulus has.

Signatures are there only in the threat model that has identities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privagg import keys, wire
from privagg.errors import UsageError
from privagg.protocols._common import framing
from privagg.protocols._common.framing import (
    HEADER_BYTES,
    SESSION_BYTES,
    TAG_BYTES,
    Framed,
)
from privagg.protocols._common.invitation import Invitation, LoneSignature
from privagg.protocols.lightsecagg.params import MAX_CLIENTS, PROTOCOL_VERSION, Params
from privagg.protocols.secagg.identity import SIGNATURE_BYTES

__all__ = [
    "KINDS",
    "SESSION_BYTES",
    "TAG_BYTES",
    "AdvertiseKeys",
    "CodedSum",
    "ConsistencySignature",
    "KeyRoster",
    "MaskedInput",
    "Message",
    "ShareBundle",
    "ShareMasks",
    "SignatureSet",
    "Start",
    "SurvivorSet",
    "decode",
    "elements_bytes",
    "read_elements",
    "share_bytes",
]

KINDS: dict[int, type[Message]] = {}
"""Every message by its kind; filled as the classes are made."""


class Message(Framed[Params]):
    """What all messages of this protocol have; see :class:`Framed`."""

    version: ClassVar[int] = PROTOCOL_VERSION

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls


def share_bytes(params: Params) -> int:
    """Return the bytes of one coded share as it travels: bit-packed, encrypted, with its tag."""
    return elements_bytes(params, params.piece) + keys.TAG_BYTES


def elements_bytes(params: Params, count: int) -> int:
    """Return the bytes of so many field elements."""
    return wire.packed_size(count, params.bits)


def read_elements(reader: wire.Reader, count: int, params: Params) -> NDArray[Any]:
    """Read field elements; refuse one that is not below the modulus."""
    elements = reader.packed(count, params.bits, params.word)
    if np.any(elements >= params.word.type(params.field.modulus)):
        reader.fail(f"an element that is not below the modulus of {params.field.name}")
    return elements


def _read_flags(reader: wire.Reader, params: Params) -> NDArray[np.bool_]:
    """Read a counted bitmap over the roster's members."""
    count = reader.u32()
    if count > params.clients:
        reader.fail(f"a bitmap over {count} members where there are at most {params.clients}")
    return reader.bitmap(count)


def _flags_size(members: int) -> int:
    return 4 + wire.bitmap_size(members)


@dataclass(frozen=True, kw_only=True, eq=False)
class Start(Invitation[Params], Message):
    """Server to client, before round 0: the session, the round and the client's index."""

    kind: ClassVar[int] = 1
    round: ClassVar[str] = "advertise-keys"


@dataclass(frozen=True, kw_only=True, eq=False)
class AdvertiseKeys(Message):
    """Client to server, round 0: the X25519 public key that coded shares are encrypted under."""

    kind: ClassVar[int] = 2
    round: ClassVar[str] = "advertise-keys"
    cipher_key: bytes
    signature: bytes = field(default=b"", repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.cipher_key).raw(self.signature)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(
            tag=tag,
            cipher_key=reader.raw(keys.KEY_BYTES),
            signature=reader.raw(SIGNATURE_BYTES) if params.signed else b"",
        )

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + keys.KEY_BYTES + params.signed * SIGNATURE_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyRoster(Message):
    """Server to client, round 1: who advertised a key, the receiver included, and the keys.

    ``members`` travel as a bitmap over ``universe``, all clients. ``keys`` has a row of 32 bytes
    per member, and where keys are signed ``signatures`` has one of 64.
    """

    kind: ClassVar[int] = 3
    round: ClassVar[str] = "share-masks"
    members: NDArray[np.uint32]
    keys: NDArray[np.uint8] = field(repr=False)
    universe: int
    signatures: NDArray[np.uint8] | None = field(default=None, repr=False)

    def _write(self, writer: wire.Writer) -> None:
        if self.universe > MAX_CLIENTS:
            raise UsageError("universe", self.universe, f"at most {MAX_CLIENTS}")
        flags = np.zeros(self.universe, np.bool_)
        flags[self.members] = True
        writer.bitmap(flags).raw_array(self.keys)
        if self.signatures is not None:
            writer.raw_array(self.signatures)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        members = np.flatnonzero(reader.bitmap(params.clients)).astype(np.uint32)
        count = len(members)
        return cls(
            tag=tag,
            members=members,
            keys=reader.raw_array(count, keys.KEY_BYTES),
            universe=params.clients,
            signatures=reader.raw_array(count, SIGNATURE_BYTES) if params.signed else None,
        )

    @staticmethod
    def size(params: Params, members: int) -> int:
        """Return the encoded bytes for so many members."""
        row = keys.KEY_BYTES + params.signed * SIGNATURE_BYTES
        return HEADER_BYTES + wire.bitmap_size(params.clients) + members * row


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareMasks(Message):
    """Client to server, round 1: one encrypted coded share per peer, in the roster's order."""

    kind: ClassVar[int] = 4
    round: ClassVar[str] = "share-masks"
    ciphertexts: NDArray[np.uint8] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.ciphertexts)).raw_array(self.ciphertexts)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        count = reader.u32()
        if count >= params.clients:
            reader.fail(f"{count} ciphertexts where there are {params.clients} clients")
        return cls(tag=tag, ciphertexts=reader.raw_array(count, share_bytes(params)))

    @staticmethod
    def size(params: Params, peers: int) -> int:
        """Return the encoded bytes for so many peers."""
        return HEADER_BYTES + 4 + peers * share_bytes(params)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareBundle(Message):
    """Server to client, round 2: the coded shares for it, from the peers that sent some.

    ``present`` has a bit per member of the roster; the receiver's own bit is zero.
    """

    kind: ClassVar[int] = 5
    round: ClassVar[str] = "masked-input"
    present: NDArray[np.bool_]
    ciphertexts: NDArray[np.uint8] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.present)).bitmap(self.present).raw_array(self.ciphertexts)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        present = _read_flags(reader, params)
        columns = reader.raw_array(int(present.sum()), share_bytes(params))
        return cls(tag=tag, present=present, ciphertexts=columns)

    @staticmethod
    def size(params: Params, members: int, senders: int) -> int:
        """Return the encoded bytes for so many members and ciphertexts."""
        return HEADER_BYTES + _flags_size(members) + senders * share_bytes(params)


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedInput(Message):
    """Client to server, round 2: the masked vector.

    ``missing`` marks the members of the roster whose coded share did not open. ``signature``, where
    there is one, says that the client takes part with this model.
    """

    kind: ClassVar[int] = 6
    round: ClassVar[str] = "masked-input"
    bits: int
    missing: NDArray[np.bool_]
    vector: NDArray[Any] = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.signature).u32(len(self.missing)).bitmap(self.missing)
        writer.packed(self.vector, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        signature = reader.raw(params.signed * SIGNATURE_BYTES)
        missing = _read_flags(reader, params)
        vector = read_elements(reader, params.length, params)
        return cls(tag=tag, bits=params.bits, missing=missing, vector=vector, signature=signature)

    @staticmethod
    def size(params: Params, members: int) -> int:
        """Return the encoded bytes where the roster has so many members."""
        signature = params.signed * SIGNATURE_BYTES
        vector = elements_bytes(params, params.length)
        return HEADER_BYTES + signature + _flags_size(members) + vector


@dataclass(frozen=True, kw_only=True, eq=False)
class SurvivorSet(Message):
    """Server to client: whose inputs arrived (U1). It opens the consistency check, or unmasking.

    ``survivors`` has a bit per member of the roster. Where messages are signed, ``signatures`` has
    a row per survivor: that of its masked input.
    """

    kind: ClassVar[int] = 7
    round: ClassVar[str] = "unmasking"
    survivors: NDArray[np.bool_]
    signatures: NDArray[np.uint8] | None = field(default=None, repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.survivors)).bitmap(self.survivors)
        if self.signatures is not None:
            writer.raw_array(self.signatures)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        survivors, rows = _read_flags(reader, params), None
        if params.signed:
            rows = reader.raw_array(int(survivors.sum()), SIGNATURE_BYTES)
        return cls(tag=tag, survivors=survivors, signatures=rows)

    @staticmethod
    def size(params: Params, members: int, survivors: int) -> int:
        """Return the encoded bytes for so many members, of whom so many survived."""
        rows = params.signed * survivors * SIGNATURE_BYTES
        return HEADER_BYTES + _flags_size(members) + rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsistencySignature(LoneSignature[Params], Message):
    """Client to server, round 3: a signature over the survivor set, sharers, keys and model."""

    kind: ClassVar[int] = 8
    round: ClassVar[str] = "consistency-check"


@dataclass(frozen=True, kw_only=True, eq=False)
class SignatureSet(Message):
    """Server to client, round 4: who signed, a bit per member of the roster, and what."""

    kind: ClassVar[int] = 9
    round: ClassVar[str] = "unmasking"
    signers: NDArray[np.bool_]
    signatures: NDArray[np.uint8] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.signers)).bitmap(self.signers).raw_array(self.signatures)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        signers = _read_flags(reader, params)
        rows = reader.raw_array(int(signers.sum()), SIGNATURE_BYTES)
        return cls(tag=tag, signers=signers, signatures=rows)

    @staticmethod
    def size(members: int, signers: int) -> int:
        """Return the encoded bytes for so many members and signatures."""
        return HEADER_BYTES + _flags_size(members) + signers * SIGNATURE_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedSum(Message):
    """Client to server, round 4: the sum of its coded shares over the survivors' masks."""

    kind: ClassVar[int] = 10
    round: ClassVar[str] = "unmasking"
    bits: int
    elements: NDArray[Any] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.packed(self.elements, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        elements = read_elements(reader, params.piece, params)
        return cls(tag=tag, bits=params.bits, elements=elements)

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + elements_bytes(params, params.piece)


def decode(data: bytes | memoryview, params: Params, *, peer: str | int) -> Message:
    """Read whatever message `data` is.

    Parameters
    ----------
    data : bytes or memoryview
        What was written; nothing in it is trusted.
    params : Params
        The parameters that all parties agreed on.
    peer : str or int
        Who sent it, for errors.

    Raises
    ------
    PeerError
        If `data` is not the canonical encoding of any message under `params`.
    UsageError
        If `data` is not bytes, or `params` are none of this protocol.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "lightsecagg.Params")
    return framing.read(KINDS, data, params, peer=peer)
