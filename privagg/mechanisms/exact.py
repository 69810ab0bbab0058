"""Exact arithmetic of privacy: probabilities as counts of words, epsilon as a ratio of counts.

A sampler draws a uniform word of 32 or 64 bits and compares it with integers, so each of its
probabilities is a count of words over ``2**bits`` and nothing is rounded when it runs. The counts
are chosen such that the largest ratio of two probabilities, a fraction of integers, is at most
e**epsilon; bounds of e**epsilon come from decimals of 60 digits, rounded in the safe direction.

So ``epsilon_realised``, the logarithm of that ratio, is what a report really has, never more than
what was asked for. An epsilon that 64-bit words cannot come close to is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np

from privagg.errors import UsageError

__all__ = [
    "BitPair",
    "Split",
    "bit_pair",
    "ceiling",
    "check_epsilon",
    "exp_lower",
    "exp_upper",
    "log_upper",
    "realise",
    "split",
]

_DIGITS = 60
_MAX_EPSILON = 1000.0

_LOSS = {32: Fraction(1, 2**13), 64: Fraction(1, 2**10)}
"""Which part of epsilon may be lost to integer thresholds, by the bits of the words."""


def check_epsilon(epsilon: Any, name: str = "epsilon") -> float:
    """Return epsilon as a float, if it is a finite number above 0; bools are none.

    Raises
    ------
    UsageError
        If it is not.
    """
    real = isinstance(epsilon, int | float | np.integer | np.floating)
    if isinstance(epsilon, bool) or not real or not 0 < epsilon < math.inf:
        raise UsageError(name, epsilon, "a finite number above 0")
    try:
        return float(epsilon)
    except OverflowError:
        raise UsageError(name, epsilon, "a number that fits a float") from None


@lru_cache(maxsize=256)
def exp_lower(exponent: Fraction | float) -> Fraction:
    """Return a fraction just below e**exponent, by 60 digits; `exponent` from 0 to 1000."""
    context = Context(_DIGITS, rounding=ROUND_FLOOR, Emax=10**6, Emin=-(10**6))
    return Fraction(context.next_minus(_decimal(exponent, context).exp(context)))


@lru_cache(maxsize=256)
def exp_upper(exponent: Fraction | float) -> Fraction:
    """Return a fraction just above e**exponent, by 60 digits; `exponent` from 0 to 1000."""
    context = Context(_DIGITS, rounding=ROUND_CEILING, Emax=10**6, Emin=-(10**6))
    return Fraction(context.next_plus(_decimal(exponent, context).exp(context)))


def log_upper(ratio: Fraction) -> float:
    """Return the least float that is not below ln(ratio), give or take the 60th digit.

    Raises
    ------
    ValueError
        If `ratio` is below 1.
    """
    if ratio < 1:
        raise ValueError("a largest ratio is at least 1")
    context = Context(_DIGITS, rounding=ROUND_CEILING, Emax=10**6, Emin=-(10**6))
    quotient = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    logarithm = context.next_plus(quotient.ln(context)) if ratio > 1 else Decimal(0)
    nearest = float(logarithm)
    return nearest if Decimal(nearest) >= logarithm else math.nextafter(nearest, math.inf)


def ceiling(value: Fraction) -> int:
    """Return the least integer that is not below `value`."""
    return -(-value.numerator // value.denominator)


def _decimal(exponent: Fraction | float, context: Context) -> Decimal:
    """Return the exponent as a decimal, rounded as the context says; floats are exact."""
    value = Fraction(exponent)
    if not 0 <= value <= _MAX_EPSILON:
        raise UsageError("epsilon", float(value), f"up to {_MAX_EPSILON:g}")
    wide = Context(1200, rounding=context.rounding, Emax=10**6, Emin=-(10**6))
    return wide.divide(Decimal(value.numerator), Decimal(value.denominator))


class Realised(Protocol):
    """Integer thresholds and the ratio of probabilities that they realise."""

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one report under two values."""


_R = TypeVar("_R", bound=Realised)


def realise(make: Callable[[float, int], _R | None], epsilon: float) -> _R:
    """Return the thresholds of 32-bit words if they are precise, else those of 64-bit words.

    Parameters
    ----------
    make : callable
        Builds thresholds for an epsilon and 32 or 64 bits, whose ratio is at most e**epsilon; None
        if a probability would round to 0.
    epsilon : float
        The stated epsilon.

    Raises
    ------
    UsageError
        If even 64-bit thresholds would realise less than 1 - 1/1024 of epsilon. An epsilon that
        works is named.
    """
    limit = min(epsilon, 64.0)  # beyond, no 64-bit word has a probability so small
    for bits, loss in _LOSS.items():
        made = make(limit, bits) if epsilon <= limit else None
        if made is None:
            continue
        if made.ratio > exp_upper(epsilon):
            raise AssertionError("thresholds must never realise more than epsilon")
        if made.ratio > 1 and _enough(made.ratio, epsilon, loss):
            return made
    works = next((near for near in _candidates(epsilon) if _works(make, near)), None)
    hint = f"epsilon={works:g} works." if works is not None else "Take a smaller domain."
    raise UsageError("epsilon", epsilon, "what 64-bit integer thresholds can realise", hint)


def _enough(ratio: Fraction, epsilon: float, loss: Fraction) -> bool:
    return ratio >= exp_lower(Fraction(epsilon) * (1 - loss))


def _candidates(epsilon: float) -> list[float]:
    """Return epsilons near the one that fails: whole ones below, powers of ten above."""
    if epsilon > 1:
        return [float(whole) for whole in range(math.ceil(min(epsilon, 64.0)) - 1, 0, -1)]
    return [10.0**power for power in range(math.ceil(math.log10(epsilon)), 1)]


def _works(make: Callable[[float, int], _R | None], epsilon: float) -> bool:
    made = make(epsilon, 64)
    return made is not None and made.ratio > 1 and _enough(made.ratio, epsilon, _LOSS[64])


@dataclass(frozen=True)
class Split:
    """One of `k` symbols is kept, or replaced by one of the others, each equally likely.

    Attributes
    ----------
    k : int
        How many symbols.
    bits : int
        Bits of the uniform word: 32 or 64.
    other : int
        How many words lead to each other symbol. The first ``(k - 1) * other`` words replace, the
        rest keep.
    """

    k: int
    bits: int
    other: int

    @property
    def keep(self) -> int:
        """How many words keep the symbol."""
        return int(2**self.bits - (self.k - 1) * self.other)

    @cached_property
    def ratio(self) -> Fraction:
        """How much likelier the true symbol is than any other: e to the realised epsilon."""
        return Fraction(self.keep, self.other)

    @cached_property
    def p(self) -> Fraction:
        """Probability that the symbol is kept."""
        return Fraction(self.keep, 2**self.bits)

    @cached_property
    def q(self) -> Fraction:
        """Probability of each other symbol."""
        return Fraction(self.other, 2**self.bits)


def split(k: int, epsilon: float) -> Split:
    """Return the thresholds of generalised randomised response over `k` symbols.

    The probabilities are the nearest to e**epsilon / (e**epsilon + k - 1) and 1 / (e**epsilon +
    k - 1) whose ratio is at most e**epsilon.

    Raises
    ------
    UsageError
        If 64-bit words cannot realise epsilon.
    """

    def make(stated: float, bits: int) -> Split | None:
        made = Split(k, bits, ceiling(2**bits / (exp_lower(stated) + k - 1)))
        return made if made.keep > 0 and made.ratio >= 1 else None

    return realise(make, epsilon)


@dataclass(frozen=True)
class BitPair:
    """Independent bits: set with probability p where the value is, with q everywhere else.

    Attributes
    ----------
    bits : int
        Bits of the uniform words: 32 or 64.
    one, zero : int
        How many words set the bit of the value, and any other bit.
    """

    bits: int
    one: int
    zero: int

    @cached_property
    def ratio(self) -> Fraction:
        """The largest ratio p (1 - q) / ((1 - p) q): two values differ in two bits."""
        rest = 2**self.bits
        return Fraction(self.one * (rest - self.zero), (rest - self.one) * self.zero)

    @cached_property
    def p(self) -> Fraction:
        """Probability that the bit of the value is set."""
        return Fraction(self.one, 2**self.bits)

    @cached_property
    def q(self) -> Fraction:
        """Probability that any other bit is set."""
        return Fraction(self.zero, 2**self.bits)


def bit_pair(epsilon: float, p: Fraction | None) -> BitPair:
    """Return the thresholds of unary encoding with a given `p`; without, the symmetric ones.

    The symmetric ones have q = 1 - p. Otherwise q is the smallest that epsilon allows.

    Raises
    ------
    UsageError
        If 64-bit words cannot realise epsilon.
    """

    def make(stated: float, bits: int) -> BitPair | None:
        whole = 2**bits
        if p is None:
            zero = ceiling(whole / (exp_lower(Fraction(stated) / 2) + 1))
            return BitPair(bits, whole - zero, zero) if 2 * zero <= whole else None
        one = round(p * whole)
        if not 0 < one < whole:
            return None
        zero = ceiling(Fraction(whole * one) / (exp_lower(stated) * (whole - one) + one))
        return BitPair(bits, one, zero) if zero <= one else None

    return realise(make, epsilon)
