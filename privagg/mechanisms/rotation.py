"""The randomised Hadamard rotation: a vector's length is spread evenly over its coordinates.

x is padded with zeros to a power of two, its signs are flipped by a public random sequence, and the
orthogonal Hadamard transform is applied: H D x. Norms and inner products stay, so sums and noise of
the same variance in every coordinate do. After it no coordinate is much larger than the others:
each is a sum of +-x_i / sqrt(d) with independent signs, so larger than t times norm / sqrt(d) with
probability at most 2 exp(-t**2 / 2) (Hoeffding).

The signs come from a seed that all clients share and the server knows: not a secret. They must not
depend on the vectors; a fresh seed in each round sees to that.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privagg import prg
from privagg._jit import JIT
from privagg._validate import describe, whole
from privagg.errors import UsageError
from privagg.mechanisms._kernels.rotation import transformed, transformed_plain

__all__ = ["MAX_DIM", "Rotation", "padded"]

MAX_DIM = 2**28
"""Coordinates of a vector that is rotated as a whole, in memory."""

_LABEL = b"privagg rotation 1\0"


def padded(dim: int) -> int:
    """Return the least power of two that is not below `dim`."""
    return 1 << (whole("dim", dim, 1, MAX_DIM) - 1).bit_length()


class Rotation:
    """The rotation of one round.

    Parameters
    ----------
    dim : int
        Coordinates of the vectors, 1 to 2**28.
    seed : bytes
        Public, the same for all clients of the round; any length from 1.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, dim: int, seed: bytes) -> None:
        self.dim = whole("dim", dim, 1, MAX_DIM)
        self.length = padded(self.dim)
        if not isinstance(seed, bytes) or not seed:
            raise UsageError("seed", type(seed).__name__, "bytes, at least one")
        key = hashlib.sha256(_LABEL + self.length.to_bytes(8, "big") + seed).digest()
        suite = prg.Suite.AES128_CTR
        words = prg.expand(key, -(-self.length // 32), dtype=np.uint32, suite=suite)
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")[: self.length]
        self._minus = bits.astype(bool)

    def forward(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return H D x: ``(length,)`` from ``(dim,)``.

        Parameters
        ----------
        vector : (dim,) float64 array
            x.
        """
        out = np.zeros(self.length)
        out[: self.dim] = _checked("vector", vector, self.dim)
        np.negative(out, out=out, where=self._minus)
        return self._transform(out)

    def inverse(self, rotated: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the x of H D x: ``(dim,)`` from ``(length,)``; what was padded is left out.

        Parameters
        ----------
        rotated : (length,) float64 array
            H D x.
        """
        out = self._transform(_checked("rotated", rotated, self.length).astype(np.float64))
        np.negative(out, out=out, where=self._minus)
        return out[: self.dim]

    def _transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if JIT:
            transformed(values)
        else:
            transformed_plain(values)
        values *= self.length**-0.5
        return values


def _checked(name: str, values: Any, size: int) -> NDArray[Any]:
    numbers = isinstance(values, np.ndarray) and values.dtype.kind in "iuf"
    if not numbers or values.shape != (size,):
        raise UsageError(name, describe(values), f"a ({size},) array of numbers")
    return cast(NDArray[Any], values)
