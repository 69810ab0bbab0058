"""Tails of discrete Gaussian, Laplace and Skellam laws, between integers that are proven bounds.

All numbers are integers over 2**bits, rounded down in the lower bound and up in the upper one: no
float decides a probability. With more bits the bounds close in on the law as far as one likes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Protocol

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Law", "Skellam"]


class Law(Protocol):
    """A law on the integers, symmetric about 0 and falling from there."""

    @property
    def variance(self) -> Fraction | float:
        """Its variance, nearly."""

    def tails(self, bits: int) -> Iterable[tuple[int, int]]:
        """Return bounds of P(X > k) for k = 0, 1, 2, ..., times 2**bits, while they are above 0."""


class _ByRatios(ABC):
    """A law of a variance v that is known by the ratios of its probabilities."""

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance

    @abstractmethod
    def ratios(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield bounds of P(k + 1) / P(k) for k = 0, 1, 2, ...; they fall with k."""

    def tails(self, bits: int) -> list[tuple[int, int]]:
        """Return bounds of P(X > k) times 2**bits, as :meth:`Law.tails` says."""
        one = 1 << bits
        work = bits + 64
        low = high = 1 << work
        lows, highs = [low], [high]
        rest = 0
        for below, above in self.ratios(work):
            if above == 1 << work:
                raise ArithmeticError("the bounds of a ratio have not closed in")
            if low == 0:  # all that follows is below a geometric series
                rest = -(-high * above // ((1 << work) - above))
                break
            low, high = low * below >> work, -(-high * above >> work)
            lows.append(low)
            highs.append(high)
        else:
            raise ArithmeticError("the ratios end before the tail is small")
        whole_low = 2 * sum(lows) - lows[0]
        whole_high = 2 * (sum(highs) + rest) - highs[0]
        found = []
        low, high = 0, rest
        for k in range(len(lows) - 1, -1, -1):
            found.append((low * one // whole_high, -(-high * one // whole_low)))
            low += lows[k]
            high += highs[k]
        return found[::-1]


class DiscreteGaussian(_ByRatios):
    """P(k) proportional to exp(-k**2 / (2 v))."""

    def ratios(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield q, q**3, q**5, ... with q = exp(-1 / (2 v))."""
        low, high = _exp(Fraction(1, 2) / self.variance, bits)
        below, above = low * low >> bits, -(-high * high >> bits)
        while True:
            yield low, high
            low, high = low * below >> bits, -(-high * above >> bits)


class Skellam(_ByRatios):
    """The difference of two Poisson numbers of mean v / 2: P(k) = exp(-v) I_k(v)."""

    def ratios(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield I_(k+1) / I_k, from the continued fraction of the recurrence.

        I_k / I_(k-1) = 1 / (2 k / v + I_(k+1) / I_k) (DLMF 10.29.1, 10.33.1), begun far out with
        the bounds 0 and 1. Each step down squares the ratio into the distance of the bounds.
        """
        one = 1 << bits
        square = one << bits
        top = math.ceil(1.6 * math.sqrt(2 * math.log(2) * bits * self.variance)) + 2 * bits
        numerator, denominator = self.variance.numerator, self.variance.denominator
        low, high = 0, one
        found = []
        for k in range(top, 0, -1):
            share, rest = divmod((2 * k * denominator) << bits, numerator)
            low, high = (
                square // (share + (rest > 0) + high),
                min(-(-square // (share + low)), one),
            )
            found.append((low, high))
        yield from reversed(found)


class DiscreteLaplace:
    """P(k) proportional to exp(-s abs(k)), with decay s."""

    def __init__(self, decay: Fraction) -> None:
        self.decay = decay

    @property
    def variance(self) -> float:
        """2 q / (1 - q)**2 with q = exp(-s)."""
        s = float(self.decay)
        return 2 * math.exp(-s) / math.expm1(-s) ** 2

    def tails(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield bounds of q**(k + 1) / (1 + q)."""
        work = bits + 64
        low, high = _exp(self.decay, work)
        one = 1 << work
        below, above = (low << work) // (one + low), -((-high << work) // (one + high))
        while above > 1:
            yield below >> 64, -(-above >> 64)
            below, above = below * low >> work, -(-above * high >> work)


def _exp(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around exp(-exponent) 2**bits; the exponent is above 0.

    It is halved until it is below 1, and the root squared as often.
    """
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
