"""Order in the other protocols, as tables: (state, message or own step) -> state.

What is not in a table is an error that names the step, and changes nothing. A word in place of a
message is what the party does by itself.
"""

from __future__ import annotations

from enum import Enum

from privagg._validate import whole
from privagg.errors import PeerError, UsageError
from privagg.protocols.sensor.messages import Hello as Query
from privagg.protocols.sensor.messages import Message, Report, Roster
from privagg.protocols.sensor.messages_papers import (
    CmtReport,
    PaperRelay,
    PaperShares,
    Redo,
    Seed,
    SeededRoster,
    SeedRelay,
    Slice,
)
from privagg.protocols.sensor.params import Protocol

__all__ = ["PAPER_TABLES", "PaperState", "follow", "step"]


class PaperState(Enum):
    """What a party of one of these protocols has done in the epoch."""

    IDLE = "said nothing yet"
    SEEDED = "announced its seed"
    SHARED = "sent its shares"
    GAVE_UP = "given up"
    ANSWERED = "answered"
    ASKED = "heard the query"
    REPORTED = "reported"


_S = PaperState
_Step = type[Message] | str
_Table = dict[tuple[PaperState, _Step], PaperState]

_CLUSTER = (_S.IDLE, _S.SEEDED, _S.SHARED, _S.GAVE_UP, _S.ANSWERED)
_TREE = (_S.IDLE, _S.ASKED, _S.REPORTED)

_CPDA: _Table = {
    **{(state, Roster): _S.SEEDED for state in _CLUSTER if state is not _S.GAVE_UP},
    (_S.SEEDED, Seed): _S.SEEDED,
    (_S.SEEDED, SeedRelay): _S.SEEDED,
    (_S.SEEDED, "redraw"): _S.SEEDED,
    (_S.SEEDED, "share"): _S.SHARED,
    (_S.SHARED, PaperShares): _S.SHARED,
    (_S.SHARED, PaperRelay): _S.SHARED,
    (_S.SHARED, "answer"): _S.ANSWERED,
    (_S.ANSWERED, "answer"): _S.ANSWERED,
}


def _tree(*heard: type[Message]) -> _Table:
    return {
        **{(state, Query): _S.ASKED for state in _TREE},
        **{(_S.ASKED, kind): _S.ASKED for kind in heard},
        (_S.ASKED, "report"): _S.REPORTED,
        (_S.REPORTED, "report"): _S.REPORTED,
    }


PAPER_TABLES: dict[Protocol, _Table] = {
    Protocol.TAG: _tree(Report),
    Protocol.SMART: _tree(Slice, Report) | {(_S.ASKED, "keep"): _S.ASKED},
    Protocol.CMT: _tree(CmtReport),
    Protocol.CPDA: _CPDA,
    Protocol.CPDA_SEN_CHECKED: _CPDA
    | {
        (_S.SHARED, "check"): _S.SHARED,
        (_S.SHARED, Redo): _S.SEEDED,
        (_S.SEEDED, "give up"): _S.GAVE_UP,
        (_S.GAVE_UP, Roster): _S.SEEDED,
    },
    Protocol.CPDA_SEN_EFFICIENT: {
        (_S.IDLE, SeededRoster): _S.ANSWERED,
        (_S.ANSWERED, SeededRoster): _S.ANSWERED,
    },
}
"""By protocol: (state, message or own step) -> state."""


def follow(table: _Table, state: PaperState, kind: type[Message], peer: int) -> PaperState:
    """Return the state that a message leads to.

    Raises
    ------
    PeerError
        If the table has no such pair.
    UsageError
        If the peer is no node.
    """
    whole("sender", peer, 0, 2**32 - 1)
    following = table.get((state, kind))
    if following is None:
        raise PeerError(
            peer,
            kind.round,
            f"{kind.__name__} at a party that has {state.value}; allowed: {_due(table, state)}",
        )
    return following


def step(table: _Table, state: PaperState, name: str) -> PaperState:
    """Return the state that a party's own step leads to.

    Raises
    ------
    UsageError
        If the table has no such pair: its caller is out of order.
    """
    following = table.get((state, name))
    if following is None:
        raise UsageError("order", f"{name} at a party that has {state.value}", _due(table, state))
    return following


def _due(table: _Table, state: PaperState) -> str:
    due = {kind if isinstance(kind, str) else kind.__name__ for at, kind in table if at is state}
    return ", ".join(sorted(due)) or "nothing"
