"""The fast Walsh-Hadamard transform, and stochastic rounding with its squared norm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = ["rounded", "rounded_plain", "transformed", "transformed_plain"]


@kernel
def transformed(values: Any) -> None:
    """Transform a vector of length 2**k in place, not normalised: twice gives 2**k times it."""
    size = values.size
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            for i in range(start, start + half):
                one, other = values[i], values[i + half]
                values[i] = one + other
                values[i + half] = one - other
        half *= 2


def transformed_plain(values: NDArray[np.float64]) -> None:
    """Do the same, a stage at a time."""
    half = 1
    while half < values.size:
        pairs = values.reshape(-1, 2, half)
        one, other = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0] = one + other
        pairs[:, 1] = one - other
        half *= 2


@kernel
def rounded(values: Any, words: Any, out: Any) -> Any:
    """Round each value down, or up with the probability of its fraction; return the squared norm.

    Values below 2**31 in magnitude, whose squares add up to less than 2**62.
    """
    total = np.int64(0)
    for i in range(values.size):
        below = np.floor(values[i])
        up = np.float64(words[i]) < (values[i] - below) * 4294967296.0
        level = np.int64(below) + np.int64(up)
        out[i] = level
        total += level * level
    return total


def rounded_plain(
    values: NDArray[np.float64], words: NDArray[np.uint32], out: NDArray[np.int64]
) -> int:
    """Do the same, a step at a time."""
    below = np.floor(values)
    up = words.astype(np.float64) < (values - below) * 2.0**32
    out[:] = below.astype(np.int64) + up
    return int((out * out).sum())
