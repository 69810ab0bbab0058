"""Means of small regions, drawn towards the mean of all: the area model of Fay and Herriot.

A region's raw mean y has a known variance v; the regions' true means are taken to scatter around
their common mean m with a variance a, which is estimated from all of them. The best linear guess
is then m + (y - m) a / (a + v): regions with much noise are drawn to m, others keep what they have,
and withheld ones get m. It costs no privacy. The intervals hold what they promise on average over
regions like these, not for each region alone: one that is unlike all others is drawn too far.

Source: Fay, Herriot, "Estimates of Income for Small Places", JASA 1979; the variance a by the
adjusted likelihood of Li, Lahiri, "An Adjusted Maximum Likelihood Method for Solving Small Area
Estimation Problems", JMVA 2010, which is never 0.
"""

from __future__ import annotations

import numpy as np

from privagg.mechanisms.estimate import Vector

__all__ = ["between_variance", "smoothed"]

_STEPS = 400


def smoothed(
    ends: tuple[float, float],
    d: Vector,
    c: Vector,
    var_d: Vector,
    var_c: Vector,
    cov: Vector,
    factor: float,
) -> tuple[Vector, Vector, Vector]:
    """Return smoothed means and the ends of their intervals, in the units of a range.

    Parameters
    ----------
    ends : pair of float
        The range of the value.
    d, c, var_d, var_c, cov : (R,) float64 array
        Each region's estimated f(high) - f(low) and f(high) + f(low), and how they vary.
    factor : float
        Standard deviations of an interval to either side.
    """
    bottom, top = ends
    middle, half = (bottom + top) / 2, (top - bottom) / 2
    total = float(c.sum())
    common = float(np.clip(d.sum() / total, -1, 1)) if total > 0 else 0.0
    usable = c > factor * np.sqrt(var_c)
    if usable.sum() < 3:
        # Nothing says how much regions differ: the common mean, and the whole range.
        full = np.full(c.size, middle + half * common)
        return full, np.full(c.size, bottom), np.full(c.size, top)
    y = d[usable] / c[usable]
    # At the common mean, not at the region's own noisy one.
    v = (var_d - 2 * common * cov + common**2 * var_c)[usable] / c[usable] ** 2
    a = between_variance(y, v)
    weight = 1 / (a + v)
    mean = float((weight * y).sum() / weight.sum())
    keep = a / (a + v)
    found, spread = np.full(c.size, mean), np.full(c.size, a + 1 / weight.sum())
    found[usable] = mean + keep * (y - mean)
    # What is left of the noise; what the common mean, and what the estimate of a, add.
    spread[usable] = a * v / (a + v) + (1 - keep) ** 2 / weight.sum()
    spread[usable] += 2 * v**2 * weight**3 * 2 / (weight**2).sum()
    reach = factor * np.sqrt(spread)
    at = (
        np.clip(middle + half * one, bottom, top) for one in (found, found - reach, found + reach)
    )
    value, low, high = at
    return value, low, high


def between_variance(y: Vector, v: Vector) -> float:
    """Return how much the true means of regions vary, above 0.

    Parameters
    ----------
    y, v : (m,) float64 array
        Estimated means, and the variance of each; m at least 3.
    """
    most = max(float(y.var()), float(v.max()), 1e-12)
    candidates = most * np.geomspace(1e-6, 4.0, _STEPS)
    weight = 1 / (candidates[:, None] + v)
    total = weight.sum(axis=1)
    mean = (weight * y).sum(axis=1) / total
    fit = (weight * (y - mean[:, None]) ** 2).sum(axis=1)
    # The residual likelihood, times a.
    score = np.log(candidates) + 0.5 * (np.log(weight).sum(axis=1) - np.log(total) - fit)
    return float(candidates[int(np.argmax(score))])
