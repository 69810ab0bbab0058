"""A transcript: who sent what to whom, how many bytes, in which round.

It is a value that the driver returns and audits read. Payloads are kept on request: they are what
an observer of the network sees, and hold no secret in the clear.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

import msgspec

__all__ = ["Entry", "Transcript"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One message on the wire.

    Attributes
    ----------
    round : str
        The round's name.
    sender, receiver : int or str
        A client's index, or ``"server"``.
    kind : str
        The message's class.
    size : int
        Encoded bytes.
    sha256 : str
        Of the encoded bytes, hexadecimal; empty where nothing but sizes is recorded.
    payload : bytes or None
        The encoded bytes, where payloads are kept.
    """

    round: str
    sender: int | str
    receiver: int | str
    kind: str
    size: int
    sha256: str = ""
    payload: bytes | None = field(default=None, repr=False)


class Transcript:
    """The messages of one run, in the order in which they were sent.

    Parameters
    ----------
    payloads : bool
        Keep the encoded bytes. Memory then grows with everything that is sent, vectors included.
    """

    def __init__(self, *, payloads: bool = False) -> None:
        self._payloads = payloads
        self._entries: list[Entry] = []

    def record(
        self, *, round: str, sender: int | str, receiver: int | str, kind: str, data: bytes
    ) -> None:
        """Add a message."""
        self._entries.append(
            Entry(
                round=round,
                sender=sender,
                receiver=receiver,
                kind=kind,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                payload=data if self._payloads else None,
            )
        )

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Transcript({len(self)} messages, payloads={self._payloads})"

    def write(self, file: TextIO, header: dict[str, object]) -> None:
        """Write one JSON object per line: `header` first, then a line per message.

        Payloads, where kept, are base64.
        """
        file.write(msgspec.json.encode(header).decode() + "\n")
        for entry in self._entries:
            file.write(msgspec.json.encode(entry).decode() + "\n")
