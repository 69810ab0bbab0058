"""A release and what is learnt from it, from start to end, with the truth at hand to compare."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._shuffle import shuffle
from privagg._validate import whole
from privagg.entropy import Entropy, from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import PaidRange
from privagg.protocols.responses.curator import Curator
from privagg.protocols.responses.estimators import (
    LOSSES,
    AggregateClassifier,
    AggregateRegressor,
)
from privagg.protocols.responses.fitting import NotConverged
from privagg.protocols.responses.params import Release
from privagg.protocols.responses.result import Released
from privagg.protocols.responses.selection import AggregateCV
from privagg.protocols.responses.tabular import design, target_of

__all__ = ["MODELS", "Outcome", "Setting", "simulate"]

Reals = NDArray[np.float64]

MODELS = ("auto", "linear", "logistic")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is simulated.

    Parameters
    ----------
    bag_size : int
    loss : str
        Of :data:`~privagg.protocols.responses.estimators.LOSSES`.
    rho, ridge : float or None
        None: chosen by cross-validation over bags, from the release alone.
    epsilon, delta : float
        As of :class:`~privagg.protocols.responses.params.Release`.
    clip : (float, float), PaidRange or None
        For responses that are numbers and have epsilon.
    model : str
        Of :data:`MODELS`. ``linear`` learns classes by least squares on their indicators, which
        noise leaves unbiased; ``logistic`` by cross-entropy; ``auto`` is linear for numbers, and
        for classes linear where there is noise.
    test : float
        The part of rows that are held out.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    bag_size: int
    loss: str = "interpolate"
    rho: float | None = None
    ridge: float | None = None
    epsilon: float | None = None
    delta: float = 0.0
    clip: tuple[float, float] | PaidRange | None = None
    model: str = "auto"
    test: float = 0.3

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise UsageError("loss", self.loss, f"one of {', '.join(LOSSES)}")
        if self.model not in MODELS:
            raise UsageError("model", self.model, f"one of {', '.join(MODELS)}")
        if not 0 < self.test < 1:
            raise UsageError("test", self.test, "above 0 and below 1")
        if self.rho is not None and self.loss != "interpolate":
            raise UsageError("rho", self.rho, "none but with loss 'interpolate'")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it; errors are on held-out rows.

    Attributes
    ----------
    source, target, task : str
        The task is ``classes`` or ``numbers``.
    loss, model : str
    rho, ridge : float
        As used; rho is 0 for the bag level, 1 for the instance level and EasyLLP.
    chosen : tuple of str
        Which of these were chosen by cross-validation.
    bag_size, bags, train, test, features : int
    epsilon : float or None
    delta : float
    clip : (float, float) or None
    kappa, noise_variance : float
    outside : int
        Released proportions that were moved into [0, 1].
    test_error : float
        The part that is classified wrongly; of numbers the mean squared error over the variance.
    baseline_error : float
        Of the same model with every training row's own response and no privacy.
    trivial_error : float
        Of guessing the largest class, or the mean.
    row_level_error : float or None
        Of bags of 1 with the same guarantee; None without epsilon.
    seconds : dict
        CPU seconds of ``release`` and ``fit``.
    guarantee : str
    insecure : bool
    """

    source: str
    target: str
    task: str
    loss: str
    model: str
    rho: float
    ridge: float
    chosen: tuple[str, ...]
    bag_size: int
    bags: int
    train: int
    test: int
    features: int
    epsilon: float | None
    delta: float
    clip: tuple[float, float] | None
    kappa: float
    noise_variance: float
    outside: int
    test_error: float
    baseline_error: float
    trivial_error: float
    row_level_error: float | None
    seconds: dict[str, float]
    guarantee: str
    insecure: bool


def simulate(
    columns: Mapping[str, Any],
    target: str,
    setting: Setting,
    *,
    source: str = "a table",
    seed: int | None = None,
) -> Outcome:
    """Release the responses of a table's rows in random bags, learn from that, and compare.

    Parameters
    ----------
    columns : mapping of str to column
        Arrow columns or arrays, one of them the target; text is taken as classes.
    target : str
    setting : Setting
    source : str
        What the table is called.
    seed : int, optional
        Makes it repeatable, and the noise known.

    Returns
    -------
    Outcome

    Raises
    ------
    UsageError
        If a column cannot be used, or the setting does not fit the target.
    """
    y, classes = target_of(columns, target)
    x = design({name: column for name, column in columns.items() if name != target})
    n = y.size
    bag_size = whole("bag_size", setting.bag_size, 1, n)
    entropy = from_seed(seed)
    train, test = _split(n, setting.test, entropy)
    x = _standardised(x, train)
    bags = Bags.random(train.size, min(bag_size, train.size), entropy)
    one = _Run(x, y, train, test, classes, setting, seed)
    released, fitted, error, seconds = one.run(bags, entropy)
    row_level = None
    if setting.epsilon is not None and bag_size > 1:
        row_level = one.run(Bags.random(train.size, 1, entropy), entropy)[2]
    base, rho = fitted.model, 1.0
    if setting.loss == "bag":
        rho = 0.0
    elif setting.loss == "interpolate":
        rho = float(base.rho)
    return Outcome(
        source=source,
        target=target,
        task="classes" if classes else "numbers",
        loss=setting.loss,
        model=one.model,
        rho=rho,
        ridge=float(base.ridge),
        chosen=fitted.chosen,
        bag_size=bag_size,
        bags=bags.count,
        train=train.size,
        test=test.size,
        features=x.shape[1],
        epsilon=setting.epsilon,
        delta=setting.delta,
        clip=None if released.low is None else (released.low, float(released.high or 0.0)),
        kappa=released.kappa,
        noise_variance=released.noise_variance,
        outside=fitted.outside,
        test_error=error,
        baseline_error=one.baseline(float(base.ridge)),
        trivial_error=one.trivial(),
        row_level_error=row_level,
        seconds=seconds,
        guarantee=released.guarantee,
        insecure=released.insecure,
    )


@dataclass(frozen=True)
class _Fitted:
    model: Any
    chosen: tuple[str, ...]
    outside: int


class _Run:
    """One table, split; run it with any bags."""

    def __init__(
        self,
        x: Reals,
        y: NDArray[Any],
        train: NDArray[np.int64],
        test: NDArray[np.int64],
        classes: int,
        setting: Setting,
        seed: int | None,
    ) -> None:
        self._x, self._test_x = x[train], x[test]
        self._y, self._test_y = y[train], y[test]
        self._classes, self._setting, self._seed = classes, setting, seed
        linear = not classes or setting.epsilon is not None
        self.model = ("linear" if linear else "logistic") if setting.model == "auto" else ""
        self.model = self.model or setting.model
        if self.model == "logistic" and not classes:
            raise UsageError("model", "logistic", "linear for a target of numbers")
        if classes > 2 and self.model == "linear":
            self.model = "logistic"

    def run(
        self, bags: Bags, entropy: Entropy
    ) -> tuple[Released, _Fitted, float, dict[str, float]]:
        """Release, fit, and return the test error and CPU seconds."""
        setting = self._setting
        begin = time.process_time()
        wanted = Release(
            epsilon=setting.epsilon,
            delta=setting.delta,
            clip=None if self._classes else setting.clip,
            classes=self._classes,
        )
        released = Curator(wanted, bags, entropy.spawn(f"{bags.count} bags")).release(self._y)
        middle = time.process_time()
        fitted = self._fit(released)
        end = time.process_time()
        predicted = self._predict(fitted.model, released.kappa, released)
        return (
            released,
            fitted,
            self._error(predicted),
            {
                "release": middle - begin,
                "fit": end - middle,
            },
        )

    def baseline(self, ridge: float) -> float:
        """Return the error with every row's own response."""
        base = self._base(1e-3 if ridge > 1e-3 else ridge, 0.0)
        return self._error(self._plain(base.fit(self._x, self._y)))

    def trivial(self) -> float:
        """Return the error without features."""
        if self._classes:
            return float((self._test_y != np.bincount(self._y.astype(int)).argmax()).mean())
        return float(((self._test_y - self._y.mean()) ** 2).mean() / self._test_y.var())

    def _base(self, ridge: float, rho: float) -> Any:
        kind = AggregateRegressor if self.model == "linear" else AggregateClassifier
        return kind(loss=self._setting.loss, ridge=ridge, rho=rho)

    def _fit(self, released: Released) -> _Fitted:
        setting, values = self._setting, released.means
        outside = 0
        if self.model == "logistic" and setting.loss in ("bag", "interpolate"):
            inside = np.clip(values, 1e-3, 1 - 1e-3) if released.epsilon is not None else values
            outside = int(((values < 0) | (values > 1)).sum())
            values = inside / inside.sum(axis=1, keepdims=True) if inside.ndim == 2 else inside
        elif self.model == "logistic" and values.ndim == 2:
            values = values / values.sum(axis=1, keepdims=True)
        free_rho = setting.rho is None and setting.loss == "interpolate"
        chosen = tuple(
            name for name, free in (("rho", free_rho), ("ridge", setting.ridge is None)) if free
        )
        base = self._base(
            1e-3 if setting.ridge is None else setting.ridge,
            0.2 if setting.rho is None else setting.rho,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # Of candidates that are not chosen.
            if chosen and released.bags.count >= 10:
                search = AggregateCV(
                    base,
                    rhos=None if free_rho and self.model == "linear" else self._rhos(free_rho),
                    ridges=self._ridges(),
                    random_state=self._seed,
                )
                found = search.fit(self._x, released.bags, values).best_estimator_
            else:
                found = base.fit(self._x, released.bags, values)
        return _Fitted(found, chosen, outside)

    def _rhos(self, free: bool) -> list[float]:
        return [0.0, 0.2, 1.0] if free else [float(self._setting.rho or 0.0)]

    def _ridges(self) -> list[float] | None:
        ridge = self._setting.ridge
        if ridge is not None:
            return [ridge]
        return None if self.model == "linear" else [1e-4, 1e-3, 1e-2]

    def _predict(self, model: Any, kappa: float, released: Released) -> NDArray[Any]:
        if self._classes or self.model == "logistic":
            return self._plain(model)
        # What clipping took of the slope is given back around the mean.
        middle = float((released.means * released.bags.sizes).sum() / released.bags.rows)
        found: NDArray[Any] = middle + (model.predict(self._test_x) - middle) / kappa
        return found

    def _plain(self, model: Any) -> NDArray[Any]:
        found = model.predict(self._test_x)
        if self._classes and self.model == "linear":
            found = (found > 0.5).astype(np.int64)
        return np.asarray(found)

    def _error(self, predicted: NDArray[Any]) -> float:
        if self._classes:
            return float((predicted != self._test_y).mean())
        return float(((predicted - self._test_y) ** 2).mean() / self._test_y.var())


def _split(rows: int, part: float, entropy: Entropy) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.arange(rows, dtype=np.int64)
    shuffle(order, Draws(entropy).words32)
    held = round(part * rows)
    if not 0 < held < rows:
        raise UsageError("test", part, f"a part that leaves some of {rows} rows on either side")
    return order[held:], order[:held]


def _standardised(x: Reals, train: NDArray[np.int64]) -> Reals:
    """Return features with mean 0 and variance 1 over the training rows; they are public."""
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    found: Reals = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    return found
