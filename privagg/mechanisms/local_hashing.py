"""Local hashing: each respondent hashes the value into a few cells, and randomises the cell."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.hashing import Cells, count_supported, hash_values
from privagg.mechanisms._kernels.symbols import replace_symbols
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.exact import check_epsilon, split
from privagg.mechanisms.reports import Column

__all__ = ["BLH", "OLH", "LocalHashing"]

_SHORT = 2**16
"""The most values that 32-bit hashing words serve."""

_MAX_G = 2**16


class LocalHashing(PureOracle):
    """Local hashing into `g` cells.

    Each respondent draws a hash function, hashes the value, and reports the function and the cell,
    the cell by generalised randomised response over g cells. A report supports all values that its
    function hashes to its cell.

    Privacy does not rest on the hash functions: for each of them the report is epsilon-private.
    The estimator does: it is unbiased because two different values fall into one cell with a known
    probability c, the same for all pairs and exactly that of the functions drawn here
    (:mod:`privagg.mechanisms._kernels.hashing`); c is within a millionth of 1/g for small domains.
    Reports support their own value with probability p, and each other value with
    q = p c + (1 - p) (1 - c) / (g - 1), independently over respondents, as each has a function of
    its own: so the variance is that of a pure oracle, whatever the values.

    Source: Wang, Blocki, Li, Jha, USENIX Security 2017, section 4.3. n Var at frequency 0, with
    c = 1/g, is (e**epsilon - 1 + g)**2 / ((e**epsilon - 1)**2 (g - 1)).

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.
    g : int
        How many cells, 2 to 65,536.

    Raises
    ------
    UsageError
        If `g` is out of range, or 64-bit thresholds cannot realise epsilon.
    """

    name = "lh"

    def __init__(self, domain: Domain, epsilon: float, g: int = 2) -> None:
        super().__init__(domain, epsilon)
        self._g = whole("g", g, 2, _MAX_G)
        # Cells should be many steps wide: with wide words their parts are nearly equal.
        short = self.k <= _SHORT and self._g * self.k <= 2**26
        self._cells = Cells(self.k, self._g, 32 if short else 64)
        self._split = split(self._g, self.epsilon)

    @property
    def options(self) -> dict[str, Any]:
        """The argument `g`."""
        return {"g": self._g}

    @property
    def g(self) -> int:
        """How many cells."""
        return self._g

    @property
    def cells(self) -> Cells:
        """The hash functions' cells."""
        return self._cells

    @property
    def collision(self) -> Fraction:
        """Probability that two different values fall into one cell; exact, for every pair."""
        return self._cells.collision

    @property
    def p(self) -> Fraction:
        """Probability that a report supports its own value: that its cell is kept."""
        return self._split.p

    @property
    def q(self) -> Fraction:
        """Probability that a report supports another value."""
        c = self.collision
        return self._split.p * c + self._split.q * (1 - c)

    @property
    def ratio(self) -> Fraction:
        """That of randomised response over the cells."""
        return self._split.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, how many lead to each other cell, bits of the hashing words."""
        return {
            "bits": self._split.bits,
            "other": self._split.other,
            "hash_bits": self._cells.bits,
        }

    @property
    def layout(self) -> tuple[Column, ...]:
        """The hash function's seed (a, b), and the cell."""
        bits = self._cells.bits
        cell = Column("cell", (self._g - 1).bit_length(), limit=self._g)
        return (Column("a", bits), Column("b", bits), cell)

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        a = draws.words(codes.size, self._cells.bits)
        b = draws.words(codes.size, self._cells.bits)
        cells = hash_values(codes, a, b, self._cells)
        return (a, b, replace_symbols(cells, self._split, draws))

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        a, b, cell = columns
        return count_supported(a, b, cell, self._cells, self.k)


class BLH(LocalHashing):
    """Binary local hashing: two cells, one bit.

    Parameters and errors as for :class:`LocalHashing`, without `g`.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see :mod:`privagg.mechanisms.base`.
    """

    name = "blh"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon, 2)

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {}


class OLH(LocalHashing):
    """Optimised local hashing: g = round(e**epsilon + 1) cells, at least 2.

    Its variance is nearly OUE's, 4 e**epsilon / (e**epsilon - 1)**2 / n, and its reports are short
    whatever the number of values. Decoding hashes every value for every report.

    Parameters and errors as for :class:`LocalHashing`, without `g`. From epsilon 11.1 on
    g is 65,536, the most there is.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see :mod:`privagg.mechanisms.base`.
    """

    name = "olh"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        # Beyond the largest g more cells would gain next to nothing.
        cells = round(math.exp(min(check_epsilon(epsilon), 20.0)) + 1)
        super().__init__(domain, epsilon, min(max(2, cells), _MAX_G))

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {}
