"""Primes below 2**32 on a CUDA device: 2**31 - 1 by folding, all others by Barrett's reduction."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device
from privagg.field.cuda import single
from privagg.field.cuda.operations import Operations
from privagg.field.cuda.words import wide_product
from privagg.field.params import M31, Field

__all__ = ["small_operations"]

_P31 = np.uint64(2**31 - 1)
_31 = np.uint64(31)


@device
def _reduce_m31(value: Any) -> Any:
    """Any word -> the element it is congruent to: 2**31 = 1, three times."""
    folded = (value & _P31) + (value >> _31)  # below 2**33 + 2**31
    folded = (folded & _P31) + (folded >> _31)  # at most p + 5
    return folded - _P31 if folded >= _P31 else folded


def _barrett(modulus: int) -> Any:
    """Return the reduction of any word modulo a prime below 2**32.

    With ``m = floor(2**64 / p)``, ``floor(value * m / 2**64)`` is the quotient or one less.
    """
    p, reciprocal = np.uint64(modulus), np.uint64(2**64 // modulus)

    @device
    def reduce(value: Any) -> Any:
        rest = value - wide_product(value, reciprocal)[1] * p
        return rest - p if rest >= p else rest

    return reduce


def small_operations(field: Field) -> Operations:
    """Return the device functions of a prime field below 2**32."""
    p, wrap = np.uint64(field.modulus), np.uint64(2**64 % field.modulus)
    reduce = _reduce_m31 if field == M31 else _barrett(field.modulus)

    @device
    def add(a: Any, b: Any) -> Any:
        total = a + b
        return total - p if total >= p else total

    @device
    def sub(a: Any, b: Any) -> Any:
        total = a + (p - b)
        return total - p if total >= p else total

    @device
    def mul(a: Any, b: Any) -> Any:
        return reduce(a * b)

    @device
    def finish(total: Any) -> Any:
        return add(reduce(total[0]), reduce(total[1] * wrap))

    @device
    def wrong(value: Any) -> Any:
        return value >= p

    return Operations(
        dtype=field.dtype,
        words=1,
        load=single.load,
        store=single.store,
        zero=single.zero,
        one=single.one,
        wrong=wrong,
        singular=single.is_zero,
        add=add,
        sub=sub,
        mul=mul,
        start=single.zero_pair,
        accumulate=single.add_carries,
        finish=finish,
        inverse_exponent=field.modulus - 2,
    )
