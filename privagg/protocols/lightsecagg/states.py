"""Order, as tables: which message a party accepts in which state, and where it leads.

A pair that is not in the table is an error naming the round. A transition to the same state is a
retransmission: it is answered with the same bytes and changes nothing.
"""

from __future__ import annotations

from enum import Enum

from privagg.protocols._common.order import Receipt, Round, with_repeats
from privagg.protocols.lightsecagg import messages
from privagg.protocols.lightsecagg.messages import Message
from privagg.protocols.lightsecagg.params import Threat

__all__ = [
    "CLIENT_TABLES",
    "ROUNDS",
    "SEQUENCES",
    "SERVER_TABLE",
    "ClientState",
    "Phase",
    "Receipt",
]


class ClientState(Enum):
    """What a client has done so far."""

    IDLE = "idle"
    ADVERTISED = "advertised keys"
    SHARED = "shared its mask"
    MASKED = "sent its masked input"
    CHECKED = "signed the survivor set"
    UNMASKED = "answered unmasking"
    ABORTED = "aborted"


class Phase(Round):
    """Which round a server is collecting."""

    ADVERTISE_KEYS = 0
    SHARE_MASKS = 1
    MASKED_INPUT = 2
    CONSISTENCY_CHECK = 3
    UNMASKING = 4
    DONE = 5
    ABORTED = 6


ROUNDS = tuple(phase.title for phase in Phase if phase.value < Phase.DONE.value)
"""All rounds by name. The consistency check exists where messages are signed."""

_P = Phase
SEQUENCES: dict[Threat, tuple[Phase, ...]] = {
    Threat.SEMI_HONEST: (_P.ADVERTISE_KEYS, _P.SHARE_MASKS, _P.MASKED_INPUT, _P.UNMASKING),
    Threat.ACTIVE: (
        _P.ADVERTISE_KEYS,
        _P.SHARE_MASKS,
        _P.MASKED_INPUT,
        _P.CONSISTENCY_CHECK,
        _P.UNMASKING,
    ),
}
"""Per threat model the rounds that have messages, in order."""

_C = ClientState
ClientTable = dict[tuple[ClientState, type[Message]], ClientState]

_COMMON: ClientTable = {
    (_C.IDLE, messages.Start): _C.ADVERTISED,
    (_C.ADVERTISED, messages.KeyRoster): _C.SHARED,
    (_C.SHARED, messages.ShareBundle): _C.MASKED,
}

_UNMASK: ClientTable = {(_C.MASKED, messages.SurvivorSet): _C.UNMASKED}
_CHECK: ClientTable = {
    (_C.MASKED, messages.SurvivorSet): _C.CHECKED,
    (_C.CHECKED, messages.SignatureSet): _C.UNMASKED,
}

CLIENT_TABLES: dict[Threat, ClientTable] = {
    Threat.SEMI_HONEST: with_repeats(_COMMON | _UNMASK),
    Threat.ACTIVE: with_repeats(_COMMON | _CHECK),
}
"""Per threat model: (state, message) -> state."""

SERVER_TABLE: dict[type[Message], Phase] = {
    messages.AdvertiseKeys: Phase.ADVERTISE_KEYS,
    messages.ShareMasks: Phase.SHARE_MASKS,
    messages.MaskedInput: Phase.MASKED_INPUT,
    messages.ConsistencySignature: Phase.CONSISTENCY_CHECK,
    messages.CodedSum: Phase.UNMASKING,
}
"""The phase in which the server takes a message; earlier it is an error, later it is late."""
