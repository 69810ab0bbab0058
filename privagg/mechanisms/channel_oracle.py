"""Frequencies from the reports of any finite channel."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.symbols import count_symbols
from privagg.mechanisms.base import Columns, FrequencyOracle
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State

__all__ = ["ChannelOracle", "LikeliestFrequencies", "likeliest"]


class ChannelOracle(FrequencyOracle):
    """A frequency oracle whose report is one look-up in a table of exact counts.

    The raw estimate is the least-squares inverse of the table, weighted by the reports' mean
    probabilities; it is unbiased, and its variance for frequencies f is (sum over x, y of
    f(x) P(y | x) w(v, y)**2 - f(v)) / n, with w the inverse.

    A subclass builds the channel, of as many values as the domain has.
    """

    _channel: Channel

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

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        """The least-squares inverse, (k, m).

        Raises
        ------
        UsageError
            If rows depend on one another, or so nearly that noise is all an inverse would give.
        """
        probabilities = self._channel.probabilities
        weighted = probabilities / probabilities.mean(axis=0)
        gram = weighted @ probabilities.T
        if np.linalg.cond(gram) > 1e12:
            hint = "Frequencies cannot be told apart; likeliest() still fits some."
            raise UsageError("table", "rows that depend on one another", "independent rows", hint)
        return np.asarray(np.linalg.solve(gram, weighted), np.float64)

    @cached_property
    def _squares(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._channel.probabilities @ (self._inverse**2).T
        return found

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        return (self._channel.sample(codes, draws),)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.sums_size)

    def _raw(self, state: State) -> Vector:
        return np.asarray(self._inverse @ (state.sums / state.users), np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        """Return the largest of all values, the rest of the frequency spread evenly."""
        squares = self._squares
        own = np.diag(squares)
        others = (squares.sum(axis=0) - own) / (self.k - 1)
        each = np.multiply.outer(frequencies, own) + np.multiply.outer(1 - frequencies, others)
        return np.asarray(each.max(axis=-1) - frequencies, np.float64)

    def _variances(self, users: int, frequencies: Vector, population: bool) -> Vector:
        found = np.asarray(frequencies @ self._squares - frequencies, np.float64) / users
        return found + frequencies * (1 - frequencies) / users if population else found

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.min()) < 0 or int(sums.sum()) != users:
            return f"expected counts that add up to {users}, the number of reports"
        return ""


@dataclass(frozen=True, eq=False)
class LikeliestFrequencies:
    """The frequencies under which the reports are likeliest.

    Attributes
    ----------
    values : (k,) float64 array
        Not negative, and 1 in all. Biased where some are near 0.
    variance : (k,) float64 array
        Of each, respondents counted as a sample of a large population, from the Fisher information
        of the values above 0. An approximation for many reports, and too small for values that
        came out as 0 and for tables that hardly tell values apart.
    users : int
        How many reports were counted.
    rounds : int
        How many steps were made.
    converged : bool
        Whether they came to rest, else the limit on steps ended them.
    log_likelihood : float
        Of `values`, per report, in nats.
    """

    values: Vector = field(repr=False)
    variance: Vector = field(repr=False)
    users: int
    rounds: int
    converged: bool
    log_likelihood: float


def likeliest(
    channel: Channel, counts: Any, *, tolerance: float = 1e-3, limit: int = 10_000
) -> LikeliestFrequencies:
    """Fit frequencies to the counts of a channel's reports by expectation maximisation.

    It needs no inverse, so that it also works where reports of near values are alike: under
    geo-indistinguishability, say. It costs no privacy.

    Parameters
    ----------
    channel : Channel
        From which the reports were drawn.
    counts : (m,) int array
        How often each report came, such as ``state.sums``.
    tolerance : float
        Stop when a step gains less than this in the log-likelihood of all reports.
    limit : int
        The most steps.

    Raises
    ------
    UsageError
        If `counts` are no counts, or there are none.
    """
    observed = np.asarray(counts)
    if observed.shape != (channel.outputs,) or observed.dtype.kind not in "iu":
        found = f"{observed.dtype} array of shape {observed.shape}"
        raise UsageError("counts", found, f"({channel.outputs},) whole numbers")
    if int(observed.min()) < 0 or int(observed.sum()) == 0:
        raise UsageError("counts", "a negative one, or none", "counts from 0 of some reports")
    users = int(observed.sum())
    # Reports that never came add nothing.
    seen = observed > 0
    table = np.ascontiguousarray(channel.probabilities[:, seen])
    weights = observed[seen].astype(np.float64)
    values = np.full(channel.inputs, 1 / channel.inputs)
    before, rounds, converged = -np.inf, 0, False
    while rounds < limit:
        expected = values @ table
        likelihood = float(weights @ np.log(expected))
        if likelihood - before < tolerance:
            converged = True
            break
        before, rounds = likelihood, rounds + 1
        values = values * (table @ (weights / expected)) / users
        values /= values.sum()
    expected = values @ table
    likelihood = float(weights @ np.log(expected))
    variance = _information_variance(channel.probabilities, values, users)
    return LikeliestFrequencies(values, variance, users, rounds, converged, likelihood / users)


def _information_variance(table: Vector, values: Vector, users: int) -> Vector:
    """Return the inverse of the expected information, within frequencies that add up to 1."""
    support = np.flatnonzero(values > 1e-9)
    found = np.zeros(values.size)
    if support.size < 2:
        return found
    rows = table[support]
    information = (rows / (values @ table)) @ rows.T * users
    # An orthonormal basis of the directions that keep the sum.
    size = support.size
    basis = np.linalg.svd(np.ones((1, size)))[2][1:].T
    covariance = basis @ np.linalg.pinv(basis.T @ information @ basis, rcond=1e-12) @ basis.T
    found[support] = np.maximum(np.diag(covariance), 0.0)
    return found
