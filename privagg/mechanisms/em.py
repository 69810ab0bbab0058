"""Distributions from a histogram of windowed reports: expectation maximisation, with smoothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.mechanisms.window import Window

__all__ = ["DistributionEstimate", "expectation_maximisation"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DistributionEstimate:
    """An estimated distribution over the points of a grid.

    Attributes
    ----------
    grid : (k,) float64 array
        The points.
    values : (k,) float64 array
        The frequency of each: not negative, and 1 in all.
    users : int
        How many reports were counted.
    smooth : bool
        Whether each step was smoothed (EMS), else plain maximum likelihood (EM).
    rounds : int
        How many steps were made.
    converged : bool
        Whether they came to rest, else the limit on steps ended them.
    log_likelihood : float
        Of `values`, per report, in nats.
    mechanism : str
        The mechanism's name.
    epsilon, epsilon_realised : float
        What was stated, and what each report really has.
    insecure : bool
        Whether any report came from a seed.
    """

    grid: Vector = field(repr=False)
    values: Vector = field(repr=False)
    users: int
    smooth: bool
    rounds: int
    converged: bool
    log_likelihood: float
    mechanism: str
    epsilon: float
    epsilon_realised: float
    insecure: bool

    @property
    def mean(self) -> float:
        """The mean of the distribution."""
        return float(self.grid @ self.values)

    @property
    def variance(self) -> float:
        """The variance of the distribution: how the values spread, no error of the estimate."""
        return float((self.grid - self.mean) ** 2 @ self.values)

    @property
    def cumulative(self) -> Vector:
        """The part of the respondents whose values are at most each point."""
        return np.minimum(np.cumsum(self.values), 1.0)

    def quantile(self, part: float) -> float:
        """Return the least point that at least this part of the values does not exceed.

        Raises
        ------
        UsageError
            If `part` is no number from 0 to 1.
        """
        real = isinstance(part, int | float | np.floating) and not isinstance(part, bool)
        if not real or not 0 <= part <= 1:
            raise UsageError("part", part, "a number from 0 to 1")
        at = int(np.searchsorted(self.cumulative, part - 1e-12))
        return float(self.grid[min(at, self.grid.size - 1)])

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per point: value, estimate."""
        pairs = zip(self.grid.tolist(), self.values.tolist(), strict=True)
        return [{"value": value, "estimate": estimate} for value, estimate in pairs]


def expectation_maximisation(
    counts: NDArray[np.int64], window: Window, smooth: bool, tolerance: float, limit: int
) -> tuple[Vector, int, bool, float]:
    """Return the frequencies of the codes, the steps made, whether they rest, and the likelihood.

    One step costs O(cells): a window's probabilities are two constants, so sums over windows are
    differences of cumulative sums. `tolerance` is on the gain in log-likelihood of all reports.
    """
    near, far = float(window.near), float(window.far)
    steps, stride, width = window.steps, window.stride, window.width
    users = int(counts.sum())
    observed = counts.astype(np.float64)
    # Cell y lies in the windows of the codes from `first` to `last - 1`.
    cells = np.arange(window.cells)
    first = np.maximum(-((width - 1 - cells) // stride), 0)
    last = np.minimum(cells // stride, steps) + 1
    starts = stride * np.arange(steps + 1)
    found = np.full(steps + 1, 1 / (steps + 1))
    before = -np.inf
    for done in range(1, limit + 1):
        ahead = np.concatenate([[0.0], np.cumsum(found)])
        inside = np.maximum(ahead[last] - ahead[first], 0.0)
        expected = far * ahead[-1] + (near - far) * inside
        likelihood = float(observed @ np.log(expected))
        if likelihood - before < tolerance and (done > 2 or not smooth):
            return found, done - 1, True, likelihood / users
        before = likelihood
        parts = observed / expected
        sums = np.concatenate([[0.0], np.cumsum(parts)])
        found = found * (far * sums[-1] + (near - far) * (sums[starts + width] - sums[starts]))
        found /= found.sum()
        if smooth:
            found = smoothed(found)
    return found, limit, False, before / users


def smoothed(values: Vector) -> Vector:
    """Return each value mixed with its neighbours, (1, 2, 1) / 4; what would leave stays."""
    wide = np.concatenate([values[:1], values, values[-1:]])
    return np.asarray((wide[:-2] + 2 * wide[1:-1] + wide[2:]) / 4, np.float64)
