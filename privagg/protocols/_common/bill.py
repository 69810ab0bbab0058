"""What a round costs in bytes, planned and counted, and how near its sum is to the plain one."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privagg.encoding import Aggregate, Encoding

__all__ = ["CountedBytes", "PlannedBytes", "Sum", "compare"]


class PlannedBytes:
    """Sums over the rounds of what one client sends and receives."""

    bytes_up: dict[str, int]
    bytes_down: dict[str, int]

    @property
    def bytes_up_per_client(self) -> int:
        """All bytes that one client sends."""
        return sum(self.bytes_up.values())

    @property
    def bytes_down_per_client(self) -> int:
        """All bytes that one client receives."""
        return sum(self.bytes_down.values())


class CountedBytes:
    """Means over the clients that stayed to the end."""

    survivors: dict[str, tuple[int, ...]]
    bytes_up: dict[str, NDArray[np.int64]]
    bytes_down: dict[str, NDArray[np.int64]]

    @property
    def bytes_up_per_client(self) -> float:
        """Mean encoded bytes that a client which stayed to the end sent."""
        return self._mean(self.bytes_up)

    @property
    def bytes_down_per_client(self) -> float:
        """Mean encoded bytes that a client which stayed to the end received."""
        return self._mean(self.bytes_down)

    def _mean(self, rounds: dict[str, NDArray[np.int64]]) -> float:
        stayed = list(self.survivors["unmasking"])
        return float(sum(per_client[stayed].sum() for per_client in rounds.values()) / len(stayed))


class Sum(Protocol):
    """The plain sum over the survivors."""

    @property
    def weight(self) -> int:
        """The sum of their weights."""

    def error(self, total: NDArray[np.float64]) -> float:
        """Return the largest difference to `total`."""


def compare(encoding: Encoding, aggregate: Aggregate, truth: Sum) -> tuple[float, float, bool]:
    """Return the error, the bound that the encoding gives, and whether the aggregate keeps it."""
    error, bound = truth.error(aggregate.total), encoding.rounding_bound(aggregate.count)
    # float64 sums of so many terms differ by their own rounding, beside that of the encoding.
    slack = 0.0
    if encoding.clip is not None:
        scale = encoding.clip * encoding.max_weight * aggregate.count
        slack = 4.0 * aggregate.count * float(np.finfo(np.float64).eps) * scale
    return error, bound, bool(error <= bound + slack and aggregate.weight_total == truth.weight)
