"""Integer noise on the sums of bags, and the exact guarantee that it gives.

Responses become whole steps between the ends of the clipping range before anything else happens to
them, so that sums are integers and one replaced response moves each of its bags' sums by at most
`steps`. Noise is integer and drawn exactly. What follows is arithmetic on public numbers.

- Laplace: one response moves `moved` sums (its bags; of a histogram two cells in each) by `steps`
  in all, P(j) proportional to ``exp(-epsilon |j| / (moved steps))`` has a ratio of at most
  ``e^epsilon``.
- Gaussian: the privacy loss depends on the sum of the noise of the moved cells only, whose law is a
  convolution; delta is summed up over it. The standard deviation begins at that of continuous noise
  (Balle, Wang, ICML 2018) and grows until delta is met.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privagg.accounting.gaussian import analytic_sigma
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.discrete_laplace import LARGEST_SCALE, discrete_laplace
from privagg.mechanisms.integer_noise import MAX_SIGMA, integer_noise

__all__ = ["Noise", "gaussian_delta", "gaussian_noise", "laplace_noise", "steps_for"]

_MOST_STEPS = 256
_SIGMA = 96
"""Gaussian noise of about so many steps: finer grids take longer tables and change nothing."""

_GROWTHS = (1.0, *(1 + 2.0**power for power in (-20, -16, -13, -10, -8, -6, -5, -4, -3, -2, -1, 0)))


class Noise(Protocol):
    """Integer noise with mean 0."""

    @property
    def variance(self) -> float:
        """Its variance, in squared steps."""

    def sample(self, count: int, draws: Draws) -> NDArray[np.int64]:
        """Return that many independent numbers.

        Parameters
        ----------
        count : int
            How many.
        draws : Draws
            Uniform words.

        Returns
        -------
        (count,) int64 array
        """


def steps_for(epsilon: float, delta: float, moved: int) -> int:
    """Return how many steps to divide a range into, so that rounding is small beside the noise.

    Parameters
    ----------
    epsilon : float
        Of the release.
    delta : float
        From 0 to below 1.
    moved : int
        How many sums one row's change can move.
    """
    if delta == 0:
        most = LARGEST_SCALE * epsilon / moved
    else:
        most = _SIGMA / analytic_sigma(math.sqrt(moved), epsilon, delta)
    return max(1, min(_MOST_STEPS, int(most)))


def laplace_noise(epsilon: float, steps: int, moved: int) -> Noise:
    """Return the noise with which `moved` sums that move by up to `steps` each have epsilon.

    Parameters
    ----------
    epsilon : float
        Above 0.
    steps : int
        How many steps the range has.
    moved : int
        How many sums one row's change can move.

    Raises
    ------
    UsageError
        If epsilon is so small, or so large, that the noise has no table.
    """
    decay = Fraction(epsilon) / (steps * moved)
    if not Fraction(1, LARGEST_SCALE) <= decay <= 64:
        low, high = steps * moved / LARGEST_SCALE, 64.0 * steps * moved
        raise UsageError("epsilon", epsilon, f"{low:.3g} to {high:.3g} with {steps} steps")
    return discrete_laplace(decay)


def gaussian_noise(epsilon: float, delta: float, steps: int, moved: int) -> tuple[Noise, float]:
    """Return discrete Gaussian noise for epsilon and delta, and the delta that it has.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        From 0 to below 1.
    steps : int
        How many steps the range has.
    moved : int
        How many sums one row's change can move.

    Raises
    ------
    UsageError
        If no noise does it.
    """
    least = analytic_sigma(steps * math.sqrt(moved), epsilon, delta)
    for growth in _GROWTHS:
        variance = max((least * growth) ** 2, 0.0625)
        if variance > MAX_SIGMA**2:
            break
        found = gaussian_delta(variance, epsilon, steps, moved)
        if found <= delta:
            return _Gaussian(variance, integer_noise("discrete-gaussian", variance)), found
    raise UsageError("epsilon", epsilon, f"what noise of up to {MAX_SIGMA:g} steps gives")


def gaussian_delta(variance: float, epsilon: float, steps: int, moved: int) -> float:
    """Return delta of discrete Gaussian noise on `moved` sums that all move by `steps`.

    With z the sum of the moved cells' noise, the loss is ``steps (2 z + moved steps) / (2 v)``: z
    is sufficient, its law log-concave, so smaller moves have less. The result is rounded up.

    Parameters
    ----------
    variance : float
        The parameter v.
    epsilon : float
    steps, moved : int
    """
    reach = math.ceil(9 * math.sqrt(variance)) + 1
    at = np.arange(-reach, reach + 1, dtype=np.float64)
    table = np.exp(-at * at / (2 * variance))
    table /= table.sum()
    law = np.ones(1)
    for _ in range(moved):
        law = np.convolve(law, table)
    z = np.arange(law.size) - (law.size - 1) / 2
    loss = steps * (2 * z + moved * steps) / (2 * variance)
    beyond = loss > epsilon
    found = float((law[beyond] * -np.expm1(epsilon - loss[beyond])).sum())
    # What the table leaves out (2 exp(-81/2) for each cell), and what floats round.
    return found * (1 + 1e-9) + moved * 1e-17


class _Gaussian:
    """Discrete Gaussian noise, and its variance; the parameter is it, but for small ones."""

    def __init__(self, parameter: float, noise: _Sampler) -> None:
        self._noise = noise
        reach = math.ceil(9 * math.sqrt(parameter)) + 1
        squares = np.arange(-reach, reach + 1, dtype=np.float64) ** 2
        weights = np.exp(-squares / (2 * parameter))
        self.variance = float((weights * squares).sum() / weights.sum())

    def sample(self, count: int, draws: Draws) -> NDArray[np.int64]:
        """Return that many independent numbers."""
        return self._noise.sample(count, draws)


class _Sampler(Protocol):
    def sample(self, count: int, draws: Draws) -> NDArray[np.int64]: ...
