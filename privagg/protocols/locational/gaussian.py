"""Gaussian noise on the one-hot vector of cells: the weakest of the guarantees, and the most noise.

Two respondents' vectors differ in two entries, each by one: the L2 sensitivity is the square root
of 2. The noise is discrete, drawn exactly from a table of counts, and its delta is summed up over
both entries together.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.accounting import analytic_sigma
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.additive import Noise
from privagg.mechanisms.base import Columns, FrequencyOracle
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import exp_lower
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State

__all__ = ["OneHotGaussian", "delta_of_two"]

_WHOLE = 2**64
_SIGMAS = 8
_GROWTHS = (0.0, *(2.0**power for power in (-28, -24, -20, -16, -13, -11, *range(-9, 2))))
"""How much larger than continuous noise the discrete one is, until its delta is small enough."""

_TILE = 1 << 20
_LARGEST = 2**16


class OneHotGaussian(FrequencyOracle):
    """Discrete Gaussian noise on every entry of the one-hot vector.

    Guarantee: (epsilon, delta)-local differential privacy, weaker than that of all others here; for
    any two values and any set S of reports P(S | x) <= e**epsilon P(S | x') + delta. Adjacency: one
    respondent's value replaced by any other. n Var is the noise's variance, about
    2 sigma(1)**2 with sigma(1) of sensitivity 1, whatever the frequency. A report has an entry for
    each cell.

    Source: Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018,
    theorem 8, for the sigma to start from; Canonne, Kamath, Steinke, "The Discrete Gaussian for
    Differential Privacy", NeurIPS 2020.

    Parameters
    ----------
    domain : Domain
        The declared cells, at most 2**16.
    epsilon : float
        0.01 to 20.
    delta : float
        What the bound may be missed by, 1e-10 to 0.1.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """

    name = "gaussian-one-hot"

    def __init__(self, domain: Domain, epsilon: float, delta: float = 1e-6) -> None:
        super().__init__(domain, epsilon)
        if not 0.01 <= self.epsilon <= 20:
            raise UsageError("epsilon", epsilon, "0.01 to 20 with Gaussian noise")
        real = isinstance(delta, float | np.floating) and 1e-10 <= delta <= 0.1
        if not real:
            raise UsageError("delta", delta, "1e-10 to 0.1")
        if self.k > _LARGEST:
            raise UsageError("domain", f"{self.k} cells", f"up to {_LARGEST} with Gaussian noise")
        self._delta = float(delta)
        self._weight = exp_lower(self.epsilon)
        least = analytic_sigma(math.sqrt(2), self.epsilon, self._delta)
        for growth in _GROWTHS:
            sigma = least * (1 + growth)
            noise = _noise(sigma)
            found = delta_of_two(noise, self._weight)
            if found <= self._delta:
                self._noise, self._sigma, self._realised = noise, sigma, found
                return
        raise UsageError("delta", delta, "what 64-bit counts can realise", "Take a larger delta.")

    @property
    def options(self) -> dict[str, Any]:
        """The argument `delta`."""
        return {"delta": self._delta}

    @property
    def noise(self) -> Noise:
        """The table of the noise, exact."""
        return self._noise

    @property
    def sigma(self) -> float:
        """The noise's standard deviation in each entry."""
        return math.sqrt(self._noise.variance)

    @property
    def delta(self) -> float:
        """The stated delta."""
        return self._delta

    @property
    def delta_realised(self) -> float:
        """Delta at the stated epsilon, summed up over all reports; never above `delta`."""
        return min(math.nextafter(float(self._realised), 1), self._delta)

    @cached_property
    def epsilon_realised(self) -> float:
        """The stated epsilon: what is realised exactly is `delta_realised`, at it."""
        return self.epsilon

    @property
    def ratio(self) -> Fraction:
        """The ratio that holds but for `delta`: e**epsilon, rounded down."""
        return self._weight

    @property
    def thresholds(self) -> dict[str, int]:
        """How far the noise reaches, and SHA-256 of its counts."""
        digest = hashlib.sha256(np.array(self._noise.half, "<u8").tobytes()).digest()
        return {"reach": self._noise.reach, "counts_sha256": int.from_bytes(digest)}

    @property
    def layout(self) -> tuple[Column, ...]:
        """One number for each cell."""
        bits = (self._noise.cells - 1).bit_length()
        return (Column("vector", bits, count=self.k, limit=self._noise.cells),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: one for each cell."""
        return self.k

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        out = np.empty((codes.size, self.k), self.layout[0].dtype)
        rows = max(1, _TILE // self.k)
        for start in range(0, codes.size, rows):
            part = codes[start : start + rows]
            vector = np.zeros((part.size, self.k), np.uint32)
            vector[np.arange(part.size), part] = 1
            noisy = self._noise.sample(vector.reshape(-1), draws)
            out[start : start + rows] = noisy.reshape(vector.shape)
        return (out,)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return np.asarray(columns[0].sum(axis=0, dtype=np.int64))

    def _raw(self, state: State) -> Vector:
        return np.asarray(state.sums / state.users - self._noise.reach, np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        return np.full(np.shape(frequencies), self._noise.variance)

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        most = users * (self._noise.cells - 1)
        if int(sums.min()) < 0 or int(sums.max()) > most:
            return f"expected sums from 0 to {most}"
        return ""


def delta_of_two(noise: Noise, weight: Fraction) -> Fraction:
    """Return delta of two entries that change together, one from 0 to 1, one from 1 to 0; exact.

    It is the sum over pairs (a, b) of max(0, r1(a) r0(b) - weight r0(a) r1(b)), where r0 and r1 are
    the distributions of a noisy 0 and a noisy 1: sorted by r1 / r0, a's own b are a prefix.

    Parameters
    ----------
    noise : Noise
        On 0 and 1.
    weight : Fraction
        e**epsilon, rounded down.
    """
    zero, one = noise.row(0), noise.row(1)
    pairs = [(a, b) for a, b in zip(one, zero, strict=True) if a or b]
    pairs.sort(key=lambda pair: Fraction(pair[0], pair[1]) if pair[1] else math.inf)
    numerator, denominator = weight.numerator, weight.denominator
    total, ones, zeros, at = 0, 0, 0, 0
    for own_one, own_zero in pairs:
        while at < len(pairs):
            other_one, other_zero = pairs[at]
            if own_one * other_zero * denominator <= numerator * own_zero * other_one:
                break
            ones, zeros, at = ones + other_one, zeros + other_zero, at + 1
        total += own_one * zeros * denominator - numerator * own_zero * ones
    return Fraction(total, denominator * _WHOLE * _WHOLE)


def _noise(sigma: float) -> Noise:
    distances = np.arange(math.ceil(_SIGMAS * sigma) + 3, dtype=np.float64)
    weights = np.exp(-0.5 * (distances / sigma) ** 2)
    total = 2 * weights.sum() - weights[0]
    half = [int(weight * 2.0**64) for weight in (weights / total).tolist()]
    half[0] += _WHOLE - (2 * sum(half) - half[0])
    return Noise(half, 1)
