"""Repeated surveys by unary encoding: L-OSUE and L-SUE, permanent bits that are flipped again.

What the two steps promise together is in :mod:`privagg.mechanisms.longitudinal`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.bits import count_bits, noise_rows, row_words, set_bits
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.exact import BitPair, bit_pair, ceiling
from privagg.mechanisms.longitudinal import Longitudinal
from privagg.mechanisms.memory import Memory, Rows
from privagg.mechanisms.reports import Column

__all__ = ["LOSUE", "LSUE"]


class LOSUE(Longitudinal, PureOracle):
    """L-OSUE: optimised unary encoding, then each bit flipped with one probability.

    With p = 1/2 in the first step one report alone is exactly that of OUE. Source: as for
    :class:`~privagg.mechanisms.LGRR`. Best for many values. Parameters, guarantee and errors as for
    :class:`~privagg.mechanisms.longitudinal.Longitudinal`.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see the module.
    permanent : float, optional
        Epsilon of the permanent answer by itself; see the module.
    """

    name = "l-osue"

    def __init__(self, domain: Domain, epsilon: float, permanent: float | None = None) -> None:
        super().__init__(domain, epsilon, permanent)
        self._first = self._choose(self.permanent)
        flip = self._choose(self.epsilon).q
        # Q = q (1 - s) + (1 - q) s with s the probability of a flip.
        least = (flip - self._first.q) / (1 - 2 * self._first.q)
        self._flip = max(1, ceiling(2**64 * least))

    def _choose(self, epsilon: float) -> BitPair:
        """Return the thresholds of the encoding without memory."""
        return bit_pair(epsilon, Fraction(1, 2))

    def _answer_words(self) -> int:
        return row_words(self.k)

    @property
    def answers(self) -> int:
        """One for each value."""
        return self.k

    @property
    def flip(self) -> Fraction:
        """Probability that a report shows a bit of the permanent answer flipped."""
        return Fraction(self._flip, 2**64)

    @property
    def p(self) -> Fraction:
        """Probability that the value's bit is 1 in a report."""
        return self._first.p * (1 - self.flip) + (1 - self._first.p) * self.flip

    @property
    def q(self) -> Fraction:
        """Probability that any other bit is 1 in a report."""
        return self._first.q * (1 - self.flip) + (1 - self._first.q) * self.flip

    @property
    def ratio(self) -> Fraction:
        """The ratio p (1 - q) / ((1 - p) q) of one report."""
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    @property
    def permanent_ratio(self) -> Fraction:
        """That of the first step."""
        return self._first.ratio

    @property
    def first(self) -> BitPair:
        """The thresholds of the first step."""
        return self._first

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits and words of both steps."""
        return {
            "bits": self._first.bits,
            "one": self._first.one,
            "zero": self._first.zero,
            "flip": self._flip,
        }

    @property
    def layout(self) -> tuple[Column, ...]:
        """One bit for each value."""
        return (Column("bits", self.k, bitmap=True),)

    def _report(
        self, codes: Codes, who: NDArray[np.int64], memory: Memory, draws: Draws
    ) -> Columns:
        def make(at: NDArray[np.intp]) -> Rows:
            rows = noise_rows(at.size, self.k, self._first.zero, self._first.bits, draws)
            set_bits(rows, codes[at], self._first.one, self._first.bits, draws)
            return rows

        permanent = memory.answers(who, codes.astype(np.int64), make)
        return (permanent ^ noise_rows(codes.size, self.k, self._flip, 64, draws),)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_bits(columns[0], self.k)


class LSUE(LOSUE):
    """L-SUE: symmetric unary encoding, then each bit flipped with one probability.

    RAPPOR without its Bloom filter (Erlingsson, Pihur, Korolova, "RAPPOR: Randomized Aggregatable
    Privacy-Preserving Ordinal Response", CCS 2014), with a second step that is as symmetric as the
    first: one report alone is then exactly that of SUE. Source: as for
    :class:`~privagg.mechanisms.LGRR`, where it is compared with RAPPOR's own second step.
    :class:`LOSUE` has less variance for the same two epsilons; this one is for who must match what
    RAPPOR does. Parameters, guarantee and errors as for
    :class:`~privagg.mechanisms.longitudinal.Longitudinal`.
    """

    name = "l-sue"

    def _choose(self, epsilon: float) -> BitPair:
        return bit_pair(epsilon, None)
