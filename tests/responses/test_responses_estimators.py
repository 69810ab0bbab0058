"""Estimators: scikit-learn's contract, what they refuse, and how good they are on real data."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses import Curator, Release
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.estimators import (
    LOSSES,
    AggregateClassifier,
    AggregateRegressor,
)
from privagg.protocols.responses.selection import AggregateCV, fold_bags

SIGNATURE = {"check_fit_score_takes_y": "the second argument of fit is bags, the third responses"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        AggregateRegressor(),
        AggregateRegressor(family="poisson"),
        AggregateClassifier(),
        AggregateClassifier(loss="interpolate"),
    ],
    ids=repr,
)
def test_scikit_learns_checks_pass_but_for_the_name_of_an_argument(estimator):
    results = check_estimator(
        estimator, expected_failed_checks=SIGNATURE, on_skip=None, on_fail=None
    )
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed == set()
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(SIGNATURE)


@pytest.fixture(scope="module")
def cancer():
    x, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(x), y


def test_bags_of_one_row_are_scikit_learns_own_estimators(rng, cancer):
    x, y = cancer
    ours = AggregateClassifier(ridge=1 / x.shape[0], tol=1e-9).fit(x, y)
    theirs = LogisticRegression(C=1.0, tol=1e-9, max_iter=5000).fit(x, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert np.allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)
    target = x @ rng.normal(size=30) + rng.normal(size=x.shape[0]) + 2
    linear = AggregateRegressor(ridge=0.1).fit(x, target)
    assert np.allclose(linear.coef_, Ridge(alpha=0.1 * x.shape[0]).fit(x, target).coef_)
    assert linear.score(x, target) > 0.9


def test_three_classes_are_learnt_from_proportions_and_from_counts():
    x, y = load_iris(return_X_y=True)
    bags = Bags.random(150, 5, from_seed(1))
    counts = bags.sums(np.eye(3)[y])
    names = ["a", "b", "c"]
    model = AggregateClassifier(aggregate="sum", classes=names).fit(x, bags, counts)
    assert (model.predict(x) == np.array(names)[y]).mean() > 0.9
    assert model.coef_.shape == (3, 4)
    same = AggregateClassifier().fit(x, bags, counts / 5)
    assert np.allclose(same.predict_proba(x), model.predict_proba(x), atol=1e-6)
    assert np.allclose(model.decision_function(x).shape, (150, 3))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_the_same_of_sparse_and_single_precision_features(cancer, loss):
    x, y = cancer
    x = np.where(np.abs(x) < 0.2, 0, x)
    bags = Bags.random(x.shape[0], 3, from_seed(1))
    model = AggregateClassifier(loss=loss, ridge=0.05)
    plain = clone(model).fit(x, bags, bags.means(y))
    assert plain.score(x, y) > 0.85
    for other in (sparse.csr_matrix(x), x.astype(np.float32)):
        assert np.allclose(
            clone(model).fit(other, bags, bags.means(y)).coef_, plain.coef_, atol=1e-3
        )


def test_poisson_counts_are_learnt_from_sums(rng):
    x = rng.normal(size=(4000, 3))
    true = np.array([0.5, -0.3, 0.2])
    y = rng.poisson(np.exp(x @ true + 0.4))
    bags = Bags.random(4000, 4, from_seed(1))
    model = AggregateRegressor(family="poisson", loss="bag", ridge=0, aggregate="sum")
    model.fit(x, bags, bags.sums(y))
    assert np.allclose(model.coef_, true, atol=0.06)
    assert model.intercept_ == pytest.approx([0.4], abs=0.06)
    with pytest.raises(UsageError, match="noisy counts"):
        model.fit(x, bags, np.full(1000, -1.0))


def test_ids_as_strings_and_responses_by_name(rng):
    x = rng.normal(size=(30, 2))
    ids = [f"bag {i % 7}" for i in range(30)]
    bags = Bags.given(ids)
    y = x[:, 0]
    by_name = dict(zip(bags.names, bags.means(y), strict=True))
    shuffled = dict(sorted(by_name.items(), reverse=True))
    ours = AggregateRegressor(loss="bag", ridge=0).fit(x, ids, shuffled)
    assert np.allclose(ours.coef_, [1, 0], atol=1e-8)


def test_pipelines_and_clones(cancer):
    x, y = cancer
    bags = Bags.random(x.shape[0], 5, from_seed(1))
    model = clone(AggregateClassifier(rho=0.3, loss="interpolate"))
    assert model.get_params()["rho"] == 0.3
    line = make_pipeline(StandardScaler(), model)
    # A pipeline's fit(X, y) hands the bags through as y, the responses as a parameter.
    line.fit(x, bags.labels[:, 0], aggregateclassifier__responses=bags.means(y))
    assert line.score(x, y) > 0.85


def test_what_cannot_be_learnt_is_refused(rng):
    x, bags = rng.normal(size=(10, 2)), Bags.random(10, 2, from_seed(1))
    share = rng.uniform(size=5)
    wrong = {
        "outside": (AggregateClassifier(), share * 3),
        "add up": (AggregateClassifier(), rng.uniform(size=(5, 3))),
        "ridge": (AggregateClassifier(loss="easyllp", ridge=0), share),
        "loss": (AggregateClassifier(loss="other"), share),
        "rho": (AggregateRegressor(rho=-1.0), share),
        "family": (AggregateRegressor(family="gamma"), share),
        "responses": (AggregateRegressor(), share[:-1]),
        "columns": (AggregateRegressor(), rng.normal(size=(5, 2))),
        "classes": (AggregateClassifier(classes=["a", "b", "c"]), share),
        "finite": (AggregateRegressor(), np.full(5, np.nan)),
    }
    for reason, (model, responses) in wrong.items():
        with pytest.raises(UsageError, match=reason):
            model.fit(x, bags, responses)
    with pytest.raises(UsageError, match="rows of X"):
        AggregateRegressor().fit(x[:-1], bags, share)
    with pytest.raises(ValueError, match="NaN"):
        AggregateRegressor().fit(np.where(x > 0, np.nan, x), bags, share)
    for loss in ("instance", "easyllp"):  # These take what noise makes of proportions.
        AggregateClassifier(loss=loss, ridge=0.1).fit(x, bags, share * 3 - 1)


def test_a_release_is_learnt_from_as_it_is(rng):
    x = rng.normal(size=(6000, 5))
    true = np.array([1.0, -1, 0.5, 0, 0])
    y = x @ true + rng.normal(size=6000)
    bags = Bags.random(6000, 3, from_seed(1))
    made = Curator(Release(epsilon=8.0, clip=(-2.0, 2.0)), bags, from_seed(2)).release(y)
    model = AggregateRegressor(loss="bag", ridge=0).fit(x, made.bags, made.values)
    assert np.allclose(model.coef_ / made.kappa, true, atol=0.15)
    assert np.abs(model.coef_ - true).max() > 0.15  # Without kappa they are too small.


def test_folds_are_even_and_need_disjoint_bags():
    bags = Bags.random(100, 5, from_seed(1))
    assert sorted(np.bincount(fold_bags(bags, 3, from_seed(2)))) == [6, 7, 7]
    with pytest.raises(UsageError, match="overlapping"):
        fold_bags(Bags.random(100, 5, from_seed(1), copies=2), 3)
    with pytest.raises(UsageError, match="folds"):
        fold_bags(bags, 11)


def test_scores_are_unbiased_for_the_error_of_rows(rng):
    """Cross-validation over bags against the held-out rows' own responses, which it never sees."""
    x = rng.normal(size=(4000, 40))
    theta = rng.normal(size=40) / np.sqrt(40)
    y = x @ theta + rng.normal(size=4000)
    bags = Bags.random(4000, 5, from_seed(3))
    grid = {"rhos": [0.0, 0.2, 1.0], "ridges": [1e-3, 0.3], "random_state": 1}
    chosen = AggregateCV(**grid).fit(x, bags, bags.means(y))
    folds = fold_bags(bags, 5, from_seed(1))[bags.labels[:, 0]]
    for i, rho in enumerate(grid["rhos"]):
        for j, ridge in enumerate(grid["ridges"]):
            error = 0.0
            for fold in range(5):
                rows = folds != fold
                kept = Bags.given(bags.labels[rows, 0])
                model = AggregateRegressor(rho=rho, ridge=ridge).fit(
                    x[rows], kept, kept.means(y[rows])
                )
                error += ((y[~rows] - model.predict(x[~rows])) ** 2).sum() / 4000
            assert chosen.scores_[i, j] == pytest.approx(error, rel=0.12)
    assert chosen.best_score_ == chosen.scores_.min()
    assert chosen.best_rho_ in grid["rhos"]
    assert chosen.score(x, y) == chosen.best_estimator_.score(x, y)


def test_both_ways_to_cross_validate_agree(rng):
    x = rng.normal(size=(200, 4))
    y = x @ np.arange(4.0) + rng.normal(size=200)
    bags = Bags.random(200, 4, from_seed(1))
    grid = {"rhos": [0.1, 1.0], "ridges": [0.01, 0.1], "random_state": 5}
    closed = AggregateCV(AggregateRegressor(), **grid).fit(x, bags, bags.means(y)).scores_
    prior = y.mean()
    general = AggregateCV(AggregateRegressor(loss="easyllp", prior=prior), **grid)
    general.fit(x, bags, bags.means(y))
    assert general.scores_.shape == (1, 2)
    from privagg.protocols.responses import selection

    target, folds = bags.means(y)[:, None], fold_bags(bags, 5, from_seed(5))
    slow = selection._general(
        x,
        bags,
        target,
        folds,
        AggregateRegressor(),
        np.array(grid["rhos"]),
        np.array(grid["ridges"]),
    )
    assert np.allclose(slow, closed)


def test_the_choice_needs_responses_and_candidates(rng):
    x, bags = rng.normal(size=(40, 2)), Bags.random(40, 4, from_seed(1))
    for model in (
        AggregateCV(Ridge()),
        AggregateCV(rhos=[]),
        AggregateCV(ridges=[-1.0]),
    ):
        with pytest.raises(UsageError):
            model.fit(x, bags, np.zeros(10))
    with pytest.raises(UsageError, match="responses"):
        AggregateCV().fit(x, bags)


def cancer_score(size, seed, model):
    x, y = load_breast_cancer(return_X_y=True)
    a, b, ya, yb = train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
    scale = StandardScaler().fit(a)
    bags = Bags.random(len(a), size, from_seed(seed))
    model.fit(scale.transform(a), bags, bags.means(ya))
    assert model.predict_proba(scale.transform(b)).shape == (len(b), 2)
    return model.score(scale.transform(b), yb)


@pytest.mark.parametrize(("size", "wanted"), [(5, 0.95), (10, 0.945), (20, 0.94)])
def test_breast_cancer_is_learnt_from_proportions(size, wanted):
    scores = [cancer_score(size, seed, AggregateClassifier()) for seed in range(4)]
    assert np.mean(scores) >= wanted


def test_breast_cancer_with_a_ridge_that_is_chosen_without_labels():
    grid = AggregateCV(AggregateClassifier(), ridges=[1e-3, 3e-2, 1.0], random_state=1, folds=4)
    assert cancer_score(5, 3, grid) >= 0.95
    assert grid.best_ridge_ < 1.0


@pytest.mark.sweep
@pytest.mark.parametrize(("size", "wanted"), [(5, 0.970), (10, 0.965), (20, 0.948)])
def test_breast_cancer_over_30_splits(size, wanted):
    scores = [cancer_score(size, seed, AggregateClassifier()) for seed in range(30)]
    assert np.mean(scores) >= wanted
