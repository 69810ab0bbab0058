"""Compiled kernels of Reed-Solomon decoding modulo 2**61 - 1.

What is computed and why it is right: :mod:`privagg.field.reed_solomon`. Here polynomials lie in
arrays of fixed length, the constant term first, with their degree beside them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel
from privagg.field import m61
from privagg.field.checks import Elements
from privagg.field.m61 import _canonical, _dot, _fold, _invert_one, _product

__all__ = ["decode"]

_P = np.uint64(2**61 - 1)
_0, _1 = np.uint64(0), np.uint64(1)


@kernel
def _vanishing(points: Elements, out: Elements) -> None:
    """Write the m + 1 coefficients of the product of all ``x - points[i]``."""
    out[:] = _0
    out[0] = _1
    for i in range(points.size):
        root = _P - points[i]
        for k in range(i + 1, 0, -1):
            out[k] = _fold(_product(out[k], root) + out[k - 1])
        out[0] = _fold(_product(out[0], root))
    for k in range(out.size):
        out[k] = _canonical(out[k])


@kernel
def _interpolate(master: Elements, points: Elements, factors: Elements, out: Elements) -> None:
    """Row by row, write the sum of ``factors[row, i] * master / (x - points[i])``.

    Horner's rule runs through the coefficients of all quotients abreast, the highest first.
    """
    m = points.size
    value = np.zeros(m, np.uint64)
    for k in range(m - 1, -1, -1):
        coefficient = master[k + 1]
        for i in range(m):
            value[i] = _fold(_product(value[i], points[i]) + coefficient)
        for row in range(factors.shape[0]):
            out[row, k] = _dot(factors[row], value)


@kernel
def _degree(a: Elements, highest: int) -> int:
    """Degree of a polynomial that is known to be at most `highest`; -1 for zero."""
    while highest >= 0 and a[highest] == _0:
        highest -= 1
    return highest


@kernel
def _add_multiple(target: Elements, source: Elements, factor: np.uint64) -> None:
    for k in range(source.size):
        target[k] = _canonical(_product(source[k], factor) + target[k])


@kernel
def _solve(master: Elements, word: Elements, out: Elements) -> bool:
    """Gao's algorithm on one word's polynomial; write the coefficients it finds.

    The cofactor that belongs to a remainder has degree ``m - d``, d the degree of the remainder
    before it. While the loop runs the divisor has degree (m + t) / 2 or more, so that the next
    cofactor has degree e = (m - t) // 2 at most.
    """
    m, threshold = word.size, out.size
    longest = (m - threshold) // 2 + 1
    rest, divisor = master.copy(), word.copy()
    cofactor, next_cofactor = np.zeros(longest, np.uint64), np.zeros(longest, np.uint64)
    next_cofactor[0] = _1
    high, low = m, _degree(word, m - 1)
    while 2 * low >= m + threshold:
        inverse = _invert_one(divisor[low])
        terms = m - high + 1
        for shift in range(high - low, -1, -1):
            factor = _P - _canonical(_product(rest[low + shift], inverse))
            _add_multiple(rest[shift:], divisor[: low + 1], factor)
            _add_multiple(cofactor[shift:], next_cofactor[:terms], factor)
        rest, divisor = divisor, rest
        cofactor, next_cofactor = next_cofactor, cofactor
        high, low = low, _degree(divisor, low - 1)
    degree = m - high  # of next_cofactor
    if low - degree >= threshold:
        return False
    out[:] = _0
    inverse = _invert_one(next_cofactor[degree])
    for shift in range(low - degree, -1, -1):
        factor = _canonical(_product(divisor[shift + degree], inverse))
        out[shift] = factor
        _add_multiple(divisor[shift:], next_cofactor[: degree + 1], _P - factor)
    return _degree(divisor, low) < 0


def decode(
    points: Elements, weights: Elements, words: Elements, threshold: int
) -> tuple[Elements, NDArray[np.bool_]] | None:
    """Do what :func:`privagg.field.reed_solomon.decode` says."""
    m, columns = words.shape
    points = np.ascontiguousarray(points)
    master = np.empty(m + 1, np.uint64)
    _vanishing(points, master)
    # 1 / G'(x_i) = -w_i * x_i / G(0), with w the weights at zero.
    minus_inverse = pow(-int(master[0]), -1, int(_P))
    factors = m61.mul(m61.mul(weights, points), np.full(m, minus_inverse, np.uint64))
    scaled = m61.mul(np.broadcast_to(factors, (columns, m)), words.T)
    polynomials = np.empty((columns, m), np.uint64)
    _interpolate(master, points, scaled, polynomials)
    coefficients = np.empty((columns, threshold), np.uint64)
    for column in range(columns):
        if not _solve(master, polynomials[column], coefficients[column]):
            return None
    differs = m61.evaluate(coefficients.T, points) != words
    return coefficients[:, 0].copy(), differs
