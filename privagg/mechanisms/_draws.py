"""Uniform words for samplers: AES-128-CTR under a key that is drawn once and used once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import prg
from privagg.entropy import Entropy
from privagg.errors import UsageError

__all__ = ["Draws"]

_SUITE = prg.Suite.AES128_CTR
_PLUS = np.ones(1, np.int8)


class Draws:
    """A stream of uniform 32- and 64-bit words, each used once.

    The stream depends on the entropy and on the order of the calls only, never on the processor,
    nor on whether kernels are compiled. Its key never shows.

    Parameters
    ----------
    entropy : Entropy
        32 bytes are taken from it.

    Raises
    ------
    UsageError
        If `entropy` is none.
    """

    def __init__(self, entropy: Entropy) -> None:
        if not isinstance(entropy, Entropy):
            found = type(entropy).__name__
            raise UsageError("entropy", found, "an Entropy, such as privagg.entropy.OS")
        self.insecure = bool(entropy.insecure)
        seed = np.frombuffer(entropy.take(prg.seed_bytes(_SUITE)), np.uint8)
        self._seed = seed.reshape(1, -1).copy()  # writable: what the kernels are compiled for
        self._add = prg.kernel(_SUITE)
        self._at = 0

    def words32(self, count: int) -> NDArray[np.uint32]:
        """Return the next `count` words of 32 bits."""
        return self._fill(np.zeros(count, np.uint32))

    def words64(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of 64 bits."""
        return self._fill(np.zeros(count, np.uint64))

    def fill(self, words: NDArray[Any]) -> None:
        """Overwrite a contiguous array of uint32 or uint64 with the next words."""
        words.fill(0)
        self._fill(words.reshape(-1))

    def words(self, count: int, bits: int) -> NDArray[Any]:
        """Return the next `count` words of 32 or 64 bits."""
        return self.words32(count) if bits == 32 else self.words64(count)

    def below(self, bounds: Sequence[int], count: int) -> NDArray[np.uint32]:
        """Return ``(count, len(bounds))`` integers, uniform below the bound of their column.

        Exactly uniform: words that would favour some numbers are thrown away and drawn again
        (Lemire, "Fast Random Integer Generation in an Interval", 2019). How many are thrown away
        depends on the bounds only.
        """
        limits = np.array(bounds, np.uint64)
        short = 2**32 % limits
        product = self.words32(count * limits.size).reshape(count, limits.size) * limits
        while True:
            rows, columns = np.nonzero((product & np.uint64(0xFFFFFFFF)) < short)
            if not rows.size:
                return (product >> np.uint64(32)).astype(np.uint32)
            product[rows, columns] = self.words32(rows.size) * limits[columns]

    def _fill(self, zeros: NDArray[Any]) -> NDArray[Any]:
        """Add the stream to zeros, from the next whole 8 bytes on."""
        start = self._at * (8 // zeros.itemsize)
        self._at += (zeros.nbytes + 7) // 8
        if zeros.size:
            self._add(zeros, self._seed, _PLUS, start)
        return zeros

    def __repr__(self) -> str:
        return f"Draws(insecure={self.insecure})"
