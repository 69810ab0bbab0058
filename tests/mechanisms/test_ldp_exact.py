"""Thresholds are integers, and their exact ratio never exceeds e to the stated epsilon."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import exact
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels import symbols


def series(x, terms=400):
    """Return e**x between two fractions, by its series."""
    x = Fraction(x)
    total, term = Fraction(0), Fraction(1)
    for i in range(1, terms):
        total += term
        term = term * x / i
    return total, total + 2 * term


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.1, 1.0, math.log(3), 7.25, 40.0])
def test_bounds_of_the_exponential(x):
    low, high = series(x)
    assert exact.exp_lower(x) < high
    assert exact.exp_upper(x) > low
    assert exact.exp_lower(x) <= low
    assert exact.exp_upper(x) >= high or x == 0.0
    assert exact.exp_upper(x) - exact.exp_lower(x) < low * Fraction(1, 10**55)


@given(st.floats(1e-6, 40))
@settings(max_examples=200, deadline=None)
def test_logarithm_rounds_up_and_undoes_the_exponential(x):
    assert exact.log_upper(exact.exp_lower(x) * (1 - Fraction(1, 10**45))) <= x
    assert exact.log_upper(exact.exp_upper(x)) >= x
    assert exact.log_upper(exact.exp_lower(x)) == pytest.approx(x, rel=1e-12)


def test_logarithm_of_one_and_below():
    assert exact.log_upper(Fraction(1)) == 0.0
    with pytest.raises(ValueError, match="at least 1"):
        exact.log_upper(Fraction(1, 2))


@given(st.integers(2, 5000), st.floats(0.001, 30))
@settings(max_examples=200, deadline=None)
def test_splits(k, epsilon):
    chances = exact.split(k, epsilon)
    assert chances.keep + (k - 1) * chances.other == 2**chances.bits
    assert 1 < chances.ratio <= exact.exp_upper(epsilon)
    assert 0 < chances.q < chances.p < 1
    # One word fewer for each other value would be too many for the true one.
    tighter = exact.Split(k, chances.bits, chances.other - 1)
    assert tighter.other == 0 or tighter.ratio > exact.exp_lower(epsilon)
    assert exact.log_upper(chances.ratio) >= epsilon * (1 - 1 / 1024)


@given(st.floats(0.001, 30), st.sampled_from([None, Fraction(1, 2), Fraction(3, 4)]))
@settings(max_examples=200, deadline=None)
def test_bit_pairs(epsilon, p):
    pair = exact.bit_pair(epsilon, p)
    assert pair.ratio == pair.p * (1 - pair.q) / ((1 - pair.p) * pair.q)
    assert 1 < pair.ratio <= exact.exp_upper(epsilon)
    assert p is None or pair.p == p
    assert p is not None or pair.p + pair.q == 1


def test_small_domains_take_short_words_and_large_ones_long_words():
    assert exact.split(100, 1.0).bits == 32
    assert exact.split(10**5, 1.0).bits == 64
    assert exact.split(2, 20.0).bits == 64


def test_refusals_name_an_epsilon_that_works():
    for epsilon in (44.0, 100.0, 800.0, 1e-15, 1e-300):
        with pytest.raises(UsageError, match="works") as caught:
            exact.split(100, epsilon)
        works = float(caught.value.hint.split("=")[1].split(" ")[0])
        exact.split(100, works)


@pytest.mark.parametrize("width", [np.uint32, np.uint64])
@pytest.mark.parametrize(("k", "other"), [(2, 100), (2, 128), (3, 7), (5, 51), (5, 1)])
def test_every_word_of_eight_bits_goes_where_it_should(k, other, width):
    """All 256 words: the sampler itself has exactly the probabilities of the thresholds."""
    chances = exact.Split(k, 8, other)
    words = np.arange(256, dtype=width)
    for value in range(k):
        held = np.full(256, value, np.uint32)
        expected = np.full(k, other)
        expected[value] = chances.keep
        plain = symbols.replaced_plain(held, words, chances)
        assert np.bincount(plain, minlength=k).tolist() == expected.tolist()
        out = np.empty(256, np.uint32)
        lies = width((k - 1) * other)
        reciprocal = math.nextafter(1 / other, math.inf)
        symbols.replaced(held, words, lies, reciprocal, width(other), out)
        assert np.array_equal(out, plain)


@given(st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(-2, 2))
@settings(max_examples=500, deadline=None)
def test_division_by_reciprocal_is_exact(other, word, shift):
    """Also just below and above the multiples, where a float could slip."""
    for number in (word, min(max(word // other * other + shift, 0), 2**32 - 1)):
        assert int(float(number) * math.nextafter(1 / other, math.inf)) == number // other


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("k", [2, 3, 100, 1024])
def test_kernel_is_the_plain_path(bits, k):
    rng = np.random.default_rng(k)
    chances = exact.Split(k, bits, 2**bits // (k + 3))
    words = rng.integers(0, 2**bits, 4000, np.uint64).astype(f"u{bits // 8}")
    edges = [0, chances.other, (k - 1) * chances.other]
    words[:8] = [edge + step for edge in edges for step in (-1, 0, 1) if edge + step >= 0]
    held = rng.integers(0, k, words.size, np.uint32)
    out = np.empty_like(held)
    top = symbols.replaced(held, words, *symbols._constants(chances), out)
    assert top == held.max()
    assert np.array_equal(out, symbols.replaced_plain(held, words, chances))


def test_counting():
    values = np.random.default_rng(1).integers(0, 7, 1003, np.uint32)
    for n in (0, 1, 3, 4, 1003):
        found = symbols.count_symbols(values[:n], 9)
        assert found.tolist() == np.bincount(values[:n], minlength=9).tolist()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("epsilon", [1.0, 30.0])
def test_symbols_out_of_range_are_seen_wherever_they_are(monkeypatch, compiled, epsilon):
    monkeypatch.setattr(symbols, "JIT", compiled)
    chances = exact.split(7, epsilon)
    for at in (0, 40_000, 69_999):
        held = np.full(70_000, 6, np.uint32)
        assert symbols.replace_symbols(held, chances, Draws(from_seed(1))).max() < 7
        held[at] = 7
        with pytest.raises(UsageError, match="codes from 0 to 6"):
            symbols.replace_symbols(held, chances, Draws(from_seed(1)))
