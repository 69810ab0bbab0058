"""The messages of the protocol and their byte layouts.

Every message is a frozen dataclass with ``encode()`` and ``decode(data, params, peer=...)``.
Layouts are fixed and canonical: decoding and encoding again gives the same bytes, and anything else
is a :class:`~privagg.errors.PeerError`. Sizes are checked before memory is taken.

All start with a header of 10 bytes: protocol version, kind, and a tag of 8 bytes which names the
session, round and configuration, so that a message of another round is recognised at once. Who sent
a message is the transport's knowledge and is not repeated in it; ids of others are bitmaps (over
all clients in the complete graph, over the receiver's neighbours in the sparse one). Ciphertexts,
keys and shares are columns of fixed width; vectors and shares are bit-packed.

Signatures are there only in the threat models that have identities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privagg import keys, sharing, wire
from privagg.errors import UsageError
from privagg.protocols._common import framing
from privagg.protocols._common.invitation import Invitation
from privagg.protocols.secagg import tiles
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.layout import (
    BOTH_KEYS,
    CIPHERTEXT_BYTES,
    DIGEST_BYTES,
    FIELD_BITS,
    HEADER_BYTES,
    KINDS,
    TAG_BYTES,
    Message,
    read_flags,
)
from privagg.protocols.secagg.messages_signed import (
    ConsistencySignature,
    GraphChallenge,
    GraphCommitment,
    GraphProof,
    GraphRequest,
    GraphReveal,
    SignatureSet,
)
from privagg.protocols.secagg.params import MAX_CLIENTS, Params
from privagg.protocols.secagg.thresholds import Graph, Threat

__all__ = [
    "AdvertiseKeys",
    "ConsistencySignature",
    "GraphChallenge",
    "GraphCommitment",
    "GraphProof",
    "GraphRequest",
    "GraphReveal",
    "KeyRoster",
    "MaskedInput",
    "Message",
    "ShareBundle",
    "ShareKeys",
    "SignatureSet",
    "Start",
    "SurvivorSet",
    "UnmaskShares",
    "decode",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Start(Invitation[Params], Message):
    """Server to client, before round 0: the session, the round and the client's index."""

    kind: ClassVar[int] = 1
    round: ClassVar[str] = "advertise-keys"


@dataclass(frozen=True, kw_only=True, eq=False)
class AdvertiseKeys(Message):
    """Client to server, round 0: X25519 public keys for encryption (c) and for masks (s)."""

    kind: ClassVar[int] = 2
    round: ClassVar[str] = "advertise-keys"
    cipher_key: bytes
    mask_key: bytes
    signature: bytes = field(default=b"", repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.cipher_key).raw(self.mask_key).raw(self.signature)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(
            tag=tag,
            cipher_key=reader.raw(keys.KEY_BYTES),
            mask_key=reader.raw(keys.KEY_BYTES),
            signature=reader.raw(SIGNATURE_BYTES) if params.signed else b"",
        )

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + BOTH_KEYS + params.signed * SIGNATURE_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyRoster(Message):
    """Server to client, round 1: who advertised keys (U1), and the keys the client needs.

    In the complete graph ``members`` are all of U1, the receiver included, sent as a bitmap over
    ``universe`` clients; each client computes the digest of the roster itself. In the sparse graph
    they are the receiver's neighbours in U1, sent as ids (``universe`` is 0), and ``digest`` is the
    server's over all keys. ``cohort`` is the size of U1; ``keys`` has a row of 64 bytes per member,
    and where keys are signed ``signatures`` another. ``proof`` shows in a semi-malicious round that
    the neighbours are those of the committed graph, with the committed keys.
    """

    kind: ClassVar[int] = 3
    round: ClassVar[str] = "share-keys"
    cohort: int
    members: NDArray[np.uint32]
    keys: NDArray[np.uint8] = field(repr=False)
    universe: int
    digest: bytes = field(default=b"", repr=False)
    signatures: NDArray[np.uint8] | None = field(default=None, repr=False)
    proof: GraphProof | None = None

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.cohort)
        if self.universe > MAX_CLIENTS:
            raise UsageError("universe", self.universe, f"at most {MAX_CLIENTS}")
        if self.universe:
            flags = np.zeros(self.universe, np.bool_)
            flags[self.members] = True
            writer.bitmap(flags)
        else:
            writer.raw(self.digest).u32(len(self.members)).packed(self.members, 32)
        writer.raw_array(self.keys)
        if self.signatures is not None:
            writer.raw_array(self.signatures)
        if self.proof is not None:
            self.proof.write(writer)

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
            digest, count = reader.raw(DIGEST_BYTES), reader.u32()
            if count > params.neighbours:
                reader.fail(f"{count} neighbours where the graph has {params.neighbours}")
            members = reader.packed(count, 32, np.uint32)
            if count and (members[-1] >= params.clients or not np.all(members[1:] > members[:-1])):
                reader.fail(f"neighbours that do not ascend or are not below {params.clients}")
            if not count < cohort <= params.clients:
                reader.fail(f"{count} neighbours in a cohort of {cohort}")
        count = len(members)
        return cls(
            tag=tag,
            cohort=cohort,
            members=members,
            keys=reader.raw_array(count, BOTH_KEYS),
            universe=universe,
            digest=digest,
            signatures=reader.raw_array(count, SIGNATURE_BYTES) if params.signed else None,
            proof=(
                GraphProof.read(reader, params, count)
                if params.threat is Threat.SEMI_MALICIOUS
                else None
            ),
        )

    @staticmethod
    def size(params: Params, members: int) -> int:
        """Return the encoded bytes for so many members, without the graph's proof."""
        ids = (
            wire.bitmap_size(params.clients)
            if params.graph is Graph.COMPLETE
            else DIGEST_BYTES + 4 + 4 * members
        )
        row = BOTH_KEYS + params.signed * SIGNATURE_BYTES
        return HEADER_BYTES + 4 + ids + members * row


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
        commitment, count = reader.raw(DIGEST_BYTES), reader.u32()
        if count > params.neighbours:
            reader.fail(f"{count} ciphertexts where there are at most {params.neighbours} peers")
        columns = reader.raw_array(count, CIPHERTEXT_BYTES)
        return cls(tag=tag, commitment=commitment, ciphertexts=columns)

    @staticmethod
    def size(peers: int) -> int:
        """Return the encoded bytes for so many peers."""
        return HEADER_BYTES + DIGEST_BYTES + 4 + peers * CIPHERTEXT_BYTES


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
        cohort, present = reader.u32(), read_flags(reader, params)
        columns = reader.raw_array(int(present.sum()), CIPHERTEXT_BYTES)
        return cls(tag=tag, cohort=cohort, present=present, ciphertexts=columns)

    @staticmethod
    def size(members: int, senders: int) -> int:
        """Return the encoded bytes for so many members and ciphertexts."""
        return HEADER_BYTES + 8 + wire.bitmap_size(members) + senders * CIPHERTEXT_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedInput(Message):
    """Client to server, round 2: the masked vector, modulus bits per coordinate.

    In the semi-malicious sparse graph ``signature`` is over whose ciphertexts the client was shown.
    A vector that is longer than a tile stays packed when it is read, and is added by tiles.
    """

    kind: ClassVar[int] = 6
    round: ClassVar[str] = "masked-input"
    bits: int
    vector: NDArray[Any] | tiles.Packed = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.signature)
        if isinstance(self.vector, tiles.Packed):
            writer.raw(self.vector.data.data)
        else:
            writer.packed(self.vector, self.bits)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        length, bits = params.length, params.modulus_bits
        signature = reader.raw(params.views_signed * SIGNATURE_BYTES)
        vector: NDArray[Any] | tiles.Packed
        if length > tiles.TILE:
            data = reader.packed_bytes(length, bits)
            vector = tiles.Packed(data, length, bits, params.word)
        else:
            vector = reader.packed(length, bits, params.word)
        return cls(tag=tag, bits=bits, vector=vector, signature=signature)

    def checked(self, params: Params, *, peer: str | int) -> Self:
        """Return the message as it is after it was sent; the vector is looked at, not copied.

        Raises
        ------
        PeerError
            As :meth:`Message.checked`.
        """
        if self._read_under == params.digest():
            return self
        reader = wire.Reader(self._shell()._written(peer), peer=peer, round=self.round)
        reader.raw(2)
        tag, signature = reader.raw(TAG_BYTES), reader.raw(params.views_signed * SIGNATURE_BYTES)
        reader.end()
        fault = tiles.fault(self.vector, params)
        if type(self.bits) is not int or self.bits != params.modulus_bits:
            fault = fault or f"not {params.modulus_bits} bits per coordinate"
        if fault:
            reader.fail(f"a vector of {fault}")
        return replace(self, tag=tag, signature=signature)

    def _shell(self) -> MaskedInput:
        return replace(self, bits=1, vector=np.zeros(0, np.uint32))

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        packed = wire.packed_size(params.length, params.modulus_bits)
        return HEADER_BYTES + packed + params.views_signed * SIGNATURE_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class SurvivorSet(Message):
    """Server to client: whose inputs arrived (U3). It opens the consistency check, or unmasking.

    ``survivors`` has a bit per member of the roster; ``cohort`` is the size of U3. One bit per
    member: a request for both kinds of share of one peer cannot be written down.
    """

    kind: ClassVar[int] = 7
    round: ClassVar[str] = "unmasking"
    cohort: int
    survivors: NDArray[np.bool_]

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(self.cohort).u32(len(self.survivors)).bitmap(self.survivors)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, cohort=reader.u32(), survivors=read_flags(reader, params))

    @staticmethod
    def size(members: int) -> int:
        """Return the encoded bytes for so many members."""
        return HEADER_BYTES + 8 + wire.bitmap_size(members)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnmaskShares(Message):
    """Client to server, round 4: one share per holder relation, in the roster's order.

    Row i belongs to the i-th member in U2 (the client itself included in the complete graph): of
    its self-mask seed if it survived, else of its mask key's seed. ``missing`` marks the rows, all
    zero, of members whose ciphertext did not open.
    """

    kind: ClassVar[int] = 10
    round: ClassVar[str] = "unmasking"
    shares: NDArray[np.uint64] = field(repr=False)
    missing: NDArray[np.bool_] = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.shares)).bitmap(self.missing)
        writer.packed(self.shares.reshape(-1), FIELD_BITS)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        count = reader.u32()
        if count > params.neighbours + 1:
            reader.fail(f"{count} shares where there are at most {params.neighbours + 1} members")
        missing = reader.bitmap(count)
        words = reader.packed(count * sharing.LIMBS, FIELD_BITS, np.uint64)
        if np.any(words == np.uint64(2**FIELD_BITS - 1)):
            reader.fail("a share that is not a reduced element of GF(2**61 - 1)")
        shares = words.reshape(count, sharing.LIMBS)
        if shares[missing].any():
            reader.fail("a share that is called missing but is not zero")
        return cls(tag=tag, shares=shares, missing=missing)

    @staticmethod
    def size(members: int) -> int:
        """Return the encoded bytes for shares of so many members."""
        packed = wire.packed_size(members * sharing.LIMBS, FIELD_BITS)
        return HEADER_BYTES + 4 + wire.bitmap_size(members) + packed


def decode(data: bytes | memoryview, params: Params, *, peer: str | int) -> Message:
    """Read whatever message `data` is; see :meth:`Message.decode`.

    Raises
    ------
    PeerError
        If `data` is not the canonical encoding of any message under `params`.
    """
    return framing.read(KINDS, data, params, peer=peer)
