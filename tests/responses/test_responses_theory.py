"""The asymptotic risk against published special cases, brute force and Monte Carlo."""

import math

import numpy as np
import pytest
from monte_carlo import estimator, fast_estimator, projection, random_risk, risk

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses import private_theory as private
from privagg.protocols.responses import theory
from privagg.protocols.responses.bags import Bags

GRID = [(psi, k, snr) for psi in (0.1, 0.2, 0.5) for k in (2, 5, 10) for snr in (1, 4)]
DESIGNS = 16


def near_a_pole(psi, k):
    return abs(k * psi - 1) < 0.1


def averaged(designs, n, *arguments, **settings):
    return np.mean([random_risk(seed, n, *arguments, **settings) for seed in range(designs)])


def cells(psi, k, snr):
    """Yield each estimator's name, risk by theory, and settings for Monte Carlo."""
    if not near_a_pole(psi, k):
        yield "bag", theory.bag_risk(psi, 1 / k, snr), {"rho": 0.0}
    yield "instance", theory.interpolated_risk(psi, 1 / k, snr, 1.0), {"rho": 1.0}
    for rho in (0.05, 0.2, 0.5, 3.0):
        yield "interpolated", theory.interpolated_risk(psi, 1 / k, snr, rho), {"rho": rho}
    best, ridge = theory.ridge_risk(psi, 1 / k, snr)
    yield "ridge", best, {"rho": 0.0, "ridge": ridge}
    mixed = theory.interpolated_risk(psi, 1 / k, snr, 0.3, 0.1)
    yield "both", mixed, {"rho": 0.3, "ridge": 0.1}
    yield "easyllp", theory.easyllp_risk(psi, 1 / k, snr), {"rho": 1.0, "scale": k}


def test_one_cell_of_each_kind_agrees_with_monte_carlo():
    for name, expected, settings in cells(0.2, 2, 1):
        found = averaged(2, 1000, 0.2, 2, 1, **settings)
        assert found == pytest.approx(expected, rel=0.03), (name, settings)


@pytest.mark.sweep
@pytest.mark.parametrize(("psi", "k", "snr"), GRID)
def test_the_grid_agrees_with_monte_carlo_within_2_percent(psi, k, snr):
    for name, expected, settings in cells(psi, k, snr):
        found = averaged(DESIGNS, 1000, psi, k, snr, **settings)
        assert found == pytest.approx(expected, rel=0.02), (name, settings)


def unequal(seed, n):
    """Return bags of 1 to 12 rows."""
    sizes = np.random.default_rng(seed).integers(1, 13, n)
    return Bags.given(np.repeat(np.arange(n), sizes)[:n])


def unequal_risk(seed, n, psi, rho, snr, condition):
    """Return the risk and its theory for unequal bags and features of unequal variances."""
    rng = np.random.default_rng(seed)
    features = round(psi * n)
    variances = np.logspace(-1, 1, features) if condition else np.ones(features)
    x = rng.normal(size=(n, features)) * np.sqrt(variances)
    bags = unequal(seed, n)
    c, sx = fast_estimator(x, bags, rho, 0.0)
    # Noise of variance r^2 / snr: risks are over r^2, whatever it is.
    found = risk(c @ sx, c @ c.T, snr, np.diag(variances))
    return found, theory.interpolated_risk(psi, bags.count / n, snr, rho)


def overlapping_risk(seed, n, psi, rho, snr, copies):
    """Return the risk and its theory for bags of 10 in several partitions."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, round(psi * n)))
    p = projection(Bags.random(n, 10, from_seed(seed), copies=copies))
    t = estimator(x, p, rho, 0.0)
    share = np.trace(p) / n
    return risk(t @ x, t @ t.T, snr), theory.interpolated_risk(psi, share, snr, rho)


def private_risk(seed, n, psi, k, snr, rho, bound, epsilon):
    """Return the risk after clipping and Laplace noise, averaged over drawn responses too."""
    rng = np.random.default_rng(seed)
    features = round(psi * n)
    x = rng.normal(size=(n, features))
    bags = Bags.random(n, k, from_seed(seed))
    c, _ = fast_estimator(x, bags, rho, 0.0)
    clipped = private.Clipped.at(bound, snr)
    total = 0.0
    draws = 8
    for _ in range(draws):
        theta = rng.normal(size=features)
        theta /= np.linalg.norm(theta)
        y = np.clip(x @ theta + rng.normal(size=n) / math.sqrt(snr), -bound, bound)
        sums = bags.sums(y) + rng.laplace(scale=2 * bound / epsilon, size=bags.count)
        found = c @ (sums / np.sqrt(bags.sizes)) / clipped.kept
        total += ((found - theta) ** 2).sum() / draws
    expected = private.private_risk(
        theory.moments(psi, 1 / k, rho), clipped, private.laplace_noise(bound, epsilon), k
    )
    return total, expected


def test_unequal_overlapping_anisotropic_and_private_cells():
    for found, expected in (
        unequal_risk(1, 1200, 0.1, 0.3, 1, condition=True),
        overlapping_risk(1, 600, 0.1, 0.3, 1, copies=2),
    ):
        assert found == pytest.approx(expected, rel=0.06)
    both = np.mean([private_risk(s, 1000, 0.1, 5, 4, 0.3, 1.0, 4.0) for s in range(3)], axis=0)
    assert both[0] == pytest.approx(both[1], rel=0.05)


@pytest.mark.sweep
@pytest.mark.parametrize("rho", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("condition", [False, True])
def test_unequal_bags_and_unequal_variances_within_2_percent(rho, condition):
    cells = [unequal_risk(s, 2000, 0.1, rho, 1, condition) for s in range(DESIGNS)]
    found, expected = np.mean(cells, axis=0)
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.sweep
@pytest.mark.parametrize("rho", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("copies", [2, 4])
def test_overlapping_bags_within_2_percent(rho, copies):
    cells = [overlapping_risk(s, 1000, 0.1, rho, 1, copies) for s in range(DESIGNS)]
    found, expected = np.mean(cells, axis=0)
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("psi", "k", "rho", "bound", "epsilon"),
    [
        (0.1, 2, 0.2, 1.0, 2.0),
        (0.1, 5, 0.3, 1.5, 4.0),
        (0.2, 5, 1.0, 1.0, 8.0),
        (0.2, 10, 0.5, 3.0, 8.0),
    ],
)
def test_private_releases_within_2_percent(psi, k, rho, bound, epsilon):
    cells = [private_risk(s, 1000, psi, k, 4, rho, bound, epsilon) for s in range(4 * DESIGNS)]
    found, expected = np.mean(cells, axis=0)
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("psi", "k", "snr"), GRID)
def test_special_cases_in_closed_form(psi, k, snr):
    s = 1 / snr
    if k * psi < 1:
        assert theory.bag_risk(psi, 1 / k, snr) == pytest.approx(s * k * psi / (1 - k * psi))
    elif k * psi > 1:
        least_norm = 1 - 1 / (k * psi) + s / (k * psi - 1)
        assert theory.bag_risk(psi, 1 / k, snr) == pytest.approx(least_norm)
    else:
        assert theory.bag_risk(psi, 1 / k, snr) == math.inf
    instance = (1 - 1 / k) * (1 - (1 - 2 * psi) / (1 - psi) / k) + s * psi / (k * (1 - psi))
    assert theory.interpolated_risk(psi, 1 / k, snr, 1.0) == pytest.approx(instance)
    easy = ((k - 1) + k * s) * psi / (1 - psi)
    assert theory.easyllp_risk(psi, 1 / k, snr) == pytest.approx(easy)


def test_values_that_were_computed_by_monte_carlo_elsewhere():
    """Asymptotic values at SNR 1 with an independent implementation."""
    for k, rho, value in ((2, 0.05, 0.5382), (5, 0.2, 0.6867), (10, 0.5, 0.8217)):
        assert theory.interpolated_risk(0.2, 1 / k, 1, rho) == pytest.approx(value, abs=1e-4)
    for psi, k, snr, rho, value in (
        (0.1, 2, 1, 0.183, 0.199),
        (0.2, 10, 4, 0.089, 0.688),
        (0.5, 2, 1, 5.83, 0.914),
    ):
        at, least = theory.best_rho(psi, 1 / k, snr)
        assert at == pytest.approx(rho, rel=0.02)
        assert least == pytest.approx(value, abs=1e-3)


def test_bags_of_one_row_are_plain_least_squares():
    for rho in (0.0, 0.4, 1.0, 2.0):
        found = theory.moments(0.3, 1.0, rho)
        assert (found.bias, found.kept) == pytest.approx((0, 1), abs=1e-12)
        assert found.variance == pytest.approx(0.3 / 0.7)


def test_the_limits_of_rho_and_ridge_are_continuous():
    """Beyond the pole rho near 0 is another minimum than the one of least norm: no limit there."""
    near, at = theory.moments(0.1, 0.5, 1e-9), theory.moments(0.1, 0.5, 0.0)
    assert (near.bias, near.variance) == pytest.approx((at.bias, at.variance), abs=1e-6)
    for psi, share, rho in ((0.1, 0.5, 0.3), (0.3, 0.2, 0.3), (0.1, 0.5, 0.0), (0.3, 0.2, 0.0)):
        near, at = theory.moments(psi, share, rho, 1e-9), theory.moments(psi, share, rho)
        assert (near.bias, near.variance) == pytest.approx((at.bias, at.variance), abs=1e-5)


def test_the_best_bag_size_of_the_instance_level_loss_is_the_best():
    sizes = np.arange(1, 400)
    for psi, snr, noise in ((0.1, 1, 8.0), (0.1, 1, 32.0), (0.2, 4, 20.0)):
        moments = [theory.moments(psi, 1 / k, 1.0) for k in sizes]
        risks = [
            m.bias + m.variance * (1 / snr + noise / k) for m, k in zip(moments, sizes, strict=True)
        ]
        wanted = theory.instance_bag_size(psi, snr, noise)
        assert abs(sizes[int(np.argmin(risks))] - wanted) <= 1
    assert theory.instance_bag_size(0.6, 0.5) == math.inf


def test_clipping_in_closed_form_is_that_of_a_large_sample(rng):
    x = rng.normal(size=400_000)
    y = x + rng.normal(size=x.size) / math.sqrt(2)
    for bound in (0.5, 1.5):
        kept = private.Clipped.at(bound, 2.0)
        clipped = np.clip(y, -bound, bound)
        assert (clipped @ x) / (x @ x) == pytest.approx(kept.kept, abs=0.01)
        assert (clipped - kept.kept * x).var() == pytest.approx(kept.residual, abs=0.01)
    assert private.Clipped.at(math.inf, 2.0).residual == 0.5


def test_with_the_ridge_tuned_single_rows_are_best_and_without_it_a_bag_size_is_interior():
    """The message of the paper, and its limit."""
    sizes = (1, 2, 5, 10, 20)
    tuned = [private.best(0.1, 1, [k], epsilon=4.0).risk for k in sizes]
    assert tuned == sorted(tuned)
    assert private.best(0.1, 1, sizes, epsilon=4.0).size == 1
    plain = [private.best(0.2, 1, [k], epsilon=2.0, ridge=False).risk for k in sizes]
    assert 0 < int(np.argmin(plain)) < len(sizes) - 1
    rho, least = theory.best_rho(0.2, 1 / 5, 1)
    assert 0.05 < rho < 0.9
    assert least < min(theory.interpolated_risk(0.2, 1 / 5, 1, r) for r in (1e-4, 1.0))


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, 0.5, 0.1),
        (0.1, 1.5, 0.1),
        (0.1, 0.5, -1.0),
        (1.5, 0.5, 0.1),
        (0.5, 0.5, 0.0),
        (True, 0.5, 0.1),
        (math.nan, 0.5, 0.1),
    ],
)
def test_impossible_settings_are_refused(arguments):
    with pytest.raises(UsageError):
        theory.moments(*arguments)
