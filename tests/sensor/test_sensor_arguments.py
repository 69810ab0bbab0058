"""Arguments of the simulation: wrong ones are named, and rounding is counted."""

import numpy as np
import pytest

from privagg.errors import UsageError
from privagg.protocols import sensor

FIELD = sensor.Deployment(nodes=30, area=60, range=60, seed=3)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"radio": 5}, "radio"),
        ({"energy": "cc2420"}, "energy"),
        ({"query": 5}, "query"),
        ({"query": ""}, "query"),
        ({"query": "median"}, "query"),
        ({"deaths": 5}, "deaths"),
        ({"deaths": {1: None}}, "deaths"),
        ({"deaths": {1: [0, "hello"]}}, "deaths"),
        ({"deaths": {1: (0, "hello", 2)}}, "deaths"),
        ({"deaths": {"1": "hello"}}, "deaths"),
        ({"protocol": "cpda", "allow_insecure": "no"}, "allow_insecure"),
        ({"protocol": "cpda", "allow_insecure": 1}, "allow_insecure"),
        ({"slice": 3}, "changes"),
        ({"slices": 3}, "slices"),
        ({"plain_slices": True, "protocol": "tag"}, "plain_slices"),
        ({"arithmetic": "real", "protocol": "smart"}, "arithmetic"),
        ({"width": 3}, "changes"),
    ],
)
def test_wrong_arguments_are_named(changes, named):
    with pytest.raises(UsageError) as caught:
        sensor.simulate(FIELD, **changes)
    assert caught.value.argument == named


def test_a_deployment_is_needed():
    with pytest.raises(UsageError, match="deployment"):
        sensor.simulate(None)


@pytest.mark.parametrize("at_least", [float("nan"), float("inf"), "5", True])
def test_thresholds_are_finite(at_least):
    with pytest.raises(UsageError, match="at_least"):
        sensor.Query(kind="count", at_least=at_least)


@pytest.mark.parametrize("edges", [5, "ab", (None, 1), (0, float("nan"))])
def test_edges_are_numbers(edges):
    with pytest.raises(UsageError, match="edges"):
        sensor.Query(kind="histogram", edges=edges)


@pytest.mark.parametrize(
    ("readings", "exponents"), [("a", [2]), ([1.0], 2), ([1.0], "2"), ([], [2]), ([1.0], [0])]
)
def test_the_power_demonstration_wants_numbers(readings, exponents):
    with pytest.raises(UsageError):
        sensor.power_maximum(readings, exponents)


@pytest.mark.parametrize(("scale", "rounded"), [(1, 30), (10, 15), (100, 0)])
def test_rounded_readings_are_counted(scale, rounded):
    readings = np.tile([0.29, 0.5], 15)
    result = sensor.simulate(FIELD, readings=readings, scale=scale)
    assert result.rounded == rounded
    if not rounded:
        assert result.true_sums[0] == pytest.approx(readings.sum())
    assert sensor.simulate(FIELD).rounded == 0
