"""Renyi curves: fixed values, other accountants, composition, refusals."""

from __future__ import annotations

import math

import pytest

from privagg.accounting import (
    REPLACE,
    Curve,
    analytic_delta,
    analytic_epsilon,
    analytic_sigma,
    gaussian_curve,
    sampled_curve,
    sampled_gaussian,
    skellam_curve,
    sum_curve,
    sum_epsilon,
    zcdp_curve,
)
from privagg.accounting.discrete_gaussian import tau
from privagg.accounting.skellam import skellam_bound
from privagg.errors import UsageError

REFERENCE = {
    1.0: (4.73, 19.1, 96.1),
    2.0: (2.17, 8.08, 35.1),
    4.0: (1.01, 3.62, 14.1),
    10.0: (0.375, 1.31, 4.73),
}
"""Epsilon at delta 1e-5 by noise multiplier, after 1, 10 and 100 rounds."""


@pytest.mark.parametrize("multiplier", REFERENCE)
def test_the_gaussian_reference(multiplier):
    found = [gaussian_curve(multiplier).times(rounds).epsilon(1e-5) for rounds in (1, 10, 100)]
    assert found == pytest.approx(REFERENCE[multiplier], rel=4e-3)
    exact = [analytic_epsilon(math.sqrt(rounds) / multiplier, 1e-5) for rounds in (1, 10, 100)]
    for curve, true in zip(found, exact, strict=True):
        assert 0.85 * curve < true < curve


def test_fixed_values():
    assert skellam_bound(8, 25, 5, 100) == pytest.approx(1.010125, abs=1e-9)
    assert tau(1.0, 32) == pytest.approx(5.45e-4, rel=1e-2)
    assert tau(0.5, 16) == pytest.approx(0.1117, rel=1e-2)
    assert analytic_sigma(1, 1, 1e-5) == pytest.approx(3.7304, abs=1e-3)
    assert tau(0.2, 10) == math.inf


def test_epsilon_and_delta_are_each_others_inverse():
    curve = gaussian_curve(1.5).times(7)
    epsilon = curve.epsilon(1e-6)
    assert curve.delta(epsilon) == pytest.approx(1e-6, rel=1e-6)
    assert analytic_delta(0.7, analytic_epsilon(0.7, 1e-8)) <= 1e-8
    assert analytic_epsilon(1e-9, 0.1) == 0.0
    assert analytic_delta(50.0, 3000.0) < 1e-3  # no overflow far out


def test_curves_add_up():
    both = gaussian_curve(2.0) + gaussian_curve(2.0)
    assert both.values == pytest.approx(gaussian_curve(2.0).times(2).values)
    mixed = gaussian_curve(2.0) + skellam_curve(1.0, 1.0, 50.0)
    assert all(order == int(order) for order in mixed.orders)
    at = mixed.orders.index(8.0)
    assert mixed.values[at] == pytest.approx(8 / (2 * 4) + skellam_bound(8, 1, 1, 50), rel=1e-12)


def test_other_adjacencies_are_not_added():
    with pytest.raises(UsageError, match="adjacency"):
        _ = zcdp_curve(0.1) + zcdp_curve(0.1, REPLACE)


@pytest.mark.parametrize("delta", [0, 1, -1, math.nan, True, "x"])
def test_delta_is_checked(delta):
    with pytest.raises(UsageError, match="delta"):
        gaussian_curve(1.0).epsilon(delta)


def test_nonsense_is_refused():
    for orders, values in (((), ()), ((1.0,), (0.0,)), ((2.0,), (math.nan,)), ((2.0,), (-1.0,))):
        with pytest.raises(UsageError):
            Curve(orders, values)
    for rate in (0, 1.5, True, "x"):
        with pytest.raises(UsageError, match="rate"):
            sampled_gaussian(1.0, rate)
    with pytest.raises(UsageError, match="rounds"):
        gaussian_curve(1.0).times(0)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "x", None])
def test_numbers_that_prove_nothing_are_refused(bad):
    calls = [
        lambda: analytic_delta(bad, 1.0),
        lambda: analytic_epsilon(bad, 1e-6),
        lambda: analytic_sigma(bad, 1.0, 1e-6),
        lambda: analytic_sigma(1.0, bad, 1e-6),
        lambda: analytic_sigma(1.0, 1.0, bad),
        lambda: skellam_curve(bad, 1.0, 1.0),
        lambda: skellam_curve(1.0, bad, 1.0),
        lambda: skellam_curve(1.0, 1.0, bad),
        lambda: sum_curve(bad, 1.0, 1.0, 2, 1),
        lambda: sum_curve(1.0, bad, 1.0, 2, 1),
        lambda: sum_curve(1.0, 1.0, bad, 2, 1),
        lambda: sum_curve(1.0, 1.0, 1.0, bad, 1),
        lambda: sum_curve(1.0, 1.0, 1.0, 2, bad),
        lambda: sum_epsilon(bad, 9.0, 2, 1, 1, 1e-6),
        lambda: sum_epsilon(1.0, bad, 2, 1, 1, 1e-6),
        lambda: sum_epsilon(1.0, 9.0, bad, 1, 1, 1e-6),
        lambda: sum_epsilon(1.0, 9.0, 2, bad, 1, 1e-6),
        lambda: sum_epsilon(1.0, 9.0, 2, 1, bad, 1e-6),
        lambda: sum_epsilon(1.0, 9.0, 2, 1, 1, bad),
    ]
    if bad != 0 or bad is None:
        calls.append(lambda: analytic_delta(1.0, bad))
    for call in calls:
        with pytest.raises(UsageError):
            call()
    with pytest.raises(UsageError):
        Curve((2.0,), bad)
    for orders in (("x",), [2.0], None):
        with pytest.raises(UsageError, match="orders"):
            Curve(orders, (1.0,))
    assert 0 < analytic_delta(1.0, 0) < 1


def test_sampling_never_costs_and_the_general_bound_is_above_the_exact_one():
    exact = sampled_gaussian(1.2, 0.02)
    general = sampled_curve(lambda order: order / (2 * 1.2**2), 0.02)
    plain = {order: order / (2 * 1.2**2) for order in exact.orders}
    for order, low, high in zip(exact.orders, exact.values, general.values, strict=True):
        assert low <= high <= plain[order]
    assert sampled_gaussian(1.2, 1.0).values == pytest.approx(list(plain.values()))


@pytest.mark.parametrize(("multiplier", "rate", "rounds"), [(1.0, 0.01, 1000), (0.7, 0.1, 50)])
def test_opacus_agrees(multiplier, rate, rounds):
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    ours = sampled_gaussian(multiplier, rate)
    orders = [order for order in ours.orders if order <= 64]
    theirs = rdp.compute_rdp(q=rate, noise_multiplier=multiplier, steps=rounds, orders=orders)
    found = ours.times(rounds).values[: len(orders)]
    assert found == pytest.approx(list(theirs), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("multiplier", [0.8, 2.0, 8.0])
def test_dp_accounting_agrees(multiplier):
    dp = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    ours = gaussian_curve(multiplier).times(10)
    accountant = rdp.RdpAccountant(orders=list(ours.orders))
    accountant.compose(dp.GaussianDpEvent(multiplier), 10)
    assert ours.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)
    whole = sampled_gaussian(multiplier, 0.05)
    accountant = rdp.RdpAccountant(
        orders=list(whole.orders), neighboring_relation=dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(multiplier)), 20)
    assert whole.times(20).epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-6)


@pytest.mark.parametrize(("sigma", "move"), [(3.0, 2), (6.0, 1), (10.0, 10)])
def test_a_discrete_gaussian_is_never_below_dp_accounting(sigma, move):
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    exact = module.from_discrete_gaussian_mechanism(
        sigma=sigma, sensitivity=move, value_discretization_interval=1e-5
    ).get_epsilon_for_delta(1e-5)
    ours = sum_epsilon(move**2, sigma**2, 1, 1, 1, 1e-5)
    # Its own grid rounds up by 1e-5; a variance of 3 in sigma**2 is what we give up.
    assert exact - 1e-4 <= ours <= exact * 1.4
    assert sum_curve(move**2, move, sigma**2, 1, 1).epsilon(1e-5) >= exact - 1e-4
