"""Exact discrete Laplace numbers, P(j) proportional to exp(-s |j|), from uniform bits by inversion.

How they are drawn is said at :mod:`privagg.mechanisms.integer_noise`: the decay s is a fraction,
the probabilities lie between integers that are proven bounds, no float decides a draw and none is
rounded. Not promised: constant time.

Source: Ghosh, Roughgarden, Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", STOC
2009, for the law (the two-sided geometric one); what floats do instead: Mironov, CCS 2012.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from privagg.errors import UsageError
from privagg.mechanisms._enclosures import DiscreteLaplace
from privagg.mechanisms.integer_noise import IntegerNoise

__all__ = ["LARGEST_SCALE", "discrete_laplace"]

LARGEST_SCALE = 1 << 15
"""The table has about 90 entries for each unit of the scale 1 / s."""


@lru_cache(maxsize=16, typed=True)
def discrete_laplace(decay: Fraction) -> IntegerNoise:
    """Return the sampler of a decay s.

    Parameters
    ----------
    decay : Fraction
        From 1 / :data:`LARGEST_SCALE` to 64.

    Raises
    ------
    UsageError
        If it is out of its range.
    """
    if not isinstance(decay, Fraction) or not Fraction(1, LARGEST_SCALE) <= decay <= 64:
        raise UsageError("decay", decay, f"a Fraction from 1/{LARGEST_SCALE} to 64")
    return IntegerNoise(DiscreteLaplace(decay))
