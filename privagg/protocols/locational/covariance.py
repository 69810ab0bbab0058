"""How the estimates of two cells vary together: what the error of a region's sum and mean rests on.

Of a report, given its respondent's cell, the chances that it supports both of two cells are known
in closed form: one where the respondent is in one of the two (`own`), one where it is in neither
(`other`). With p and q those of supporting the own cell and another,

    n (p - q)**2 Cov(a, b) = (f(a) + f(b)) (own - p q) + (1 - f(a) - f(b)) (other - q**2).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privagg.mechanisms import GRR, PGR, FrequencyOracle, HadamardResponse, SubsetSelection
from privagg.mechanisms.base import PureOracle
from privagg.mechanisms.estimate import Vector
from privagg.protocols.locational.privset import PrivSet

__all__ = ["both", "pair_covariances", "sum_variances"]

Cells = NDArray[np.int64]


def both(oracle: PureOracle) -> tuple[Fraction, Fraction]:
    """Return the chances that a report supports both of two cells: `own` and `other`.

    Those of unary encoding are products, its bits being independent. Local hashing's are taken to
    be; three values of its pairwise independent functions nearly are. Projective geometry's `other`
    is the mean over all respondents' points.
    """
    p, q = oracle.p, oracle.q
    if isinstance(oracle, GRR):
        return Fraction(0), Fraction(0)
    if isinstance(oracle, SubsetSelection):
        k, w = oracle.k, oracle.w
        if k < 3:
            return p * (w - 1), Fraction(0)
        beside = Fraction((w - 1) * (w - 2), (k - 1) * (k - 2))
        without = Fraction(w * (w - 1), (k - 1) * (k - 2))
        return p * Fraction(w - 1, k - 1), p * beside + (1 - p) * without
    if isinstance(oracle, PrivSet):
        n, w, m, hits = oracle.elements, oracle.w, oracle.m, oracle.hits
        pairs = math.comb(n - 2, w - 2) if w > 1 else 0
        gone = math.comb(n - m - 2, w - 2) if w > 1 and n - m > 1 else 0
        own = hits.share * Fraction(pairs, hits.hit)
        held = hits.share * Fraction(pairs - gone, hits.hit)
        return own, held + (1 - hits.share) * Fraction(gone, hits.miss)
    if isinstance(oracle, PGR):
        field, t = oracle.field, oracle.dimension
        points, plane, meet, triple = (
            (field ** max(0, t - less) - 1) // (field - 1) for less in (0, 1, 2, 3)
        )
        # A third point lies on the line through two with this chance; then their planes meet alike.
        on_line = Fraction(field - 1, points - 2) if points > 2 else Fraction(0)
        shared = on_line * meet + (1 - on_line) * triple
        own = p * Fraction(meet, plane)
        return own, p * shared / plane + (1 - p) * (meet - shared) / (points - plane)
    return p * q, q * q


def pair_covariances(
    oracle: FrequencyOracle, users: int, frequencies: Vector, first: Cells, second: Cells
) -> Vector:
    """Return the covariance of the raw estimates of pairs of different cells.

    Parameters
    ----------
    oracle : FrequencyOracle
        What the reports are of.
    users : int
        Number of reports.
    frequencies : (k,) float64 array
        Of all cells.
    first, second : (m,) int64 arrays
        The pairs.

    Returns
    -------
    (m,) float64 array
    """
    if isinstance(oracle, HadamardResponse):
        return _hadamard(oracle, users, frequencies, first, second)
    if not isinstance(oracle, PureOracle):
        return np.zeros(first.size)  # independent noise
    own, other = both(oracle)
    p, q = oracle.p, oracle.q
    scale = users * (p - q) ** 2
    near, far = float((own - p * q) / scale), float((other - q * q) / scale)
    held = frequencies[first] + frequencies[second]
    return np.asarray(held * near + (1 - held) * far, np.float64)


def sum_variances(
    oracle: FrequencyOracle, users: int, frequencies: Vector, variances: Vector, cells: Cells
) -> Vector:
    """Return the variances of sums of the raw estimates of cells.

    Parameters
    ----------
    oracle, users, frequencies
        As for :func:`pair_covariances`.
    variances : (k,) float64 array
        Of each cell's estimate.
    cells : (r, m) int64 array
        Which are summed, in each row.

    Returns
    -------
    (r,) float64 array
    """
    total = np.asarray(variances[cells].sum(axis=1), np.float64)
    m = cells.shape[1]
    if isinstance(oracle, PureOracle):
        # Covariances are linear in the two frequencies, so that pairs need not be gone through.
        own, other = both(oracle)
        p, q = oracle.p, oracle.q
        scale = users * (p - q) ** 2
        near, far = float((own - p * q) / scale), float((other - q * q) / scale)
        held = frequencies[cells].sum(axis=1)
        total += far * m * (m - 1) + (near - far) * 2 * (m - 1) * held
    elif isinstance(oracle, HadamardResponse):
        for at in range(m - 1):
            rest = cells[:, at + 1 :]
            first = np.broadcast_to(cells[:, at : at + 1], rest.shape)
            total += 2 * _hadamard(oracle, users, frequencies, first, rest).sum(axis=1)
    return np.maximum(total, 0.0)


def _hadamard(
    oracle: HadamardResponse, users: int, frequencies: Vector, first: Cells, second: Cells
) -> Vector:
    """Return those of Hadamard response: of one block, its third row's frequency."""
    blocks = oracle.blocks
    row = (first // blocks + 1) ^ (second // blocks + 1)
    third = (row - 1) * blocks + first % blocks
    there = (first % blocks == second % blocks) & (row > 0) & (third < frequencies.size)
    found = frequencies[np.where(there, third, 0)] / (users * float(oracle.p - oracle.q))
    return np.where(there, found, 0.0)
