"""Operations on arrays of field elements, element by element, and sums of products.

Arrays hold canonical elements (0 to p - 1) in the field's dtype; an element out of range or another
dtype raises :class:`~privagg.errors.UsageError`: nothing is reduced or converted silently (use
:func:`privagg.field.elements`). Results are new C-contiguous arrays. Constant time is not promised.
"""

from __future__ import annotations

import math

import numpy as np

from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, check_field, describe, element_array, shape_tuple
from privagg.field.params import M61, Field

__all__ = ["add", "dot", "inverse", "mul", "neg", "power", "sub", "uniform", "weighted_sum"]


def _pair(a: object, b: object, field: Field) -> tuple[Elements, Elements]:
    left = element_array("a", a, field)
    right = element_array("b", b, field)
    if left.shape != right.shape:
        try:
            left, right = np.broadcast_arrays(left, right)
        except ValueError:
            raise UsageError(
                "b", f"shape {right.shape}", f"a shape that broadcasts with a's, {left.shape}"
            ) from None
    return left, right


def add(a: Elements, b: Elements, field: Field = M61) -> Elements:
    """Add, with NumPy broadcasting.

    Parameters
    ----------
    a, b : ndarray of field.dtype
        Canonical elements, shapes that broadcast.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype
        ``a + b`` in the field.

    Raises
    ------
    UsageError
        Wrong dtype, an element out of range, shapes that do not broadcast.
    """
    left, right = _pair(a, b, field)
    return backend(field).add(left, right)


def sub(a: Elements, b: Elements, field: Field = M61) -> Elements:
    """Return ``a - b`` in the field; arguments and errors as for :func:`add`."""
    left, right = _pair(a, b, field)
    return backend(field).sub(left, right)


def mul(a: Elements, b: Elements, field: Field = M61) -> Elements:
    """Return ``a * b`` in the field; arguments and errors as for :func:`add`."""
    left, right = _pair(a, b, field)
    return backend(field).mul(left, right)


def neg(a: Elements, field: Field = M61) -> Elements:
    """Return ``-a`` in the field; arguments and errors as for :func:`add`."""
    checked = element_array("a", a, field)
    return backend(field).sub(np.zeros_like(checked), checked)


def power(a: Elements, exponent: int, field: Field = M61) -> Elements:
    """Raise every element to one non-negative power; ``0**0`` is 1.

    Parameters
    ----------
    a : ndarray of field.dtype
        Canonical elements.
    exponent : int
        Zero or more, of any size: it is reduced by Fermat's little theorem.
    field : Field
        The field.

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
    result = np.ones_like(checked, order="C")
    if exponent == 0:
        return result
    # A positive exponent stays positive, so that powers of zero stay zero.
    reduced = (int(exponent) - 1) % (field.modulus - 1) + 1
    arithmetic = backend(field)
    for bit in bin(reduced)[2:]:
        result = arithmetic.mul(result, result)
        if bit == "1":
            result = arithmetic.mul(result, checked)
    return result


def inverse(a: Elements, field: Field = M61) -> Elements:
    """Invert every element: one exponentiation for all and three products each (Montgomery).

    Parameters
    ----------
    a : ndarray of field.dtype
        Canonical elements, none of them 0.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype
        ``1 / a``, same shape.

    Raises
    ------
    UsageError
        Wrong dtype, an element out of range, or a zero.
    """
    checked = element_array("a", a, field)
    if not checked.all():
        raise UsageError("a", "a zero", "nonzero elements", "Zero has no inverse.")
    return backend(field).inverse(checked)


def dot(a: Elements, b: Elements, field: Field = M61) -> Elements:
    """Sum the products of two vectors.

    Parameters
    ----------
    a, b : ndarray of field.dtype, shape (t,)
        Canonical elements.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape ()
        The sum; 0 for empty vectors.

    Raises
    ------
    UsageError
        Wrong dtype, an element out of range, not vectors of one length.
    """
    left = element_array("a", a, field, ndim=1)
    right = element_array("b", b, field, ndim=1)
    if left.size != right.size:
        raise UsageError("b", f"{right.size} elements", f"{left.size}, as many as a has")
    return backend(field).dot(left, right)


def weighted_sum(weights: Elements, rows: Elements, field: Field = M61) -> Elements:
    """Sum rows, each times its weight.

    Parameters
    ----------
    weights : ndarray of field.dtype, shape (t,)
        Canonical elements.
    rows : ndarray of field.dtype, shape (t, m)
        Canonical elements.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (m,)
        ``sum_k weights[k] * rows[k]``; zeros if there are no rows.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, not as many weights as rows.
    """
    left = element_array("weights", weights, field, ndim=1)
    right = element_array("rows", rows, field, ndim=2)
    if left.size != right.shape[0]:
        raise UsageError("weights", f"{left.size} weights", f"{right.shape[0]}, one for each row")
    return backend(field).weighted_sum(left, right)


def uniform(entropy: Entropy, shape: int | tuple[int, ...], field: Field = M61) -> Elements:
    """Draw uniform field elements: random bits, cut to the modulus' length, rejected if not below.

    Parameters
    ----------
    entropy : Entropy
        Where the bytes come from: 8 an element, little-endian, plus 8 for each rejection.
    shape : int or tuple of int
        Shape of the result.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype
        Exactly uniform, if the bytes of `entropy` are.

    Raises
    ------
    UsageError
        `entropy` is none or returned the wrong number of bytes, or `shape` is no shape.
    """
    if not isinstance(entropy, Entropy):
        raise UsageError("entropy", describe(entropy), "an Entropy, such as privagg.entropy.OS")
    check_field(field)
    axes = shape_tuple(shape)
    drawn = _masked_words(entropy, math.prod(axes), field)
    rejected = np.flatnonzero(drawn >= field.dtype.type(field.modulus))
    while rejected.size:
        redrawn = _masked_words(entropy, rejected.size, field)
        drawn[rejected] = redrawn
        rejected = rejected[redrawn >= field.dtype.type(field.modulus)]
    return drawn.reshape(axes)


def _masked_words(entropy: Entropy, count: int, field: Field) -> Elements:
    """Return `count` uniform integers of as many bits as the modulus has."""
    size = field.dtype.itemsize * count
    raw = entropy.take(size)
    if len(raw) != size:
        raise UsageError("entropy", f"{len(raw)} bytes", f"the {size} bytes that were asked for")
    words = np.frombuffer(raw, dtype=field.dtype.newbyteorder("<")).astype(field.dtype)
    words &= field.dtype.type(2**field.bits - 1)
    return words
