"""Post-processing of raw estimates: it knows nothing of the values, and costs no privacy.

After Wang, Li, Lopuhaa-Zwakenberg, Li, Skoric, "Locally Differentially Private Frequency Estimation
with Consistency", NDSS 2020 (arXiv 1905.08320). All of :data:`METHODS` but Base-Cut
return frequencies that are not negative and add up to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.mechanisms.base import FrequencyOracle

__all__ = [
    "METHODS",
    "base_cut",
    "clip_renormalise",
    "consistent",
    "grr_mle",
    "norm_cut",
    "norm_sub",
    "post_process",
]

Vector = NDArray[np.float64]

METHODS: Mapping[str, str] = {
    "norm-sub": "the nearest frequencies that are not negative and add up to 1",
    "clip": "negative ones set to 0, the rest scaled to add up to 1",
    "base-cut": "those within the noise of zero set to 0",
    "norm-cut": "the largest kept while they add up to at most 1",
    "mle": "the most likely frequencies; generalised randomised response only",
}
"""The methods by name, and what each does."""


def post_process(method: str, raw: Vector, users: int, oracle: FrequencyOracle) -> Vector:
    """Apply a method by name to the raw estimates of `oracle` from so many reports."""
    if method == "norm-sub":
        return norm_sub(raw)
    if method == "clip":
        return clip_renormalise(raw)
    if method == "base-cut":
        return base_cut(raw, float(oracle.variance(users, 0.0)) ** 0.5)
    if method == "norm-cut":
        return norm_cut(raw)
    from privagg.mechanisms.grr import GRR

    if not isinstance(oracle, GRR):
        raise UsageError("post", "mle", f"another method for {oracle.name}: {', '.join(METHODS)}")
    return grr_mle(raw, float(oracle.p), float(oracle.q))


def norm_sub(raw: Any) -> Vector:
    """Subtract one number from all and set what is negative to 0, such that they add up to 1.

    This is the point of the probability simplex that is nearest to `raw` (Euclidean distance).

    Parameters
    ----------
    raw : (k,) float array
        Finite estimates. They are not changed.

    Raises
    ------
    UsageError
        If `raw` is no vector of finite numbers.
    """
    values = _checked(raw)
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, values.size + 1)
    kept = int(np.flatnonzero(ordered > excess)[-1])
    return _renormalised(np.maximum(values - excess[kept], 0.0))


def clip_renormalise(raw: Any) -> Vector:
    """Set negative ones to 0 and scale the rest to add up to 1; uniform if nothing is left.

    Parameters and errors as for :func:`norm_sub`.
    """
    values = np.maximum(_checked(raw), 0.0)
    if not values.sum() > 0:
        return np.full(values.size, 1.0 / values.size)
    return _renormalised(values)


def base_cut(raw: Any, deviation: Any, alpha: float = 0.05) -> Vector:
    """Set to 0 what may well be noise alone; keep the rest as it is.

    The threshold is the ``1 - alpha / k`` quantile of an estimate whose frequency is 0: with
    probability about ``1 - alpha`` no value that nobody holds is kept.

    Parameters
    ----------
    raw : (k,) float array
        Finite estimates.
    deviation : float or (k,) float array
        Standard deviation of an estimate whose frequency is 0.
    alpha : float
        Probability of keeping any value that nobody holds; strictly between 0 and 1.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    values = _checked(raw)
    real = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not real or not 0 < alpha < 1:
        raise UsageError("alpha", alpha, "a number between 0 and 1")
    threshold = NormalDist().inv_cdf(1 - alpha / values.size) * np.asarray(deviation, np.float64)
    return np.where(values < threshold, 0.0, values)


def norm_cut(raw: Any) -> Vector:
    """Set negative ones to 0, then the smallest, while the rest add up to more than 1; scale.

    Where the positive ones add up to less than 1 they are kept as they are, scaled. Parameters and
    errors as for :func:`norm_sub`.
    """
    values = np.maximum(_checked(raw), 0.0)
    order = np.argsort(values, kind="stable")[::-1]
    running = np.cumsum(values[order])
    # The largest is kept even when it alone is above 1.
    kept = max(1, int(np.searchsorted(running, 1.0, side="right")))
    cut = np.zeros_like(values)
    cut[order[:kept]] = values[order[:kept]]
    return clip_renormalise(cut)


def grr_mle(raw: Any, p: float, q: float) -> Vector:
    """Return the most likely frequencies under generalised randomised response, exactly.

    The likelihood of the shares of reports phi = raw (p - q) + q is largest at
    theta = ((1 - m q) phi - s q) / (s (p - q)) on the values kept and 0 on the m others, with s the
    sum of the phi kept: the smallest phi are dropped while their theta is negative.

    Parameters
    ----------
    raw : (k,) float array
        Finite raw estimates of generalised randomised response.
    p, q : float
        Probability of the true value and of each other one in a report, ``0 < q < p < 1``.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    values = _checked(raw)
    if not 0 < q < p < 1:
        raise UsageError("q", q, f"above 0 and below p = {p}")
    phi = values * (p - q) + q
    if phi.min() < -1e-9 or abs(phi.sum() - 1) > 1e-6:
        allowed = "raw estimates of generalised randomised response with these p and q"
        raise UsageError("raw", "shares of reports that cannot be", allowed)
    order = np.argsort(phi, kind="stable")
    ordered = phi[order]
    dropped = np.arange(values.size)
    # The sum of what is kept when the smallest 0, 1, ... are dropped.
    rest = np.cumsum(ordered[::-1])[::-1]
    inside = (1 - dropped * q) * ordered > rest * q
    m = int(np.argmax(inside))
    theta = np.zeros_like(values)
    kept = order[m:]
    theta[kept] = ((1 - m * q) * phi[kept] - rest[m] * q) / (rest[m] * (p - q))
    return _renormalised(np.maximum(theta, 0.0))


def consistent(
    raw: Any, variance: Any, groups: Any, totals: Any, total_variance: Any
) -> tuple[Vector, Vector]:
    """Make estimates of values and of groups of values agree, by weighted least squares.

    Of all frequencies whose sums over the groups are the returned totals, these fit both kinds of
    estimates best, each weighted by its variance; the estimates are taken to be independent.
    Unbiased estimates stay unbiased, and no variance grows.

    Parameters
    ----------
    raw : (k,) float array
        Estimate of each value.
    variance : float or (k,) float array
        Variance of each, above 0.
    groups : (k,) int array
        The group of each value, from 0.
    totals : (m,) float array
        Estimate of each group.
    total_variance : float or (m,) float array
        Variance of each; 0 where a total is known.

    Returns
    -------
    values : (k,) float64 array
    totals : (m,) float64 array

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    values, sums = _checked(raw), _checked(totals, "totals")
    own = _variances("variance", variance, values.size)
    others = _variances("total_variance", total_variance, sums.size)
    if own.min() <= 0:
        raise UsageError("variance", "a variance of 0", "variances above 0")
    member = as_array("groups", groups)
    if member.shape != values.shape or member.dtype.kind not in "iu":
        raise UsageError("groups", f"{member.dtype} array of shape {member.shape}", "(k,) integers")
    if int(member.min()) < 0 or int(member.max()) >= sums.size:
        raise UsageError("groups", "a group out of range", f"0 to {sums.size - 1}")
    count = sums.size
    gap = sums - np.bincount(member, values, count)
    share = gap / (np.bincount(member, own, count) + others + np.where(gap == 0, 1e-300, 0.0))
    # A group without values keeps its total.
    empty = np.bincount(member, minlength=count) == 0
    found = values + own * share[member]
    return found, np.where(empty, sums, np.bincount(member, found, count))


def _variances(name: str, variance: Any, size: int) -> Vector:
    found = as_array(name, variance)
    if found.dtype.kind not in "iuf" or found.shape not in ((), (size,)):
        raise UsageError(name, f"{found.dtype} array of shape {found.shape}", f"({size},) floats")
    if not bool((np.isfinite(found) & (found >= 0)).all()):
        raise UsageError(name, "a negative or infinite one", "finite variances from 0")
    return np.broadcast_to(found.astype(np.float64), (size,))


def _renormalised(values: Vector) -> Vector:
    """Divide by the sum, which is 1 but for rounding or has just been cut."""
    return np.asarray(values / values.sum(), np.float64)


def _checked(raw: Any, name: str = "raw") -> Vector:
    values = as_array(name, raw)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
        raise UsageError(name, f"{values.dtype} array of shape {values.shape}", "(k,) floats")
    if not np.isfinite(values).all():
        raise UsageError(name, "a number that is not finite", "finite estimates")
    return values.astype(np.float64)
