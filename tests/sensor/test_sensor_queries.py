"""Queries beyond the sum: what they answer, and what a search costs."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from sensor_runs import run, small

from privagg.errors import UsageError
from privagg.protocols.sensor import Deployment, Query, Radio, power_maximum


def values(deployment, low=-50, high=50):
    return np.random.default_rng(5).integers(low, high + 1, deployment.nodes) / 4


def test_queries_give_the_answers_of_the_readings_they_cover():
    deployment = small()
    readings = values(deployment)
    whole = run(deployment=deployment, readings=readings, scale=4)
    inside = readings[whole.covered[0]]
    cases = [
        (Query(kind="sum"), inside.sum()),
        (Query(kind="mean"), inside.mean()),
        (Query(kind="variance"), inside.var()),
        (Query(kind="count"), len(inside)),
        (Query(kind="count", at_least=2.5), (inside >= 2.5).sum()),
        (
            Query(kind="histogram", edges=(-13, -5, 0, 0.25, 13)),
            np.histogram(inside, (-13, -5, 0, 0.25, 13))[0].tolist(),
        ),
        (Query(kind="max"), inside.max()),
        (Query(kind="min"), inside.min()),
    ]
    for query, expected in cases:
        for protocol in ("cpda-field", "mask-cluster", "tag", "cpda"):
            found = run(protocol, deployment, readings=readings, query=query, scale=4)
            if np.array_equal(found.covered[0], whole.covered[0]) or protocol != "tag":
                assert found.answers[0] == pytest.approx(expected), (query, protocol)
            assert found.query == query


def test_the_true_answer_is_over_all_nodes():
    deployment = small()
    readings = values(deployment)
    found = run(deployment=deployment, readings=readings, query="mean", scale=4)
    assert found.true_answers[0] == pytest.approx(readings.mean())
    found = run(deployment=deployment, readings=readings, query="min", scale=4)
    assert found.true_answers[0] == readings.min()
    thresholds = [step.threshold for step in found.bisection]
    assert len(thresholds) <= 8
    assert len(set(thresholds)) == len(thresholds)


def test_the_extremes_are_exact_whatever_the_readings():
    deployment = Deployment(12, 30.0, 50.0, seed=3)
    random = np.random.default_rng(1)
    for _ in range(20):
        readings = random.integers(-9, 7, 12) - random.integers(0, 5)
        for kind, extreme in (("max", np.max), ("min", np.min)):
            found = run(deployment=deployment, readings=readings, query=kind)
            assert found.covered.all()
            assert found.answers == found.true_answers == [extreme(readings)]
            assert all(step.count == step.true_count for step in found.bisection)
    assert run(deployment=deployment, readings=np.zeros(12), query="max").answers == [0]


def test_one_epoch_with_a_sum_is_no_abort():
    found = run("tag", small(), epochs=3)
    assert found.abort is None
    assert dataclasses.replace(found, counts=[0, 5, 0], sums=[0.0, 1.0, None]).abort is None
    for counts, sums in (([0, 0, 0], [0.0, 0.0, 0.0]), ([3, 4, 5], [None, None, None])):
        nothing = dataclasses.replace(found, counts=counts, sums=sums).abort
        assert (nothing.alive, nothing.needed) == (0, 1)


def test_a_search_adds_the_costs_of_its_steps():
    deployment, radio = small(), Radio(loss=0.0)
    one = run("cpda-field", deployment, radio=radio, query="count")
    found = run("cpda-field", deployment, radio=radio, query="max", bound=100)
    steps = len(found.bisection)
    assert steps == len(found.counts) == 8
    told = one.costs.by_kind["hello"][1]
    formed = sum(one.costs.by_kind[kind][1] for kind in ("hello", "merge", "join", "roster"))
    assert found.costs.by_kind["threshold"][1] == pytest.approx((steps - 1) * told)
    assert found.costs.frames == pytest.approx(
        formed + steps * (one.costs.frames - formed) + (steps - 1) * told
    )
    assert found.messages == pytest.approx(1 + steps * (one.messages - 1))
    assert found.accuracy is None


def test_a_search_that_loses_a_count_has_no_answer():
    """Without acknowledgements one lost slice makes a sum uniform."""
    found = run("smart", small(), radio=Radio(loss=0.05), query="max")
    assert None in [step.count for step in found.bisection]
    assert found.answers == [None]


def test_bisection_without_any_reading_finds_nothing():
    alone = Deployment(3, 1000.0, 1.0, seed=1)
    assert run(deployment=alone, query="max").answers == [None]
    assert run(deployment=alone).answers == [0.0] or run(deployment=alone).answers == [None]


def test_power_approximation_is_too_large_and_falls():
    readings = np.random.default_rng(1).integers(1, 101, 600)
    rows = power_maximum(readings, [1, 2, 8, 32, 128, 512])
    errors = [error for _, _, error in rows]
    assert all(a > b > 0 for a, b in pairwise(errors))
    for k, estimate, error in rows:
        assert 0 < error <= 600 ** (1 / k) - 1 + 1e-12
        assert estimate == pytest.approx(readings.max() * (1 + error))
    rows = power_maximum(readings, [1, 2, 8, 32, 128], minimum=True)
    errors = [error for _, _, error in rows]
    assert all(a < b < 0 for a, b in pairwise(errors))
    for k, estimate, error in rows:
        assert error >= 600 ** (-1 / k) - 1 - 1e-12
        assert estimate == pytest.approx(float(((1.0 / readings) ** k).sum() ** (-1 / k)))
    assert power_maximum([0, 1], [2]) == [(2, 1.0, 0.0)]
    for wrong in ([-1, 1], [0, 0], [], [float("nan")]):
        with pytest.raises(UsageError):
            power_maximum(wrong, [2])
    with pytest.raises(UsageError):
        power_maximum([0, 1], [2], minimum=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "median"},
        {"kind": "histogram"},
        {"kind": "sum", "edges": (0, 1)},
        {"kind": "histogram", "edges": (0,)},
        {"kind": "histogram", "edges": (0, 0)},
        {"kind": "histogram", "edges": (0, float("nan"))},
        {"kind": "sum", "at_least": 3},
    ],
    ids=str,
)
def test_queries_are_checked(changes):
    with pytest.raises(UsageError):
        Query(**changes)
