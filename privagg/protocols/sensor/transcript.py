"""A transcript: who sent what to whom in which step, over which link, how many bytes.

It is a value that the simulation returns and audits read. It holds **no reading, share, mask or
key**. An auditor needs none: which share a message carries follows from the roster and the seeds,
which are public, so that it says what *could* be computed, not what was. But it says which messages
arrived, who died and whose readings went in, which no single party sees: simulation truth.

One entry is one item for one receiver: a bundle of shares, which is one message on the air, has an
entry for each share. What is broadcast has one for each member that it is meant for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from privagg.errors import UsageError
from privagg.protocols.sensor.params import Params, Protocol

__all__ = ["CLEAR", "EVERYONE", "MAX_ENTRIES", "STEP_OF", "Entry", "Transcript", "sealed"]

EVERYONE = -1
"""The receiver of what is said to whoever is in range."""

MAX_ENTRIES = 5_000_000
"""A longer transcript is neither made nor read."""

STEP_OF = {
    "Hello": "hello",
    "Join": "join",
    "Roster": "roster",
    "Seed": "seeds",
    "Shares": "shares",
    "Received": "received",
    "SenderSet": "senders",
    "Echo": "echo",
    "Answer": "answer",
    "Slice": "slice",
    "Report": "report",
}
"""The step that each kind of message belongs to, in order."""

CLEAR = frozenset({"Hello", "Roster", "Seed", "SenderSet"})
"""What everybody in range can read; `Answer` too, in ``cpda`` and ``cpda-sen-checked``."""


def sealed(kind: str, protocol: Protocol) -> bool:
    """Say whether a kind of message is encrypted for its receiver."""
    open_answers = protocol in (Protocol.CPDA, Protocol.CPDA_SEN_CHECKED)
    return kind not in CLEAR and not (kind == "Answer" and open_answers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One item that was sent to one receiver.

    Attributes
    ----------
    epoch : int
        From 0. What forms clusters (`Hello`, `Join`, `Roster`) is of the first epoch that uses it.
    step, kind : str
        See :data:`STEP_OF`.
    sender, receiver : int
        Nodes; the receiver is :data:`EVERYONE` for the query.
    cluster : int
        The leader of the cluster that it was said in; -1 on the tree.
    size : int
        Bytes, without headers. Of a broadcast every entry has all of them.
    sealed : bool
        Whether it is encrypted for the receiver.
    arrived : bool
        Whether the receiver got it.
    relayed : bool
        Whether it went over the leader, or over another member: sender and receiver are out of
        range.
    broadcast : bool
        Whether the same bytes are meant for several receivers.
    attempt : int
        ``cpda-sen-checked``: which try, from 0.
    data : tuple of int
        What it says that is no secret: the members (`Roster`), the seeds (`Seed`; the leader's in a
        `Roster` of ``cpda-sen-efficient`` follows from the parameters), the nodes whose readings
        are to be added (`SenderSet`), the silent (`Report` of ``cmt``), the cluster whose sum the
        sender adds (other `Report`).
    """

    epoch: int
    step: str
    kind: str
    sender: int
    receiver: int
    cluster: int = -1
    size: int
    sealed: bool
    arrived: bool
    relayed: bool = False
    broadcast: bool = False
    attempt: int = 0
    data: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=True)
class Transcript:
    """The messages of a simulation, in the order in which they were sent.

    Attributes
    ----------
    params : Params
        Of the run.
    base_station : int
        Its id; nodes are 0 to this less 1.
    epochs : int
        How many.
    acknowledged : bool
        Whether senders know what did not arrive: a plain slice of ``smart`` that did not is kept.
    insecure_seed : bool
        Whether the run's secrets came from a seed.
    entries : tuple of Entry
        The messages.
    """

    params: Params
    base_station: int
    epochs: int
    acknowledged: bool
    insecure_seed: bool
    entries: tuple[Entry, ...] = field(repr=False)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def of_epoch(self, epoch: int) -> list[Entry]:
        """Return what was sent in an epoch, and the rosters that hold in it.

        Parameters
        ----------
        epoch : int
            Its number.

        Raises
        ------
        UsageError
            If there is no such epoch.
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch < self.epochs:
            raise UsageError("epoch", epoch, f"0 to {self.epochs - 1}")
        forming = ("Hello", "Join", "Roster")
        begun = [e.epoch for e in self.entries if e.kind in forming and e.epoch <= epoch]
        formed = max(begun, default=epoch)
        return [
            entry
            for entry in self.entries
            if entry.epoch == (formed if entry.kind in forming else epoch)
        ]

    def write(self, path: str | Path) -> None:
        """Write it to a file of JSON lines, marked as simulation truth.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        from privagg.protocols.sensor import transcript_file

        transcript_file.write(self, path)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file that :meth:`write` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        UsageError
            If the file cannot be read or is no such transcript, whole; it names the line.
        """
        from privagg.protocols.sensor import transcript_file

        read = transcript_file.read(path)
        return cls(**{name: getattr(read, name) for name in cls.__dataclass_fields__})
