"""Sets of up to m cells in one report: subset selection for set-valued data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.bits import count_bits, row_words
from privagg.mechanisms._kernels.subsets import set_sizes
from privagg.mechanisms._kernels.symbols import count_symbols
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import exp_lower, realise
from privagg.mechanisms.reports import Column, Reports
from privagg.mechanisms.state import State

__all__ = ["Hits", "PrivSet", "best_size"]

_TILE_ENTRIES = 1 << 22
_LARGEST = 2**16


@dataclass(frozen=True)
class Hits:
    """Whether a set of w holds any of the own items.

    Attributes
    ----------
    bits, one : int
        Bits of the uniform word, and how many words let it hold one.
    hit, miss : int
        How many sets hold one, and how many hold none.
    """

    bits: int
    one: int
    hit: int
    miss: int

    @cached_property
    def ratio(self) -> Fraction:
        """How much likelier a set is for items it holds one of than for items it holds none of."""
        return Fraction(self.one * self.miss, (2**self.bits - self.one) * self.hit)

    @cached_property
    def share(self) -> Fraction:
        """Probability that the set holds one."""
        return Fraction(self.one, 2**self.bits)


class PrivSet(PureOracle):
    """A uniform set of w elements, which more often than chance holds any of the own m items.

    Respondents have up to m distinct items of the domain; with fewer, items of no meaning fill up,
    of which there are m more than the domain has. Of all sets, those that hold an own item are
    e**epsilon times as likely as those that do not: the exponential mechanism over sets of w, with
    the utility of holding one. m = 1 is subset selection.

    Guarantee: epsilon-local differential privacy of the report, whatever the items. Adjacency: one
    respondent's whole set replaced by any other of up to m items.

    Source: Wang, Huang, Nie, Wang, Xu, Yang, "PrivSet: Set-Valued Data Analyses with Locale
    Differential Privacy", INFOCOM 2018. With N = k + m elements, an own item is in the set with
    probability p = A C(N-1, w-1) / H, another with q = A (C(N-1, w-1) - C(N-m-1, w-1)) / H +
    (1 - A) C(N-m-1, w-1) / M, where M = C(N-m, w), H = C(N, w) - M and
    A = e**epsilon H / (e**epsilon H + M).

    Parameters
    ----------
    domain : Domain
        The declared items, at most 2**16.
    epsilon : float
        The privacy parameter of one report.
    m : int
        How many items a respondent has at most.
    w : int, optional
        Size of the sets; that with the least variance at frequency 0 unless given.

    Raises
    ------
    UsageError
        If an argument is out of range, or 64-bit thresholds cannot realise epsilon.
    """

    name = "privset"

    def __init__(self, domain: Domain, epsilon: float, m: int = 1, w: int | None = None) -> None:
        super().__init__(domain, epsilon)
        if self.k > _LARGEST:
            raise UsageError("domain", f"{self.k} values", f"up to {_LARGEST}")
        self._m = whole("m", m, 1, self.k)
        if w is None:
            self._w = best_size(self.k, self._m, self.epsilon)
        else:
            self._w = whole("w", w, 1, self.k)
        self._stated_w = w if w is None else self._w
        n = self.elements
        miss = math.comb(n - self._m, self._w)
        hit = math.comb(n, self._w) - miss

        def make(stated: float, bits: int) -> Hits | None:
            weight = exp_lower(stated) * hit
            one = int(2**bits * weight / (weight + miss))
            return Hits(bits, one, hit, miss) if 0 < one < 2**bits else None

        self._hits = realise(make, self.epsilon)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments `m`, and `w` if it was given."""
        return {"m": self._m} if self._stated_w is None else {"m": self._m, "w": self._w}

    @property
    def m(self) -> int:
        """How many items a respondent has at most."""
        return self._m

    @property
    def w(self) -> int:
        """Size of the sets."""
        return self._w

    @property
    def elements(self) -> int:
        """How many elements sets are drawn from: the domain's, and m that fill up."""
        return self.k + self._m

    @cached_property
    def p(self) -> Fraction:
        """Probability that the set holds an own item."""
        n, w = self.elements, self._w
        return self._hits.share * Fraction(math.comb(n - 1, w - 1), self._hits.hit)

    @cached_property
    def q(self) -> Fraction:
        """Probability that the set holds another item."""
        n, w, hits = self.elements, self._w, self._hits
        all_with, missing_with = math.comb(n - 1, w - 1), math.comb(n - self._m - 1, w - 1)
        held = hits.share * Fraction(all_with - missing_with, hits.hit)
        return held + (1 - hits.share) * Fraction(missing_with, hits.miss)

    @property
    def ratio(self) -> Fraction:
        """The ratio of the probabilities of a set that holds an own item and one that does not."""
        return self._hits.ratio

    @property
    def hits(self) -> Hits:
        """The integer thresholds."""
        return self._hits

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, how many let the set hold an own item, and the sizes."""
        hits = self._hits
        return {"bits": hits.bits, "one": hits.one, "w": self._w, "elements": self.elements}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The set: as bits, or as increasing codes where these are shorter."""
        if self._as_bits:
            return (Column("set", self.elements, bitmap=True),)
        bits = (self.elements - 1).bit_length()
        return (Column("set", bits, count=self._w, limit=self.elements),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: the sets that hold each element."""
        return self.elements

    def randomize_sets(self, items: NDArray[np.int64], entropy: Entropy = OS) -> Reports:
        """Return one report for each respondent's items.

        Parameters
        ----------
        items : (n, m) int64 array
            Codes, distinct within a row; -1 where there are fewer than m.
        entropy : Entropy
            The operating system's unless given.

        Raises
        ------
        UsageError
            If the rows are no such sets.
        """
        sets = self._filled(items)
        draws = Draws(entropy)
        return self._reports((self._draw(sets, draws),), draws.insecure)

    @property
    def _as_bits(self) -> bool:
        n = self.elements
        return n <= self._w * (n - 1).bit_length() or n <= 64

    def _filled(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        allowed = f"(n, {self._m}) codes from 0 to {self.k - 1}, or -1"
        right = isinstance(items, np.ndarray) and items.ndim == 2 and items.dtype == np.int64
        if not right or items.shape[1] != self._m:
            raise UsageError("items", "an array of another type or shape", allowed)
        if items.size and (int(items.min()) < -1 or int(items.max()) >= self.k):
            raise UsageError("items", "a code out of range", allowed)
        filled = np.sort(np.where(items < 0, self.k + np.arange(self._m), items), axis=1)
        if (np.diff(filled, axis=1) == 0).any():
            raise UsageError("items", "the same item twice", "distinct items in each row")
        return filled

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        items = np.full((codes.size, self._m), -1, np.int64)
        items[:, 0] = codes
        return (self._draw(self._filled(items), draws),)

    def _draw(self, sets: NDArray[np.int64], draws: Draws) -> NDArray[Any]:
        shape = (len(sets), row_words(self.elements) if self._as_bits else self._w)
        out: NDArray[Any] = np.empty(shape, np.uint64 if self._as_bits else np.uint32)
        rows = max(1, _TILE_ENTRIES // self.elements)
        for start in range(0, len(sets), rows):
            part = sets[start : start + rows]
            words = draws.words(len(part), self._hits.bits)
            hit = words < words.dtype.type(self._hits.one)
            held = np.zeros((len(part), self.elements), np.bool_)
            self._draw_missing(held, np.flatnonzero(~hit), part, draws)
            self._draw_hitting(held, np.flatnonzero(hit), part, draws)
            out[start : start + rows] = self._packed(held)
        # A set of one element is a plain column.
        return out.reshape(-1) if shape[1:] == (1,) and not self._as_bits else out

    def _draw_missing(
        self, held: NDArray[np.bool_], rows: NDArray[Any], sets: NDArray[np.int64], draws: Draws
    ) -> None:
        """Draw a uniform set of the elements that are no own item, for some rows."""
        found = _subsets(self.elements - self._m, self._w, rows.size, draws)
        for column in range(self._m):  # in increasing order: the rest move up, one by one
            found += found >= sets[rows, column][:, None]
        held[rows[:, None], found] = True

    def _draw_hitting(
        self, held: NDArray[np.bool_], rows: NDArray[Any], sets: NDArray[np.int64], draws: Draws
    ) -> None:
        """Draw a uniform set that holds an own item: until it does. How often says nothing."""
        while rows.size:
            found = _subsets(self.elements, self._w, rows.size, draws)
            tried = np.zeros((rows.size, self.elements), np.bool_)
            tried[np.arange(rows.size)[:, None], found] = True
            fits = tried[np.arange(rows.size)[:, None], sets[rows]].any(axis=1)
            held[rows[fits]] = tried[fits]
            rows = rows[~fits]

    def _packed(self, held: NDArray[np.bool_]) -> NDArray[Any]:
        if not self._as_bits:
            return np.nonzero(held)[1].reshape(len(held), self._w).astype(np.uint32)
        octets = np.packbits(held, axis=1, bitorder="little")
        wide = np.zeros((len(held), 8 * row_words(self.elements)), np.uint8)
        wide[:, : octets.shape[1]] = octets
        return wide.view("<u8").astype(np.uint64, copy=False)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        if self._as_bits:
            return count_bits(columns[0], self.elements)
        return count_symbols(np.ascontiguousarray(columns[0]).reshape(-1), self.elements)

    def _raw(self, state: State) -> Vector:
        other, gap, _, _ = self._rates
        return np.asarray((state.sums[: self.k] / state.users - other) / gap, np.float64)

    def _flaw_of_reports(self, columns: Columns) -> str:
        sets = columns[0]
        if self._as_bits:
            wrong = (set_sizes(sets) != self._w).any()
        else:
            wrong = (np.diff(sets.reshape(-1, self._w).astype(np.int64), axis=1) <= 0).any()
        return f"expected sets of {self._w} distinct elements in increasing order" if wrong else ""

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.sum()) != users * self._w:
            return f"expected counts that add up to {self._w} times the number of reports"
        return super()._flaw_of_sums(users, sums)


def best_size(k: int, m: int, epsilon: float) -> int:
    """Return the size of sets with the least variance at frequency 0, for k values and m items."""
    n, weight = k + m, math.exp(min(epsilon, 100.0))

    def spread(w: int) -> float:
        # The chance that a uniform set holds no own item, and the same for one that holds another.
        gone = math.exp(_log_comb(n - m, w) - _log_comb(n, w))
        gone_beside = gone * w / (n - m)
        total = gone + weight * (1 - gone)
        q = (gone_beside + weight * (w / n - gone_beside)) / total
        gap = weight * w / n / total - q
        return q * (1 - q) / gap**2 if gap > 0 else math.inf

    # One minimum: the variance falls, then grows.
    low, high = 1, k
    while high - low > 2:
        left = low + (high - low) // 3
        right = high - (high - low) // 3
        low, high = (low, right) if spread(left) <= spread(right) else (left, high)
    return min(range(low, high + 1), key=spread)


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _subsets(n: int, w: int, count: int, draws: Draws) -> NDArray[np.int64]:
    """Return ``(count, w)`` distinct elements below n, uniform: the first of a random order."""
    if count == 0:
        return np.empty((0, w), np.int64)
    order = np.tile(np.arange(n), (count, 1))
    picks = draws.below(range(n, n - w, -1), count).astype(np.int64)
    rows = np.arange(count)
    for place in range(w):
        at = place + picks[:, place]
        chosen = order[rows, at]
        order[rows, at] = order[:, place]
        order[:, place] = chosen
    return order[:, :w]
