"""Kernels of independent component analysis: contrasts and their moments in one pass.

Each has a plain NumPy twin, which is the tests' oracle and runs where nothing is compiled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel

__all__ = ["Singles", "exp_contrast", "student_score", "student_score_plain"]

Singles = NDArray[np.float32]


def exp_contrast(sources: Singles) -> tuple[Singles, NDArray[np.float64]]:
    """Return ``s exp(-s^2 / 2)`` and the row sums of its derivative.

    Parameters
    ----------
    sources : (r, m) float32 array
        Estimated sources; overwritten.
    """
    squares = np.square(sources)
    weights = squares * np.float32(-0.5)
    np.exp(weights, out=weights)
    slopes = np.einsum("ij,ij->i", squares, weights, dtype=np.float64)
    total = weights.sum(axis=1, dtype=np.float64)
    np.multiply(sources, weights, out=sources)
    return sources, total - slopes


def student_score_plain(
    sources: Singles, freedom: float
) -> tuple[Singles, NDArray[np.float64], float]:
    """Return scores, moments and the loss of a Student-t density, in plain NumPy.

    Parameters
    ----------
    sources : (r, m) float32 array
        Estimated sources.
    freedom : float
        Degrees of freedom.

    Returns
    -------
    scores : (r, m) float32 array
        ``(1 + nu) s / (nu + s^2)``.
    moments : (3, r) float array
        Row sums of ``s^2``, of the scores' derivative, and of their product.
    loss : float
        ``(1 + nu) / 2 * sum log(1 + s^2 / nu)``.
    """
    s = sources.astype(np.float64)
    squares = s * s
    share = 1 / (1 + squares / freedom)
    slope = (1 + freedom) / freedom * share * (2 * share - 1)
    scores = ((1 + freedom) / freedom * s * share).astype(np.float32)
    moments = np.stack([squares.sum(1), slope.sum(1), (slope * squares).sum(1)])
    return scores, moments, float(-(1 + freedom) / 2 * np.log(share).sum())


@kernel
def _student(
    sources: Singles, freedom: float, scores: Singles, moments: NDArray[np.float64]
) -> float:
    inverse = np.float32(1.0 / freedom)
    factor = np.float32((1.0 + freedom) / freedom)
    one, two = np.float32(1.0), np.float32(2.0)
    logs = 0.0
    rows, columns = sources.shape
    for i in range(rows):
        # A product of 16 terms takes one logarithm; float32 holds (1 + 50^2 / nu)^8.
        for start in range(0, columns, 512):
            stop = min(start + 512, columns)
            squares = np.float32(0.0)
            slopes = np.float32(0.0)
            both = np.float32(0.0)
            for j in range(start, stop):
                s = sources[i, j]
                square = s * s
                share = one / (one + square * inverse)
                slope = factor * share * (two * share - one)
                scores[i, j] = factor * s * share
                squares += square
                slopes += slope
                both += slope * square
            moments[0, i] += squares
            moments[1, i] += slopes
            moments[2, i] += both
        product = 1.0
        count = 0
        for j in range(columns):
            s = sources[i, j]
            product *= 1.0 + np.float64(s) * np.float64(s) / freedom
            count += 1
            if count == 24:
                logs += np.log(product)
                product = 1.0
                count = 0
        logs += np.log(product)
    return logs


def student_score(sources: Singles, freedom: float) -> tuple[Singles, NDArray[np.float64], float]:
    """As :func:`student_score_plain`, compiled where that is possible."""
    if not JIT:
        return student_score_plain(sources, freedom)
    scores = np.empty_like(sources)
    moments = np.zeros((3, len(sources)))
    logs = _student(np.ascontiguousarray(sources), float(freedom), scores, moments)
    return scores, moments, (1 + freedom) / 2 * float(logs)
