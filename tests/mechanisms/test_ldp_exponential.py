"""The exponential mechanism: exact, private for every pair of adjacent utilities, no underflow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ldp_oracles import domain
from scipy import stats

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import ExponentialMechanism, RandomizedResponse
from privagg.mechanisms.exponential import utility_table


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("sensitivity", [0.3, 1.0, 7.0])
def test_probabilities_are_nearly_the_formula(epsilon, sensitivity):
    mechanism = ExponentialMechanism(epsilon, sensitivity)
    utilities = np.array([0.0, 1.5, -2.0, 3.25])
    weights = np.exp(epsilon * utilities / (2 * sensitivity))
    found = mechanism.probabilities(utilities)
    assert sum(found) == 1
    # Rounding to a 64th of the sensitivity: within e**(epsilon / 128) on either side.
    ratio = np.array([float(p) for p in found]) / (weights / weights.sum())
    assert np.abs(np.log(ratio)).max() <= epsilon / 64


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_adjacent_utilities_never_tell_more_than_epsilon(epsilon):
    rng = np.random.default_rng(1)
    mechanism = ExponentialMechanism(epsilon, 2.0)
    bound = mechanism.base**128
    assert mechanism.epsilon_realised <= epsilon
    for _ in range(60):
        utilities = rng.normal(scale=5, size=5)
        change = rng.choice([-2.0, 2.0, rng.uniform(-2, 2)], 5)
        one, other = mechanism.probabilities(utilities), mechanism.probabilities(utilities + change)
        assert all(within(a, b, bound) for a, b in zip(one, other, strict=True))
    assert not within(2 * bound, Fraction(1), bound)
    assert not within(Fraction(1), 2 * bound, bound)
    # The bound is met: one goes up by the sensitivity, many others down.
    many = [0.0] + [0.0] * 2000
    shifted = [2.0] + [-2.0] * 2000
    ratio = mechanism.probabilities(shifted)[0] / mechanism.probabilities(many)[0]
    assert 0.9 * epsilon < np.log(float(ratio)) <= epsilon or epsilon > 4


def within(a, b, bound):
    """Compare both quotients with the bound, without reducing fractions of many digits."""
    left, right = a.numerator * b.denominator, b.numerator * a.denominator
    top, bottom = bound.numerator, bound.denominator
    return left * bottom <= top * right and right * bottom <= top * left


def test_choices_have_those_probabilities():
    mechanism = ExponentialMechanism(1.0, 1.0)
    utilities = [0.0, 2.0, 1.0, 3.0]
    source = from_seed(1)
    observed = np.bincount(
        [mechanism.choose(utilities, source) for _ in range(20_000)], minlength=4
    )
    for epsilon, right in ((1.0, True), (1.1, False), (0.9, False)):
        model = ExponentialMechanism(epsilon, 1.0).probabilities(utilities)
        score = stats.chisquare(observed, [float(p) * 20_000 for p in model]).pvalue
        assert (score > 1e-3) == right


def test_far_apart_utilities_neither_underflow_nor_overflow():
    """Weights of e**-10**6 and below: other libraries return NaN, or fail."""
    mechanism = ExponentialMechanism(2.0, 1.0)
    assert mechanism.choose([0.0, 1e6, -1e300, 5.0], from_seed(1)) == 1
    assert mechanism.choose([-1e308, -1e308], from_seed(1)) in (0, 1)
    assert mechanism.choose([7], from_seed(1)) == 0
    ties = {mechanism.choose(np.zeros(3), from_seed(seed)) for seed in range(40)}
    assert ties == {0, 1, 2}


def test_a_choice_repeats_with_its_seed():
    mechanism = ExponentialMechanism(0.5, 1.0)
    utilities = np.arange(20)
    utilities.flags.writeable = False
    first = [mechanism.choose(utilities, from_seed(seed)) for seed in range(20)]
    assert first == [mechanism.choose(utilities, from_seed(seed)) for seed in range(20)]
    assert len(set(first)) > 1


@pytest.mark.parametrize("utilities", [[], [np.nan], [np.inf, 0], [[1.0]], ["a"], None, 3])
def test_wrong_utilities(utilities):
    with pytest.raises(UsageError, match="utilities"):
        ExponentialMechanism(1.0).choose(utilities)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", 0),
        ("epsilon", float("nan")),
        ("epsilon", 1e9),
        ("epsilon", 1e-20),
        ("sensitivity", 0),
        ("sensitivity", float("inf")),
        ("sensitivity", True),
        ("steps", 0),
        ("steps", 1.5),
    ],
)
def test_wrong_arguments(argument, value):
    with pytest.raises(UsageError) as caught:
        ExponentialMechanism(**{"epsilon": 1.0, argument: value})
    assert caught.value.argument == argument


def test_as_a_local_mechanism():
    """Reports near the value are likelier, and epsilon of the table is exact."""
    points = np.arange(5)
    table = utility_table(-np.abs(points[:, None] - points[None, :]), 2.0)
    assert table.sum(axis=1) == pytest.approx(1)
    mechanism = RandomizedResponse(domain(5), 2.0, table)
    assert 1.0 < mechanism.epsilon_realised <= 2.0
    assert isinstance(mechanism.ratio, Fraction)
    state = mechanism.aggregate(mechanism.randomize_codes(np.repeat(2, 20_000), from_seed(3)))
    found = mechanism.estimate(state)
    assert abs(found.raw[2] - 1) < 4.5 * np.sqrt(found.variance[2])
    for wrong in ([], [[np.nan]], [["a"]], [[1.0, 2.0], [1.0, 2.0]]):
        with pytest.raises(UsageError, match="utilities"):
            utility_table(wrong, 1.0)
