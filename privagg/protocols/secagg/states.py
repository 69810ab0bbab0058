"""Order, as tables: which message a party accepts in which state, and where it leads.

A pair that is not in the table is an error naming the round. A transition to the same state is a
retransmission: it is answered with the same bytes and changes nothing.
"""

from __future__ import annotations

from enum import Enum

from privagg.protocols._common.order import Receipt, Round, following, with_repeats
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.thresholds import Threat

__all__ = [
    "CLIENT_TABLES",
    "ROUNDS",
    "SEQUENCES",
    "SERVER_TABLE",
    "ClientState",
    "Phase",
    "Receipt",
    "next_state",
]


class ClientState(Enum):
    """What a client has done so far."""

    IDLE = "idle"
    ADVERTISED = "advertised keys"
    COMMITTED = "committed to its part of the graph"
    REVEALED = "revealed its part of the graph"
    SHARED = "shared keys"
    MASKED = "sent its masked input"
    CHECKED = "signed the survivor set"
    UNMASKED = "answered unmasking"
    ABORTED = "aborted"


class Phase(Round):
    """Which round a server is collecting."""

    ADVERTISE_KEYS = 0
    COMMIT_GRAPH = 1
    REVEAL_GRAPH = 2
    SHARE_KEYS = 3
    MASKED_INPUT = 4
    CONSISTENCY_CHECK = 5
    UNMASKING = 6
    DONE = 7
    ABORTED = 8


ROUNDS = tuple(phase.title for phase in Phase if phase.value < Phase.DONE.value)
"""All rounds by name. Those of the graph and the consistency check exist in some threat models."""


_P = Phase
SEQUENCES: dict[Threat, tuple[Phase, ...]] = {
    Threat.SEMI_HONEST: (_P.ADVERTISE_KEYS, _P.SHARE_KEYS, _P.MASKED_INPUT, _P.UNMASKING),
    Threat.ACTIVE: (
        _P.ADVERTISE_KEYS,
        _P.SHARE_KEYS,
        _P.MASKED_INPUT,
        _P.CONSISTENCY_CHECK,
        _P.UNMASKING,
    ),
    Threat.SEMI_MALICIOUS: (
        _P.ADVERTISE_KEYS,
        _P.COMMIT_GRAPH,
        _P.REVEAL_GRAPH,
        _P.SHARE_KEYS,
        _P.MASKED_INPUT,
        _P.CONSISTENCY_CHECK,
        _P.UNMASKING,
    ),
}
"""Per threat model the rounds that have messages, in order."""

_C = ClientState
ClientTable = dict[tuple[ClientState, type[Message]], ClientState]


_KEYS: ClientTable = {(_C.IDLE, messages.Start): _C.ADVERTISED}
_INPUT: ClientTable = {(_C.SHARED, messages.ShareBundle): _C.MASKED}
_UNMASK: ClientTable = {(_C.MASKED, messages.SurvivorSet): _C.UNMASKED}
_CHECK: ClientTable = {
    (_C.MASKED, messages.SurvivorSet): _C.CHECKED,
    (_C.CHECKED, messages.SignatureSet): _C.UNMASKED,
}

CLIENT_TABLES: dict[Threat, ClientTable] = {
    Threat.SEMI_HONEST: with_repeats(
        _KEYS | {(_C.ADVERTISED, messages.KeyRoster): _C.SHARED} | _INPUT | _UNMASK
    ),
    Threat.ACTIVE: with_repeats(
        _KEYS | {(_C.ADVERTISED, messages.KeyRoster): _C.SHARED} | _INPUT | _CHECK
    ),
    Threat.SEMI_MALICIOUS: with_repeats(
        _KEYS
        | {
            (_C.ADVERTISED, messages.GraphRequest): _C.COMMITTED,
            (_C.COMMITTED, messages.GraphChallenge): _C.REVEALED,
            (_C.REVEALED, messages.KeyRoster): _C.SHARED,
        }
        | _INPUT
        | _CHECK
    )
    # Someone committed and did not reveal: the graph is drawn again, a few times at most.
    | {(_C.REVEALED, messages.GraphRequest): _C.COMMITTED},
}
"""Per threat model: (state, message) -> state."""

SERVER_TABLE: dict[type[Message], Phase] = {
    messages.AdvertiseKeys: Phase.ADVERTISE_KEYS,
    messages.GraphCommitment: Phase.COMMIT_GRAPH,
    messages.GraphReveal: Phase.REVEAL_GRAPH,
    messages.ShareKeys: Phase.SHARE_KEYS,
    messages.MaskedInput: Phase.MASKED_INPUT,
    messages.ConsistencySignature: Phase.CONSISTENCY_CHECK,
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
    return following(table, state, message)
