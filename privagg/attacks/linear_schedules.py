"""Who takes part when: schedules of cohorts, and when each of them gives clients away.

``uniform``
    k of n clients, anew each round. Nobody is determined before there are about as many rounds as
    clients, and then everybody within a few rounds: the cliff.
``skewed``
    k of n, the more available ones more often (availability from a Dirichlet distribution). The
    cliff comes earlier for those.
``batches``
    Clients are divided into fixed groups of k, and a round takes one group. The rank never exceeds
    the number of groups, so that no sum of fewer than k clients is ever exposed. What Multi-Round
    secure aggregation asks for (So et al., AAAI 2023), at the price of clients that meet the same
    companions always.
``dropouts``
    All clients but a few that are missing by chance. The worst there is: two rounds that differ by
    one client give it away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.linear_exact import ExactSpace
from privagg.attacks.linear_log import Log
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError

__all__ = ["SCHEDULES", "Exposure", "compare_schedules", "schedule"]

_CONCENTRATION = 0.5  # of the Dirichlet distribution: a few clients are there much of the time

Cohorts = NDArray[np.int64]


def _uniform(n: int, k: int, rounds: int, random: np.random.Generator) -> Cohorts:
    return np.argsort(random.random((rounds, n)), axis=1)[:, :k]


def _skewed(n: int, k: int, rounds: int, random: np.random.Generator) -> Cohorts:
    # Exponential races: the k first are drawn without replacement, in proportion to the rates.
    rates = np.maximum(random.dirichlet(np.full(n, _CONCENTRATION)), 1e-12)
    return np.argsort(random.exponential(size=(rounds, n)) / rates, axis=1)[:, :k]


def _batches(n: int, k: int, rounds: int, random: np.random.Generator) -> Cohorts:
    groups = random.permutation(n)[: n // k * k].reshape(n // k, k)
    return groups[random.integers(n // k, size=rounds)]


SCHEDULES: dict[str, Callable[[int, int, int, np.random.Generator], Cohorts] | None] = {
    "uniform": _uniform,
    "skewed": _skewed,
    "batches": _batches,
    "dropouts": None,
}
"""Names of the schedules; see the module."""


def schedule(name: str, clients: int, cohort: int, rounds: int, *, entropy: Entropy = OS) -> Log:
    """Draw a participation log.

    Parameters
    ----------
    name : str
        One of :data:`SCHEDULES`.
    clients, cohort, rounds : int
        n, k and how many rounds. With ``dropouts`` each client is there with probability k / n.
        With ``batches`` the ``n % k`` clients left over never take part.
    entropy : Entropy
        Of the draws.

    Raises
    ------
    UsageError
        An unknown name, or numbers that do not fit.
    """
    if name not in SCHEDULES:
        raise UsageError("name", repr(name), ", ".join(SCHEDULES))
    n = whole("clients", clients, 1, 10**6)
    k = whole("cohort", cohort, 1, n)
    count = whole("rounds", rounds, 1, 10**6)
    random = np.random.default_rng(int.from_bytes(entropy.take(16), "little"))
    draw = SCHEDULES[name]
    weights = np.zeros((count, n), np.int64)
    if draw is None:
        weights[random.random((count, n)) < k / n] = 1
    else:
        np.put_along_axis(weights, draw(n, k, count, random), 1, axis=1)
    return Log.of_matrix(weights)


@dataclass(frozen=True)
class Exposure:
    """When a schedule gives clients away.

    Attributes
    ----------
    name : str
        The schedule, or what else was looked at.
    curve : (rounds,) int array
        Clients determined after each round.
    rank : int
        Independent sums.
    """

    name: str
    curve: NDArray[np.int64]
    rank: int

    @property
    def exposed(self) -> int:
        """Clients determined in the end."""
        return int(self.curve[-1]) if len(self.curve) else 0

    def rounds_to(self, fraction: float, clients: int) -> int | None:
        """Return after how many rounds this fraction of clients is determined; None for never.

        Parameters
        ----------
        fraction : float
            Of the clients, above 0 and up to 1.
        clients : int
            How many there are.
        """
        needed = max(1, int(np.ceil(fraction * clients)))
        reached = np.flatnonzero(self.curve >= needed)
        return int(reached[0]) + 1 if reached.size else None


def exposure(name: str, space: ExactSpace) -> Exposure:
    """Return the curve of what was observed."""
    times = space.first_exposed
    fresh = np.bincount(times[times >= 0], minlength=space.rows_seen)
    return Exposure(name, np.cumsum(fresh).astype(np.int64), space.rank)


def compare_schedules(
    clients: int,
    cohort: int,
    rounds: int,
    *,
    names: Sequence[str] = tuple(SCHEDULES),
    entropy: Entropy = OS,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Exposure, ...]:
    """Draw each schedule once and see when it gives clients away.

    Parameters
    ----------
    clients, cohort, rounds : int
        As for :func:`schedule`.
    names : sequence of str
        Which schedules.
    entropy : Entropy
        Of the draws.
    progress : callable, optional
        Called with the number of schedules done, and of all.

    Raises
    ------
    UsageError
        As for :func:`schedule`.
    """
    found = []
    for index, name in enumerate(names):
        log = schedule(name, clients, cohort, rounds, entropy=entropy.spawn(name))
        space = ExactSpace(clients, entropy.spawn(f"primes of {name}"))
        space.extend(log.weights)
        found.append(exposure(name, space))
        if progress is not None:
            progress(index + 1, len(names))
    return tuple(found)
