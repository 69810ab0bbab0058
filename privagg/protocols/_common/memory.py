"""A client's memory between rounds: who it is, and that nothing gives its secrets out."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, NoReturn, Self

from privagg.errors import UsageError

__all__ = ["SecretMemory"]


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
