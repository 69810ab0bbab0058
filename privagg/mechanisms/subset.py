"""Subset selection: report a set of values, which holds the own one more often than chance."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.bits import count_bits, row_words
from privagg.mechanisms._kernels.subsets import draw_subsets, positions_of, set_sizes
from privagg.mechanisms._kernels.symbols import count_symbols
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.exact import exp_lower, exp_upper, realise
from privagg.mechanisms.reports import Column

__all__ = ["Inclusion", "SubsetSelection", "include"]

_TILE_WORDS = 1 << 16


@dataclass(frozen=True)
class Inclusion:
    """Whether a set of `w` of `k` values holds the own one.

    Attributes
    ----------
    k, w : int
        How many values there are, and how many a set has.
    bits, one : int
        Bits of the uniform word, and how many words let the set hold the value.
    """

    k: int
    w: int
    bits: int
    one: int

    @cached_property
    def p(self) -> Fraction:
        """Probability that the set holds the value."""
        return Fraction(self.one, 2**self.bits)

    @cached_property
    def ratio(self) -> Fraction:
        """How much likelier a set is for a value in it than for one outside."""
        return self.p * (self.k - self.w) / ((1 - self.p) * self.w)


def include(k: int, w: int, epsilon: float) -> Inclusion:
    """Return the thresholds of sets of `w` of `k`: the highest p that epsilon allows.

    Raises
    ------
    UsageError
        If 64-bit words cannot realise epsilon.
    """

    def make(stated: float, bits: int) -> Inclusion | None:
        weight = w * exp_lower(stated)
        one = int(2**bits * weight / (weight + k - w))
        return Inclusion(k, w, bits, one) if 0 < one < 2**bits else None

    return realise(make, epsilon)


class SubsetSelection(PureOracle):
    """Subset selection: a uniform set of w values, with the own one in it with probability p.

    p = w e**epsilon / (w e**epsilon + k - w). Of all mechanisms it has the least error in the worst
    case; w = 1 is generalised randomised response.

    Source: Ye, Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally
    Differential Privacy", IEEE Transactions on Information Theory 2018; Wang et al., "Mutual
    Information Optimally Local Private Discrete Distribution Estimation", arXiv 1607.08025. n Var
    at frequency 0 is q (1 - q) / (p - q)**2 with q = (p (w - 1) + (1 - p) w) / (k - 1).

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.
    w : int, optional
        Size of the sets, 1 to k - 1. Unless given, k / (e**epsilon + 1) rounded, at least 1.

    Raises
    ------
    UsageError
        If `w` is out of range, or 64-bit thresholds cannot realise epsilon.
    """

    name = "ss"

    def __init__(self, domain: Domain, epsilon: float, w: int | None = None) -> None:
        super().__init__(domain, epsilon)
        if w is None:
            size = max(1, round(self.k / (exp_upper(min(self.epsilon, 100.0)) + 1)))
        else:
            size = whole("w", w, 1, self.k - 1)
        self._stated_w = w if w is None else size
        self._w = size
        self._inclusion = include(self.k, size, self.epsilon)

    @property
    def options(self) -> dict[str, Any]:
        """The argument `w`, if it was given."""
        return {} if self._stated_w is None else {"w": self._stated_w}

    @property
    def w(self) -> int:
        """Size of the sets."""
        return self._w

    @property
    def p(self) -> Fraction:
        """Probability that the set holds the own value."""
        return self._inclusion.p

    @property
    def q(self) -> Fraction:
        """Probability that the set holds another value."""
        return (self.p * (self._w - 1) + (1 - self.p) * self._w) / (self.k - 1)

    @property
    def ratio(self) -> Fraction:
        """The ratio p (k - w) / ((1 - p) w)."""
        return self._inclusion.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, how many let the set hold the value, and the size of the sets."""
        return {"bits": self._inclusion.bits, "one": self._inclusion.one, "w": self._w}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The set: as bits, or as increasing codes where these are shorter."""
        if self._as_bits:
            return (Column("set", self.k, bitmap=True),)
        return (Column("set", (self.k - 1).bit_length(), count=self._w, limit=self.k),)

    @property
    def _as_bits(self) -> bool:
        return self.k <= self._w * (self.k - 1).bit_length() or self.k <= 64

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        bounds = range(self.k - self._w, self.k)
        per_tile = max(1, _TILE_WORDS // max(self._w, self.k // 64))
        shape = (codes.size, row_words(self.k)) if self._as_bits else (codes.size, self._w)
        out: NDArray[Any] = np.empty(shape, np.uint64 if self._as_bits else np.uint32)
        for start in range(0, codes.size, per_tile):
            own = codes[start : start + per_tile]
            words = draws.words(own.size, self._inclusion.bits)
            inside = words < words.dtype.type(self._inclusion.one)
            rows = draw_subsets(own, inside, draws.below(bounds, own.size), self.k)
            out[start : start + per_tile] = rows if self._as_bits else positions_of(rows, self._w)
        # A set of one code is a plain column.
        return (out.reshape(-1) if shape[1:] == (1,) and not self._as_bits else out,)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        if self._as_bits:
            return count_bits(columns[0], self.k)
        return count_symbols(np.ascontiguousarray(columns[0]).reshape(-1), self.k)

    def _flaw_of_reports(self, columns: Columns) -> str:
        sets = columns[0]
        if self._as_bits:
            wrong = (set_sizes(sets) != self._w).any()
        else:
            wrong = (np.diff(sets.reshape(-1, self._w).astype(np.int64), axis=1) <= 0).any()
        return f"expected sets of {self._w} distinct values in increasing order" if wrong else ""

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.sum()) != users * self._w:
            return f"expected counts that add up to {self._w} times the number of reports"
        return super()._flaw_of_sums(users, sums)
