"""Inversion of a distribution function whose values are cut off after 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = ["UNDECIDED", "inverted", "inverted_plain"]

UNDECIDED = -(2**63)
"""Stands where 64 bits do not decide."""


@kernel
def inverted(words: Any, ends: Any, guide: Any, shift: Any, first: Any, out: Any) -> Any:
    """Write `first` plus the index of the first end that is not below each word.

    ``guide[g]`` is the answer for ``g << shift``, so that the search starts near its end. Where the
    end equals the word, :data:`UNDECIDED` is written; return how often.
    """
    undecided = 0
    for i in range(words.size):
        word = words[i]
        at = guide[word >> shift]
        while ends[at] < word:
            at += 1
        if ends[at] == word:
            out[i] = np.int64(-9223372036854775808)
            undecided += 1
        else:
            out[i] = at + first
    return undecided


def inverted_plain(
    words: NDArray[np.uint64], ends: NDArray[np.uint64], first: int, out: NDArray[np.int64]
) -> int:
    """Do the same by NumPy's search."""
    at = np.searchsorted(ends, words, side="left")
    out[:] = at + first
    ties = ends[at] == words
    out[ties] = UNDECIDED
    return int(ties.sum())
