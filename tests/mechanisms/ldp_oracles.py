"""The frequency oracles under test, and statistics that accept the right scale and no other."""

from __future__ import annotations

import numpy as np

from privagg.domain import Categorical
from privagg.mechanisms import make

Z = 4.5
"""Standard deviations that a correct mechanism may be off: once in 150,000 tests."""


def domain(k):
    return Categorical([f"v{i}" for i in range(k)])


SMALL = {"hashes": 8, "width": 16}
"""Sketches in tests: as small as the values are few."""


def oracle(name, k, epsilon, **options):
    if name in {"cms", "hcms"} and not options:
        options = SMALL
    return make(name, domain(k), epsilon, **options)


def skewed(k, n):
    """Return n codes: half of them 0, the rest spread, the last value held by nobody."""
    codes = np.zeros(n, np.uint32)
    others = np.arange(n // 2) % max(k - 2, 1) + (1 if k > 2 else 0)
    codes[: n // 2] = others
    return codes


def raw_runs(mechanism, codes, runs, entropy):
    """Return ``(runs, k)`` raw estimates of the same respondents, who report in each run."""
    reports = mechanism.randomize_codes(np.tile(codes, runs), entropy)
    n = codes.size
    states = [mechanism.aggregate(reports[i * n : (i + 1) * n]) for i in range(runs)]
    return np.stack([mechanism._raw(state) for state in states])


def frequencies(codes, k):
    return np.bincount(codes, minlength=k) / codes.size


def bias_scores(raw, truth, variance):
    """Return how many standard deviations the mean of the runs is off, value by value."""
    return (raw.mean(axis=0) - truth) / np.sqrt(variance / len(raw))


def variance_score(raw, truth, variance):
    """Return how many standard deviations the mean squared error is off from `variance`.

    The deviation of the mean over runs of the values' mean standardised square is measured from
    the runs themselves, which are independent; the values need not be.
    """
    each = ((raw - truth) ** 2 / variance).mean(axis=1)
    return (each.mean() - 1) / (each.std(ddof=1) / np.sqrt(len(each)))
