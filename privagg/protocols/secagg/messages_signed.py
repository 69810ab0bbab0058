"""Messages that only the stronger threat models have.

``ConsistencySignature`` and ``SignatureSet`` are round 3 of Bonawitz et al., CCS 2017, figure 4.
The ``Graph...`` messages are two rounds in which the sparse graph is drawn from all clients'
randomness after their keys have been committed to (semi-malicious rounds; Bell et al., CCS 2020,
section 4, has the same aim). They name the draw, counted from 0, that they belong to: a late or
repeated one of an earlier draw is recognised and is no one's fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privagg import wire
from privagg.protocols._common.invitation import LoneSignature
from privagg.protocols.secagg import merkle
from privagg.protocols.secagg.derivations import OPENING_BYTES
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.layout import (
    DIGEST_BYTES,
    HEADER_BYTES,
    Message,
    read_flags,
    view_bytes,
)
from privagg.protocols.secagg.params import Params

__all__ = [
    "ConsistencySignature",
    "GraphChallenge",
    "GraphCommitment",
    "GraphProof",
    "GraphRequest",
    "GraphReveal",
    "SignatureSet",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsistencySignature(LoneSignature[Params], Message):
    """Client to server, round 3: a signature over what the client was shown of who survived.

    In the complete graph over the sets U2 and U3; in the sparse graph over its view of its
    neighbours.
    """

    kind: ClassVar[int] = 8
    round: ClassVar[str] = "consistency-check"


@dataclass(frozen=True, kw_only=True, eq=False)
class SignatureSet(Message):
    """Server to client, round 4: who signed (U4, a bit per member of the roster), and what.

    In the sparse graph ``views`` has a row per signer: what it was shown of its own neighbours.
    ``silent`` marks survivors that have not signed, with their signatures and views from the round
    before: whose ciphertexts they were shown.
    """

    kind: ClassVar[int] = 9
    round: ClassVar[str] = "unmasking"
    signers: NDArray[np.bool_]
    signatures: NDArray[np.uint8] = field(repr=False)
    views: NDArray[np.uint8] | None = field(default=None, repr=False)
    silent: NDArray[np.bool_] | None = field(default=None, repr=False)
    silent_signatures: NDArray[np.uint8] | None = field(default=None, repr=False)
    silent_views: NDArray[np.uint8] | None = field(default=None, repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u32(len(self.signers)).bitmap(self.signers).raw_array(self.signatures)
        if self.silent is not None:
            writer.bitmap(self.silent)
        for rows in (self.views, self.silent_signatures, self.silent_views):
            if rows is not None:
                writer.raw_array(rows)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        signers = read_flags(reader, params)
        count, width = int(signers.sum()), view_bytes(params)
        signatures = reader.raw_array(count, SIGNATURE_BYTES)
        if not params.views_signed:
            return cls(tag=tag, signers=signers, signatures=signatures)
        silent = reader.bitmap(len(signers))
        if (silent & signers).any():
            reader.fail("a client that has signed and has not")
        rest = int(silent.sum())
        return cls(
            tag=tag,
            signers=signers,
            signatures=signatures,
            views=reader.raw_array(count, width),
            silent=silent,
            silent_signatures=reader.raw_array(rest, SIGNATURE_BYTES),
            silent_views=reader.raw_array(rest, width),
        )

    @staticmethod
    def size(params: Params, members: int, signers: int) -> int:
        """Return the encoded bytes for so many members and signatures."""
        row = SIGNATURE_BYTES + params.views_signed * view_bytes(params)
        bitmaps = (1 + params.views_signed) * wire.bitmap_size(members)
        return HEADER_BYTES + 4 + bitmaps + signers * row


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphRequest(Message):
    """Server to client, commit-graph: who advertised keys (U1), and the root over their keys."""

    kind: ClassVar[int] = 11
    round: ClassVar[str] = "commit-graph"
    attempt: int
    present: NDArray[np.bool_]
    key_root: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u8(self.attempt).bitmap(self.present).raw(self.key_root)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(
            tag=tag,
            attempt=reader.u8(),
            present=reader.bitmap(params.clients),
            key_root=reader.raw(DIGEST_BYTES),
        )

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + 1 + wire.bitmap_size(params.clients) + DIGEST_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphCommitment(Message):
    """Client to server, commit-graph: a commitment to this client's part of the graph's seed."""

    kind: ClassVar[int] = 12
    round: ClassVar[str] = "commit-graph"
    attempt: int
    commitment: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u8(self.attempt).raw(self.commitment)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, attempt=reader.u8(), commitment=reader.raw(DIGEST_BYTES))

    @staticmethod
    def size() -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + 1 + DIGEST_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphChallenge(Message):
    """Server to client, reveal-graph: who committed, and the root over all commitments."""

    kind: ClassVar[int] = 13
    round: ClassVar[str] = "reveal-graph"
    attempt: int
    present: NDArray[np.bool_]
    root: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u8(self.attempt).bitmap(self.present).raw(self.root)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(
            tag=tag,
            attempt=reader.u8(),
            present=reader.bitmap(params.clients),
            root=reader.raw(DIGEST_BYTES),
        )

    @staticmethod
    def size(params: Params) -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + 1 + wire.bitmap_size(params.clients) + DIGEST_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphReveal(Message):
    """Client to server, reveal-graph: the opening of its commitment."""

    kind: ClassVar[int] = 14
    round: ClassVar[str] = "reveal-graph"
    attempt: int
    opening: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.u8(self.attempt).raw(self.opening)

    @classmethod
    def _read(cls, reader: wire.Reader, params: Params, *, tag: bytes) -> Self:
        return cls(tag=tag, attempt=reader.u8(), opening=reader.raw(OPENING_BYTES))

    @staticmethod
    def size() -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + 1 + OPENING_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphProof:
    """Inside the roster of a semi-malicious round: why the client's neighbours are these.

    Attributes
    ----------
    openings : (m, OPENING_BYTES) uint8 array
        The openings of all m commitments, in the order of the challenge.
    paths : (neighbours, depth * DIGEST_BYTES) uint8 array
        Per neighbour the Merkle path from its keys to the root it was committed under.
    depth : int
        Steps of a path.
    """

    openings: NDArray[np.uint8] = field(repr=False)
    paths: NDArray[np.uint8] = field(repr=False)
    depth: int

    def write(self, writer: wire.Writer) -> None:
        """Append the proof to a message."""
        writer.u32(len(self.openings)).raw_array(self.openings)
        writer.u8(self.depth).raw_array(self.paths)

    @classmethod
    def read(cls, reader: wire.Reader, params: Params, members: int) -> Self:
        """Read the proof for so many members."""
        count = reader.u32()
        if count > params.clients:
            reader.fail(f"{count} openings where there are {params.clients} clients")
        openings = reader.raw_array(count, OPENING_BYTES)
        depth = reader.u8()
        if depth > merkle.depth(params.clients):
            reader.fail(f"proofs of {depth} steps where {merkle.depth(params.clients)} suffice")
        paths = reader.raw_array(members, depth * merkle.DIGEST_BYTES)
        return cls(openings=openings, paths=paths, depth=depth)

    def encoded_size(self) -> int:
        """Return the bytes of this proof."""
        return 4 + self.openings.size + 1 + self.paths.size

    @staticmethod
    def size(params: Params, members: int) -> int:
        """Return the encoded bytes for so many members when every client takes part."""
        steps = merkle.depth(params.clients)
        return 4 + params.clients * OPENING_BYTES + 1 + members * steps * merkle.DIGEST_BYTES
