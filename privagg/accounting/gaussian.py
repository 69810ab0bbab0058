"""The Gaussian mechanism: exact (epsilon, delta), its Renyi curve, zero-concentrated privacy.

Gaussian noise of standard deviation s on a vector of L2 sensitivity D. Only m = D / s matters, and
T rounds with m are one round with m sqrt(T): Gaussian differential privacy (Dong, Roth, Su, JRSS-B
2022, corollary 3.3).
"""

from __future__ import annotations

import math

from privagg.accounting.rdp import ORDERS, ZERO_OUT, Curve, check_delta, positive

__all__ = [
    "analytic_delta",
    "analytic_epsilon",
    "analytic_sigma",
    "gaussian_curve",
    "zcdp_curve",
]


def zcdp_curve(rho: float, adjacency: str = ZERO_OUT) -> Curve:
    """Return the Renyi curve of rho-zCDP: rho alpha (Bun, Steinke, TCC 2016).

    Parameters
    ----------
    rho : float
        Above 0.
    adjacency : str
        What neighbouring inputs are; see :mod:`privagg.accounting`.
    """
    stated = positive("rho", rho)
    return Curve.of(lambda order: stated * order, ORDERS, adjacency)


def gaussian_curve(multiplier: float, adjacency: str = ZERO_OUT) -> Curve:
    """Return the Renyi curve of noise of `multiplier` sensitivities: alpha / (2 multiplier**2).

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise over the sensitivity.
    adjacency : str
        What neighbouring inputs are; see :mod:`privagg.accounting`.
    """
    return zcdp_curve(0.5 / positive("multiplier", multiplier) ** 2, adjacency)


def analytic_delta(ratio: float, epsilon: float) -> float:
    """Return the exact delta of Gaussian noise at epsilon.

    Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m), m the sensitivity over the standard deviation (Balle,
    Wang, ICML 2018, theorem 8).

    Raises
    ------
    UsageError
        If `ratio` is not above 0, or `epsilon` is below 0.
    """
    m = positive("ratio", ratio)
    return max(0.0, _delta(m, epsilon if epsilon == 0 else positive("epsilon", epsilon))[0])


def _delta(ratio: float, epsilon: float) -> tuple[float, float]:
    """Return delta, and what the rounding of floats may have taken from it."""
    near, shift = ratio / 2, epsilon / ratio
    first, far = _phi(near - shift), _log_phi(-near - shift)
    return first - math.exp(min(epsilon + far, 700.0)), first * (1e-14 + 4e-16 * epsilon)


def analytic_epsilon(ratio: float, delta: float) -> float:
    """Return the exact epsilon of Gaussian noise at delta, rounded up; 0 where delta suffices.

    Parameters
    ----------
    ratio : float
        Sensitivity over standard deviation; times the root of the number of rounds.
    delta : float
        Above 0 and below 1.
    """
    m, least = positive("ratio", ratio), check_delta(delta)
    if math.erf(m / math.sqrt(8)) <= least:
        return 0.0
    low, high = 0.0, 1.0
    while sum(_delta(m, high)) > least:
        low, high = high, high * 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(_delta(m, middle)) > least else (low, middle)
    return high * (1 + 1e-12)


def analytic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the least standard deviation of continuous Gaussian noise for epsilon and delta.

    It solves :func:`analytic_delta` ``(D / s, epsilon) = delta`` for s, with D the sensitivity, by
    bisection.

    Parameters
    ----------
    sensitivity : float
        How far one party's change can move the sum: in the Euclidean norm.
    epsilon : float
        Above 0.
    delta : float
        From 0 to below 1.

    Raises
    ------
    UsageError
        If an argument is not above 0, or `delta` not below 1.
    """
    positive("sensitivity", sensitivity)
    positive("epsilon", epsilon)
    check_delta(delta)
    low, high = 1e-3, 1.0
    while analytic_delta(1 / high, epsilon) > delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if analytic_delta(1 / middle, epsilon) > delta else (low, middle)
    return float(high * sensitivity)


def _phi(x: float) -> float:
    """Return the probability that a standard normal is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def _log_phi(x: float) -> float:
    """Return its logarithm, where needed from the asymptotic series (x below -30)."""
    if x > -30:
        return math.log(_phi(x))
    square = x * x
    series = 1 - (1 - 3 * (1 - 5 / square) / square) / square
    return -square / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log(series)
