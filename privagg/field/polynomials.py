"""Polynomials over a field: evaluation at many points, interpolation at zero."""

from __future__ import annotations

import numpy as np

from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, element_array
from privagg.field.params import M61, Field

__all__ = ["evaluate", "lagrange_weights_at_zero"]


def evaluate(coefficients: Elements, points: Elements, field: Field = M61) -> Elements:
    """Evaluate m polynomials at n points.

    Horner's rule with all points abreast, t * n * m multiplications; twice as fast if every point
    is below 2**31. Few points and many polynomials go through the points' powers instead.

    Parameters
    ----------
    coefficients : ndarray of field.dtype, shape (t, m)
        Column j holds polynomial j, the constant term first.
    points : ndarray of field.dtype, shape (n,)
        Canonical elements; zero and repeated points are allowed.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (n, m)
        Value of polynomial j at point i in row i, column j.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, or an element out of range.
    """
    return backend(field).evaluate(
        element_array("coefficients", coefficients, field, ndim=2),
        element_array("points", points, field, ndim=1),
    )


def lagrange_weights_at_zero(points: Elements, field: Field = M61) -> Elements:
    """Weights that turn values of a polynomial into its constant term.

    For any polynomial f of degree below t, ``f(0) = sum_i weights[i] * f(points[i])`` (Lagrange's
    formula). Takes t**2 multiplications and one inversion.

    Parameters
    ----------
    points : ndarray of field.dtype, shape (t,)
        Canonical elements, distinct, none of them 0; at least one.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (t,)
        ``prod_(j != i) x_j / (x_j - x_i)``.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, no point, an element out of range, a zero or repeated point.
    """
    checked = element_array("points", points, field, ndim=1)
    if checked.size == 0:
        raise UsageError("points", "no point", "at least one")
    if not checked.all():
        raise UsageError("points", "a zero", "nonzero points", "The value at 0 is what is sought.")
    if np.unique(checked).size != checked.size:
        raise UsageError("points", "a repeated point", "distinct points")
    return backend(field).lagrange_weights_at_zero(checked)
