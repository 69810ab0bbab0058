"""Order, as tables: (state, message) -> state. Anything else is an error that names the round."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from privagg.errors import PeerError
from privagg.protocols.additive import messages

__all__ = [
    "CLIENT_TABLE",
    "HELPER_TABLE",
    "LEADER_TABLE",
    "ROUNDS",
    "ClientState",
    "HelperState",
    "LeaderState",
    "following",
]

ROUNDS = ("share-seeds", "masked-input", "sum-masks")


class ClientState(Enum):
    """What a client has done."""

    IDLE = "said nothing"
    SHARED = "shared its seeds"
    MASKED = "sent its masked input"


class HelperState(Enum):
    """What a helper has done."""

    COLLECTING = "collecting seeds"
    REPORTED = "said whose seeds it has"
    SUMMED = "sent its sum of masks"


class LeaderState(Enum):
    """What a leader is waiting for."""

    SEEDS = "waiting for whose seeds are there"
    INPUTS = "collecting masked inputs"
    MASKS = "waiting for sums of masks"
    DONE = "done"


_State = TypeVar("_State", bound=Enum)

CLIENT_TABLE = {
    (ClientState.SHARED, messages.SeedHolders): ClientState.MASKED,
    (ClientState.MASKED, messages.SeedHolders): ClientState.MASKED,
}
HELPER_TABLE = {
    (HelperState.COLLECTING, messages.SeedShare): HelperState.COLLECTING,
    (HelperState.REPORTED, messages.Cohort): HelperState.SUMMED,
    (HelperState.SUMMED, messages.Cohort): HelperState.SUMMED,
}
LEADER_TABLE = {
    (LeaderState.SEEDS, messages.SeedHolders): LeaderState.SEEDS,
    (LeaderState.INPUTS, messages.MaskedInput): LeaderState.INPUTS,
    (LeaderState.MASKS, messages.MaskSum): LeaderState.MASKS,
}


def following(
    table: Mapping[tuple[_State, Any], _State], state: _State, message: Any, peer: str | int
) -> _State:
    """Return the state that `message` leads to.

    Raises
    ------
    PeerError
        If the table has no such pair.
    """
    found = table.get((state, type(message)))
    if found is None:
        due = sorted(kind.__name__ for at, kind in table if at is state)
        raise PeerError(
            peer,
            getattr(message, "round", "any"),
            f"{type(message).__name__} while {state.value}; allowed: {', '.join(due) or 'nothing'}",
        )
    return found
