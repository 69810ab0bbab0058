"""Fitting a linear predictor to aggregate responses: in closed form, or by L-BFGS."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.losses import Family, Grouped, interpolated
from privagg.protocols.responses.statistics import Solution, Statistics

__all__ = ["Fit", "NotConverged", "fit_family", "statistics_of"]

Reals = NDArray[np.float64]


class NotConverged(UserWarning):
    """An iteration ended before the gradient was as small as asked."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution, and how it was found.

    Attributes
    ----------
    solution : Solution
    iterations : int
        1 for a closed form.
    loss : float
        The objective at the solution; NaN for a closed form, which does not compute it.
    """

    solution: Solution
    iterations: int
    loss: float


def statistics_of(x: Any, bags: Bags, target: Reals) -> Statistics:
    """Return what least squares needs; bags may overlap.

    For overlapping bags the projection is ``P = S'(SS')^+ S``: the bags' sums are weighted by the
    inverse of what they share (generalised least squares). It takes O(m^2) memory and O(m^3) time
    for m bags.

    Parameters
    ----------
    x : (n, p) array or sparse matrix
    bags : Bags
    target : (m, c) array
        Mean responses.
    """
    sums = _bag_sums(x, bags)
    gram = x.T @ x
    gram = np.asarray(gram.todense() if hasattr(gram, "todense") else gram, np.float64)
    sizes = bags.sizes
    if bags.disjoint:
        return Statistics.of(gram, sums, sizes, target * sizes[:, None])
    shared = _shared(bags)
    inverse = np.linalg.pinv(shared, rcond=1e-10, hermitian=True)
    totals = target * sizes[:, None]
    weights = inverse @ totals
    # The sum of Py is not that of the bags' sums, in which rows come several times.
    in_bags = inverse @ sizes.astype(np.float64)
    return Statistics(
        bags.rows,
        bags.count,
        np.asarray(x.sum(axis=0), np.float64).reshape(-1),
        sums.T @ in_bags,
        float(sizes @ in_bags),
        totals.T @ in_bags,
        gram,
        sums.T @ inverse @ sums,
        sums.T @ weights,
        np.einsum("mc,mc->c", totals, weights),
    )


def fit_family(
    family: Family,
    x: Any,
    bags: Bags,
    target: Reals,
    *,
    rho: float,
    ridge: float,
    intercept: bool = True,
    start: Solution | None = None,
    max_iter: int = 500,
    tolerance: float = 1e-7,
) -> Fit:
    """Minimise the interpolated loss plus ``ridge |t|^2 / 2`` by L-BFGS; no penalty on intercepts.

    At bag level the loss is not convex for every family: what is found is a local minimum, from
    `start` or from zero.

    Parameters
    ----------
    family : Family
    x : (n, p) array or sparse matrix
    bags : Bags
    target : (m, c) array
        What the bags' means are compared with.
    rho, ridge : float
        Not below 0.
    intercept : bool
    start : Solution, optional
    max_iter : int
    tolerance : float
        The largest component of the gradient to end with.

    Returns
    -------
    Fit
        The minimum, and how it was reached.

    Raises
    ------
    UsageError
        If scipy is not installed.

    Warns
    -----
    NotConverged
        If `max_iter` did not do.
    """
    optimize = _scipy_optimize()
    grouped = Grouped(bags)
    rows = x[grouped.rows] if not bags.disjoint or (np.diff(grouped.rows) != 1).any() else x
    features, columns = x.shape[1], target.shape[1]
    begin = np.zeros((features + 1, columns))
    if start is not None:
        begin[:-1], begin[-1] = start.coefficients, start.intercept

    def objective(flat: Reals) -> tuple[float, Reals]:
        table = flat.reshape(features + 1, columns)
        z = np.asarray(rows @ table[:-1]) + table[-1]
        value, slope = interpolated(family, grouped, target, z, rho)
        gradient = np.empty_like(table)
        gradient[:-1] = np.asarray(rows.T @ slope) + ridge * table[:-1]
        gradient[-1] = slope.sum(axis=0) if intercept else 0.0
        return value + ridge / 2 * float((table[:-1] ** 2).sum()), gradient.ravel()

    found = optimize.minimize(
        objective,
        begin.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tolerance, "ftol": 0.0, "maxcor": 20},
    )
    largest = float(np.abs(found.jac).max())
    if not largest <= max(tolerance * 100, 1e-5):
        warnings.warn(
            f"after {found.nit} iterations the gradient is {largest:.2g}: raise max_iter or ridge",
            NotConverged,
            stacklevel=3,
        )
    table = found.x.reshape(features + 1, columns)
    return Fit(Solution(table[:-1], table[-1]), int(found.nit), float(found.fun))


def _bag_sums(x: Any, bags: Bags) -> Reals:
    """Return the sums of the features over the bags; (m, p)."""
    row, column = np.nonzero(bags.labels >= 0)
    of = bags.labels[row, column]
    if hasattr(x, "tocsr"):
        sparse = _scipy_sparse()
        take = sparse.csr_matrix((np.ones(row.size), (of, row)), (bags.count, bags.rows))
        return np.asarray((take @ x).todense(), np.float64)
    order = np.argsort(of, kind="stable")
    starts = np.cumsum(bags.sizes) - bags.sizes
    rows = row[order]
    taken = x if rows.size == bags.rows and (np.diff(rows) == 1).all() else x[rows]
    found: Reals = np.add.reduceat(np.asarray(taken, np.float64), starts, axis=0)
    return found


def _shared(bags: Bags) -> Reals:
    """Return how many rows each two bags share; (m, m)."""
    table = np.zeros((bags.count, bags.count))
    for left in bags.labels.T:
        for right in bags.labels.T:
            both = (left >= 0) & (right >= 0)
            np.add.at(table, (left[both], right[both]), 1.0)
    return table


def _scipy_optimize() -> Any:
    try:
        from scipy import optimize
    except ImportError:
        raise _missing() from None
    return optimize


def _scipy_sparse() -> Any:
    try:
        from scipy import sparse
    except ImportError:
        raise _missing() from None
    return sparse


def _missing() -> UsageError:
    return UsageError(
        "privagg", "no scipy", "the extra 'responses'", "pip install 'privagg[responses]'"
    )
