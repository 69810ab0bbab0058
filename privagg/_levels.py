"""Kernels that turn numbers into levels, for :mod:`privagg.encoding`, which validates.

Each kernel has a plain NumPy twin, which serves ``PRIVAGG_JIT=0``, is the tests' oracle, and gives
the same result for the same random words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = [
    "Noise",
    "float_levels",
    "float_levels_plain",
    "integer_levels",
    "integer_levels_plain",
]


class Noise:
    """Uniform 32-bit words: AES-256 in counter mode under a key that is used once.

    Parameters
    ----------
    key : bytes
        32 bytes, fresh for each vector.
    most : int
        The most words that one :meth:`take` returns.
    """

    def __init__(self, key: bytes, most: int) -> None:
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._zeros = bytes(4 * most)
        self._buffer = bytearray(4 * most + 15)  # update_into asks for a block's slack
        self._words = np.frombuffer(self._buffer, "<u4", most)

    def take(self, count: int) -> NDArray[np.uint32]:
        """Return the next `count` words; they are overwritten by the next call."""
        self._stream.update_into(memoryview(self._zeros)[: 4 * count], self._buffer)
        return self._words[:count].astype(np.uint32, copy=False)


@kernel
def float_levels(
    values: Any, noise: Any, clip: Any, scale: Any, top: Any, weight: Any, out: Any
) -> Any:
    """Clip, scale, round and weight; return the count of clipped values, or -1 if not finite."""
    clipped = 0
    finite = True
    for i in range(values.size):
        value = np.float64(values[i])
        finite &= value - value == 0.0
        clipped += abs(value) > clip
        level = (min(max(value, -clip), clip) + clip) * scale
        # A non-finite value must not reach the conversion to an integer, which is undefined there.
        whole = np.uint64(level) if level >= 0.0 else np.uint64(0)
        up = np.float64(noise[i]) < (level - np.float64(whole)) * 4294967296.0
        # Float rounding can lift the top level a little above itself: hence the minimum.
        out[i] = weight * min(whole + np.uint64(up), top)
    return clipped if finite else -1


def float_levels_plain(
    values: NDArray[Any],
    noise: NDArray[np.uint32],
    clip: float,
    scale: float,
    top: np.uint64,
    weight: np.uint64,
    out: NDArray[Any],
) -> int:
    """Do what :func:`float_levels` does, one step at a time."""
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        return -1
    level = (np.clip(wide, -clip, clip) + clip) * scale
    whole = np.floor(level)
    up = noise < (level - whole) * 2.0**32
    out[:] = weight * np.minimum(whole.astype(np.uint64) + up, top)
    return int(np.count_nonzero(np.abs(wide) > clip))


@kernel
def integer_levels(values: Any, offset: Any, top: Any, weight: Any, out: Any) -> Any:
    """Add the offset and weight; return whether all values were in range."""
    fits = True
    for i in range(values.size):
        # Modulo 2**64 a value below the range becomes huge, so one comparison checks both ends.
        level = np.uint64(values[i]) + offset
        fits &= level <= top
        out[i] = weight * level
    return fits


def integer_levels_plain(
    values: NDArray[np.int64],
    offset: np.uint64,
    top: np.uint64,
    weight: np.uint64,
    out: NDArray[Any],
) -> bool:
    """Do what :func:`integer_levels` does, one step at a time."""
    low = -int(offset)
    if int(values.min()) < low or int(values.max()) > int(top) + low:
        return False
    out[:] = weight * (values - low).astype(np.uint64)
    return True
