"""A transcript: who sent what to whom, how many bytes, in which round.

It is a value that the driver returns and audits read. Payloads are kept on request: they are what
an observer of all traffic sees. They hold no input in the clear; but the shares of the last round
are among them, so that whoever has a transcript with payloads can rebuild what the server can.

As a file it is one JSON object per line: a header that says what was agreed, then a line for each
message. :mod:`privagg.protocols.secagg.transcript_file` reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

import msgspec

if TYPE_CHECKING:
    from privagg.protocols.secagg.transcript_file import Header

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

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        """Return the transcript of these entries.

        Parameters
        ----------
        entries : iterable of Entry
            In order.
        """
        transcript = cls()
        transcript._entries = list(entries)
        transcript._payloads = all(entry.payload is not None for entry in transcript)
        return transcript

    def record(
        self, *, round: str, sender: int | str, receiver: int | str, kind: str, data: bytes
    ) -> None:
        """Add a message.

        Parameters
        ----------
        round : str
            Its name.
        sender : int or str
            Who.
        receiver : int or str
            To whom.
        kind : str
            Name of the message's class.
        data : bytes
            The encoded message.
        """
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

        Payloads, where kept, are base64. What :meth:`read` reads has the header of
        :func:`privagg.protocols.secagg.transcript_file.header_of`.

        Parameters
        ----------
        file : text file
            Open for writing.
        header : dict of str
            What is on the first line.
        """
        file.write(msgspec.json.encode(header).decode() + "\n")
        for entry in self._entries:
            file.write(msgspec.json.encode(entry).decode() + "\n")

    @classmethod
    def read(cls, path: str | Path) -> tuple[Header, Transcript]:
        """Read a file that :meth:`write` wrote.

        By :func:`privagg.protocols.secagg.transcript_file.read`.

        Parameters
        ----------
        path : path
            The file.

        Raises
        ------
        UsageError
            If the file cannot be read or is no such transcript, whole and unchanged; it names the
            line.
        """
        from privagg.protocols.secagg import transcript_file

        return transcript_file.read(path)
