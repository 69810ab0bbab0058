"""Finite channels: a table of integer counts from which reports are drawn exactly.

What a mechanism on a finite domain does is a table P(report | value). Here each row is 2**64 words
dealt out over the reports, so that drawing one is a look-up of a uniform word, and the ratio of any
two entries of a column, hence epsilon, is a fraction of integers that can be read off the table.
Noise that is continuous in the literature (Laplace, say) becomes such a table on a grid: nothing of
a float's low digits can leak, as no float is drawn.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import as_array
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.tables import looked_up, looked_up_plain
from privagg.mechanisms.exact import exp_lower, exp_upper

__all__ = ["MAX_ENTRIES", "Channel"]

MAX_ENTRIES = 2**24
"""The most entries of a table."""

_TILE = 1 << 15
_WHOLE = 2**64
_MIXES = (0.0, *(2.0**power for power in (-44, -36, -28, -20, -14)))
"""How much of the mean row is mixed into each row, until rounding does no harm."""


class Channel:
    """A table of counts: row x says how many of 2**64 words lead from value x to each report.

    Parameters
    ----------
    counts : (k, m) uint64 array
        Positive counts, those of each row adding up to 2**64; k and m at least 2.

    Raises
    ------
    UsageError
        If `counts` is no such table.
    """

    def __init__(self, counts: NDArray[np.uint64]) -> None:
        if not isinstance(counts, np.ndarray) or counts.dtype != np.uint64 or counts.ndim != 2:
            raise UsageError("counts", type(counts).__name__, "a (k, m) uint64 array")
        if min(counts.shape) < 2 or counts.size > MAX_ENTRIES:
            allowed = f"2 rows and columns or more, at most {MAX_ENTRIES} entries"
            raise UsageError("counts", f"shape {counts.shape}", allowed)
        if int(counts.min()) == 0:
            raise UsageError("counts", "a count of 0", "positive counts", "Epsilon is infinite.")
        ends = np.cumsum(counts, axis=1)
        # Sums wrap at 2**64: only there, at the end, and nowhere before.
        if ends[:, -1].any() or (ends[:, :-1] < counts[:, :-1]).any():
            raise UsageError("counts", "a row of another sum", "rows that add up to 2**64")
        self._counts = counts.copy()
        self._ends = np.ascontiguousarray(ends[:, :-1])

    @staticmethod
    def build(probabilities: Any, epsilon: float | Fraction) -> Channel:
        """Return the channel nearest to probabilities whose ratios are at most e**epsilon.

        Where rounding would lift a ratio above it, a little of the mean row, at most 2**-14, is
        mixed into every row; the channel's own probabilities are exact, and are those to use.

        Parameters
        ----------
        probabilities : (k, m) float array
            Row x is the distribution of reports for value x.
        epsilon : float or Fraction
            What the ratio within each column is bounded by, as a logarithm.

        Raises
        ------
        UsageError
            If a row is no distribution, or a ratio is above e**epsilon.
        """
        table = as_array("probabilities", probabilities)
        if table.dtype.kind not in "iuf" or table.ndim != 2 or min(table.shape) < 2:
            found = f"{table.dtype} array of shape {table.shape}"
            raise UsageError("probabilities", found, "a (k, m) array of numbers, k and m from 2")
        if table.size > MAX_ENTRIES:
            raise UsageError("probabilities", f"{table.size} entries", f"up to {MAX_ENTRIES}")
        table = table.astype(np.float64)
        sums = table.sum(axis=1)
        if not (np.isfinite(table).all() and table.min() > 0 and np.allclose(sums, 1, atol=1e-9)):
            allowed = "rows of positive numbers that add up to 1"
            raise UsageError("probabilities", "a row that is no distribution", allowed)
        bound = exp_lower(epsilon)
        worst = float((table.max(axis=0) / table.min(axis=0)).max())
        if not worst < np.inf or Fraction(worst) > exp_upper(epsilon) * Fraction(1 + 1e-9):
            found = f"a ratio of {worst:.6g}"
            raise UsageError("probabilities", found, f"ratios up to e**{float(epsilon):g}")
        mean = table.mean(axis=0)
        for mix in _MIXES:
            counts = _counts((1 - mix) * table + mix * mean)
            if counts is not None:
                made = Channel(counts)
                if made.ratio <= bound:
                    return made
        hint = "Take a smaller epsilon, or fewer reports."
        raise UsageError("epsilon", float(epsilon), "what 64-bit counts can realise", hint)

    @property
    def counts(self) -> NDArray[np.uint64]:
        """The table, ``(k, m)``; a copy."""
        return self._counts.copy()

    @property
    def inputs(self) -> int:
        """How many values there are."""
        return int(self._counts.shape[0])

    @property
    def outputs(self) -> int:
        """How many different reports there are."""
        return int(self._counts.shape[1])

    @cached_property
    def ratio(self) -> Fraction:
        """The largest ratio of two entries of one column: e to the epsilon; exact."""
        highs, lows = self._counts.max(axis=0), self._counts.min(axis=0)
        rough = highs.astype(np.float64) / lows.astype(np.float64)
        # The exact comparison is among those that rounding cannot tell apart.
        close = rough >= rough.max() * (1 - 1e-14)
        pairs = set(zip(highs[close].tolist(), lows[close].tolist(), strict=True))
        return max(Fraction(high, low) for high, low in pairs)

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """P(report | value), ``(k, m)``, as floats."""
        return self._counts.astype(np.float64) / float(_WHOLE)

    def moments(self, numbers: NDArray[np.int64]) -> list[tuple[Fraction, Fraction]]:
        """Return mean and variance of a number of each report, for each value; exact.

        Parameters
        ----------
        numbers : (reports,) int64 array
            The number that each report stands for.
        """
        found = []
        points = [int(number) for number in numbers]
        for row in self._counts.tolist():
            pairs = list(zip(row, points, strict=True))
            mean = Fraction(sum(count * point for count, point in pairs), _WHOLE)
            square = Fraction(sum(count * point * point for count, point in pairs), _WHOLE)
            found.append((mean, square - mean * mean))
        return found

    def sample(self, values: NDArray[np.uint32], draws: Draws) -> NDArray[np.uint32]:
        """Return a report for each value, one 64-bit word for each.

        Parameters
        ----------
        values : (n,) uint32 array
            Codes of the values.
        draws : Draws
            Uniform words.

        Returns
        -------
        (n,) uint32 array
        """
        out = np.empty(values.size, np.uint32)
        for start in range(0, values.size, _TILE):
            part = values[start : start + _TILE]
            words = draws.words64(part.size)
            if JIT:
                looked_up(part, words, self._ends, out[start : start + _TILE])
            else:
                out[start : start + _TILE] = looked_up_plain(part, words, self._ends)
        return out

    def __repr__(self) -> str:
        return f"Channel({self.inputs} values, {self.outputs} reports)"


def _counts(table: NDArray[np.float64]) -> NDArray[np.uint64] | None:
    """Round rows to counts; what is left over goes to each row's most likely report."""
    rows = []
    for row in table.tolist():
        # Scaling by a power of two is exact, so that only the digits below 1 are cut.
        counts = [int(probability * 2.0**64) for probability in row]
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest] += _WHOLE - sum(counts)
        if min(counts) < 1:
            return None
        rows.append(counts)
    return np.array(rows, np.uint64)
