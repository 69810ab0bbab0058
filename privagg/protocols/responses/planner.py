"""What can be learnt from bags, before anything is released: risks, and the best setting.

Here it is called :func:`forecast`, and :data:`plan` as in every protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privagg._validate import describe, whole
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.protocols.responses import private_theory
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.private_theory import Clipped, Optimum, noise_of, private_risk
from privagg.protocols.responses.theory import Moments, minimum, moments

__all__ = [
    "ESTIMATORS",
    "SIZES",
    "Curve",
    "Forecast",
    "Plan",
    "forecast",
    "plan",
    "simulated_moments",
]

ESTIMATORS = ("bag", "instance", "interpolated", "easyllp", "bag_ridge")

SIZES = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 100)
"""The bag sizes that are tried, unless others are asked for."""

RHOS = tuple(10.0 ** (power / 4) for power in range(-12, 5))

_TIE = 1e-3
"""Risks that differ by less, as a part, are called equal."""


@dataclass(frozen=True)
class Curve:
    """One estimator's risk along something.

    Attributes
    ----------
    name : str
    at, risk : tuple of float
        Infinite at a pole.
    simulated : tuple of float or None
        The same by Monte Carlo; empty where none was asked for.
    """

    name: str
    at: tuple[float, ...]
    risk: tuple[float, ...]
    simulated: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The forecast; risks are excess risks over the signal r^2.

    Attributes
    ----------
    samples, features : int
    psi, snr : float
    epsilon : float or None
    delta : float
    bag_size : int
        The one that `risk` is about: as asked for, or the best.
    risk : dict of str to float
        By estimator; NaN where it does not exist, infinite at a pole. Each with the best clip.
    best : Optimum
        The best size, rho, ridge and clip of all.
    row_level : Optimum
        The best with bags of one row: label differential privacy of each response.
    bagging_helps : bool
        Whether `best` beats `row_level`.
    by_size, by_rho : tuple of Curve
        Along the bag size; and along rho, without ridge, at `bag_size`.
    """

    samples: int
    features: int
    psi: float
    snr: float
    epsilon: float | None
    delta: float
    bag_size: int
    risk: dict[str, float]
    best: Optimum
    row_level: Optimum
    bagging_helps: bool
    by_size: tuple[Curve, ...]
    by_rho: tuple[Curve, ...]


def forecast(
    samples: int,
    features: int,
    snr: float,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    bag_size: int | None = None,
    sizes: Sequence[int] = SIZES,
    simulated_rows: int = 0,
    entropy: Entropy = OS,
) -> Forecast:
    """Forecast what learning from random bags of equal size gives.

    The closed forms are exact as samples and features grow with a fixed ratio, for independent
    Gaussian features (:mod:`privagg.protocols.responses.theory`).

    Parameters
    ----------
    samples, features : int
    snr : float
        The variance of the signal over that of the noise of a response.
    epsilon, delta : float
        Label differential privacy of the release; delta 0 is Laplace noise. None: exact means.
    bag_size : int, optional
        The only one, if given.
    sizes : sequence of int
        Those that are compared.
    simulated_rows : int
        Rows of a Monte Carlo run of the same ratio that `by_rho` gets beside theory; 0: none.
    entropy : Entropy
        Of that run.

    Returns
    -------
    Forecast

    Raises
    ------
    UsageError
        If an argument is out of its range.
    """
    n = whole("samples", samples, 1, 10**12)
    p = whole("features", features, 1, 10**9)
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        raise UsageError("sizes", describe(sizes), "a list of bag sizes")
    tried = sorted({size for size in (whole("sizes", k, 1, 10**6) for k in sizes) if size <= n})
    if not tried and bag_size is None:
        raise UsageError("sizes", "none", f"some bag size up to {n}")
    if bag_size is not None:
        tried = sorted({*tried, whole("bag_size", bag_size, 1, n)})
    _check(snr, epsilon, delta)
    psi = p / n
    settings = _Settings(psi, float(snr), epsilon, delta)
    plans = {size: settings.best(size) for size in {1, *tried}}
    row_level = plans[1]
    wanted = tried if bag_size is None else [bag_size]
    best = min((plans[size] for size in wanted), key=lambda plan: plan.risk)
    by_size = tuple(
        Curve(name, tuple(map(float, tried)), tuple(settings.risk(name, size) for size in tried))
        for name in ESTIMATORS
    )
    at = tried.index(best.size)
    by_rho: tuple[Curve, ...] = ()
    if psi < 1:
        by_rho = (settings.along_rho(best.size, simulated_rows, entropy),)
    return Forecast(
        samples=n,
        features=p,
        psi=psi,
        snr=float(snr),
        epsilon=epsilon,
        delta=delta,
        bag_size=best.size,
        risk={curve.name: curve.risk[at] for curve in by_size},
        best=best,
        row_level=row_level,
        bagging_helps=best.risk < row_level.risk * (1 - _TIE),
        by_size=by_size,
        by_rho=by_rho,
    )


@dataclass(frozen=True)
class _Settings:
    """What all risks of a forecast share."""

    psi: float
    snr: float
    epsilon: float | None
    delta: float

    def best(self, size: int) -> Optimum:
        """Return the best rho, ridge and clip; rho may be 0, which no logarithm reaches."""
        found = (
            private_theory.best(
                self.psi, self.snr, [size], epsilon=self.epsilon, delta=self.delta, rho=rho
            )
            for rho in (0.0, None)
        )
        return min(found, key=lambda plan: plan.risk)

    def risk(self, name: str, size: int) -> float:
        """Return an estimator's risk with the best clip; NaN where it does not exist."""
        psi, share = self.psi, 1 / size
        if name == "bag_ridge" or (name == "interpolated" and psi < 1):
            return private_theory.best(
                psi,
                self.snr,
                [size],
                epsilon=self.epsilon,
                delta=self.delta,
                rho=0.0 if name == "bag_ridge" else None,
                ridge=name == "bag_ridge",
            ).risk
        if name == "bag":
            return math.inf if psi == share else self._clipped(moments(psi, share, 0.0), size)[0]
        if psi >= 1:
            return math.nan
        found = moments(psi, share, 1.0)
        return self._clipped(found.scaled(size) if name == "easyllp" else found, size)[0]

    def along_rho(self, size: int, rows: int, entropy: Entropy) -> Curve:
        """Return the interpolated loss along rho, theory and Monte Carlo, each with its clip."""
        risks, simulated = [], []
        for rho in RHOS:
            risk, clip = self._clipped(moments(self.psi, 1 / size, rho), size)
            risks.append(risk)
            if rows:
                found = simulated_moments(self.psi, size, rho, rows=rows, entropy=entropy)
                simulated.append(self._private(found, size)(clip))
        return Curve("interpolated", RHOS, tuple(risks), tuple(simulated))

    def _clipped(self, found: Moments, size: int) -> tuple[float, float]:
        """Return the risk with the best clip, and that clip."""
        risk = self._private(found, size)
        if self.epsilon is None:
            return risk(math.inf), math.inf
        power, least = minimum(lambda x: risk(math.exp(x)), -3.0, 3.0, 17)
        return least, math.exp(power)

    def _private(self, found: Moments, size: int) -> Callable[[float], float]:
        def risk(clip: float) -> float:
            noise = 0.0
            if self.epsilon is not None:
                noise = noise_of(clip, self.epsilon, self.delta)
            return private_risk(found, Clipped.at(clip, self.snr), noise, size)

        return risk


def simulated_moments(
    psi: float, size: int, rho: float, ridge: float = 0.0, *, rows: int, entropy: Entropy = OS
) -> Moments:
    """Return what :func:`privagg.protocols.responses.theory.moments` says, of one drawn design.

    Coefficients and noise are averaged over exactly; only features and bags are drawn.

    Parameters
    ----------
    psi, rho, ridge : float
    size : int
    rows : int
        How many rows are drawn, from `size`.
    entropy : Entropy

    Raises
    ------
    UsageError
        If there are too few rows.
    """
    n = whole("rows", rows, max(size, 10), 20_000)
    generator = np.random.default_rng(int.from_bytes(entropy.take(16)))
    x = generator.normal(size=(n, max(1, round(psi * n))))
    bags = Bags.random(n, size, entropy)
    scaled = bags.sums(x) / np.sqrt(bags.sizes)[:, None]
    matrix = (1 - rho) * (scaled.T @ scaled) + rho * (x.T @ x) + n * ridge * np.eye(x.shape[1])
    estimator = np.linalg.pinv(matrix, rcond=1e-11, hermitian=True) @ scaled.T
    signal = estimator @ scaled
    p = x.shape[1]
    off = signal - np.eye(p)
    return Moments(
        float((off * off).sum()) / p,
        float((estimator * estimator).sum()),
        float(np.trace(signal)) / p,
    )


def _check(snr: float, epsilon: float | None, delta: float) -> None:
    for name, value, low, high in (
        ("snr", snr, 1e-9, 1e9),
        ("epsilon", 1.0 if epsilon is None else epsilon, 1e-3, 64),
        ("delta", delta, 0, 0.1),
    ):
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not low <= value <= high:
            raise UsageError(name, value, f"{low:g} to {high:g}")


Plan = Forecast
plan = forecast
"""The names of a protocol's plan, and of what makes it, in every package of protocols."""
