"""Amplification by sampling: each client takes part with probability q, independently.

This protects from whoever sees the released sums only. A server that sees who takes part knows the
sample, and has no amplification to reckon with. Adjacency: a client is in the population or not
(add/remove).

The noise of a round is taken to be the same whether or not the client is in it. It is where clients
that are not drawn take part all the same, with zeros and their noise. Where they stay away, so does
their noise: the variance of a sum then says something of who is in it, which is not bounded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg.accounting.rdp import INTEGER_ORDERS, Curve, positive
from privagg.errors import UsageError

__all__ = ["SAMPLED", "sampled_curve", "sampled_gaussian"]

SAMPLED = (
    "add/remove under Poisson sampling, if a round's noise is the same with and without the "
    "client: against those who see released sums only, not the server"
)

_LARGEST = 256.0
"""Sums over all orders up to the order: more of them cost time and seldom prove more."""


def sampled_curve(bound: Callable[[float], float], rate: float) -> Curve:
    """Return the curve of any mechanism under Poisson sampling.

    Zhu, Wang, "Poisson Subsampled Renyi Differential Privacy", ICML 2019, theorem 5: exp of
    (a - 1) times the divergence is at most (1 - q)**(a-1) (1 + (a - 1) q)
    + C(a, 2) q**2 (1 - q)**(a-2) exp(r(2)) + 3 sum over l = 3 ... a of
    C(a, l) q**l (1 - q)**(a-l) exp((l - 1) r(l)).

    Parameters
    ----------
    bound : callable
        The bound r at whole orders from 2, without sampling.
    rate : float
        The probability q, above 0 and up to 1.
    """
    return _sampled(bound, rate, 3.0)


def sampled_gaussian(multiplier: float, rate: float) -> Curve:
    """Return the exact curve of Gaussian noise under Poisson sampling, at whole orders.

    Mironov, Talwar, Zhang, "Renyi Differential Privacy of the Sampled Gaussian Mechanism", 2019,
    section 3.3: the same sum with r(l) = l / (2 z**2) and factor 1.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise over the sensitivity.
    rate : float
        Probability with which each record is in a batch, from 0 to 1.
    """
    z = positive("multiplier", multiplier)
    return _sampled(lambda order: order / (2 * z * z), rate, 1.0)


def _sampled(bound: Callable[[float], float], rate: float, factor: float) -> Curve:
    try:
        q = float(rate)
    except (TypeError, ValueError):
        raise UsageError("rate", rate, "above 0, up to 1") from None
    if isinstance(rate, bool) or not 0 < q <= 1:
        raise UsageError("rate", rate, "above 0, up to 1")
    orders = tuple(order for order in INTEGER_ORDERS if order <= _LARGEST)
    if q == 1:
        return Curve.of(bound, orders, SAMPLED)
    low = np.array([bound(float(order)) for order in range(2, int(orders[-1]) + 1)])
    return Curve.of(lambda order: _amplified(int(order), low, q, factor), orders, SAMPLED)


def _amplified(order: int, low: NDArray[np.float64], q: float, factor: float) -> float:
    logs = _weights(order, q, factor) + np.arange(1, order) * low[: order - 1]
    first = (order - 1) * math.log1p(-q) + math.log1p((order - 1) * q)
    most = max(first, float(logs.max()))
    if most == math.inf:
        return math.inf
    total = most + math.log(math.exp(first - most) + float(np.exp(logs - most).sum()))
    # A bound that is worse than none: sampling never costs anything.
    return min(max(total, 0.0) / (order - 1) * (1 + 1e-12), float(low[order - 2]))


@lru_cache(maxsize=1024)
def _weights(order: int, q: float, factor: float) -> NDArray[np.float64]:
    """Return the logarithms of C(a, l) q**l (1 - q)**(a-l) and the factor, for l = 2 ... a."""
    found = []
    for part in range(2, order + 1):
        term = math.lgamma(order + 1) - math.lgamma(part + 1) - math.lgamma(order - part + 1)
        term += part * math.log(q) + (order - part) * math.log1p(-q)
        found.append(term + (math.log(factor) if part > 2 else 0.0))
    return np.array(found)
