"""Histogram encoding: a one-hot vector with noise on each coordinate; added up, or thresholded."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.base import Columns, FrequencyOracle
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import BitPair, ceiling, exp_lower, exp_upper, log_upper
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State
from privagg.mechanisms.unary import UnaryEncoding

__all__ = ["SHE", "THE", "discrete_laplace"]

_SCALE = 16
"""Grid points in the noise's scale, 2 / epsilon: at least so many."""

_REACH = 18
"""Where the grid ends, in scales: beyond lies e**-18 of the noise."""

_MAX_POINTS = 2**16

_LOW = 1e-3
"""The smallest epsilon of THE: its bits must differ by more than the rounding of thresholds."""


class SHE(FrequencyOracle):
    """Summation with histogram encoding: Laplace noise of scale 2 / epsilon on every coordinate.

    The coordinates, 1 for the value and 0 elsewhere, lie `steps` points apart on a grid, and the
    noise is discrete: P(noise = j) is as ``e**(-epsilon |j| / (2 steps))``, cut off after
    18 scales on either side, where what is beyond goes to the last point. Two values differ in two
    coordinates, each of which has ratio e**(epsilon/2) at most, exactly.

    Source: Wang et al., USENIX Security 2017, section 4.1; the noise is Dwork's et al., TCC 2006.
    n Var is nearly 8 / epsilon**2; here it is computed from the table. Every other oracle has less:
    it is here for comparison.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If epsilon cannot be realised: from 0.002 to 30 it can.
    """

    name = "she"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        if not 0.002 <= self.epsilon <= 30:
            raise UsageError("epsilon", epsilon, "0.002 to 30 for SHE")
        # The scale in steps is 2 steps / epsilon.
        self._steps = max(1, math.ceil(_SCALE * self.epsilon / 2))
        self._channel = discrete_laplace(self._steps, self.epsilon / 2)
        (self._mean, self._spread), (mean, spread) = self._channel.moments(
            np.arange(self._channel.outputs)
        )
        self._gap, self._own = mean - self._mean, spread

    @property
    def channel(self) -> Channel:
        """The noise of a coordinate that is 0 (first row) and of one that is 1; exact."""
        return self._channel

    @property
    def ratio(self) -> Fraction:
        """The product of both coordinates' largest ratios, exactly."""
        zero, one = self._channel.counts.tolist()
        pairs = list(zip(zero, one, strict=True))
        up = max(Fraction(b, a) for a, b in pairs)
        return up * max(Fraction(a, b) for a, b in pairs)

    @property
    def thresholds(self) -> dict[str, int]:
        """The counts of a coordinate that is 0, and how far up a coordinate that is 1 lies."""
        counts = self._channel.counts[0].tolist()
        return {"steps": self._steps, **{f"count_{at}": count for at, count in enumerate(counts)}}

    @property
    def layout(self) -> tuple[Column, ...]:
        """A point of the grid for each value."""
        points = self._channel.outputs
        return (Column("points", (points - 1).bit_length(), count=self.k, limit=points),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: the sum of the points of each value."""
        return self.k

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        hot = np.zeros((codes.size, self.k), np.uint32)
        hot[np.arange(codes.size), codes] = 1
        return (self._channel.sample(hot.reshape(-1), draws).reshape(hot.shape),)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        total: NDArray[np.int64] = columns[0].sum(axis=0, dtype=np.int64)
        return total

    def _raw(self, state: State) -> Vector:
        mean = state.sums / state.users
        return np.asarray((mean - float(self._mean)) / float(self._gap), np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        own, other = float(self._own / self._gap**2), float(self._spread / self._gap**2)
        return frequencies * own + (1 - frequencies) * other

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        most = users * (self._channel.outputs - 1)
        if int(sums.min()) < 0 or int(sums.max()) > most:
            return f"expected sums from 0 to {most}"
        return ""


def discrete_laplace(steps: int, epsilon: float) -> Channel:
    """Return the channel of 0 and of `steps` under discrete Laplace noise, on a grid cut off.

    The two rows mirror one another. The grid reaches 18 scales (of steps / epsilon points) beyond
    both inputs, and the last points carry what lies beyond them.

    Raises
    ------
    UsageError
        If the grid would have more than 65,536 points.
    """
    reach = math.ceil(_REACH * steps / epsilon)
    points = steps + 2 * reach + 1
    if points > _MAX_POINTS:
        raise UsageError("epsilon", epsilon, f"a grid of at most {_MAX_POINTS} points")
    decay = epsilon / steps
    distance = np.abs(np.arange(points) - reach)
    weights = np.exp(-decay * distance)
    ratio = math.exp(-decay)
    weights[0] = weights[0] / (1 - ratio)
    weights[-1] = weights[-1] / (1 - ratio)
    row = weights / weights.sum()
    return Channel.build(np.stack([row, row[::-1]]), epsilon)


class THE(UnaryEncoding):
    """Thresholding with histogram encoding: which coordinates of SHE are above a threshold.

    With the threshold t between 1/2 and 1 the bits are 1 with p = 1 - e**(epsilon (t - 1) / 2) / 2
    at the value and q = e**(-epsilon t / 2) / 2 elsewhere. Respondents threshold before they
    report, so these bits are all that anyone sees: `epsilon_realised` is what the bits have, which
    is less than the noise before the threshold had. Unary encoding with the same epsilon uses it
    all and has less error; this is here for comparison.

    Source: Wang et al., USENIX Security 2017, section 4.1; t minimises the variance at frequency 0.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If epsilon is not from 0.001 to 60.
    """

    name = "the"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        self._threshold = 0.0
        super().__init__(domain, epsilon)

    def _choose(self) -> BitPair:
        if not _LOW <= self.epsilon <= 60:
            raise UsageError("epsilon", self.epsilon, f"{_LOW:g} to 60 for THE")
        self._threshold = _best_threshold(self.epsilon)
        half, t = Fraction(self.epsilon) / 2, Fraction(self._threshold)
        # Rounded so that neither bit is more likely to tell than in the formulas.
        one = int(2**64 * (1 - 1 / exp_lower(half * (1 - t)) / 2))
        zero = ceiling(2**64 / exp_lower(half * t) / 2)
        pair = BitPair(64, one, zero)
        if pair.ratio > exp_upper(self.epsilon):
            raise AssertionError("thresholding cannot cost privacy")
        return pair

    @property
    def threshold(self) -> float:
        """The threshold between 1/2 and 1."""
        return self._threshold

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {}

    @property
    def noise_epsilon(self) -> float:
        """The epsilon of the noise before the threshold; what the bits have is less."""
        return log_upper(exp_lower(self.epsilon))


def _best_threshold(epsilon: float) -> float:
    """Return the threshold with the least variance at frequency 0, by golden section."""

    def variance(t: float) -> float:
        p = 1 - math.exp(epsilon * (t - 1) / 2) / 2
        q = math.exp(-epsilon * t / 2) / 2
        return q * (1 - q) / (p - q) ** 2

    low, high = 0.5, 1.0
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if variance(left) < variance(right):
            high = right
        else:
            low = left
    return round((low + high) / 2, 6)
