"""Click models from tables: what can be learnt without any labelled display.

- :class:`AggregateLogistic`: a logistic model over the tables' cells, whose expected clicks in each
  cell are made to agree with the tables, the expectation taken over displays without labels.
- :class:`NaiveBayes`: from the tables of single features alone.
- :class:`Boosting`: gradient boosting on the cells' smoothed click rates; needs labelled displays.

The families are those that did best in the AdKDD'21 challenge, as described by Diemert et al.,
"Lessons from the AdKDD'21 Privacy-Preserving ML Challenge" (arXiv 2201.13123).
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.protocols.responses.report_tables import Layout, Tables, check_tables

__all__ = [
    "AggregateLogistic",
    "Boosting",
    "NaiveBayes",
    "check_fitted",
    "click_chance",
    "nllh",
    "positive",
    "sigmoid",
]

Reals = NDArray[np.float64]


def nllh(labels: Any, probability: Any) -> float:
    """Return the normalised log-likelihood: 1 minus the log loss over that of the mean label.

    0 is what the mean label alone reaches, 1 is perfect; it may be negative.

    Parameters
    ----------
    labels : (n,) array of 0 and 1
        Whether each was clicked.
    probability : (n,) array of floats
        What was predicted.

    Raises
    ------
    UsageError
        If the labels are all alike, or a probability is not between 0 and 1.
    """
    try:
        y, p = np.asarray(labels, np.float64), np.asarray(probability, np.float64)
    except (TypeError, ValueError):
        raise UsageError("labels, probability", "no numbers", "one of each a display") from None
    if y.shape != p.shape or y.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise UsageError("probability", f"shape {p.shape}", "one from 0 to 1 for each label")
    if not np.isin(y, (0, 1)).all():
        raise UsageError("labels", "others", "0 and 1")
    if not y.any() or y.all():
        raise UsageError("labels", "all alike", "both labels")
    mean = y.mean()
    entropy = -(mean * np.log(mean) + (1 - mean) * np.log1p(-mean))
    q = np.clip(p, 1e-15, 1 - 1e-15)
    return float(1 + (y * np.log(q) + (1 - y) * np.log1p(-q)).mean() / entropy)


class AggregateLogistic:
    """Logistic regression on the cells, from the tables and displays without labels.

    It minimises ``(N / n) sum_i log(1 + e^(w.K(x_i) + b)) - w.C + ridge |w|^2 / 2`` over n
    displays, where K marks a display's cells, C are the clicks that these displays would have in
    each cell at the cell's smoothed rate, and N the displays the tables count. With the tables' own
    displays, and without smoothing, it is logistic regression.

    Parameters
    ----------
    ridge : float
        The penalty, above 0. With noise of standard deviation s on C, about s^2 / Var(w).
    prior : float
        How many displays of the mean rate are added to each cell.
    iterations : int

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, ridge: float = 400.0, prior: float = 5.0, iterations: int = 200) -> None:
        self.ridge = positive("ridge", ridge)
        self.prior = positive("prior", prior)
        self.iterations = whole("iterations", iterations, 1, 10**6)

    def fit(self, tables: Tables, codes: Any) -> AggregateLogistic:
        """Fit to tables, with the features of displays that need not be those of the tables.

        Parameters
        ----------
        tables : Tables
            The released tables.
        codes : (n, f) array of integers
            Features of the displays.

        Returns
        -------
        itself
            Fitted.

        Raises
        ------
        UsageError
            If scipy is not installed, there are no displays, or the tables count none, or all or
            none of theirs are clicked.
        """
        from privagg.protocols.responses.fitting import _scipy_optimize

        optimize = _scipy_optimize()
        share = check_tables(tables).share()
        index = _kept(tables, codes)
        rows = index.shape[0]
        if not rows:
            raise UsageError("codes", "no displays", "at least one")
        cells = tables.layout.cells
        scale = tables.total / rows
        self.layout = tables.layout
        self.bias = float(np.log(share / (1 - share)))
        rate = _rates(tables, self.prior)
        # What the cell's displays among these would have clicked, at the cell's rate: the sample
        # has more or fewer of them than the tables, and the comparison is of rates.
        here = scale * np.bincount(index.ravel(), minlength=cells + 1)[:cells]
        clicks = here * rate

        def objective(w: Reals) -> tuple[float, Reals]:
            padded = np.append(w, 0.0)
            z = padded[index].sum(axis=1) + self.bias
            p = sigmoid(z)
            predicted = np.zeros(cells + 1)
            for column in index.T:
                predicted += np.bincount(column, p, minlength=cells + 1)
            value = scale * float(np.logaddexp(0, z).sum()) - float(w @ clicks)
            gradient = scale * predicted[:cells] - clicks + self.ridge * w
            return value + self.ridge / 2 * float(w @ w), gradient

        found = optimize.minimize(
            objective,
            np.zeros(cells),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.iterations, "ftol": 1e-9},
        )
        self.weights = np.append(np.where(tables.kept, found.x, 0.0), 0.0)
        return self

    def predict(self, codes: Any) -> Reals:
        """Return the probability of a click for each display.

        Parameters
        ----------
        codes : (n, f) array of integers
            Features of the displays.
        """
        check_fitted(self)
        return click_chance(self, self.weights, codes)


class NaiveBayes:
    """Log odds added up over the single features, with smoothed rates.

    Parameters
    ----------
    prior : float
        How many displays of the mean rate are added to each cell.
    """

    def __init__(self, prior: float = 50.0) -> None:
        self.prior = positive("prior", prior)

    def fit(self, tables: Tables) -> NaiveBayes:
        """Fit to the tables of single features.

        Returns
        -------
        itself
            Fitted.
        """
        mean = check_tables(tables).share()
        self.layout = Layout(tables.layout.cardinalities, pairs=False)
        cells = self.layout.cells
        rate = _rates(tables, self.prior)[:cells]
        self.bias = float(np.log(mean / (1 - mean)))
        self.weights = np.log(rate / (1 - rate)) - self.bias
        return self

    def predict(self, codes: Any) -> Reals:
        """Return the probability of a click for each display.

        Parameters
        ----------
        codes : (n, f) array of integers
            Features of the displays.
        """
        check_fitted(self)
        return click_chance(self, self.weights, codes)


class Boosting:
    """Gradient boosting on the smoothed click rates of a display's cells.

    Parameters
    ----------
    prior : float
        How many displays of the mean rate are added to each cell.
    seed : int
        Of scikit-learn's histogram gradient boosting, which stops early by a fifth of the rows.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, prior: float = 50.0, seed: int = 0) -> None:
        self.prior = positive("prior", prior)
        self.seed = whole("seed", seed, 0, 2**32 - 1)

    def fit(self, tables: Tables, codes: Any, labels: Any) -> Boosting:
        """Fit to tables and a few labelled displays.

        Parameters
        ----------
        tables : Tables
            The released tables.
        codes : (n, f) array of integers
            Features of the displays.
        labels : (n,) array of 0 and 1
            Whether each was clicked.

        Returns
        -------
        itself
            Fitted.

        Raises
        ------
        UsageError
            If scikit-learn is not installed.
        """
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier
        except ImportError:
            raise UsageError(
                "Boosting",
                "no scikit-learn",
                "the extra 'responses'",
                "pip install 'privagg[responses]'",
            ) from None

        y = np.asarray(labels)
        if y.ndim != 1 or not np.array_equal(np.unique(y), (0, 1)):
            raise UsageError("labels", "others", "0 and 1, and both of them")
        self.layout = check_tables(tables).layout
        rate = _rates(tables, self.prior)
        self.encoding = np.log(rate / (1 - rate))
        self.model = HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=200,
            max_leaf_nodes=8,
            min_samples_leaf=40,
            l2_regularization=10.0,
            early_stopping=True,
            validation_fraction=0.2,
            random_state=self.seed,
        )
        self.model.fit(self._encoded(codes), y)
        return self

    def predict(self, codes: Any) -> Reals:
        """Return the probability of a click for each display.

        Parameters
        ----------
        codes : (n, f) array of integers
            Features of the displays.
        """
        check_fitted(self)
        found: Reals = self.model.predict_proba(self._encoded(codes))[:, 1]
        return found

    def _encoded(self, codes: Any) -> Reals:
        found: Reals = self.encoding[self.layout.index(codes)]
        return found


def check_fitted(model: Any) -> None:
    """Refuse to predict before :meth:`fit`.

    Parameters
    ----------
    model : object
        A learner.

    Raises
    ------
    UsageError
        If it is not fitted.
    """
    if not hasattr(model, "layout"):
        raise UsageError("predict", "a model without fit", "fit(tables, ...) first")


def sigmoid(z: Reals) -> Reals:
    """Return ``1 / (1 + e**-z)``, which does not overflow as it is computed here.

    Parameters
    ----------
    z : float64 array of any shape
        Log odds.

    Returns
    -------
    float64 array of that shape
    """
    found: Reals = 0.5 * (1 + np.tanh(0.5 * z))
    return found


def click_chance(model: Any, weights: Reals, codes: Any) -> Reals:
    """Return the probability of a click for each display, of a model that is logistic in cells.

    Parameters
    ----------
    model : object
        A fitted learner with a `layout` and a `bias`.
    weights : (cells,) float64 array
        Of each cell; there may be one more for cells that the report lacks.
    codes : (n, f) array of integers
        Features of the displays.

    Returns
    -------
    (n,) float64 array
    """
    found: Reals = weights[model.layout.index(codes)].sum(axis=1) + model.bias
    return sigmoid(found)


def positive(name: str, value: Any, or_zero: bool = False) -> float:
    """Return a finite number above 0, or from 0.

    Parameters
    ----------
    name : str
        What to call it in errors.
    value : number
        What was given.
    or_zero : bool
        Whether 0 is allowed.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not (0 < value < math.inf or (or_zero and value == 0)):
        raise UsageError(name, value, "a finite number, " + ("from 0" if or_zero else "above 0"))
    return float(value)


def _kept(tables: Tables, codes: Any) -> NDArray[np.int32]:
    """Return the cells of each display; all that the report lacks are one more cell."""
    index = tables.layout.index(codes)
    return np.where(tables.kept[index], index, tables.layout.cells).astype(np.int32)


def _rates(tables: Tables, prior: float) -> Reals:
    """Return each cell's smoothed click rate; the mean rate where the report lacks it."""
    mean = tables.share()
    displays = np.where(tables.kept, np.maximum(tables.displays, 0), 0.0)
    clicks = np.where(tables.kept, np.clip(tables.clicks, 0, displays), 0.0)
    found: Reals = np.clip((clicks + prior * mean) / (displays + prior), 1e-6, 1 - 1e-6)
    return found
