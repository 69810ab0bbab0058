"""Checks of estimates: no bias, the variance of the formula, intervals that cover."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.testing.conformance import Failed
from privagg.testing.mechanism_subject import Subject

__all__ = ["intervals_cover", "unbiased", "variance_is_the_formula"]

_USERS = 100
_COVERING_USERS = 300
_CONFIDENCE = 0.9
_SLACK = 0.03
"""What the normal approximation of counts of so many users may be off."""


def unbiased(subject: Subject) -> str:
    """Require that the mean of raw estimates is the truth, within sampling error."""
    values = [subject.values[min(at, len(subject.values) - 1)] for at in _places(subject)]
    raw = _raw(subject, values, subject.runs, "unbiased")
    truth = _truth(subject, values, raw.shape[1])
    error = raw.mean(axis=0) - truth
    deviation = raw.std(axis=0, ddof=1) / np.sqrt(len(raw))
    scores = np.abs(error) / np.maximum(deviation, 1e-300)
    limit = NormalDist().inv_cdf(1 - subject.alpha / (2 * raw.shape[1]))
    worst = int(scores.argmax())
    if scores[worst] > limit:
        raise Failed(
            f"estimate {worst} is off by {error[worst]:.4g}, {scores[worst]:.1f} standard "
            f"deviations of the mean of {len(raw)} runs (limit {limit:.1f})"
        )
    return (
        f"within {scores[worst]:.1f} of {limit:.1f} sigma; a bias of "
        f"{limit * deviation.max():.2g} would have been seen"
    )


def variance_is_the_formula(subject: Subject) -> str:
    """Require that estimates scatter as ``variance(n, ...)`` says, all holding one value."""
    parts, limit = [], NormalDist().inv_cdf(1 - subject.alpha / 4)
    for value in (subject.values[0], subject.values[-1]):
        raw = _raw(subject, [value] * _USERS, subject.runs, f"variance {value!r}")
        stated = _stated(subject, value, raw.shape[1])
        squares = (raw - raw.mean(axis=0)) ** 2 * len(raw) / (len(raw) - 1)
        ratios = squares / stated
        # Each run is one observation: the estimates of one run depend on each other.
        each = ratios.mean(axis=1)
        score = (each.mean() - 1) / (each.std(ddof=1) / np.sqrt(len(each)))
        if score > limit or (score < -limit and subject.variance_is == "exact"):
            raise Failed(
                f"estimates scatter with {each.mean():.4g} times the variance of the formula when "
                f"all hold {value!r}: {score:.1f} standard deviations (limit {limit:.1f})"
            )
        parts.append(f"{each.mean():.3f}")
    return f"{' and '.join(parts)} times the formula, within {limit:.1f} sigma"


def intervals_cover(subject: Subject) -> str:
    """Require that intervals of confidence 0.9 hold the truth so often, nearly."""
    values = [subject.values[at % len(subject.values)] for at in range(_COVERING_USERS)]
    runs = min(subject.runs, 400)
    shares = []
    for estimate in _estimates(subject, values, runs, "intervals", confidence=_CONFIDENCE):
        low, high = np.atleast_1d(estimate.low), np.atleast_1d(estimate.high)
        truth = _truth(subject, values, low.size)
        shares.append(float(((low <= truth) & (truth <= high)).mean()))
    covered = float(np.mean(shares))
    spread = max(float(np.std(shares, ddof=1)), 0.5 / runs) / np.sqrt(runs)
    limit = _SLACK + NormalDist().inv_cdf(1 - subject.alpha / 2) * float(spread)
    over = covered > _CONFIDENCE + limit and subject.variance_is == "exact"
    if covered < _CONFIDENCE - limit or over:
        raise Failed(
            f"intervals of confidence {_CONFIDENCE} held the truth in {covered:.1%} of {runs} runs "
            f"(limit {limit:.1%} to either side)"
        )
    return f"{covered:.1%} at confidence {_CONFIDENCE}, {runs} runs of {len(values)} respondents"


def _places(subject: Subject) -> list[int]:
    """Return who holds which value: half the first one, the rest spread."""
    rest = np.arange(_USERS // 2) % len(subject.values)
    return [*([0] * (_USERS - len(rest))), *rest.tolist()]


def _estimates(
    subject: Subject, values: list[Any], runs: int, label: str, **options: Any
) -> list[Any]:
    mechanism, users = subject.mechanism, len(values)
    reports = mechanism.randomize(values * runs, subject.entropy(label))
    parts = [reports[at * users : (at + 1) * users] for at in range(runs)]
    return [mechanism.estimate(mechanism.aggregate(part), **options) for part in parts]


def _raw(subject: Subject, values: list[Any], runs: int, label: str) -> NDArray[np.float64]:
    found = _estimates(subject, values, runs, label)
    return np.stack([np.atleast_1d(np.asarray(one.raw, np.float64)) for one in found])


def _truth(subject: Subject, values: list[Any], size: int) -> NDArray[np.float64]:
    """Return the frequencies, or the mean where an estimate is one number."""
    if size == 1:
        return np.array([np.mean(values)])
    codes = subject.domain.encode(values)
    return np.asarray(np.bincount(codes, minlength=size) / len(values), np.float64)


def _stated(subject: Subject, value: Any, size: int) -> NDArray[np.float64]:
    mechanism = subject.mechanism
    if size == 1:
        return np.array([mechanism.variance(_USERS, value)])
    own = int(subject.domain.encode([value])[0])
    hot = np.arange(size) == own
    return np.array([mechanism.variance(_USERS, float(one)) for one in hot])
