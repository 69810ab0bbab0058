"""Windows: the cells near a value are e**epsilon times likelier than the others. Piecewise.

The piecewise mechanism and the square wave are one shape: a window of cells that moves with the
value, all its cells equally likely, as are all the others. Cells are laid out so that the window
moves by a whole number of them with each step of the domain: the mean of a report is then exactly
linear in the value, whatever the window's width was rounded to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Floats, Integers
from privagg.domain.base import Codes
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.exact import exp_lower, realise
from privagg.mechanisms.numeric import NumericMechanism, check_cells, check_range

__all__ = ["Piecewise", "Window", "WindowMechanism", "window"]

_FINE = 32
"""Cells of a window, at least: rounding its width then costs next to no accuracy."""


@dataclass(frozen=True)
class Window:
    """A window of `width` cells, `stride` further on for each step of the domain.

    Attributes
    ----------
    steps, stride, width : int
        The window of code c is cells ``stride * c`` to ``stride * c + width - 1``.
    bits : int
        Bits of the uniform word: 32 or 64.
    inside : int
        How many words lead into the window; where in it, or outside it, is uniform.
    """

    steps: int
    stride: int
    width: int
    bits: int
    inside: int

    @property
    def outside(self) -> int:
        """How many cells are outside the window."""
        return self.stride * self.steps

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self.outside + self.width

    @cached_property
    def near(self) -> Fraction:
        """Probability of each cell of the window."""
        return Fraction(self.inside, self.width << self.bits)

    @cached_property
    def far(self) -> Fraction:
        """Probability of each other cell."""
        return Fraction(2**self.bits - self.inside, self.outside << self.bits)

    @cached_property
    def ratio(self) -> Fraction:
        """How much likelier a cell is inside the window than outside."""
        return self.near / self.far

    @property
    def pull(self) -> Fraction:
        """How much the mean of a report moves when the window moves by 1."""
        return self.width * (self.near - self.far)

    @property
    def gain(self) -> Fraction:
        """How much of t one cell stands for."""
        return 2 / (self.outside * self.pull)

    @property
    def curve(self) -> tuple[float, float]:
        """The variance of a report's estimate of t, in t**2 and 1.

        With d the distance of the window's centre from the middle, E y = pull d and E y**2 =
        pull d**2 + (near - far) w (w**2 - 1) / 12 + far m (m**2 - 1) / 12.
        """
        w, m = self.width, self.cells
        rest = (self.near - self.far) * w * (w * w - 1) / 12 + self.far * m * (m * m - 1) / 12
        return float((1 - self.pull) / self.pull), float(self.gain**2 * rest)

    @property
    def thresholds(self) -> dict[str, int]:
        """The integers of the layout and of the threshold."""
        return {
            "stride": self.stride,
            "width": self.width,
            "bits": self.bits,
            "inside": self.inside,
        }

    def sample(self, codes: Codes, draws: Draws) -> NDArray[np.int64]:
        """Return a cell for each code."""
        spots = draws.below([self.width, self.outside], codes.size).astype(np.int64)
        words = draws.words(codes.size, self.bits)
        start = codes.astype(np.int64) * self.stride
        beside = spots[:, 1] + np.where(spots[:, 1] >= start, self.width, 0)
        found: NDArray[np.int64] = np.where(words < self.inside, start + spots[:, 0], beside)
        return found

    def probabilities(self) -> list[list[Fraction]]:
        """Return P(cell | code), a row for each code; exact."""
        rows = []
        for code in range(self.steps + 1):
            row = [self.far] * self.cells
            start = self.stride * code
            row[start : start + self.width] = [self.near] * self.width
            rows.append(row)
        return rows


def window(steps: int, relative: float, epsilon: float) -> Window:
    """Return a window about `relative` times as wide as the way it moves, of ratio e**epsilon.

    Raises
    ------
    UsageError
        If 64-bit words cannot realise epsilon, or the grid would be too large.
    """
    stride = max(1, math.ceil(_FINE / (steps * relative)))
    outside = stride * steps
    width = max(1, round(outside * relative))
    check_cells(outside + width, steps)

    def make(stated: float, bits: int) -> Window | None:
        weight = exp_lower(stated) * width
        inside = math.floor(2**bits * weight / (weight + outside))
        made = Window(steps, stride, width, bits, inside)
        return made if 0 < inside < 2**bits and made.ratio >= 1 else None

    return realise(make, epsilon)


class WindowMechanism(NumericMechanism):
    """A numeric mechanism whose report is a cell of a :class:`Window`, which `_window` is."""

    _window: Window

    @property
    def window(self) -> Window:
        """The layout of the cells, and the threshold."""
        return self._window

    @property
    def ratio(self) -> Fraction:
        """How much likelier a cell is inside the window than outside."""
        return self._window.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """The integers of the layout and of the threshold."""
        return self._window.thresholds

    @property
    def cells(self) -> int:
        """How many different reports there are."""
        return self._window.cells

    @property
    def gain(self) -> Fraction:
        """How much of t, which is 2 wide, one cell stands for."""
        return self._window.gain

    @property
    def curve(self) -> tuple[float, float]:
        """The variance of one report's estimate of t: ``curve[0] * t**2 + curve[1]``."""
        return self._window.curve

    def probabilities(self) -> list[list[Fraction]]:
        """Return P(report | code), a row for each code; exact."""
        return self._window.probabilities()

    def _cells(self, codes: Codes, draws: Draws) -> NDArray[np.int64]:
        return self._window.sample(codes, draws)


class Piecewise(WindowMechanism):
    """The piecewise mechanism: a uniform number, likelier in a window around the value.

    With s = e**(epsilon / 2) a report is in the window with probability s / (s + 1), and the window
    is a (s + 1)-th of the range. n Var = t**2 / (s - 1) + (s + 3) / (3 (s - 1)**2) for values t
    from -1 to 1, up to the grid; less than Duchi's from about epsilon 1.29 on, in the worst case.

    Source: Wang et al., "Collecting and Analyzing Multidimensional Data with Local Differential
    Privacy", ICDE 2019, algorithm 2.

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

    name = "pm"

    def __init__(self, domain: Integers | Floats, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        check_range(self.epsilon, 1e-3, 20, "the piecewise mechanism")
        self._window = window(self.steps, math.exp(-self.epsilon / 2), self.epsilon)
