"""Estimators that learn from aggregate responses, after scikit-learn's conventions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.protocols.responses._sklearn import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    check_classification_targets,
    check_is_fitted,
    validate_data,
)
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.fitting import Fit, fit_family, statistics_of
from privagg.protocols.responses.losses import Binary, Categorical, Family, Poisson, Square
from privagg.protocols.responses.targets import as_bags, as_responses, easy_targets

__all__ = ["LOSSES", "AggregateClassifier", "AggregateRegressor"]

LOSSES = ("bag", "instance", "interpolate", "easyllp")

Reals = NDArray[np.float64]


class _Aggregate(BaseEstimator):  # type: ignore[misc]
    """What regressors and classifiers share: parameters, checks, the fit."""

    def _solve(self, family: Family, x: Any, bags: Bags, target: Reals) -> Fit:
        """Fit one family to the bags' mean responses."""
        rho = self._rho()
        ridge = _not_negative("ridge", self.ridge)
        if self.loss == "easyllp":
            prior = bags.sizes @ target / bags.sizes.sum() if self.prior is None else self.prior
            target = easy_targets(target, bags.sizes, np.asarray(prior, np.float64).reshape(-1))
            if ridge == 0 and not isinstance(family, Square):
                raise UsageError(
                    "ridge", ridge, "above 0 with EasyLLP", "Its loss may have no minimum without."
                )
        if isinstance(family, Square):
            statistics = statistics_of(x, bags, target)
            return Fit(statistics.path(rho, [ridge], self.fit_intercept)[0], 1, float("nan"))
        return fit_family(
            family,
            x,
            bags,
            target,
            rho=rho,
            ridge=ridge,
            intercept=self.fit_intercept,
            max_iter=self.max_iter,
            tolerance=self.tol,
        )

    def _rho(self) -> float:
        """Return the interpolation that the loss stands for."""
        if self.loss not in LOSSES:
            raise UsageError("loss", self.loss, f"one of {', '.join(LOSSES)}")
        if self.loss == "bag":
            return 0.0
        return _not_negative("rho", self.rho) if self.loss == "interpolate" else 1.0

    def _take(self, x: Any, bags: Any, reset: bool = True) -> tuple[Any, Bags]:
        checked = validate_data(
            self, x, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        return checked, as_bags(bags, checked.shape[0])

    def _store(self, fit: Fit) -> None:
        self.coef_ = fit.solution.coefficients.T
        self.intercept_ = fit.solution.intercept
        self.n_iter_ = fit.iterations
        self.loss_ = fit.loss

    def _linear(self, x: Any) -> Reals:
        check_is_fitted(self)
        checked = validate_data(
            self, x, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        found: Reals = np.asarray(checked @ np.atleast_2d(self.coef_).T) + self.intercept_
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = True
        tags.target_tags.positive_only = getattr(self, "family", "") == "poisson"
        return tags


class AggregateRegressor(RegressorMixin, _Aggregate):  # type: ignore[misc]
    """A linear model from the mean (or summed) responses of bags.

    Parameters
    ----------
    loss : {"bag", "instance", "interpolate", "easyllp"}
        Bag level, instance level, ``(1 - rho)`` of the one and ``rho`` of the other, or instance
        level on debiased targets.
    rho : float
        For ``interpolate``, not below 0; above 1 is sometimes best with the square loss.
    ridge : float
        The penalty, not below 0: ``ridge |t|^2 / 2`` beside the mean loss of a row, which for the
        square loss is half the squared error.
    family : {"square", "poisson"}
        Squared error of a linear mean, in closed form; or counts with a logarithmic link.
    aggregate : {"mean", "sum"}
        What the responses are.
    prior : float, optional
        For ``easyllp``: the mean response of all rows. It must be public or come from the released
        responses, as it does unless given.
    fit_intercept : bool
    max_iter : int
    tol : float
        For the families without a closed form.

    Attributes
    ----------
    coef_ : (p,) array
    intercept_ : (1,) array
    n_features_in_, n_iter_ : int
    loss_ : float
        The objective; NaN for a closed form.

    Notes
    -----
    What is learnt from a release has the guarantee of the release: fitting is post-processing.
    Source: Javanmard et al., ICLR 2024 (arXiv 2401.11081); EasyLLP: Busa-Fekete et al., NeurIPS
    2023 (arXiv 2302.03115).
    """

    def __init__(
        self,
        *,
        loss: str = "interpolate",
        rho: float = 0.2,
        ridge: float = 1e-3,
        family: str = "square",
        aggregate: str = "mean",
        prior: float | None = None,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-7,
    ) -> None:
        self.loss = loss
        self.rho = rho
        self.ridge = ridge
        self.family = family
        self.aggregate = aggregate
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, bags: Any, responses: Any = None) -> AggregateRegressor:  # noqa: N803
        """Fit to the bags' responses.

        Parameters
        ----------
        X : (n, p) array or sparse matrix
        bags : Bags, or (n,) column of ids
            Without `responses`: the rows' own responses, each row a bag by itself.
        responses : mapping by bag id, or (m,) array in the order of the sorted ids
            What was released.

        Returns
        -------
        self

        Raises
        ------
        UsageError
            If a row has no bag, a bag no response, or an argument is not allowed.
        """
        families: dict[str, type[Family]] = {"square": Square, "poisson": Poisson}
        if self.family not in families:
            raise UsageError("family", self.family, "'square' or 'poisson'")
        family = families[self.family]()
        if responses is None:
            x, y = validate_data(
                self,
                X,
                bags,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                y_numeric=True,
            )
            found, target = Bags.given(np.arange(x.shape[0])), np.asarray(y, float).reshape(-1, 1)
        else:
            x, found = self._take(X, bags)
            target = as_responses(responses, found, self.aggregate)
        if target.shape[1] != 1:
            raise UsageError("responses", f"{target.shape[1]} columns", "one response a bag")
        if isinstance(family, Poisson) and self.loss != "easyllp" and (target < 0).any():
            raise UsageError(
                "responses",
                float(target.min()),
                "not below 0 for counts",
                "Of noisy counts, fit the square loss.",
            )
        self._store(self._solve(family, x, found, target))
        self.coef_ = self.coef_[0]
        return self

    def predict(self, X: Any) -> Reals:  # noqa: N803
        """Return the mean responses of rows; (n,).

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        """
        linear = self._linear(X)
        if self.family == "poisson":
            linear = Poisson().mean(linear)
        return linear[:, 0]


class AggregateClassifier(ClassifierMixin, _Aggregate):  # type: ignore[misc]
    """A (multinomial) logistic model from the class proportions of bags.

    Parameters
    ----------
    loss, rho, ridge, aggregate, fit_intercept, max_iter, tol
        As for :class:`AggregateRegressor`; ``interpolate`` between the cross-entropies of the
        bags' mean probabilities and of single rows. With ``aggregate="sum"`` the responses are
        counts of each class (of class 1 where there are two).
    prior : (c,) array or float, optional
        For ``easyllp``: the classes' shares in all rows.
    classes : sequence, optional
        The classes' names, in the order of the responses' columns; 0, 1, ... unless given.

    Attributes
    ----------
    classes_ : (c,) array
    coef_ : (1, p) or (c, p) array
    intercept_ : (1,) or (c,) array
    n_features_in_, n_iter_ : int
    loss_ : float

    Notes
    -----
    What is learnt from a release has the guarantee of the release. Proportions outside [0, 1],
    which noise makes, are refused by the cross-entropy at bag level; ``loss="instance"`` and
    ``"easyllp"`` take them.
    """

    def __init__(
        self,
        *,
        loss: str = "bag",
        rho: float = 0.1,
        ridge: float = 1e-3,
        aggregate: str = "mean",
        prior: Any = None,
        classes: Any = None,
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-7,
    ) -> None:
        self.loss = loss
        self.rho = rho
        self.ridge = ridge
        self.aggregate = aggregate
        self.prior = prior
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, bags: Any, responses: Any = None) -> AggregateClassifier:  # noqa: N803
        """Fit to the bags' proportions.

        Parameters
        ----------
        X : (n, p) array or sparse matrix
        bags : Bags, or (n,) column of ids
            Without `responses`: the rows' own classes, each row a bag by itself.
        responses : mapping by bag id, or array in the order of the sorted ids
            (m,) shares of class 1, or (m, c) shares of each class.

        Returns
        -------
        self

        Raises
        ------
        UsageError
            If a row has no bag, a bag no response, or a proportion is outside [0, 1].
        """
        if responses is None:
            x, found, target = self._of_rows(X, bags)
        else:
            x, found = self._take(X, bags)
            target = as_responses(responses, found, self.aggregate)
            columns = max(target.shape[1], 2)
            names = np.arange(columns) if self.classes is None else np.asarray(self.classes)
            if names.ndim != 1 or names.size != columns:
                raise UsageError("classes", f"shape {names.shape}", f"{columns} names")
            self.classes_ = names
        self._check(target)
        if target.shape[1] == 2:  # Two classes need one logit.
            target = target[:, 1:]
        family = Binary() if target.shape[1] == 1 else Categorical()
        self._store(self._solve(family, x, found, target))
        return self

    def decision_function(self, X: Any) -> Reals:  # noqa: N803
        """Return the logits: (n,) of the second of two classes, else (n, c).

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        """
        linear = self._linear(X)
        return linear[:, 0] if linear.shape[1] == 1 else linear

    def predict_proba(self, X: Any) -> Reals:  # noqa: N803
        """Return the probabilities of the classes; (n, c).

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        """
        linear = self._linear(X)
        if linear.shape[1] == 1:
            second = Binary().mean(linear)
            return np.hstack([1 - second, second])
        return Categorical().mean(linear)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row.

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.

        Returns
        -------
        (n,) array
        """
        numbers = np.argmax(self.predict_proba(X), axis=1)
        found: NDArray[Any] = self.classes_[numbers]
        return found

    def _of_rows(self, x: Any, y: Any) -> tuple[Any, Bags, Reals]:
        """Take each row as a bag by itself, with its class."""
        x, y = validate_data(self, x, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise UsageError("bags", "one class", "at least two classes in the rows")
        return x, Bags.given(np.arange(x.shape[0])), np.eye(self.classes_.size)[numbers]

    def _check(self, target: Reals) -> None:
        outside = (target < 0) | (target > 1)
        if outside.any() and self.loss in ("bag", "interpolate"):
            raise UsageError(
                "responses",
                f"{int(outside.any(axis=1).sum())} bags with a proportion outside [0, 1]",
                "proportions from 0 to 1 at bag level",
                "Give counts with aggregate='sum', clip noisy ones yourself, or take "
                "loss='instance' or 'easyllp'.",
            )
        total = target.sum(axis=1)
        if target.shape[1] > 1 and self.loss != "easyllp" and np.abs(total - 1).max() > 1e-6:
            raise UsageError(
                "responses",
                f"proportions that add up to {total[np.abs(total - 1).argmax()]:.4g}",
                "1 in every bag",
            )


def _not_negative(name: str, value: Any) -> float:
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not 0 <= value < float("inf"):
        raise UsageError(name, value, "a finite number, not below 0")
    return float(value)
