"""Losses on aggregate responses, with gradients: of bags, of single rows, and between them.

For a family with mean ``mu(z)`` of a row's linear predictor and a loss ``l(target, mean)``:

- bag level: ``l(response of the bag, mean over the bag of mu)``, each bag weighted by its rows.
  For proportions that is the cross-entropy of the mean probability: the logarithm of a mean, not
  the mean of logarithms, which would be the loss of single rows.
- instance level: ``l(response of the bag, mu)`` for each row.
- interpolated: ``(1 - rho)`` times the first plus ``rho`` times the second.

Source: Javanmard et al., ICLR 2024 (arXiv 2401.11081), section 1; each is divided by the number of
pairs of row and bag.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.responses.bags import Bags

__all__ = ["Binary", "Categorical", "Family", "Grouped", "Poisson", "Square"]

Reals = NDArray[np.float64]

_TINY = 1e-12
"""Means of probabilities are kept that far from 0 and 1, where the logarithm would be infinite."""


class Grouped:
    """The rows of all bags, one bag after another: sums over bags are sums over runs.

    Parameters
    ----------
    bags : Bags
        May overlap; a row then comes once for each of its bags.
    """

    def __init__(self, bags: Bags) -> None:
        row, column = np.nonzero(bags.labels >= 0)
        of = bags.labels[row, column]
        order = np.argsort(of, kind="stable")
        self.rows = row[order]
        self.of = of[order]
        self.sizes = bags.sizes
        self.starts = np.cumsum(self.sizes) - self.sizes

    def means(self, values: Reals) -> Reals:
        """Return the means over the bags of an array whose rows are those of :attr:`rows`.

        Parameters
        ----------
        values : (rows, ...) float array
            A value for each row.
        """
        sums = np.add.reduceat(values, self.starts, axis=0)
        found: Reals = sums / self.sizes[:, None]
        return found


class Family(ABC):
    """A loss, and the mean it is about; targets and predictors are (n, c) arrays."""

    name: str

    @abstractmethod
    def mean(self, z: Reals) -> Reals:
        """Return the mean response of rows with these linear predictors.

        Parameters
        ----------
        z : (n, c) float array
            Linear predictors of the rows.
        """

    @abstractmethod
    def loss(self, target: Reals, mean: Reals) -> Reals:
        """Return the loss of each row; (n,).

        Parameters
        ----------
        target : (n, c) float array
            Responses.
        mean : (n, c) float array
            Means that the predictors give.
        """

    @abstractmethod
    def slope(self, target: Reals, mean: Reals) -> Reals:
        """Return the derivative of the loss by the mean; (n, c).

        Parameters
        ----------
        target : (n, c) float array
            Responses.
        mean : (n, c) float array
            Means that the predictors give.
        """

    @abstractmethod
    def pull(self, mean: Reals, slope: Reals) -> Reals:
        """Return a derivative by the linear predictor from one by the mean; (n, c).

        Parameters
        ----------
        mean : (n, c) float array
            Means that the predictors give.
        slope : (n, c) float array
            Derivatives by the mean.
        """

    @abstractmethod
    def instance(self, target: Reals, z: Reals, mean: Reals) -> tuple[Reals, Reals]:
        """Return loss and derivative by the linear predictor of single rows, without overflow.

        Targets may lie outside the range of responses: EasyLLP's do.

        Parameters
        ----------
        target : (n, c) float array
            Responses.
        z : (n, c) float array
            Linear predictors of the rows.
        mean : (n, c) float array
            Means that the predictors give.
        """

    def bag_level(self, grouped: Grouped, target: Reals, mean: Reals) -> tuple[float, Reals]:
        """Return the bag-level loss, and its derivative by the linear predictors.

        Parameters
        ----------
        grouped : Grouped
            Rows by bags.
        target : (m, c) float array
            Responses of the bags.
        mean : (n, c) float array
            Means that the predictors give.
        """
        of_bags = grouped.means(mean)
        value = float(self.loss(target, of_bags) @ grouped.sizes) / grouped.rows.size
        slope = self.slope(target, of_bags)[grouped.of]
        return value, self.pull(mean, slope) / grouped.rows.size


class Square(Family):
    """Squared error of the identity; half of it, as usual for a likelihood."""

    name = "square"

    def mean(self, z: Reals) -> Reals:
        """Return the predictor."""
        return z

    def loss(self, target: Reals, mean: Reals) -> Reals:
        """Return half the squared distance."""
        found: Reals = ((target - mean) ** 2).sum(axis=1) / 2
        return found

    def slope(self, target: Reals, mean: Reals) -> Reals:
        """Return the difference."""
        return mean - target

    def pull(self, mean: Reals, slope: Reals) -> Reals:
        """Return the slope."""
        return slope

    def instance(self, target: Reals, z: Reals, mean: Reals) -> tuple[Reals, Reals]:
        """Return loss and derivative."""
        return self.loss(target, z), z - target


class Binary(Family):
    """Cross-entropy of a proportion; one column, the logit of class 1."""

    name = "binary"

    def mean(self, z: Reals) -> Reals:
        """Return the probability of class 1."""
        found: Reals = 0.5 * (1 + np.tanh(0.5 * z))
        return found

    def loss(self, target: Reals, mean: Reals) -> Reals:
        """Return the cross-entropy of the mean probability."""
        p = np.clip(mean, _TINY, 1 - _TINY)
        found: Reals = -(target * np.log(p) + (1 - target) * np.log1p(-p)).sum(axis=1)
        return found

    def slope(self, target: Reals, mean: Reals) -> Reals:
        """Return its derivative."""
        p = np.clip(mean, _TINY, 1 - _TINY)
        found: Reals = (p - target) / (p * (1 - p))
        return found

    def pull(self, mean: Reals, slope: Reals) -> Reals:
        """Return the slope times p (1 - p)."""
        return mean * (1 - mean) * slope

    def instance(self, target: Reals, z: Reals, mean: Reals) -> tuple[Reals, Reals]:
        """Return ``log(1 + e^z) - target z``, convex whatever the target."""
        return (np.logaddexp(0, z) - target * z).sum(axis=1), mean - target


class Categorical(Family):
    """Cross-entropy of the proportions of c classes; one column each."""

    name = "categorical"

    def mean(self, z: Reals) -> Reals:
        """Return the probabilities (softmax)."""
        power = np.exp(z - z.max(axis=1, keepdims=True))
        found: Reals = power / power.sum(axis=1, keepdims=True)
        return found

    def loss(self, target: Reals, mean: Reals) -> Reals:
        """Return the cross-entropy of the mean probabilities."""
        found: Reals = -(target * np.log(np.maximum(mean, _TINY))).sum(axis=1)
        return found

    def slope(self, target: Reals, mean: Reals) -> Reals:
        """Return its derivative."""
        found: Reals = -target / np.maximum(mean, _TINY)
        return found

    def pull(self, mean: Reals, slope: Reals) -> Reals:
        """Return the slope through the softmax."""
        found: Reals = mean * (slope - (mean * slope).sum(axis=1, keepdims=True))
        return found

    def instance(self, target: Reals, z: Reals, mean: Reals) -> tuple[Reals, Reals]:
        """Return ``logsumexp(z) sum(target) - target . z``, convex for targets that add up to 1."""
        top = z.max(axis=1, keepdims=True)
        total = target.sum(axis=1, keepdims=True)
        normal = top + np.log(np.exp(z - top).sum(axis=1, keepdims=True))
        found = (normal * total).sum(axis=1) - (target * z).sum(axis=1)
        return found, mean * total - target


class Poisson(Family):
    """Poisson likelihood of a mean count, up to what does not depend on the mean."""

    name = "poisson"

    def mean(self, z: Reals) -> Reals:
        """Return the exponential; predictors above 500 are beyond any count."""
        found: Reals = np.exp(np.minimum(z, 500.0))
        return found

    def loss(self, target: Reals, mean: Reals) -> Reals:
        """Return ``mean - target log mean``."""
        found: Reals = (mean - target * np.log(np.maximum(mean, 1e-300))).sum(axis=1)
        return found

    def slope(self, target: Reals, mean: Reals) -> Reals:
        """Return its derivative."""
        found: Reals = 1 - target / np.maximum(mean, 1e-300)
        return found

    def pull(self, mean: Reals, slope: Reals) -> Reals:
        """Return the slope times the mean."""
        return mean * slope

    def instance(self, target: Reals, z: Reals, mean: Reals) -> tuple[Reals, Reals]:
        """Return ``e^z - target z``, convex whatever the target."""
        return (mean - target * z).sum(axis=1), mean - target


def interpolated(
    family: Family, grouped: Grouped, target: Reals, z: Reals, rho: float
) -> tuple[float, Any]:
    """Return the interpolated loss and its derivative by the linear predictors.

    Parameters
    ----------
    target : (m, c) array
        The bags' mean responses.
    z : (pairs, c) array
        Linear predictors of the rows of `grouped`.
    """
    mean = family.mean(z)
    value, gradient = 0.0, np.zeros_like(z)
    if rho != 1:
        loss, slope = family.bag_level(grouped, target, mean)
        value, gradient = (1 - rho) * loss, (1 - rho) * slope
    if rho != 0:
        losses, slopes = family.instance(target[grouped.of], z, mean)
        value += rho * float(losses.mean())
        gradient = gradient + rho * slopes / losses.size
    return value, gradient
