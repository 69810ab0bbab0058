"""What a client remembers between rounds, and how that leaves a process.

The bytes that :func:`dump` writes contain every secret of the client. They are versioned and bound
to the parameters; nothing else (``pickle``, ``repr``, ``copy``) gives them out.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from privagg import sharing
from privagg.errors import PeerError, UsageError
from privagg.protocols._common.memory import SecretMemory, StateRecord, read_record
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.client_state_checks import check_memory
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import ClientState

__all__ = ["ClientMemory", "dump", "load"]

_FORMAT = "privagg secagg client state, secret, version 1"


class ClientMemory(SecretMemory):
    """A client's state: plain attributes, all secrets of the client among them."""

    _states = ClientState

    def __init__(self) -> None:
        self.state: ClientState = ClientState.IDLE
        self.index: int | None = None
        self.context = b""
        self.cipher_seed = b""
        self.mask_seed = b""
        self.self_seed = b""
        self.roster = b""
        self.received = b""
        self.key_root = b""
        self.graph_root = b""
        self.opening = b""
        self.model = b""
        self.attempts = 0
        self.clipped = 0
        self.reply: Message | None = None
        self.present: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.committed: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.members: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.mask_keys: NDArray[np.uint8] = np.zeros((0, 32), np.uint8)
        self.inward: NDArray[np.uint8] = np.zeros((0, 16), np.uint8)
        self.own_shares: NDArray[np.uint64] = np.zeros((2, sharing.LIMBS), np.uint64)
        self.held: NDArray[np.uint64] = np.zeros((0, 2, sharing.LIMBS), np.uint64)
        self.holders: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.opened: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.survivors: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.places: NDArray[np.uint32] = np.zeros(0, np.uint32)

    @property
    def bound(self) -> tuple[bytes, bytes, bytes]:
        """Context, roster digest and model digest: what signatures over views are bound to."""
        return self.context, self.roster, self.model

    @property
    def own_slot(self) -> int | None:
        """Position of this client among the members; None in the sparse graph."""
        at = np.flatnonzero(self.members == self.own_index)
        return int(at[0]) if len(at) else None

    def forget_mask_secrets(self) -> None:
        """Drop the seeds and keys that no later round needs, once the masked input is made."""
        self.cipher_seed = self.mask_seed = self.self_seed = b""
        self.mask_keys = np.zeros((0, 32), np.uint8)
        self.inward = np.zeros((0, 16), np.uint8)
        self.own_shares = np.zeros((2, sharing.LIMBS), np.uint64)
        self.opening = b""

    def forget_shares(self) -> None:
        """Drop the peers' shares once one of each was given: the other kind must never follow."""
        self.held = np.zeros((0, 2, sharing.LIMBS), np.uint64)


_ARRAYS: dict[str, tuple[str, tuple[int, ...]]] = {
    "present": ("?", ()),
    "committed": ("?", ()),
    "members": ("<u4", ()),
    "mask_keys": ("u1", (32,)),
    "inward": ("u1", (16,)),
    "own_shares": ("<u8", (sharing.LIMBS,)),
    "held": ("<u8", (2, sharing.LIMBS)),
    "holders": ("?", ()),
    "opened": ("?", ()),
    "survivors": ("?", ()),
    "places": ("<u4", ()),
}
"""Of each array its dtype and the shape of one row."""

_BYTES = (
    "context",
    "cipher_seed",
    "mask_seed",
    "self_seed",
    "roster",
    "received",
    "key_root",
    "graph_root",
    "opening",
    "model",
)


class _Record(StateRecord, forbid_unknown_fields=True):
    """The layout of a dumped state (MessagePack)."""

    index: int | None
    clipped: int
    attempts: int
    reply: bytes | None
    secrets: dict[str, bytes]
    arrays: dict[str, bytes]


def dump(memory: ClientMemory, params: Params) -> bytes:
    """Return the secret bytes from which :func:`load` makes the same memory."""
    return msgspec.msgpack.encode(
        _Record(
            format=_FORMAT,
            params=params.digest(),
            state=memory.state.name,
            index=memory.index,
            clipped=memory.clipped,
            attempts=memory.attempts,
            reply=None if memory.reply is None else memory.reply.encode(),
            secrets={name: getattr(memory, name) for name in _BYTES},
            arrays={
                name: getattr(memory, name).astype(dtype).tobytes()
                for name, (dtype, _) in _ARRAYS.items()
            },
        )
    )


def load(state: bytes, params: Params) -> ClientMemory:
    """Return the memory that `state` holds.

    Raises
    ------
    UsageError
        If `state` is no client state of this version and these parameters, or one that no client
        can be in. What is wrong is said
        without quoting the state.
    """
    record = read_record(
        state, _Record, written=_FORMAT, digest=params.digest(), states=ClientState
    )
    if record.index is not None and not 0 <= record.index < params.clients:
        raise UsageError("state", "an index outside the round", "an unchanged state")
    if set(record.secrets) != set(_BYTES) or set(record.arrays) != set(_ARRAYS):
        raise UsageError("state", "other fields", "what dump_state() returned")
    memory = ClientMemory()
    memory.state = ClientState[record.state]
    memory.index = record.index
    memory.clipped = record.clipped
    memory.attempts = record.attempts
    for name, value in record.secrets.items():
        setattr(memory, name, value)
    for name, value in record.arrays.items():
        setattr(memory, name, _array(name, value))
    if (memory.places >= params.neighbours).any():
        raise UsageError("state", "a place outside a neighbour's roster", "an unchanged state")
    if record.reply is not None:
        try:
            memory.reply = messages.decode(record.reply, params, peer="state")
        except PeerError:
            raise UsageError("state", "a reply that cannot be read", "an unchanged state") from None
    check_memory(memory, params)
    return memory


def _array(name: str, value: bytes) -> NDArray[Any]:
    dtype, row = _ARRAYS[name]
    if len(value) % (np.dtype(dtype).itemsize * int(np.prod(row, dtype=np.int64))):
        raise UsageError("state", f"a cut field {name}", "an unchanged state")
    return np.frombuffer(value, dtype).reshape(-1, *row).copy()
