from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privagg.attacks.responses import expected_advantage, infer, response_advantage
from privagg.attacks.responses_audit import audit, likelihood, read_prior
from privagg.attacks.responses_ranges import determine
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses import Curator, Release
from privagg.protocols.responses.bags import Bags


def released(bags, labels, epsilon=None, delta=0.0, seed=None, classes=2):
    entropy = {} if seed is None else {"entropy": from_seed(seed)}
    return Curator(Release(epsilon=epsilon, delta=delta, classes=classes), bags, **entropy).release(
        labels
    )


def fitting(parts, rows):
    """Every labelling that gives all counts."""
    found = []
    for labels in itertools.product((0, 1), repeat=rows):
        y = np.array(labels)
        if all((bags.sums(y) == counts).all() for bags, counts in parts):
            found.append(y)
    return np.array(found)


@pytest.mark.parametrize("seed", range(12))
def test_integer_programs_find_every_label_that_fits_in_one_way(seed):
    rng = np.random.default_rng(seed)
    rows = 10
    y = (rng.random(rows) < 0.4).astype(int)
    parts = []
    for copy in range(3):
        bags = Bags.random(rows, 3, from_seed(100 * seed + copy))
        parts.append((bags, bags.sums(y).astype(np.int64)))
    found = determine(parts)
    all_ = fitting(parts, rows)
    unique = all_.min(axis=0) == all_.max(axis=0)
    assert ((found.labels >= 0) == unique).all()
    assert (found.labels[unique] == y[unique]).all()
    assert found.skipped == 0
    # The linear test is a floor: it finds nothing that does not fit in one way only.
    assert not (found.linear & ~unique).any()
    floor = determine(parts, examine=0)
    assert (floor.labels >= 0).sum() == floor.propagated <= unique.sum()
    assert floor.skipped > 0 or unique.sum() == floor.propagated


def test_what_propagation_misses_and_linear_algebra_too():
    # x1, x2 and x3 are equal by differences, and two of them with x0 make 1: so they are 0.
    bags = Bags.of([[0, 1, 2], [0, 1, 3], [0, 2, 3]], 4)
    found = determine([(bags, np.array([1, 1, 1]))])
    assert found.labels.tolist() == [1, 0, 0, 0]
    assert found.propagated == 0
    assert not found.linear.any()


def test_linear_algebra_finds_differences():
    both = [(Bags.of([[0, 1, 2], [3]], 4), np.array([2, 0]))]
    both.append((Bags.of([[0, 1], [2, 3]], 4), np.array([1, 1])))
    found = determine(both)
    assert found.linear.tolist() == [False, False, True, True]
    assert found.labels.tolist() == [-1, -1, 1, 0]


def test_counts_that_contradict_are_refused():
    bags = Bags.of([[0, 1], [0, 1, 2]], 3)
    with pytest.raises(UsageError, match="counts that some labels fit"):
        determine([(bags, np.array([2, 0]))])


def test_one_release_is_the_exact_posterior():
    rng = np.random.default_rng(0)
    y = (rng.random(40) < 0.3).astype(int)
    prior = rng.uniform(0.05, 0.9, 40)
    bags = Bags.random(40, 4, from_seed(1))
    one = released(bags, y)
    found = audit([one], prior)
    tables = [likelihood(4, c, 0, "laplace") for c in bags.sums(y)]
    truth = infer(prior, bags.labels[:, 0], tables)
    assert found.posterior == pytest.approx(truth.posterior)
    assert found.additive == pytest.approx(truth.additive)
    assert found.revealed == truth.revealed
    assert found.certain == truth.certain
    assert found.exact_rows == 40
    assert found.epsilon is None
    assert found.expected_additive == pytest.approx(
        np.mean([expected_advantage(prior[bag]) for bag in bags.members()])
    )


def test_equal_priors_take_the_short_way_to_the_same():
    y = (np.random.default_rng(2).random(60) < 0.5).astype(int)
    one = released(Bags.random(60, 6, from_seed(3)), y, epsilon=1.0)
    short, long = audit([one], 0.3), audit([one], np.full(60, 0.3) + 1e-13 * np.arange(60))
    assert short.posterior == pytest.approx(long.posterior, abs=1e-9)
    assert short.expected_additive == pytest.approx(long.expected_additive, abs=1e-6)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_overlapping_bags_of_few_rows_are_exact(epsilon):
    rng = np.random.default_rng(4)
    y = (rng.random(6) < 0.5).astype(int)
    prior = rng.uniform(0.2, 0.8, 6)
    parts = [Bags.of([[0, 1, 2], [3, 4, 5]], 6), Bags.of([[0, 3], [1, 4], [2, 5]], 6)]
    ones = [released(bags, y, epsilon) for bags in parts]
    found = audit(ones, prior)
    total, weight = np.zeros(6), 0.0
    for labels in itertools.product((0, 1), repeat=6):
        z = np.array(labels)
        chance = np.where(z, prior, 1 - prior).prod()
        for one in ones:
            counts = np.rint(one.means * one.bags.sizes)
            for true, seen, size in zip(one.bags.sums(z), counts, one.bags.sizes, strict=True):
                chance *= likelihood(size, seen, one.noise_variance, "laplace")[int(true)]
        total, weight = total + chance * z, weight + chance
    assert found.posterior == pytest.approx(total / weight)
    assert found.exact_rows == 6
    assert found.releases == 2
    assert found.epsilon == (None if epsilon is None else 2 * epsilon)


def test_the_likelihood_of_laplace_noise_has_the_ratio_of_epsilon():
    y = np.zeros(10, int)
    one = released(Bags.random(10, 5, from_seed(5)), y, epsilon=0.7)
    table = likelihood(5, 3.0, one.noise_variance, "laplace")
    assert table[:-1] / table[1:] == pytest.approx(np.exp([-0.7] * 3 + [0.7] * 2))


def test_no_release_with_noise_beats_randomised_response_of_its_epsilon():
    for epsilon in (0.3, 1.0, 3.0):
        one = released(Bags.random(60, 3, from_seed(6)), np.zeros(60, int), epsilon=epsilon)
        for prior in (0.1, 0.5):
            found = audit([one], prior)
            assert found.expected_additive <= response_advantage(prior, epsilon) + 1e-10
            assert found.multiplicative <= epsilon + 1e-9


def test_bags_of_half_priors_have_the_closed_form():
    # E|Bin(k, 1/2) / k - 1/2|
    for k, advantage in ((2, 0.25), (5, 0.1875), (10, 0.123046875)):
        one = released(Bags.random(10 * k, k, from_seed(7)), np.ones(10 * k, int))
        found = audit([one], 0.5)
        assert found.expected_additive == pytest.approx(advantage)
        assert found.revealed == 1
        assert math.isinf(found.multiplicative)
        assert found.response_epsilon == math.inf


def test_a_seed_voids_the_guarantee():
    one = released(Bags.random(20, 5, from_seed(8)), np.zeros(20, int), epsilon=1.0, seed=1)
    found = audit([one])
    assert found.insecure
    assert found.epsilon is None
    assert found.prior_source == "released"


def test_priors_come_from_the_file(tmp_path):
    prior = np.linspace(0.1, 0.8, 12)
    one = released(Bags.random(12, 3, from_seed(9), copies=2), np.zeros(12, int))
    one.write(tmp_path / "a.parquet", prior)
    assert read_prior(tmp_path / "a.parquet", 12) == pytest.approx(prior)
    one.write(tmp_path / "b.parquet")
    assert read_prior(tmp_path / "b.parquet", 12) is None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a, b: ([], None), "at least one"),
        (lambda a, b: ([a, b], None), "the same rows"),
        (lambda a, b: ([a], 1.5), "probabilities"),
        (lambda a, b: ([a], "x"), "probabilities"),
        (lambda a, b: ([a], [0.5, 0.5]), "probabilities"),
        (lambda a, b: ([a], 0.0), "exclude"),
    ],
)
def test_bad_input(change, match):
    a = released(Bags.random(6, 3, from_seed(10)), np.ones(6, int))
    b = released(Bags.random(9, 3, from_seed(11)), np.zeros(9, int))
    with pytest.raises(UsageError, match=match):
        audit(*change(a, b))


def test_other_responses_are_refused():
    bags = Bags.random(6, 3, from_seed(12))
    with pytest.raises(UsageError, match="labels 0 and 1"):
        audit([released(bags, np.arange(6) % 3, classes=3)])
    with pytest.raises(UsageError, match="labels 0 and 1"):
        audit([Curator(Release(), bags).release(np.arange(6.0))])
