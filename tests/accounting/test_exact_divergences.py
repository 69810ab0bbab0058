"""Every bound is above what it bounds, summed up exactly on small cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privagg.accounting import sum_curve, sum_epsilon
from privagg.accounting.discrete_gaussian import sum_bound
from privagg.accounting.poisson_binomial import HEAD_ORDERS, heads_curve, moments
from privagg.accounting.skellam import skellam_bound, skellam_curve

GRID = np.arange(-900, 901)


def gaussian(variance):
    weights = np.exp(-(GRID.astype(float) ** 2) / (2 * variance))
    return weights / weights.sum()


def skellam(variance):
    special = pytest.importorskip("scipy.special")
    return special.ive(np.abs(GRID), variance)


def summed(one, clients):
    total = one
    for _ in range(clients - 1):
        total = np.convolve(total, one, mode="same")
    return total / total.sum()


def renyi(p, q, order):
    inside = (p > 1e-290) & (q > 1e-290)
    logs = order * np.log(p[inside]) + (1 - order) * np.log(q[inside])
    most = logs.max()
    return (most + math.log(np.exp(logs - most).sum())) / (order - 1)


def hockey_stick(p, q, epsilon):
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum(),
        np.maximum(q - math.exp(epsilon) * p, 0).sum(),
    )


@pytest.mark.parametrize("variance", [4.0, 25.0, 100.0])
def test_the_skellam_bound_is_above_and_near(variance):
    p = skellam(variance)
    for order, move in itertools.product((2, 3, 8, 16), (1, 2, 5)):
        exact = renyi(np.roll(p, move), p, order)
        bound = skellam_bound(order, move**2, move, variance)
        gauss = order * move**2 / (2 * variance)
        assert gauss * (1 - 1e-9) <= bound
        assert exact <= bound * (1 + 1e-9)
        if variance == 100:
            assert bound <= exact * 1.13


@pytest.mark.parametrize(("variance", "clients"), [(0.5, 16), (1.0, 8), (2.0, 4), (9.0, 3)])
def test_the_sum_of_discrete_gaussians_is_below_its_bound(variance, clients):
    p = summed(gaussian(variance), clients)
    for order, move in itertools.product((1.5, 2, 8, 20), (1, 3)):
        exact = renyi(np.roll(p, move), p, order)
        assert exact <= sum_bound(order, move**2, move, variance, clients, 1) * (1 + 1e-9)


@pytest.mark.parametrize(("variance", "clients", "rounds"), [(2.0, 4, 1), (9.0, 3, 1), (4.0, 5, 2)])
@pytest.mark.parametrize("move", [1, 4])
def test_epsilon_of_discrete_gaussians_is_never_below_the_exact_one(
    variance, clients, rounds, move
):
    p = summed(gaussian(variance), clients)
    q = np.roll(p, move)
    if rounds == 2:
        p, q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    for delta in (1e-3, 1e-6):
        by_gauss = sum_epsilon(move**2, variance, clients, 1, rounds, delta)
        by_curve = sum_curve(move**2, move, variance, clients, 1).times(rounds).epsilon(delta)
        for epsilon in (by_gauss, by_curve):
            assert hockey_stick(p, q, epsilon) <= delta * (1 + 1e-6)


@pytest.mark.parametrize("move", [(1, 2), (3, 0), (2, 2)])
def test_in_two_dimensions_too(move):
    for law, curve in ((gaussian, None), (skellam, skellam_curve)):
        one = law(12.0)[GRID.size // 2 - 60 : GRID.size // 2 + 61]
        p = np.outer(one, one)
        q = np.roll(p, move, axis=(0, 1))
        square, absolute = sum(x * x for x in move), sum(move)
        if curve is None:
            epsilon = sum_epsilon(square, 12.0, 1, 2, 1, 1e-5)
        else:
            epsilon = curve(square, absolute, 12.0).epsilon(1e-5)
        assert hockey_stick(p, q, epsilon) <= 1e-5 * (1 + 1e-6)


@pytest.mark.parametrize("move", [1, 5])
def test_epsilon_of_skellam_is_never_below_the_exact_one(move):
    p = skellam(20.0)
    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = skellam_curve(move**2, move, 20.0).epsilon(delta)
        assert hockey_stick(p, np.roll(p, move), epsilon) <= delta * (1 + 1e-6)


def binomial(trials, bias):
    p = 0.5 + bias
    return np.array(
        [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    )


@pytest.mark.parametrize(("trials", "fair", "bias"), [(1, 5, 0.25), (4, 0, 0.1), (6, 40, 0.2)])
def test_moments_of_coins_are_exact(trials, fair, bias):
    others = binomial(fair, 0.0)
    q = np.convolve(binomial(trials, 0.0), others)
    p = np.convolve(binomial(trials, bias), others)
    found = moments(trials, bias, fair, (2.0, 5.0, 9.0))
    for at, order in enumerate((2.0, 5.0, 9.0)):
        assert found[0, at] == pytest.approx((p**order * q ** (1 - order)).sum() - 1, rel=1e-8)
        assert found[1, at] == pytest.approx((q**order * p ** (1 - order)).sum() - 1, rel=1e-8)


@pytest.mark.parametrize(("trials", "theta", "honest"), [(3, 0.25, 4), (8, 0.1, 6), (2, 0.2, 40)])
def test_coins_of_others_of_any_bias_are_below_the_bound(trials, theta, honest):
    curve = heads_curve(trials, theta, honest, 1.0)
    bound = dict(zip(curve.orders, curve.values, strict=True))
    for share in (0.0, 0.5, 1.0):
        up = round((honest - 1) * share)
        others = np.ones(1)
        for client in range(honest - 1):
            others = np.convolve(others, binomial(trials, theta if client < up else -theta))
        q = np.convolve(binomial(trials, 0.0), others)
        for y in (0.3, 1.0, -1.0):
            p = np.convolve(binomial(trials, theta * y), others)
            for order in (2.0, 4.0, HEAD_ORDERS[-1]):
                exact = max(renyi(p, q, order), renyi(q, p, order))
                assert exact <= bound[order] * y * y * (1 + 1e-9)
