"""A party that holds to a table: what a message does to its state, and what is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from privagg import keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols.secagg import checks, layout
from privagg.protocols.secagg.client_state import ClientMemory
from privagg.protocols.secagg.messages import GraphChallenge, GraphRequest, Message, Start
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import CLIENT_TABLES, next_state

__all__ = ["OrderedParty"]

_M = TypeVar("_M", bound=Message)
_R = TypeVar("_R", bound=Message)


class OrderedParty:
    """Order for a client: accept, repeat, or refuse; move on only when a message was good."""

    def __init__(self, params: Params) -> None:
        self._params = params
        self._memory = ClientMemory()

    @property
    def _tag(self) -> bytes:
        return self._memory.context[: layout.TAG_BYTES]

    def _reply(self, received: Message, reply: _M) -> _M:
        self._memory.received = keys.digest(received.encode())
        self._memory.reply = reply
        return reply

    @contextmanager
    def _handling(
        self, message: _R, expected: type[Message], answer: type[_M]
    ) -> Iterator[tuple[_R, _M | None]]:
        """Hold the table: yield the message, checked, and an earlier reply to repeat, or None.

        Then move on, or abort. A message that could not have been decoded changes nothing.
        """
        if not isinstance(message, expected):
            raise UsageError("message", type(message).__name__, expected.__name__)
        message = message.checked(self._params, peer="server")
        memory = self._memory
        following = next_state(CLIENT_TABLES[self._params.threat], memory.state, message)
        if not isinstance(message, Start):
            checks.same_round(message, self._tag)
        if following is memory.state:
            yield message, self._repeat(message, answer)
            return
        if isinstance(message, GraphRequest | GraphChallenge):
            checks.same_draw(message, memory.attempts)
        before = dict(vars(memory))
        try:
            yield message, None
        except (PeerError, Abort):
            self._memory = ClientMemory.aborted(memory.index)
            raise
        except BaseException:  # the caller's mistake: half a step is none
            vars(memory).update(before)
            raise
        memory.state = following

    def _repeat(self, message: Message, answer: type[_M]) -> _M:
        memory = self._memory
        if keys.digest(message.encode()) != memory.received:
            raise PeerError(
                "server", message.round, f"a second {type(message).__name__} that differs"
            )
        if not isinstance(memory.reply, answer):
            raise PeerError("server", message.round, "a reply that was already delivered")
        return memory.reply
