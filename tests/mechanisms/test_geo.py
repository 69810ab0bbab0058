"""Geo-indistinguishability: the bound by exact enumeration of the counts, estimates, remapping."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import Channel, RandomizedResponse
from privagg.mechanisms.channel_oracle import likeliest
from privagg.mechanisms.geo import (
    bounded,
    flat_distances,
    great_circle_distances,
    metric_channel,
)
from privagg.mechanisms.geo_mechanisms import PlanarLaplace, RegionExponential
from privagg.mechanisms.geo_remap import expected_loss, posterior, remap


def cells(count):
    return Categorical([f"cell {at}" for at in range(count)])


def grid(rows, columns, height=250.0, width=200.0, epsilon=0.004):
    return PlanarLaplace(cells(rows * columns), rows, columns, height, width, epsilon)


def scattered(count=7, epsilon=0.002, seed=4):
    rng = np.random.default_rng(seed)
    return RegionExponential(
        cells(count), flat_distances(*rng.uniform(0, 2000, (2, count))), epsilon
    )


def largest_excess(channel, epsilon, distances):
    """Return the largest P(y | x) / (e**(epsilon d) P(y | x')) over all x, x', y, by 50 digits."""
    counts = channel.counts.tolist()
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 50
        for x, row in enumerate(counts):
            for z, other in enumerate(counts):
                bound = (Decimal(epsilon) * Decimal(float(distances[x, z]))).exp()
                ratio = max(Fraction(a, b) for a, b in zip(row, other, strict=True))
                worst = max(worst, Decimal(ratio.numerator) / Decimal(ratio.denominator) / bound)
    return worst


@pytest.mark.parametrize(
    "mechanism",
    [
        grid(4, 5),
        grid(1, 6),
        grid(5, 1),
        grid(2, 2, epsilon=0.0002),
        grid(3, 4, epsilon=0.05),
        grid(2, 3, 1000.0, 1000.0, 0.08),
        scattered(),
        scattered(2),
        scattered(9, 0.03),
        scattered(9, 1e-5),
    ],
    ids=repr,
)
def test_the_bound_holds_for_all_cells_and_reports(mechanism):
    worst = largest_excess(mechanism.channel, mechanism.per_metre, mechanism.distances)
    assert worst <= 1
    # Neither is much given away.
    if not isinstance(mechanism, RegionExponential):
        assert worst > Decimal("0.99")
    assert mechanism.epsilon_realised <= mechanism.epsilon
    sums = [sum(row) for row in mechanism.channel.counts.tolist()]
    assert set(sums) == {2**64}


def test_a_broken_bound_is_seen():
    distances = flat_distances([0.0, 100.0, 300.0], [0.0, 0.0, 0.0])
    table = np.exp(-0.0051 * distances)
    table /= table.sum(axis=1, keepdims=True)
    channel = Channel.build(table, 10.0)
    assert largest_excess(channel, 0.005, distances) > 1
    assert not bounded(channel, 0.005, distances)
    with pytest.raises(UsageError, match="within the bound"):
        metric_channel(table, 0.003, distances)


def test_distances_that_are_no_metric_are_refused():
    far = np.array([[0.0, 1.0, 100.0], [1.0, 0.0, 1.0], [100.0, 1.0, 0.0]])
    with pytest.raises(UsageError, match="metric"):
        RegionExponential(cells(3), far, 0.5)


def test_planar_laplace_is_the_lattice_sum():
    mechanism = grid(3, 4, 100.0, 150.0, 0.01)
    reach = 60
    down, across = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    weights = np.exp(-0.01 * np.hypot(down * 100.0, across * 150.0))
    for row in range(3):
        for column in range(4):
            landed = np.clip(row + down, 0, 2) * 4 + np.clip(column + across, 0, 3)
            expected = np.bincount(landed.ravel(), weights.ravel()) / weights.sum()
            found = mechanism.channel.probabilities[row * 4 + column]
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_planar_laplace_moves_by_two_over_epsilon():
    mechanism = grid(21, 21, 50.0, 50.0, 0.01)
    middle = 10 * 21 + 10
    moved = mechanism.channel.probabilities[middle] @ mechanism.distances[middle]
    assert moved == pytest.approx(2 / 0.01, rel=0.03)


def test_exponential_uses_more_than_half_of_epsilon():
    mechanism = scattered()
    assert 0.5 < mechanism.factor < 1
    ring = 2 * np.pi * np.arange(8) / 8
    even = RegionExponential(
        cells(8), flat_distances(1000 * np.cos(ring), 1000 * np.sin(ring)), 0.002
    )
    assert even.factor > 0.999


@pytest.mark.parametrize("mechanism", [grid(3, 3, epsilon=0.008), scattered(5, 0.006)], ids=repr)
def test_estimates_are_unbiased_and_their_variance_is_right(mechanism):
    rng = np.random.default_rng(8)
    truth = rng.dirichlet(np.ones(mechanism.k))
    codes = np.repeat(np.arange(mechanism.k), np.round(truth * 4000).astype(int))
    truth = np.bincount(codes, minlength=mechanism.k) / codes.size
    runs, spread = [], []
    for seed in range(40):
        state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(seed)))
        estimate = mechanism.estimate(state)
        runs.append(estimate.raw)
        spread.append(estimate.variance)
    error = (np.mean(runs, axis=0) - truth) / np.sqrt(np.mean(spread, axis=0) / 40)
    assert np.abs(error).max() < 4
    assert 0.7 < np.var(runs, axis=0).sum() / np.mean(spread, axis=0).sum() < 1.4


def test_likeliest_frequencies_agree_with_the_inverse_where_there_is_much_to_see():
    mechanism = grid(2, 3, epsilon=0.01)
    codes = np.repeat(np.arange(6), [3000, 1000, 2500, 1500, 4000, 2000])
    state = mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(1)))
    fitted = likeliest(mechanism.channel, state.sums, tolerance=1e-9)
    raw = mechanism.estimate(state, population=True)
    assert fitted.converged
    assert fitted.values.sum() == pytest.approx(1)
    np.testing.assert_allclose(fitted.values, raw.raw, atol=1e-4)
    np.testing.assert_allclose(fitted.variance, raw.variance, rtol=0.05)
    # Nobody far from any: reports of near cells, fitted without an inverse.
    blurred = grid(6, 6, 20.0, 20.0, 0.002)
    state = blurred.aggregate(blurred.randomize_codes(np.full(500, 7), from_seed(2)))
    found = likeliest(blurred.channel, state.sums)
    assert found.values.min() >= 0
    assert found.log_likelihood <= 0
    for counts in (np.zeros(36, np.int64), np.ones(35, np.int64), -np.ones(36, np.int64), "a"):
        with pytest.raises(UsageError):
            likeliest(blurred.channel, counts)


def test_remapping_is_the_best_of_all_mappings():
    mechanism = scattered(4, 0.001)
    prior = np.array([0.6, 0.1, 0.2, 0.1])
    losses = mechanism.distances**2
    mapping = remap(mechanism.channel, prior, losses)
    best = expected_loss(mechanism.channel, prior, losses, mapping)
    every = np.stack(np.meshgrid(*[range(4)] * 4), -1).reshape(-1, 4)
    losing = [expected_loss(mechanism.channel, prior, losses, one) for one in every]
    assert best == pytest.approx(min(losing))
    assert best < expected_loss(mechanism.channel, prior, losses)
    after = posterior(mechanism.channel, prior)
    np.testing.assert_allclose(after.sum(axis=1), 1)
    by_hand = prior * mechanism.channel.probabilities[:, 2]
    np.testing.assert_allclose(after[2], by_hand / by_hand.sum())


def test_great_circle():
    found = great_circle_distances([0.0, 0.0, 90.0, 51.5], [0.0, 90.0, 0.0, -0.1])
    quarter = math.pi / 2 * 6_371_008.8
    assert found[0, 1] == pytest.approx(quarter)
    assert found[0, 2] == pytest.approx(quarter)
    assert found[3, 2] == pytest.approx(quarter * 38.5 / 90)
    with pytest.raises(UsageError, match="swapped"):
        great_circle_distances([-93.2, 44.9], [44.9, -93.2])


def test_the_guarantee_in_words_and_other_configurations():
    mechanism = grid(2, 3)
    assert mechanism.guarantee.startswith("0.004 d-geo-indistinguishability")
    assert "distance d" in mechanism.guarantee
    assert mechanism.digest != grid(2, 3, epsilon=0.005).digest
    assert mechanism.digest == grid(2, 3).digest


@pytest.mark.parametrize(
    "make",
    [
        lambda: grid(0, 3),
        lambda: grid(1, 1),
        lambda: grid(40, 40),
        lambda: grid(2, 2, height=-1.0),
        lambda: grid(2, 2, epsilon=0.0),
        lambda: grid(2, 2, epsilon=float("nan")),
        lambda: grid(2, 2, height=0.001, epsilon=1e-6),
        lambda: grid(2, 2, height=1e7, width=1e7),
        lambda: PlanarLaplace(cells(5), 2, 2, 1.0, 1.0, 1.0),
        lambda: PlanarLaplace("cells", 2, 2, 1.0, 1.0, 1.0),
        lambda: RegionExponential(cells(2), [[0.0, 0.0], [0.0, 0.0]], 1.0),
        lambda: RegionExponential(cells(2), [[0.0, 1.0], [2.0, 0.0]], 1.0),
        lambda: RegionExponential(cells(2), [[0.0, np.nan], [np.nan, 0.0]], 1.0),
        lambda: RegionExponential(cells(2), "far", 1.0),
        lambda: flat_distances([0.0, 1.0], [0.0]),
        lambda: flat_distances([np.inf], [0.0]),
        lambda: remap(grid(2, 2).channel, [1.0, 1.0], np.eye(4)),
        lambda: remap(grid(2, 2).channel, np.zeros(4), np.eye(4)),
        lambda: remap(grid(2, 2).channel, np.ones(4), np.eye(3)),
        lambda: expected_loss(grid(2, 2).channel, np.ones(4), np.eye(4), [0, 1, 2, 4]),
    ],
)
def test_refused(make):
    with pytest.raises(UsageError):
        make()


def test_the_table_of_randomised_response_is_estimated_alike():
    rows = grid(2, 2, epsilon=0.01).channel.probabilities
    oracle = RandomizedResponse(cells(4), 20.0, rows.tolist())
    np.testing.assert_allclose(oracle.channel.probabilities, rows, rtol=1e-6)
