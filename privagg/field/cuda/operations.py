"""What kernels need of a field or ring: device functions on values in registers.

A value is one ``uint64``, or a pair of them where an element has two limbs. Values are canonical.
Arrays are flat words. Sums of products are kept in an accumulator that is reduced once, at the end:
it is exact up to 2**32 - 1 products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from privagg.field.params import F128, GOLDILOCKS, M61, Algebra, Field, Ring

__all__ = ["MAX_TERMS", "Operations", "operations"]

MAX_TERMS = 2**32 - 1
"""Products that an accumulator takes."""


@dataclass(frozen=True, eq=False)
class Operations:
    """Device functions of one field or ring.

    Attributes
    ----------
    dtype, words : numpy.dtype, int
        How an element lies in memory: so many words of this type.
    load, store : device functions
        ``load(array, i)`` returns element i of a flat array; ``store(array, i, value)`` writes it.
    zero, one : device functions
        Take nothing, return the value.
    wrong : device function
        Whether what was loaded is not canonical.
    singular : device function
        Whether a value has no inverse.
    add, sub, mul : device functions
        Of two values.
    start, accumulate, finish : device functions
        ``start()`` returns an empty accumulator, ``accumulate(sum, a, b)`` one with ``a * b`` more,
        ``finish(sum)`` its value.
    inverse_exponent : int
        What an invertible element is raised to for its inverse.
    """

    dtype: np.dtype[Any]
    words: int
    load: Any
    store: Any
    zero: Any
    one: Any
    wrong: Any
    singular: Any
    add: Any
    sub: Any
    mul: Any
    start: Any
    accumulate: Any
    finish: Any
    inverse_exponent: int


@cache
def operations(field: Algebra) -> Operations:
    """Return the device functions of `field`."""
    if isinstance(field, Ring):
        from privagg.field.cuda.rings import ring_operations

        return ring_operations(field)
    if field == M61:
        from privagg.field.cuda.mersenne61 import m61_operations

        return m61_operations()
    if field == GOLDILOCKS:
        from privagg.field.cuda.goldilocks import goldilocks_operations

        return goldilocks_operations()
    if field == F128:
        from privagg.field.cuda.pairs import f128_operations

        return f128_operations()
    return _small(field)


def _small(field: Field) -> Operations:
    from privagg.field.cuda.small_primes import small_operations

    return small_operations(field)
