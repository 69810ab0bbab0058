"""Repeated reports: fresh noise averages out, memory holds, and no attack passes its ceiling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from privagg.attacks import ldp
from privagg.attacks.ldp_averaging import averaging_success
from privagg.attacks.ldp_guess import guessing_rate
from privagg.domain import Categorical
from privagg.errors import UsageError
from privagg.mechanisms import GRR, make

Z = 4.5


def oracle(name, k, epsilon, **options):
    return make(name, Categorical(range(k)), epsilon, **options)


@pytest.mark.parametrize("name", ["grr", "oue", "sue", "olh", "ss", "hr", "l-osue", "l-sue"])
def test_no_attack_passes_what_epsilon_allows(name):
    found = averaging_success(oracle(name, 4, 0.5), (1, 4, 20), trials=1000)
    for success, error, ceiling in zip(found.success, found.error, found.ceiling, strict=True):
        assert found.baseline - Z * error < success < ceiling + Z * error
    if not found.remembered:
        assert found.epsilon[-1] == pytest.approx(20 * 0.5, rel=1e-3)
        assert found.success[-1] > found.success[0] + 0.15


def test_one_report_is_the_guess_from_one_report():
    for name in ("grr", "oue"):
        mechanism = oracle(name, 5, 1.5)
        found = averaging_success(mechanism, [1], trials=20_000)
        assert abs(found.success[0] - guessing_rate(mechanism)) < Z * found.error[0]


@pytest.mark.parametrize("count", [3, 9, 25])
def test_two_values_are_a_majority_of_coins(count):
    """Of an odd number of reports of Warner's randomised response, more are right than wrong."""
    mechanism = GRR(Categorical(["no", "yes"]), 0.7)
    found = averaging_success(mechanism, [count], trials=20_000, seed=3)
    majority = stats.binom.sf(count // 2, count, float(mechanism.p))
    assert abs(found.success[0] - majority) < Z * found.error[0]


@pytest.mark.parametrize("name", ["l-grr", "l-osue", "l-sue"])
def test_memory_holds_where_fresh_noise_does_not(name):
    mechanism = oracle(name, 4, 0.5, permanent=1.0)
    kept = averaging_success(mechanism, [200], trials=1000)
    forgot = averaging_success(mechanism, [200], trials=1000, remembered=False)
    assert kept.remembered
    assert not forgot.remembered
    assert kept.success[0] < kept.ceiling[0] + Z * kept.error[0]
    assert kept.epsilon[0] <= 1.0
    assert forgot.success[0] > 0.95


def test_experiments_are_repeatable():
    mechanism = oracle("grr", 3, 1.0)
    first = averaging_success(mechanism, [2, 5], trials=500, seed=1)
    assert first == averaging_success(mechanism, [2, 5], trials=500, seed=1)
    assert first != averaging_success(mechanism, [2, 5], trials=500, seed=2)
    assert ldp.averaging_success is averaging_success


@pytest.mark.parametrize(
    "options",
    [
        {"reports": []},
        {"reports": "12"},
        {"reports": [0]},
        {"reports": [True]},
        {"reports": np.array(3)},
        {"trials": 0},
        {"seed": None},
        {"remembered": True},
        {"remembered": 3},
    ],
    ids=str,
)
def test_arguments_are_checked(options):
    with pytest.raises(UsageError) as caught:
        averaging_success(oracle("grr", 3, 1.0), **options)
    assert caught.value.argument in options
    with pytest.raises(UsageError, match="oracle"):
        averaging_success(3)
