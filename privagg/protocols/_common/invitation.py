"""Messages whose layout is the same in several protocols: the invitation, and a lone signature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, TypeVar

from privagg import keys, wire
from privagg.protocols._common.framing import (
    DIGEST_BYTES,
    HEADER_BYTES,
    SESSION_BYTES,
    Agreed,
    Framed,
)

__all__ = ["Invitation", "LoneSignature"]

_P = TypeVar("_P", bound=Agreed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Invitation(Framed[_P]):
    """Server to client, before round 0: the session, the round and the client's index."""

    session: bytes
    round_number: int
    client: int
    params_digest: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.session).u32(self.round_number).u32(self.client).raw(self.params_digest)

    @classmethod
    def _read(cls, reader: wire.Reader, params: _P, *, tag: bytes) -> Self:
        return cls(
            tag=tag,
            session=reader.raw(SESSION_BYTES),
            round_number=reader.u32(),
            client=reader.u32(),
            params_digest=reader.raw(DIGEST_BYTES),
        )

    @staticmethod
    def size() -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + SESSION_BYTES + 4 + 4 + DIGEST_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class LoneSignature(Framed[_P]):
    """Client to server: a signature over what it was shown."""

    signature: bytes = field(repr=False)

    def _write(self, writer: wire.Writer) -> None:
        writer.raw(self.signature)

    @classmethod
    def _read(cls, reader: wire.Reader, params: _P, *, tag: bytes) -> Self:
        return cls(tag=tag, signature=reader.raw(keys.SIGNATURE_BYTES))

    @staticmethod
    def size() -> int:
        """Return the encoded bytes."""
        return HEADER_BYTES + keys.SIGNATURE_BYTES
