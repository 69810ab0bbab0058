"""Device functions that all fields of one machine word share."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device
from privagg.field.cuda.words import ONE, ZERO

__all__ = ["add_carries", "first_word", "is_zero", "load", "one", "store", "zero", "zero_pair"]


@device
def load(array: Any, index: Any) -> Any:
    """Return element `index` as a 64-bit word."""
    return np.uint64(array[index])


@device
def store(array: Any, index: Any, value: Any) -> None:
    """Write element `index`; the value fits the array's type."""
    array[index] = value


@device
def zero() -> Any:
    """Return 0."""
    return ZERO


@device
def one() -> Any:
    """Return 1."""
    return ONE


@device
def is_zero(value: Any) -> Any:
    """Whether a value is 0."""
    return value == ZERO


@device
def zero_pair() -> Any:
    """Return an empty accumulator: the sum modulo 2**64, and how often it wrapped."""
    return ZERO, ZERO


@device
def add_carries(total: Any, a: Any, b: Any) -> Any:
    """Add the product of two values below 2**32 to an accumulator of two words."""
    low = total[0] + a * b
    wrapped = ONE if low < total[0] else ZERO
    return low, total[1] + wrapped


@device
def first_word(total: Any) -> Any:
    """Return an accumulator as it is."""
    return total
