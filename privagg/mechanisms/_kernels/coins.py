"""Tossing coins: how many of m words are below a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = ["tossed", "tossed_plain"]


@kernel
def tossed(words: Any, thresholds: Any, out: Any) -> None:
    """Write for each threshold how many words of its row are below it."""
    for i in range(thresholds.size):
        heads = 0
        for j in range(words.shape[1]):
            heads += words[i, j] < thresholds[i]
        out[i] = heads


def tossed_plain(
    words: NDArray[np.uint32], thresholds: NDArray[np.uint32], out: NDArray[np.int64]
) -> None:
    """Do the same in one comparison."""
    out[:] = (words < thresholds[:, None]).sum(axis=1)
