"""Hierarchies: agreement with generalised least squares by a dense solve, splits, refinement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.locational.adaptive import refine, threshold
from privagg.protocols.locational.hierarchy import Hierarchy, combine
from privagg.protocols.locational.levels import assign, best_split, forecast, merge

# 0: two children, of three and none; 3: alone; unequal depths.
PARENTS = [-1, 0, 0, -1, 1, 1, 1, 3, 7, 7]


@st.composite
def forests(draw):
    """Return a random forest, its measurements, and which inner regions lack one."""
    size = draw(st.integers(1, 14))
    parents = [draw(st.integers(-1, region - 1)) for region in range(size)]
    order = draw(st.permutations(range(size)))
    shuffled = [0] * size
    for region, parent in enumerate(parents):
        shuffled[order[region]] = -1 if parent < 0 else order[parent]
    hierarchy = Hierarchy(shuffled)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.normal(size=size)
    variance = rng.uniform(0.1, 3.0, size)
    missing = rng.random(size) < 0.4
    missing[hierarchy.leaves] = False
    variance[missing] = np.inf
    values[missing] = np.nan
    return hierarchy, values, variance


def dense(hierarchy, values, variance):
    """Return generalised least squares over the leaves' values, by a dense solve."""
    membership = np.array([hierarchy.sums(row) for row in np.eye(hierarchy.leaves.size)]).T
    known = np.isfinite(variance)
    design = membership[known]
    precision = 1 / variance[known]
    covariance = np.linalg.inv(design.T @ (design * precision[:, None]))
    leaves = covariance @ (design.T @ (precision * values[known]))
    return membership @ leaves, np.diag(membership @ covariance @ membership.T)


@settings(deadline=None, max_examples=150)
@given(forests())
def test_consistent_estimates_are_generalised_least_squares(forest):
    hierarchy, values, variance = forest
    found = combine(hierarchy, values, variance)
    expected, spread = dense(hierarchy, values, variance)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.variance, spread, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        hierarchy.sums(found.values[hierarchy.leaves]), found.values, rtol=1e-9, atol=1e-9
    )
    measured = np.isfinite(variance)
    assert (found.variance[measured] <= variance[measured] * (1 + 1e-12)).all()


def test_a_known_root_is_kept_and_a_known_leaf_too():
    hierarchy = Hierarchy([-1, 0, 0, 0])
    found = combine(hierarchy, [1.0, 0.5, 0.4, 0.4], [0.0, 0.0, 1.0, 3.0])
    np.testing.assert_allclose(found.values, [1.0, 0.5, 0.325, 0.175])
    np.testing.assert_allclose(found.variance, [0.0, 0.0, 0.75, 0.75])
    with pytest.raises(UsageError, match="sums differ"):
        combine(Hierarchy([-1, 0]), [1.0, 0.5], [0.0, 0.0])


def test_levels_and_partitions():
    hierarchy = Hierarchy(PARENTS)
    assert hierarchy.levels == 3
    assert hierarchy.depths.tolist() == [0, 1, 1, 0, 2, 2, 2, 1, 2, 2]
    assert hierarchy.leaves.tolist() == [2, 4, 5, 6, 8, 9]
    partitions = [hierarchy.partition(level).tolist() for level in range(3)]
    assert partitions == [[0, 3], [1, 2, 7], [2, 4, 5, 6, 8, 9]]
    assert hierarchy.cell_of([1, 2, 7]).tolist() == [-1, 0, 1, -1, 0, 0, 0, 2, 2, 2]
    assert hierarchy.sums([1, 2, 3, 4, 5, 6]).tolist() == [10, 9, 1, 11, 2, 3, 4, 11, 5, 6]


@pytest.mark.parametrize(
    "parents", [[], [0], [1, 0], [-1, 5], [-2], [True, False], [0.5], [[-1]], "ab", [-1, 2, 1]]
)
def test_what_is_no_forest(parents):
    with pytest.raises(UsageError) as caught:
        Hierarchy(parents)
    assert caught.value.argument == "parents"


@pytest.mark.parametrize("partition", [[1, 7], [1, 2, 7, 7], [0, 1, 3], [0], [99, 3], [], [0.0]])
def test_what_is_no_partition(partition):
    with pytest.raises(UsageError):
        Hierarchy(PARENTS).cell_of(partition)


@pytest.mark.parametrize(
    ("values", "variance"),
    [
        ([0.0] * 3, [1.0] * 4),
        ([0.0] * 4, [1.0, -1.0, 1.0, 1.0]),
        ([0.0] * 4, [1.0, np.nan, 1.0, 1.0]),
        ([0.0] * 4, [1.0, np.inf, 1.0, 1.0]),
        ([0.0, 0.0, np.nan, 0.0], [1.0] * 4),
        (["a"] * 4, [1.0] * 4),
    ],
)
def test_refused_estimates(values, variance):
    with pytest.raises(UsageError):
        combine(Hierarchy([-1, 0, 0, 0]), values, variance)


def test_forecast_is_the_dense_variance():
    hierarchy = Hierarchy(PARENTS)
    unit, shares, users = [2.0, 5.0, 9.0], [0.2, 0.3, 0.5], 1000
    spread = np.zeros(hierarchy.size)
    for level in range(3):
        # A leaf above a level is asked about on that level too.
        spread[hierarchy.partition(level)] += shares[level] * users / unit[level]
    _, expected = dense(hierarchy, np.zeros(hierarchy.size), 1 / spread)
    np.testing.assert_allclose(forecast(hierarchy, unit, users, shares), expected, rtol=1e-9)


def test_the_best_split_is_the_best_of_a_fine_grid():
    hierarchy = Hierarchy(PARENTS)
    unit = [1.0, 4.0, 6.0]
    for weights in ([1.0, 1.0, 1.0], [0.0, 0.0, 1.0]):
        found = best_split(hierarchy, unit, 500, weights)
        assert found.shares.sum() == pytest.approx(1)
        grid = [
            (a / 20, b / 20, 1 - (a + b) / 20) for a in range(20) for b in range(20) if a + b < 20
        ]
        members = [hierarchy.at(level) for level in range(3)]

        def error(shares, weights=weights, members=members):
            spread = forecast(hierarchy, unit, 500, shares)
            means = [float(spread[regions].mean()) for regions in members]
            return float(np.dot(weights, means) / np.sum(weights))

        assert found.error <= min(map(error, grid)) * 1.01
        assert found.error == pytest.approx(error(found.shares))
    assert best_split(Hierarchy([-1, -1]), [2.0], 10).shares.tolist() == [1.0]


def test_respondents_are_assigned_by_shares():
    levels = assign(20_000, [0.1, 0.0, 0.9], from_seed(5))
    counts = np.bincount(levels, minlength=3)
    assert counts[1] == 0
    assert abs(int(counts[0]) - 2000) < 5 * (20_000 * 0.09) ** 0.5
    for shares in ([0.5, 0.4], [], [-0.5, 1.5], ["a"], [np.nan, 1.0]):
        with pytest.raises(UsageError):
            assign(10, shares)


def test_measurements_are_merged_and_unbiased():
    hierarchy = Hierarchy(PARENTS)
    truth = hierarchy.sums([0.1, 0.2, 0.05, 0.3, 0.25, 0.1])
    rng = np.random.default_rng(3)
    runs = []
    for _ in range(400):
        parts = [
            (
                cells,
                truth[cells] + rng.normal(0, 0.1 * (level + 1), cells.size),
                np.full(cells.size, 0.01 * (level + 1) ** 2),
            )
            for level, cells in ((level, hierarchy.partition(level)) for level in range(3))
        ]
        found = merge(hierarchy, parts, total=1.0)
        assert found.values[[0, 3]].sum() == pytest.approx(1.0)
        runs.append(found.values)
    spread = found.variance
    error = (np.mean(runs, axis=0) - truth) / np.sqrt(spread / 400)
    assert np.abs(error).max() < 4
    np.testing.assert_allclose(np.var(runs, axis=0) / spread, 1, atol=0.35)
    with pytest.raises(UsageError, match="without an estimate"):
        merge(hierarchy, parts[:2])
    with pytest.raises(UsageError):
        merge(hierarchy, [([0], [1.0], [0.0])])


def test_sparse_regions_are_not_split():
    hierarchy = Hierarchy(PARENTS)
    first = refine(hierarchy, [0, 3], [100.0, 3.0], 50.0)
    assert first.partition.tolist() == [1, 2, 3]
    assert (first.split.tolist(), first.kept.tolist()) == ([0], [3])
    limits = threshold(hierarchy, first.partition, 10.0, 1.5)
    assert limits.tolist() == [45.0, np.inf, 15.0]
    second = refine(hierarchy, first.partition, [60.0, 1e9, 14.0], limits)
    assert second.partition.tolist() == [2, 3, 4, 5, 6]
    short, regions = hierarchy.below(second.partition)
    assert regions.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert short.parents.tolist() == [-1, 0, 0, -1, 1, 1, 1]
    assert sorted(regions[short.leaves].tolist()) == second.partition.tolist()
    for values, least in (([1.0], 1.0), ([np.nan, 1.0], 1.0), ([1.0, 1.0], [1.0]), ([1, 1], "a")):
        with pytest.raises(UsageError):
            refine(hierarchy, [0, 3], values, least)
    with pytest.raises(UsageError):
        threshold(hierarchy, [0, 3], 0.0)
