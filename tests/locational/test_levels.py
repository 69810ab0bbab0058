"""Level sampling and adaptive splitting with a real oracle: intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.mechanisms import OUE
from privagg.protocols.locational.adaptive import refine, threshold
from privagg.protocols.locational.hierarchy import Hierarchy
from privagg.protocols.locational.levels import assign, best_split, merge

STATES = 6
PARENTS = [-1] * STATES + [state for state in range(STATES) for _ in range(2 + state % 4)]
USERS, RUNS = 6000, 40
HIERARCHY = Hierarchy(PARENTS)


def oracle(partition):
    return OUE(Categorical([str(region) for region in partition]), 1.0)


def measured(partition, leaves, seed):
    """Return what the respondents of some leaves report of a partition."""
    asked = oracle(partition)
    codes = HIERARCHY.cell_of(partition)[leaves]
    state = asked.aggregate(asked.randomize_codes(codes, from_seed(seed)))
    estimate = asked.estimate(state, population=True)
    return partition, estimate.raw, estimate.variance


@pytest.fixture(scope="module")
def respondents():
    rng = np.random.default_rng(1)
    leaves = HIERARCHY.leaves
    found = leaves[rng.choice(leaves.size, USERS, p=rng.dirichlet(np.full(leaves.size, 0.4)))]
    truth = HIERARCHY.sums(np.bincount(found, minlength=HIERARCHY.size)[leaves] / USERS)
    return found, truth


@pytest.mark.parametrize("adaptive", [False, True])
def test_intervals_after_consistency_hold_the_truth(respondents, adaptive):
    leaves, truth = respondents
    unit = [float(oracle(HIERARCHY.partition(level)).variance(1, 0.05)) for level in (0, 1)]
    split = best_split(HIERARCHY, unit, USERS)
    coverage, errors = [], []
    for run in range(RUNS):
        level = assign(USERS, split.shares, from_seed(run))
        first = measured(HIERARCHY.partition(0), leaves[level == 0], 2 * run)
        partition = HIERARCHY.partition(1)
        if adaptive:
            deviation = (unit[1] / (USERS * split.shares[1])) ** 0.5
            least = threshold(HIERARCHY, first[0], deviation, 1.0)
            partition = refine(HIERARCHY, first[0], first[1], least).partition
        second = measured(partition, leaves[level == 1], 2 * run + 1)
        short, regions = HIERARCHY.below(partition)
        number = np.full(HIERARCHY.size, -1)
        number[regions] = np.arange(regions.size)
        parts = [(number[cells], values, variance) for cells, values, variance in (first, second)]
        found = merge(short, parts, total=1.0)
        gap = np.abs(found.values - truth[regions])
        coverage.append(float((gap < 1.96 * np.sqrt(found.variance)).mean()))
        errors.append(float((gap[:STATES] ** 2).mean()))
    deviation = float(np.std(coverage)) / RUNS**0.5
    assert abs(float(np.mean(coverage)) - 0.95) < 4 * deviation + 0.01
    if not adaptive:
        forecast = float(split.variance[:STATES].mean())
        assert 0.7 < float(np.mean(errors)) / forecast < 1.4
