"""Looking uniform words up in a table of cumulative counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = ["looked_up", "looked_up_plain"]


@kernel
def looked_up(values: Any, words: Any, ends: Any, out: Any) -> None:
    """Write for each value how many ends of its row are not above its word (binary search)."""
    for i in range(values.size):
        row = ends[values[i]]
        word = words[i]
        low, high = 0, row.size
        while low < high:
            middle = (low + high) >> 1
            if row[middle] <= word:
                low = middle + 1
            else:
                high = middle
        out[i] = low


def looked_up_plain(
    values: NDArray[np.uint32], words: NDArray[np.uint64], ends: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """Do the same, value by value."""
    out = np.empty(values.size, np.uint32)
    for value in np.unique(values):
        at = values == value
        out[at] = np.searchsorted(ends[value], words[at], side="right")
    return out
