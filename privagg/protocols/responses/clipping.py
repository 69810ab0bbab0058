"""The range that responses are clipped to: bought with privacy, and what clipping took.

Clipping a Gaussian response to a range keeps the part ``kappa = P(low < y < high)`` of its
dependence on the features (Stein): estimates from clipped responses are divided by it. Mean and
variance of the clipped responses, which the released sums show up to known noise, determine those
of the responses, and so kappa: no response is looked at again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, describe
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.discrete_laplace import discrete_laplace

__all__ = ["PaidRange", "Unclipped", "unclipped"]

Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PaidRange:
    """A symmetric range about a public centre, chosen among public candidates from noisy counts.

    How many responses lie between two neighbouring candidates is counted with discrete Laplace
    noise of epsilon ``share``; a replaced response moves two counts by 1. The least candidate with
    at most the part `beyond` above it is taken, by the noisy counts, which is post-processing.

    Parameters
    ----------
    candidates : sequence of float
        Distances from the centre, ascending and above 0; chosen without looking at responses.
    centre : float
    beyond : float
        The part of responses that may be clipped.
    share : float
        The part of epsilon that the counts cost; the sums get the rest.

    Raises
    ------
    UsageError
        If a field is out of its range.
    """

    candidates: tuple[float, ...]
    centre: float = 0.0
    beyond: float = 0.1
    share: float = 0.1

    def __post_init__(self) -> None:
        table = as_array("candidates", self.candidates)
        if table.ndim != 1 or table.dtype.kind not in "iuf" or not 1 <= table.size <= 10_000:
            raise UsageError("candidates", describe(table), "1 to 10,000 numbers")
        if not (table[0] >= 1e-100 and (table[1:] > table[:-1]).all() and table[-1] <= 1e100):
            raise UsageError("candidates", "others", "ascending numbers from 1e-100 to 1e100")
        for name, low, high in (
            ("centre", -1e100, 1e100),
            ("beyond", 1e-9, 1 - 1e-9),
            ("share", 1e-9, 1 - 1e-9),
        ):
            value = getattr(self, name)
            real = isinstance(value, Real) and not isinstance(value, bool)
            if not real or not low <= value <= high:
                raise UsageError(name, value, f"{low:g} to {high:g}")
        if table[0] < 1e-12 * abs(self.centre):
            raise UsageError("candidates", "too small beside the centre", "from 1e-12 of it")

    def choose(self, values: NDArray[Any], paid: Fraction, draws: Draws) -> tuple[float, float]:
        """Return the range.

        Parameters
        ----------
        values : (n,) array
        paid : Fraction
            What it costs of epsilon.
        draws : Draws
        """
        ends = np.asarray(self.candidates, np.float64)
        cells = np.searchsorted(ends, np.abs(values - self.centre), side="left")
        counts = np.bincount(cells, minlength=ends.size + 1)
        noisy = counts + discrete_laplace(paid / 2).sample(counts.size, draws)
        above = np.cumsum(noisy[::-1])[::-1][1:]
        fits = np.flatnonzero(above <= self.beyond * values.size)
        bound = float(ends[fits[0] if fits.size else -1])
        return self.centre - bound, self.centre + bound


@dataclass(frozen=True)
class Unclipped:
    """Responses before clipping, if they are Gaussian.

    Attributes
    ----------
    mean, deviation : float
        1 and NaN of a response that does not vary, or whose sums say too little.
    kappa : float
        The part of the dependence on features that clipping keeps; 1 where nothing is known.
    """

    mean: float
    deviation: float
    kappa: float


def unclipped(
    sums: Reals, sizes: NDArray[np.int64], ends: tuple[float, float], noise: float
) -> Unclipped:
    """Return what the sums of clipped responses say of the responses themselves.

    Parameters
    ----------
    sums : (m,) array
        Of random bags: rows of a bag are independent.
    sizes : (m,) int64 array
    ends : (float, float)
        The range.
    noise : float
        The variance of the noise on each sum.
    """
    low, high = ends
    mean = float(sums.sum() / sizes.sum())
    spread = float(((sums - sizes * mean) ** 2 - noise).sum() / sizes.sum())
    width = high - low
    if not 1e-6 * width * width < spread < 0.249 * width * width or not low < mean < high:
        return Unclipped(mean, math.nan, 1.0)
    at, deviation = mean, math.sqrt(spread)
    for _ in range(500):
        m, v, _kept = _moments(at, deviation, low, high)
        if abs(m - mean) < 1e-10 * width and abs(v - spread) < 1e-10 * width * width:
            break
        at = min(max(at + mean - m, low - 10 * width), high + 10 * width)
        deviation = min(deviation * math.sqrt(spread / v), 100 * width)
    else:
        return Unclipped(mean, math.nan, 1.0)
    return Unclipped(at, deviation, _moments(at, deviation, low, high)[2])


def _moments(mean: float, deviation: float, low: float, high: float) -> tuple[float, float, float]:
    """Return mean and variance of a clipped Gaussian number, and the probability of no clipping."""
    a, b = (low - mean) / deviation, (high - mean) / deviation
    below, above = math.erfc(-a / math.sqrt(2)) / 2, math.erfc(b / math.sqrt(2)) / 2
    inside = 1 - below - above
    pa, pb = (math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (a, b))
    # Of the standard number clipped to [a, b].
    first = a * below + b * above + pa - pb
    second = a * a * below + b * b * above + inside + a * pa - b * pb
    return mean + deviation * first, deviation**2 * max(second - first**2, 1e-300), inside
