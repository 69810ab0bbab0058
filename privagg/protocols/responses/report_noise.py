"""Exact integer noise for tables, by kind and scale, and what it costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws

__all__ = ["KINDS", "noise", "noise_epsilon", "noise_variance"]

KINDS = ("discrete-gaussian", "discrete-laplace", "none")


def noise(kind: str, scale: float, size: int, draws: Draws) -> NDArray[np.int64]:
    """Return independent integers of a law, drawn exactly.

    Parameters
    ----------
    kind : str
        ``discrete-gaussian``: P(j) proportional to exp(-j**2 / (2 scale**2)).
        ``discrete-laplace``: P(j) proportional to exp(-|j| / scale). ``none``: zeros.
    scale : float
        From 1/4 to 8192, or to 2**15 for ``discrete-laplace``.
    size : int
        How many.
    draws : Draws
        Uniform words.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    check_noise(kind, scale)
    if kind == "none":
        return np.zeros(size, np.int64)
    if kind == "discrete-laplace":
        from privagg.mechanisms.discrete_laplace import discrete_laplace

        return discrete_laplace(1 / Fraction(scale)).sample(size, draws)
    from privagg.mechanisms.integer_noise import integer_noise

    return integer_noise("discrete-gaussian", scale * scale).sample(size, draws)


def check_noise(kind: str, scale: float) -> None:
    """Refuse a kind that is unknown, and a scale without tables."""
    if kind not in KINDS:
        raise UsageError("noise", kind, " or ".join(KINDS))
    if kind == "none":
        return
    most = 8192.0 if kind == "discrete-gaussian" else 2.0**15
    real = isinstance(scale, int | float) and not isinstance(scale, bool)
    if not real or not 0.25 <= scale <= most:
        raise UsageError("scale", scale, f"0.25 to {most:g}")


def noise_variance(kind: str, scale: float) -> float:
    """Return the variance; of Gaussian noise its parameter, which it is but for small scales.

    Parameters
    ----------
    kind : str
        Of noise.
    scale : float
        The law's own parameter.
    """
    if kind == "none":
        return 0.0
    if kind == "discrete-gaussian":
        return scale * scale
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def noise_epsilon(kind: str, scale: float, moved: int, unit: int, delta: float) -> float:
    """Return epsilon where one record moves `moved` cells by up to `unit` each.

    Laplace: ``moved unit / scale``, with no delta. Gaussian: that of continuous noise of a variance
    smaller by 3, of which discrete noise is a rounding (:mod:`privagg.accounting`); where the
    variance is too small for it, by zero-concentrated differential privacy.

    Parameters
    ----------
    kind, scale
        As for :func:`noise`.
    moved, unit : int
    delta : float
        Above 0 for Gaussian noise.
    """
    if kind == "none":
        return math.inf
    if kind == "discrete-laplace":
        return moved * unit / scale
    real = isinstance(delta, int | float) and not isinstance(delta, bool)
    if not real or not 0 < delta < 1:
        raise UsageError("delta", delta, "above 0 and below 1 for Gaussian noise")
    from privagg.accounting.discrete_gaussian import sum_epsilon

    squared = float(moved * unit * unit)
    rho = squared / (2 * scale * scale)
    concentrated = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    return min(concentrated, sum_epsilon(squared, scale * scale, 1, moved, 1, delta))
