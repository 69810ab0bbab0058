"""Count mean sketches: unbiased over their hash functions, with the variance of the formula."""

from __future__ import annotations

import numpy as np
import pytest
from ldp_oracles import Z, bias_scores, domain, frequencies, skewed, variance_score
from scipy import linalg

from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import CMS, HCMS
from privagg.mechanisms.count_mean_sketch import HashFamily

BOTH = pytest.mark.parametrize("kind", [CMS, HCMS])


@BOTH
@pytest.mark.parametrize(("hashes", "width", "epsilon"), [(2, 4, 3.0), (8, 16, 1.0)])
def test_unbiased_over_the_hash_functions(kind, hashes, width, epsilon):
    """Other functions in each run; few cells, so that collisions are a good part of the error."""
    k, users, runs = 6, 200, 2500
    codes = skewed(k, users)
    truth = frequencies(codes, k)
    raw, values = np.empty((runs, k)), domain(k)
    for seed in range(runs):
        mechanism = kind(values, epsilon, hashes, width, seed)
        state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(seed)))
        raw[seed] = mechanism._raw(state)
    variance = mechanism._variances(users, truth, False)
    assert np.abs(bias_scores(raw, truth, variance)).max() < Z
    assert abs(variance_score(raw, truth, variance)) < Z
    for wrong in (1.1, 1 / 1.1):
        assert np.abs(bias_scores(raw * wrong, truth, variance * wrong**2)).max() > Z
        assert abs(variance_score(raw, truth, variance * wrong)) > Z
    # Without the collisions' part the formula would be refused, too.
    alone = mechanism._variance(truth) / users
    assert hashes > 2 or abs(variance_score(raw, truth, alone)) > Z


@BOTH
def test_more_hash_functions_mend_collisions(kind):
    few, many = (kind(domain(50), 2.0, hashes, 64) for hashes in (4, 256))
    assert many.variance(10**9, 0.5) < few.variance(10**9, 0.5) / 30
    assert many.variance(100) == pytest.approx(few.variance(100), rel=0.05)


@BOTH
def test_estimates_of_a_large_domain(kind):
    mechanism = kind(Categorical(range(50_000)), 3.0, 128, 256)
    codes = np.repeat(np.array([7, 49_999], np.uint32), [20_000, 10_000])
    state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(3)))
    found = mechanism.estimate(state)
    truth = np.array([2 / 3, 1 / 3])
    deviation = np.sqrt(found.variance[[7, 49_999]])
    assert (np.abs(found.raw[[7, 49_999]] - truth) < Z * deviation).all()
    rest = np.delete(found.raw, [7, 49_999]) / np.sqrt(found.variance[0])
    assert 0.9 < rest.std() < 1.1


def test_hash_functions_are_what_python_computes():
    family = HashFamily(5, 16, 3)
    codes = np.array([0, 1, 2, 10**6, 2**24 - 1], np.uint32)
    prime = 2**61 - 1
    for j in range(5):
        found = family.cells(np.full(5, j), codes)
        c0, c1, c2 = (int(row[j]) for row in family._coefficients)
        values = [(c0 + c1 * x + c2 * x * x) % prime for x in codes.tolist()]
        assert found.tolist() == [value >> 57 for value in values]


def test_three_values_fall_independently():
    """Over many functions: the cells of three values, all 8 combinations of two cells each."""
    family = HashFamily(40_000, 2, 1)
    every = np.arange(40_000)
    cells = [family.cells(every, np.full(40_000, x)) for x in (3, 4, 100)]
    joint = np.bincount(cells[0] * 4 + cells[1] * 2 + cells[2], minlength=8)
    assert ((joint - 5000) ** 2 / 5000).sum() < 30
    assert float(family.collision) == pytest.approx(0.5)


def test_epsilon_of_both_by_enumeration():
    """The function and the column do not depend on the value, so the bits alone count."""
    k, epsilon = 3, 1.2
    cms, hcms = CMS(domain(k), epsilon, 2, 4), HCMS(domain(k), epsilon, 2, 4)
    pair = cms._pair
    for j in range(2):
        cells = cms._family.cells(np.full(k, j), np.arange(k))
        for x in range(k):
            for y in range(k):
                worst = pair.ratio if cells[x] != cells[y] else 1
                up = pair.p * (1 - pair.q) / (pair.q * (1 - pair.p))
                assert worst in (up, 1)
    assert cms.ratio <= np.exp(epsilon)
    assert hcms.ratio == hcms._split.p / hcms._split.q


def test_the_bit_is_the_matrix_entry():
    n = 20_000
    mechanism = HCMS(domain(3), 30.0, 2, 8)  # so large an epsilon that no bit is negated
    matrix = linalg.hadamard(8)
    codes = np.arange(n) % 3
    function, column, negative = mechanism.randomize_codes(codes, from_seed(1)).columns
    cells = mechanism._family.cells(function, codes.astype(np.uint32))
    assert np.array_equal(1 - 2 * negative.astype(int), matrix[cells, column])


@BOTH
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("hashes", 0),
        ("hashes", 2.0),
        ("hashes", 2**20),
        ("width", 1),
        ("width", 6),
        ("width", True),
        ("seed", -1),
        ("seed", "x"),
    ],
)
def test_wrong_arguments(kind, argument, value):
    with pytest.raises(UsageError) as caught:
        kind(domain(5), 1.0, **{argument: value})
    assert caught.value.argument == argument


@BOTH
def test_other_hash_functions_are_another_configuration(kind):
    assert kind(domain(5), 1.0, seed=1).digest != kind(domain(5), 1.0, seed=2).digest
