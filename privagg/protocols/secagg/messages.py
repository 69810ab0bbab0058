"""The messages of the protocol and their byte layouts.

Every message is a frozen dataclass with ``encode()`` and ``decode(data, params, peer=...)``.
Layouts are fixed and canonical: decoding and encoding again gives the same bytes, and anything else
is a :class:`~privagg.errors.PeerError`. Sizes are checked before memory is taken.

All start with a header of 10 bytes: protocol version, kind, and a tag of 8 bytes which names the
session, round and configuration, so that a message of another round is recognised at once. Who sent
a message is the transport's knowledge and is not repeated in it; ids of others are bitmaps (over
all clients in the complete graph, over the receiver's neighbours in the sparse one). Ciphertexts,
keys and shares are columns of fixed width; vectors and shares are bit-packed.

The signature fields are empty in semi-honest rounds; threat models with identities fill them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privagg import keys, sharing, wire
from privagg.protocols.secagg.params import PROTOCOL_VERSION, Params
from privagg.protocols.secagg.thresholds import Graph

__all__ = [
    "CIPHERTEXT_BYTES",
    "HEADER_BYTES",
    "SHARE_WORDS",
    "AdvertiseKeys",
    "KeyRoster",
    "MaskedInput",
    "Message",
    "ShareBundle",
    "ShareKeys",
    "Start",
    "SurvivorSet",
    "UnmaskShares",
    "decode",
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

_BOTH_KEYS = 2 * keys.KEY_BYTES
_DIGEST_BYTES = 32
_SESSION_BYTES = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Message(ABC):
    """What all messages have: a tag, a kind, and the round they belong to."""

    kind: ClassVar[int]
    round: ClassVar[str]
    tag: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Return the canonical bytes of the message."""
        writer = wire.Writer().u8(PROTOCOL_VERSION).u8(self.kind).raw(self.tag)
        self._write(writer)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: bytes, params: Params, *, peer: str | int) -> Self:
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
        return message

    @abstractmethod
    def _write(self, writer: wire.Writer) -> None: ...

    @classmethod
    @abstractmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Start(Message):
    """Server to client, before round 0: the session, the round and the client's index."""

    kind: ClassVar[int] = 1
    round: ClassVar[str] = "advertise-keys"
    session: bytes
    round_number: int
    client: int
    params_digest: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.session).u32(self.round_number).u32(self.client).raw(self.params_digest)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(
            tag=tag,
            session=reader.raw(_SESSION_BYTES),
            round_number=reader.u32(),
            client=reader.u32(),
            params_digest=reader.raw(_DIGEST_BYTES),
        )

    @staticmethod
    def size() -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + _SESSION_BYTES + 4 + 4 + _DIGEST_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class AdvertiseKeys(Message):
    """Client to server, round 0: X25519 public keys for encryption (c) and for masks (s)."""

    kind: ClassVar[int] = 2
    round: ClassVar[str] = "advertise-keys"
    cipher_key: bytes
    mask_key: bytes
    signature: bytes = b""

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.cipher_key).raw(self.mask_key).raw(self.signature)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        cipher_key, mask_key = reader.raw(keys.KEY_BYTES), reader.raw(keys.KEY_BYTES)
        return cls(tag=tag, cipher_key=cipher_key, mask_key=mask_key)

    @staticmethod
    def size() -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + _BOTH_KEYS


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyRoster(Message):
    """Server to client, round 1: who advertised keys (U1), and the keys the client needs.

    In the complete graph ``members`` are all of U1, the receiver included, sent as a bitmap over
    ``universe`` clients; each client computes the digest of the roster itself. In the sparse graph
    they are the receiver's neighbours in U1, sent as ids (``universe`` is 0), and ``digest`` is the
    server's over all keys. ``cohort`` is the size of U1; ``keys`` has a row of 64 bytes per member.
    """

    kind: ClassVar[int] = 3
    round: ClassVar[str] = "share-keys"
    cohort: int
    members: NDArray[np.uint32]
    keys: NDArray[np.uint8] = field(repr=False)
    universe: int
    digest: bytes = field(default=b"", repr=False)
    signatures: NDArray[np.uint8] | None = field(default=None, repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.cohort)
        if self.universe:
            flags = np.zeros(self.universe, np.bool_)
            flags[self.members] = True
            writer.bitmap(flags)
        else:
            writer.raw(self.digest).u32(len(self.members)).packed(self.members, 32)
        writer.raw_array(self.keys)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        cohort = reader.u32()
        digest, universe = b"", 0
        if params.graph is Graph.COMPLETE:
            universe = params.clients
            members = np.flatnonzero(reader.bitmap(universe)).astype(np.uint32)
            if len(members) != cohort:
                reader.fail(f"a cohort of {cohort} with {len(members)} bits set")
        else:
            digest, count = reader.raw(_DIGEST_BYTES), reader.u32()
            if count > params.neighbours:
                reader.fail(f"{count} neighbours where the graph has {params.neighbours}")
            members = reader.packed(count, 32, np.uint32)
            if count and (members[-1] >= params.clients or not np.all(members[1:] > members[:-1])):
                reader.fail(f"neighbours that do not ascend or are not below {params.clients}")
            if not count < cohort <= params.clients:
                reader.fail(f"{count} neighbours in a cohort of {cohort}")
        rows = reader.raw_array(len(members), _BOTH_KEYS)
        return cls(
            tag=tag, cohort=cohort, members=members, keys=rows, universe=universe, digest=digest
        )

    @staticmethod
    def size(params: Params, members: int) -> int:
        """Return the encoded bytes for so many members."""
        ids = (
            wire.bitmap_size(params.clients)
            if params.graph is Graph.COMPLETE
            else _DIGEST_BYTES + 4 + 4 * members
        )
        return HEADER_BYTES + 4 + ids + members * _BOTH_KEYS


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareKeys(Message):
    """Client to server, round 1: one ciphertext per peer in the roster's order, own index left out.

    ``commitment`` binds the client to its self-mask seed; it goes to the server alone.
    """

    kind: ClassVar[int] = 4
    round: ClassVar[str] = "share-keys"
    commitment: bytes = field(repr=False)
    ciphertexts: NDArray[np.uint8] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.commitment).u32(len(self.ciphertexts)).raw_array(self.ciphertexts)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        commitment, count = reader.raw(_DIGEST_BYTES), reader.u32()
        if count > params.neighbours:
            reader.fail(f"{count} ciphertexts where there are at most {params.neighbours} peers")
        columns = reader.raw_array(count, CIPHERTEXT_BYTES)
        return cls(tag=tag, commitment=commitment, ciphertexts=columns)

    @staticmethod
    def size(peers: int) -> int:
        """Return the encoded bytes for so many peers."""
        return HEADER_BYTES + _DIGEST_BYTES + 4 + peers * CIPHERTEXT_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareBundle(Message):
    """Server to client, round 2: the ciphertexts for it, from the peers that sent some (in U2).

    ``present`` has a bit per member of the roster (the receiver's own bit is zero); ``cohort`` is
    the size of U2.
    """

    kind: ClassVar[int] = 5
    round: ClassVar[str] = "masked-input"
    cohort: int
    present: NDArray[np.bool_]
    ciphertexts: NDArray[np.uint8] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.cohort).u32(len(self.present)).bitmap(self.present)
        writer.raw_array(self.ciphertexts)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        cohort, present = reader.u32(), _flags(reader, params)
        columns = reader.raw_array(int(present.sum()), CIPHERTEXT_BYTES)
        return cls(tag=tag, cohort=cohort, present=present, ciphertexts=columns)

    @staticmethod
    def size(members: int, senders: int) -> int:
        """Return the encoded bytes for so many members and ciphertexts."""
        return HEADER_BYTES + 8 + wire.bitmap_size(members) + senders * CIPHERTEXT_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedInput(Message):
    """Client to server, round 2: the masked vector, modulus bits per coordinate."""

    kind: ClassVar[int] = 6
    round: ClassVar[str] = "masked-input"
    bits: int
    vector: NDArray[Any] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.packed(self.vector, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        vector = reader.packed(params.length, params.modulus_bits, params.word)
        return cls(tag=tag, bits=params.modulus_bits, vector=vector)

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + wire.packed_size(params.length, params.modulus_bits)


@dataclass(frozen=True, kw_only=True, eq=False)
class SurvivorSet(Message):
    """Server to client, round 4 (and 3 where survivor sets are signed): whose inputs arrived (U3).

    ``survivors`` has a bit per member of the roster; ``cohort`` is the size of U3. One bit per
    member: a request for both kinds of share of one peer cannot be written down.
    """

    kind: ClassVar[int] = 7
    round: ClassVar[str] = "unmasking"
    cohort: int
    survivors: NDArray[np.bool_]
    signatures: NDArray[np.uint8] | None = field(default=None, repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.cohort).u32(len(self.survivors)).bitmap(self.survivors)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, cohort=reader.u32(), survivors=_flags(reader, params))

    @staticmethod
    def size(members: int) -> int:
        """Return the encoded bytes for so many members."""
        return HEADER_BYTES + 8 + wire.bitmap_size(members)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnmaskShares(Message):
    """Client to server, round 4: one share per holder relation, in the roster's order.

    Row i belongs to the i-th member in U2 (the client itself included in the complete graph): of
    its self-mask seed if it survived, else of its mask key's seed.
    """

    kind: ClassVar[int] = 10
    round: ClassVar[str] = "unmasking"
    shares: NDArray[np.uint64] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.shares)).packed(self.shares.reshape(-1), FIELD_BITS)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        count = reader.u32()
        if count > params.neighbours + 1:
            reader.fail(f"{count} shares where there are at most {params.neighbours + 1} members")
        words = reader.packed(count * sharing.LIMBS, FIELD_BITS, np.uint64)
        if np.any(words == np.uint64(2**FIELD_BITS - 1)):
            reader.fail("a share that is not a reduced element of GF(2**61 - 1)")
        return cls(tag=tag, shares=words.reshape(count, sharing.LIMBS))

    @staticmethod
    def size(members: int) -> int:
        """Return the encoded bytes for shares of so many members."""
        return HEADER_BYTES + 4 + wire.packed_size(members * sharing.LIMBS, FIELD_BITS)


_KINDS: dict[int, type[Message]] = {
    message.kind: message
    for message in (
        Start,
        AdvertiseKeys,
        KeyRoster,
        ShareKeys,
        ShareBundle,
        MaskedInput,
        SurvivorSet,
        UnmaskShares,
    )
}


def decode(data: bytes, params: Params, *, peer: str | int) -> Message:
    """Read whatever message `data` is; see :meth:`Message.decode`.

    Raises
    ------
    PeerError
        If `data` is not the canonical encoding of any message under `params`.
    """
    reader = wire.Reader(data, peer=peer, round="any")
    reader.u8()
    kind = reader.u8()
    if kind not in _KINDS:
        reader.fail(f"message kind {kind}; known are {', '.join(map(str, sorted(_KINDS)))}")
    return _KINDS[kind].decode(data, params, peer=peer)


def _flags(reader: wire.Reader, params: Params) -> NDArray[np.bool_]:
    """Read a counted bitmap over the roster's members."""
    count = reader.u32()
    limit = params.neighbours + (params.graph is Graph.COMPLETE)
    if count > limit:
        reader.fail(f"a bitmap over {count} members where there are at most {limit}")
    return reader.bitmap(count)
