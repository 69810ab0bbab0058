"""Renyi differential privacy: curves over orders, their sum over rounds, what epsilon they give.

A mechanism is (alpha, r)-RDP if the Renyi divergence of order alpha between its outputs on any two
adjacent inputs, in either direction, is at most r (Mironov, "Renyi Differential Privacy", 2017).
Divergences of independent rounds add up, order by order. What is adjacent to what goes with every
curve, and curves of different adjacency cannot be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real

from privagg.errors import UsageError

__all__ = ["INTEGER_ORDERS", "ORDERS", "REPLACE", "ZERO_OUT", "Curve", "check_delta", "positive"]

ZERO_OUT = "zero-out: one client's vector is replaced by zeros; who takes part is public"
"""What add/remove means where the participants are known: the client's noise stays."""

REPLACE = "replace: one client's vector is replaced by any other"
"""Twice the distance of zero-out."""

INTEGER_ORDERS: tuple[float, ...] = (
    *map(float, range(2, 65)),
    *(72.0, 80.0, 96.0, 112.0, 128.0, 160.0, 192.0, 256.0, 384.0, 512.0, 1024.0, 2048.0, 8192.0),
)
"""Orders of mechanisms whose bound holds for whole ones only."""

ORDERS: tuple[float, ...] = (
    *(1 + step / 100 for step in range(1, 100)),
    *(2 + step / 10 for step in range(80)),
    *(order for order in INTEGER_ORDERS if order >= 10),
)
"""Orders of the others."""


@dataclass(frozen=True)
class Curve:
    """An upper bound on the Renyi divergence at some orders.

    Attributes
    ----------
    orders : tuple of float
        Orders alpha, each above 1.
    values : tuple of float
        The bound at each, in nats.
    adjacency : str
        What the two inputs differ in.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    orders: tuple[float, ...]
    values: tuple[float, ...]
    adjacency: str = ZERO_OUT

    def __post_init__(self) -> None:
        for name in ("orders", "values"):
            numbers = getattr(self, name)
            if not isinstance(numbers, tuple) or not all(isinstance(n, Real) for n in numbers):
                raise UsageError(name, type(numbers).__name__, "a tuple of numbers")
        if not self.orders or len(self.orders) != len(self.values):
            raise UsageError("values", f"{len(self.values)} values", f"{len(self.orders)}, from 1")
        if not all(1 < order < math.inf for order in self.orders):
            raise UsageError("orders", min(self.orders), "orders above 1")
        if not all(value >= 0 for value in self.values):  # NaN is refused, infinity is not
            raise UsageError("values", "a negative number or NaN", "numbers from 0")

    @classmethod
    def of(
        cls,
        bound: Callable[[float], float],
        orders: Iterable[float] = ORDERS,
        adjacency: str = ZERO_OUT,
    ) -> Curve:
        """Evaluate a bound at each order.

        Parameters
        ----------
        bound : callable
            The bound: alpha to the divergence of that order.
        orders : iterable of float
            Orders above 1.
        adjacency : str
            What neighbouring inputs are; see :mod:`privagg.accounting`.

        Returns
        -------
        Curve
        """
        points = tuple(float(order) for order in orders)
        return cls(points, tuple(bound(order) for order in points), adjacency)

    def times(self, rounds: int) -> Curve:
        """Return the curve of so many independent rounds.

        Parameters
        ----------
        rounds : int
            At least 1.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
            raise UsageError("rounds", rounds, "a whole number from 1")
        return Curve(self.orders, tuple(rounds * value for value in self.values), self.adjacency)

    def __add__(self, other: Curve) -> Curve:
        """Return the curve of both mechanisms, run one after the other."""
        if not isinstance(other, Curve):
            return NotImplemented
        if other.adjacency != self.adjacency:
            raise UsageError("adjacency", other.adjacency, self.adjacency, "They cannot be added.")
        ours, theirs = dict(zip(self.orders, self.values, strict=True)), other
        both = [
            (order, ours[order] + value)
            for order, value in zip(theirs.orders, theirs.values, strict=True)
            if order in ours
        ]
        if not both:
            raise UsageError("orders", "none in common", "curves that share an order")
        return Curve(
            tuple(order for order, _ in both), tuple(value for _, value in both), self.adjacency
        )

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon of (epsilon, delta)-DP that an order of the curve proves.

        epsilon = r + log((alpha - 1) / alpha) - (log delta + log alpha) / (alpha - 1): Canonne,
        Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020,
        proposition 12; Balle et al., AISTATS 2020, theorem 21. Infinite if no order proves any.

        Raises
        ------
        UsageError
            If `delta` is not above 0 and below 1.
        """
        return self.best(delta)[0]

    def best(self, delta: float) -> tuple[float, float]:
        """Return that epsilon, and the order that proves it.

        Parameters
        ----------
        delta : float
            From 0 to below 1.
        """
        logarithm = math.log(check_delta(delta))
        found = [
            (
                max(
                    0.0,
                    value + math.log1p(-1 / order) - (logarithm + math.log(order)) / (order - 1),
                ),
                order,
            )
            for order, value in zip(self.orders, self.values, strict=True)
        ]
        return min(found)

    def delta(self, epsilon: float) -> float:
        """Return the least delta at a given epsilon that an order of the curve proves.

        Parameters
        ----------
        epsilon : float
            Above 0.
        """
        stated = positive("epsilon", epsilon)
        least = min(
            (order - 1) * (value - stated + math.log1p(-1 / order)) - math.log(order)
            for order, value in zip(self.orders, self.values, strict=True)
        )
        return min(1.0, math.exp(min(least, 0.0)))


def check_delta(delta: float) -> float:
    """Return delta as a float, if it is above 0 and below 1."""
    return positive("delta", delta, 1.0)


def positive(name: str, value: float, below: float = math.inf) -> float:
    """Return a number as a float, if it is above 0 and below a limit; bools are none.

    Raises
    ------
    UsageError
        If it is not.
    """
    allowed = "a finite number above 0" if below == math.inf else f"above 0 and below {below:g}"
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(name, value, allowed) from None
    if not 0 < number < below:
        raise UsageError(name, value, allowed)
    return number
