"""A mechanism under test, and reports of it to look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privagg.entropy import Entropy, from_seed

__all__ = ["MakeMechanism", "Subject"]

MakeMechanism = Callable[[Any, Any], Any]
"""``(domain, epsilon)`` to a mechanism."""


@dataclass(frozen=True)
class Subject:
    """A mechanism under test, and how hard it is tested.

    Attributes
    ----------
    make : callable
        Makes it, and others of other parameters.
    domain, epsilon
        Of the one that is looked at.
    values : list
        Values of the domain, as respondents hold them.
    runs : int
        Simulated collections behind each statistic.
    alpha : float
        Probability, per check, with which a correct mechanism fails it.
    seed : int
        Of all draws.
    variance_is : str
        ``"exact"`` or ``"bound"``: what :meth:`variance` claims to be.
    """

    make: MakeMechanism
    domain: Any
    epsilon: float
    values: list[Any]
    runs: int
    alpha: float
    seed: int
    variance_is: str

    @cached_property
    def mechanism(self) -> Any:
        """The mechanism, built once."""
        return self.make(self.domain, self.epsilon)

    def entropy(self, label: str) -> Entropy:
        """Return the seeded stream of one check."""
        return from_seed(self.seed).spawn(label)

    def batch(self, label: str, size: int = 60) -> Any:
        """Return reports of the values in turn, drawn from the stream of `label`."""
        values = [self.values[at % len(self.values)] for at in range(size)]
        return self.mechanism.randomize(values, self.entropy(label))
