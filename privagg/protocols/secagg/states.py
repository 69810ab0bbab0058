"""Order, as tables: which message a party accepts in which state, and where it leads.

A pair that is not in the table is an error naming the round. A transition to the same state is a
retransmission: it is answered with the same bytes and changes nothing.
"""

from __future__ import annotations

from enum import Enum

from privagg.errors import PeerError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.thresholds import Threat

__all__ = ["CLIENT_TABLES", "ROUNDS", "SERVER_TABLE", "ClientState", "Phase", "next_state"]

ROUNDS = ("advertise-keys", "share-keys", "masked-input", "consistency-check", "unmasking")
"""The paper's rounds 0 to 4, by name. Round 3 has messages only where survivor sets are signed."""


class ClientState(Enum):
    """What a client has done so far."""

    IDLE = "idle"
    ADVERTISED = "advertised keys"
    SHARED = "shared keys"
    MASKED = "sent its masked input"
    CHECKED = "signed the survivor set"
    UNMASKED = "answered unmasking"
    ABORTED = "aborted"


class Phase(Enum):
    """Which round a server is collecting."""

    ADVERTISE_KEYS = 0
    SHARE_KEYS = 1
    MASKED_INPUT = 2
    CONSISTENCY_CHECK = 3
    UNMASKING = 4
    DONE = 5
    ABORTED = 6


_C = ClientState
ClientTable = dict[tuple[ClientState, type[Message]], ClientState]

_SEMI_HONEST: ClientTable = {
    (_C.IDLE, messages.Start): _C.ADVERTISED,
    (_C.ADVERTISED, messages.Start): _C.ADVERTISED,
    (_C.ADVERTISED, messages.KeyRoster): _C.SHARED,
    (_C.SHARED, messages.KeyRoster): _C.SHARED,
    (_C.SHARED, messages.ShareBundle): _C.MASKED,
    (_C.MASKED, messages.ShareBundle): _C.MASKED,
    (_C.MASKED, messages.SurvivorSet): _C.UNMASKED,
    (_C.UNMASKED, messages.SurvivorSet): _C.UNMASKED,
}

CLIENT_TABLES: dict[Threat, ClientTable] = {Threat.SEMI_HONEST: _SEMI_HONEST}
"""Per threat model: (state, message) -> state. ``CHECKED`` waits for the signed survivor sets."""

SERVER_TABLE: dict[type[Message], Phase] = {
    messages.AdvertiseKeys: Phase.ADVERTISE_KEYS,
    messages.ShareKeys: Phase.SHARE_KEYS,
    messages.MaskedInput: Phase.MASKED_INPUT,
    messages.UnmaskShares: Phase.UNMASKING,
}
"""The phase in which the server takes a message; earlier it is an error, later it is late."""


def next_state(table: ClientTable, state: ClientState, message: Message) -> ClientState:
    """Return the state that `message` leads to.

    Raises
    ------
    PeerError
        If the table has no such pair: the server sent a message out of order.
    """
    following = table.get((state, type(message)))
    if following is None:
        due = sorted({kind.__name__ for at, kind in table if at is state})
        raise PeerError(
            "server",
            getattr(message, "round", "any"),
            f"{type(message).__name__} to a client that has {state.value}; "
            f"allowed here: {', '.join(due) or 'nothing: the round is over for this client'}",
        )
    return following
