"""What least squares needs of the data: a few sums, which add up over pieces and over folds.

With P the projection on what bags' sums show (vectors that are constant within bags, if no two
overlap), the interpolated estimator needs X'X, X'PX, X'Py and y'Py, the same with a column of
ones, and nothing else: any (rho, ridge) path, its intercept, and the loss on bags that were held
out, follow from them. They take O(p^2) memory, add up over chunks in which whole bags lie, and the
sums of all folds but one are the difference of two sums: cross-validation makes no second pass.
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
        X'1, the sum of the features.
    bag_x : (p,) array
        X'P1; X'1 where no bags overlap.
    weight : float
        1'P1; the number of rows where no bags overlap.
    y : (c,) array
        y'P1; the sum of the responses where no bags overlap.
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
    bag_x: Reals
    weight: float
    y: Reals
    gram: Reals
    bag_gram: Reals
    cross: Reals
    power: Reals

    @classmethod
    def of(cls, gram: Reals, sums: Reals, sizes: NDArray[np.int64], responses: Reals) -> Statistics:
        """Return the statistics of some bags that do not overlap.

        Parameters
        ----------
        gram : (p, p) array
            X'X over the bags' rows.
        sums : (m, p) array
            The bags' sums of features.
        sizes : (m,) int64 array
            Their numbers of rows.
        responses : (m, c) array
            Their sums of responses.
        """
        weighted = sums / sizes[:, None]
        return cls(
            int(sizes.sum()),
            sizes.size,
            sums.sum(axis=0),
            sums.sum(axis=0),
            float(sizes.sum()),
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

        It minimises ``(1 - rho) |P(y - Xt - b)|^2 + rho |Py - Xt - b|^2 + n ridge |t|^2``.

        Parameters
        ----------
        rho : float
            Not below 0; above 1 is allowed.
        ridges : sequence of float
            Not below 0. At 0 directions in which the data say nothing get no weight.
        intercept : bool
            Whether there is a b; else it is 0.

        Raises
        ------
        UsageError
            If there are no rows.
        """
        if self.rows < 1:
            raise UsageError("rows", self.rows, "at least one row")
        # The column of ones is eliminated: it is never penalised.
        ones = (1 - rho) * self.bag_x + rho * self.x
        weight = (1 - rho) * self.weight + rho * self.rows
        centre = ones / weight * intercept
        y = self.y / weight * intercept
        matrix = (1 - rho) * self.bag_gram + rho * self.gram - np.outer(ones, centre)
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        turned = vectors.T @ (self.cross - np.outer(ones, y))
        floor = values.size * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        found = []
        for ridge in ridges:
            shifted = np.where(values > floor, values, 0.0) + self.rows * ridge
            inverse = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > floor)
            coefficients = vectors @ (inverse[:, None] * turned)
            found.append(Solution(coefficients, y - centre @ coefficients))
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
        total = centred - 2 * b * (self.y - self.bag_x @ t) + self.weight * b * b
        found: Reals = total / self.bags
        return found
