"""Hadamard response: exact epsilon, unbiased for any number of values, the transform itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ldp_oracles import domain, oracle
from scipy import linalg, stats

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import HadamardResponse
from privagg.mechanisms.hadamard import walsh_hadamard

CASES = [(2, 1), (3, 1), (4, 2), (5, 2), (5, 4), (9, 4), (8, 8)]


def probability(mechanism, report, value):
    """Return P(report | value), from the definition."""
    size, blocks = mechanism.block_size, mechanism.blocks
    block, position = divmod(report, size)
    row = value // blocks + 1
    own = block == value % blocks and bin(row & position).count("1") % 2 == 0
    return (mechanism.p if own else mechanism.q) / (size // 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(("k", "blocks"), CASES)
def test_epsilon_and_unbiasedness_by_enumeration(epsilon, k, blocks):
    mechanism = HadamardResponse(domain(k), epsilon, blocks)
    reports = range(mechanism.sums_size)
    table = [[probability(mechanism, y, x) for y in reports] for x in range(k)]
    assert all(sum(row) == 1 for row in table)
    worst = max(max(column) / min(column) for column in zip(*table, strict=True))
    assert worst == mechanism.ratio
    # The estimator's expectation, exactly: 1 for the own value and 0 for all others.
    for v in range(k):
        for x in range(k):
            sign = Fraction(0)
            for y in reports:
                if y // mechanism.block_size == v % blocks:
                    own = probability(mechanism, y, v) == mechanism.p / (mechanism.block_size // 2)
                    sign += table[x][y] if own else -table[x][y]
            assert sign / (mechanism.p - mechanism.q) == int(v == x)


@pytest.mark.parametrize(("k", "blocks"), [(3, 1), (5, 2), (5, 4)])
def test_reports_have_those_probabilities(k, blocks):
    n = 300_000
    mechanism = HadamardResponse(domain(k), 1.0, blocks)
    for value in (0, k - 1):
        drawn = mechanism.randomize_codes(np.full(n, value), from_seed(value)).columns[0]
        observed = np.bincount(drawn, minlength=mechanism.sums_size)
        for epsilon, right in ((1.0, True), (1.1, False), (0.9, False)):
            model = HadamardResponse(domain(k), epsilon, blocks)
            expected = [float(probability(model, y, value)) * n for y in range(model.sums_size)]
            assert (stats.chisquare(observed, expected).pvalue > 1e-5) == right


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_the_transform_is_the_matrix(size):
    rows = np.random.default_rng(1).integers(-100, 100, (3, size))
    before = rows.copy()
    assert walsh_hadamard(rows).tolist() == (rows @ linalg.hadamard(size)).tolist()
    assert np.array_equal(rows, before)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_block_has_the_variance_of_one_bit(epsilon):
    e = np.exp(epsilon)
    mechanism = HadamardResponse(domain(20), epsilon, 1)
    for f in (0.0, 0.4):
        expected = ((e + 1) / (e - 1)) ** 2 - f
        assert mechanism.variance(1, f) == pytest.approx(expected, rel=1e-3)
    assert mechanism.block_size == 32
    assert mechanism.report_bytes == 5 / 8


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 5.0, 7.0])
def test_the_number_of_blocks_is_the_best(epsilon):
    k = 64
    best = HadamardResponse(domain(k), epsilon)
    for blocks in (1, 2, 4, 8, 16, 32, 64):
        other = HadamardResponse(domain(k), epsilon, blocks)
        assert other.variance(1, 1 / k) >= best.variance(1, 1 / k) * 0.999
    # With blocks, the error keeps falling with epsilon; with one it would stay above 1.
    assert epsilon < 2 or best.variance(1, 0.0) < HadamardResponse(domain(k), epsilon, 1).variance(
        1
    )


@pytest.mark.parametrize("k", [2, 3, 4, 7, 8, 9, 100, 127, 128])
def test_any_number_of_values_fits(k):
    mechanism = oracle("hr", k, 1.0)
    assert mechanism.blocks * (mechanism.block_size - 1) >= k
    assert mechanism.sums_size < 8 * k


@pytest.mark.parametrize("blocks", [0, 3, 6, -1, 2.0, True, "2", 32])
def test_blocks_out_of_range(blocks):
    with pytest.raises(UsageError) as caught:
        HadamardResponse(domain(20), 1.0, blocks)
    assert caught.value.argument == "blocks"
