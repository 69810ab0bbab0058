"""The samplers' laws: exact bounds, chi-square with power, and words that 64 bits do not decide."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import privagg.mechanisms.integer_noise as module
from privagg import entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._enclosures import DiscreteGaussian, Skellam
from privagg.mechanisms.integer_noise import integer_noise

KINDS = ("discrete-gaussian", "skellam")
DRAWS = 200_000
REACH = 4000


def law(kind, variance):
    """The probabilities, computed in another way: a list for -REACH to REACH."""
    numbers = np.abs(np.arange(-REACH, REACH + 1))
    if kind == "skellam":
        return pytest.importorskip("scipy.special").ive(numbers, variance)
    weights = np.exp(-(numbers.astype(float) ** 2) / (2 * variance))
    return weights / weights.sum()


def p_value(drawn, expected):
    """Chi-square over bins of 50 or more expected draws."""
    stats = pytest.importorskip("scipy.stats")
    seen = np.bincount(drawn + REACH, minlength=2 * REACH + 1)
    bins, count, mass = [], 0, 0.0
    for one, share in zip(seen, expected * len(drawn), strict=True):
        count, mass = count + one, mass + share
        if mass >= 50:
            bins.append((count, mass))
            count, mass = 0, 0.0
    bins[-1] = (bins[-1][0] + count, bins[-1][1] + mass)
    statistic = sum((n - m) ** 2 / m for n, m in bins)
    return stats.chi2.sf(statistic, len(bins) - 1)


def draw(kind, variance, count=DRAWS, seed=3):
    draws = Draws(entropy.from_seed(seed).spawn(kind))
    return integer_noise(kind, variance).sample(count, draws)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variance", [0.3, 2.0, 47.6, 3000.0])
def test_the_law_is_right_and_a_scale_wrong_by_5_percent_is_seen(kind, variance):
    drawn = draw(kind, variance)
    assert p_value(drawn, law(kind, variance)) > 1e-3
    for wrong in (1.05, 1 / 1.05):
        assert p_value(drawn, law(kind, variance * wrong**2)) < 1e-9


def test_the_kinds_are_told_apart():
    drawn = draw("skellam", 2.0)
    assert p_value(drawn, law("discrete-gaussian", 2.0)) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_deviation_has_its_moments(kind):
    sigma = 1500.0
    drawn = draw(kind, sigma**2)
    assert abs(drawn.mean()) < 5 * sigma / math.sqrt(DRAWS)
    assert drawn.var() == pytest.approx(sigma**2, rel=5 * math.sqrt(2 / DRAWS))
    assert (np.abs(drawn) > 4 * sigma).sum() < 40


def test_tails_of_the_discrete_gaussian_bound_its_series():
    variance, bits = Fraction(7, 2), 200
    exact = [Fraction(math.exp(-k * k / 7)) for k in range(60)]
    whole = 2 * sum(exact) - exact[0]
    for k, (low, high) in enumerate(DiscreteGaussian(variance).tails(bits)[:12]):
        assert 0 <= high - low <= 2**20
        right = sum(exact[k + 1 :]) / whole
        assert low / 2**bits == pytest.approx(float(right), rel=1e-12)


def test_tails_of_skellam_close_in_on_the_sum_of_two_poissons():
    bits = 160
    rate = Fraction(3, 4)
    poisson = [rate**k / math.factorial(k) for k in range(70)]
    scale = sum(Fraction(-2 * rate) ** k / math.factorial(k) for k in range(90))  # exp(-2 rate)
    mass = [scale * sum(poisson[j] * poisson[j + k] for j in range(70 - k)) for k in range(40)]
    found = Skellam(2 * rate).tails(bits)
    for k in range(15):
        right = sum(mass[k + 1 :]) * 2**bits
        low, high = found[k]
        assert low <= right + 1
        assert right - 1 <= high
        assert high - low < 2**12


@pytest.mark.parametrize("kind", KINDS)
def test_words_that_do_not_decide_are_decided_by_more(kind):
    noise = integer_noise(kind, 5.0)
    ends = noise._ends
    words = np.repeat(ends, 12)
    out = np.empty(words.size, np.int64)
    noise.invert(words, Draws(entropy.from_seed(1)), out)
    below = noise._first + np.arange(ends.size)
    by_end = out.reshape(ends.size, 12)
    # A word is cut off from numbers on both sides of the end: some lead here, some to the next.
    inner = (ends > 2**20) & (ends < 2**64 - 2**20)
    assert inner.sum() > 10
    assert np.isin(by_end[inner] - below[inner, None], (0, 1)).all()
    assert set(np.unique(by_end[inner] - below[inner, None])) == {0, 1}
    assert (by_end[ends == 0] <= noise._first + 1).all()
    assert (by_end[ends == 2**64 - 1] >= -noise._first - 1).all()


def test_the_share_of_the_deciding_bits_is_right():
    noise = integer_noise("discrete-gaussian", 5.0)
    at = noise.entries // 2 + 1
    low, high = DiscreteGaussian(Fraction(5)).tails(192)[at + noise._first]
    rest = (2**192 - (low + high) // 2) % 2**128 / 2**128  # of the words' continuations, below
    words = np.full(600, noise._ends[at])
    out = np.empty(words.size, np.int64)
    noise.invert(words, Draws(entropy.from_seed(2)), out)
    here = (out == noise._first + at).mean()
    assert here == pytest.approx(rest, abs=5 * math.sqrt(rest * (1 - rest) / 600))


def test_without_kernels_the_draws_are_the_same(monkeypatch):
    fast = [draw(kind, 30.0, 5000) for kind in KINDS]
    monkeypatch.setattr(module, "JIT", False)
    for one, kind in zip(fast, KINDS, strict=True):
        assert np.array_equal(one, draw(kind, 30.0, 5000))


@pytest.mark.parametrize("variance", [0, -1, math.nan, math.inf, 1e9, True, "2"])
def test_variances_are_checked(variance):
    with pytest.raises(UsageError, match="variance"):
        integer_noise("skellam", variance)


def test_kinds_are_checked():
    with pytest.raises(UsageError, match="kind"):
        integer_noise("laplace", 1.0)
    assert "sigma" in repr(integer_noise("skellam", 4.0))
