"""Whether a loaded client state is one that a client can be in.

A state is the client's own secret, not a peer's message: what is checked here guards against files
that were cut, mixed up or edited, so that nothing fails later, in a round, in another's name.
Whoever can write a client's state can also read its input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privagg.errors import UsageError
from privagg.protocols.secagg import derivations, layout, messages
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import SEQUENCES, ClientState, Phase
from privagg.protocols.secagg.thresholds import Graph, Threat

if TYPE_CHECKING:
    from privagg.protocols.secagg.client_state import ClientMemory

__all__ = ["check_memory"]

_S = ClientState

_REPLIES: dict[ClientState, type[Message]] = {
    _S.ADVERTISED: messages.AdvertiseKeys,
    _S.COMMITTED: messages.GraphCommitment,
    _S.REVEALED: messages.GraphReveal,
    _S.SHARED: messages.ShareKeys,
    _S.MASKED: messages.MaskedInput,
    _S.CHECKED: messages.ConsistencySignature,
    _S.UNMASKED: messages.UnmaskShares,
}
"""What a client in that state has sent last; it may have been delivered."""

_PHASES = {
    _S.COMMITTED: Phase.COMMIT_GRAPH,
    _S.REVEALED: Phase.REVEAL_GRAPH,
    _S.CHECKED: Phase.CONSISTENCY_CHECK,
}
"""States that only some threat models have."""

_ORDER = list(_REPLIES)
_PRIME = np.uint64(2**layout.FIELD_BITS - 1)


def check_memory(memory: ClientMemory, params: Params) -> None:
    """Require of a loaded state what holds of every state that a client dumps.

    Raises
    ------
    UsageError
        Naming the field, and never what is in it.
    """
    phase = _PHASES.get(memory.state)
    if phase is not None and phase not in SEQUENCES[params.threat]:
        _refuse("state")
    if memory.clipped < 0 or memory.clipped > params.dim:
        _refuse("clipped")
    if memory.state in (_S.IDLE, _S.ABORTED):
        _check_empty(memory)
        return
    if memory.index is None:
        _refuse("index")
    _check_secrets(memory, params)
    _check_arrays(memory, params)
    expected = _REPLIES[memory.state]
    if memory.reply is not None and (
        type(memory.reply) is not expected or memory.reply.tag != memory.context[: layout.TAG_BYTES]
    ):
        _refuse("reply")


def _check_empty(memory: ClientMemory) -> None:
    """Require that a client which has not begun, or has given up, holds nothing."""
    fresh = type(memory)()
    for name, value in vars(memory).items():
        empty = vars(fresh)[name]
        if name in ("state", "index") and (name == "state" or memory.state is _S.ABORTED):
            continue
        same = np.array_equal(value, empty) if isinstance(empty, np.ndarray) else value == empty
        if not same:
            _refuse(name)


def _check_secrets(memory: ClientMemory, params: Params) -> None:
    at = _ORDER.index(memory.state)
    drawn = params.threat is Threat.SEMI_MALICIOUS
    shared, masked = at >= _ORDER.index(_S.SHARED), at >= _ORDER.index(_S.MASKED)
    committed = drawn and at >= _ORDER.index(_S.COMMITTED)
    # A graph that is drawn again leaves the root of the draw before.
    revealed = committed and (at >= _ORDER.index(_S.REVEALED) or memory.attempts > 1)
    seed = 0 if masked else derivations.SEED_BYTES
    sizes = {
        "context": layout.DIGEST_BYTES,
        "received": layout.DIGEST_BYTES,
        "cipher_seed": seed,
        "mask_seed": seed,
        "self_seed": seed,
        "roster": layout.DIGEST_BYTES * shared,
        "key_root": layout.DIGEST_BYTES * committed,
        "graph_root": layout.DIGEST_BYTES * revealed,
        "opening": derivations.OPENING_BYTES * (committed and not masked),
        "model": layout.DIGEST_BYTES * masked * bool(memory.model),
    }
    for name, size in sizes.items():
        if len(getattr(memory, name)) != size:
            _refuse(name)
    if not committed <= memory.attempts <= 255 * committed:
        _refuse("attempts")


def _check_arrays(memory: ClientMemory, params: Params) -> None:
    at = _ORDER.index(memory.state)
    drawn = params.threat is Threat.SEMI_MALICIOUS
    shared, masked = at >= _ORDER.index(_S.SHARED), at >= _ORDER.index(_S.MASKED)
    members = memory.members
    most = (params.neighbours + (params.graph is Graph.COMPLETE)) * shared
    if (
        len(members) > most
        or np.any(members >= params.clients)
        or np.any(members[1:] <= members[:-1])
        or (shared and (params.graph is Graph.COMPLETE) != bool(np.any(members == memory.index)))
    ):
        _refuse("members")
    count = len(members)
    committed = drawn and at >= _ORDER.index(_S.COMMITTED)
    revealed = committed and (at >= _ORDER.index(_S.REVEALED) or memory.attempts > 1)
    survivors_known = at > _ORDER.index(_S.MASKED)
    rows = {
        "present": params.clients * committed,
        "committed": params.clients * revealed,
        "mask_keys": count * (not masked),
        "inward": count * (not masked),
        "own_shares": 2,
        "held": count * (masked and memory.state is not _S.UNMASKED),
        "holders": count * masked,
        "opened": count * masked,
        "survivors": count * survivors_known,
        "places": count * drawn,
    }
    for name, expected in rows.items():
        if len(getattr(memory, name)) != expected:
            _refuse(name)
    for name in ("present", "committed", "holders", "opened", "survivors"):
        if np.any(getattr(memory, name).view(np.uint8) > 1):
            _refuse(name)
    for name in ("held", "own_shares"):
        if np.any(getattr(memory, name) >= _PRIME):
            _refuse(name)
    if np.any(memory.places >= params.neighbours):
        _refuse("places")
    if masked and (memory.opened & ~memory.holders).any():
        _refuse("opened")
    if survivors_known and (memory.survivors & ~memory.holders).any():
        _refuse("survivors")


def _refuse(name: str) -> None:
    raise UsageError("state", f"{name}, which does not fit the rest", "an unchanged state")
