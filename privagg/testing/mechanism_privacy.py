"""Checks of epsilon: enumerated where there is a table, else bounded from samples."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.ldp_binomial import lower_bound, upper_bound
from privagg.testing.conformance import Failed, Skipped
from privagg.testing.mechanism_subject import Subject

__all__ = ["epsilon_by_enumeration", "epsilon_by_sampling", "reports_follow_the_channel"]

_SAMPLES = 20_000
_ALONE = 1000
_LARGEST = 250_000
_LEVELS = 16

Features = NDArray[np.int64]
"""One row per report, one column per feature; each a small number."""


def epsilon_by_enumeration(subject: Subject) -> str:
    """Require that the largest ratio of the table is at most e**epsilon, and as stated."""
    table = _table(subject)
    mechanism = subject.mechanism
    for row in table:
        if sum(row) != 1:
            raise Failed(f"a row of probabilities adds up to {float(sum(row))}")
    if getattr(mechanism, "delta", 0.0):
        return _excess(subject, table)
    worst = Fraction(1)
    for column in zip(*table, strict=True):
        least, most = min(column), max(column)
        if least == 0 < most:
            raise Failed("a report is impossible for one value and possible for another")
        if most:
            worst = max(worst, most / least)
    found = _log(worst)
    if found > subject.epsilon:
        raise Failed(f"enumerated epsilon {found:.9g} is above the stated {subject.epsilon:.9g}")
    realised = mechanism.epsilon_realised
    if not math.isclose(found, realised, rel_tol=1e-9):
        raise Failed(f"enumerated epsilon {found:.9g}; epsilon_realised says {realised:.9g}")
    return f"{found:.6g} over {len(table)} values and {len(table[0])} reports, in fractions"


def reports_follow_the_channel(subject: Subject) -> str:
    """Require reports as often as the table says: a chi-square test of each value's."""
    table = _table(subject)
    mechanism = subject.mechanism
    codes = np.unique(subject.domain.encode(subject.values))
    z = NormalDist().inv_cdf(1 - subject.alpha / len(codes))
    worst = 0.0
    for code in codes.tolist():
        drawn = mechanism.randomize_codes(
            np.full(_SAMPLES, code, np.uint32), subject.entropy(f"channel {code}")
        )
        seen = np.bincount(np.asarray(drawn.columns[0], np.int64), minlength=len(table[0]))
        expected = np.array([float(p) for p in table[code]]) * _SAMPLES
        seen, expected = _pooled(seen, expected)
        statistic = float(((seen - expected) ** 2 / expected).sum())
        freedom = max(len(seen) - 1, 1)
        # Wilson and Hilferty, 1931: the cube root of a chi-square is nearly normal.
        nearly = ((statistic / freedom) ** (1 / 3) - 1 + 2 / (9 * freedom)) * math.sqrt(
            4.5 * freedom
        )
        worst = max(worst, nearly)
        if nearly > z:
            raise Failed(
                f"reports of code {code} do not follow the table: chi-square {statistic:.4g} with "
                f"{freedom} degrees of freedom, {nearly:.1f} standard deviations (limit {z:.1f})"
            )
    return f"{_SAMPLES} reports of each of {len(codes)} values, within {worst:.1f} of {z:.1f} sigma"


def epsilon_by_sampling(subject: Subject) -> str:
    """Require that no event tells two values apart by more than e**epsilon, by Clopper-Pearson.

    An event is learned from one half of the reports and measured on the other: a threshold on the
    sum of the log ratios of what the reports hold and of what they add to a state, which is the
    likelihood ratio where those are independent.
    """
    mechanism = subject.mechanism
    codes = np.unique(subject.domain.encode(subject.values)).tolist()
    pairs = list(combinations(sorted({codes[0], codes[len(codes) // 2], codes[-1]}), 2))
    delta = float(getattr(mechanism, "delta", 0.0))
    alpha = subject.alpha / (4 * len(pairs))
    best, where = 0.0, pairs[0]
    for pair in pairs:
        drawn = [
            mechanism.randomize_codes(
                np.full(_SAMPLES, code, np.uint32), subject.entropy(f"epsilon {pair} {code}")
            )
            for code in pair
        ]
        columns = [_columns(reports, mechanism.layout) for reports in drawn]
        sums = [_sums(mechanism, reports[:_ALONE]) for reports in drawn]
        for one, other in ((columns[0], columns[1]), (sums[0], sums[1])):
            for first, second in ((one, other), (other, one)):
                bound = _bound(first, second, alpha, delta)
                if bound > best:
                    best, where = bound, pair
    if best > subject.epsilon:
        raise Failed(
            f"epsilon is at least {best:.4g} with confidence {1 - subject.alpha:g} "
            f"(Clopper-Pearson, codes {where[0]} and {where[1]}); stated {subject.epsilon:g}"
        )
    return (
        f"at least {best:.4g}, with confidence {1 - subject.alpha:g} (Clopper-Pearson); stated "
        f"{subject.epsilon:g}, which samples cannot prove"
    )


def _table(subject: Subject) -> list[list[Fraction]]:
    mechanism = subject.mechanism
    if hasattr(mechanism, "probabilities"):
        outputs = getattr(mechanism, "cells", subject.domain.size)
        if subject.domain.size * outputs > _LARGEST:
            raise Skipped(f"a table of {subject.domain.size} by {outputs} is too large: take fewer")
        table: list[list[Fraction]] = mechanism.probabilities()
        return table
    channel = getattr(mechanism, "channel", None)
    if channel is not None:
        column, *more = mechanism.layout
        # A channel that is only part of a report, of each bit say, is not the mechanism's table.
        whole = not more and column.count == 1 and not column.bitmap
        if not whole or channel.inputs != subject.domain.size:
            raise Skipped("the channel is one of several draws of a report: see epsilon-sampled")
        return [[Fraction(c, sum(row)) for c in row] for row in channel.counts.tolist()]
    raise Skipped("no probabilities() and no channel: see epsilon-sampled")


def _excess(subject: Subject, table: list[list[Fraction]]) -> str:
    weight = Fraction(math.exp(subject.epsilon))
    worst = max(
        sum((max(p - weight * q, Fraction(0)) for p, q in zip(one, other, strict=True)), Fraction())
        for one in table
        for other in table
    )
    delta = float(subject.mechanism.delta)
    if float(worst) > delta * (1 + 1e-6):
        raise Failed(f"enumerated delta {float(worst):.4g} at that epsilon; stated {delta:.4g}")
    return f"delta {float(worst):.4g} at epsilon {subject.epsilon:g}; stated {delta:.4g}"


def _log(ratio: Fraction) -> float:
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def _pooled(seen: NDArray[Any], expected: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Join neighbouring cells until each expects 10: a chi-square needs as many."""
    groups = np.floor(np.cumsum(expected) / 10 - 1e-9).astype(np.int64)
    starts = np.flatnonzero(np.r_[True, np.diff(groups) > 0])
    seen, expected = np.add.reduceat(seen, starts), np.add.reduceat(expected, starts)
    small = expected < 5
    if small.any() and not small.all():
        keep = ~small
        seen = np.r_[seen[keep], seen[small].sum()]
        expected = np.r_[expected[keep], expected[small].sum()]
        if expected[-1] < 5:
            seen = np.r_[seen[:-2], seen[-2:].sum()]
            expected = np.r_[expected[:-2], expected[-2:].sum()]
    return seen, expected


def _columns(reports: Any, layout: Any) -> Features:
    parts = []
    for array, column in zip(reports.columns, layout, strict=True):
        values = np.asarray(array)
        if column.bitmap:
            octets = np.ascontiguousarray(values.astype("<u8")).view(np.uint8)
            bits = np.unpackbits(octets, axis=1, bitorder="little", count=column.bits)
            parts.append(bits.astype(np.int64))
        else:
            # Of a word that is too wide to be a feature, a hash's seed say, the low bits.
            wide = values.reshape(len(values), -1).astype(np.uint64)
            parts.append((wide & np.uint64(2**40 - 1)).astype(np.int64))
    return np.concatenate(parts, axis=1)


def _sums(mechanism: Any, reports: Any) -> Features:
    rows = [mechanism.aggregate(reports[at : at + 1]).sums for at in range(len(reports))]
    return np.stack(rows).astype(np.int64)


def _bound(first: Features, second: Features, alpha: float, delta: float) -> float:
    """Return a lower bound on log((P(E | first) - delta) / P(E | second)) for a learned E."""
    half = len(first) // 2
    scores, others = _scores(first, second, half)
    candidates = np.unique(np.quantile(scores[:half], np.linspace(0.02, 0.98, 33)))
    hits = [(int((scores[:half] >= t).sum()), int((others[:half] >= t).sum())) for t in candidates]
    values = [math.log((a + 1) / (b + 3 * math.sqrt(b + 1) + 9)) for a, b in hits]
    cut = candidates[int(np.argmax(values))]
    tests = len(first) - half
    low = lower_bound(int((scores[half:] >= cut).sum()), tests, alpha / 2) - delta
    high = upper_bound(int((others[half:] >= cut).sum()), tests, alpha / 2)
    return math.log(low / high) if low > 0 else 0.0


def _scores(
    first: Features, second: Features, half: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    totals = np.zeros(len(first)), np.zeros(len(second))
    for at in range(first.shape[1]):
        one, other = _levels(first[:, at], second[:, at])
        size = int(max(one.max(), other.max())) + 1
        seen = np.bincount(one[:half], minlength=size) + 0.5
        unseen = np.bincount(other[:half], minlength=size) + 0.5
        ratio = np.log(seen) - np.log(unseen)
        # A feature that chance explains would only add noise to the sum.
        ratio[np.abs(ratio) < 2.0 * np.sqrt(1 / seen + 1 / unseen)] = 0.0
        totals[0][:] += ratio[one]
        totals[1][:] += ratio[other]
    return totals


def _levels(one: Features, other: Features) -> tuple[Features, Features]:
    both = np.concatenate([one, other])
    distinct, places = np.unique(both, return_inverse=True)
    if len(distinct) > 64:
        edges = np.unique(np.quantile(both, np.linspace(0, 1, _LEVELS + 1)[1:-1]))
        places = np.searchsorted(edges, both)
    return places[: len(one)], places[len(one) :]
