"""Choosing rho and ridge from the released responses alone: cross-validation over bags.

For random bags the residuals of a bag's rows are independent, so ``k (mean response - mean
prediction)^2`` of a bag that was not used to fit is unbiased for the mean squared residual of a
single row, up to ``k`` times the square of the mean residual. No instance's response is needed, and
a release's noise adds the same to every candidate. Of classifiers the squared residual is Brier's
score.

It needs random bags: in sorted bags residuals are alike, and the score misleads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._shuffle import shuffle
from privagg._validate import whole
from privagg.entropy import OS, Entropy, from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.responses._sklearn import BaseEstimator, check_is_fitted, clone
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.estimators import (
    AggregateClassifier,
    AggregateRegressor,
)
from privagg.protocols.responses.fitting import statistics_of
from privagg.protocols.responses.statistics import Statistics
from privagg.protocols.responses.targets import as_bags, as_responses

__all__ = ["AggregateCV", "fold_bags"]

Reals = NDArray[np.float64]

_RHOS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0)
_RIDGES = tuple(10.0**power for power in (-5, -4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0))


def fold_bags(bags: Bags, folds: int, entropy: Entropy = OS) -> NDArray[np.int32]:
    """Return a fold for each bag, at random and of equal sizes; (m,).

    Parameters
    ----------
    bags : Bags, or (n,) column of ids
        Which rows are in a bag.
    folds : int
        How many.
    entropy : Entropy
        Where randomness comes from: the operating system, unless it is to be repeatable.

    Raises
    ------
    UsageError
        If there are fewer bags than folds, or bags overlap: a row's response would be in both
        parts.
    """
    if not bags.disjoint:
        raise UsageError("bags", "overlapping bags", "disjoint ones for cross-validation")
    count = whole("folds", folds, 2, 1000)
    if bags.count < 2 * count:
        raise UsageError("folds", count, f"at most half of the {bags.count} bags")
    found = (np.arange(bags.count) % count).astype(np.int32)
    shuffle(found, Draws(entropy).words32)
    return found


class AggregateCV(BaseEstimator):  # type: ignore[misc]
    """An estimator with rho and ridge chosen by unbiased cross-validation over bags.

    Parameters
    ----------
    estimator : AggregateRegressor or AggregateClassifier
        Its other parameters are kept. Where its loss is not ``interpolate``, only the ridge is
        chosen.
    rhos, ridges : sequence of float, optional
        The candidates; the defaults run from 0 to 4 and from 1e-5 to 1.
    folds : int
        From 2.
    random_state : int, optional
        Makes the folds repeatable. They are no secret.

    Attributes
    ----------
    best_estimator_ : the estimator, fitted to all bags
    best_rho_, best_ridge_, best_score_ : float
    scores_ : (rhos, ridges) array
        The mean squared residual of a row, estimated; in squared units of the response.

    Notes
    -----
    Choosing is post-processing of the release too: it costs no privacy.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        rhos: Sequence[float] | None = None,
        ridges: Sequence[float] | None = None,
        folds: int = 5,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.rhos = rhos
        self.ridges = ridges
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, bags: Any, responses: Any = None) -> AggregateCV:  # noqa: N803
        """Choose, and fit to all bags; arguments as of the estimator.

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        bags : Bags, or (n,) column of ids
            As for the estimator.
        responses : mapping or array
            As for the estimator.

        Returns
        -------
        itself
            Fitted.

        Raises
        ------
        UsageError
            As the estimator's, or if there are too few bags, or they overlap.
        """
        base = AggregateRegressor() if self.estimator is None else self.estimator
        if not isinstance(base, AggregateRegressor | AggregateClassifier):
            raise UsageError(
                "estimator", type(base).__name__, "an AggregateRegressor or AggregateClassifier"
            )
        rhos = np.array(_RHOS if self.rhos is None else self.rhos, float)
        if base.loss != "interpolate":
            rhos = np.array([base.rho], float)
        ridges = np.array(_RIDGES if self.ridges is None else self.ridges, float)
        if not rhos.size or not ridges.size or not (rhos >= 0).all() or not (ridges >= 0).all():
            raise UsageError("rhos, ridges", "an empty or negative grid", "numbers not below 0")
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if responses is None:
            raise UsageError("responses", None, "the bags' responses: there is nothing to choose")
        found = as_bags(bags, rows)
        entropy = OS if self.random_state is None else from_seed(self.random_state)
        folds = fold_bags(found, self.folds, entropy)
        target = as_responses(responses, found, base.aggregate)
        closed = isinstance(base, AggregateRegressor) and base.family == "square"
        if closed and base.loss in ("bag", "instance", "interpolate"):
            scores = _closed(np.asarray(X, float), found, target, folds, base, rhos, ridges)
        else:
            scores = _general(X, found, target, folds, base, rhos, ridges)
        at = np.unravel_index(int(np.argmin(scores)), scores.shape)
        self.scores_ = scores
        self.best_score_ = float(scores[at])
        self.best_rho_, self.best_ridge_ = float(rhos[at[0]]), float(ridges[at[1]])
        self.best_estimator_ = _like(base, self.best_rho_, self.best_ridge_)
        self.best_estimator_.fit(X, found, responses)
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the chosen estimator's predictions.

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.

        Returns
        -------
        (n,) array
        """
        check_is_fitted(self, "best_estimator_")
        found: NDArray[Any] = self.best_estimator_.predict(X)
        return found

    def predict_proba(self, X: Any) -> Reals:  # noqa: N803
        """Return the chosen classifier's probabilities.

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        """
        check_is_fitted(self, "best_estimator_")
        found: Reals = self.best_estimator_.predict_proba(X)
        return found

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the chosen estimator's score on rows with their own responses.

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        y : (n,) column
            Responses of those rows.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))


def _like(base: Any, rho: float, ridge: float) -> Any:
    return clone(base).set_params(rho=rho, ridge=ridge)


def _closed(
    x: Reals,
    bags: Bags,
    target: Reals,
    folds: NDArray[np.int32],
    base: Any,
    rhos: Reals,
    ridges: Reals,
) -> Reals:
    """Score all candidates from the folds' statistics: one pass over the data."""
    pieces = []
    for fold in range(int(folds.max()) + 1):
        rows = folds[bags.labels[:, 0]] == fold
        inside = Bags.given(bags.labels[rows, 0])
        pieces.append(statistics_of(x[rows], inside, target[np.unique(bags.labels[rows, 0])]))
    whole_sum: Statistics = sum(pieces[1:], pieces[0])
    fixed = {"bag": 0.0, "instance": 1.0}
    scores = np.zeros((rhos.size, ridges.size))
    for held_out in pieces:
        rest = whole_sum - held_out
        for i, rho in enumerate(rhos):
            solutions = rest.path(fixed.get(base.loss, float(rho)), ridges, base.fit_intercept)
            for j, solution in enumerate(solutions):
                scores[i, j] += held_out.bag_loss(solution)[0] * held_out.bags / bags.count
    return scores


def _general(
    x: Any,
    bags: Bags,
    target: Reals,
    folds: NDArray[np.int32],
    base: Any,
    rhos: Reals,
    ridges: Reals,
) -> Reals:
    """Score all candidates by fitting each to the bags outside each fold."""
    of_rows = folds[bags.labels[:, 0]]
    sizes = bags.sizes
    scores = np.zeros((rhos.size, ridges.size))
    for fold in range(int(folds.max()) + 1):
        inside = of_rows != fold
        kept = Bags.given(bags.labels[inside, 0])
        given = target[np.unique(bags.labels[inside, 0])]
        out = np.flatnonzero(folds == fold)
        places = bags.labels[~inside, 0]
        for i, rho in enumerate(rhos):
            for j, ridge in enumerate(ridges):
                model = _like(base, float(rho), float(ridge)).set_params(aggregate="mean")
                model.fit(x[inside], kept, given)
                predicted = _means_of(model, x[~inside])
                sums = np.stack(
                    [np.bincount(places, c, minlength=bags.count) for c in predicted.T], axis=1
                )
                error = target[out] - (sums[out] / sizes[out, None])[:, -target.shape[1] :]
                scores[i, j] += float((sizes[out, None] * error**2).sum()) / bags.count
    return scores


def _means_of(model: Any, x: Any) -> Reals:
    """Return the mean responses of rows, one column for each response."""
    if hasattr(model, "predict_proba"):
        found: Reals = model.predict_proba(x)
        return found
    return np.asarray(model.predict(x), np.float64).reshape(-1, 1)
