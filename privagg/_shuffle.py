"""The shuffle of Fisher and Yates over a stream of words: every order is equally likely.

To choose among ``m`` values, words from ``2**32 - 2**32 % m`` on are thrown away, so that no value
is favoured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel

__all__ = ["MAX_SHUFFLED", "shuffle"]

MAX_SHUFFLED = 2**31

_CHUNK = 1 << 16


def shuffle(order: NDArray[Any], words: Callable[[int], NDArray[np.uint32]]) -> None:
    """Shuffle an array in place.

    Parameters
    ----------
    order : (n,) array
        At most :data:`MAX_SHUFFLED` items of any type with a fixed size.
    words : callable
        Gives that many new uniform 32-bit words. It is asked for at most 65,536 at a time, and for
        no more than are needed if none is thrown away.
    """
    step = _shuffle_kernel if JIT else _shuffle_plain
    last = order.size - 1
    while last > 0:
        last = step(order, words(min(last, _CHUNK)), last)


def _shuffle_plain(order: NDArray[Any], words: NDArray[np.uint32], last: int) -> int:
    """Shuffle on from index `last` while words last; return the index not yet done (0: all)."""
    for word in words.tolist():
        if last == 0:
            break
        if word < 2**32 - 2**32 % (last + 1):
            j = word % (last + 1)
            order[last], order[j] = order[j], order[last]
            last -= 1
    return last


@kernel
def _shuffle_kernel(order: NDArray[Any], words: NDArray[np.uint32], last: int) -> int:
    for at in range(words.size):
        if last == 0:
            break
        word = np.int64(words[at])
        count = last + 1
        if word < 4294967296 - 4294967296 % count:
            j = word % count
            held = order[last]
            order[last] = order[j]
            order[j] = held
            last -= 1
    return last
