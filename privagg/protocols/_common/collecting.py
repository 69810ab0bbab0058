"""A server that collects rounds: whom it expects, what it takes, and what it says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import PeerError, UsageError
from privagg.protocols._common.framing import SESSION_BYTES, TAG_BYTES, Framed
from privagg.protocols._common.invitation import Invitation
from privagg.protocols._common.order import Receipt, Round

__all__ = ["CollectingServer"]

_P = TypeVar("_P", bound=Round)
_M = TypeVar("_M", bound=Framed[Any])
_S = TypeVar("_S", bound=Invitation[Any])
_A = TypeVar("_A")


class CollectingServer(ABC, Generic[_P, _M, _S, _A]):
    """What servers have in common, whatever they do with the messages of a round.

    `_P` are its rounds, `_M` its messages, `_S` is the invitation, `_A` what it computes.
    """

    _message: ClassVar[type[Framed[Any]]]
    """The class of every message of the protocol."""

    _due: ClassVar[Mapping[Any, Any]]
    """The round in which the server takes a message; earlier it is an error, later it is late."""

    _start: ClassVar[type[Invitation[Any]]]
    """The class of the message that invites a client."""

    def __init__(
        self, params: Any, sequence: tuple[_P, ...], session: bytes, round_number: int
    ) -> None:
        if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
            raise UsageError("session", type(session).__name__, f"{SESSION_BYTES} bytes")
        self._params: Any = params
        self._session = session
        self._round_number = whole("round_number", round_number, 0, 2**32 - 1)
        self._context = b""
        self._sequence = sequence
        self._phase: _P = sequence[0]
        self._here: dict[_P, NDArray[np.bool_]] = {
            phase: np.zeros(params.clients, np.bool_) for phase in sequence
        }
        self._aggregate: _A | None = None

    @property
    def phase(self) -> _P:
        """The round being collected."""
        return self._phase

    @property
    def session(self) -> bytes:
        """The 16 bytes that name it."""
        return self._session

    def alive(self) -> NDArray[np.uint32]:
        """Return the clients that the round being collected expects an answer from, ascending.

        Returns
        -------
        (alive,) uint32 array
            Indices of clients.
        """
        return np.flatnonzero(self._expected()).astype(np.uint32)

    def survivors(self) -> dict[str, tuple[int, ...]]:
        """Return, per closed round, the clients that answered it (U1, U2, ...).

        Returns
        -------
        dict of str to tuple of int
            By the round's name, the indices, ascending.
        """
        return {
            phase.title: tuple(map(int, np.flatnonzero(here)))
            for phase, here in self._here.items()
            if phase.value < self._phase.value
        }

    def start(self, client: int) -> _S:
        """Return the invitation of a client.

        Parameters
        ----------
        client : int
            Its index, from 0.

        Returns
        -------
        Start
            To be sent to it before the first round.

        Raises
        ------
        UsageError
            If there is no such client.
        """
        client = whole("client", client, 0, self._params.clients - 1)
        return cast(
            _S,
            self._start(
                tag=self._tag,
                session=self._session,
                round_number=self._round_number,
                client=client,
                params_digest=self._params.digest(),
            ),
        )

    def receive(self, sender: int, message: _M) -> Receipt:
        """Take a client's message.

        Parameters
        ----------
        sender : int
            Who sent it, as the transport authenticated it.
        message : Message
            A decoded message.

        Returns
        -------
        Receipt
            Whether it counts: a repeated or late one does not, and is no one's fault.

        Raises
        ------
        PeerError
            If the sender is not expected to send this, or what it sent is malformed. The round goes
            on without the message.
        UsageError
            If it is no message, or `sender` no index.
        """
        due, kind = self._due.get(type(message)), type(message).__name__
        if not isinstance(message, self._message):
            raise UsageError("message", kind, "a client's message, decoded", "Decode it first.")
        if isinstance(sender, bool) or not isinstance(sender, int | np.integer):
            raise UsageError("sender", sender, "a client's index")
        sender = int(sender)
        round = message.round
        if due is None:
            raise PeerError(sender, round, f"{kind}, which only servers send")
        if not 0 <= sender < self._params.clients:
            raise PeerError(sender, round, f"there are only {self._params.clients} clients")
        if due not in self._here:
            raise PeerError(sender, round, f"no such round against {self._params.threat.value}")
        message = message.checked(self._params, peer=sender)
        if message.tag != self._tag:
            raise PeerError(
                sender, round, "the message is of another session, round or configuration"
            )
        if self._is_late(sender, message):
            return Receipt.LATE
        if self._here[due][sender]:
            return Receipt.REPEATED
        if due.value < self._phase.value:
            return Receipt.LATE
        if due is not self._phase:
            found = f"{kind} while {self._phase.title} is being collected"
            raise PeerError(sender, round, found)
        if not self._expected()[sender]:
            raise PeerError(sender, round, "this client left in an earlier round")
        self._take(sender, message)
        self._here[due][sender] = True
        return Receipt.ACCEPTED

    def result(self) -> _A:
        """Return the aggregate over the survivors of the masked-input round.

        Returns
        -------
        Aggregate
            The sum, or what the encoding makes of it, and over how many clients.

        Raises
        ------
        UsageError
            If the round is not over.
        """
        if self._aggregate is None:
            raise UsageError("result", self._phase.title, "a round that is done", "Close it first.")
        return self._aggregate

    def __repr__(self) -> str:
        return f"Server(round={self._phase.title!r}, clients={self._params.clients})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server's state is of one round and cannot be pickled")

    @property
    def _tag(self) -> bytes:
        return self._context[:TAG_BYTES]

    def _client_of_an_open_round(self, client: int) -> int:
        """Return the index of a client that the round being collected has a message for."""
        client = whole("client", client, 0, self._params.clients - 1)
        if self._phase not in self._sequence:
            raise UsageError("message_for", self._phase.title, "a round that is not over")
        if not self._expected()[client]:
            raise UsageError("client", client, "a client of the round before", "It has left.")
        return client

    def _expected(self) -> NDArray[np.bool_]:
        """Return whose answer counts now: at first everyone's, then that of the round before."""
        if self._phase is self._sequence[0]:
            return np.ones(self._params.clients, np.bool_)
        if self._phase not in self._sequence:
            return np.zeros(self._params.clients, np.bool_)
        return self._here[self._sequence[self._sequence.index(self._phase) - 1]]

    def _is_late(self, sender: int, message: _M) -> bool:
        """Say whether a message comes late for another reason than its round."""
        return False

    @abstractmethod
    def _take(self, sender: int, message: _M) -> None:
        """Store what a message says, or raise `PeerError`."""
