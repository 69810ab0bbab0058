"""Validation of what comes into the field's functions.

No message holds an element: elements are often shares or masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError
from privagg.field.params import M61, Field

__all__ = ["Elements", "check_field", "describe", "element_array", "elements", "shape_tuple"]

Elements = NDArray[np.uint64]


def describe(value: object) -> str:
    """Return the type, and of an array the dtype and shape, never the content."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}"
    return f"a value of type {type(value).__name__}"


def check_field(field: object) -> None:
    """Raise :class:`UsageError` unless `field` is a :class:`Field`."""
    if not isinstance(field, Field):
        raise UsageError("field", describe(field), "a privagg.field.Field, such as field.M61")


def element_array(name: str, value: object, field: Field, ndim: int | None = None) -> Elements:
    """Return `value` if it is an array of canonical elements.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        What the caller passed.
    field : Field
        The field whose elements are expected.
    ndim : int, optional
        Number of axes that is required.

    Raises
    ------
    UsageError
        Not an array, another dtype, another number of axes, or an element not below the modulus.
    """
    check_field(field)
    refuse_masked(name, value)
    axes = "" if ndim is None else f" with {ndim} {'axis' if ndim == 1 else 'axes'}"
    if (
        not isinstance(value, np.ndarray)
        or value.dtype != field.dtype
        or (ndim is not None and value.ndim != ndim)
    ):
        raise UsageError(
            name,
            describe(value),
            f"a NumPy array of {field.dtype}{axes}",
            "Convert integers with privagg.field.elements.",
        )
    if value.size and int(value.max()) >= field.modulus:
        raise UsageError(
            name,
            "an element that is not below the modulus",
            f"canonical elements, 0 to {field.modulus - 1}",
            "Reduce before the call; nothing is reduced silently.",
        )
    return value


def elements(values: object, field: Field = M61, *, name: str = "values") -> Elements:
    """Convert integers to an array of field elements; nothing is reduced silently.

    Parameters
    ----------
    values : int, nested sequence of int, or integer array
        Integers from 0 to ``field.modulus - 1``.
    field : Field
        The field.
    name : str
        Name of the argument, for the message.

    Returns
    -------
    ndarray of field.dtype
        A new C-contiguous array of the same shape.

    Raises
    ------
    UsageError
        Something that is not an integer (a bool is none), or an integer outside the range.
    """
    check_field(field)
    refuse_masked(name, values)
    allowed = f"integers from 0 to {field.modulus - 1}"
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.dtype.kind not in "ui":
            raise UsageError(name, describe(values), allowed)
        if values.size and (int(values.min()) < 0 or int(values.max()) >= field.modulus):
            raise UsageError(name, "an integer outside the range", allowed)
        return np.ascontiguousarray(values.astype(field.dtype)).reshape(values.shape)
    try:
        boxed: NDArray[Any] = np.array(values, dtype=object)
    except ValueError:
        raise UsageError(name, "sequences of unequal length", allowed) from None
    converted = np.empty(boxed.size, dtype=field.dtype)
    for index, item in enumerate(boxed.flat):
        if isinstance(item, bool) or not isinstance(item, (int, np.integer)):
            raise UsageError(name, describe(item), allowed)
        if not 0 <= int(item) < field.modulus:
            raise UsageError(name, "an integer outside the range", allowed)
        converted[index] = int(item)
    return converted.reshape(boxed.shape)


def shape_tuple(shape: object) -> tuple[int, ...]:
    """Return `shape` as a tuple of non-negative integers, or raise :class:`UsageError`."""
    axes = shape if isinstance(shape, tuple) else (shape,)
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or axis < 0:
            raise UsageError("shape", shape, "a non-negative integer or a tuple of them")
    return tuple(int(axis) for axis in axes)
