"""What a client remembers between rounds, and how that leaves a process.

The bytes that :func:`dump` writes contain every secret of the client. They are versioned and bound
to the parameters; nothing else (``pickle``, ``repr``, ``copy``) gives them out. What :func:`load`
checks guards against files that were cut, mixed up or edited: whoever can write a client's state
can also read its input.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from privagg.errors import PeerError, UsageError
from privagg.protocols._common.framing import DIGEST_BYTES, TAG_BYTES
from privagg.protocols._common.memory import SecretMemory, StateRecord, read_record
from privagg.protocols.lightsecagg import messages
from privagg.protocols.lightsecagg.derivations import SEED_BYTES
from privagg.protocols.lightsecagg.messages import Message
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.states import SEQUENCES, ClientState, Phase

__all__ = ["ClientMemory", "dump", "load"]

_FORMAT = "privagg lightsecagg client state, secret, version 1"

_S = ClientState


class ClientMemory(SecretMemory):
    """A client's state: plain attributes, all secrets of the client among them.

    `mask` is the mask z until it was used; `held` has a row per member, the coded share of that
    member's mask, until their sum was given.
    """

    _states = ClientState

    def __init__(self) -> None:
        self.state: ClientState = ClientState.IDLE
        self.index: int | None = None
        self.context = b""
        self.cipher_seed = b""
        self.roster = b""
        self.received = b""
        self.model = b""
        self.clipped = 0
        self.reply: Message | None = None
        self.members: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.inward: NDArray[np.uint8] = np.zeros((0, 16), np.uint8)
        self.mask: NDArray[Any] = np.zeros(0, np.uint32)
        self.held: NDArray[Any] = np.zeros((0, 1), np.uint32)
        self.holders: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.opened: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.survivors: NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def own_slot(self) -> int:
        """Position of this client among the members, of whom it is one."""
        return int(np.searchsorted(self.members, self.own_index))

    def forget_mask(self) -> None:
        """Drop mask and keys once the masked input is made: a mask serves one input."""
        self.cipher_seed = b""
        self.mask = np.zeros(0, np.uint32)
        self.inward = np.zeros((0, 16), np.uint8)

    def forget_shares(self) -> None:
        """Drop the coded shares once their sum was given: a second sum must never follow."""
        self.held = np.zeros((0, 1), np.uint32)


_BYTES = ("context", "cipher_seed", "roster", "received", "model")
_FLAGS = ("holders", "opened", "survivors")


def _layout(params: Params) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return of each array its dtype, little-endian, and the shape of one row."""
    word = params.word.newbyteorder("<")
    return {
        "members": (np.dtype("<u4"), ()),
        "inward": (np.dtype("u1"), (16,)),
        "mask": (word, ()),
        "held": (word, (params.piece,)),
        **{name: (np.dtype("?"), ()) for name in _FLAGS},
    }


class _Record(StateRecord, forbid_unknown_fields=True):
    """The layout of a dumped state (MessagePack)."""

    index: int | None
    clipped: int
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
            reply=None if memory.reply is None else memory.reply.encode(),
            secrets={name: getattr(memory, name) for name in _BYTES},
            arrays={
                name: getattr(memory, name).astype(dtype).tobytes()
                for name, (dtype, _) in _layout(params).items()
            },
        )
    )


def load(state: bytes, params: Params) -> ClientMemory:
    """Return the memory that `state` holds.

    Raises
    ------
    UsageError
        If `state` is no client state of this version and these parameters, or one that no client
        can be in. What is wrong is said without quoting the state.
    """
    record = read_record(
        state, _Record, written=_FORMAT, digest=params.digest(), states=ClientState
    )
    layout = _layout(params)
    if set(record.secrets) != set(_BYTES) or set(record.arrays) != set(layout):
        raise UsageError("state", "other fields", "what dump_state() returned")
    memory = ClientMemory()
    memory.state, memory.index = ClientState[record.state], record.index
    memory.clipped = record.clipped
    for name, value in record.secrets.items():
        setattr(memory, name, value)
    for name, (dtype, row) in layout.items():
        value = record.arrays[name]
        if len(value) % (dtype.itemsize * int(np.prod(row, dtype=np.int64))):
            _refuse(name)
        array = np.frombuffer(value, dtype).astype(dtype.newbyteorder("=")).reshape(-1, *row)
        setattr(memory, name, array)
    if record.reply is not None:
        try:
            memory.reply = messages.decode(record.reply, params, peer="state")
        except PeerError:
            raise UsageError("state", "a reply that cannot be read", "an unchanged state") from None
    _check(memory, params)
    return memory


_REPLIES: dict[ClientState, type[Message]] = {
    _S.ADVERTISED: messages.AdvertiseKeys,
    _S.SHARED: messages.ShareMasks,
    _S.MASKED: messages.MaskedInput,
    _S.CHECKED: messages.ConsistencySignature,
    _S.UNMASKED: messages.CodedSum,
}
"""What a client in that state has sent last; it may have been delivered."""

_ORDER = list(_REPLIES)


def _check(memory: ClientMemory, params: Params) -> None:
    """Require of a loaded state what holds of every state that a client dumps."""
    if memory.state is _S.CHECKED and Phase.CONSISTENCY_CHECK not in SEQUENCES[params.threat]:
        _refuse("state")
    if not 0 <= memory.clipped <= params.dim:
        _refuse("clipped")
    if memory.index is not None and not 0 <= memory.index < params.clients:
        _refuse("index")
    if memory.state in (_S.IDLE, _S.ABORTED):
        filled = [name for name in (*_BYTES, *_layout(params)) if len(getattr(memory, name))]
        if memory.reply is not None or memory.clipped:
            filled.append("reply")
        if memory.state is _S.IDLE and memory.index is not None:
            filled.append("index")
        if filled:
            _refuse(filled[0])
        return
    if memory.index is None:
        _refuse("index")
    _check_sizes(memory, params)
    expected = _REPLIES[memory.state]
    if memory.reply is not None and (
        type(memory.reply) is not expected or memory.reply.tag != memory.context[:TAG_BYTES]
    ):
        _refuse("reply")


def _check_sizes(memory: ClientMemory, params: Params) -> None:
    at = _ORDER.index(memory.state)
    shared, masked = at >= _ORDER.index(_S.SHARED), at >= _ORDER.index(_S.MASKED)
    members = memory.members
    if (
        np.any(members >= params.clients)
        or np.any(members[1:] <= members[:-1])
        or shared != bool(np.any(members == memory.index))
        or bool(len(members)) != shared
    ):
        _refuse("members")
    count, waiting = len(members), shared and not masked
    known = at > _ORDER.index(_S.MASKED)
    sizes = {
        "context": DIGEST_BYTES,
        "received": DIGEST_BYTES,
        "cipher_seed": 0 if masked else SEED_BYTES,
        "roster": DIGEST_BYTES * shared,
        "model": DIGEST_BYTES * masked * bool(memory.model),
        "inward": count * waiting,
        "mask": params.length * waiting,
        "held": count * (shared and memory.state is not _S.UNMASKED),
        "holders": count * masked,
        "opened": count * masked,
        "survivors": count * known,
    }
    for name, size in sizes.items():
        if len(getattr(memory, name)) != size:
            _refuse(name)
    for name in _FLAGS:
        if np.any(getattr(memory, name).view(np.uint8) > 1):
            _refuse(name)
    for name in ("mask", "held"):
        if np.any(getattr(memory, name) >= params.word.type(params.field.modulus)):
            _refuse(name)
    if masked and (memory.opened & ~memory.holders).any():
        _refuse("opened")
    if known and (memory.survivors & ~memory.holders).any():
        _refuse("survivors")


def _refuse(name: str) -> NoReturn:
    raise UsageError("state", f"{name}, which does not fit the rest", "an unchanged state")
