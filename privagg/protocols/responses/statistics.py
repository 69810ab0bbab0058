"""What least squares needs of the data: a few sums, which add up over pieces and over folds.

For disjoint bags, with P the projection on vectors that are constant within bags, the interpolated
estimator needs X'X, X'PX, X'Py and y'Py, the sums of X and y, and nothing else: any (rho, ridge)
path, its intercept, and the loss on bags that were held out, follow from them. They take O(p^2)
memory, add up over chunks in which whole bags lie, and the sums of all folds but one are the
difference of two sums: cross-validation makes no second pass.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["Solution", "Statistics"]

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solution:
    """A linear predictor ``X @ coefficients + intercept``.

    Attributes
    ----------
    coefficients : (p,) or (p, c) float64 array
    intercept : (c,) float64 array
    """

    coefficients: Reals
    intercept: Reals


@dataclass(frozen=True, eq=False)
class Statistics:
    """The sums over some bags; c responses may be treated at once.

    Attributes
    ----------
    rows, bags : int
        How many rows and bags were added up.
    x : (p,) array
        The sum of the features.
    y : (c,) array
        The sum of the responses.
    gram : (p, p) array
        X'X.
    bag_gram : (p, p) array
        X'PX, the sum of outer products of bags' feature sums over their sizes.
    cross : (p, c) array
        X'Py.
    power : (c,) array
        y'Py.
    """

    rows: int
    bags: int
    x: Reals
    y: Reals
    gram: Reals
    bag_gram: Reals
    cross: Reals
    power: Reals

    @classmethod
    def of(cls, gram: Reals, sums: Reals, sizes: NDArray[np.int64], responses: Reals) -> Statistics:
        """Return the statistics of some bags.

        Parameters
        ----------
        gram : (p, p) array
            X'X over the bags' rows.
        sums : (m, p) array
            The bags' sums of features.
        sizes : (m,) array
            Their numbers of rows.
        responses : (m, c) array
            Their sums of responses.
        """
        weighted = sums / sizes[:, None]
        return cls(
            int(sizes.sum()),
            sizes.size,
            sums.sum(axis=0),
            responses.sum(axis=0),
            gram,
            weighted.T @ sums,
            weighted.T @ responses,
            (responses * responses / sizes[:, None]).sum(axis=0),
        )

    def __add__(self, other: Statistics) -> Statistics:
        """Add those of other bags."""
        return self._with(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        """Take away those of some of these bags."""
        return self._with(other, -1)

    def _with(self, other: Statistics, sign: int) -> Statistics:
        if self.x.shape != other.x.shape or self.y.shape != other.y.shape:
            found = f"{other.x.size} features and {other.y.size} responses"
            raise UsageError("other", found, f"{self.x.size} and {self.y.size}")
        names = [part.name for part in fields(self)]
        return Statistics(*(getattr(self, n) + sign * getattr(other, n) for n in names))

    def path(self, rho: float, ridges: Any, intercept: bool = True) -> list[Solution]:
        """Return the estimator for one interpolation and many ridges: one eigendecomposition.

        It minimises ``(1 - rho) |S(y - Xt)|^2 + rho |Py - Xt|^2 + n ridge |t|^2`` over centred
        features and responses, where S takes bags' means times the root of their size.

        Parameters
        ----------
        rho : float
            Not below 0; above 1 is allowed.
        ridges : sequence of float
            Not below 0. At 0 directions in which the data say nothing get no weight.
        intercept : bool
            Whether features and responses are centred; else the intercept is 0.

        Raises
        ------
        UsageError
            If there are no rows.
        """
        if self.rows < 1:
            raise UsageError("rows", self.rows, "at least one row")
        x, y = self.x / self.rows * intercept, self.y / self.rows * intercept
        outer = np.outer(self.x, x)
        matrix = (1 - rho) * (self.bag_gram - outer) + rho * (self.gram - outer)
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        turned = vectors.T @ (self.cross - np.outer(self.x, y))
        floor = values.size * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        found = []
        for ridge in ridges:
            shifted = np.where(values > floor, values, 0.0) + self.rows * ridge
            inverse = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > floor)
            coefficients = vectors @ (inverse[:, None] * turned)
            found.append(Solution(coefficients, y - x @ coefficients))
        return found

    def bag_loss(self, solution: Solution) -> Reals:
        """Return ``sum of k (mean response - mean prediction)^2 / bags`` over these bags.

        For random bags that were not used to fit, it is unbiased for the variance of the noise
        plus the excess risk of single rows: bags of k average k independent residuals. It is up to
        the error of the mean response, which shrinks with the rows.

        Returns
        -------
        (c,) float64 array
        """
        t, b = solution.coefficients, solution.intercept
        fitted = np.einsum("pc,pq,qc->c", t, self.bag_gram, t)
        centred = self.power - 2 * np.einsum("pc,pc->c", t, self.cross) + fitted
        total = centred - 2 * b * (self.y - self.x @ t) + self.rows * b * b
        found: Reals = total / self.bags
        return found
