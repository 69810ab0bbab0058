"""The exponential mechanism: choose well, with a probability that grows with utility."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, refuse_masked, whole
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.exact import ceiling, check_epsilon, exp_lower, log_upper

__all__ = ["ExponentialMechanism", "utility_table"]

_BATCH = 256
_WORDS = 64


class ExponentialMechanism:
    """Choose one of m candidates, each with probability proportional to e**(epsilon u / (2 s)).

    u is a candidate's utility, and s the sensitivity: how much any utility can change between two
    adjacent inputs. Utilities are rounded down to multiples of s / `steps`, which changes none by
    more than one multiple, and weights are powers of a ratio of integers, so that probabilities are
    exact: none is ever 0, and differences of thousands of s neither overflow nor underflow.

    Guarantee: epsilon-differential privacy of the choice, for whatever adjacency the sensitivity
    was taken over. The time it takes depends on the utilities; an adversary who can measure it
    learns more than the choice says.

    Source: McSherry, Talwar, "Mechanism Design via Differential Privacy", FOCS 2007; an exact base,
    Ilvento, "Implementing the Exponential Mechanism with Base-2 Differential Privacy", CCS 2020.

    Parameters
    ----------
    epsilon : float
        The privacy parameter of one choice.
    sensitivity : float
        s, above 0.
    steps : int
        Multiples in one sensitivity, 1 to 4096.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """

    def __init__(self, epsilon: float, sensitivity: float = 1.0, *, steps: int = 64) -> None:
        self._epsilon = check_epsilon(epsilon)
        self._sensitivity = Fraction(check_epsilon(sensitivity, "sensitivity"))
        self._steps = whole("steps", steps, 1, 4096)
        if self._epsilon > 40 * self._steps:
            raise UsageError("epsilon", epsilon, f"up to {40 * self._steps} with these steps")
        step = Fraction(self._epsilon) / (2 * self._steps)
        self._keep = ceiling(2**64 / exp_lower(step))
        if self._keep >= 2**64 or self.epsilon_realised < 0.99 * self._epsilon:
            hint = "Take fewer steps."
            raise UsageError("epsilon", epsilon, "what 64-bit thresholds can realise", hint)

    @property
    def epsilon(self) -> float:
        """The stated epsilon."""
        return self._epsilon

    @property
    def base(self) -> Fraction:
        """How much heavier a candidate is that is one multiple better; exact."""
        return Fraction(2**64, self._keep)

    @cached_property
    def epsilon_realised(self) -> float:
        """What the integer thresholds have: ln(base**(2 steps)), rounded up."""
        return log_upper(self.base ** (2 * self._steps))

    def probabilities(self, utilities: Any) -> list[Fraction]:
        """Return the exact probability of each candidate; for few candidates with close utilities.

        Parameters and errors as for :meth:`choose`.
        """
        behind = self._behind(utilities)
        # Over one denominator, base**-gap is a whole number, and each different one is made once.
        top, bottom = self.base.numerator, self.base.denominator
        most = max(behind)
        weights = {gap: bottom**gap * top ** (most - gap) for gap in set(behind)}
        total = sum(weights[gap] for gap in behind)
        made = {gap: Fraction(weight, total) for gap, weight in weights.items()}
        return [made[gap] for gap in behind]

    def choose(self, utilities: Any, entropy: Entropy = OS) -> int:
        """Return the number of the chosen candidate.

        Parameters
        ----------
        utilities : (m,) sequence or array of numbers
            Finite; larger is better.
        entropy : Entropy
            The operating system's unless given.

        Raises
        ------
        UsageError
            If `utilities` is empty or not finite.
        """
        behind = self._behind(utilities)
        draws = Draws(entropy)
        # Propose uniformly, accept with probability base**-gap: that many coins in a row.
        while True:
            for candidate in draws.below([len(behind)], _BATCH).reshape(-1).tolist():
                if self._accepts(behind[candidate], draws):
                    return int(candidate)

    def _accepts(self, gap: int, draws: Draws) -> bool:
        while gap > 0:
            count = min(gap, _WORDS)
            if (draws.words64(_WORDS)[:count] >= np.uint64(self._keep)).any():
                return False
            gap -= count
        return True

    def _behind(self, utilities: Any) -> list[int]:
        """Return by how many multiples each candidate lies behind the best."""
        refuse_masked("utilities", utilities)
        array = as_array("utilities", utilities)
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
            found = f"{array.dtype} array of shape {array.shape}"
            raise UsageError("utilities", found, "a (m,) array of numbers")
        if not np.isfinite(array).all():
            raise UsageError("utilities", "a number that is not finite", "finite utilities")
        scale = self._steps / self._sensitivity
        multiples = [int(Fraction(utility) * scale // 1) for utility in array.tolist()]
        best = max(multiples)
        return [best - multiple for multiple in multiples]

    def __repr__(self) -> str:
        return f"ExponentialMechanism({self._epsilon!r}, {float(self._sensitivity)!r})"


def utility_table(utilities: Sequence[Sequence[float]], epsilon: float) -> NDArray[np.float64]:
    """Return the table of the exponential mechanism as a local one.

    Row x of `utilities` says how useful each report is for value x; the sensitivity is the largest
    range within a column. The rows are made for
    :class:`privagg.mechanisms.RandomizedResponse`, whose counts are exact: weights are computed as
    logarithms, and none underflows while the table has a finite epsilon.

    Parameters
    ----------
    utilities : (k, m) sequence of rows
        Finite numbers.
    epsilon : float
        The privacy parameter of one report.

    Returns
    -------
    (k, m) float64 array

    Raises
    ------
    UsageError
        If `utilities` is no table of finite numbers, or the same for all values.
    """
    table = as_array("utilities", utilities)
    if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iuf":
        found = f"{table.dtype} array of shape {table.shape}"
        raise UsageError("utilities", found, "a (k, m) table of numbers")
    table = table.astype(np.float64)
    if not np.isfinite(table).all():
        raise UsageError("utilities", "a number that is not finite", "finite utilities")
    sensitivity = float((table.max(axis=0) - table.min(axis=0)).max())
    if sensitivity == 0:
        raise UsageError("utilities", "the same row for all values", "rows that differ")
    logs = table * (check_epsilon(epsilon) / 2 / sensitivity)
    logs = logs - logs.max(axis=1, keepdims=True)
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)
