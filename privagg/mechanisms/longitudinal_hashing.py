"""Repeated surveys whose budget does not grow with the domain: LOLOHA and dBitFlip."""

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
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import bit_pair
from privagg.mechanisms.longitudinal import Longitudinal, chained_split
from privagg.mechanisms.memory import Memory, Rows, column
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State

__all__ = ["LOLOHA", "DBitFlip"]

_MAX_G = 4096


class LOLOHA(Longitudinal, PureOracle):
    """LOLOHA: each respondent hashes into g cells with one function for ever, then L-GRR on cells.

    Only the cell is ever answered, so that a respondent whose value keeps changing spends at most
    g times `permanent`: twice it with g = 2 (BiLOLOHA). The hash functions, and why they are the
    right ones, are those of :class:`privagg.mechanisms.LocalHashing`. The second step is calibrated
    exactly, as for :class:`privagg.mechanisms.LGRR`: one report alone is that of local hashing.

    Source: Arcolezi, Pinzón, Palamidessi, Gambs, "Frequency Estimation of Evolving Data Under Local
    Differential Privacy", EDBT 2023.

    Parameters
    ----------
    domain, epsilon, permanent
        As for :class:`Longitudinal`.
    g : int, optional
        How many cells, 2 to 4096. Unless given, round(e**epsilon + 1), which has the least
        variance; fewer cells have a smaller budget for values that keep changing.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """

    name = "loloha"

    def __init__(
        self, domain: Domain, epsilon: float, permanent: float | None = None, g: int | None = None
    ) -> None:
        super().__init__(domain, epsilon, permanent)
        self._stated_g = None if g is None else whole("g", g, 2, _MAX_G)
        # One report alone is local hashing with epsilon, whose best number of cells this is.
        best = round(math.exp(min(self.epsilon, 20.0)) + 1)
        self._g = self._stated_g or min(max(2, best), _MAX_G)
        short = self.k <= 2**16 and self._g * self.k <= 2**26
        self._cells = Cells(self.k, self._g, 32 if short else 64)
        self._chain = chained_split(self._g, self.epsilon, self.permanent)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments `permanent` and `g`, if they were given."""
        return {**super().options, **({} if self._stated_g is None else {"g": self._stated_g})}

    @property
    def g(self) -> int:
        """How many cells."""
        return self._g

    @property
    def answers(self) -> int:
        """One for each cell."""
        return self._g

    @property
    def p(self) -> Fraction:
        """Probability that a report supports the own value."""
        return self._chain.p

    @property
    def q(self) -> Fraction:
        """Probability that a report supports another value."""
        c = self._cells.collision
        return self._chain.p * c + self._chain.q * (1 - c)

    @property
    def ratio(self) -> Fraction:
        """That of one report, given the hash function."""
        return self._chain.ratio

    @property
    def permanent_ratio(self) -> Fraction:
        """That of the permanent answer, given the hash function."""
        return self._chain.first.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits and words of both steps, the cells, and the bits of the hashing words."""
        first, second = self._chain.first, self._chain.second
        return {
            "bits": first.bits,
            "other": first.other,
            "bits_again": second.bits,
            "other_again": second.other,
            "g": self._g,
            "hash_bits": self._cells.bits,
        }

    @property
    def layout(self) -> tuple[Column, ...]:
        """The hash function's seed (a, b), the same in all of a respondent's reports; the cell."""
        bits = self._cells.bits
        cell = Column("cell", (self._g - 1).bit_length(), limit=self._g)
        return (Column("a", bits), Column("b", bits), cell)

    def _draw_once(self, respondents: int, draws: Draws) -> Rows:
        words = [draws.words(respondents, self._cells.bits).astype(np.uint64) for _ in range(2)]
        return np.stack(words, axis=1)

    def _report(
        self, codes: Codes, who: NDArray[np.int64], memory: Memory, draws: Draws
    ) -> Columns:
        a, b = np.ascontiguousarray(memory.fixed[who].T, f"u{self._cells.bits // 8}")
        cells = hash_values(codes, a, b, self._cells)
        answers = memory.answers(
            who,
            cells.astype(np.int64),
            lambda at: column(replace_symbols(cells[at], self._chain.first, draws)),
        )
        permanent = np.ascontiguousarray(answers[:, 0], np.uint32)
        return (a, b, replace_symbols(permanent, self._chain.second, draws))

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        a, b, cell = columns
        return count_supported(a, b, cell, self._cells, self.k)


class DBitFlip(Longitudinal):
    """dBitFlip: each respondent samples d of the k values for ever, and answers for these alone.

    For each sampled value there is one bit: 1 with probability p = e**(epsilon/2) /
    (e**(epsilon/2) + 1) if it is the respondent's, else with q = 1 - p; with one sampled value
    alone epsilon takes the place of epsilon/2. The answer is permanent, and is sent as it is in
    every report: `epsilon` is that of one report and of all reports of one value.
    All values outside the sample have one permanent answer, so that a changing value spends at most
    min(d + 1, k) times epsilon. The aggregator sees when the answer changes.

    Source: Ding, Kulkarni, Yekhanin, "Collecting Telemetry Data Privately", NIPS 2017, section 4.
    The estimate is the mean of (k / d) (bit - q) / (p - q) over all sampled bits; n Var is
    f ((k/d) (v + 1) - 1) + (1 - f) (k/d) v with v = p (1 - p) / (p - q)**2.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of all reports of one value together.
    d : int, optional
        How many values are sampled, 1 to k; all of them, at most 8, unless given.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """

    name = "dbitflip"

    def __init__(self, domain: Domain, epsilon: float, d: int | None = None) -> None:
        super().__init__(domain, epsilon)
        self._permanent = self.epsilon
        self._stated_d = None if d is None else whole("d", d, 1, self.k)
        self._d = self._stated_d or min(8, self.k)
        # Two values differ in two bits, of which each has half of epsilon; or in the only one.
        self._pair = bit_pair(self.epsilon if self._d > 1 else 2 * self.epsilon, None)

    @property
    def options(self) -> dict[str, Any]:
        """The argument `d`, if it was given."""
        return {} if self._stated_d is None else {"d": self._stated_d}

    @property
    def d(self) -> int:
        """How many values each respondent samples."""
        return self._d

    @property
    def answers(self) -> int:
        """One for each sampled value, and one for all others, if there are any."""
        return min(self._d + 1, self.k)

    @property
    def p(self) -> Fraction:
        """Probability that the bit of the own value is 1, if it is sampled."""
        return self._pair.p

    @property
    def q(self) -> Fraction:
        """Probability that the bit of another sampled value is 1."""
        return self._pair.q

    @property
    def ratio(self) -> Fraction:
        """That of two bits, or of one where only one value is sampled."""
        return self._pair.ratio if self._d > 1 else self._pair.p / self._pair.q

    @property
    def permanent_ratio(self) -> Fraction:
        """The same: every report is the permanent answer."""
        return self.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, how many set the own bit and any other, and the sample's size."""
        pair = self._pair
        return {"bits": pair.bits, "one": pair.one, "zero": pair.zero, "d": self._d}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The sampled values in increasing order, and their bits."""
        bits = (self.k - 1).bit_length()
        return (
            Column("sampled", bits, count=self._d, limit=self.k),
            Column("bits", 1, count=self._d),
        )

    def _draw_once(self, respondents: int, draws: Draws) -> Rows:
        # A uniform sample: the first d places of a shuffle (Fisher and Yates), put in order.
        picks = draws.below([self.k - at for at in range(self._d)], respondents).astype(np.int64)
        found = np.empty((respondents, self._d), np.int64)
        for at in range(self._d):
            # The number of a value among those not taken yet, counted up past the taken ones.
            value = picks[:, at]
            for taken in range(at):
                value = value + (value >= found[:, taken])
            found[:, at] = value
            found[:, : at + 1].sort(axis=1)
        return found.astype(np.uint64)

    def _report(
        self, codes: Codes, who: NDArray[np.int64], memory: Memory, draws: Draws
    ) -> Columns:
        sampled = memory.fixed[who].astype(np.uint32)
        own = sampled == codes[:, None]
        # With all values sampled there is no answer for the others.
        classes = np.where(own.any(axis=1), own.argmax(axis=1), min(self._d, self.k - 1))

        def make(at: NDArray[np.intp]) -> Rows:
            words = draws.words(at.size * self._d, self._pair.bits).reshape(at.size, -1)
            limits = np.where(own[at], words.dtype.type(self._pair.one), self._pair.zero)
            lit = (words < limits.astype(words.dtype)).astype(np.uint64)
            return lit

        answers = memory.answers(who, classes.astype(np.int64), make)
        bits = answers.astype(np.uint32)
        if self._d == 1:
            return (sampled.reshape(-1), bits.reshape(-1))
        return (sampled, bits)

    def _answer_words(self) -> int:
        return self._d

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        sampled, bits = (np.ascontiguousarray(one).reshape(-1) for one in columns)
        lit = np.bincount(sampled[bits == 1], minlength=self.k)
        return np.concatenate([np.bincount(sampled, minlength=self.k), lit]).astype(np.int64)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: how often each value was sampled, and its bit set."""
        return 2 * self.k

    def _raw(self, state: State) -> Vector:
        asked, lit = state.sums.reshape(2, self.k).astype(np.float64)
        scale = self.k / self._d / state.users / float(self.p - self.q)
        return np.asarray((lit - asked * float(self.q)) * scale, np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        spread = float(self.p * (1 - self.p) / (self.p - self.q) ** 2)
        per = self.k / self._d
        return frequencies * (per * (spread + 1) - 1) + (1 - frequencies) * per * spread

    def _flaw_of_reports(self, columns: Columns) -> str:
        sampled = columns[0].reshape(-1, self._d).astype(np.int64)
        wrong = (np.diff(sampled, axis=1) <= 0).any()
        return f"expected {self._d} sampled values in increasing order" if wrong else ""

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        asked, lit = sums.reshape(2, self.k)
        if int(sums.min()) < 0 or int(asked.max()) > users or (lit > asked).any():
            return f"expected counts from 0 to {users}, and no more bits than were asked for"
        if int(asked.sum()) != users * self._d:
            return f"expected {self._d} sampled values for each report"
        return ""
