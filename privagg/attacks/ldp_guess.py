"""Guess a respondent's value from one report: how often the best guess is right, per oracle.

With all values equally likely, the best guess is any of the values that the report supports, and
any value at all where it supports none. Closed forms of the success, with k values:

=====================  =========================================================================
GRR, any with 1 value  p
subset selection       p / w
unary encoding         (1 - p) (1 - q)**(k - 1) / k + sum_m p / m C(k - 1, m - 1)
                       q**(m - 1) (1 - q)**(k - m)
local hashing          near e**epsilon / ((e**epsilon + g - 1) max(k / g, 1))
=====================  =========================================================================

Source: Arcolezi et al., PVLDB 2023, section 3; unary encoding's form is exact for any p and q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms import (
    GRR,
    FrequencyOracle,
    LocalHashing,
    PureOracle,
    Reports,
    SubsetSelection,
    UnaryEncoding,
)

__all__ = ["GuessSuccess", "guess", "guess_success", "guessing_rate", "supports"]


@dataclass(frozen=True)
class GuessSuccess:
    """How often a value was guessed right from one report.

    Attributes
    ----------
    trials : int
        Reports attacked, of values drawn uniformly.
    success : float
        Part of them guessed right.
    error : float
        Standard error of `success`.
    expected : float or None
        The closed form, where there is one.
    exact : bool
        Whether the closed form is exact; that of local hashing is not.
    baseline : float
        1/k: guessing blindly.
    """

    trials: int
    success: float
    error: float
    expected: float | None
    exact: bool
    baseline: float


def guess_success(oracle: FrequencyOracle, *, trials: int = 4000, seed: int = 0) -> GuessSuccess:
    """Attack reports of uniformly drawn values.

    Parameters
    ----------
    oracle : FrequencyOracle
        The mechanism.
    trials : int
        Reports.
    seed : int
        The experiment is repeatable: it attacks reports that it made itself.
    """
    count = whole("trials", trials, 1, 10**8)
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, oracle.k, count, dtype=np.uint32)
    reports = oracle.randomize_codes(codes, entropies.from_seed(seed).spawn("guess"))
    success = float((guess(oracle, reports, rng) == codes).mean())
    expected = guessing_rate(oracle)
    return GuessSuccess(
        trials=count,
        success=success,
        error=math.sqrt(max(success * (1 - success), 1 / count) / count),
        expected=expected,
        exact=expected is not None and not isinstance(oracle, LocalHashing),
        baseline=1 / oracle.k,
    )


def guessing_rate(oracle: FrequencyOracle) -> float | None:
    """Return the closed form of the success; None where there is none."""
    if not isinstance(oracle, PureOracle):
        return None
    p, q, k = float(oracle.p), float(oracle.q), oracle.k
    if isinstance(oracle, GRR):
        return p
    if isinstance(oracle, SubsetSelection):
        return p / oracle.w
    if isinstance(oracle, UnaryEncoding):
        # With B others lit, binomial, E 1 / (B + 1) = (1 - (1 - q)**k) / (k q).
        return (1 - p) * (1 - q) ** (k - 1) / k + p * -math.expm1(k * math.log1p(-q)) / (k * q)
    if isinstance(oracle, LocalHashing):
        return p / max(k / oracle.g, 1)
    return None


def guess(oracle: FrequencyOracle, reports: Reports, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the best guess of each report's value: uniform among those it supports most."""
    found = supports(oracle, reports)
    # Random numbers below 1 break ties, and support decides the rest.
    ties = found + rng.random(found.shape)
    return np.asarray(ties.argmax(axis=1), np.int64)


def supports(oracle: FrequencyOracle, reports: Reports) -> NDArray[np.float64]:
    """Return how much each report supports each value, ``(n, k)``; larger steps are more likely.

    It is what the report adds to the oracle's estimate, in whole steps of its least difference.
    """
    if isinstance(oracle, GRR):
        return np.asarray(np.eye(oracle.k)[reports.columns[0]])
    if isinstance(oracle, UnaryEncoding):
        octets = reports.columns[0].astype("<u8", copy=False).view(np.uint8)
        bits = np.unpackbits(octets, axis=1, bitorder="little")[:, : oracle.k]
        return np.asarray(bits, np.float64)
    counted = isinstance(oracle, SubsetSelection | LocalHashing)
    rows = []
    for at in range(len(reports)):
        state = oracle.aggregate(reports[at : at + 1])
        found = state.sums if counted else oracle.estimate(state, post=None).raw
        rows.append(np.asarray(found, np.float64))
    if not rows:
        raise UsageError("reports", "none", "at least one")
    every = np.round(np.stack(rows), 9)
    return np.searchsorted(np.unique(every), every).astype(np.float64)
