"""Modulo p = 2**128 - 7 * 2**66 + 1 on a CUDA device, in two words.

Since 2**128 = 28 * 2**64 - 1 (mod p), what stands above bit 128 is folded back by a product with 28
and a subtraction; no step of Montgomery's is needed, and elements stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device
from privagg.field.cuda.operations import Operations
from privagg.field.cuda.words import ONE, ZERO, add_carry, sub_borrow, wide_product
from privagg.field.params import F128

__all__ = ["f128_operations"]

_P0, _P1 = np.uint64(F128.modulus & (2**64 - 1)), np.uint64(F128.modulus >> 64)
_28 = np.uint64(28)
_W0, _W1 = (np.uint64((2**256 % F128.modulus) >> shift & (2**64 - 1)) for shift in (0, 64))


@device
def _load(array: Any, index: Any) -> Any:
    return array[2 * index], array[2 * index + 1]


@device
def _store(array: Any, index: Any, value: Any) -> None:
    array[2 * index] = value[0]
    array[2 * index + 1] = value[1]


@device
def _zero() -> Any:
    return ZERO, ZERO


@device
def _one() -> Any:
    return ONE, ZERO


@device
def _is_zero(value: Any) -> Any:
    return (value[0] | value[1]) == ZERO


@device
def _wrong(value: Any) -> Any:
    return value[1] > _P1 or (value[1] == _P1 and value[0] >= _P0)


@device
def _less_p(low: Any, high: Any) -> Any:
    """Return ``value - p`` modulo 2**128."""
    first, borrow = sub_borrow(low, _P0, ZERO)
    second, borrow = sub_borrow(high, _P1, borrow)
    return first, second


@device
def _below_p(low: Any, high: Any, over: Any) -> Any:
    """Take p off once if `over` says that the value wrapped, or if it is not canonical."""
    first, second = _less_p(low, high)
    reduce = over != ZERO or high > _P1 or (high == _P1 and low >= _P0)
    return (first if reduce else low), (second if reduce else high)


@device
def _add(a: Any, b: Any) -> Any:
    low, carry = add_carry(a[0], b[0], ZERO)
    high, carry = add_carry(a[1], b[1], carry)
    return _below_p(low, high, carry)


@device
def _sub(a: Any, b: Any) -> Any:
    low, borrow = sub_borrow(a[0], b[0], ZERO)
    high, borrow = sub_borrow(a[1], b[1], borrow)
    first, carry = add_carry(low, _P0, ZERO)
    second, carry = add_carry(high, _P1, carry)
    return (first if borrow != ZERO else low), (second if borrow != ZERO else high)


@device
def _fold(w0: Any, w1: Any, w2: Any, w3: Any) -> Any:
    """Four words -> a congruent integer below 2**128 + 28 * 2**64 * (w2 + w3 * 2**64), in four."""
    low, carry = wide_product(w2, _28)
    middle, high = wide_product(w3, _28)
    middle, more = add_carry(middle, carry, ZERO)
    high = high + more
    # Weight 2**64: add (low, middle, high) to (w1, 0, 0); then take (w2, w3) off the whole.
    t1, more = add_carry(w1, low, ZERO)
    t2, more = add_carry(middle, ZERO, more)
    t3 = high + more
    t0, less = sub_borrow(w0, w2, ZERO)
    t1, less = sub_borrow(t1, w3, less)
    t2, less = sub_borrow(t2, ZERO, less)
    return t0, t1, t2, t3 - less


@device
def _reduce(w0: Any, w1: Any, w2: Any, w3: Any) -> Any:
    """Four words -> the element. What is above bit 128 has 128 bits, then 69, 11 and 1, then 0."""
    w0, w1, w2, w3 = _fold(w0, w1, w2, w3)
    w0, w1, w2, w3 = _fold(w0, w1, w2, w3)
    w0, w1, w2, w3 = _fold(w0, w1, w2, ZERO)
    w0, w1, w2, w3 = _fold(w0, w1, w2, ZERO)
    return _below_p(w0, w1, ZERO)


@device
def _product(a: Any, b: Any) -> Any:
    """Return the four words of a product."""
    w0, h00 = wide_product(a[0], b[0])
    l01, h01 = wide_product(a[0], b[1])
    l10, h10 = wide_product(a[1], b[0])
    l11, h11 = wide_product(a[1], b[1])
    w1, carry = add_carry(h00, l01, ZERO)
    w2, carry = add_carry(l11, h01, carry)
    w3 = h11 + carry
    w1, carry = add_carry(w1, l10, ZERO)
    w2, carry = add_carry(w2, h10, carry)
    return w0, w1, w2, w3 + carry


@device
def _mul(a: Any, b: Any) -> Any:
    w0, w1, w2, w3 = _product(a, b)
    return _reduce(w0, w1, w2, w3)


@device
def _start() -> Any:
    return ZERO, ZERO, ZERO, ZERO, ZERO


@device
def _accumulate(total: Any, a: Any, b: Any) -> Any:
    """Add a product to an integer of five words."""
    w0, w1, w2, w3 = _product(a, b)
    t0, carry = add_carry(total[0], w0, ZERO)
    t1, carry = add_carry(total[1], w1, carry)
    t2, carry = add_carry(total[2], w2, carry)
    t3, carry = add_carry(total[3], w3, carry)
    return t0, t1, t2, t3, total[4] + carry


@device
def _finish(total: Any) -> Any:
    rest = _reduce(total[0], total[1], total[2], total[3])
    return _add(rest, _mul((total[4], ZERO), (_W0, _W1)))


def f128_operations() -> Operations:
    """Return the device functions of the field of 128 bits."""
    return Operations(
        dtype=F128.dtype,
        words=2,
        load=_load,
        store=_store,
        zero=_zero,
        one=_one,
        wrong=_wrong,
        singular=_is_zero,
        add=_add,
        sub=_sub,
        mul=_mul,
        start=_start,
        accumulate=_accumulate,
        finish=_finish,
        inverse_exponent=F128.modulus - 2,
    )
