"""What do observed sums reveal? Linear functionals of inputs, and the inputs they give away.

An aggregator that sees sums sees a matrix: row t holds the weights with which inputs went into sum
t. :func:`audit` takes it as a participation log of many rounds and says which clients' inputs are
combinations of the sums, after which round, with how much noise, and what the smallest set of
clients is whose weighted sum is exposed. It reads clients' mean inputs: a client that sends the
same in each round is given away exactly, one that varies up to the noise gain.

- :class:`ExactSpace`: the online engine, for rows as they come.
- :class:`Views`: coalitions of observers over a field, with masks: sensors, secret sharing.
- :func:`views_of_round`: the algebra of a secure aggregation round.
- :func:`feasible_ranges`: inputs known to be bounded or whole numbers.
- :func:`participation_from_counts`: an unknown log, from sums and known counts.
- :func:`compare_schedules`: when schedules of cohorts give clients away.

Guarantee: "determined" and "not determined" are exact but for :attr:`Audit.error_bound`. An input
that is not determined is not thereby safe: it may be bounded, correlated, or known from elsewhere.

Source of the question: So et al., "Securing Secure Aggregation: Mitigating Multi-Round Privacy
Leakage in Federated Learning", AAAI 2023; what is computed here is exact linear algebra.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.linear_coalitions import Coalition, smallest_coalition
from privagg.attacks.linear_counts import Reconstruction, participation_from_counts
from privagg.attacks.linear_exact import ExactSpace
from privagg.attacks.linear_gain import Gains, noise_gains
from privagg.attacks.linear_log import Log
from privagg.attacks.linear_pairs import Pairs, isolating_pairs
from privagg.attacks.linear_ranges import Ranges, feasible_ranges
from privagg.attacks.linear_schedules import (
    SCHEDULES,
    Exposure,
    compare_schedules,
    exposure,
    schedule,
)
from privagg.attacks.linear_views import Views
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.attacks.linear_secagg import SERVER, views_of_round

__all__ = [
    "GAIN_WORK",
    "SCHEDULES",
    "SERVER",
    "Audit",
    "Coalition",
    "ExactSpace",
    "Exposure",
    "Gains",
    "Log",
    "Pairs",
    "Ranges",
    "Reconstruction",
    "Views",
    "audit",
    "compare_schedules",
    "feasible_ranges",
    "participation_from_counts",
    "schedule",
    "views_of_round",
]

_STEP = 256  # rows between two notes of progress

GAIN_WORK = 250_000_000
"""Up to this :attr:`Audit.gain_work` noise gains take less than the exact answers do."""


def __getattr__(name: str) -> Any:
    """Import what reads secure aggregation's transcripts when it is asked for: it is large."""
    if name in ("SERVER", "views_of_round"):
        from privagg.attacks import linear_secagg

        return getattr(linear_secagg, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What a participation log gives away.

    Attributes
    ----------
    log : Log
        The log.
    rank : int
        Independent sums.
    first : (clients,) int array
        Index of the round with which each client became determined; -1 for never.
    pairs : Pairs
        Pairs of rounds that isolate one client.
    coalition : Coalition
        The smallest set of clients whose weighted sum is exposed.
    exposure : Exposure
        Determined clients after each round.
    error_bound : float
        Bound on the probability that `rank` or `first` is wrong.
    variation, noise : float
        As given, for the cosines.
    """

    log: Log
    rank: int
    first: NDArray[np.int64]
    pairs: Pairs
    coalition: Coalition
    exposure: Exposure
    error_bound: float
    variation: float
    noise: float

    @property
    def order(self) -> NDArray[np.intp]:
        """Columns of the determined clients, by the round in which that happened."""
        found = np.flatnonzero(self.first >= 0)
        return found[np.argsort(self.first[found], kind="stable")]

    @cached_property
    def gains(self) -> Gains:
        """Of the determined clients, in the order of `recoverable`; computed when first asked."""
        return noise_gains(self.log.weights, self.order, self.rank)

    @property
    def gain_work(self) -> int:
        """Multiplications that :attr:`gains` takes, about: none if no client is determined."""
        rounds, clients = len(self.log.rounds), len(self.log.clients)
        return rounds * clients * min(rounds, clients) if len(self.order) else 0

    @property
    def recoverable(self) -> tuple[str, ...]:
        """Names of the determined clients, by the round in which that happened."""
        return tuple(self.log.clients[column] for column in self.order)

    @property
    def first_exposed(self) -> dict[str, str]:
        """Name of the round after which each determined client is."""
        rounds, clients = self.log.rounds, self.log.clients
        return {clients[column]: rounds[self.first[column]] for column in self.order}

    @property
    def noise_gain(self) -> dict[str, float]:
        """Standard deviation of the recovered input, over that of independent noise in each sum."""
        return self._named(self.gains.gain)

    @property
    def cosine(self) -> dict[str, float]:
        """Expected cosine of each recovered input with the true one."""
        return self._named(self.gains.cosine(self.variation, self.noise))

    @property
    def absent(self) -> tuple[str, ...]:
        """Clients that never took part."""
        taken = (self.log.weights != 0).any(axis=0)
        return tuple(c for c, there in zip(self.log.clients, taken, strict=True) if not there)

    def _named(self, values: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.recoverable, map(float, values), strict=True))


def audit(
    log: Log,
    *,
    variation: float = 1.0,
    noise: float = 0.0,
    pairs: int = 1000,
    budget: float = 1e6,
    primes: int = 2,
    entropy: Entropy = OS,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Audit a participation log.

    Parameters
    ----------
    log : Log
        Who took part when.
    variation : float
        Standard deviation of a client's change from round to round, over the norm of its mean
        input: for the cosines.
    noise : float
        Standard deviation of noise added to each sum, over the norm of an input.
    pairs : int
        How many isolating pairs to name.
    budget : float
        Of the search for small coalitions; see
        :func:`privagg.attacks.linear_coalitions.smallest_coalition`. With 0 only sums of two are
        searched exhaustively.
    primes : int
        For the exact answers: each makes :attr:`Audit.error_bound` much smaller, and takes time.
    entropy : Entropy
        Of the primes and random combinations.
    progress : callable, optional
        Called with the number of rounds read, and of all.

    Returns
    -------
    Audit
        What was found, with what it takes to repeat it.

    Raises
    ------
    UsageError
        Arguments that do not fit.
    """
    if not isinstance(log, Log):
        raise UsageError("log", type(log).__name__, "a Log, such as Log.of_matrix(weights)")
    for name, value in (("variation", variation), ("noise", noise), ("budget", budget)):
        _not_negative(name, value)
    whole("pairs", pairs, 0, 10**7)
    space = ExactSpace(len(log.clients), entropy, primes)
    for start in range(0, len(log.rounds), _STEP):
        space.extend(log.weights[start : start + _STEP])
        if progress is not None:
            progress(min(start + _STEP, len(log.rounds)), len(log.rounds))
    first = space.first_exposed
    return Audit(
        log=log,
        rank=space.rank,
        first=first,
        pairs=isolating_pairs(log.weights, pairs, entropy),
        coalition=smallest_coalition(space, log.weights, budget=budget, entropy=entropy),
        exposure=exposure("this log", space),
        error_bound=space.error_bound,
        variation=float(variation),
        noise=float(noise),
    )


def _not_negative(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        raise UsageError(name, repr(value), "a finite number of 0 or more")
