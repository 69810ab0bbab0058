"""Exact asymptotic risk of learning a linear model from the mean responses of bags.

Setting: n rows of p independent Gaussian features, responses ``y = <x, theta> + noise``, random
bags that do not depend on the features, p / n held at `psi` as both grow. With P the projection on
vectors that are constant within bags, the estimator is

    theta(rho, ridge) = (X'[P + rho (I - P)]X + n ridge I)^-1 X'P y,

the minimum of the bag-level loss (rho = 0), of the instance-level loss (rho = 1), and of what lies
between and beyond. The loss, its interpolation and the setting are those of Javanmard, Chen,
Mirrokni, Badanidiyuru and Fu, "Learning from Aggregate Responses: Instance Level versus Bag Level
Loss Functions", ICLR 2024 (arXiv 2401.11081); the closed form here is an equivalent derivation of
our own, in other symbols than their theorem.

Why it is short: P has rank ``a n``, and Gaussian features do not notice a rotation, so X'PX and
X'(I - P)X are independent Wishart matrices with ``a n`` and ``(1 - a) n`` degrees of freedom. Only
a counts. Hence the same formulas hold for bags of unequal sizes (a = bags / rows) and for
overlapping ones (a = rank / rows). Without a ridge the risk does not depend on the features'
covariance either; with one, features are independent with variance 1.

Risks are excess risks, the expected squared error of the prediction's mean for a new row, as a
multiple of the signal ``r^2 = Var(<x, theta>)``; `snr` is r^2 over the variance of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from privagg.errors import UsageError

__all__ = [
    "Moments",
    "bag_risk",
    "best_rho",
    "easyllp_risk",
    "instance_bag_size",
    "interpolated_risk",
    "moments",
    "ridge_risk",
]

_LOG_RHO = (-12.0, 12.0)
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Moments:
    """What an estimator makes of a signal of size 1 and of noise of variance 1.

    Attributes
    ----------
    bias : float
        The squared bias, as a multiple of r^2.
    variance : float
        As a multiple of the noise's variance.
    kept : float
        Which part of the signal is kept: ``E<estimate, theta> / r^2``.
    """

    bias: float
    variance: float
    kept: float

    def risk(self, snr: float) -> float:
        """Return the excess risk as a multiple of r^2.

        Parameters
        ----------
        snr : float
            Signal to noise: variance of the linear part over that of the rest.
        """
        return self.bias + self.variance / snr

    def scaled(self, factor: float) -> Moments:
        """Return those of the estimate times a factor.

        Parameters
        ----------
        factor : float
            What it is multiplied by.
        """
        power = self.bias - 1 + 2 * self.kept  # E|estimate|^2 / r^2 without noise
        bias = factor * factor * power - 2 * factor * self.kept + 1
        return Moments(bias, factor * factor * self.variance, factor * self.kept)


def moments(psi: float, share: float, rho: float, ridge: float = 0.0) -> Moments:
    """Return bias and variance of the interpolated estimator.

    Parameters
    ----------
    psi : float
        Features over rows, above 0.
    share : float
        Bags over rows, a: 1 over the bags' mean size; above 0, at most 1.
    rho : float
        From bag level (0) to instance level (1), and beyond.
    ridge : float
        The penalty's weight, as in the module's formula; 0 needs the matrix to be regular, or
        ``rho = 0``, where the solution of least norm is meant.

    Raises
    ------
    UsageError
        If an argument is out of its range, or the matrix is singular in the limit:
        ``psi = share`` at ``rho = ridge = 0``, or ``psi >= 1`` at ``rho > 0, ridge = 0``.
    """
    psi = _positive("psi", psi)
    a = _positive("share", share)
    if a > 1:
        raise UsageError("share", share, "above 0, at most 1")
    rho = _not_negative("rho", rho)
    ridge = _not_negative("ridge", ridge)
    b = 1 - a
    if ridge == 0 and (rho == 0 or b == 0):
        return _unregularised(psi, a)
    if ridge == 0 and psi >= 1:
        raise UsageError(
            "psi", psi, "below 1 without a ridge", "Give a ridge above 0: the matrix is singular."
        )
    q = _trace(psi, a, rho, ridge)
    slope = ridge + a / (1 + q) ** 2 + b * rho / (1 + rho * q) ** 2
    variance = a * q / (1 + q) ** 2 / slope
    outside = b * rho * q / (1 + rho * q) + ridge * q
    mixed = b * rho * (1 - rho * q * q) / ((1 + q) ** 2 * (1 + rho * q) ** 2)
    bias = (outside - (a * q / slope) * (mixed + ridge / (1 + q) ** 2)) / psi
    return Moments(bias, variance, a * q / (psi * (1 + q)))


def bag_risk(psi: float, share: float, snr: float) -> float:
    """Return the excess risk of the bag-level loss without ridge; least norm beyond its pole.

    It is infinite at the pole ``psi = share``, where there are as many features as bags.

    Raises
    ------
    UsageError
        As for :func:`moments`.
    """
    if _positive("psi", psi) == _positive("share", share):
        return math.inf
    return moments(psi, share, 0.0).risk(_positive("snr", snr))


def interpolated_risk(psi: float, share: float, snr: float, rho: float, ridge: float = 0) -> float:
    """Return the excess risk of the interpolated loss; the instance-level one at ``rho = 1``.

    Raises
    ------
    UsageError
        As for :func:`moments`.
    """
    return moments(psi, share, rho, ridge).risk(_positive("snr", snr))


def easyllp_risk(psi: float, share: float, snr: float) -> float:
    """Return the excess risk of EasyLLP: the instance-level estimate times the bags' size.

    Features and responses are centred, so that the class prior is known. Source: Busa-Fekete, Choi,
    Dick, Gentile, Munoz Medina, "Easy Learning from Label Proportions", NeurIPS 2023 (arXiv
    2302.03115), for the square loss.

    Raises
    ------
    UsageError
        As for :func:`moments`.
    """
    return moments(psi, share, 1.0).scaled(1 / share).risk(_positive("snr", snr))


def ridge_risk(psi: float, share: float, snr: float) -> tuple[float, float]:
    """Return the excess risk of the bag-level loss with the best ridge, and that ridge.

    For independent features and a coefficient vector without preferred direction the best ridge is
    ``psi / snr``: the posterior mean under a Gaussian prior.

    Raises
    ------
    UsageError
        As for :func:`moments`.
    """
    best = _positive("psi", psi) / _positive("snr", snr)
    return moments(psi, share, 0.0, best).risk(snr), best


def best_rho(
    psi: float, share: float, snr: float, ridge: float = 0.0, noise: float = 0.0
) -> tuple[float, float]:
    """Return the interpolation with the least excess risk, and that risk.

    Parameters
    ----------
    psi, share, snr, ridge : float
        As for :func:`moments` and :func:`interpolated_risk`.
    noise : float
        Variance added to the noise of a row, as a multiple of r^2: a release's noise, seen so.

    Notes
    -----
    The risk has one minimum over log rho in all cases tried; it is looked for on a grid from
    e^-12 to e^12, and by golden section around the grid's best.

    Raises
    ------
    UsageError
        As for :func:`moments`.
    """
    variance = 1 / _positive("snr", snr) + _not_negative("noise", noise)

    def risk(log_rho: float) -> float:
        found = moments(psi, share, math.exp(log_rho), ridge)
        return found.bias + found.variance * variance

    at, value = minimum(risk, *_LOG_RHO)
    return math.exp(at), value


def instance_bag_size(psi: float, snr: float, noise: float = 0.0) -> float:
    """Return the size of bags with which the instance-level loss has the least risk.

    Parameters
    ----------
    psi, snr : float
        As above; `psi` below 1.
    noise : float
        The release's noise on the sum of a bag, c = 8 B^2 / epsilon^2 for Laplace noise and
        responses within [-B, B], as a multiple of r^2.

    Returns
    -------
    float
        At least 1; infinite where larger bags are always better.

    Raises
    ------
    UsageError
        If an argument is out of its range.
    """
    psi = _positive("psi", psi)
    if psi >= 1:
        raise UsageError("psi", psi, "below 1 without a ridge")
    sigma, c = 1 / _positive("snr", snr), _not_negative("noise", noise)
    below = (2 - 3 * psi) - psi * sigma
    if below <= 0:
        return math.inf
    return max(1.0, 2 * ((1 - 2 * psi) + psi * c) / below)


def minimum(
    function: Callable[[float], float], low: float, high: float, points: int = 97
) -> tuple[float, float]:
    """Return where a function is least between two numbers, and how small: grid, golden section."""
    step = (high - low) / (points - 1)
    best = min(range(points), key=lambda i: function(low + i * step))
    left, right = low + max(best - 1, 0) * step, low + min(best + 1, points - 1) * step
    x, y = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    fx, fy = function(x), function(y)
    while right - left > 1e-7 * max(1.0, abs(left)):
        if fx <= fy:
            right, y, fy = y, x, fx
            x = right - _GOLDEN * (right - left)
            fx = function(x)
        else:
            left, x, fx = x, y, fy
            y = left + _GOLDEN * (right - left)
            fy = function(y)
    return (x, fx) if fx <= fy else (y, fy)


def _unregularised(psi: float, a: float) -> Moments:
    """Least squares on bags, of least norm where there are more features than bags."""
    if psi == a:
        raise UsageError(
            "psi", psi, "another ratio than bags over rows", "As many features as bags: a pole."
        )
    if psi < a:
        return Moments(0.0, psi / (a - psi), 1.0)
    return Moments(1 - a / psi, a / (psi - a), a / psi)


def _trace(psi: float, a: float, rho: float, ridge: float) -> float:
    """Return the limit of the trace of the inverse, by its equation; the left side increases.

    The equation is ``ridge q + a q / (1 + q) + (1 - a) rho q / (1 + rho q) = psi``.
    """
    b = 1 - a
    if ridge == 0:
        beta = a + b * rho - psi * (1 + rho)
        root = math.sqrt(beta * beta + 4 * rho * psi * (1 - psi))
        # Of two equal forms the one without cancellation.
        if beta > 0:
            return 2 * psi / (beta + root)
        return (root - beta) / (2 * rho * (1 - psi))

    # The left side is concave: from below, Newton's steps never pass the root.
    q = 0.0
    for _ in range(200):
        value = ridge * q + a * q / (1 + q) + b * rho * q / (1 + rho * q) - psi
        step = -value / (ridge + a / (1 + q) ** 2 + b * rho / (1 + rho * q) ** 2)
        q += step
        if step <= 1e-15 * q:
            break
    return q


def _positive(name: str, value: Any) -> float:
    found = _not_negative(name, value)
    if found == 0:
        raise UsageError(name, value, "a number above 0")
    return found


def _not_negative(name: str, value: Any) -> float:
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or value < 0:
        raise UsageError(name, value, "a finite number, not below 0")
    return float(value)
