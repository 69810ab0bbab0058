"""What a protocol's author tells the kit: its parties, its messages, and who hears what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.entropy import Entropy

__all__ = ["Envelope", "Party", "Protocol", "Run", "Sum", "play"]

Party = int | str
"""A client's index, or a role such as ``"server"``."""


@dataclass(frozen=True)
class Envelope:
    """An encoded message on its way.

    Attributes
    ----------
    sender, receiver : int or str
        Who says it, and to whom.
    round : str
        In which of the protocol's rounds.
    data : bytes
        The message, encoded.
    """

    sender: Party
    receiver: Party
    round: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Sum:
    """What a run ended with.

    Attributes
    ----------
    contributors : tuple of int
        Whose inputs are in it.
    aggregate : ndarray
        The aggregate over them.
    """

    contributors: tuple[int, ...]
    aggregate: NDArray[Any] = field(repr=False)


class Run(ABC):
    """One run with parties of its own. The kit carries every message, or does not.

    Attributes
    ----------
    parties : dict of Party to object
        The objects under test, by name; :meth:`reload` replaces them.
    """

    parties: dict[Party, Any]

    @abstractmethod
    def due(self) -> list[Envelope]:
        """End the round that was open, and return what opens the next one; [] at the end.

        It is called once everything that was sent has been carried. Whoever has not answered until
        then has left. It may raise :class:`privagg.errors.Abort`.
        """

    @abstractmethod
    def handle(self, envelope: Envelope) -> list[Envelope]:
        """Let the receiver decode a message and take it; return what it answers.

        Errors of the party come out as they are.
        """

    @abstractmethod
    def result(self) -> Sum:
        """Return what the run ended with, once nothing is due any more."""

    def reload(self, party: Party) -> None:
        """Replace a party by the one that its dumped state makes; nothing where it has none.

        Parameters
        ----------
        party : Party
            One of :attr:`parties`.

        Raises
        ------
        NotImplementedError
            If no party of this protocol has ``dump_state()``.
        """
        raise NotImplementedError


class Protocol(ABC):
    """A protocol under test, with inputs: makes runs of the same parameters.

    Attributes
    ----------
    name : str
        For the report.
    rounds : tuple of str
        The rounds with messages, in order; clients may leave before any of them.
    clients : tuple of int
        The parties that have inputs.
    tolerance : float
        How far an aggregate may be from the plain one; 0 for exact ones.
    public : tuple of Party
        Parties that hold no secret: they may be pickled.
    asynchronous : tuple of Party
        Parties that may take a message before its round, where messages can overtake each other.
    public_fields : tuple of str
        Fields of messages that may differ from seed to seed in what is printed: public keys, say.
    """

    name: str
    rounds: tuple[str, ...]
    clients: tuple[int, ...]
    tolerance: float = 0.0
    public: tuple[Party, ...] = ()
    asynchronous: tuple[Party, ...] = ()
    public_fields: tuple[str, ...] = ()

    @abstractmethod
    def start(self, entropy: Entropy) -> Run:
        """Return a run in which nothing was said yet. All randomness comes from `entropy`."""

    @abstractmethod
    def decode(self, envelope: Envelope) -> Any:
        """Decode a message as its receiver does; the result has ``encode()``.

        Raises
        ------
        PeerError
            If the bytes are no canonical message.
        """

    @abstractmethod
    def expected(self, contributors: tuple[int, ...]) -> NDArray[Any]:
        """Return the plain aggregate over the inputs of these clients.

        Parameters
        ----------
        contributors : tuple of int
            Their indices.

        Returns
        -------
        array
            Of the shape and in the unit of :attr:`Sum.aggregate`.
        """

    def simulated(self, seed: int | None) -> bool | None:
        """Run the protocol's own driver; return whether its result is marked insecure.

        None where there is no such driver.

        Parameters
        ----------
        seed : int, optional
            None: entropy of the operating system.
        """
        return None

    def lies(self) -> Iterable[tuple[str, bool, str]]:
        """Yield (name, passed, evidence) of lies that parties were told, if there is such a kit."""
        return ()

    def holds(self, found: Sum) -> bool:
        """Say whether an aggregate is the one of its contributors."""
        plain = np.asarray(self.expected(found.contributors))
        got = np.asarray(found.aggregate)
        if self.tolerance:
            return got.shape == plain.shape and bool(np.allclose(got, plain, 0, self.tolerance))
        return np.array_equal(got, plain)


Carry = Callable[[Run, Envelope], list[Envelope]]
"""Brings a message to its receiver and returns the answers."""


def play(
    protocol: Protocol,
    run: Run,
    *,
    leaves: Mapping[int, str] | None = None,
    carry: Carry | None = None,
) -> list[Envelope]:
    """Carry messages until nothing is due; return them in their order.

    Parameters
    ----------
    protocol, run
        What is played.
    leaves : mapping of client to round
        From that round on the client neither hears nor says anything.
    carry : callable, optional
        In place of ``run.handle``.
    """
    gone = {client: protocol.rounds.index(name) for client, name in (leaves or {}).items()}
    bring = carry or (lambda this, envelope: this.handle(envelope))
    said: list[Envelope] = []
    while batch := run.due():
        waiting = deque(batch)
        while waiting:
            envelope = waiting.popleft()
            at = protocol.rounds.index(envelope.round)
            ends = (envelope.sender, envelope.receiver)
            if any(isinstance(end, int) and gone.get(end, at + 1) <= at for end in ends):
                continue
            said.append(envelope)
            waiting.extend(bring(run, envelope))
    return said
