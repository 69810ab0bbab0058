from __future__ import annotations

import itertools

import numpy as np
import pytest

from privagg._jit import JIT
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses._graph_messages import bag_messages, bag_messages_plain
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.graphs import Graph, GraphClassifier, marginals


def brute(graph, bags, counts, coupling, weight):
    """P(x_i = 1) over all labellings."""
    total, ones = 0.0, np.zeros(graph.rows)
    weights = np.broadcast_to(weight, (bags.count,))
    for labels in itertools.product((0.0, 1.0), repeat=graph.rows):
        x = np.array(labels)
        apart = (x[graph.tail] - x[graph.head]) ** 2
        energy = coupling * (graph.similarity * apart).sum() / 2
        energy += (weights * (bags.sums(x) - counts) ** 2).sum()
        total, ones = total + np.exp(-energy), ones + np.exp(-energy) * x
    return ones / total


ROWS = 240

TREES = {
    "one bag": ([], [[0, 1, 2, 3, 4]], [1.7]),
    "chain between bags": ([(0, 3), (5, 6)], [[0, 1, 2], [3, 4, 5], [6, 7]], [2, 0.4, 1]),
    "a row in two bags": ([(4, 5)], [[0, 1, 2], [2, 3, 4], [5]], [1, 2, 1]),
    "a star": ([(0, 1), (0, 2), (0, 3)], [[0], [1], [2], [3]], [0.5, 1, 0.2, 0.9]),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("weight", [0.3, 3.0])
def test_marginals_of_trees_are_exact(name, weight):
    pairs, members, counts = TREES[name]
    rows = max(max(bag) for bag in members) + 1
    graph = Graph.of(rows, np.array(pairs).reshape(-1, 2), np.linspace(0.4, 1.3, len(pairs)))
    bags = Bags.of(members, rows)
    found, steps = marginals(
        graph, bags, counts, coupling=1.4, weight=weight, iterations=300, tolerance=1e-12
    )
    assert found == pytest.approx(brute(graph, bags, counts, 1.4, weight), abs=1e-9)
    assert 1 < steps < 300


def test_marginals_of_a_loop_are_near():
    graph = Graph.of(6, [(0, 1), (1, 2), (2, 3), (3, 0), (1, 4), (4, 5)], np.full(6, 0.6))
    bags = Bags.of([[0, 1, 2], [3, 4, 5]], 6)
    found, _ = marginals(graph, bags, [0.4, 2.6], coupling=1.0, weight=1.0)
    assert found == pytest.approx(brute(graph, bags, np.array([0.4, 2.6]), 1, 1), abs=0.06)


def test_a_hidden_bag_says_nothing():
    graph = Graph.of(4, [(0, 2)], [1.0])
    bags = Bags.of([[0, 1], [2, 3]], 4)
    counts = np.array([2.0, 0.0])
    found, _ = marginals(graph, bags, counts, weight=np.array([3.0, 0.0]), iterations=300)
    assert found == pytest.approx(brute(graph, bags, counts, 1, np.array([3.0, 0])), abs=1e-4)
    assert found[3] == pytest.approx(0.5)


@pytest.mark.skipif(not JIT, reason="kernels are off")
@pytest.mark.parametrize("weight", [0.02, 1.0, 10.0, 500.0])
def test_the_kernel_does_as_the_plain_path(weight):
    rng = np.random.default_rng(0)
    starts = np.array([0, 1, 8, 40, 43])
    cavity = rng.normal(0, 3, 43) * np.where(rng.random(43) < 0.1, 8, 1)
    counts = np.array([0.3, 7.0, -4.0, 1.5])
    weights = np.array([weight, weight, weight, 0.0])
    fast, slow = np.empty(43), np.empty(43)
    bag_messages(cavity, starts, counts, weights, fast)
    bag_messages_plain(cavity, starts, counts, weights, slow)
    assert np.isfinite(fast).all()
    assert fast == pytest.approx(slow, abs=1e-7)


@pytest.fixture(scope="module")
def moons():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, ROWS)
    angle = rng.random(ROWS) * np.pi
    x = np.stack([np.cos(angle) + y, np.where(y, 0.4 - np.sin(angle), np.sin(angle))], 1)
    return x + rng.normal(0, 0.1, x.shape), y


def test_labels_are_found_from_proportions(moons):
    from sklearn.base import clone

    x, y = moons
    bags = Bags.random(ROWS, 8, from_seed(2))
    model = GraphClassifier(random_state=0, couplings=(0.0, 3.0))
    model = clone(model).fit(x, bags, bags.means(y))
    assert ((model.marginals_ > 0.5) == y).mean() > 0.95
    assert model.coupling_ > 0
    assert model.scores_[0] == max(model.scores_)
    assert (model.predict(x) == y).mean() > 0.95
    assert model.predict_proba(x[:5]).sum(axis=1) == pytest.approx(np.ones(5))
    # The counts are kept, and the choice was made without a single label.
    assert bags.sums(model.marginals_) == pytest.approx(bags.sums(y), abs=0.5)
    sums = GraphClassifier(aggregate="sum", couplings=(model.coupling_,))
    assert (sums.fit(x, bags, bags.sums(y)).marginals_ == model.marginals_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks_pass_but_for_the_name_of_an_argument():
    from sklearn.utils.estimator_checks import check_estimator

    allowed = {"check_fit_score_takes_y": "the second argument of fit is bags"}
    model = GraphClassifier(couplings=(1.0,), random_state=0)
    results = check_estimator(model, expected_failed_checks=allowed, on_skip=None, on_fail=None)
    assert not {one["check_name"] for one in results if one["status"] == "failed"}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"couplings": ()}, "couplings"),
        ({"couplings": (-1.0,)}, "0 or more"),
        ({"weight": -1.0, "couplings": (1.0,)}, "0 or more"),
        ({"folds": 100}, "folds"),
    ],
)
def test_bad_parameters(moons, change, match):
    x, y = moons
    bags = Bags.random(ROWS, 8, from_seed(3))
    with pytest.raises(UsageError, match=match):
        GraphClassifier(**change).fit(x, bags, bags.means(y))


def test_bad_graphs():
    for pairs, similarity in (([(0, 0)], [1.0]), ([(0, 5)], [1.0]), ([(0, 1)], [-1.0])):
        with pytest.raises(UsageError):
            Graph.of(3, pairs, similarity)
    with pytest.raises(UsageError, match="shares of class 1"):
        GraphClassifier().fit(np.eye(4), np.arange(4), np.full((4, 3), 1 / 3))


@pytest.mark.skipif(not JIT, reason="takes a minute without kernels")
def test_odd_digits_from_proportions():
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler

    x, y = load_digits(return_X_y=True)
    x, y = StandardScaler().fit_transform(x)[:1200], y[:1200] % 2
    bags = Bags.random(900, 10, from_seed(4))
    model = GraphClassifier(random_state=0).fit(x[:900], bags, bags.means(y[:900]))
    assert ((model.marginals_ > 0.5) == y[:900]).mean() > 0.97
    assert (model.predict(x[900:]) == y[900:]).mean() > 0.9
