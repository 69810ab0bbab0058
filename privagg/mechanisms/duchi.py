"""One bit for a number: Duchi's mechanism; and its mixture with the piecewise one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Floats, Integers
from privagg.domain.base import Codes
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.base import Columns
from privagg.mechanisms.exact import ceiling, exp_lower, realise
from privagg.mechanisms.numeric import NumericMechanism, check_range
from privagg.mechanisms.state import State
from privagg.mechanisms.window import Piecewise

__all__ = ["Duchi", "Hybrid"]

_MIXED_FROM = 0.61
"""Below, Duchi's mechanism alone has the least worst-case variance."""

_COIN = 32


@dataclass(frozen=True)
class _Ramp:
    """A bit that is 1 for ``(2**bits - steps * slope) / 2 + code * slope`` of all words.

    Attributes
    ----------
    steps, bits, slope : int
        `steps * slope` is even, and the line is symmetric about 1/2.
    """

    steps: int
    bits: int
    slope: int

    @property
    def low(self) -> int:
        """How many words set the bit of code 0, or clear that of the last code."""
        return ((1 << self.bits) - self.steps * self.slope) // 2

    @cached_property
    def ratio(self) -> Fraction:
        """How much likelier a bit is for one end than for the other."""
        return Fraction(2**self.bits - self.low, self.low)

    @property
    def gain(self) -> Fraction:
        """How much of t the bit stands for."""
        return Fraction(2 ** (self.bits + 1), self.steps * self.slope)

    def chance(self, code: int) -> Fraction:
        """Return the probability that the bit of a code is 1."""
        return Fraction(self.low + code * self.slope, 2**self.bits)

    def sample(self, codes: Codes, draws: Draws) -> NDArray[np.bool_]:
        """Return a bit for each code."""
        words = draws.words(codes.size, self.bits)
        ends = codes.astype(words.dtype) * words.dtype.type(self.slope)
        found: NDArray[np.bool_] = words < ends + words.dtype.type(self.low)
        return found


def _ramp(steps: int, epsilon: float) -> _Ramp:
    """Return the steepest ramp between 1 / (e**epsilon + 1) and its complement."""

    def make(stated: float, bits: int) -> _Ramp | None:
        slope = (2**bits - 2 * ceiling(2**bits / (exp_lower(stated) + 1))) // steps
        slope -= slope * steps % 2
        made = _Ramp(steps, bits, slope)
        return made if slope > 0 and made.low > 0 else None

    return realise(make, epsilon)


class Duchi(NumericMechanism):
    """Duchi's mechanism: one bit, the likelier to be 1 the larger the value.

    The bit of t, from -1 to 1, is 1 with probability 1/2 + t (e - 1) / (2 (e + 1)), with e =
    e**epsilon. n Var = ((e + 1) / (e - 1))**2 - t**2: the least in the worst case up to epsilon
    0.61, and the shortest report. One bit does not tell the values' variance: intervals take
    the largest that the mean allows.

    Source: Duchi, Jordan, Wainwright, "Minimax Optimal Procedures for Locally Private Estimation",
    JASA 2018; in the form of Wang et al., ICDE 2019, algorithm 1.

    Parameters
    ----------
    domain : Integers or Floats
        The declared range.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If an argument is not as described, or epsilon cannot be realised.
    """

    name = "duchi"

    def __init__(self, domain: Integers | Floats, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        self._ramp = _ramp(self.steps, self.epsilon)

    @property
    def ratio(self) -> Fraction:
        """How much likelier a bit is for one end of the range than for the other."""
        return self._ramp.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, and how many more of them set the bit for each step."""
        return {"bits": self._ramp.bits, "slope": self._ramp.slope}

    @property
    def cells(self) -> int:
        """Two: a report is a bit."""
        return 2

    @property
    def gain(self) -> Fraction:
        """How much of t the bit stands for."""
        return self._ramp.gain

    @property
    def curve(self) -> tuple[float, float]:
        """The variance of one report's estimate of t: ``curve[0] * t**2 + curve[1]``."""
        return -1.0, float(self.gain**2 / 4)

    def probabilities(self) -> list[list[Fraction]]:
        """Return P(report | code), a row for each code; exact."""
        ones = [self._ramp.chance(code) for code in range(self.k)]
        return [[1 - one, one] for one in ones]

    def _cells(self, codes: Codes, draws: Draws) -> NDArray[np.bool_]:
        return self._ramp.sample(codes, draws)


class Hybrid(NumericMechanism):
    """The hybrid mechanism: piecewise with probability 1 - e**(-epsilon / 2), else Duchi's.

    Up to epsilon 0.61 always Duchi's. The coin does not depend on the value, and the report shows
    it. n Var hardly depends on the value, and in the worst case is less than either's.

    Source: Wang et al., ICDE 2019, section III-C.

    Parameters
    ----------
    domain : Integers or Floats
        The declared range.
    epsilon : float
        The privacy parameter of one report, 0.001 to 20; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If an argument is not as described, or a report's grid would be too large.
    """

    name = "hybrid"

    def __init__(self, domain: Integers | Floats, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        check_range(self.epsilon, 1e-3, 20, "the hybrid mechanism")
        self._ramp = _ramp(self.steps, self.epsilon)
        self._piecewise = Piecewise(domain, self.epsilon)
        mixed = self.epsilon > _MIXED_FROM
        self._coin = round(2**_COIN * (1 - math.exp(-self.epsilon / 2))) if mixed else 0

    @property
    def alpha(self) -> Fraction:
        """Probability of the piecewise mechanism; exact."""
        return Fraction(self._coin, 2**_COIN)

    @property
    def ratio(self) -> Fraction:
        """The larger of both mechanisms' ratios."""
        return max(self._piecewise.ratio, self._ramp.ratio) if self._coin else self._ramp.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """The integers of coin, bit and window."""
        found = {"coin": self._coin, "bits_of_bit": self._ramp.bits, "slope": self._ramp.slope}
        return {**found, **self._piecewise.thresholds}

    @property
    def cells(self) -> int:
        """How many different reports there are: the bit's two, then any piecewise cells."""
        return 2 + self._piecewise.cells if self._coin else 2

    @property
    def gain(self) -> Fraction:
        """How much of t one piecewise cell stands for."""
        return self._piecewise.gain

    @property
    def curve(self) -> tuple[float, float]:
        """The variance of one report's estimate of t: ``curve[0] * t**2 + curve[1]``."""
        alpha = float(self.alpha)
        curve, floor = self._piecewise.curve
        bit = float(self._ramp.gain**2 / 4)
        return alpha * curve - (1 - alpha), alpha * floor + (1 - alpha) * bit

    @property
    def sums_size(self) -> int:
        """How many sums a state has: bits, bits that are 1, and the piecewise cells' three."""
        return 5

    def probabilities(self) -> list[list[Fraction]]:
        """Return P(report | code), a row for each code; exact."""
        alpha = self.alpha
        ones = [(1 - alpha) * self._ramp.chance(code) for code in range(self.k)]
        bits = [[1 - alpha - one, one] for one in ones]
        if not self._coin:
            return bits
        windows = self._piecewise.probabilities()
        scaled = [[alpha * chance for chance in row] for row in windows]
        return [bit + row for bit, row in zip(bits, scaled, strict=True)]

    def _cells(self, codes: Codes, draws: Draws) -> NDArray[Any]:
        window = draws.words(codes.size, _COIN) < self._coin
        bits = self._ramp.sample(codes, draws)
        return np.where(window, 2 + self._piecewise._cells(codes, draws), bits)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        cells = columns[0]
        window = cells[cells > 1].astype(np.int64) - 2
        bits = [cells.size - window.size, int((cells == 1).sum())]
        return np.array([*bits, *super()._sums((window,)).tolist()], np.int64)

    def _moments(self, state: State) -> tuple[Fraction, Fraction]:
        bits, ones, first, high, low = state.sums.tolist()
        users = state.users
        edge = self._ramp.gain / 2
        mean = edge * Fraction(2 * ones - bits, users)
        square = edge**2 * Fraction(bits, users)
        if bits < users:
            window = State(state.digest, users - bits, np.array([first, high, low], np.int64))
            inner = self._piecewise._moments(window)
            mean += inner[0] * Fraction(users - bits, users)
            square += inner[1] * Fraction(users - bits, users)
        return mean, square

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        bits, ones, first, high, low = sums.tolist()
        if not 0 <= ones <= bits <= users or (bits < users and not self._coin):
            return f"expected at most {users} bits, the number of reports, and no more ones"
        return self._piecewise._flaw_of_powers(users - bits, first, high, low)
