"""Unary encoding: one bit for each value, all of them randomised."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.bits import count_bits, noise_rows, set_bits
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.exact import BitPair, bit_pair
from privagg.mechanisms.reports import Column

__all__ = ["OUE", "SUE", "UnaryEncoding"]


class UnaryEncoding(PureOracle):
    """Unary encoding with any `p`: the value's bit is 1 with probability p, all others with q.

    Bits are independent, and q is the smallest that epsilon allows:
    p (1 - q) / ((1 - p) q) = e**epsilon, as two values differ in two bits.

    Source: Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017, section 4.2. n Var at frequency 0 is
    q (1 - q) / (p - q)**2.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.
    p : float
        Probability that the value's own bit is 1, strictly between 0 and 1.

    Raises
    ------
    UsageError
        If `p` is out of range, or 64-bit thresholds cannot realise epsilon.
    """

    name = "ue"

    def __init__(self, domain: Domain, epsilon: float, p: float = 0.5) -> None:
        real = isinstance(p, int | float | np.floating) and not isinstance(p, bool)
        if not real or not 0 < p < 1:
            raise UsageError("p", p, "a number between 0 and 1")
        super().__init__(domain, epsilon)
        self._stated_p = float(p)
        self._pair = self._choose()

    def _choose(self) -> BitPair:
        return bit_pair(self.epsilon, Fraction(self._stated_p))

    @property
    def options(self) -> dict[str, Any]:
        """The argument `p`."""
        return {"p": self._stated_p}

    @property
    def pair(self) -> BitPair:
        """The integer thresholds."""
        return self._pair

    @property
    def p(self) -> Fraction:
        """Probability that the value's own bit is 1."""
        return self._pair.p

    @property
    def q(self) -> Fraction:
        """Probability that any other bit is 1."""
        return self._pair.q

    @property
    def ratio(self) -> Fraction:
        """The ratio p (1 - q) / ((1 - p) q)."""
        return self._pair.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, and how many set the value's bit and any other."""
        return {"bits": self._pair.bits, "one": self._pair.one, "zero": self._pair.zero}

    @property
    def layout(self) -> tuple[Column, ...]:
        """One bit for each value."""
        return (Column("bits", self.k, bitmap=True),)

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        pair = self._pair
        rows = noise_rows(codes.size, self.k, pair.zero, pair.bits, draws)
        set_bits(rows, codes, pair.one, pair.bits, draws)
        return (rows,)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_bits(columns[0], self.k)


class SUE(UnaryEncoding):
    """Symmetric unary encoding: p = e**(epsilon/2) / (e**(epsilon/2) + 1), q = 1 - p.

    Basic RAPPOR without its Bloom filter (Erlingsson, Pihur, Korolova, CCS 2014). n Var at
    frequency 0 is e**(epsilon/2) / (e**(epsilon/2) - 1)**2.

    Parameters and errors as for :class:`UnaryEncoding`, without `p`.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see :mod:`privagg.mechanisms.base`.
    """

    name = "sue"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon)

    def _choose(self) -> BitPair:
        return bit_pair(self.epsilon, None)

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {}


class OUE(UnaryEncoding):
    """Optimised unary encoding: p = 1/2, q = 1 / (e**epsilon + 1).

    Of all `p`, 1/2 has the least variance at frequency 0: n Var = 4 e**epsilon /
    (e**epsilon - 1)**2 (Wang et al., USENIX Security 2017, section 4.2), whatever the number of
    values.

    Parameters and errors as for :class:`UnaryEncoding`, without `p`.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see :mod:`privagg.mechanisms.base`.
    """

    name = "oue"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon, 0.5)

    @property
    def options(self) -> dict[str, Any]:
        """None."""
        return {}
