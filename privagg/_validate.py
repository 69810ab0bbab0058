"""Checks of arguments that are alike everywhere: each names argument, value and range."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["as_array", "describe", "proportion", "refuse_masked", "whole"]


def describe(value: object) -> str:
    """Return the type, and of an array the dtype and shape, never the content."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}"
    return type(value).__name__


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return `values` as an array of whatever type: rows of different lengths are none.

    A masked array is refused: NumPy would show the numbers under its mask.

    Raises
    ------
    UsageError
        Naming the argument.
    """
    refuse_masked(name, values)
    try:
        return np.asarray(values)
    except ValueError:
        raise UsageError(name, "rows of different lengths", "one array") from None


def whole(name: str, value: Any, low: int, high: int, hint: str = "") -> int:
    """Return `value` as an int, if it is a whole number from `low` to `high`; bools are none.

    Raises
    ------
    UsageError
        Naming the argument, what was found and the range.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UsageError(name, value, f"a whole number from {low} to {high}", hint)
    if not low <= int(value) <= high:
        raise UsageError(name, int(value), f"{low} to {high}", hint)
    return int(value)


def proportion(name: str, value: Any) -> float:
    """Return `value` as a float, if it is a real number from 0 to 1: equal ones become one.

    NumPy's scalars, integers and fractions are numbers, bools are none, and -0.0 becomes 0.0.

    Raises
    ------
    UsageError
        Naming the argument and what was found.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not 0 <= value <= 1:
        raise UsageError(name, value, "a fraction from 0 to 1")
    return abs(float(value))


def refuse_masked(name: str, value: object) -> None:
    """Refuse a masked array: as an array of numbers it would show what it masks.

    Raises
    ------
    UsageError
        If `value` is one.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise UsageError(
            name,
            "a masked array",
            "an array without a mask",
            "Say what stands for the masked numbers: array.filled(0), for example.",
        )
