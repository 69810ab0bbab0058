"""Randomised response by a table of one's own, over any domain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.symbols import count_symbols
from privagg.mechanisms.base import Columns, FrequencyOracle
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State

__all__ = ["RandomizedResponse"]

_LARGEST = 512


class RandomizedResponse(FrequencyOracle):
    """Randomised response with any table P(report | value).

    The reports may be others than the values, and some answers more sensitive than others. Any
    mechanism on a small domain can be written so; generalised randomised response, where all values
    are alike, is :class:`privagg.mechanisms.GRR`. The estimate is the least-squares inverse of the
    table, weighted by the reports' mean probabilities; it is unbiased, and its variance for
    frequencies f is (sum over x, y of f(x) P(y | x) w(v, y)**2 - f(v)) / n, with w the inverse.

    Parameters
    ----------
    domain : Domain
        The declared values, at most 512.
    epsilon : float
        What the ratios of the table's columns are bounded by; it may be above what they need. For
        guarantee and adjacency see :mod:`privagg.mechanisms.base`.
    table : (k, m) sequence of rows
        Row x is the distribution of reports for the value of code x: positive numbers that add up
        to 1. The rows must be linearly independent, else frequencies cannot be told apart. Unless
        given, generalised randomised response.

    Raises
    ------
    UsageError
        If the table is not as described, or a ratio is above e**epsilon: in particular if a
        report is impossible for some value and not for others.
    """

    name = "rr"

    def __init__(
        self, domain: Domain, epsilon: float, table: Sequence[Sequence[float]] | None = None
    ) -> None:
        super().__init__(domain, epsilon)
        if self.k > _LARGEST:
            raise UsageError("domain", f"{self.k} values", f"up to {_LARGEST}", "GRR takes more.")
        if table is None:
            weight = np.exp(min(self.epsilon, 100.0))
            rows = (np.ones((self.k, self.k)) + (weight - 1) * np.eye(self.k)) / (
                weight + self.k - 1
            )
        else:
            rows = as_array("table", table)
            if rows.ndim != 2 or len(rows) != self.k or rows.dtype.kind not in "iuf":
                found = f"{rows.dtype} array of shape {rows.shape}"
                raise UsageError("table", found, f"{self.k} rows of numbers, one for each value")
        self._stated = None if table is None else [[float(p) for p in row] for row in rows]
        self._channel = Channel.build(rows, Fraction(self.epsilon))
        probabilities = self._channel.probabilities
        if table is None and self.epsilon_realised < self.epsilon * (1 - 1 / 1024):
            raise UsageError(
                "epsilon", epsilon, "what 64-bit counts can realise", "GRR takes more."
            )
        weighted = probabilities / probabilities.mean(axis=0)
        gram = weighted @ probabilities.T
        if np.linalg.cond(gram) > 1e12:
            raise UsageError("table", "rows that depend on one another", "independent rows")
        self._weights = np.linalg.solve(gram, weighted)

    @property
    def options(self) -> dict[str, Any]:
        """The argument `table`, if it was given."""
        return {} if self._stated is None else {"table": self._stated}

    @property
    def channel(self) -> Channel:
        """The exact table."""
        return self._channel

    @property
    def ratio(self) -> Fraction:
        """The largest ratio within a column of the table."""
        return self._channel.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """The counts of the table, row after row."""
        flat = self._channel.counts.reshape(-1).tolist()
        return {f"count_{at}": count for at, count in enumerate(flat)}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The number of a report."""
        outputs = self._channel.outputs
        return (Column("report", (outputs - 1).bit_length(), limit=outputs),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: how often each report came."""
        return self._channel.outputs

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        return (self._channel.sample(codes, draws),)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.sums_size)

    def _raw(self, state: State) -> Vector:
        return np.asarray(self._weights @ (state.sums / state.users), np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        """Return the largest of all values, the rest of the frequency spread evenly."""
        squares = self._channel.probabilities @ (self._weights**2).T
        own = np.diag(squares)
        others = (squares.sum(axis=0) - own) / (self.k - 1)
        each = np.multiply.outer(frequencies, own) + np.multiply.outer(1 - frequencies, others)
        return np.asarray(each.max(axis=-1) - frequencies, np.float64)

    def _variances(self, users: int, frequencies: Vector, population: bool) -> Vector:
        squares = self._channel.probabilities @ (self._weights**2).T
        found = np.asarray(frequencies @ squares - frequencies, np.float64) / users
        return found + frequencies * (1 - frequencies) / users if population else found

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.min()) < 0 or int(sums.sum()) != users:
            return f"expected counts that add up to {users}, the number of reports"
        return ""
