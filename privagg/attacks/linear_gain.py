"""How noisy is a determined input? The gain of noise, and the cosine that varying inputs leave.

The estimator of input i is the shortest w with ``w @ A = e_i``: row i of the transposed
pseudo-inverse. Sums that carry independent noise of standard deviation s give the input with noise
of ``s * |w|``: the gain is ``|w|``, the root of entry (i, i) of the pseudo-inverse of ``A.T @ A``.

If client j sends ``g_j + s * e`` with fresh e each round, round t carries the variance
``s**2 * q_t``, where q_t is the sum of its squared weights (its cohort's size, for weights 0 and
1), and what is recovered has with ``g_i`` the cosine ``1 / sqrt(1 + s**2 * sum_t w_t**2 q_t)``, for
inputs of like length. Noise added to the sums for privacy adds to ``s**2 * q_t``.

Computed in floating point from factors of A itself, never of ``A.T @ A``, which squares the
condition number. The rank is known exactly, so no tolerance decides what a singular value of zero
is; an estimator that does not give back what it should is marked unreliable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gains", "noise_gains"]

_TRUSTED = 1e-6  # largest error of an estimator that is called reliable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gains:
    """Of each determined input.

    Attributes
    ----------
    gain : (m,) float array
        Norm of the estimator: standard deviation of the result over that of the sums' noise.
    inputs : (m,) float array
        ``sum_t w_t**2 q_t``: variance of the result over that of one input's variation.
    reliable : (m,) bool array
        Whether floating point gave the estimator to six digits. Where not, the sums are so nearly
        dependent that `gain` is an order of magnitude at best.
    """

    gain: Floats
    inputs: Floats
    reliable: NDArray[np.bool_]

    def cosine(self, variation: float, noise: float = 0.0) -> Floats:
        """Return the expected cosine of each recovered input with the true one.

        Parameters
        ----------
        variation : float
            Standard deviation of an input's change from round to round, over its own norm.
        noise : float
            Standard deviation of the noise in each sum, over an input's norm.
        """
        variance = variation**2 * self.inputs + noise**2 * self.gain**2
        cosine: Floats = 1 / np.sqrt(1 + variance)
        return cosine


def noise_gains(weights: NDArray[Any], determined: NDArray[np.intp], rank: int) -> Gains:
    """Return the gains of determined inputs.

    Parameters
    ----------
    weights : array, shape (rounds, clients)
        The functionals.
    determined : int array, shape (m,)
        Columns of the inputs.
    rank : int
        Of the matrix, exactly.
    """
    count = len(determined)
    if not count:
        none = np.zeros(0)
        return Gains(none, none, np.zeros(0, np.bool_))
    matrix = np.asarray(weights, dtype=np.float64)
    largest = float(np.abs(matrix).max())
    matrix = matrix / largest
    squares = (matrix**2).sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        gain, spread, error = _estimators(matrix, determined, rank, squares)
    reliable = np.asarray(error < _TRUSTED)
    ceiling = np.finfo(np.float64).max
    return Gains(
        np.nan_to_num(gain / largest, nan=ceiling, posinf=ceiling),
        np.nan_to_num(spread, nan=ceiling, posinf=ceiling),
        reliable,
    )


def _estimators(
    matrix: Floats, columns: NDArray[np.intp], rank: int, squares: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return norms of the estimators, ``sum_t w_t**2 * squares_t``, and errors on random inputs."""
    rounds, clients = matrix.shape
    probe = np.where(np.random.default_rng(0).random((clients, 4)) < 0.5, -1.0, 1.0)
    alike = bool((squares == squares[0]).all())
    if rank == clients <= rounds and alike:
        # A = Q R with independent columns: the pseudo-inverse is R**-1 Q.T, of the norms of R**-1.
        r = np.asarray(np.linalg.qr(matrix, mode="r"), np.float64)
        inverse = _triangular_inverse(r)
        if inverse is not None:
            gain = np.linalg.norm(inverse, axis=1)[columns]
            error = np.abs(inverse @ (r @ probe) - probe)[columns].max(axis=1)
            return gain, squares[0] * gain**2, error
    estimators = _pseudo_inverse_rows(matrix, columns, rank)
    error = np.abs(estimators @ (matrix @ probe) - probe[columns]).max(axis=1)
    return np.linalg.norm(estimators, axis=1), estimators**2 @ squares, error


def _pseudo_inverse_rows(matrix: Floats, columns: NDArray[np.intp], rank: int) -> Floats:
    """Return rows of the pseudo-inverse, shape (m, rounds)."""
    rounds, clients = matrix.shape
    if rank == clients <= rounds:
        q, r = np.linalg.qr(matrix)
        inverse = _triangular_inverse(r)
        if inverse is not None:
            return np.asarray(inverse[columns] @ q.T)
    elif rank == rounds < clients:
        q, r = np.linalg.qr(matrix.T)
        inverse = _triangular_inverse(r)
        if inverse is not None:
            return np.asarray(q[columns] @ inverse.T)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    floor = np.finfo(np.float64).tiny
    scaled = right[:rank, columns].T / np.maximum(singular[:rank], floor)
    return np.asarray(scaled @ left[:, :rank].T)


def _triangular_inverse(r: Floats) -> Floats | None:
    """Invert an upper triangular matrix, unless a pivot is zero in floating point."""
    if not np.abs(np.diag(r)).min() > 0:
        return None
    return np.asarray(np.linalg.inv(r), np.float64)
