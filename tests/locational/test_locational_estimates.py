"""Estimates by region: unbiased, as varied as the closed forms say, and covered as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privagg.accounting import Ledger
from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.protocols.locational import (
    ORACLES,
    Aggregator,
    Boolean,
    Category,
    Chunk,
    Grid,
    Number,
    Params,
    Ranking,
    RegionList,
    Respondent,
    hold,
    published,
    randomize,
    recommend,
    run,
)
from privagg.protocols.locational import alternatives as beside
from privagg.protocols.locational.estimation import fieller
from privagg.protocols.locational.smoothing import between_variance, smoothed

REGIONS = RegionList(["a", "b", "c", "d"])
VALUES = {
    "presence": None,
    "category": Category(["x", "y", "z"]),
    "bool": Boolean(),
    "number": Number(-5, 15),
    "ranking": Ranking(["p", "q", "r"]),
}


def people(value, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    region = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    places = [np.array(REGIONS.names)[region]]
    if value is None:
        return Chunk(places)
    if isinstance(value, Category):
        return Chunk(places, np.array(["x", "y", "z"])[rng.integers(0, 3, n)])
    if isinstance(value, Boolean):
        return Chunk(places, rng.random(n) < 0.2 + 0.2 * region)
    if isinstance(value, Number):
        return Chunk(places, rng.uniform(-5, 5, n) + 3 * region)
    liking = rng.random((n, 3)) + np.array([0.0, 0.3, 0.6])
    return Chunk(places, liking.argsort(axis=1).argsort(axis=1))


def survey(value, **changed):
    base = {"regions": REGIONS, "epsilon": 3.0}
    if value is not None:
        base["value"] = value
    return Params(**base | changed)


@pytest.mark.parametrize("value", VALUES)
def test_pooled_coverage(value):
    """Of raw intervals: 95 % within 4 standard errors, those of counts as well."""
    params = survey(VALUES[value], mechanism="ss")
    result = run(params, [people(VALUES[value])], runs=150, seed=7)
    # Intervals of one run share its reports: as if a quarter of them were independent.
    error = math.sqrt(0.95 * 0.05 / (result.intervals / 4))
    assert abs(result.covered - 0.95) < 4 * error
    assert abs(result.covered_counts - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 150)
    assert result.truth.mse_raw == pytest.approx(result.mse_theory, rel=0.25)
    assert result.truth.mse < result.truth.mse_raw * 1.1


@pytest.mark.parametrize("oracle", [name for name in ORACLES if name != "privset"])
def test_means_and_covariances_of_raw_frequencies(oracle):
    """Over many runs: no bias, and the covariance of a region's two cells as in closed form."""
    params = survey(Boolean(), mechanism=oracle, epsilon=1.5)
    held = hold(params, people(Boolean(), 400).places, people(Boolean(), 400).values)
    truth = np.bincount(held.codes.reshape(-1), minlength=8).reshape(4, 2) / 400
    raws, inside = [], []
    source = from_seed(11)
    for number in range(400):
        aggregator = Aggregator(params)
        aggregator.receive(randomize(params, held, source.spawn(str(number))))
        one = aggregator.estimate().cells[0]
        raws.append(one.raw)
        both = np.stack([one.variance[:, 0], one.covariance, one.covariance, one.variance[:, 1]])
        inside.append(both.T.reshape(4, 2, 2))
        assert np.allclose(one.total_variance, inside[-1].sum(axis=(1, 2)))
    raws = np.array(raws)
    stated = np.mean(inside, axis=0)
    deviation = np.sqrt(stated[:, [0, 1], [0, 1]])
    assert (np.abs(raws.mean(axis=0) - truth) < 5 * deviation / math.sqrt(400)).all()
    for region in range(4):
        found = np.cov(raws[:, region].T)
        # The error of a covariance of 400 is about 1 / sqrt(400) of the variances.
        slack = 5 * stated[region].trace() / 2 / math.sqrt(400) * math.sqrt(2)
        assert (np.abs(found - stated[region]) < slack).all()


@pytest.mark.parametrize("mechanism", ["privset", "ss", "oue", "grr", "pgr", "hr", "gaussian"])
def test_sets_of_items(mechanism):
    regions = RegionList([f"r{at}" for at in range(12)])
    rng = np.random.default_rng(4)
    sizes = rng.integers(0, 4, 1500)
    owners = np.repeat(np.arange(1500), sizes)
    names = np.concatenate([rng.choice(12, size, replace=False) for size in sizes])
    chunk = Chunk([np.array(regions.names)[names]], None, owners, 1500)
    params = Params(regions=regions, epsilon=2.0, items=3, mechanism=mechanism)
    result = run(params, [chunk], runs=40, seed=5)
    assert result.truth.frequencies.sum() == pytest.approx(owners.size / 1500)
    assert result.truth.mse_raw == pytest.approx(result.mse_theory, rel=0.25)
    assert abs(result.covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / (result.intervals / 4))


def test_privset_beats_sampling_where_the_forecast_says_so():
    regions = RegionList([f"r{at}" for at in range(100)])
    choice = recommend("auto", regions=regions, epsilon=1.0, items=2)
    assert choice.params.oracle == "privset"
    sampled = next(one for one in choice.forecasts if one.params.oracle == "ss")
    assert choice.forecasts[0].mse < sampled.mse / 1.5
    assert "privset" in choice.why


# Which mechanism.


@pytest.mark.parametrize("cells", [2, 8, 60, 276, 1000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 10.0])
def test_auto_is_within_a_tenth_of_the_best(cells, epsilon):
    regions = RegionList([str(at) for at in range(cells)])
    choice = recommend(regions=regions, epsilon=epsilon)
    (own,) = [one for one in choice.forecasts if one.params is choice.params]
    for name in ("ss", "grr", "oue", "sue", "olh", "pgr", "hr"):
        try:
            params = Params(regions=regions, epsilon=epsilon, mechanism=name)
        except UsageError:
            continue
        assert own.mse <= 1.1 * params.oracles[0].variance(1, 1 / cells)


def test_auto_keeps_limits_and_says_why():
    regions = RegionList([str(at) for at in range(1000)])
    free = recommend(regions=regions, epsilon=1.0)
    small = recommend(regions=regions, epsilon=1.0, max_bytes=4)
    assert small.params.report_bytes <= 4 < free.params.report_bytes
    assert "over the limits" in small.why
    fast = recommend(regions=regions, epsilon=1.0, users=10**9, max_seconds=60.0)
    assert fast.params.oracle != "olh"
    with pytest.raises(UsageError, match="bytes"):
        recommend(regions=regions, epsilon=1.0, max_bytes=0.5)
    with pytest.raises(UsageError):
        recommend(regions=regions, epsilon=1.0, max_seconds=1.0)
    with pytest.raises(UsageError):
        recommend("best", regions=regions, epsilon=1.0)


def test_families_take_their_best():
    few, many = (RegionList([str(at) for at in range(k)]) for k in (3, 300))
    assert Params(regions=few, epsilon=2.0, mechanism="randomised-response").oracle == "grr"
    assert Params(regions=many, epsilon=1.0, mechanism="randomised-response").oracle == "oue"
    assert Params(regions=many, epsilon=1.0, mechanism="exponential").oracle == "ss"
    assert Params(regions=many, epsilon=1.0, mechanism="gaussian").oracle == "gaussian"
    assert recommend("exponential", regions=many, epsilon=1.0, items=2).params.oracle == "privset"


# The framework as published.


def scene(n=1000):
    return np.random.default_rng(2).integers(0, 42, n)


@pytest.mark.parametrize(
    ("epsilon", "factor", "over_debiased"), [(1.0, 35.0, 1.05), (2.0, 90.0, 1.25)]
)
def test_error_beside_the_framework_as_published(epsilon, factor, over_debiased):
    """At equal true epsilon, on its one-hot setting: 1000 respondents, 276 cells."""
    codes = scene()
    truth = np.bincount(codes, minlength=276) / 1000
    rng = np.random.default_rng(1)
    theirs, inverted = [], []
    own = epsilon / 2
    assert published.true_epsilon(own, "randomised-response") == epsilon
    for _ in range(60):
        noisy = published.one_hot(codes, 276, own, "randomised-response", rng)
        theirs.append(np.square(noisy - truth).mean())
        inverted.append(np.square(published.debiased(noisy, own) - truth).mean())
    regions = RegionList([str(at) for at in range(276)])
    choice = recommend(regions=regions, epsilon=epsilon)
    result = run(choice.params, [Chunk([codes.astype(str)])], runs=60, seed=3)
    assert np.mean(theirs) / result.truth.mse_raw > factor
    # The closed form of theirs: symmetric unary encoding.
    closed = Params(regions=regions, epsilon=epsilon, mechanism="sue").oracles[0].variance(1000)
    assert np.mean(inverted) == pytest.approx(closed, rel=0.05)
    assert closed / result.mse_theory > over_debiased
    assert np.mean(inverted) / result.truth.mse_raw > over_debiased * 0.97


@pytest.mark.parametrize("name", published.NAMES)
def test_what_published_mechanisms_have_and_miss(name):
    for epsilon in (2.0, 5.0):
        assert published.true_epsilon(epsilon, name) > epsilon
    found = published.one_hot(scene(), 276, 1.0, name, np.random.default_rng(0))
    assert np.square(found - np.bincount(scene(), minlength=276) / 1000).mean() > 0.02
    with pytest.raises(UsageError):
        published.one_hot(scene(), 10, 1.0, name, np.random.default_rng(0))


def test_the_published_gaussian_hides_its_sensitivity_where_epsilon_is_small():
    """The classical formula has slack up to about 1, more than the root of 2 takes."""
    assert 0.9 < published.true_epsilon(1.0, "gaussian") < 1.0
    assert published.true_epsilon(10.0, "gaussian") > 17


# Means.


def test_fieller_against_a_search():
    d, c = np.array([0.05, -0.2, 0.01]), np.array([0.3, 0.4, 0.02])
    var_d, var_c, cov = np.full(3, 4e-4), np.full(3, 4e-4), np.full(3, 1e-4)
    low, high, none = fieller(d, c, var_d, var_c, cov, 1.96)
    assert none.tolist() == [False, False, True]
    ratios = np.linspace(-3, 3, 600_001)
    for at in range(2):
        gap = (d[at] - ratios * c[at]) ** 2
        fits = gap <= 1.96**2 * (var_d[at] - 2 * ratios * cov[at] + ratios**2 * var_c[at])
        assert ratios[fits].min() == pytest.approx(low[at], abs=1e-4)
        assert ratios[fits].max() == pytest.approx(high[at], abs=1e-4)


def test_means_of_small_regions_are_withheld_and_smoothed():
    n = 2000
    rng = np.random.default_rng(0)
    region = rng.choice(6, n, p=[0.32, 0.32, 0.32, 0.03, 0.01, 0.0])
    regions = RegionList([f"r{at}" for at in range(6)])
    chunk = Chunk([np.array(regions.names)[region]], rng.random(n) < 0.4)
    params = Params(regions=regions, value=Boolean(), epsilon=1.0)
    result = run(params, [chunk], runs=20, seed=1)
    rows = result.estimates.rows()
    assert rows[5]["withheld"]
    assert rows[5]["estimate"] is None
    assert rows[5]["wide"]
    assert 0 < rows[5]["smooth"] < 1  # an empty region gets the common mean
    assert not rows[0]["withheld"]
    assert result.covered_smooth > 0.9
    assert math.isnan(result.truth.estimates[5, 0])


def test_smoothing_draws_noise_to_the_mean_and_nothing_else():
    c = np.full(40, 0.025)
    mean = np.random.default_rng(0).normal(0.2, 0.1, 40)
    small, large = np.full(40, 1e-10), np.full(40, 1e-6)
    none = np.zeros(40)
    kept, low, high = smoothed((-1, 1), mean * c, c, small, small, none, 1.96)
    assert np.allclose(kept, mean, atol=1e-3)
    assert (high - low < 0.01).all()
    rng = np.random.default_rng(1)
    noisy = mean * c + rng.normal(0, 1e-3 * 4, 40)
    drawn, _, _ = smoothed((-1, 1), noisy, c, large * 16, large, none, 1.96)
    assert np.square(drawn - mean).mean() < np.square(noisy / c - mean).mean() / 1.5
    assert between_variance(np.full(5, 0.3), np.full(5, 0.1)) > 0


# Parties.


def test_parties_over_bytes():
    params = survey(Number(0, 10), mechanism="ss")
    both = [Aggregator(params), Aggregator(params)]
    for number in range(60):
        one = Respondent(params, entropy=from_seed(number))
        both[number % 2].receive(one.report(("b", 4.0)).encode())
        with pytest.raises(UsageError, match="second"):
            one.report(("b", 4.0))
    loaded = Aggregator.load_state(params, both[1].dump_state())
    both[0].merge(loaded)
    assert both[0].users == 60
    found = both[0].estimate()
    assert found.insecure
    assert found.count.argmax() == 1
    assert "60" in repr(both[0])
    with pytest.raises(PeerError):
        Aggregator.load_state(params, both[1].dump_state()[:-1])
    with pytest.raises(PeerError):
        Aggregator.load_state(survey(Number(0, 11)), both[1].dump_state())
    with pytest.raises(PeerError):
        both[0].merge(Aggregator(survey(Boolean())))
    with pytest.raises(PeerError):
        both[0].receive(Respondent(survey(Boolean())).report(("a", True)))


def test_a_ledger_is_charged_before_the_report():
    params = survey(Boolean(), epsilon=1.0)
    ledger = Ledger(limit=1.5)
    Respondent(params, ledger=ledger, name="x").report(("a", True))
    with pytest.raises(UsageError):
        Respondent(params, ledger=ledger, name="x").report(("a", True))
    points = Params(regions=Grid(2, 2, (0, 0, 10, 10)), epsilon=1.0, other=True)
    assert len(Respondent(points).report(((3.0, 4.0), None))) == 1
    with pytest.raises(UsageError):
        Respondent(points).report((3.0, None))


def test_nobody_reports():
    params = survey(None)
    with pytest.raises(UsageError, match="no reports"):
        Aggregator(params).estimate()
    with pytest.raises(UsageError, match="no respondents"):
        run(params, [])
    with pytest.raises(UsageError, match="no respondents"):
        run(params, [Chunk([[]])])
    with pytest.raises(UsageError, match="one for each item"):
        run(survey(VALUES["ranking"]), [Chunk([["a"]], ["p > q > r"])])


def test_one_region_with_one_respondent():
    params = Params(regions=RegionList(["only"]), value=Boolean(), epsilon=1.0)
    result = run(params, [Chunk([["only"]], [True])], seed=1)
    assert result.users == 1
    assert result.estimates.count[0] == pytest.approx(1.0)


def test_chunks_add_up_in_constant_memory():
    value = Ranking(["p", "q", "r"])
    whole = people(value, 90)
    params = survey(value)
    parts = [
        Chunk([whole.places[0][at : at + 7]], whole.values[at : at + 7]) for at in range(0, 90, 7)
    ]
    one, many = run(params, [whole], seed=1), run(params, iter(parts), seed=1)
    assert one.users == many.users == 90
    assert np.allclose(one.truth.estimates, many.truth.estimates, equal_nan=True)
    assert [cells.users for cells in many.estimates.cells] == [30, 30, 30]


# Beside secure aggregation.


def test_masked_counts_are_exact():
    params = survey(Boolean())
    chunk = people(Boolean(), 12)
    held = hold(params, chunk.places, chunk.values)
    counts, sent = beside.masked_counts(params, held, seed=1)
    assert counts.tolist() == np.bincount(held.codes.reshape(-1), minlength=8).tolist()
    rows = beside.alternatives(params, 12, 0.1, sent=sent)
    assert [row.mse for row in rows][1] == 0.0
    assert rows[2].mse < rows[0].mse
    assert rows[1].measured
    assert "not" not in rows[0].trust


def test_counts_with_noise_that_clients_add_together():
    params = survey(Boolean())
    chunk = people(Boolean(), 60)
    held = hold(params, chunk.places, chunk.values)
    exact, _ = beside.masked_counts(params, held, seed=1)
    errors = []
    for seed in range(6):
        noisy = beside.noisy_counts(params, held, seed=seed)
        assert (noisy.epsilon, noisy.delta) == (params.epsilon, beside.DELTA)
        assert 6 <= noisy.honest < 60
        errors.append((noisy.counts - exact) / noisy.deviation)
    # 48 standard normals: the mean square is within 5 standard deviations of 1.
    assert abs(np.mean(np.square(errors)) - 1) < 5 * np.sqrt(2 / np.size(errors))
    row = beside.alternatives(params, 60, 0.1, sent=1, noisy=[noisy], noisy_mse=0.01)[2]
    assert row.measured
    assert row.mse == 0.01
    assert "delta 1e-06" in row.guarantee
    assert row.bytes_per_client == noisy.sent


def test_discrete_laplace_variance_by_summing_up():
    j = np.arange(-400, 401)
    weights = np.exp(-0.3 * np.abs(j))
    assert beside.discrete_laplace_variance(0.3) == pytest.approx(
        (weights * j**2).sum() / weights.sum()
    )
