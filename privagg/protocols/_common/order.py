"""A party that holds to a table: what a message does to its state, and what is sent again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

from privagg import keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols._common import checks
from privagg.protocols._common.framing import TAG_BYTES, Agreed, Framed

__all__ = ["Memory", "OrderedParty", "Receipt", "Round", "following", "with_repeats"]


class Receipt(Enum):
    """What became of a message."""

    ACCEPTED = "accepted"
    REPEATED = "repeated: the first one counts"
    LATE = "late: its round is closed, it was not looked at"


class Round(Enum):
    """Which round a server is collecting; the numbers are in the order of time."""

    @property
    def title(self) -> str:
        """The round's name, as messages, transcripts and errors say it."""
        return self.name.lower().replace("_", "-")


class Memory(Protocol):
    """What a client remembers between rounds, as far as order goes."""

    state: Any
    index: int | None
    context: bytes
    received: bytes
    clipped: int
    reply: Any

    @classmethod
    def aborted(cls, index: int | None) -> Self:
        """Return the memory of a client that gave up."""


_S = TypeVar("_S", bound=Enum)
_K = TypeVar("_K")
_Mem = TypeVar("_Mem", bound=Memory)
_M = TypeVar("_M", bound=Framed[Any])
_R = TypeVar("_R", bound=Framed[Any])


def with_repeats(steps: Mapping[tuple[_S, _K], _S]) -> dict[tuple[_S, _K], _S]:
    """Add the retransmissions: the message that led to a state may come again in it."""
    return dict(steps) | {(after, kind): after for (_, kind), after in steps.items()}


def following(table: Mapping[tuple[_S, Any], _S], state: _S, message: object) -> _S:
    """Return the state that `message` leads to.

    Raises
    ------
    PeerError
        If the table has no such pair: the server sent a message out of order.
    """
    found = table.get((state, type(message)))
    if found is None:
        due = sorted({kind.__name__ for at, kind in table if at is state})
        raise PeerError(
            "server",
            getattr(message, "round", "any"),
            f"{type(message).__name__} to a client that has {state.value}; "
            f"allowed here: {', '.join(due) or 'nothing: the round is over for this client'}",
        )
    return found


class OrderedParty(ABC, Generic[_Mem]):
    """Order for a client: accept, repeat, or refuse; move on only when a message was good."""

    def __init__(self, params: Agreed, memory: _Mem) -> None:
        self._agreed = params
        self._memory = memory

    @property
    def index(self) -> int | None:
        """Index of this client in the round, once the server has said it."""
        return self._memory.index

    @property
    def clipped(self) -> int:
        """How many coordinates of the own input lay outside the clip; never sent to anyone."""
        return self._memory.clipped

    def delivered(self) -> None:
        """Release the last reply: the transport says that the server has it.

        A vector's memory is held no longer than needed. A later request for the same reply is an
        error.
        """
        self._memory.reply = None

    def __repr__(self) -> str:
        return f"Client(index={self.index}, state={self._memory.state.value!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client holds secrets and cannot be pickled: use dump_state()")

    @property
    def _tag(self) -> bytes:
        return self._memory.context[:TAG_BYTES]

    @abstractmethod
    def _next(self, message: Framed[Any]) -> Any:
        """Return the state that `message` leads to, or raise `PeerError`."""

    def _check_turn(self, message: Framed[Any]) -> None:
        """Check what else makes a message due; one that is not changes nothing."""

    def _reply(self, received: Framed[Any], reply: _M) -> _M:
        self._memory.received = keys.digest(received.encode())
        self._memory.reply = reply
        return reply

    @contextmanager
    def _handling(
        self, message: _R, expected: type[Framed[Any]], answer: type[_M]
    ) -> Iterator[tuple[_R, _M | None]]:
        """Hold the table: yield the message, checked, and an earlier reply to repeat, or None.

        Then move on, or abort. A message that could not have been decoded changes nothing.
        """
        if not isinstance(message, expected):
            raise UsageError("message", type(message).__name__, expected.__name__)
        message = message.checked(self._agreed, peer="server")
        memory = self._memory
        after = self._next(message)
        if not hasattr(message, "params_digest"):  # the first message names the round itself
            checks.same_round(message, self._tag)
        if after is memory.state:
            yield message, self._repeat(message, answer)
            return
        self._check_turn(message)
        before = dict(vars(memory))
        try:
            yield message, None
        except (PeerError, Abort):
            self._memory = type(memory).aborted(memory.index)
            raise
        except BaseException:  # the caller's mistake: half a step is none
            vars(memory).update(before)
            raise
        memory.state = after

    def _repeat(self, message: Framed[Any], answer: type[_M]) -> _M:
        memory = self._memory
        if keys.digest(message.encode()) != memory.received:
            raise PeerError(
                "server", message.round, f"a second {type(message).__name__} that differs"
            )
        if not isinstance(memory.reply, answer):
            raise PeerError("server", message.round, "a reply that was already delivered")
        return memory.reply
