"""What a sum with distributed noise proves, and to how many honest clients the noise is calibrated.

A guarantee is (epsilon, delta)-differential privacy of the sum that the server learns, hence of all
that is computed from it. It counts the noise of honest contributors only: those in the sum, less
the coalition that works with the server and can take its own noise off.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from privagg._validate import whole
from privagg.accounting.rdp import REPLACE, ZERO_OUT, check_delta, positive
from privagg.accounting.subsampling import SAMPLED
from privagg.errors import UsageError

__all__ = [
    "ADJACENCIES",
    "Guarantee",
    "Noisy",
    "Target",
    "best_of",
    "coalition_curve",
    "honest_of",
    "rounds_of",
]

ADJACENCIES = {"zero-out": ZERO_OUT, "replace": REPLACE}
"""By their short names."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a mechanism is to guarantee, and over how many rounds.

    Parameters
    ----------
    delta : float
        Above 0 and below 1.
    rounds : int
        Rounds that are composed, each with fresh noise.
    sampling_rate : float
        Probability that a client takes part in a round; below 1 the guarantee is against those who
        see released sums only, for the server knows who took part.
    adjacency : {"zero-out", "replace"}
        One client's vector becomes zeros, or any other vector.

    Raises
    ------
    UsageError
        If a field is out of its range, or a rate below 1 goes with ``replace``.
    """

    delta: float = 1e-6
    rounds: int = 1
    sampling_rate: float = 1.0
    adjacency: str = "zero-out"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, 1, 10**9))
        if self.sampling_rate != 1 or isinstance(self.sampling_rate, bool):
            positive("sampling_rate", self.sampling_rate, 1.0)
        object.__setattr__(self, "sampling_rate", float(self.sampling_rate))
        if not isinstance(self.adjacency, str) or self.adjacency not in ADJACENCIES:
            raise UsageError("adjacency", self.adjacency, " or ".join(ADJACENCIES))
        if self.sampling_rate < 1 and self.adjacency != "zero-out":
            raise UsageError("adjacency", self.adjacency, "zero-out with a sampling rate below 1")

    @property
    def stated(self) -> str:
        """The adjacency in words."""
        return SAMPLED if self.sampling_rate < 1 else ADJACENCIES[self.adjacency]

    @property
    def factor(self) -> int:
        """How many times one vector's norm two adjacent inputs differ by."""
        return 2 if self.adjacency == "replace" else 1

    def proved(self, rounds: Mapping[int, int], epsilon: float, proof: str) -> Guarantee:
        """Return the guarantee of rounds, counted by the honest contributors that each had.

        Parameters
        ----------
        rounds : mapping of int to int
            Honest contributors, and how many rounds had so many.
        epsilon : float
            What was proved of them.
        proof : str
            How.
        """
        return Guarantee(
            epsilon=epsilon,
            delta=self.delta,
            rounds=sum(rounds.values()),
            honest=min(rounds),
            adjacency=self.stated,
            sampling_rate=self.sampling_rate,
            proof=proof,
        )


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy after all rounds.

    Attributes
    ----------
    epsilon : float
        An upper bound; infinite where nothing is proved.
    delta : float
        As asked for.
    rounds : int
        Rounds composed.
    honest : int
        Clients whose noise is counted in each round; the fewest, where rounds differ.
    adjacency : str
        What two inputs differ in.
    sampling_rate : float
        See :class:`Target`.
    proof : str
        Which bound is the least.
    """

    epsilon: float
    delta: float
    rounds: int
    honest: int
    adjacency: str
    sampling_rate: float
    proof: str


class Noisy(Protocol):
    """A mechanism whose noise is the sum of the clients' noise."""

    @property
    def honest(self) -> int:
        """The honest contributors that it is calibrated to."""

    def guarantee(self, survivors: int, coalition: int = 0) -> Guarantee:
        """Return the guarantee with so many clients in the sum, of whom some collude."""

    def spent(self, honest: Sequence[int]) -> Guarantee:
        """Return the guarantee after rounds with so many honest contributors each."""


def best_of(found: list[tuple[float, str]]) -> tuple[float, str]:
    """Return the least epsilon with its proof; NaN and none count as infinite."""
    known = [pair for pair in found if not math.isnan(pair[0])]
    return min(known, default=(math.inf, "none"), key=lambda pair: pair[0])


def honest_of(survivors: int, coalition: int, clients: int) -> int:
    """Return how many of the survivors do not collude.

    Raises
    ------
    UsageError
        If that is not at least one, or there are more survivors than `clients`.
    """
    stayed = whole("survivors", survivors, 1, clients)
    return stayed - whole("coalition", coalition, 0, stayed - 1)


def rounds_of(honest: Sequence[int], clients: int) -> dict[int, int]:
    """Return how many rounds had how many honest contributors.

    Raises
    ------
    UsageError
        If there is no round, or one had none, or more than `clients`.
    """
    if isinstance(honest, str | bytes) or not isinstance(honest, Sequence) or not honest:
        found = "none" if isinstance(honest, Sequence) else type(honest).__name__
        raise UsageError("honest", found, "a list with a whole number for each round")
    return dict(Counter(whole("honest", one, 1, clients) for one in honest))


def coalition_curve(
    noisy: Noisy, survivors: int, most: int, points: int = 9
) -> list[tuple[int, Guarantee]]:
    """Return guarantees over coalition sizes from 0 to `most`, at up to so many sizes.

    Parameters
    ----------
    noisy : Noisy
        The mechanism.
    survivors : int
        Clients in the sum.
    most : int
        The largest coalition; below `survivors`.
    points : int
        At most so many sizes, from 2, evenly spread, the ends among them.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    whole("most", most, 0, whole("survivors", survivors, 1, 2**40) - 1)
    steps = whole("points", points, 2, 2**20) - 1
    sizes = sorted({round(most * step / steps) for step in range(points)})
    return [(size, noisy.guarantee(survivors, size)) for size in sizes]
