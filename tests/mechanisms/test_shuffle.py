"""Amplification by shuffling, beside the exact divergence of shuffled binary reports."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from privagg.errors import UsageError
from privagg.mechanisms.shuffle import amplified, closed_form, divergence

WHOLE = 2**40


def shuffled(ones: int, users: int, keep: int) -> list[int]:
    """Return how often binary randomised response reports so many 1s, of WHOLE**users."""
    found = [1]
    for user in range(users):
        rate = keep if user < ones else WHOLE - keep
        below = [count * (WHOLE - rate) for count in found]
        above = [count * rate for count in found]
        found = [one + other for one, other in zip([*below, 0], [0, *above], strict=True)]
    return found


def exact_delta(local: float, central: float, users: int) -> float:
    """Return the largest hockey-stick divergence over all neighbours."""
    keep = int(WHOLE * (math.exp(local) / (1 + math.exp(local))))
    grown = Fraction(math.exp(central))
    rows = [shuffled(ones, users, keep) for ones in range(users + 1)]
    pairs = [*itertools.pairwise(rows), *itertools.pairwise(rows[::-1])]
    scaled = [
        sum(max(0, a * grown.denominator - b * grown.numerator) for a, b in zip(*pair, strict=True))
        for pair in pairs
    ]
    return float(Fraction(max(scaled), grown.denominator * WHOLE**users))


@pytest.mark.parametrize("local", [0.2, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("users", [1, 2, 3, 7, 12])
def test_the_sum_over_clones_is_never_below_the_exact_divergence(local, users):
    for central in (0.0, 0.1 * local, 0.5 * local, 0.9 * local):
        assert divergence(central, local, users) >= exact_delta(local, central, users)


def test_the_sum_over_clones_is_near_the_exact_divergence():
    # Clones are e**-e of the others, against 2 / (e**e + 1) for binary randomised response.
    assert divergence(0.1, 0.2, 30) < 2 * exact_delta(0.2, 0.1, 30)


def test_one_report_has_its_exact_local_divergence():
    for local in (0.5, 2.0):
        found = divergence(local / 2, local, 1)
        assert found == pytest.approx(exact_delta(local, local / 2, 1), rel=1e-6)


@pytest.mark.parametrize("bound", ["best", "closed form", "clones"])
@pytest.mark.parametrize(("local", "users", "delta"), [(0.2, 40, 0.6), (0.5, 60, 0.5)])
def test_bounds_hold_for_binary_randomised_response(bound, local, users, delta):
    found = amplified(local, users, delta, bound)
    assert exact_delta(local, found.epsilon, users) <= delta
    assert found.epsilon <= local


def test_closed_form_is_the_theorems():
    weight = math.exp(1.0)
    spread = 8 * math.sqrt(weight * math.log(4e6) / 1e6) + 8 * weight / 1e6
    expected = math.log(1 + (weight - 1) / (weight + 1) * spread)
    assert closed_form(1.0, 10**6, 1e-6) == pytest.approx(expected, rel=1e-12)
    found = amplified(1.0, 10**6, 1e-6, "closed form")
    assert found.holds
    assert found.epsilon == pytest.approx(expected, rel=1e-12)
    assert found.delta == 1e-6
    assert "theorem 3.1" in found.reason


def test_the_local_epsilon_where_the_condition_fails():
    found = amplified(6.0, 10_000, 1e-8, "closed form")
    assert (found.epsilon, found.delta, found.holds) == (6.0, 0.0, False)
    assert "asks for a local epsilon up to" in found.reason
    # The sum over clones has no condition.
    assert amplified(5.0, 10_000, 1e-8).epsilon < 4.5
    assert amplified(1.0, 1, 1e-8).epsilon == 1.0


def test_a_sum_of_clones_is_below_the_closed_form():
    for users in (10**4, 10**6):
        summed = amplified(1.0, users, 1e-8, "clones").epsilon
        assert summed < closed_form(1.0, users, 1e-8) / 2


def test_more_reports_and_larger_delta_amplify_more():
    epsilons = [amplified(2.0, users, 1e-6).epsilon for users in (10**3, 10**4, 10**5)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert amplified(2.0, 10**4, 1e-9).epsilon > amplified(2.0, 10**4, 1e-5).epsilon


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 10, 0.1), "epsilon"),
        ((math.nan, 10, 0.1), "epsilon"),
        ((1.0, 0, 0.1), "n"),
        ((1.0, True, 0.1), "n"),
        ((1.0, 10, 0.0), "delta"),
        ((1.0, 10, True), "delta"),
        ((1.0, 10, "small"), "delta"),
        ((1.0, 10, 0.1, "guess"), "bound"),
    ],
)
def test_refused(arguments, name):
    with pytest.raises(UsageError) as caught:
        amplified(*arguments)
    assert caught.value.argument == name
