"""Poisson-binomial noise: clients toss coins whose bias is the message, and only heads are summed.

Each of h clients tosses m coins per coordinate, of bias 1/2 + t y, y in [-1, 1]. Zero-out makes one
client's coins fair. How it is bounded, for one coordinate at y and whole orders a:

1. The other clients' coins are no less random than N fair ones: a coin of bias within t of 1/2 is
   with probability 1 - 2 t a fair one and else a constant. To be told which (data processing) can
   only raise the divergence. N is binomial, of (h - 1) m and 1 - 2 t.
2. M(y) = E[r**a] with r the ratio of the two probabilities of the number of heads, given N, falls
   with N. So E over N is at most M at N0 plus P(N < N0) times the largest r**a, with N0 such that
   the second is below 1e-18.
3. M(y) - 1, expanded in y, has only even powers and no negative coefficient: r is a sum of powers
   (2 t y)**k times symmetric functions of coins, products of which are again sums of those. So it
   is convex in y**2, and over coordinates with sum of y**2 at most U the sum of M - 1 is at most
   U (M(1) - 1).

That is for r = P / Q with Q the fair one. For Q / P the third step is not proven: M - 1 over y**2
is evaluated on a grid and the largest is taken. The idea of the mechanism: Chen, Ozgur, Kairouz,
"The Poisson Binomial Mechanism", ICML 2022.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.accounting.rdp import ZERO_OUT, Curve

__all__ = ["HEAD_ORDERS", "fair_coins", "heads_curve", "moments"]

HEAD_ORDERS: tuple[float, ...] = (
    *map(float, range(2, 17)),
    *(20.0, 24.0, 28.0, 32.0, 40.0, 48.0, 64.0, 96.0, 128.0),
)
"""Orders at which the sums are evaluated."""

_GRID = (0.25, 0.5, 0.75, 1.0)
_WIDTH = 12
_MANY = 0.8
_ROUNDING = 1 + 1e-5


def heads_curve(trials: int, theta: float, honest: int, energy: float) -> Curve:
    """Return the curve of one client's coins against fair ones.

    Parameters
    ----------
    trials : int
        Coins per client and coordinate, m.
    theta : float
        The largest bias t, above 0 and up to 1/4.
    honest : int
        Clients whose coins are counted, that client included.
    energy : float
        U, the most that y**2 adds up to over all coordinates.
    """
    tiers = [HEAD_ORDERS]
    if fair_coins(trials, theta, honest, HEAD_ORDERS[-1]) < _MANY * honest * trials:
        # N0 falls with the order: with few coins, high orders would spoil the low ones' bound.
        tiers = [HEAD_ORDERS[start : start + 8] for start in range(0, len(HEAD_ORDERS), 8)]
    parts = []
    for orders in tiers:
        least = fair_coins(trials, theta, honest, orders[-1])
        worst = np.zeros(len(orders))
        for y in _GRID:
            both = moments(trials, theta * y, least, orders)
            worst = np.maximum(worst, both.max(axis=0) / (y * y))
        parts.append(worst)
    worst = np.concatenate(parts) * _ROUNDING + 1e-18
    values = [
        float(energy * excess / (order - 1))
        for order, excess in zip(HEAD_ORDERS, worst, strict=True)
    ]
    return Curve(HEAD_ORDERS, tuple(values), ZERO_OUT)


def moments(trials: int, bias: float, fair: int, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Return E_Q[r**a] - 1 and E_P[r**-a] - 1 for each order: ``(2, orders)``.

    Q: heads of `fair` + `trials` fair coins; P: `trials` of them have bias 1/2 + `bias`. As
    E_Q[r] = 1, the terms a (r - 1) are taken off under the sum, which leaves no cancellation.
    """
    coins = fair + trials
    reach = math.ceil(_WIDTH * math.sqrt(coins) / 2 + 2 * trials)
    low, high = max(0, coins // 2 - reach), min(coins, coins // 2 + reach)
    heads = np.arange(low, high + 1, dtype=np.float64)
    mass = np.exp(_log_choose(coins, heads) - coins * math.log(2))
    # Given s heads in all, those among the client's own coins are hypergeometric.
    rates = np.arange(trials + 1) * math.log1p(2 * bias)
    rates += (trials - np.arange(trials + 1)) * math.log1p(-2 * bias)
    total, weighed = np.zeros(heads.size), np.zeros(heads.size)
    base = _log_choose(coins, heads)
    rests = np.arange(low - trials, high + 1, dtype=np.float64)
    inside = (rests >= 0) & (rests <= fair)
    others = np.where(inside, _log_choose(fair, np.clip(rests, 0, fair)), -np.inf)
    for own in range(trials + 1):
        first = trials - own
        choose = float(_log_choose(trials, np.float64(own)))
        share = np.exp(others[first : first + heads.size] - base + choose)
        total += share
        weighed += share * math.expm1(rates[own])
    found = np.empty((2, len(orders)))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gap = weighed / total  # r - 1
        logs = np.log1p(gap)
        for at, order in enumerate(orders):
            found[0, at] = np.sum(mass * (np.expm1(order * logs) - order * gap))
            found[1, at] = np.sum(mass * (np.expm1((1 - order) * logs) - (1 - order) * gap))
    found[np.isnan(found)] = np.inf  # beyond all floats: this order proves nothing
    return np.maximum(found, 0.0)


def fair_coins(trials: int, theta: float, honest: int, order: float) -> int:
    """Return N0: see the module, step 2. 0 where nothing can be said."""
    coins, rate = (honest - 1) * trials, 1 - 2 * theta
    needed = order * trials * -math.log1p(-2 * theta) - math.log(1e-18)

    def unlikely(share: float) -> bool:
        """Whether fewer than this share are fair with small enough probability (Chernoff)."""
        if share <= 0:
            return True
        apart = share * math.log(share / rate)
        apart += (1 - share) * math.log((1 - share) / (1 - rate))
        return coins * apart >= needed

    low, high = 0.0, rate
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if unlikely(middle) else (low, middle)
    return math.floor(low * coins)


def _log_choose(n: int, k: Any) -> Any:
    """Return ln C(n, k), by Stirling's series with the terms that doubles need."""
    return _log_factorial(np.float64(n)) - _log_factorial(k) - _log_factorial(n - k)


def _log_factorial(values: Any) -> Any:
    small = np.array([math.lgamma(i + 1) for i in range(32)])
    x = np.maximum(values, 31.0) + 1.0
    series = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi)
    series += 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    at = np.minimum(values, 31).astype(np.int64)
    return np.where(values < 32, small[at], series)
