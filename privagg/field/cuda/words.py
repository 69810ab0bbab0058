"""Words of 64 bits on a CUDA device: products, sums with carry, by 32-bit halves."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device

__all__ = ["LOW_32", "ONE", "S32", "ZERO", "add_carry", "sub_borrow", "wide_product"]

ZERO, ONE = np.uint64(0), np.uint64(1)
S32 = np.uint64(32)
LOW_32 = np.uint64(2**32 - 1)


@device
def wide_product(a: Any, b: Any) -> Any:
    """Return the low and the high word of the product of two words."""
    a0, a1 = a & LOW_32, a >> S32
    b0, b1 = b & LOW_32, b >> S32
    low = a0 * b0
    first = a1 * b0 + (low >> S32)  # below 2**64: (2**32 - 1)**2 + 2**32 - 1
    second = a0 * b1 + (first & LOW_32)
    return (second << S32) | (low & LOW_32), a1 * b1 + (first >> S32) + (second >> S32)


@device
def add_carry(a: Any, b: Any, carry: Any) -> Any:
    """Return the low word of ``a + b + carry``, and its carry; the one that comes in is 0 or 1."""
    partial = a + b
    total = partial + carry
    out = ONE if partial < a or total < partial else ZERO
    return total, out


@device
def sub_borrow(a: Any, b: Any, borrow: Any) -> Any:
    """Return the low word of ``a - b - borrow``, and its borrow; both borrows are 0 or 1."""
    partial = a - b
    total = partial - borrow
    out = ONE if a < b or partial < borrow else ZERO
    return total, out
