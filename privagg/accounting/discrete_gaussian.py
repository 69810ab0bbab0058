"""Sums of discrete Gaussians, added to integers.

Each of h clients adds P(j) proportional to exp(-j**2 / (2 v)). Their sum is no discrete Gaussian,
but so near to one of variance parameter h v that the ratio of the two probabilities of any integer
is within e**(+-tau); tau is below 1e-20 from v = 5 on. And a discrete Gaussian is, up to a ratio
within e**(+-kappa) with kappa below 1e-24, what one gets from a continuous Gaussian of a variance
smaller by 3 by rounding at random: so the exact epsilon of the continuous Gaussian holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from privagg._validate import whole
from privagg.accounting.gaussian import analytic_epsilon
from privagg.accounting.rdp import ORDERS, ZERO_OUT, Curve, check_delta, positive

__all__ = ["SPARE", "rounds_epsilon", "slack", "sum_bound", "sum_curve", "sum_epsilon", "tau"]

SPARE = 3.0
"""The variance that random rounding takes from the continuous Gaussian."""


@lru_cache(maxsize=64)
def tau(variance: float, clients: int) -> float:
    """Return 10 sum over k = 1 ... h-1 of exp(-2 pi**2 v k / (k + 1)), rounded up.

    Kairouz, Liu, Steinke, "The Distributed Discrete Gaussian Mechanism", ICML 2021: it bounds
    the distance of the sum's distribution from a discrete Gaussian. Infinite below v = 1/4,
    where nothing is proved.
    """
    if variance < 0.25:
        return math.inf
    rate = -2 * math.pi**2 * variance
    terms = min(clients - 1, 64)  # the rest are below the last of these
    total = sum(math.exp(rate * k / (k + 1)) for k in range(1, terms + 1))
    rest = (clients - 1 - terms) * math.exp(rate * (terms + 1) / (terms + 2))
    return 10 * (total + rest) * (1 + 1e-12)


def slack(variance: float, clients: int, dim: int) -> float:
    """Return tau + kappa over all coordinates: what the noise is from rounded Gaussian noise.

    For a discrete Gaussian of parameter s**2 = SPARE the sum of its weights over the integers,
    moved by whatever, is within 1 +- z of s sqrt(2 pi), z = 2 sum over k of exp(-2 pi**2 s**2 k**2)
    (Poisson's summation formula). Rounding x, Gaussian of variance v - s**2, to y with probability
    proportional to exp(-(y - x)**2 / (2 s**2)) therefore gives a y whose probabilities are those of
    the discrete Gaussian of parameter v times a number within (1 + z) / (1 - z).
    """
    z = 2.0000001 * math.exp(-2 * math.pi**2 * SPARE)
    kappa = math.log1p(z) - math.log1p(-z)
    return dim * (tau(variance, clients) + kappa)


def sum_bound(
    order: float, l2_squared: float, l1: float, variance: float, clients: int, dim: int
) -> float:
    """Bound the Renyi divergence of a sum of discrete Gaussians and the same moved by integers.

    The least of a D2**2 / (2 h v) + tau d, a/2 (D2**2 / (h v) + 2 D1 tau / sqrt(h v) + tau**2 d)
    and a/2 (D2 / sqrt(h v) + sqrt(d) tau)**2: Kairouz, Liu, Steinke, ICML 2021, proposition 14.

    Parameters
    ----------
    order : float
        Above 1.
    l2_squared, l1 : float
        Squared L2 norm and L1 norm of the move, in integers.
    variance : float
        The parameter v of each client's noise.
    clients, dim : int
        How many clients add noise, h; coordinates d.
    """
    t, whole = tau(variance, clients), clients * variance
    return min(
        order * l2_squared / (2 * whole) + t * dim,
        order / 2 * (l2_squared / whole + 2 * l1 * t / math.sqrt(whole) + t * t * dim),
        order / 2 * (math.sqrt(l2_squared / whole) + math.sqrt(dim) * t) ** 2,
    )


def sum_curve(
    l2_squared: float,
    l1: float,
    variance: float,
    clients: int,
    dim: int,
    adjacency: str = ZERO_OUT,
) -> Curve:
    """Return :func:`sum_bound` as a curve.

    Parameters
    ----------
    l2_squared : float
        Square of the Euclidean sensitivity, in the noise's unit.
    l1 : float
        Sensitivity in the 1-norm, in the noise's unit.
    variance : float
        Variance of one client's noise, above 0.
    clients : int
        How many add noise.
    dim : int
        Coordinates of a vector.
    adjacency : str
        What neighbouring inputs are; see :mod:`privagg.accounting`.

    Raises
    ------
    UsageError
        If a number is not above 0, or `clients` or `dim` is not whole.
    """
    _checked(l2_squared, variance, dim)
    positive("l1", l1)
    whole("clients", clients, 1, 2**40)
    return Curve.of(
        lambda order: sum_bound(order, l2_squared, l1, variance, clients, dim), ORDERS, adjacency
    )


def sum_epsilon(
    l2_squared: float, variance: float, clients: int, dim: int, rounds: int, delta: float
) -> float:
    """Return epsilon of `rounds` rounds by way of the continuous Gaussian: see the module.

    With a the :func:`slack` of all rounds, (e, d)-DP of the Gaussian is (e + 2 a, d exp(a))-DP of
    the sum. Infinite where the slack is large or the variance too small; :func:`sum_curve` then
    says more.

    Parameters
    ----------
    l2_squared : float
        Square of the Euclidean sensitivity, in the noise's unit.
    variance : float
        Variance of one client's noise, above 0.
    clients : int
        How many add noise.
    dim : int
        Coordinates of a vector.
    rounds : int
        At least 1.
    delta : float
        From 0 to below 1.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    whole("rounds", rounds, 1, 10**9)
    return rounds_epsilon(l2_squared, variance, {clients: rounds}, dim, delta)


def rounds_epsilon(
    l2_squared: float, variance: float, rounds: Mapping[int, int], dim: int, delta: float
) -> float:
    """Return the same of rounds, counted by the clients that added noise in each.

    Rounds of Gaussian noise whose ratios of sensitivity to deviation are m_1, m_2, ... are one
    round of ratio sqrt(m_1**2 + m_2**2 + ...), whatever an adversary chooses in between: Dong,
    Roth, Su, "Gaussian Differential Privacy", JRSS-B 2022, corollary 3.3.
    """
    _checked(l2_squared, variance, dim)
    squared = distance = 0.0
    for clients, times in rounds.items():
        spared = whole("clients", clients, 1, 2**40) * variance - SPARE
        if not spared > 0:
            return math.inf
        squared += times * l2_squared / spared
        distance += times * slack(variance, clients, dim)
    if not distance < 1:
        return math.inf
    return analytic_epsilon(math.sqrt(squared), check_delta(delta) * math.exp(-distance)) + (
        2 * distance
    )


def _checked(l2_squared: float, variance: float, dim: int) -> None:
    positive("l2_squared", l2_squared)
    positive("variance", variance)
    whole("dim", dim, 1, 2**40)
