"""Which finite fields there are, and what the rest of the package needs to know about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FIELDS", "M61", "Field"]


@dataclass(frozen=True)
class Field:
    """A prime field: its parameters only, no arithmetic.

    An element is stored as its canonical representative, an integer from 0 to ``modulus - 1``.

    Attributes
    ----------
    name : str
        Short name, unique among :data:`FIELDS`.
    modulus : int
        The prime.
    bits : int
        Bit length of the modulus; also the width of an element on the wire.
    dtype : numpy.dtype
        Array type that stores elements.
    generator : int
        A generator of the multiplicative group (the smallest).
    """

    name: str
    modulus: int
    bits: int
    dtype: np.dtype[Any]
    generator: int

    @property
    def two_adicity(self) -> int:
        """Largest ``k`` such that ``2**k`` divides ``modulus - 1``: NTTs go up to that length."""
        return ((self.modulus - 1) & -(self.modulus - 1)).bit_length() - 1


M61 = Field(
    name="m61",
    modulus=2**61 - 1,
    bits=61,
    dtype=np.dtype(np.uint64),
    generator=37,
)
"""A Mersenne prime: in 64 bits the largest one; a reduction is a shift and an addition."""

FIELDS: dict[str, Field] = {field.name: field for field in (M61,)}
"""Every field, by name."""
