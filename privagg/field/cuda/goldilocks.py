"""Modulo p = 2**64 - 2**32 + 1 on a CUDA device: 2**64 = 2**32 - 1 and 2**96 = -1."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device
from privagg.field.cuda import single
from privagg.field.cuda.operations import Operations
from privagg.field.cuda.words import LOW_32, S32, ZERO, add_carry, wide_product
from privagg.field.params import GOLDILOCKS

__all__ = ["goldilocks_operations"]

_P = np.uint64(GOLDILOCKS.modulus)
_WRAP = np.uint64(2**32 - 1)  # 2**64 modulo p


@device
def _add(a: Any, b: Any) -> Any:
    total = a + b
    if total < a:  # 2**64 more than the word says, and below p once that is p - _WRAP
        total = total + _WRAP
    elif total >= _P:
        total = total - _P
    return total


@device
def _sub(a: Any, b: Any) -> Any:
    rest = a - b
    return rest - _WRAP if a < b else rest


@device
def _reduce(low: Any, high: Any) -> Any:
    """Two words -> the element: high is ``h1 * 2**32 + h0``, so low - h1 + h0 * (2**32 - 1)."""
    h0, h1 = high & LOW_32, high >> S32
    rest = low - h1
    if low < h1:  # the word is 2**64 too large; it is above 2**64 - 2**32, so this cannot wrap
        rest = rest - _WRAP
    raised = (h0 << S32) - h0
    total = rest + raised
    if total < raised:  # 2**64 too small, and at most 2**64 - 2**33
        total = total + _WRAP
    return total - _P if total >= _P else total


@device
def _mul(a: Any, b: Any) -> Any:
    low, high = wide_product(a, b)
    return _reduce(low, high)


@device
def _start() -> Any:
    return ZERO, ZERO, ZERO


@device
def _accumulate(total: Any, a: Any, b: Any) -> Any:
    """Add a product to an integer of three words."""
    low, high = wide_product(a, b)
    first, carry = add_carry(total[0], low, ZERO)
    second, carry = add_carry(total[1], high, carry)
    return first, second, total[2] + carry


@device
def _finish(total: Any) -> Any:
    """2**128 is -2**32; the third word is below 2**32."""
    return _sub(_reduce(total[0], total[1]), total[2] << S32)


@device
def _wrong(value: Any) -> Any:
    return value >= _P


def goldilocks_operations() -> Operations:
    """Return the device functions of GF(2**64 - 2**32 + 1)."""
    return Operations(
        dtype=GOLDILOCKS.dtype,
        words=1,
        load=single.load,
        store=single.store,
        zero=single.zero,
        one=single.one,
        wrong=_wrong,
        singular=single.is_zero,
        add=_add,
        sub=_sub,
        mul=_mul,
        start=_start,
        accumulate=_accumulate,
        finish=_finish,
        inverse_exponent=GOLDILOCKS.modulus - 2,
    )
