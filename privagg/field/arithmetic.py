"""Operations on arrays of elements of a field or ring, element by element.

Arrays hold canonical elements (0 to p - 1) in the field's dtype; an element out of range or another
dtype raises :class:`~privagg.errors.UsageError`: nothing is reduced or converted silently (use
:func:`privagg.field.elements`). Results are new C-contiguous arrays. Constant time is not promised.
"""

from __future__ import annotations

import numpy as np

from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, element_array, elements
from privagg.field.devices import on_device
from privagg.field.params import M61, Algebra, Field, Ring

__all__ = ["add", "inverse", "mul", "mul_add", "neg", "power", "sub"]


def _alike(field: Algebra, **operands: object) -> tuple[Elements, ...]:
    """Check the operands and broadcast them to one shape; an axis of limbs is in all of them."""
    checked = [element_array(name, value, field) for name, value in operands.items()]
    first = checked[0]
    if all(other.shape == first.shape for other in checked[1:]):
        return tuple(checked)
    for name, other in zip(list(operands)[1:], checked[1:], strict=True):
        try:
            np.broadcast_shapes(first.shape, other.shape)
        except ValueError:
            raise UsageError(
                name, f"shape {other.shape}", f"a shape that broadcasts with a's, {first.shape}"
            ) from None
    return tuple(np.broadcast_arrays(*checked))


@on_device
def add(a: Elements, b: Elements, field: Algebra = M61) -> Elements:
    """Add, with NumPy broadcasting.

    Parameters
    ----------
    a, b : ndarray of field.dtype
        Canonical elements, shapes that broadcast.
    field : Field or Ring
        What they are elements of.

    Returns
    -------
    ndarray of field.dtype
        ``a + b`` in the field.

    Raises
    ------
    UsageError
        Wrong dtype, an element out of range, shapes that do not broadcast.
    """
    left, right = _alike(field, a=a, b=b)
    return backend(field).add(left, right)


@on_device
def sub(a: Elements, b: Elements, field: Algebra = M61) -> Elements:
    """Return ``a - b`` in the field; arguments and errors as for :func:`add`."""
    left, right = _alike(field, a=a, b=b)
    return backend(field).sub(left, right)


@on_device
def mul(a: Elements, b: Elements, field: Algebra = M61) -> Elements:
    """Return ``a * b`` in the field; arguments and errors as for :func:`add`."""
    left, right = _alike(field, a=a, b=b)
    return backend(field).mul(left, right)


@on_device
def mul_add(a: Elements, b: Elements, c: Elements, field: Algebra = M61) -> Elements:
    """Return ``a * b + c`` in one pass; arguments and errors as for :func:`add`."""
    left, right, added = _alike(field, a=a, b=b, c=c)
    return backend(field).mul_add(left, right, added)


@on_device
def neg(a: Elements, field: Algebra = M61) -> Elements:
    """Return ``-a`` in the field; arguments and errors as for :func:`add`."""
    checked = element_array("a", a, field)
    return backend(field).sub(np.zeros_like(checked), checked)


@on_device
def power(a: Elements, exponent: int, field: Algebra = M61) -> Elements:
    """Raise every element to one non-negative power; ``0**0`` is 1.

    Parameters
    ----------
    a : ndarray of field.dtype
        Canonical elements.
    exponent : int
        Zero or more, of any size: in a field it is reduced by Fermat's little theorem.
    field : Field or Ring
        What they are elements of.

    Returns
    -------
    ndarray of field.dtype
        ``a**exponent``, same shape.

    Raises
    ------
    UsageError
        Wrong dtype, an element out of range, an exponent that is negative or no integer.
    """
    checked = element_array("a", a, field)
    if isinstance(exponent, bool) or not isinstance(exponent, (int, np.integer)) or exponent < 0:
        raise UsageError(
            "exponent", exponent, "an integer of 0 or more", "For negative powers use inverse."
        )
    result = np.broadcast_to(elements(1, field), checked.shape).copy()
    exponent = int(exponent)
    if exponent == 0:
        return result
    if isinstance(field, Field):
        # A positive exponent stays positive, so that powers of zero stay zero.
        exponent = (exponent - 1) % (field.modulus - 1) + 1
    arithmetic = backend(field)
    for bit in bin(exponent)[2:]:
        result = arithmetic.mul(result, result)
        if bit == "1":
            result = arithmetic.mul(result, checked)
    return result


@on_device
def inverse(a: Elements, field: Algebra = M61) -> Elements:
    """Invert every element: one exponentiation for all and three products each (Montgomery).

    Parameters
    ----------
    a : ndarray of field.dtype
        Canonical elements, none of them 0; in a ring all of them odd.
    field : Field or Ring
        What they are elements of.

    Returns
    -------
    ndarray of field.dtype
        ``1 / a``, same shape.

    Raises
    ------
    UsageError
        Wrong dtype, an element out of range, a zero, or in a ring an even element.
    """
    checked = element_array("a", a, field)
    if isinstance(field, Ring):
        if not (checked & field.dtype.type(1)).all():
            raise UsageError("a", "an even element", "odd elements", "Even ones have no inverse.")
    elif not (checked.any(axis=-1) if field.limbs > 1 else checked).all():
        raise UsageError("a", "a zero", "nonzero elements", "Zero has no inverse.")
    return backend(field).inverse(checked)
