"""Polynomials over a field: evaluation at many points, interpolation, Vandermonde matrices."""

from __future__ import annotations

import numpy as np

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, check_field, element_array, elements
from privagg.field.devices import on_device
from privagg.field.params import M61, Field

__all__ = ["evaluate", "interpolate", "lagrange_weights", "lagrange_weights_at_zero", "vandermonde"]

_BLOCK = 2**20  # elements of working memory in interpolate


@on_device
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


@on_device
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
    checked = _distinct_points(points, field)
    if not (checked.any(axis=-1) if field.limbs > 1 else checked).all():
        raise UsageError("points", "a zero", "nonzero points", "The value at 0 is what is sought.")
    return backend(field).lagrange_weights_at_zero(checked)


@on_device
def lagrange_weights(points: Elements, targets: Elements, field: Field = M61) -> Elements:
    """Weights that turn a polynomial's values at some points into its values at others.

    For any polynomial f of degree below t, ``f(targets[i]) = sum_j weights[i, j] * f(points[j])``
    (Lagrange's formula). A target may be one of the points. Takes ``t * (t + m)`` multiplications
    and one inversion, and as many elements of memory.

    Parameters
    ----------
    points : ndarray of field.dtype, shape (t,)
        Canonical elements, distinct; at least one.
    targets : ndarray of field.dtype, shape (m,)
        Canonical elements.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (m, t)
        ``prod_(k != j) (targets[i] - x_k) / (x_j - x_k)``.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, no point, an element out of range, a repeated point.
    """
    nodes = _distinct_points(points, field)
    wanted = element_array("targets", targets, field, ndim=1)
    code = backend(field)
    one = elements(1, field)
    between = _differences(nodes, nodes, field)
    diagonal = np.arange(len(nodes))
    between[diagonal, diagonal] = one
    away = _differences(wanted, nodes, field)
    hit = np.asarray(~away.any(axis=-1) if field.limbs > 1 else away == 0)
    away[hit] = one
    denominators = np.broadcast_to(_row_products(between, field)[np.newaxis], away.shape)
    numerators = np.broadcast_to(_row_products(away, field)[:, np.newaxis], away.shape)
    weights = code.mul(numerators, code.inverse(code.mul(away, denominators)))
    on_a_point = hit.any(axis=1)
    weights[on_a_point] = 0
    weights[hit] = one
    return weights


def vandermonde(points: Elements, columns: int, field: Field = M61) -> Elements:
    """Return the powers of points: ``vandermonde(x, t) @ coefficients`` evaluates polynomials.

    Parameters
    ----------
    points : ndarray of field.dtype, shape (n,)
        Canonical elements; zero and repeated points are allowed.
    columns : int
        How many powers, 0 or more.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (n, columns)
        ``points[i]**j`` in row i, column j; ``0**0`` is 1.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, no whole number of columns.
    """
    check_field(field)
    checked = element_array("points", points, field, ndim=1)
    count = whole("columns", columns, 0, 2**62)
    code = backend(field)
    powers = np.empty((len(checked), count, *checked.shape[1:]), field.dtype)
    powers[:, :1] = elements(1, field)
    next_power, done = checked, 1
    while done < count:
        # Columns double: x**(done + j) = x**done * x**j.
        part = powers[:, : min(done, count - done)]
        factor = np.broadcast_to(next_power[:, np.newaxis], part.shape)
        powers[:, done : done + part.shape[1]] = code.mul(part, factor)
        next_power, done = code.mul(next_power, next_power), 2 * done
    return powers


def interpolate(points: Elements, values: Elements, field: Field = M61) -> Elements:
    """Return the coefficients of the polynomials through given points.

    Lagrange's formula with the quotients of ``prod_k (x - points[k])``: t**2 * (m + 3)
    multiplications. At powers of a root of unity, :func:`privagg.field.inverse_ntt` is faster.

    Parameters
    ----------
    points : ndarray of field.dtype, shape (t,)
        Canonical elements, distinct; at least one.
    values : ndarray of field.dtype, shape (t, m)
        Value of polynomial j at point i in row i, column j.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (t, m)
        Column j holds the one polynomial j of degree below t, the constant term first, so that
        ``evaluate(coefficients, points)`` is `values`.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, no point, an element out of range, a repeated point, not one
        row of values for each point.
    """
    nodes = _distinct_points(points, field)
    given = element_array("values", values, field, ndim=2)
    t = len(nodes)
    if len(given) != t:
        raise UsageError("values", f"{len(given)} rows", f"{t}, one for each point")
    code = backend(field)
    master = _from_roots(nodes, field)
    coefficients = np.zeros_like(given)
    block = max(1, _BLOCK // t)
    for start in range(0, t, block):
        some = nodes[start : start + block]
        # Synthetic division of the master polynomial by x - x_i, for all points of the block.
        quotients = np.empty((t, *some.shape), field.dtype)
        quotients[t - 1] = elements(1, field)
        for k in range(t - 2, -1, -1):
            above = np.broadcast_to(master[k + 1], some.shape)
            quotients[k] = code.mul_add(quotients[k + 1], some, above)
        slope = np.zeros_like(some)
        for row in quotients[::-1]:
            slope = code.mul_add(slope, some, row)
        weights = np.broadcast_to(
            code.inverse(slope)[:, np.newaxis], given[start : start + block].shape
        )
        scaled = code.mul(given[start : start + block], weights)
        coefficients = code.add(coefficients, code.matmul(quotients, scaled))
    return coefficients


def _from_roots(roots: Elements, field: Field) -> Elements:
    """Return the t + 1 coefficients of ``prod_k (x - roots[k])``, the constant term first."""
    code = backend(field)
    product = elements([1], field)
    for root in code.sub(np.zeros_like(roots), roots):
        shifted = np.concatenate([np.zeros_like(product[:1]), product])
        scaled = code.mul(product, np.broadcast_to(root, product.shape))
        shifted[:-1] = code.add(shifted[:-1], scaled)
        product = shifted
    return product


def _distinct_points(points: object, field: Field) -> Elements:
    check_field(field)
    checked = element_array("points", points, field, ndim=1)
    if len(checked) == 0:
        raise UsageError("points", "no point", "at least one")
    if len(np.unique(checked, axis=0)) != len(checked):
        raise UsageError("points", "a repeated point", "distinct points")
    return checked


def _differences(a: Elements, b: Elements, field: Field) -> Elements:
    """Return ``a_i - b_j`` in row i, column j."""
    left, right = np.broadcast_arrays(a[:, np.newaxis], b[np.newaxis])
    return backend(field).sub(left, right)


def _row_products(a: Elements, field: Field) -> Elements:
    """Multiply each row of a matrix out, by halves; the matrix has a column at least."""
    while a.shape[1] > 1:
        half = a.shape[1] // 2
        folded = backend(field).mul(a[:, :half], a[:, half : 2 * half])
        a = np.concatenate([folded, a[:, 2 * half :]], axis=1)
    return a[:, 0]
