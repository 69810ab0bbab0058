"""Linear algebra over a field: echelon form, rank, row space, null space, systems, inverses.

Everything goes through :class:`privagg.field.Elimination`. Matrices hold canonical elements in the
field's dtype and are checked as in :mod:`privagg.field.arithmetic`. Constant time is not promised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.field.checks import Elements, check_field, describe, element_array, elements
from privagg.field.elimination import Elimination
from privagg.field.params import M61, Field

__all__ = ["inverse_matrix", "null_space", "rank", "row_echelon", "row_space", "solve"]


def _eliminated(a: object, field: Field) -> tuple[Elimination, int]:
    check_field(field)
    checked = element_array("a", a, field, ndim=2)
    elimination = Elimination(checked.shape[1], field)
    elimination.extend(checked)
    return elimination, checked.shape[0]


def row_echelon(a: Elements, field: Field = M61) -> tuple[Elements, NDArray[np.intp]]:
    """Return the reduced row echelon form.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (m, n)
        Canonical elements.
    field : Field
        The field.

    Returns
    -------
    rows : ndarray of field.dtype, shape (m, n)
        Row i is 1 at its pivot, 0 before it and in the other rows' pivots; zero rows come last.
    pivots : ndarray of int, shape (rank,)
        Columns of the pivots, ascending.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, or an element out of range.
    """
    elimination, m = _eliminated(a, field)
    basis = elimination.basis()
    rows = np.zeros((m, *basis.shape[1:]), field.dtype)
    rows[: len(basis)] = basis
    return rows, elimination.pivots


def rank(a: Elements, field: Field = M61) -> int:
    """Return the rank of an (m, n) matrix; arguments and errors as for :func:`row_echelon`."""
    return _eliminated(a, field)[0].rank


def row_space(a: Elements, field: Field = M61) -> Elements:
    """Return the basis of the row space that is in reduced row echelon form, shape (rank, n).

    Two matrices have the same row space if and only if this is the same for both. Arguments and
    errors as for :func:`row_echelon`.
    """
    return _eliminated(a, field)[0].basis()


def null_space(a: Elements, field: Field = M61) -> Elements:
    """Return a basis of all x with ``a @ x = 0`` in rows, shape (n - rank, n).

    Arguments and errors as for :func:`row_echelon`.
    """
    return _eliminated(a, field)[0].null_space()


def solve(a: Elements, b: Elements, field: Field = M61) -> Elements:
    """Solve ``a @ x = b`` for the one x there is.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (m, n)
        Canonical elements; its columns are independent. More rows than columns are allowed.
    b : ndarray of field.dtype, shape (m,) or (m, k)
        Canonical elements: one right side, or k of them.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (n,) or (n, k)
        The solution of each system.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, not one row of `b` for each of `a`;
        naming `a`: dependent columns, so no solution or many; naming `b`: no solution.
    """
    check_field(field)
    matrix = element_array("a", a, field, ndim=2)
    right = element_array("b", b, field)
    axes = right.ndim - int(field.limbs > 1)
    if axes not in (1, 2):
        raise UsageError("b", describe(right), "a vector, or a matrix with a system in each column")
    (m, n), sides = matrix.shape[:2], right if axes == 2 else right[:, np.newaxis]
    if len(sides) != m:
        raise UsageError("b", f"{len(sides)} rows", f"{m}, as many as a has")
    k = sides.shape[1]
    elimination = Elimination(n + k, field)
    elimination.extend(np.concatenate([matrix, sides], axis=1))
    pivots = elimination.pivots
    independent = int(np.count_nonzero(pivots < n))
    if independent < n:
        raise UsageError(
            "a",
            f"{independent} independent columns of {n}",
            "a matrix of independent columns",
            "Drop columns, or add equations; null_space(a) tells what is undetermined.",
        )
    if len(pivots) > n:
        raise UsageError("b", "a system without solution", "sums of columns of a")
    solution = np.ascontiguousarray(elimination.basis()[:, n:])
    return solution if axes == 2 else np.ascontiguousarray(solution[:, 0])


def inverse_matrix(a: Elements, field: Field = M61) -> Elements:
    """Invert a square matrix.

    Parameters
    ----------
    a : ndarray of field.dtype, shape (n, n)
        Canonical elements, not singular.
    field : Field
        The field.

    Returns
    -------
    ndarray of field.dtype, shape (n, n)
        The matrix whose product with `a`, on either side, is the identity.

    Raises
    ------
    UsageError
        Wrong dtype or number of axes, an element out of range, not square, singular.
    """
    check_field(field)
    matrix = element_array("a", a, field, ndim=2)
    n = len(matrix)
    if matrix.shape[1] != n:
        raise UsageError("a", f"{n} rows and {matrix.shape[1]} columns", "a square matrix")
    identity = np.zeros_like(matrix)
    identity[np.arange(n), np.arange(n)] = elements(1, field)
    return solve(matrix, identity, field)
