"""Guess a respondent's value from one report: how often the best guess is right, per oracle.

With all values equally likely, the best guess is any of the values that the report supports, and
any value at all where it supports none. Closed forms of the success, with k values:

=====================  =========================================================================
GRR, any with 1 value  p
subset selection       p / w
unary encoding         (1 - p) (1 - q)**(k - 1) / k + sum_m p / m C(k - 1, m - 1)
                       q**(m - 1) (1 - q)**(k - m)
local hashing          near p (1 - (1 - c)**k) / (k c) + (1 - p) (1 - c)**(k - 1) / k, with c = 1/g
=====================  =========================================================================

Local hashing's would be exact if a hash function's values were independent; the paper's
e**epsilon / ((e**epsilon + g - 1) max(k / g, 1)) also takes all cells for equally full. Source:
Arcolezi et al., PVLDB 2023, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.attacks.ldp_arguments import check_oracle, check_seed
from privagg.errors import UsageError
from privagg.mechanisms import (
    GRR,
    SHE,
    FrequencyOracle,
    LocalHashing,
    PureOracle,
    Reports,
    SubsetSelection,
    UnaryEncoding,
)
from privagg.mechanisms._kernels.hashing import hash_values

__all__ = ["GuessSuccess", "chunks", "guess", "guess_success", "guessing_rate", "supports"]


_MOST_SUPPORTS = 1 << 21
"""Supports of values that are held at once."""

_MOST_KINDS = 1 << 14
"""Different reports, each of which is decoded by itself."""


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

    Returns
    -------
    GuessSuccess

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    check_oracle(oracle)
    count = whole("trials", trials, 1, 10**8)
    check_seed(seed)
    rng = np.random.default_rng(seed)
    source = entropies.from_seed(seed).spawn("guess")
    right = 0
    for part in chunks(oracle, count):
        codes = rng.integers(0, oracle.k, part, dtype=np.uint32)
        right += int((guess(oracle, oracle.randomize_codes(codes, source), rng) == codes).sum())
    success = right / count
    expected = guessing_rate(oracle)
    return GuessSuccess(
        trials=count,
        success=success,
        error=math.sqrt(max(success * (1 - success), 1 / count) / count),
        expected=expected,
        exact=expected is not None and not isinstance(oracle, LocalHashing),
        baseline=1 / oracle.k,
    )


def chunks(oracle: FrequencyOracle, count: int) -> Iterator[int]:
    """Yield numbers of reports that add up to `count`, of few enough to hold all their supports."""
    most = max(1, _MOST_SUPPORTS // oracle.k)
    for start in range(0, count, most):
        yield min(most, count - start)


def guessing_rate(oracle: FrequencyOracle) -> float | None:
    """Return the closed form of the success; None where there is none."""
    check_oracle(oracle)
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
        c = float(oracle.collision)
        empty = (1 - p) * (1 - c) ** (k - 1) / k
        return p * -math.expm1(k * math.log1p(-c)) / (k * c) + empty
    return None


def guess(oracle: FrequencyOracle, reports: Reports, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the best guess of each report's value: uniform among those it supports most.

    Parameters
    ----------
    oracle : FrequencyOracle
        A frequency oracle.
    reports : Reports
        What was collected.
    rng : numpy.random.Generator
        The attacker's coins, where several values are as likely.

    Returns
    -------
    (n,) int64 array
    """
    found = supports(oracle, reports)
    # Small random numbers break ties, and support decides the rest.
    ties = found + 1e-9 * rng.random(found.shape)
    return np.asarray(ties.argmax(axis=1), np.int64)


def supports(oracle: FrequencyOracle, reports: Reports) -> NDArray[np.float64]:
    """Return how much each report speaks for each value, ``(n, k)``.

    For any one report it grows with the report's probability under the value, so that the largest
    is the likeliest value and differences order likelihood ratios.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    first, n = reports.columns[0], len(reports)
    if n == 0:
        raise UsageError("reports", "none", "at least one")
    if isinstance(oracle, GRR):
        return np.asarray(np.eye(oracle.k)[first])
    if isinstance(oracle, SHE):
        counts = np.asarray(oracle.channel.counts, np.float64)
        return np.asarray(np.log(counts[1] / counts[0])[first.reshape(n, -1)])
    if isinstance(oracle, LocalHashing):
        a, b, cell = reports.columns
        found = np.empty((n, oracle.k))
        for value in range(oracle.k):
            hashed = hash_values(np.full(n, value, np.uint32), a, b, oracle.cells)
            found[:, value] = hashed == cell
        return found
    if oracle.layout[0].bitmap:
        octets = first.astype("<u8", copy=False).view(np.uint8)
        bits = np.unpackbits(octets, axis=1, bitorder="little")[:, : oracle.k]
        return np.asarray(bits, np.float64)
    if isinstance(oracle, SubsetSelection):
        found = np.zeros((n, oracle.k))
        np.put_along_axis(found, first.reshape(n, -1).astype(np.int64), 1.0, axis=1)
        return found
    # A short number: what each speaks for is what it alone adds to the estimates.
    kinds, which = np.unique(np.column_stack(reports.columns), axis=0, return_inverse=True)
    if len(kinds) > _MOST_KINDS:
        hint = "Attack it over fewer values."
        raise UsageError("oracle", oracle.name, f"up to {_MOST_KINDS} different reports", hint)
    rows = [_decoded(oracle, tuple(kind)) for kind in kinds.tolist()]
    return np.asarray(np.stack(rows)[which.reshape(-1)])


@lru_cache(maxsize=1 << 12)
def _decoded(oracle: FrequencyOracle, numbers: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the raw estimates of a single report, rounded: equal ones are equal."""
    columns = tuple(
        np.array([number], column.dtype)
        for number, column in zip(numbers, oracle.layout, strict=True)
    )
    state = oracle.aggregate(Reports(oracle.digest, oracle.layout, columns))
    return np.asarray(np.round(oracle.estimate(state, post=None).raw, 9))
