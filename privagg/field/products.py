"""Sums of products of arrays of elements: dot products, weighted sums of rows, matrix products.

Arrays hold canonical elements in the field's dtype and are checked as in
:mod:`privagg.field.arithmetic`. Constant time is not promised.
"""

from __future__ import annotations

from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, element_array
from privagg.field.devices import on_device
from privagg.field.params import M61, Algebra

__all__ = ["dot", "matmul", "sum_rows", "weighted_sum"]


@on_device
def dot(a: Elements, b: Elements, field: Algebra = M61) -> Elements:
    """Sum the products of two vectors.

    Parameters
    ----------
    a, b : ndarray of field.dtype, shape (t,)
        Canonical elements.
    field : Field or Ring
        What they are elements of.

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
    if left.shape != right.shape:
        raise UsageError("b", f"{len(right)} elements", f"{len(left)}, as many as a has")
    return backend(field).dot(left, right)


@on_device
def sum_rows(rows: Elements, field: Algebra = M61) -> Elements:
    """Add up the rows of a matrix.

    Parameters
    ----------
    rows : ndarray of field.dtype, shape (n, m)
        Canonical elements.
    field : Field or Ring
        What they are elements of.

    Returns
    -------
    ndarray of field.dtype, shape (m,)
        The sums; zeros if there are no rows.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range.
    """
    return backend(field).sum_rows(element_array("rows", rows, field, ndim=2))


@on_device
def weighted_sum(weights: Elements, rows: Elements, field: Algebra = M61) -> Elements:
    """Sum rows, each times its weight.

    Parameters
    ----------
    weights : ndarray of field.dtype, shape (t,)
        Canonical elements.
    rows : ndarray of field.dtype, shape (t, m)
        Canonical elements.
    field : Field or Ring
        What they are elements of.

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
    if left.shape[0] != right.shape[0]:
        raise UsageError(
            "weights", f"{left.shape[0]} weights", f"{right.shape[0]}, one for each row"
        )
    return backend(field).weighted_sum(left, right)


@on_device
def matmul(a: Elements, b: Elements, field: Algebra = M61) -> Elements:
    """Multiply two matrices.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (n, t)
        Canonical elements.
    b : ndarray of field.dtype, shape (t, m)
        Canonical elements.
    field : Field or Ring
        What they are elements of.

    Returns
    -------
    ndarray of field.dtype, shape (n, m)
        The product; zeros if `t` is 0.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, inner sizes that differ.
    """
    left = element_array("a", a, field, ndim=2)
    right = element_array("b", b, field, ndim=2)
    if left.shape[1] != right.shape[0]:
        raise UsageError(
            "b", f"{right.shape[0]} rows", f"{left.shape[1]}, as many as a has columns"
        )
    return backend(field).matmul(left, right)
