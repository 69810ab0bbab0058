"""Unary encoding: its bits have exactly the probabilities of the thresholds, and are counted."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from ldp_oracles import Z, domain, oracle
from scipy import stats

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import OUE, SUE, UnaryEncoding
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels import bits

RNG = np.random.default_rng(0)


def probability(mechanism, report, value):
    """Return P(report | value), of independent bits."""
    result = Fraction(1)
    for at, bit in enumerate(report):
        chance = mechanism.p if at == value else mechanism.q
        result *= chance if bit else 1 - chance
    return result


@pytest.mark.parametrize("name", ["sue", "oue", "ue"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_epsilon_by_enumeration(name, epsilon, k):
    options = {"p": 0.7} if name == "ue" else {}
    mechanism = oracle(name, k, epsilon, **options)
    worst = max(
        probability(mechanism, report, x) / probability(mechanism, report, y)
        for report in product((0, 1), repeat=k)
        for x in range(k)
        for y in range(k)
    )
    assert worst == mechanism.ratio
    assert mechanism.epsilon_realised <= epsilon


@pytest.mark.parametrize("name", ["sue", "oue", "ue"])
@pytest.mark.parametrize("value", [0, 2])
def test_reports_have_those_probabilities(name, value):
    """Chi-square over all eight reports; it fails where an epsilon a tenth off would be used."""
    n = 400_000
    mechanism = oracle(name, 3, 1.0)
    drawn = mechanism.randomize_codes(np.full(n, value), from_seed(6)).columns[0][:, 0]
    observed = np.bincount(drawn.astype(int), minlength=8)
    for epsilon, right in ((1.0, True), (1.1, False), (0.9, False)):
        model = oracle(name, 3, epsilon)
        reports = [[number >> at & 1 for at in range(3)] for number in range(8)]
        expected = [float(probability(model, report, value)) * n for report in reports]
        score = stats.chisquare(observed, expected).pvalue
        assert (score > 1e-5) == right


@pytest.mark.parametrize("k", [2, 5, 1000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_closed_forms(k, epsilon):
    e = np.exp(epsilon)
    assert OUE(domain(k), epsilon).variance(1) == pytest.approx(4 * e / (e - 1) ** 2, rel=1e-3)
    half = np.exp(epsilon / 2)
    assert SUE(domain(k), epsilon).variance(1) == pytest.approx(half / (half - 1) ** 2, rel=1e-3)
    assert float(OUE(domain(k), epsilon).q) == pytest.approx(1 / (e + 1), rel=1e-4)


def test_half_is_the_best_p():
    best = OUE(domain(4), 1.0).variance(1)
    for p in (0.3, 0.45, 0.55, 0.8):
        assert UnaryEncoding(domain(4), 1.0, p).variance(1) > best
    assert UnaryEncoding(domain(4), 1.0).variance(1) == best


@pytest.mark.parametrize("p", [0, 1, -0.5, 2, float("nan"), True, "0.5", None])
def test_p_out_of_range(p):
    with pytest.raises(UsageError) as caught:
        UnaryEncoding(domain(4), 1.0, p)
    assert caught.value.argument == "p"


def test_sixteen_bytes_for_128_values():
    mechanism = oracle("oue", 128, 1.0)
    assert mechanism.report_bytes == 16
    reports = mechanism.randomize_codes(np.zeros(1000, np.uint32), from_seed(1))
    assert reports.columns[0].nbytes == 16_000
    assert len(reports.encode()) == 16_000 + 46


def test_the_kernel_compares_as_the_plain_path_does():
    for digits in (4, 8, 12):
        random = RNG.integers(0, 2**64, (digits, 600), np.uint64)
        number = np.where(RNG.integers(0, 2, digits), np.uint64(2**64 - 1), np.uint64(0))
        below = RNG.integers(0, 2**64, 600, np.uint64)
        undecided = RNG.integers(0, 2**64, 600, np.uint64)
        other = below.copy(), undecided.copy()
        bits.compared(random, number, below, undecided)
        bits.compared_plain(random, number, *other)
        assert np.array_equal(below, other[0])
        assert np.array_equal(undecided, other[1])


def test_all_numbers_of_four_digits_are_compared_right():
    """Bit j of the words is the number j of four digits: all sixteen are tried at once."""
    random = np.array(
        [[sum((j >> 3 - d & 1) << j for j in range(16))] for d in range(4)], np.uint64
    )
    for target in range(16):
        digits = np.array([-(target >> 3 - d & 1) % 2**64 for d in range(4)], np.uint64)
        below, undecided = np.zeros(1, np.uint64), np.full(1, 2**16 - 1, np.uint64)
        bits.compared(random, digits, below, undecided)
        assert int(below[0]) == 2**target - 1
        assert int(undecided[0]) == 1 << target


@pytest.mark.parametrize("count", [1, 2**20, 2**31, 3 * 2**29 + 1, 2**32 - 1])
def test_noise_has_its_probability(count):
    rows, width = 20_000, 70
    found = bits.noise_rows(rows, width, count, 32, Draws(from_seed(count)))
    assert found.shape == (rows, 2)
    assert int((found[:, 1] >> np.uint64(6)).max()) == 0
    share = count / 2**32
    hits = bits.count_bits(found, width).sum()
    deviation = np.sqrt(rows * width * share * (1 - share))
    assert abs(hits - rows * width * share) <= max(Z * deviation, 3)


def test_rare_words_go_on_to_the_last_digit():
    """A probability that differs in the last digits only: the digits after the first are used."""
    rows = 300_000
    for count, expected in ((2**20, rows * 64 / 4096), (2**20 + 2**19, rows * 96 / 4096)):
        hits = bits.count_bits(bits.noise_rows(rows, 64, count, 32, Draws(from_seed(3))), 64).sum()
        assert abs(hits - expected) < Z * np.sqrt(expected)


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 127, 128, 129, 2000])
@pytest.mark.parametrize("width", [1, 63, 64, 65, 200])
def test_counting_positions(rows, width):
    words = RNG.integers(0, 2**64, (rows, (width + 63) // 64), np.uint64)
    octets = words.astype("<u8").view(np.uint8)
    expected = np.unpackbits(octets, axis=1, bitorder="little").sum(axis=0)[:width]
    assert bits.count_bits(words, width).tolist() == expected.tolist()


def test_counters_do_not_overflow():
    rows = np.full((2**17 + 5, 1), 2**64 - 1, np.uint64)
    assert set(bits.count_bits(rows, 64).tolist()) == {2**17 + 5}


def test_the_own_bit_is_replaced():
    rows = RNG.integers(0, 2**64, (500, 3), np.uint64)
    codes = RNG.integers(0, 192, 500, np.uint32)
    for one in (1, 2**32 - 1):
        changed = rows.copy()
        bits.set_bits(changed, codes, one, 32, Draws(from_seed(1)))
        at = np.arange(500), codes // 64
        own = changed[at] >> (codes % 64).astype(np.uint64) & np.uint64(1)
        assert set(own.tolist()) == {int(one > 1)}
        changed[at] ^= (changed[at] ^ rows[at]) & (np.uint64(1) << (codes % 64).astype(np.uint64))
        assert np.array_equal(changed, rows)
