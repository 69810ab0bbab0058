"""Who signs, and who may: Ed25519 identities, the pinned roster, and the hook for another PKI.

A client of a round with signatures has a :class:`Signer` (its own identity) and a
:class:`Directory` (everyone's). :class:`privagg.keys.Identity` and :class:`Roster` are the ones
that come with the package; anything with the same methods will do, for example a wrapper around
certificates. Trust in a directory is the user's: what it verifies is believed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from privagg import keys
from privagg.errors import UsageError
from privagg.report import write_file

__all__ = ["SIGNATURE_BYTES", "Directory", "Roster", "Signer"]

SIGNATURE_BYTES = keys.SIGNATURE_BYTES
"""Size that every signature has on the wire."""

_FORMAT = "privagg roster 1"

_P = 2**255 - 19
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_LOW_ORDER = frozenset(
    y.to_bytes(keys.KEY_BYTES, "little") for y in (0, 1, _Y8, _P - _Y8, _P - 1, _P, _P + 1)
)
"""The points of order 1, 2, 4 and 8, x's sign bit left out, the encodings above 2**255 - 19 too."""


@runtime_checkable
class Signer(Protocol):
    """Signs as one client."""

    def sign(self, message: bytes) -> bytes:
        """Return a signature of 64 bytes over `message`."""


@runtime_checkable
class Directory(Protocol):
    """Knows the clients' identities by index."""

    def __len__(self) -> int: ...

    def verify(self, client: int, message: bytes, signature: bytes) -> bool:
        """Say whether `signature` over `message` is that of `client`."""

    def digest(self) -> bytes:
        """Return 32 bytes that change if any identity does; all parties' must be equal."""


class Roster:
    """A pinned list of Ed25519 public keys: client i is the i-th.

    Parameters
    ----------
    identities : iterable of bytes
        Public keys of 32 bytes, distinct.

    Raises
    ------
    UsageError
        If an identity has another size, is a point of low order or occurs twice.
    """

    def __init__(self, identities: Iterable[bytes]) -> None:
        self._identities = tuple(identities)
        for place, identity in enumerate(self._identities):
            if not isinstance(identity, bytes) or len(identity) != keys.KEY_BYTES:
                size = f"{len(identity)} bytes" if isinstance(identity, bytes) else ""
                raise UsageError(f"roster[{place}]", size or type(identity).__name__, "32 bytes")
            if identity[:-1] + bytes([identity[-1] & 0x7F]) in _LOW_ORDER:
                raise UsageError(
                    f"roster[{place}]",
                    "a point of low order, whose signatures anyone could make",
                    "an Ed25519 public key made from a secret",
                )
        if len(set(self._identities)) != len(self._identities):
            twice = next(
                place
                for place, identity in enumerate(self._identities)
                if identity in self._identities[:place]
            )
            raise UsageError(f"roster[{twice}]", "an identity listed before", "distinct identities")

    @property
    def identities(self) -> tuple[bytes, ...]:
        """The public keys, by client index."""
        return self._identities

    def __len__(self) -> int:
        return len(self._identities)

    def verify(self, client: int, message: bytes, signature: bytes) -> bool:
        """Say whether `signature` over `message` is that of `client` (Ed25519, RFC 8032)."""
        if not 0 <= client < len(self._identities):
            return False
        return keys.verify(self._identities[client], message, signature)

    def digest(self) -> bytes:
        """Return SHA-256 over all identities in order."""
        return keys.digest(b"privagg identities", *self._identities)

    def save(self, path: str | Path) -> None:
        """Write the roster as JSON, whole or not at all: public keys only, one per line.

        Parameters
        ----------
        path : str or path
            The file.
        """
        lines = ",\n    ".join(f'"{identity.hex()}"' for identity in self._identities)
        text = f'{{\n  "format": "{_FORMAT}",\n  "identities": [\n    {lines}\n  ]\n}}\n'
        write_file(path, text.encode("ascii"))

    @classmethod
    def load(cls, path: str | Path) -> Roster:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        UsageError
            If the file cannot be read or is no roster.
        """
        try:
            record = msgspec.json.decode(Path(path).read_bytes(), type=_File)
            identities = [bytes.fromhex(text) for text in record.identities]
        except OSError as error:
            raise UsageError("roster", str(path), "a readable file", str(error)) from None
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise UsageError(
                "roster", str(path), f"JSON of the format {_FORMAT!r}", "See `privagg keys roster`."
            ) from None
        if record.format != _FORMAT:
            raise UsageError("roster", record.format, _FORMAT)
        return cls(identities)

    def __repr__(self) -> str:
        return f"Roster({len(self)} identities, digest {self.digest().hex()[:16]})"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    identities: list[str]
