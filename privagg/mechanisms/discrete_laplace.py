"""Exact discrete Laplace numbers, P(j) proportional to exp(-s |j|), from uniform bits by inversion.

A uniform U is drawn bit by bit, and the number is the least j with U < P(X <= j). 64 bits of U and
as many of each P(X <= j) nearly always decide; where a word equals a cut-off value, more bits of
both are computed until they do. The decay s is a fraction, and the probabilities lie between
integers that are proven bounds: no float decides a draw, and none is rounded.

What is not promised: constant time.

Source: Ghosh, Roughgarden, Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", STOC
2009, for the law (the two-sided geometric one); what floats do instead: Mironov, CCS 2012.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws

__all__ = ["LARGEST_SCALE", "DiscreteLaplace", "discrete_laplace"]

LARGEST_SCALE = 1 << 15
"""The table has about 90 entries for each unit of the scale 1 / s."""

_TILE = 1 << 16
_WORD = 64


class DiscreteLaplace:
    """A sampler; build it with :func:`discrete_laplace`, which keeps the tables.

    Parameters
    ----------
    decay : Fraction
        s, as the module says.
    """

    def __init__(self, decay: Fraction) -> None:
        self.decay = decay
        self._first, self._ends = self._table()

    @property
    def variance(self) -> float:
        """The variance, 2 q / (1 - q)**2 with q = exp(-s)."""
        s = float(self.decay)
        return 2 * math.exp(-s) / math.expm1(-s) ** 2

    def sample(self, count: int, draws: Draws) -> NDArray[np.int64]:
        """Return `count` independent numbers; 64 bits of `draws` go into each, rarely more."""
        out = np.empty(whole("count", count, 0, 2**40), np.int64)
        for start in range(0, out.size, _TILE):
            words = draws.words64(min(_TILE, out.size - start))
            # Sorted words walk through the table in order: the search stays in the cache.
            order = np.argsort(words)
            ranked = words[order]
            at = np.searchsorted(self._ends, ranked, side="right")
            part = out[start : start + _TILE]
            part[order] = at + self._first
            unsure = (at > 0) & (self._ends[np.maximum(at, 1) - 1] == ranked)
            for index in order[unsure].tolist():
                part[index] = self._decide(int(words[index]), draws)
        return out

    def _table(self) -> tuple[int, NDArray[np.uint64]]:
        """Return the first j, and the 64 first bits of P(X <= j) for it and all that follow."""
        bits = 2 * _WORD
        while True:
            tails = self._tails(bits)
            one = 1 << bits
            cut = bits - _WORD
            below = [(low >> cut, high >> cut) for low, high in tails]
            above = [((one - high) >> cut, (one - max(low, 1)) >> cut) for low, high in tails]
            if all(low == high for low, high in below + above):
                ends = [low for low, _ in below[::-1]] + [low for low, _ in above]
                return -len(tails), np.array(ends, np.uint64)
            bits += _WORD

    def _tails(self, bits: int) -> list[tuple[int, int]]:
        """Return bounds of P(X > k) times 2**bits, k = 0, 1, ..., down to below 2**-64."""
        work = bits + 64
        low, high = _exp(self.decay, work)
        one = 1 << work
        # P(X > k) = q**(k + 1) / (1 + q)
        below, above = (low << work) // (one + low), -((-high << work) // (one + high))
        found = []
        while True:
            found.append((below >> 64, -(-above >> 64)))
            if found[-1][1] < 1 << (bits - _WORD):
                return found
            below, above = below * low >> work, -(-above * high >> work)

    def _decide(self, word: int, draws: Draws) -> int:
        """Return the number for a U that begins with `word`, with as many bits as it takes."""
        bits = _WORD
        while True:
            word = word << _WORD | int(draws.words64(1)[0])
            bits += _WORD
            found = self._search(word, bits)
            if found is not None:
                return found

    def _search(self, word: int, bits: int) -> int | None:
        """Return the j of every U from word / 2**bits to below (word + 1) / 2**bits, if it is one.

        By symmetry a U above 1/2 is 1 - U of the mirrored number; the tails hold one half.
        """
        one = 1 << bits
        upper = word >> (bits - 1)
        least, most = (one - word - 1, one - word) if upper else (word, word + 1)
        work = bits + 64
        low, high = _exp(self.decay, work)
        unit = 1 << work
        below, above = (low << work) // (unit + low), -((-high << work) // (unit + high))
        least, most = least << 64, most << 64
        if least >= above:
            return 0  # P(X < 0) <= U <= 1/2
        k = 0
        while True:
            next_below, next_above = below * low >> work, -(-above * high >> work)
            # P(X <= -2 - k) <= U < P(X <= -1 - k)
            if next_above <= least and most <= below:
                return k + 1 if upper else -1 - k
            if least >= next_above or next_above == 1:
                return None
            below, above, k = next_below, next_above, k + 1

    def __repr__(self) -> str:
        return f"DiscreteLaplace(scale {float(1 / self.decay):.6g})"


@lru_cache(maxsize=16, typed=True)
def discrete_laplace(decay: Fraction) -> DiscreteLaplace:
    """Return the sampler of a decay s.

    Parameters
    ----------
    decay : Fraction
        From 1 / :data:`LARGEST_SCALE` to 64.

    Raises
    ------
    UsageError
        If it is out of its range.
    """
    if not isinstance(decay, Fraction) or not Fraction(1, LARGEST_SCALE) <= decay <= 64:
        raise UsageError("decay", decay, f"a Fraction from 1/{LARGEST_SCALE} to 64")
    return DiscreteLaplace(decay)


def _exp(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around exp(-exponent) 2**bits; the exponent is above 0."""
    halvings = max(0, math.ceil(math.log2(float(exponent))) + 2)
    x = exponent / 2**halvings
    work = bits + 32 + 2 * halvings
    # Of the alternating series of exp(-x), x <= 1, partial sums lie on either side.
    total, term, n = Fraction(1), Fraction(1), 0
    while True:
        n += 1
        term = term * x / n
        if n % 2:
            lower = total - term
            if term * (1 << work) < 1:
                break
        total += -term if n % 2 else term
    low = lower.numerator * (1 << work) // lower.denominator
    high = -(-total.numerator * (1 << work) // total.denominator)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return low >> (work - bits), -(-high >> (work - bits))
