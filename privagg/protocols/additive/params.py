"""What all parties agree on, and what a run costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from privagg import keys, wire
from privagg._validate import whole
from privagg.errors import CapacityError
from privagg.protocols._common.cohort import two_are_honest
from privagg.protocols._common.framing import HEADER_BYTES

__all__ = ["MAX_CLIENTS", "SEED_BYTES", "Params"]

MAX_CLIENTS = 2**20
SEED_BYTES = 32
"""Of a mask: AES-128 in counter mode, key and first block; see :mod:`privagg.prg`."""

_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of a sum, checked when they are made.

    Attributes
    ----------
    clients : int
        How many are invited, from 2 to 2**20.
    helpers : int
        Servers beside the leader, 1 to 16. One of them must not collude with the leader: a second
        one is there in case the first does.
    dim : int
        Numbers in a vector.
    value_bits : int
        Each is from 0 to ``2**value_bits - 1``.
    corrupt : int
        Clients that may collude with the leader.
    min_cohort : int
        No sum of fewer is given: at least ``corrupt + 2``, so that two inputs hide each other.

    Raises
    ------
    UsageError
        If an argument is out of range.
    CapacityError
        If a sum could wrap: it must stay below 2**64.
    """

    clients: int
    dim: int
    value_bits: int
    helpers: int = 1
    corrupt: int = 0
    min_cohort: int = 2

    def __post_init__(self) -> None:
        self._whole("clients", 2, MAX_CLIENTS)
        self._whole("dim", 1, 2**31 - 1)
        self._whole("value_bits", 1, 63)
        self._whole("helpers", 1, 16)
        self._whole("corrupt", 0, self.clients - 2)
        self._whole("min_cohort", 2, self.clients)
        two_are_honest(self.min_cohort, self.corrupt)
        if self.bits > 64:
            allowed = f"at most {64 - (self.clients - 1).bit_length()} for {self.clients} clients"
            raise CapacityError("value_bits", self.value_bits, allowed)

    def _whole(self, name: str, low: int, high: int) -> None:
        # Plain Python numbers: NumPy's wrap, and have no to_bytes().
        object.__setattr__(self, name, whole(name, getattr(self, name), low, high))

    @cached_property
    def bits(self) -> int:
        """Bits of the modulus: no sum of all clients wraps."""
        largest: int = self.clients * (2**self.value_bits - 1)
        return largest.bit_length()

    def digest(self) -> bytes:
        """Return 32 bytes that equal parameters have alone."""
        fields = (self.clients, self.dim, self.value_bits, self.helpers, self.corrupt)
        parts = [value.to_bytes(8, "little") for value in (_VERSION, *fields, self.min_cohort)]
        return keys.digest(b"privagg additive parameters", *parts)

    def sent(self) -> dict[str, int]:
        """Return the bytes that one party of each role sends in a run: the plan."""
        vector = HEADER_BYTES + wire.packed_size(self.dim, self.bits)
        members = HEADER_BYTES + wire.bitmap_size(self.clients)
        return {
            "client": self.helpers * (HEADER_BYTES + SEED_BYTES) + vector,
            "helper": members + vector,
            "leader": (self.clients + self.helpers) * members,
        }
