"""Modulo 2**61 - 1 on a CUDA device, by 32-bit halves: 2**61 = 1 and 2**64 = 8."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device
from privagg.field.cuda import single
from privagg.field.cuda.operations import Operations
from privagg.field.cuda.words import LOW_32, S32
from privagg.field.params import M61

__all__ = ["m61_operations"]

_P = np.uint64(M61.modulus)
_LOW_29 = np.uint64(2**29 - 1)
_3, _29, _61 = np.uint64(3), np.uint64(29), np.uint64(61)


@device
def _fold(value: Any) -> Any:
    """Any word -> a congruent one, at most p + 7."""
    return (value & _P) + (value >> _61)


@device
def _canonical(value: Any) -> Any:
    folded = _fold(value)
    return folded - _P if folded >= _P else folded


@device
def _lazy_product(a: Any, b: Any) -> Any:
    """Two elements -> a word that is congruent to their product, below 2**63."""
    a0, a1 = a & LOW_32, a >> S32
    b0, b1 = b & LOW_32, b >> S32
    low = a0 * b0
    middle = a0 * b1 + a1 * b0  # below 2**62; its weight is 2**32
    high = a1 * b1  # below 2**58; its weight is 2**64
    return _fold(low) + (middle >> _29) + ((middle & _LOW_29) << S32) + (high << _3)


@device
def _add(a: Any, b: Any) -> Any:
    total = a + b
    return total - _P if total >= _P else total


@device
def _sub(a: Any, b: Any) -> Any:
    total = a + (_P - b)
    return total - _P if total >= _P else total


@device
def _mul(a: Any, b: Any) -> Any:
    return _canonical(_lazy_product(a, b))


@device
def _accumulate(total: Any, a: Any, b: Any) -> Any:
    """Add a product to a word of at most p + 7, which stays one."""
    return _fold(total + _lazy_product(a, b))


@device
def _wrong(value: Any) -> Any:
    return value >= _P


def m61_operations() -> Operations:
    """Return the device functions of GF(2**61 - 1)."""
    return Operations(
        dtype=M61.dtype,
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
        start=single.zero,
        accumulate=_accumulate,
        finish=_canonical,
        inverse_exponent=M61.modulus - 2,
    )
