"""Independent component analysis: FastICA, then maximum likelihood without orthogonality.

FastICA keeps the estimated sources uncorrelated. Images are not: their differences have sample
correlations of some percent, which is all of FastICA's error. The second step therefore maximises
the likelihood of independent heavy-tailed sources over *all* unmixing matrices.

Sources: Hyvärinen, "Fast and Robust Fixed-Point Algorithms for Independent Component Analysis",
IEEE TNN 1999 (symmetric decorrelation, exponential contrast); Pham and Garat, "Blind Separation of
Mixture of Independent Sources Through a Quasi-Maximum Likelihood Approach", IEEE TSP 1997; Ablin,
Cardoso, Gramfort, "Faster Independent Component Analysis by Preconditioning with Hessian
Approximations", IEEE TSP 2018 (relative gradient, the Hessian's 2 x 2 blocks).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.contrast import exp_contrast, student_score
from privagg.attacks.gradient.recovery import Floats

__all__ = ["Unmixing", "fast_ica", "likelihood_ica", "whiten"]

_BLOCK = 1 << 18
"""Numbers of the sources that are in the processor's cache at a time."""

FREEDOM = 0.3
"""Degrees of freedom of the sources' density: edges of images are rare and large."""


@dataclass(frozen=True)
class Unmixing:
    """An unmixing matrix, and how it was found.

    Attributes
    ----------
    matrix : (r, r) float array
        Rows unmix.
    iterations : int
        How many it took.
    converged : bool
        Whether the last change was below the tolerance.
    """

    matrix: Floats
    iterations: int
    converged: bool


def whiten(features: NDArray[np.floating]) -> tuple[Floats, NDArray[np.float32]]:
    """Return the matrix that makes the rows uncorrelated with unit mean square, and the result.

    Parameters
    ----------
    features : (r, m) float array
        Rows are mixtures, centred if they have a mean.
    """
    second = (features @ features.T).astype(np.float64) / features.shape[1]
    values, vectors = np.linalg.eigh(second)
    least = values[-1] * 1e-12
    matrix = (vectors / np.sqrt(np.maximum(values, least))).T
    return matrix, matrix.astype(np.float32) @ features.astype(np.float32, copy=False)


def _orthogonal(matrix: Floats) -> Floats:
    """Return the nearest orthogonal matrix: symmetric decorrelation."""
    left, _, right = np.linalg.svd(matrix)
    nearest: Floats = left @ right
    return nearest


def fast_ica(
    white: NDArray[np.float32],
    start: Floats | None = None,
    *,
    iterations: int = 200,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> Unmixing:
    """Run symmetric FastICA with the exponential contrast.

    Parameters
    ----------
    white : (r, m) float32 array
        Whitened mixtures.
    start : (r, r) float array, optional
        Where to begin; a random rotation if left out.
    iterations : int
        At most.
    tolerance : float
        Of the largest change of a row's direction, ``1 - |cos|``.
    seed : int
        Of the random rotation.
    """
    r, m = white.shape
    if start is None:
        start = np.random.default_rng(seed).normal(size=(r, r))
    matrix = _orthogonal(start)
    step = max(64, _BLOCK // r)
    change, done = np.inf, 0
    while done < iterations and change >= tolerance:
        moment = np.zeros((r, r))
        slopes = np.zeros(r)
        narrow = matrix.astype(np.float32)
        for at in range(0, m, step):
            block = white[:, at : at + step]
            outputs, slope = exp_contrast(narrow @ block)
            moment += outputs @ block.T
            slopes += slope
        new = _orthogonal((moment - slopes[:, None] * matrix) / m)
        change = float(np.abs(np.abs(np.einsum("ij,ij->i", new, matrix)) - 1).max())
        matrix = new
        done += 1
    return Unmixing(matrix, done, change < tolerance)


def likelihood_ica(
    white: NDArray[np.float32],
    start: Floats,
    *,
    iterations: int = 50,
    tolerance: float = 1e-5,
    freedom: float = FREEDOM,
) -> Unmixing:
    """Maximise the likelihood of independent Student-t sources over all invertible matrices.

    Parameters
    ----------
    white : (r, m) float32 array
        Whitened mixtures.
    start : (r, r) float array
        Where to begin: FastICA's result.
    iterations : int
        At most.
    tolerance : float
        Of the gain in mean log-likelihood per step.
    freedom : float
        Degrees of freedom of the density.
    """
    r, m = white.shape
    matrix = start.copy()
    sources = matrix.astype(np.float32) @ white
    scores, moments, loss = student_score(sources, freedom)
    value = loss / m - _log_determinant(matrix)
    diagonal = np.arange(r)
    done, gain = 0, np.inf
    while done < iterations and gain >= tolerance:
        gradient = (scores @ sources.T).astype(np.float64) / m - np.eye(r)
        squares, slopes, both = moments / m
        # Blocks [[a, 1], [1, b]] of the Hessian of each pair, made positive definite.
        first = slopes[:, None] * squares[None, :]
        second = first.T
        least = 0.5 * (first + second - np.sqrt((first - second) ** 2 + 4))
        shift = np.maximum(0.01 - least, 0)
        first, second = first + shift, second + shift
        step = -(second * gradient - gradient.T) / (first * second - 1)
        step[diagonal, diagonal] = -np.diag(gradient) / np.maximum(both + 1, 0.5)
        length, moved = 1.0, None
        while length > 1e-3:
            change = np.eye(r) + length * step
            candidate = change @ matrix
            after = change.astype(np.float32) @ sources
            new_scores, new_moments, loss = student_score(after, freedom)
            new_value = loss / m - _log_determinant(candidate)
            if new_value < value:
                moved = candidate
                break
            length /= 2
        if moved is None:
            break
        gain = value - new_value
        matrix, sources, scores, moments, value = moved, after, new_scores, new_moments, new_value
        done += 1
    return Unmixing(matrix, done, gain < tolerance)


def _log_determinant(matrix: Floats) -> float:
    """Return the logarithm of the determinant's size; minus infinity of a singular matrix."""
    return float(np.linalg.slogdet(matrix)[1])
