"""Number-theoretic transforms, and products of polynomials through them.

A transform evaluates a polynomial at all powers of a root of unity; the inverse interpolates. Both
go from natural order to natural order. Lengths are powers of two up to ``2**two_adicity`` of the
field: 2**32 in Goldilocks, 2**66 in F128, 2 in the Mersenne fields, which have no roots to speak
of. Goldilocks has kernels of its own; other fields go through the field's arithmetic on whole
arrays. Arrays hold canonical elements in the field's dtype. Constant time is not promised.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from privagg._jit import JIT
from privagg._validate import whole
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, check_field, describe, element_array, elements
from privagg.field.devices import on_device
from privagg.field.params import GOLDILOCKS, Field
from privagg.field.polynomials import vandermonde

__all__ = ["check_length", "inverse_ntt", "ntt", "polynomial_product", "root_of_unity"]

_KEPT = 2**16  # longer tables of twiddle factors are made anew: they would pile up
_SCHOOLBOOK = 32  # below this many coefficients products are made term by term


def root_of_unity(length: int, field: Field) -> int:
    """Return the root of unity that transforms of one length use.

    Parameters
    ----------
    length : int
        A power of two, at most ``2**field.two_adicity``.
    field : Field
        The field.

    Returns
    -------
    int
        ``field.generator ** ((p - 1) / length)``, an element of order `length`.

    Raises
    ------
    UsageError
        `length` is no power of two, or the field has no root of that order.
    """
    check_field(field)
    order = whole("length", length, 1, 2**128)
    check_length("length", order, field)
    return pow(field.generator, (field.modulus - 1) // order, field.modulus)


@on_device
def ntt(a: Elements, field: Field) -> Elements:
    """Transform vectors: the values of polynomials at the powers of a root of unity.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (n,) or (m, n)
        Canonical elements: coefficients, the constant term first; m polynomials at once. n is a
        power of two, at most ``2**field.two_adicity``.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, same shape
        ``sum_j a[j] * w**(j * k)`` in place k, with ``w = root_of_unity(n, field)``.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, a length that is no power of two or
        for which the field has no root of unity.
    """
    batch, shape = _vectors("a", a, field)
    n = batch.shape[1]
    check_length("a", n, field)
    return _transform(batch, root_of_unity(n, field), 1, field).reshape(shape)


@on_device
def inverse_ntt(a: Elements, field: Field) -> Elements:
    """Undo :func:`ntt`: the coefficients of polynomials from their values at a root's powers.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (n,) or (m, n)
        Canonical elements: values at ``w**0, w**1, ...`` with ``w = root_of_unity(n, field)``.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, same shape
        ``sum_k a[k] * w**(-j * k) / n`` in place j.

    Raises
    ------
    UsageError
        As for :func:`ntt`.
    """
    batch, shape = _vectors("a", a, field)
    n, p = batch.shape[1], field.modulus
    check_length("a", n, field)
    root = pow(root_of_unity(n, field), -1, p)
    return _transform(batch, root, pow(n, -1, p), field).reshape(shape)


def polynomial_product(a: Elements, b: Elements, field: Field) -> Elements:
    """Multiply polynomials.

    Three transforms where the field has roots of unity and both factors are long enough for that to
    pay, else term by term.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (n,) or (k, n)
        Canonical coefficients, the constant term first; at least one.
    b : ndarray of field.dtype, shape (m,) or (k, m)
        As `a`. One polynomial multiplies each of many.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (n + m - 1,) or (k, n + m - 1)
        Coefficients of the product.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, no coefficient, as many rows in
        neither as in the other.
    """
    left, left_shape = _vectors("a", a, field)
    right, right_shape = _vectors("b", b, field)
    for name, factor in (("a", left), ("b", right)):
        if factor.shape[1] == 0:
            raise UsageError(name, "no coefficient", "at least one", "Zero is [0].")
    rows = {factor.shape[0] for factor in (left, right)}
    if len(rows) > 1 and 1 not in rows:
        raise UsageError("b", f"{len(right)} rows", f"{len(left)}, as many as a has, or one")
    count = max(rows) if 0 not in rows else 0
    length = left.shape[1] + right.shape[1] - 1
    size = 1 << (length - 1).bit_length()
    if min(left.shape[1], right.shape[1]) < _SCHOOLBOOK or size > 2**field.two_adicity:
        product = _schoolbook(left, right, count, field)
    else:
        product = _by_transforms(left, right, count, size, field)[:, :length]
    many = len(left_shape) > left.ndim - 1 or len(right_shape) > right.ndim - 1
    return np.ascontiguousarray(product if many else product[0])


def _vectors(name: str, value: object, field: Field) -> tuple[Elements, tuple[int, ...]]:
    """Return checked vectors as (m, n) with an axis of limbs, and their own shape."""
    check_field(field)
    checked = element_array(name, value, field)
    limb_axes = int(field.limbs > 1)
    if checked.ndim - limb_axes not in (1, 2):
        raise UsageError(name, describe(value), "one vector, or a matrix with a vector in each row")
    batch = checked if checked.ndim - limb_axes == 2 else checked[np.newaxis]
    return batch, checked.shape


def check_length(name: str, length: int, field: Field) -> None:
    """Raise :class:`UsageError` unless `field` has transforms of this length."""
    if length < 1 or length & (length - 1):
        raise UsageError(name, f"length {length}", "a power of two", "Fill up with zeros.")
    if length.bit_length() - 1 > field.two_adicity:
        raise UsageError(
            name,
            f"length {length}",
            f"at most {2**field.two_adicity} in the field {field.name}, for want of longer roots "
            "of unity",
            "field.GOLDILOCKS has them up to 2**32, field.F128 up to 2**66.",
        )


def _transform(batch: Elements, root: int, scale: int, field: Field) -> Elements:
    """Return ``scale * sum_j batch[:, j] * root**(j * k)`` in column k, in a new array."""
    if JIT and field == GOLDILOCKS:
        from privagg.field import goldilocks_ntt

        return goldilocks_ntt.transform(batch, root, scale)
    return _stockham(batch, root, scale, field)


def _stockham(batch: Elements, root: int, scale: int, field: Field) -> Elements:
    """Transform by halves on whole arrays; every step leaves its outputs in order (Stockham).

    With n values, s of each residue, the step splits outputs by the parity of their index: the
    even ones transform ``a + b``, the odd ones ``(a - b) * root**j``, a and b the two halves.
    """
    code = backend(field)
    m, n = batch.shape[:2]
    limbs = batch.shape[2:]
    twiddles = (_kept_powers if n <= _KEPT else _powers)(root, max(n // 2, 1), field)
    values = batch.reshape(m, n, 1, *limbs)
    stride = 1
    while n > 1:
        n //= 2
        first, second = values[:, :n], values[:, n:]
        factors = np.broadcast_to(twiddles[::stride][np.newaxis, :, np.newaxis], first.shape)
        even, odd = code.add(first, second), code.mul(code.sub(first, second), factors)
        stride *= 2
        values = np.stack([even, odd], axis=2).reshape(m, n, stride, *limbs)
    values = values.reshape(batch.shape)
    if scale == 1:
        return values.copy() if values.base is not None else values
    return code.mul(values, np.broadcast_to(elements(scale, field), values.shape))


def _powers(root: int, count: int, field: Field) -> Elements:
    powers: Elements = vandermonde(elements([root], field), count, field)[0]
    powers.setflags(write=False)
    return powers


@lru_cache(maxsize=32)
def _kept_powers(root: int, count: int, field: Field) -> Elements:
    return _powers(root, count, field)


def _schoolbook(a: Elements, b: Elements, count: int, field: Field) -> Elements:
    """Add shifted multiples of the longer factor, one for each term of the shorter."""
    code = backend(field)
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    n, m = a.shape[1], b.shape[1]
    a = np.broadcast_to(a, (count, *a.shape[1:]))
    b = np.broadcast_to(b, (count, *b.shape[1:]))
    product = np.zeros((count, n + m - 1, *a.shape[2:]), field.dtype)
    for j in range(m):
        term = np.broadcast_to(b[:, j, np.newaxis], a.shape)
        product[:, j : j + n] = code.mul_add(a, term, product[:, j : j + n])
    return product


def _by_transforms(a: Elements, b: Elements, count: int, size: int, field: Field) -> Elements:
    root = root_of_unity(size, field)
    values = []
    for factor in (a, b):
        padded = np.zeros((factor.shape[0], size, *factor.shape[2:]), field.dtype)
        padded[:, : factor.shape[1]] = factor
        transformed = _transform(padded, root, 1, field)
        values.append(np.broadcast_to(transformed, (count, *padded.shape[1:])))
    p = field.modulus
    product = _pointwise(values[0], values[1], field)
    return _transform(product, pow(root, -1, p), pow(size, -1, p), field)


def _pointwise(a: Elements, b: Elements, field: Field) -> Elements:
    if JIT and field == GOLDILOCKS:
        from privagg.field import goldilocks_ntt

        return goldilocks_ntt.multiply(a, b)
    return backend(field).mul(a, b)
