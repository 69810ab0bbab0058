"""What members of the papers' protocols draw: seeds and coefficients.

A party draws from its entropy. The simulation hands over what its arrays have drawn, so that both
can be compared: with checks that draw again, and with floating point, draws decide the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.sensor import faithful
from privagg.protocols.sensor.faithful import Record
from privagg.protocols.sensor.params import Arithmetic, Params

__all__ = ["Draws", "FreshDraws", "Replayed"]


@runtime_checkable
class Draws(Protocol):
    """Where a member's seeds and coefficients come from."""

    def seeds(self, members: int) -> tuple[int, ...]:
        """Return a seed for each number."""

    def coefficients(self, members: int) -> Sequence[Sequence[Any]]:
        """Return, for each number, m - 1 coefficients, the linear one first."""


class FreshDraws:
    """Draws from a source of entropy."""

    def __init__(self, params: Params, entropy: Entropy) -> None:
        self._params, self._entropy = params, entropy

    def seeds(self, members: int) -> tuple[int, ...]:
        """Return uniform seeds from 1 to `seed_max`."""
        if members > self._params.seed_max:
            raise UsageError("seed_max", self._params.seed_max, f"at least {members}")
        drawn = faithful.below(self._entropy, self._params.seed_max, (self._params.width,))
        return tuple(int(seed) + 1 for seed in drawn)

    def coefficients(self, members: int) -> Sequence[Sequence[Any]]:
        """Return uniform coefficients up to `coefficient_max`: integers, or reals."""
        params, shape = self._params, (self._params.width, members - 1)
        if params.arithmetic is not Arithmetic.REAL:
            drawn = faithful.below(self._entropy, params.coefficient_max + 1, shape)
            return [[int(value) for value in row] for row in drawn]
        words = np.frombuffer(self._entropy.take(8 * shape[0] * shape[1]), "<u8").reshape(shape)
        unit = (words >> np.uint64(11)).astype(np.float64) / 2.0**53
        return [[float(value) for value in row] for row in params.coefficient_max * unit]


class Replayed:
    """What the arrays have drawn for one member, in order."""

    def __init__(self) -> None:
        self.load((), 0)

    def load(self, records: Sequence[Record], position: int) -> None:
        """Take the records of a cluster, one for each number, and this member's place in it."""
        self._records, self._position = records, position
        self._seeds = self._coefficients = 0

    def seeds(self, members: int) -> tuple[int, ...]:
        """Return the next seeds."""
        at, self._seeds = self._seeds, self._seeds + 1
        return tuple(int(record.seeds[at][self._position]) for record in self._records)

    def coefficients(self, members: int) -> Sequence[Sequence[Any]]:
        """Return the next coefficients."""
        at, self._coefficients = self._coefficients, self._coefficients + 1
        return [list(record.coefficients[at][self._position]) for record in self._records]
