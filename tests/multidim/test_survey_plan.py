"""The planner's forecasts come true; priors have floor and price."""

from __future__ import annotations

import math

import numpy as np
import pytest
from surveys import attributes, survey

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.multidim import (
    Aggregator,
    Params,
    Priors,
    plan,
    priors,
    randomize_codes,
    run,
    users_needed,
)
from privagg.protocols.multidim.estimation import raw_estimates, variance
from privagg.protocols.multidim.planner import forecast


def test_forecasts_are_the_closed_form_and_come_true():
    found = plan(3000, [3, 8], 1.5, measure=False)
    n = 3000
    codes = [np.arange(n, dtype=np.uint32) % k for k in (3, 8)]
    for one in found.forecasts:
        assert one.params.epsilon_tuple <= 1.5
        expected = np.mean(
            [variance(one.params, at, n, 1 / k).mean() for at, k in enumerate((3, 8))]
        )
        assert one.mse == pytest.approx(expected)
        if one.params.oracle not in ("adp", "sue", "olh", "oue-z"):
            continue
        columns = dict(zip(one.params.names, [c.tolist() for c in codes], strict=True))
        result = run(one.params, columns, runs=60, seed=2)
        assert abs(result.mse_raw - one.mse) < 4.5 * result.mse_raw_error


def test_the_best_is_recommended_within_limits():
    free = plan(45_000, [7, 16, 7, 14], 1.0, measure=False)
    errors = [one.mse for one in free.forecasts]
    assert errors == sorted(errors)
    assert free.recommended is free.forecasts[0]
    assert free.recommended.params.protocol == "smp"
    best = free.forecasts[0].bytes_per_report
    tight = plan(45_000, [7, 16, 7, 14], 1.0, measure=False, max_bytes=best - 0.01)
    assert tight.recommended.bytes_per_report < best
    assert [one for one in tight.forecasts if one.excluded]
    none = plan(45_000, [7, 16, 7, 14], 1.0, measure=False, max_bytes=0.001)
    assert none.recommended is None


def test_decoding_is_measured():
    found = plan(2_000_000, [4, 9], 1.0, protocols=["smp"], max_seconds=1e-9)
    assert found.recommended is None
    assert all(one.decode_seconds > 0 and "decode" in one.excluded for one in found.forecasts)


@pytest.mark.parametrize("reach", [0.2, 0.01, 0.003])
@pytest.mark.parametrize(("protocol", "oracle"), [("smp", "grr"), ("spl", "oue"), ("rs+fd", "adp")])
def test_users_needed_are_the_fewest(reach, protocol, oracle):
    params = survey((3, 20), 1.0, protocol=protocol, oracle=oracle)
    needed = users_needed(params, reach)
    assert forecast(params, needed, measure=False).reach <= reach
    if needed > 1:
        assert forecast(params, needed - 1, measure=False).reach > reach


def test_no_number_is_enough():
    params = survey((3, 20), 0.05, protocol="spl", oracle="oue")
    assert users_needed(params, 1e-7) is None


def test_honest_comparison_of_protocols():
    """At equal epsilon: for tuples SMP wins, for one attribute SPL, which reports all of them."""
    whole = plan(10_000, [7, 16, 7], 1.0, measure=False)
    order = [one.params.protocol.value for one in whole.forecasts]
    assert order[0] == "smp"
    one = plan(10_000, [7, 16, 7], 1.0, calibration="attribute", measure=False)
    best = {}
    for row in one.forecasts:
        best.setdefault(row.params.protocol.value, row.mse)
    assert best["spl"] < best["rs+fd"] < best["smp"]
    assert all(row.params.epsilon_attribute <= 1.0 for row in one.forecasts)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"users": 0}, "users"),
        ({"domains": []}, "domains"),
        ({"domains": [1, 4]}, "domains"),
        ({"domains": "7,16"}, "domains"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 900.0}, "epsilon"),
        ({"frequency": 2.0}, "frequency"),
        ({"confidence": 1.0}, "confidence"),
        ({"protocols": ["rs+rfd"]}, "protocols"),
        ({"protocols": ["all"]}, "protocols"),
        ({"reach": -1.0}, "reach"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_seconds": 1.0}, "max_seconds"),
    ],
    ids=str,
)
def test_wrong_plans(changes, argument):
    right = {"users": 100, "domains": [3, 4], "epsilon": 1.0, "measure": False}
    with pytest.raises(UsageError) as caught:
        plan(**right | changes)
    assert caught.value.argument == argument


# Priors.


def test_priors_are_counts_of_words():
    found = Priors.of([[0.0, 0.25, 0.75], [1.0, 0.0]], floor=0.3)
    for one, expected in zip(found.fakes, ([0.1, 0.275, 0.625], [0.85, 0.15]), strict=True):
        assert int(one.sum()) == 2**32
        assert one / 2**32 == pytest.approx(expected, abs=1e-9)
    assert (found.epsilon, found.trust) == (0.0, "public")


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"probabilities": [[0.5, 0.4]]}, "probabilities"),
        ({"probabilities": [[1.5, -0.5]]}, "probabilities"),
        ({"probabilities": [[float("nan"), 1]]}, "probabilities"),
        ({"probabilities": [[1.0]]}, "probabilities"),
        ({"floor": 0}, "floor"),
        ({"floor": 1.5}, "floor"),
        ({"trust": "me"}, "trust"),
        ({"trust": "central"}, "epsilon"),
        ({"epsilon": 0.1}, "epsilon"),
        ({"epsilon": -0.1, "trust": "local"}, "epsilon"),
    ],
    ids=str,
)
def test_wrong_priors(arguments, argument):
    right = {"probabilities": [[0.5, 0.5]]}
    with pytest.raises(UsageError) as caught:
        Priors.of(**right | arguments)
    assert caught.value.argument == argument


def test_discrete_laplace_has_its_distribution():
    """Chi-square against e**(-abs(x) / scale); it fails for a scale a tenth off."""
    from fractions import Fraction

    from scipy import stats

    draws, n = Draws(from_seed(3)), 9000
    drawn = np.array([priors._discrete_laplace(Fraction(5, 2), draws) for _ in range(n)])
    values = np.arange(-12, 13)
    observed = [(drawn == v).sum() for v in values] + [(abs(drawn) > 12).sum()]
    for scale, right in ((2.5, True), (2.75, False), (2.25, False)):
        e = math.exp(-1 / scale)
        inside = (1 - e) / (1 + e) * e ** np.abs(values)
        expected = np.append(inside, 1 - inside.sum()) * n
        assert (stats.chisquare(observed, expected).pvalue > 1e-5) == right


def test_central_priors_cost_and_follow_the_counts():
    counts = [np.array([900, 90, 10]), np.array([500, 500])]
    found = Priors.central(counts, 1.0, floor=0.05, entropy=from_seed(1))
    assert (found.epsilon, found.trust) == (1.0, "central")
    assert found.fakes[0] / 2**32 == pytest.approx([0.87, 0.1, 0.03], abs=0.05)
    params = Params(
        attributes=attributes(3, 2), epsilon=1.0, protocol="rs+rfd", oracle="grr", priors=found
    )
    assert params.epsilon_prior == 1.0
    assert Priors.central(counts, 1.0, entropy=from_seed(1)).fakes[0].tolist() == (
        Priors.central(counts, 1.0, entropy=from_seed(1)).fakes[0].tolist()
    )
    with pytest.raises(UsageError):
        Priors.central([np.array([0.5, 0.5])], 1.0)
    with pytest.raises(UsageError):
        Priors.central(counts, 0.0)


def test_priors_from_an_earlier_survey():
    first = Params(attributes=attributes(3, 2), epsilon=2.0)
    aggregator = Aggregator(first)
    codes = [np.arange(2000, dtype=np.uint32) % 3 // 2 * 2, np.zeros(2000, np.uint32)]
    aggregator.receive(randomize_codes(first, codes, from_seed(1)))
    found = Priors.from_estimates(aggregator.estimate(), first.epsilon_tuple)
    assert found.trust == "local"
    assert found.fakes[0][1] < found.fakes[0][0] / 3
    assert found.epsilon == first.epsilon_tuple


def test_right_priors_estimate_better():
    """RS+RFD with the true frequencies has less error than RS+FD: published, at equal epsilon'."""
    f = np.array([0.9, 0.05, 0.05])
    codes = [np.repeat(np.arange(3), (900, 50, 50)).astype(np.uint32)] * 2
    errors = {}
    for name, chosen in (
        ("rs+fd", {}),
        ("rs+rfd", {"priors": Priors.of([f, f], floor=0.02)}),
    ):
        params = survey((3, 3), 1.0, protocol=name, oracle="grr", **chosen)
        found = []
        for number in range(150):
            aggregator = Aggregator(params)
            aggregator.receive(randomize_codes(params, codes, from_seed(number)))
            found.append(
                np.mean([(raw - f) ** 2 for raw in raw_estimates(params, aggregator.state)])
            )
        errors[name] = np.mean(found)
        theory = np.mean([variance(params, at, 1000, f).mean() for at in (0, 1)])
        assert errors[name] == pytest.approx(theory, rel=0.25)
    assert errors["rs+rfd"] < errors["rs+fd"]


@pytest.mark.parametrize(
    "counts", [None, 5, "ab", [[-1, 2]], [[1.5, 2]], [[1, 2], [[1], [2, 3]]], [[True, False]]]
)
def test_counts_that_are_none(counts):
    with pytest.raises(UsageError, match="counts"):
        Priors.central(counts, 1.0)


@pytest.mark.parametrize("given", [None, 5, "ab", ["ab"], [[[0.5], [0.2, 0.3]]]])
def test_probabilities_that_are_none(given):
    with pytest.raises(UsageError, match="probabilities"):
        Priors.of(given)
    with pytest.raises(UsageError, match="estimates"):
        Priors.from_estimates(given, 1.0)
