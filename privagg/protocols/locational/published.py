"""The unified locational framework as published: for comparison only, never for people's data.

Source: Priyanshu, Maurya, Ganesh, Tran, "Unified Locational Differential Privacy Framework",
arXiv 2405.03903, with the mechanisms as its authors' program has them. Respondents' one-hot vectors
over the cells of a grid are made noisy, and the aggregator adds the noisy bits up. What is stated
there and what holds differ:

===================== ==================== ======================================================
its mechanism         stated               what holds of its one-hot reports
===================== ==================== ======================================================
randomised response   epsilon              2 epsilon: two respondents differ in two bits
exponential           epsilon              2 epsilon: Laplace noise of scale 1 / epsilon on both
Gaussian              (epsilon, delta)     17.9 at a stated 10, 2.2 at 2, 0.96 at 1
===================== ==================== ======================================================

The Gaussian's sensitivity is the square root of 2, not 1; up to about 1 the slack of the classical
formula makes up for that, beyond it that formula does not hold either.

Sums of noisy bits are not estimates: no mechanism is inverted. :func:`debiased` is what its
randomised response would give if it were. Integers and rankings are sent as they are, with only
their region randomised: no epsilon holds for them, so they are not here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import check_epsilon

__all__ = ["DELTA", "NAMES", "debiased", "one_hot", "true_epsilon"]

NAMES = ("randomised-response", "exponential", "gaussian")

DELTA = 1e-3
"""As published, whatever the number of respondents."""


def one_hot(
    codes: NDArray[Any], cells: int, epsilon: float, mechanism: str, generator: np.random.Generator
) -> Vector:
    """Return the frequencies that the framework publishes: sums of noisy bits over respondents.

    Parameters
    ----------
    codes : (n,) array of integers
        Each respondent's cell.
    cells : int
        How many there are.
    epsilon : float
        The framework's own, which is not the real one: see :func:`true_epsilon`.
    mechanism : str
        One of :data:`NAMES`.
    generator : numpy.random.Generator
        A simulation's: nothing here protects anybody.

    Returns
    -------
    (cells,) float64 array
    """
    _check(epsilon, mechanism)
    count = whole("cells", cells, 2, 2**24)
    found = np.asarray(codes)
    if found.ndim != 1 or found.dtype.kind not in "iu" or found.size == 0:
        raise UsageError("codes", "another array", "a (n,) array of integers, n from 1")
    if int(found.min()) < 0 or int(found.max()) >= count:
        raise UsageError("codes", "a code out of range", f"0 to {count - 1}")
    truth = np.zeros((found.size, count), np.bool_)
    truth[np.arange(found.size), found] = True
    if mechanism == "randomised-response":
        noisy = truth ^ (generator.random(truth.shape) < 1 / (1 + math.exp(epsilon)))
    elif mechanism == "exponential":
        noisy = truth + generator.laplace(0, 1 / epsilon, truth.shape) > 0.5
    else:
        noisy = truth + generator.normal(0, _sigma(epsilon), truth.shape) > 0.5
    return np.asarray(noisy.mean(axis=0), np.float64)


def debiased(frequencies: Vector, epsilon: float) -> Vector:
    """Return what :func:`one_hot` of randomised response would say, had its flips been inverted."""
    flip = 1 / (1 + math.exp(check_epsilon(epsilon)))
    return np.asarray((frequencies - flip) / (1 - 2 * flip), np.float64)


def true_epsilon(epsilon: float, mechanism: str) -> float:
    """Return what the framework's one-hot reports really have, at its delta for the Gaussian.

    Parameters
    ----------
    epsilon : float
        The framework's own.
    mechanism : str
        One of :data:`NAMES`. Of the Gaussian it is that of the noisy vector, before each entry is
        compared with 1/2.
    """
    _check(epsilon, mechanism)
    if mechanism != "gaussian":
        return 2 * epsilon
    scale = _sigma(epsilon) / math.sqrt(2)

    def excess(e: float) -> float:
        near, shift = 1 / (2 * scale), e * scale
        tail = math.exp(e + _log_phi(-near - shift))
        return _phi(near - shift) - tail - DELTA

    low, high = 0.0, 1.0
    while excess(high) > 0:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def _sigma(epsilon: float) -> float:
    return math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _log_phi(x: float) -> float:
    found = _phi(x)
    return math.log(found) if found > 0 else -math.inf


def _check(epsilon: float, mechanism: str) -> None:
    check_epsilon(epsilon)
    if not isinstance(mechanism, str) or mechanism not in NAMES:
        raise UsageError("mechanism", mechanism, ", ".join(NAMES))
