"""Randomised response by a table of one's own, over any domain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from privagg._validate import as_array
from privagg.domain import Domain
from privagg.errors import UsageError
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.channel_oracle import ChannelOracle

__all__ = ["RandomizedResponse"]

_LARGEST = 512


class RandomizedResponse(ChannelOracle):
    """Randomised response with any table P(report | value).

    The reports may be others than the values, and some answers more sensitive than others. Any
    mechanism on a small domain can be written so; generalised randomised response, where all values
    are alike, is :class:`privagg.mechanisms.GRR`. The estimate is the least-squares inverse of the
    table, weighted by the reports' mean probabilities; it is unbiased, and its variance for
    frequencies f is (sum over x, y of f(x) P(y | x) w(v, y)**2 - f(v)) / n, with w the inverse.

    Source of the design: Warner, "Randomized Response: A Survey Technique for Eliminating Evasive
    Answer Bias", JASA 1965.

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
        if table is None and self.epsilon_realised < self.epsilon * (1 - 1 / 1024):
            raise UsageError(
                "epsilon", epsilon, "what 64-bit counts can realise", "GRR takes more."
            )
        _ = self._inverse  # refuses a table whose rows depend on one another

    @property
    def options(self) -> dict[str, Any]:
        """The argument `table`, if it was given."""
        return {} if self._stated is None else {"table": self._stated}
