"""Which recovered input is which true one: an assignment of least cost, not a greedy one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel
from privagg.attacks.gradient.recovery import Floats
from privagg.errors import UsageError

__all__ = ["assign", "match"]


@kernel
def _assign(cost: Floats, row_of: NDArray[np.int64]) -> None:
    """Assign each row of a wide matrix a column; ``row_of[j]`` is its row plus 1, or 0.

    Shortest augmenting paths with potentials (Jonker and Volgenant, Computing 1987).
    """
    n, m = cost.shape
    u = np.zeros(n + 1)
    v = np.zeros(m + 1)
    way = np.zeros(m + 1, np.int64)
    for i in range(1, n + 1):
        row_of[0] = i
        at = 0
        least = np.full(m + 1, np.inf)
        used = np.zeros(m + 1, np.bool_)
        while True:
            used[at] = True
            row = row_of[at]
            step = np.inf
            to = 0
            for j in range(1, m + 1):
                if not used[j]:
                    reduced = cost[row - 1, j - 1] - u[row] - v[j]
                    if reduced < least[j]:
                        least[j] = reduced
                        way[j] = at
                    if least[j] < step:
                        step = least[j]
                        to = j
            for j in range(m + 1):
                if used[j]:
                    u[row_of[j]] += step
                    v[j] -= step
                else:
                    least[j] -= step
            at = to
            if row_of[at] == 0:
                break
        while at != 0:
            row_of[at] = row_of[way[at]]
            at = way[at]


def assign(cost: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of an assignment of least total cost.

    Parameters
    ----------
    cost : (n, m) float array
        All finite. The shorter side is assigned completely.

    Raises
    ------
    UsageError
        If the cost is not a matrix of finite numbers.
    """
    matrix = np.ascontiguousarray(cost, np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise UsageError("cost", f"shape {matrix.shape}", "a matrix of finite numbers")
    if not matrix.size:
        none = np.zeros(0, np.intp)
        return none, none
    wide = matrix.shape[0] <= matrix.shape[1]
    work = matrix if wide else np.ascontiguousarray(matrix.T)
    row_of = np.zeros(work.shape[1] + 1, np.int64)
    _assign(work, row_of)
    short = row_of[1:]
    longer = np.flatnonzero(short > 0)
    shorter = short[longer] - 1
    rows, columns = (shorter, longer) if wide else (longer, shorter)
    order = np.argsort(rows)
    return rows[order].astype(np.intp), columns[order].astype(np.intp)


def match(
    recovered: Floats, true: Floats, *, scaled: bool = True
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Match rows of two arrays, each row at most once.

    Parameters
    ----------
    recovered : (m, d) float array
        In any order.
    true : (n, d) float array
        The truth.
    scaled : bool
        The cost is the logarithm of the squared error: the assignment has the largest mean PSNR.
        If not scaled, it is minus the size of the cosine.

    Returns
    -------
    rows, columns : int arrays
        Places in `recovered` and in `true`.

    Raises
    ------
    UsageError
        If the rows are not equally long.
    """
    if recovered.ndim != 2 or true.ndim != 2 or recovered.shape[1] != true.shape[1]:
        raise UsageError("recovered", recovered.shape, f"rows as the true ones, {true.shape}")
    if not scaled:
        a = recovered - recovered.mean(axis=1, keepdims=True)
        b = true - true.mean(axis=1, keepdims=True)
        tiny = np.finfo(np.float64).tiny
        a = a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), tiny)
        b = b / np.maximum(np.linalg.norm(b, axis=1, keepdims=True), tiny)
        return assign(-np.abs(a @ b.T))
    errors = np.empty((len(recovered), len(true)))
    for index, row in enumerate(recovered):
        errors[index] = np.mean(np.square(true - row), axis=1)
    return assign(np.log(np.maximum(errors, 1e-20)))
