"""Discrete Laplace numbers: the table and the slow path against the law in closed form."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._enclosures import _exp
from privagg.mechanisms.discrete_laplace import discrete_laplace


class Words:
    """Draws whose words are given."""

    def __init__(self, *words):
        self.left = list(words)

    def words64(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, np.uint64)


def below(j, decay):
    """Return P(X <= j) to 60 digits."""
    getcontext().prec = 60
    q = (-Decimal(decay.numerator) / Decimal(decay.denominator)).exp()
    return 1 - q ** (j + 1) / (1 + q) if j >= 0 else q ** (-j) / (1 + q)


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 10**6), Fraction(1), Fraction(355, 113), Fraction(60)]
)
def test_exponentials_lie_between_their_bounds(exponent):
    getcontext().prec = 90
    true = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * 2**200
    low, high = _exp(exponent, 200)
    assert low <= true <= high
    assert high - low <= 4


@pytest.mark.parametrize("decay", [Fraction(3), Fraction(1), Fraction(2, 9)])
def test_every_cut_off_value_is_the_first_64_bits_of_the_law(decay):
    made = discrete_laplace(decay)
    for at, end in enumerate(made._ends.tolist()):
        assert end == int(below(at + made._first, decay) * 2**64)


@pytest.mark.parametrize("decay", [Fraction(1), Fraction(1, 7)])
def test_a_word_on_a_cut_off_value_is_decided_by_more_bits(decay):
    made = discrete_laplace(decay)
    getcontext().prec = 60
    for j in (-9, -2, -1, 0, 1, 5):
        exact = below(j, decay) * 2**128
        word, rest = divmod(int(exact), 2**64)
        assert 0 < rest < 2**64 - 1
        assert made.sample(1, Words(word, rest - 1)).tolist() == [j]
        assert made.sample(1, Words(word, rest + 1)).tolist() == [j + 1]


def test_the_ends_of_the_unit_interval_are_far_out_and_undecided_at_first():
    made = discrete_laplace(Fraction(1))
    low, high = (made.sample(1, Words(w, 2**63)).item() for w in (0, 2**64 - 1))
    assert low == -high
    assert 43 <= high <= 46


@pytest.mark.parametrize("decay", [Fraction(1, 3), Fraction(2)])
def test_frequencies_are_those_of_the_law(decay):
    count = 200_000
    found = discrete_laplace(decay).sample(count, Draws(from_seed(5)))
    q = math.exp(-float(decay))
    for j in range(-4, 5):
        p = (1 - q) / (1 + q) * q ** abs(j)
        assert abs((found == j).mean() - p) < 5 * math.sqrt(p / count)
    assert found.var() == pytest.approx(discrete_laplace(decay).variance, rel=0.05)


def test_other_decays_are_refused():
    for decay in (Fraction(0), Fraction(100), 0.5):
        with pytest.raises(UsageError, match="decay"):
            discrete_laplace(decay)
