"""A client's memory between rounds: nothing gives its secrets out, and how dumped ones are read."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import msgspec

from privagg.errors import UsageError

__all__ = ["SecretMemory", "StateRecord", "read_record"]


class SecretMemory:
    """What memories have in common; `_states` has a member ``ABORTED``."""

    _states: ClassVar[type[Enum]]

    state: Any
    index: int | None

    @property
    def own_index(self) -> int:
        """The client's index; it has one from its first message on."""
        if self.index is None:
            raise UsageError("client", "no index yet", "a client that has advertised its keys")
        return self.index

    @classmethod
    def aborted(cls, index: int | None) -> Self:
        """Return the memory of a client that gave up: no secret, only the index for messages."""
        memory = cls()
        memory.index = index
        memory.state = cls._states["ABORTED"]
        return memory

    def __repr__(self) -> str:
        return "ClientMemory(secret)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client's memory holds secrets and cannot be pickled: use dump_state()")


class StateRecord(msgspec.Struct, forbid_unknown_fields=True):
    """What the layout of every dumped state begins with (MessagePack)."""

    format: str
    params: bytes
    state: str


_Record = TypeVar("_Record", bound=StateRecord)


def read_record(
    state: bytes, kind: type[_Record], *, written: str, digest: bytes, states: type[Enum]
) -> _Record:
    """Return the record of a dumped state; what is wrong is said without quoting the state.

    Raises
    ------
    UsageError
        If it is of another version of the format, or of other parameters, or its state is unknown.
    """
    try:
        record = msgspec.msgpack.decode(state, type=kind)
    except (msgspec.DecodeError, TypeError):
        raise UsageError("state", "other bytes", "what dump_state() returned") from None
    if record.format != written:
        raise UsageError("state", "another version of the format", written)
    if record.params != digest:
        raise UsageError("state", "a state of other parameters", "a state of these parameters")
    if record.state not in states.__members__:
        raise UsageError("state", "an unknown client state", ", ".join(states.__members__))
    return record
