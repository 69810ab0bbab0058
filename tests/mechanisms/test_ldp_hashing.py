"""Local hashing: pairwise independence is exact, and the decoder counts what it should."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ldp_oracles import domain, oracle

from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import BLH, OLH, LocalHashing
from privagg.mechanisms._kernels import hashing

RNG = np.random.default_rng(0)


def narrow(k, g, bits):
    """Return the cells of words of a few bits, so that all seeds can be tried."""
    cells = hashing.Cells(k, g, bits)
    return cells, cells.low.astype(np.int64), cells.width.astype(np.int64)


@pytest.mark.parametrize(("k", "g"), [(2, 2), (4, 3), (5, 2), (8, 5), (16, 4)])
def test_all_seeds_of_eight_bits(k, g):
    """Every pair of values: all cells of both, over all 65,536 seeds, exactly as independent."""
    cells, low, width = narrow(k, g, 8)
    a, b = np.meshgrid(np.arange(256), np.arange(256))
    where = []
    for x in range(k):
        word = (a * x + b) % 256
        where.append(np.searchsorted(low, word, side="right") - 1)
    parts = [Fraction(int(size), 256) for size in width]
    assert sum(parts) == 1
    for x in range(k):
        for y in range(x):
            joint = np.bincount((where[x] * g + where[y]).ravel(), minlength=g * g)
            expected = [parts[i] * parts[j] * 65536 for i in range(g) for j in range(g)]
            assert joint.tolist() == expected
            assert Fraction(int((where[x] == where[y]).sum()), 65536) == cells.collision


def test_one_bit_more_of_the_hash_would_not_be_independent():
    """The bound t <= w - m + 1 is needed: this is what the test above would catch."""
    a, b = np.meshgrid(np.arange(256), np.arange(256))
    k, top = 8, 8 - 3 + 2
    word = [(a * x + b) % 256 >> 8 - top for x in range(k)]
    shares = {int((word[x] == word[y]).sum()) for x in range(k) for y in range(x)}
    assert len(shares) > 1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("g", [2, 3, 5])
def test_epsilon_and_support_by_enumeration(epsilon, g):
    """Over all seeds of eight bits and all cells: privacy of each seed, p and q over them."""
    k = 6
    mechanism = LocalHashing(domain(k), epsilon, g)
    cells, low, _ = narrow(k, g, 8)
    keep, other = mechanism._split.p, mechanism._split.q
    support = np.zeros((k, k), object)
    seeds = 0
    for a in range(256):
        for b in range(0, 256, 1):
            word = (a * np.arange(k) + b) % 256
            h = np.searchsorted(low, word, side="right") - 1
            same = (h[:, None] == h[None, :]).astype(object)
            support = support + same
            seeds += 1
    # P(cell | value) is keep or other, whatever the seed: the largest ratio is theirs.
    assert keep / other == mechanism.ratio
    share = support / Fraction(seeds)
    q = keep * cells.collision + other * (1 - cells.collision)
    for x in range(k):
        for y in range(k):
            found = keep * share[x, y] + other * (1 - share[x, y])
            assert found == (keep if x == y else q)


@pytest.mark.parametrize("k", [2, 3, 1000, 65536, 70000, 10**6])
@pytest.mark.parametrize("g", [2, 4, 5, 150])
def test_collisions_are_nearly_one_in_g(k, g):
    cells = LocalHashing(Categorical(range(k)), 1.0, g)._cells
    assert cells.bits == (32 if k <= 65536 else 64)
    assert cells.collision >= Fraction(1, g)
    assert cells.collision < Fraction(1, g) * (1 + Fraction(g * g, 4**cells.top))
    assert int(cells.width.astype(object).sum()) == 2**cells.bits


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_closed_forms(epsilon):
    e = np.exp(epsilon)
    for mechanism in (OLH(domain(50), epsilon), BLH(domain(50), epsilon)):
        g = mechanism.g
        expected = (e - 1 + g) ** 2 / ((e - 1) ** 2 * (g - 1))
        assert mechanism.variance(1) == pytest.approx(expected, rel=1e-3)
    assert OLH(domain(50), epsilon).g == round(e + 1)
    assert BLH(domain(50), epsilon).g == 2


@pytest.mark.parametrize(("k", "n"), [(2, 5), (40, 1000), (2048, 37), (2500, 64), (70000, 11)])
def test_kernel_is_the_plain_path(k, n):
    mechanism = LocalHashing(Categorical(range(k)), 1.0, 5)
    cells = mechanism._cells
    codes = RNG.integers(0, k, n, np.uint32)
    a, b, y = mechanism.randomize_codes(codes, from_seed(1)).columns
    found = hashing.count_supported(a, b, y, cells, k)
    plain = hashing.decoded_plain(a, b - cells.low[y], cells.width[y], 0, k)
    assert np.array_equal(found, plain)
    # And both count what hashing every value says.
    for x in RNG.integers(0, k, 20):
        h = hashing.hash_values(np.full(n, x, np.uint32), a, b, cells)
        assert found[x] == int((h == y).sum())


def test_own_cell_is_kept_as_often_as_p_says():
    n = 200_000
    mechanism = oracle("olh", 1000, 1.0)
    codes = RNG.integers(0, 1000, n, np.uint32)
    a, b, y = mechanism.randomize_codes(codes, from_seed(2)).columns
    kept = (hashing.hash_values(codes, a, b, mechanism._cells) == y).mean()
    p = float(mechanism.p)
    assert abs(kept - p) < 4.5 * np.sqrt(p * (1 - p) / n)


def test_wide_words_are_unbiased():
    """More than 2**16 values: 64-bit words; the true value stands out by the variance's measure."""
    mechanism = OLH(Categorical(range(70_000)), 3.0)
    codes = np.full(3000, 69_999, np.uint32)
    found = mechanism.estimate(mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(3))))
    assert abs(found.raw[-1] - 1) < 4.5 * np.sqrt(mechanism.variance(3000, 1.0))
    rest = found.raw[:-1] / np.sqrt(mechanism.variance(3000, 0.0))
    assert abs(rest.mean()) < 0.05
    assert abs(rest.std() - 1) < 0.05


@pytest.mark.parametrize("g", [1, 0, -2, 2.0, True, 2**16 + 1, "3"])
def test_g_out_of_range(g):
    with pytest.raises(UsageError) as caught:
        LocalHashing(domain(5), 1.0, g)
    assert caught.value.argument == "g"


def test_short_reports():
    assert OLH(domain(1000), 1.0).report_bytes == 8 + 2 / 8
    assert BLH(domain(1000), 1.0).report_bytes == 8 + 1 / 8
