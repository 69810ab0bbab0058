from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from privagg._jit import JIT
from privagg.errors import UsageError
from privagg.protocols.responses import reports
from privagg.protocols.responses._report_gibbs import Geometry, sweep, sweep_plain
from privagg.protocols.responses.report_replica import METHODS, Setting, gaps, score
from privagg.protocols.responses.reports import (
    AggregateLogistic,
    Layout,
    MarkovRandomField,
    NaiveBayes,
    Tables,
    nllh,
)

RESULTS = Path(__file__).resolve().parent.parent.parent / "docs" / "ad-report-replica.json"


@pytest.fixture(scope="module")
def world():
    return reports.simulate(6000, features=3, smallest=3, largest=6, seed=2)


@pytest.fixture(scope="module")
def tables(world):
    return Tables.count(Layout(world.cardinalities), world.codes, world.labels)


def test_nllh():
    y = np.array([0, 1, 1, 0, 1])
    assert nllh(y, np.full(5, 0.6)) == pytest.approx(0)
    assert nllh(y, y.astype(float)) == pytest.approx(1)
    assert nllh(y, 1.0 - y) < -10
    for labels, chance in (([1, 1], [0.5, 0.5]), ([0, 1], [0.5, 1.5]), ([0, 1], [0.5])):
        with pytest.raises(UsageError):
            nllh(labels, chance)


def test_with_its_own_displays_and_no_smoothing_it_is_logistic_regression(world, tables):
    model = AggregateLogistic(ridge=5.0, prior=1e-9, iterations=2000).fit(tables, world.codes)
    hot = np.zeros((6000, tables.layout.cells))
    hot[np.arange(6000)[:, None], tables.layout.index(world.codes)] = 1
    z = hot @ model.weights[:-1] + model.bias
    # Where the penalised likelihood of single labelled displays is flat.
    gradient = hot.T @ (1 / (1 + np.exp(-z)) - world.labels) + 5 * model.weights[:-1]
    assert np.abs(gradient).max() < 0.5
    assert model.predict(world.codes) == pytest.approx(1 / (1 + np.exp(-z)))


def test_cells_that_the_report_lacks_have_no_weight(world, tables):
    kept = tables.displays > 400
    less = Tables(tables.layout, tables.displays * kept, tables.clicks * kept, kept)
    model = AggregateLogistic().fit(less, world.codes)
    assert (model.weights[:-1][~kept] == 0).all()
    assert (model.weights[:-1][kept] != 0).any()
    # What stands in such cells of pairs is never read.
    pairs = np.arange(kept.size) >= sum(tables.layout.cardinalities)
    strange = np.where(kept | ~pairs, less.clicks, 9e9)
    assert (~kept & pairs).any()
    other = AggregateLogistic().fit(
        Tables(tables.layout, less.displays, strange, kept), world.codes
    )
    assert (other.weights == model.weights).all()


def test_naive_bayes_is_the_product_of_the_singles(world, tables):
    model = NaiveBayes(prior=10).fit(tables)
    mean = world.labels.mean()
    odds = np.log(mean / (1 - mean))
    total = odds
    for f in range(3):
        mine = world.codes[:, f] == world.codes[0, f]
        rate = (world.labels[mine].sum() + 10 * mean) / (mine.sum() + 10)
        total += np.log(rate / (1 - rate)) - odds
    assert model.predict(world.codes[:1])[0] == pytest.approx(1 / (1 + np.exp(-total)))


def test_the_field_has_the_tables_counts(world, tables):
    model = MarkovRandomField(ridge=1.0, chains=3000, iterations=250).fit(tables)
    assert nllh(world.labels, model.predict(world.codes)) > 0.8 * nllh(
        world.labels, AggregateLogistic(1.0).fit(tables, world.codes).predict(world.codes)
    )
    # Displays that it makes up fall into cells as the true ones do.
    made = np.bincount(tables.layout.index(model.codes).ravel(), minlength=tables.layout.cells)
    share = tables.displays / 6000
    sd = np.sqrt(share * (1 - share) / 3000 + share * (1 - share) / 6000) + 1e-3
    assert (np.abs(made / 3000 - share) / sd).max() < 6
    # Clicks that it expects for the true displays are those of the tables.
    index = tables.layout.index(world.codes)
    weights = np.repeat(model.predict(world.codes), index.shape[1])
    expected = np.bincount(index.ravel(), weights, minlength=tables.layout.cells)
    assert (np.abs(expected - tables.clicks) / np.sqrt(tables.displays + 20)).max() < 2.5


def test_noise_adds_to_the_ridge(tables):
    small = MarkovRandomField(100.0, iterations=20, chains=200).fit(tables)
    large = MarkovRandomField(100.0, 1e6, iterations=20, chains=200).fit(tables)
    assert np.abs(large.theta).sum() < 0.2 * np.abs(small.theta).sum()


@pytest.mark.skipif(not JIT, reason="kernels are off")
@pytest.mark.parametrize("pairs", [True, False])
def test_the_gibbs_kernel_does_as_the_plain_path(pairs):
    rng = np.random.default_rng(3)
    layout = Layout((4, 7, 3, 5), pairs=pairs)
    codes = np.stack([rng.integers(0, c, 300) for c in layout.cardinalities], 1).astype(np.int32)
    labels = rng.integers(0, 2, 300).astype(np.int8)
    plain, clicked = rng.normal(0, 1, (2, layout.cells))
    other = codes.copy()
    uniforms = rng.random((300, 4))
    sweep(codes, labels, plain, clicked, uniforms, Geometry.of(layout))
    sweep_plain(other, labels, plain, clicked, uniforms, Geometry.of(layout))
    assert (codes == other).all()


def test_gibbs_sampling_has_the_law_of_the_field():
    rng = np.random.default_rng(4)
    layout = Layout((2, 3))
    weights = rng.normal(0, 0.8, layout.cells)
    step = sweep if JIT else sweep_plain
    codes, labels = np.zeros((4000, 2), np.int32), np.zeros(4000, np.int8)
    seen = np.zeros(6)
    for turn in range(40):
        step(codes, labels, weights, weights, rng.random((4000, 2)), Geometry.of(layout))
        if turn >= 10:
            seen += np.bincount(codes[:, 0] * 3 + codes[:, 1], minlength=6)
    every = np.array([(a, b) for a in range(2) for b in range(3)])
    law = np.exp(weights[layout.index(every)].sum(axis=1))
    assert seen / seen.sum() == pytest.approx(law / law.sum(), abs=0.01)


def test_bad_parameters(tables):
    for make in (
        lambda: AggregateLogistic(ridge=0),
        lambda: NaiveBayes(prior=0),
        lambda: MarkovRandomField(ridge=0),
        lambda: MarkovRandomField(noise_variance=-1),
        lambda: MarkovRandomField(chains=0),
        lambda: AggregateLogistic().fit(tables, np.zeros((0, 3), int)),
        lambda: MarkovRandomField().fit(
            Tables(tables.layout, tables.displays, 0 * tables.clicks, tables.kept)
        ),
        lambda: gaps([{"a": 1.0}]),
        lambda: score(None, 0),
    ):
        with pytest.raises(UsageError):
            make()


SMALL = Setting(
    rows=20_000, unlabelled=3_000, labelled=200, test=8_000, features=3, largest=20, iterations=50
)


def test_a_small_cell_of_the_replica():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        found = score(SMALL, 1)
    assert tuple(found) == METHODS
    best, few = found["aggregate logistic"], found["few rows labelled"]
    assert found["oracle"] > found["all rows labelled"] > few
    assert min(best, found["Markov random field"]) > few + 0.02
    assert found["Markov random field"] == pytest.approx(best, abs=0.03)


def test_the_results_checked_in_have_the_order_of_the_challenge():
    quiet, noisy = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert (quiet["setting"]["sigma"], noisy["setting"]["sigma"]) == (0, 17)
    order = [noisy["gaps"][0]["better"], *(gap["worse"] for gap in noisy["gaps"])]
    learners = ("Markov random field", "naive Bayes", "boosting", "few rows labelled")
    assert order == [*METHODS[:3], *learners]
    assert all(gap["standard_errors"] > 3 for gap in noisy["gaps"])
    for run in (quiet, noisy):
        for name, values in run["nllh"].items():
            assert len(values) == run["seeds"] >= 4
            assert np.mean(values) == pytest.approx(run["mean_nllh"][name], abs=1e-4)
