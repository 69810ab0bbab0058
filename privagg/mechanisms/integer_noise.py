"""Exact integer noise: discrete Gaussian, Laplace and Skellam numbers from uniform bits.

A uniform U in [0, 1) is drawn bit by bit, and the number is the least j with U < P(X <= j). 64 bits
of U and as many of each P(X <= j) nearly always decide; where they do not (a word equals a cut-off
value, about once in 2**50 draws), more bits of both are computed until they do. So the law is
exact: no probability is rounded, however often one draws, and no float takes part. The values are
bounded from both sides in integer arithmetic (:mod:`privagg.mechanisms._enclosures`).

What is not promised: constant time. How long a draw takes depends on the number drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import whole
from privagg.accounting.rdp import positive
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._enclosures import DiscreteGaussian, Law, Skellam
from privagg.mechanisms._kernels.inversion import UNDECIDED, inverted, inverted_plain

__all__ = ["MAX_SIGMA", "IntegerNoise", "integer_noise"]

MAX_SIGMA = 8192.0
"""The table has about 19 entries per standard deviation, and takes 0.1 ms of each to compute."""

_LEAST = 0.0625
_TILE = 1 << 15
_LAWS: dict[str, type[DiscreteGaussian] | type[Skellam]] = {
    "discrete-gaussian": DiscreteGaussian,
    "skellam": Skellam,
}


class IntegerNoise:
    """A sampler of one law.

    Build it with :func:`integer_noise`, or for Laplace numbers with
    :func:`~privagg.mechanisms.discrete_laplace.discrete_laplace`: they keep the tables.

    Parameters
    ----------
    law : Law
        The law.
    """

    def __init__(self, law: Law) -> None:
        self.law = law
        bits = 128
        while (ends := _ends(law.tails(bits), bits)) is None:
            bits += 64
        self._ends = np.array(ends, np.uint64)
        self._first = -(len(ends) // 2)
        wide = max(4, min(18, (len(ends) - 1).bit_length() + 1))
        self._shift = np.uint64(64 - wide)
        starts = np.arange(1 << wide, dtype=np.uint64) << self._shift
        self._guide = np.searchsorted(self._ends, starts, side="left").astype(np.int64)

    @property
    def entries(self) -> int:
        """How many integers the table decides; all others are decided by more bits."""
        return int(self._ends.size)

    @property
    def variance(self) -> float:
        """The law's variance, of discrete Gaussian numbers its parameter."""
        return float(self.law.variance)

    def sample(self, count: int, draws: Draws) -> NDArray[np.int64]:
        """Return `count` independent numbers.

        Parameters
        ----------
        count : int
            How many.
        draws : Draws
            Uniform words; 64 bits are taken for each number.
        """
        out = np.empty(whole("count", count, 0, 2**40), np.int64)
        for start in range(0, out.size, _TILE):
            part = out[start : start + _TILE]
            self.invert(draws.words64(part.size), draws, part)
        return out

    def invert(self, words: NDArray[np.uint64], draws: Draws, out: NDArray[np.int64]) -> None:
        """Write the number for each first word of U; `draws` has the bits that follow."""
        if JIT:
            undecided = inverted(
                words, self._ends, self._guide, self._shift, np.int64(self._first), out
            )
        else:
            undecided = inverted_plain(words, self._ends, self._first, out)
        if undecided:
            for at in np.flatnonzero(out == UNDECIDED).tolist():
                out[at] = self._decide(int(words[at]), draws)

    def _decide(self, word: int, draws: Draws) -> int:
        """Return the number for a U that begins with `word`, with as many bits as it takes."""
        bits = 64
        while True:
            word = word << 64 | int(draws.words64(1)[0])
            bits += 64
            found = _search(self.law.tails(bits + 64), bits + 64, word << 64, (word + 1) << 64)
            if found is not None:
                return found

    def __repr__(self) -> str:
        return f"IntegerNoise({type(self.law).__name__}, sigma {math.sqrt(self.variance):.6g})"


@lru_cache(maxsize=8)
def integer_noise(
    kind: Literal["discrete-gaussian", "skellam"] | str, variance: float
) -> IntegerNoise:
    """Return the sampler of a law.

    Parameters
    ----------
    kind : str
        ``discrete-gaussian``: P(j) proportional to exp(-j**2 / (2 v)), the sampler's law in
        Canonne, Kamath, Steinke, NeurIPS 2020. ``skellam``: the difference of two Poisson numbers
        of mean v / 2 each.
    variance : float
        The parameter v, exactly this float: 1/16 up to ``MAX_SIGMA**2``. It is the variance of
        Skellam numbers, and very nearly that of discrete Gaussian ones.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if kind not in _LAWS:
        raise UsageError("kind", kind, " or ".join(sorted(_LAWS)))
    value = positive("variance", variance)
    if not _LEAST <= value <= MAX_SIGMA**2:
        raise UsageError("variance", variance, f"{_LEAST:g} to {MAX_SIGMA**2:g}")
    return IntegerNoise(_LAWS[kind](Fraction(value)))


def _ends(found: Iterable[tuple[int, int]], bits: int) -> list[int] | None:
    """Return the 64 first bits of P(X <= j), all j that they tell from 0 and 1; None if unsure."""
    one = 1 << bits
    upper, lower = [], []
    for low, high in found:
        # P(X <= k) = 1 - P(X > k), and P(X <= -1 - k) = P(X > k).
        above = (one - high) >> (bits - 64), (one - max(low, 1)) >> (bits - 64)
        below = low >> (bits - 64), high >> (bits - 64)
        if above[0] != above[1] or below[0] != below[1]:
            return None
        upper.append(above[0])
        lower.append(below[0])
        if below[0] == 0:
            break
    else:
        return None
    return lower[::-1] + upper


def _search(found: Iterable[tuple[int, int]], bits: int, least: int, most: int) -> int | None:
    """Return the j of every U from least / 2**bits to below most / 2**bits, if it is one j."""
    one = 1 << bits
    before: tuple[int, int] | None = None
    for k, (low, high) in enumerate(found):
        # j = k: P(X <= k - 1) <= U < P(X <= k), with P(X <= -1) = P(X > 0).
        start = high if before is None else one - before[0]
        if start <= least and most <= one - high:
            return k
        # j = -k: P(X > k) <= U < P(X > k - 1)
        if before is not None and high <= least and most <= before[0]:
            return -k
        before = low, high
    return None
