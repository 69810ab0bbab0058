"""Means of numbers: what the mechanisms on a range share.

A value is a code c of the domain's grid, 0 to N; on the way to formulas it is t = 2 c / N - 1, from
-1 to 1. A report is a cell y of a finite grid, drawn by integer thresholds, so that each P(y | c)
is a fraction of integers: epsilon can be enumerated, and no float is drawn whose low digits tell
the value. All mechanisms here are symmetric, and the mean of a cell is linear in the code, so

    u = gain (y - centre)

is an unbiased estimate of t from one report, and Var(u | t) = curve t**2 + floor, both exact.
An aggregator keeps the sum of the cells and, in two digits, that of their squares.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Floats, Integers
from privagg.domain.base import Codes
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.base import Columns, Mechanism
from privagg.mechanisms.estimate import interval_factor
from privagg.mechanisms.mean_estimate import MeanEstimate
from privagg.mechanisms.reports import Column, Reports
from privagg.mechanisms.state import MAX_REPORTS, State

__all__ = ["MAX_CELLS", "NumericMechanism", "check_cells", "check_range"]

MAX_CELLS = 2**21
"""The most cells of a report's grid."""

_TILE = 1 << 16
_DIGIT = 20
"""Bits of the lower digit of a square: no digit of a report adds more than 2**22 to a sum."""


class NumericMechanism(Mechanism):
    """A mechanism whose reports estimate the mean of numbers in a range.

    ``raw`` estimates are unbiased: numbers of a :class:`privagg.domain.Floats` go to a neighbouring
    point of the grid at random, so that their codes are right on average, before they are
    randomised. Privacy does not rest on that step. It adds at most a quarter of a squared step to
    n Var, which the formulas leave out: take steps smaller than the noise.

    Source: Wang et al., "Collecting and Analyzing Multidimensional Data with Local Differential
    Privacy", ICDE 2019, section III.

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

    def __init__(self, domain: Integers | Floats, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        if not isinstance(domain, Integers | Floats):
            hint = "Such as privagg.domain.Floats(0, 1, steps=256)."
            raise UsageError("domain", type(domain).__name__, "a range of numbers", hint)
        self._range = domain

    @property
    def steps(self) -> int:
        """N, how many steps lie between the smallest and the largest value."""
        return self._range.steps

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many different reports there are."""

    @property
    @abstractmethod
    def gain(self) -> Fraction:
        """How much of t, which is 2 wide, one cell stands for; exact."""

    @property
    @abstractmethod
    def curve(self) -> tuple[float, float]:
        """The variance of one report's estimate of t: ``curve[0] * t**2 + curve[1]``."""

    @abstractmethod
    def probabilities(self) -> list[list[Fraction]]:
        """Return P(report | code), a row for each code; exact, and as large as it sounds."""

    @abstractmethod
    def _cells(self, codes: Codes, draws: Draws) -> NDArray[Any]:
        """Return the cell of each code's report."""

    @property
    def layout(self) -> tuple[Column, ...]:
        """The report's cell."""
        return (Column("cell", (self.cells - 1).bit_length(), limit=self.cells),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: the cells, and the two digits of their squares."""
        return 3

    def randomize(self, values: Any, entropy: Entropy = OS) -> Reports:
        """Return one report for each value: what leaves the respondents.

        Values between two points of the grid go to either at random; see the class.

        Parameters
        ----------
        values : list, tuple, ndarray or column
            Numbers of the range; see :meth:`privagg.domain.Domain.encode`. They are not changed.
        entropy : Entropy
            The operating system's unless given. With a seeded one the run can be repeated, and the
            reports are marked insecure.

        Raises
        ------
        UsageError
            If a number is out of range and the domain does not clip.
        """
        if not isinstance(entropy, Entropy):
            found = type(entropy).__name__
            raise UsageError("entropy", found, "an Entropy, such as privagg.entropy.OS")
        rounding = entropy if isinstance(self._range, Floats) else None
        return self.randomize_codes(self._range.encode(values, entropy=rounding), entropy)

    def estimate(
        self, state: State, confidence: float = 0.95, *, population: bool = False
    ) -> MeanEstimate:
        """Estimate the mean.

        Parameters
        ----------
        state : State
            The sums over all reports.
        confidence : float
            Probability with which the interval holds the true mean.
        population : bool
            Count the respondents as a sample of a large population: adds the values' own variance.

        Raises
        ------
        UsageError
            If the state holds no report, or an argument is not as described.
        PeerError
            If the state is of another configuration.
        """
        self._is_own(state)
        share = Fraction(1) if population else Fraction(0)
        return self.estimate_from(state, confidence, share, population)

    def estimate_from(
        self, state: State, confidence: float, spread: Fraction, population: bool
    ) -> MeanEstimate:
        """Return the estimate from sums whose configuration was checked.

        `spread` is the part of the values' own variance that counts: 0 if all respondents of
        interest reported, 1 if they are a sample of very many.

        Parameters
        ----------
        state : State
            Sums that were checked.
        confidence : float
            Probability with which the interval holds the true mean.
        spread : Fraction
            What part of the values' own variance is added, 0 to 1.
        population : bool
            Count the respondents as a sample of a large population.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        factor = interval_factor(confidence)
        if state.users == 0:
            raise UsageError("state", "no reports", "at least one report")
        first, second = (float(moment) for moment in self._moments(state))
        curve, floor = self.curve
        # E u**2 = (1 + curve) t**2 + floor. No mean of squares is below the squared mean, or above
        # 1; if reports do not tell it, the variance falls with it, and the least is the worst.
        least = min(first * first, 1.0)
        told = (second - floor) / (1 + curve) if 1 + curve > 1e-9 else least
        squares = min(max(told, least), 1.0)
        spent = curve * squares + floor + float(spread) * (squares - least)
        half = (self._range.high - self._range.low) / 2
        raw = self._range.low + (first + 1) * half
        variance = spent * half * half / state.users
        reach = factor * math.sqrt(variance)
        return MeanEstimate(
            raw=raw,
            value=min(max(raw, float(self._range.low)), float(self._range.high)),
            variance=variance,
            low=raw - reach,
            high=raw + reach,
            users=state.users,
            confidence=float(confidence),
            population=bool(population),
            mechanism=self.name,
            epsilon=self.epsilon,
            epsilon_realised=self.epsilon_realised,
            delta=self.delta,
            insecure=state.insecure,
        )

    def variance(self, n: int, value: Any = None) -> Any:
        """Return the variance of the raw estimate if all respondents hold a value; closed form.

        Parameters
        ----------
        n : int
            Number of reports.
        value : float or array, optional
            In the domain's units. Unless given, the value of the domain for which the variance is
            largest: no mean has more.

        Returns
        -------
        float or float64 array of the shape of `value`
            In squared units of the domain.

        Raises
        ------
        UsageError
            If an argument is out of range.
        """
        users = whole("n", n, 1, MAX_REPORTS)
        curve, floor = self.curve
        half = (self._range.high - self._range.low) / 2
        if value is None:
            return (max(curve, 0.0) + floor) * half * half / users
        array = np.asarray(value)
        inside = array.dtype.kind in "iuf" and bool(
            ((array >= self._range.low) & (array <= self._range.high)).all()
        )
        if not inside:
            raise UsageError("value", value, f"{self._range.low} to {self._range.high}")
        t = (array.astype(np.float64) - self._range.low) / half - 1
        found = (curve * t * t + floor) * half * half / users
        return float(found) if np.ndim(value) == 0 else found

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        out = np.empty(codes.size, self.layout[0].dtype)
        for start in range(0, codes.size, _TILE):
            out[start : start + _TILE] = self._cells(codes[start : start + _TILE], draws)
        return (out,)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        cells = columns[0].astype(np.int64)
        squares = cells * cells
        low = int((squares & ((1 << _DIGIT) - 1)).sum())
        return np.array([int(cells.sum()), int((squares >> _DIGIT).sum()), low], np.int64)

    def _powers(self, state: State) -> tuple[int, int]:
        """Return the sum of the cells and that of their squares."""
        first, high, low = state.sums.tolist()
        return first, (high << _DIGIT) + low

    def _moments(self, state: State) -> tuple[Fraction, Fraction]:
        """Return the means of u and of u**2."""
        first, second = self._powers(state)
        users, centre = state.users, Fraction(self.cells - 1, 2)
        mean = Fraction(first, users) - centre
        square = Fraction(second, users) - 2 * centre * Fraction(first, users) + centre**2
        return self.gain * mean, self.gain**2 * square

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        first, high, low = sums.tolist()
        return self._flaw_of_powers(users, first, high, low)

    def _flaw_of_powers(self, users: int, first: int, high: int, low: int) -> str:
        """Say why no so many cells have such sums; nothing is ""."""
        most = self.cells - 1
        if not 0 <= first <= users * most:
            return f"expected a sum of cells from 0 to {users * most}"
        second = (high << _DIGIT) + low
        digits = high >= 0 and 0 <= low < max(1, users << _DIGIT)
        if not digits or users * second < first * first or not first <= second <= most * first:
            return "expected squares that cells of this sum can have"
        return ""


def check_range(epsilon: float, low: float, high: float, name: str) -> None:
    """Refuse an epsilon out of what a mechanism realises.

    Raises
    ------
    UsageError
        If it is.
    """
    if not low <= epsilon <= high:
        raise UsageError("epsilon", epsilon, f"{low:g} to {high:g} for {name}")


def check_cells(cells: int, steps: int) -> None:
    """Refuse a grid that is too large.

    Raises
    ------
    UsageError
        If it has more than 2**21 cells.
    """
    if cells > MAX_CELLS:
        fewer = max(1, steps * MAX_CELLS // (2 * cells))
        hint = f"steps={fewer} works: values between the points are rounded at random."
        found = f"{steps} steps, {cells} cells for a report"
        raise UsageError("domain", found, f"at most {MAX_CELLS} cells", hint)
