"""Validation of what comes into the field's functions.

No message holds an element: elements are often shares or masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError
from privagg.field.params import M61, Algebra, Ring, is_made_here

__all__ = [
    "Elements",
    "check_algebra",
    "check_field",
    "describe",
    "element_array",
    "elements",
    "integers",
    "shape_tuple",
]

Elements = NDArray[Any]
"""Canonical elements in the dtype of their field or ring; see :class:`privagg.field.Field`."""


def describe(value: object) -> str:
    """Return the type, and of an array the dtype and shape, never the content."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}"
    return f"a value of type {type(value).__name__}"


def check_field(field: object) -> None:
    """Raise :class:`UsageError` unless `field` is a :class:`Field`."""
    if isinstance(field, Ring):
        raise UsageError(
            "field", f"the ring {field.name}", "a field", "Not every element of a ring inverts."
        )
    check_algebra(field)


def check_algebra(field: object) -> None:
    """Raise :class:`UsageError` unless `field` is a :class:`Field` or a :class:`Ring`."""
    if not isinstance(field, Algebra):
        raise UsageError("field", describe(field), "a privagg.field.Field, such as field.M61")
    if not is_made_here(field):
        raise UsageError(
            "field", field.name, "one of field.FIELDS, field.prime_field(p) or field.ring(bits)"
        )


def element_array(name: str, value: object, field: Algebra, ndim: int | None = None) -> Elements:
    """Return `value` if it is an array of canonical elements.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        What the caller passed.
    field : Field or Ring
        What elements are expected of.
    ndim : int, optional
        Number of axes that is required, an axis of limbs not counted.

    Raises
    ------
    UsageError
        Not an array, another dtype, another number of axes, or an element not below the modulus.
    """
    check_algebra(field)
    refuse_masked(name, value)
    limb_axes = int(field.limbs > 1)
    if (
        not isinstance(value, np.ndarray)
        or isinstance(value, np.matrix)  # it would stay two-dimensional wherever a row is taken
        or value.dtype != field.dtype
        or (ndim is not None and value.ndim != ndim + limb_axes)
        or (limb_axes and (value.ndim == 0 or value.shape[-1] != field.limbs))
    ):
        axes = "" if ndim is None else f" with {ndim} {'axis' if ndim == 1 else 'axes'}"
        if limb_axes:
            axes += f" and a last axis of {field.limbs} words"
        raise UsageError(
            name,
            describe(value),
            f"a NumPy array of {field.dtype}{axes}",
            "Convert integers with privagg.field.elements.",
        )
    if not _all_canonical(value, field):
        raise UsageError(
            name,
            "an element that is not below the modulus",
            f"canonical elements, 0 to {field.modulus - 1}",
            "Reduce before the call; nothing is reduced silently.",
        )
    return value


def _all_canonical(value: Elements, field: Algebra) -> bool:
    if value.size == 0:
        return True
    if field.limbs == 1:
        return int(value.max()) < field.modulus
    high, low = np.uint64(field.modulus >> 64), np.uint64(field.modulus & (2**64 - 1))
    words = value[..., 1]
    if words.max() < high:
        return True
    return not bool(np.any((words > high) | ((words == high) & (value[..., 0] >= low))))


def elements(values: object, field: Algebra = M61, *, name: str = "values") -> Elements:
    """Convert integers to an array of elements; nothing is reduced silently.

    Parameters
    ----------
    values : int, nested sequence of int, or integer array
        Integers from 0 to ``field.modulus - 1``.
    field : Field or Ring
        What they are elements of.
    name : str
        Name of the argument, for the message.

    Returns
    -------
    ndarray of field.dtype
        A new C-contiguous array of the same shape, plus an axis of limbs if the field has two.

    Raises
    ------
    UsageError
        Something that is not an integer (a bool is none), or an integer outside the range.
    """
    check_algebra(field)
    refuse_masked(name, values)
    allowed = f"integers from 0 to {field.modulus - 1}"
    if isinstance(values, np.ndarray) and values.dtype != object and field.limbs == 1:
        if values.dtype.kind not in "ui":
            raise UsageError(name, describe(values), allowed)
        if values.size and (int(values.min()) < 0 or int(values.max()) >= field.modulus):
            raise UsageError(name, "an integer outside the range", allowed)
        return np.ascontiguousarray(values.astype(field.dtype)).reshape(values.shape)
    try:
        boxed: NDArray[Any] = np.array(values, dtype=object)
    except ValueError:
        raise UsageError(name, "sequences of unequal length", allowed) from None
    converted = np.empty((boxed.size, field.limbs), dtype=field.dtype)
    for index, item in enumerate(boxed.flat):
        if isinstance(item, bool) or not isinstance(item, (int, np.integer)):
            raise UsageError(name, describe(item), allowed)
        if not 0 <= int(item) < field.modulus:
            raise UsageError(name, "an integer outside the range", allowed)
        for limb in range(field.limbs):
            converted[index, limb] = (int(item) >> (64 * limb)) & (2**64 - 1)
    limb_axis = (field.limbs,) if field.limbs > 1 else ()
    return converted.reshape(boxed.shape + limb_axis)


def integers(values: Elements, field: Algebra = M61) -> NDArray[np.object_]:
    """Convert elements to Python integers.

    Parameters
    ----------
    values : ndarray of field.dtype
        Canonical elements.
    field : Field or Ring
        What they are elements of.

    Returns
    -------
    ndarray of object
        Python integers in the shape of the elements, without an axis of limbs.

    Raises
    ------
    UsageError
        Wrong dtype, or an element out of range.
    """
    checked = element_array("values", values, field)
    if field.limbs == 1:
        return checked.astype(object)
    return np.asarray(checked[..., 0].astype(object) + (checked[..., 1].astype(object) << 64))


def shape_tuple(shape: object) -> tuple[int, ...]:
    """Return `shape` as a tuple of non-negative integers, or raise :class:`UsageError`."""
    axes = shape if isinstance(shape, tuple) else (shape,)
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or axis < 0:
            raise UsageError("shape", shape, "a non-negative integer or a tuple of them")
    return tuple(int(axis) for axis in axes)
