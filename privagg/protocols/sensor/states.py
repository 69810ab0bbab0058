"""Order, as a table: what a member accepts in which state of an epoch, and where it leads.

A pair that is not in the table is an error that names the step, and changes nothing. A roster of a
new epoch is accepted in every state; one of an epoch that was already answered in none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from privagg.errors import PeerError
from privagg.protocols.sensor import messages
from privagg.protocols.sensor.messages import Message
from privagg.protocols.sensor.params import Params, Protocol

__all__ = ["TABLES", "MemberState", "Mode", "mode", "next_state"]


class MemberState(Enum):
    """What a member has done in the epoch."""

    IDLE = "said nothing yet"
    SHARED = "sent its shares"
    MASKED = "masked its numbers"
    ECHOED = "echoed the set of senders"
    ANSWERED = "answered"


class Mode(Enum):
    """The three courses an epoch can take."""

    FULL = "all shares are needed"
    THRESHOLD = "t answers are enough"
    MASKED = "pairwise masks"


_State = TypeVar("_State", bound=Enum)
_S = MemberState
_Table = dict[tuple[MemberState, type[Message]], MemberState]


def _new(*states: MemberState, to: MemberState) -> _Table:
    """Return that a roster is accepted in every state of a mode."""
    return {(state, messages.Roster): to for state in (_S.IDLE, *states, _S.ANSWERED)}


_SHARES: _Table = {
    (_S.SHARED, messages.Shares): _S.SHARED,
    (_S.SHARED, messages.Relay): _S.SHARED,
}
_AGAIN: _Table = {(_S.ANSWERED, messages.Answer): _S.ANSWERED}

TABLES: dict[Mode, _Table] = {
    Mode.FULL: _new(_S.SHARED, to=_S.SHARED)
    | _SHARES
    | {(_S.SHARED, messages.Answer): _S.ANSWERED}
    | _AGAIN,
    Mode.THRESHOLD: _new(_S.SHARED, _S.ECHOED, to=_S.SHARED)
    | _SHARES
    | {
        (_S.SHARED, messages.Received): _S.SHARED,
        (_S.SHARED, messages.SenderSet): _S.ECHOED,
        (_S.ECHOED, messages.Echo): _S.ECHOED,
        (_S.ECHOED, messages.Relay): _S.ECHOED,
        (_S.ECHOED, messages.Answer): _S.ANSWERED,
        (_S.ANSWERED, messages.Echo): _S.ANSWERED,
        (_S.ANSWERED, messages.Relay): _S.ANSWERED,
    }
    | _AGAIN,
    Mode.MASKED: _new(_S.MASKED, to=_S.MASKED)
    | {(_S.MASKED, messages.Answer): _S.ANSWERED}
    | _AGAIN,
}
"""By mode: (state, message) -> state. Received and Answer are what the member itself sends."""


def mode(params: Params) -> Mode:
    """Return the course that epochs take."""
    if params.protocol is Protocol.MASK_CLUSTER:
        return Mode.MASKED
    return Mode.THRESHOLD if params.drops else Mode.FULL


def next_state(
    table: Mapping[tuple[_State, type[Message]], _State],
    state: _State,
    kind: type[Message],
    peer: int,
) -> _State:
    """Return the state that a message leads to.

    Raises
    ------
    PeerError
        If the table has no such pair.
    """
    following = table.get((state, kind))
    if following is None:
        due = sorted({due.__name__ for at, due in table if at is state})
        raise PeerError(
            peer,
            kind.round,
            f"{kind.__name__} at a member that has {state.value}; allowed: {', '.join(due)}",
        )
    return following
