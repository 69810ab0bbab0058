"""Noise added on a grid: discrete Laplace, and discrete Gaussian with its delta summed up.

The noise is a table of counts out of 2**64, one for each distance in steps of the domain, so that
what is added is drawn exactly. The sum is cut off at the ends of a grid that reaches far beyond
the domain, where the end takes what lies beyond: a function of the sum alone, which costs no
privacy, and moves the mean by less than e**-18 of the noise's scale.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg.accounting.gaussian import analytic_sigma
from privagg.domain import Floats, Integers
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.tables import looked_up, looked_up_plain
from privagg.mechanisms.exact import exp_lower
from privagg.mechanisms.numeric import NumericMechanism, check_cells, check_range

__all__ = ["Gaussian", "Laplace", "Noise"]

_WHOLE = 2**64
_REACH = 20
"""How far the grid of Laplace reports reaches beyond the domain, in scales of the noise."""

_SIGMAS = 8
"""The same for Gaussian ones, in standard deviations."""

_LOSSES = (0.0, *(2.0**power for power in (-40, -28, -20, -16, -14, -12)))
"""Which part of epsilon is given up for the rounding of counts, until it is enough."""

_GROWTHS = (0.0, *(2.0**power for power in (-28, -24, -20, -16, -13, -11, *range(-9, 1))))
"""How much larger than continuous noise the discrete one is, until its delta is small enough."""


class Noise:
    """Symmetric noise on a grid, added to a code and cut off at the grid's ends.

    Parameters
    ----------
    half : list of int
        Counts of the distances 0, 1, 2, ..., none larger than the one before but for the last,
        which is cut off from any code and stands for all beyond; twice their sum, less the first,
        is 2**64.
    steps : int
        The largest code.
    """

    def __init__(self, half: list[int], steps: int) -> None:
        if len(half) < steps + 2 or min(half) < 0 or sum(half) * 2 - half[0] != _WHOLE:
            raise ValueError("expected counts beyond the domain, which add up to 2**64")
        self._half = np.array(half, np.uint64)
        if bool((self._half[1:-1] > self._half[:-2]).any()):
            raise ValueError("expected counts that fall")
        self.steps = steps
        self.reach = len(half) - 1 - steps
        table = np.concatenate([self._half[:0:-1], self._half])
        self._ends = np.cumsum(table)[None, :-1].copy()

    @property
    def half(self) -> list[int]:
        """The counts of the distances 0, 1, 2, ..."""
        found: list[int] = self._half.tolist()
        return found

    @property
    def cells(self) -> int:
        """How many different sums there are."""
        return self.steps + 2 * self.reach + 1

    @cached_property
    def variance(self) -> float:
        """The variance of the noise, in squared steps."""
        total = sum(count * at * at for at, count in enumerate(self.half))
        return float(Fraction(2 * total, _WHOLE))

    @cached_property
    def ratio(self) -> Fraction | None:
        """The largest ratio of the probabilities of a sum under two codes; None is infinite.

        The counts fall on either side, so a sum within the grid is likelier for the nearer of two
        codes, and most so for codes that are all steps apart and on one side of it; the two ends
        take tails.
        """
        half, steps = self._half[:-1], self.steps  # the last only ever leads to an end
        if int(half[-1]) == 0 or int(self._half[-1]) == 0:
            return None
        near, far = half[: len(half) - steps], half[steps:]
        rough = near.astype(np.longdouble) / far.astype(np.longdouble)
        # The exact comparison is among those that rounding cannot tell apart.
        close = np.flatnonzero(rough >= rough.max() * (1 - np.longdouble(1e-15)))
        pairs = {(int(near[at]), int(far[at])) for at in close}
        counts = self.half
        tail = sum(counts[self.reach + steps :])
        pairs.add((sum(counts[self.reach :]), tail))
        return max(Fraction(one, other) for one, other in pairs)

    def delta(self, weight: Fraction) -> Fraction:
        """Return the sum over y of max(0, P(y | 0) - weight P(y | steps)); exact."""
        ones, others = (np.array(self.row(code), np.uint64) for code in (0, self.steps))
        gap = ones.astype(np.longdouble) - np.longdouble(float(weight)) * others
        # What rounding cannot tell from 0 is compared exactly, one by one.
        unsure = np.abs(gap) <= ones * np.longdouble(1e-12)
        sure = (gap > 0) & ~unsure
        numerator, denominator = weight.numerator, weight.denominator
        found = _sum(ones[sure]) * denominator - _sum(others[sure]) * numerator
        for one, other in zip(ones[unsure].tolist(), others[unsure].tolist(), strict=True):
            found += max(0, one * denominator - numerator * other)
        return Fraction(found, denominator * _WHOLE)

    def row(self, code: int) -> list[int]:
        """Return how many of 2**64 words lead from a code to each cell."""
        counts = self.half
        table = counts[:0:-1] + counts  # of noise from -(reach + steps) on
        first = self.steps - code  # the noise that leads to cell 0, and all before it
        inner = table[first : first + self.cells]
        inner[0] += sum(table[:first])
        inner[-1] += sum(table[first + self.cells :])
        return inner

    def sample(self, codes: Codes, draws: Draws) -> NDArray[np.int64]:
        """Return a cell for each code."""
        words = draws.words64(codes.size)
        zeros = np.zeros(codes.size, np.uint32)
        at = np.empty(codes.size, np.uint32)
        if JIT:
            looked_up(zeros, words, self._ends, at)
        else:
            at = looked_up_plain(zeros, words, self._ends)
        # Index i is noise i - (reach + steps), and cell 0 is -reach.
        cells = codes.astype(np.int64) + at.astype(np.int64) - self.steps
        found: NDArray[np.int64] = np.clip(cells, 0, self.cells - 1)
        return found


def _sum(counts: NDArray[np.uint64]) -> int:
    """Return the sum of counts, which may be 2**64."""
    low = int((counts & np.uint64(0xFFFFFFFF)).sum())
    return (int((counts >> np.uint64(32)).sum()) << 32) + low


def _noise(weights: NDArray[np.float64], steps: int) -> Noise:
    """Return the noise whose counts are nearest below weights; what is left over is no noise."""
    total = 2 * weights.sum() - weights[0]
    half = [int(weight * 2.0**64) for weight in (weights / total).tolist()]
    half[0] += _WHOLE - (2 * sum(half) - half[0])
    return Noise(half, steps)


class _Additive(NumericMechanism):
    """What both noises share."""

    _noise: Noise

    @property
    def noise(self) -> Noise:
        """The table of the noise, exact."""
        return self._noise

    @property
    def thresholds(self) -> dict[str, int]:
        """How far the grid reaches, and SHA-256 of the counts, which are many."""
        table = np.array(self._noise.half, "<u8").tobytes()
        digest = int.from_bytes(hashlib.sha256(table).digest())
        return {"reach": self._noise.reach, "counts_sha256": digest}

    @property
    def cells(self) -> int:
        """How many different reports there are."""
        return self._noise.cells

    @property
    def gain(self) -> Fraction:
        """How much of t, which is 2 wide, one cell stands for: a step of the domain."""
        return Fraction(2, self.steps)

    @property
    def curve(self) -> tuple[float, float]:
        """The variance of one report's estimate of t: ``curve[0] * t**2 + curve[1]``."""
        return 0.0, self._noise.variance * float(self.gain) ** 2

    def probabilities(self) -> list[list[Fraction]]:
        """Return P(report | code), a row for each code; exact."""
        codes = range(self.k)
        return [[Fraction(count, _WHOLE) for count in self._noise.row(code)] for code in codes]

    def _cells(self, codes: Codes, draws: Draws) -> NDArray[Any]:
        return self._noise.sample(codes, draws)


class Laplace(_Additive):
    """Laplace noise on the domain's grid, ``P(noise = j)`` as ``e**(-epsilon |j| / steps)``.

    n Var is nearly 8 / epsilon**2 for values t from -1 to 1, whatever they are. The other
    mechanisms have less; this is the one to compare with, and the one whose noise is known.

    Source: Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity in Private Data
    Analysis", TCC 2006; on a grid as by Ghosh, Roughgarden, Sundararajan, STOC 2009.

    Parameters
    ----------
    domain : Integers or Floats
        The declared range. At most 2**21 cells: about steps / epsilon up to 50,000.
    epsilon : float
        The privacy parameter of one report, 0.001 to 12; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If an argument is not as described, or a report's grid would be too large.
    """

    name = "laplace"

    def __init__(self, domain: Integers | Floats, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        check_range(self.epsilon, 1e-3, 12, "Laplace noise")
        reach = math.ceil(_REACH * self.steps / self.epsilon)
        check_cells(self.steps + 2 * reach + 1, self.steps)
        distances = np.arange(reach + self.steps + 1, dtype=np.float64)
        bound = exp_lower(self.epsilon)
        for loss in _LOSSES:
            decay = self.epsilon * (1 - loss) / self.steps
            weights = np.exp(-decay * distances)
            weights[-1] /= -math.expm1(-decay)
            made = _noise(weights, self.steps)
            ratio = made.ratio
            if ratio is not None and ratio <= bound:
                self._noise, self._ratio = made, ratio
                return
        raise UsageError("epsilon", epsilon, "what 64-bit counts can realise", "Take fewer steps.")

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under two values."""
        return self._ratio


class Gaussian(_Additive):
    """Gaussian noise on the domain's grid: (epsilon, delta)-local differential privacy.

    The guarantee is weaker than that of all others here: for any two values x, x' and any set S of
    reports P(S | x) <= e**epsilon P(S | x') + delta. The noise is the smallest for which that
    holds, for every epsilon (the classical formula needs epsilon up to 1). ``delta_realised`` is
    summed up over the discrete table, exactly.

    Source: Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy: Analytical
    Calibration and Optimal Denoising", ICML 2018, theorem 8; on a grid as by Canonne, Kamath,
    Steinke, NeurIPS 2020.

    Parameters
    ----------
    domain : Integers or Floats
        The declared range. At most 2**21 cells.
    epsilon : float
        The privacy parameter of one report, 0.001 to 12.
    delta : float
        What the bound may be missed by, 1e-10 to 0.1. Adjacency: one respondent's value replaced
        by any other.

    Raises
    ------
    UsageError
        If an argument is not as described, or a report's grid would be too large.
    """

    name = "gaussian"

    def __init__(self, domain: Integers | Floats, epsilon: float, delta: float = 1e-6) -> None:
        super().__init__(domain, epsilon)
        check_range(self.epsilon, 1e-3, 12, "Gaussian noise")
        real = isinstance(delta, float | np.floating) and 1e-10 <= delta <= 0.1
        if not real:
            raise UsageError("delta", delta, "1e-10 to 0.1")
        self._delta = float(delta)
        self._weight = exp_lower(self.epsilon)
        least = analytic_sigma(self.steps, self.epsilon, self._delta)
        for growth in _GROWTHS:
            sigma = least * (1 + growth)
            check_cells(self.steps + 2 * math.ceil(_SIGMAS * sigma) + 1, self.steps)
            distances = np.arange(math.ceil(_SIGMAS * sigma) + self.steps + 1, dtype=np.float64)
            made = _noise(np.exp(-0.5 * (distances / sigma) ** 2), self.steps)
            found = self._delta_of(made)
            if found <= self._delta:
                self._noise, self._sigma, self._realised = made, sigma, found
                return
        raise UsageError("delta", delta, "what 64-bit counts can realise", "Take a larger delta.")

    def _delta_of(self, noise: Noise) -> Fraction:
        """Return delta at epsilon of any two values.

        The two ends of the domain are the worst for log-concave noise, and theirs is exact. The
        counts are log-concave but for rounding, each by 1 and a float's last digits; what that can
        add for two other values is added here.
        """
        slack = Fraction(4 * (noise.cells + self.steps) + 2**16, _WHOLE) * (1 + self._weight)
        return noise.delta(self._weight) + slack

    @property
    def delta(self) -> float:
        """The stated delta."""
        return self._delta

    @cached_property
    def epsilon_realised(self) -> float:
        """The stated epsilon: what is realised exactly is `delta_realised`, at it."""
        return self.epsilon

    @property
    def delta_realised(self) -> float:
        """Delta at the stated epsilon, summed up over all reports; never above `delta`."""
        return min(math.nextafter(float(self._realised), 1), self._delta)

    @property
    def sigma(self) -> float:
        """The noise's standard deviation, in the domain's units."""
        return float(self._sigma / self.steps * (self._range.high - self._range.low))

    @property
    def ratio(self) -> Fraction:
        """The ratio that holds but for `delta`: e**epsilon, rounded down."""
        return self._weight

    @property
    def options(self) -> dict[str, Any]:
        """The argument `delta`."""
        return {"delta": self._delta}
