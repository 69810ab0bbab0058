"""Tails of discrete Gaussian and Skellam laws, between integers that are proven bounds.

All numbers are integers over 2**bits, rounded down in the lower bound and up in the upper one: no
float decides a probability. With more bits the bounds close in on the law as far as one likes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Protocol

__all__ = ["DiscreteGaussian", "Law", "Skellam", "tails"]


class Law(Protocol):
    """A law on the integers, symmetric about 0 and falling from there."""

    @property
    def sigma(self) -> float:
        """Its standard deviation, nearly."""

    def ratios(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield bounds of P(k + 1) / P(k) for k = 0, 1, 2, ...; they fall with k."""


class DiscreteGaussian:
    """P(k) proportional to exp(-k**2 / (2 v))."""

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance
        self.sigma = math.sqrt(variance)

    def ratios(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield q, q**3, q**5, ... with q = exp(-1 / (2 v))."""
        low, high = _exp(Fraction(1, 2) / self.variance, bits)
        below, above = low * low >> bits, -(-high * high >> bits)
        while True:
            yield low, high
            low, high = low * below >> bits, -(-high * above >> bits)


class Skellam:
    """The difference of two Poisson numbers of mean v / 2: P(k) = exp(-v) I_k(v)."""

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance
        self.sigma = math.sqrt(variance)

    def ratios(self, bits: int) -> Iterator[tuple[int, int]]:
        """Yield I_(k+1) / I_k, from the continued fraction of the recurrence.

        I_k / I_(k-1) = 1 / (2 k / v + I_(k+1) / I_k) (DLMF 10.29.1, 10.33.1), begun far out with
        the bounds 0 and 1. Each step down squares the ratio into the distance of the bounds.
        """
        one = 1 << bits
        square = one << bits
        top = math.ceil(1.6 * self.sigma * math.sqrt(2 * math.log(2) * bits)) + 2 * bits
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


def tails(law: Law, bits: int) -> list[tuple[int, int]]:
    """Return bounds of P(X > k) for k = 0, 1, 2, ..., times 2**bits, as far as they are above 0."""
    one = 1 << bits
    work = bits + 64
    low = high = 1 << work
    lows, highs = [low], [high]
    rest = 0
    for below, above in law.ratios(work):
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


def _exp(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds of exp(-exponent), for an exponent up to 8, by its series."""
    if not 0 < exponent <= 8:
        raise ArithmeticError("an exponent outside (0, 8]")
    work = bits + 32
    below = (exponent.numerator << work) // exponent.denominator
    above = below + 1
    low = high = 1 << work
    low_term = high_term = 1 << work
    for n in range(1, 16 * work):
        low_term = low_term * below // (n << work)
        high_term = -(-high_term * above // (n << work))
        low += low_term
        high += high_term
        if n > 16 and high_term <= 1:  # what follows is below twice the last term
            high += 2 * high_term + 1
            break
    one = 1 << bits
    return (one << work) // high, min(-(-(one << work) // low), one - 1)
