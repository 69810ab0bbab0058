"""Decoding of Reed-Solomon codes over GF(2**61 - 1), at any distinct, nonzero points.

A word is m field elements, one for each point; a codeword holds the values of a polynomial of
degree below t. Two codewords differ in at least ``m - t + 1`` places, so at most one lies within
``e = (m - t) // 2`` places of a given word: decoding finds it, or finds that there is none.

Source: S. Gao, "A new algorithm for decoding Reed-Solomon codes", in *Communications, Information
and Network Security*, Kluwer, 2003, algorithm 1. With G the polynomial that vanishes at all points
and S the one of degree below m through the word, Euclid's algorithm on (G, S) is stopped at the
first remainder R of degree below ``(m + t) / 2``. Let V be its cofactor: ``U*G + V*S = R``. If a
codeword is near enough its polynomial is R / V. The other way round, when V divides R with a
quotient f of degree below t, then ``V * (S - f)`` vanishes at every point; V has degree at most e,
so f differs from the word in at most e places. All other words are refused.

:func:`decode` runs compiled kernels, or :func:`decode_plain` with ``PRIVAGG_JIT=0``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg.field.checks import Elements
from privagg.field.params import M61
from privagg.field.plain import Plain

__all__ = ["Decoded", "decode", "decode_plain"]

Decoded = tuple[Elements, NDArray[np.bool_]]
"""Values at zero, (L,), and where the words differ from their codewords, (m, L)."""

_plain = Plain(M61)
_ONE = np.ones(1, np.uint64)


def decode(points: Elements, weights: Elements, words: Elements, threshold: int) -> Decoded | None:
    """Decode L words at the same points, each by itself.

    The arguments are not checked here; :func:`privagg.correction.correct` does so. Time is
    quadratic in m.

    Parameters
    ----------
    points : ndarray of uint64, shape (m,)
        Distinct, nonzero elements.
    weights : ndarray of uint64, shape (m,)
        Their :func:`~privagg.field.lagrange_weights_at_zero`.
    words : ndarray of uint64, shape (m, L)
        A word in each column.
    threshold : int
        Codewords have degree below this; from 1 to m.

    Returns
    -------
    tuple of ndarrays, or None
        The polynomials' values at zero, uint64 of shape (L,), and bools of shape (m, L), true where
        a word differs from its codeword: at most ``(m - threshold) // 2`` in a column. None if some
        word has no codeword that near.
    """
    if not JIT:
        return decode_plain(points, weights, words, threshold)
    from privagg.field import m61_gao

    return m61_gao.decode(points, weights, words, threshold)


def decode_plain(
    points: Elements, weights: Elements, words: Elements, threshold: int
) -> Decoded | None:
    """Do what :func:`decode` does in plain NumPy, a step of the paper at a time."""
    m, columns = words.shape
    master = _vanishing(points)
    shape = (threshold, columns)
    coefficients = np.zeros(shape, np.uint64)
    for column in range(columns):
        word = _interpolate(master, points, weights, words[:, column])
        found = _gao(master, word, m, threshold)
        if found is None:
            return None
        coefficients[: found.size, column] = found
    differs = _plain.evaluate(coefficients, points) != words
    return coefficients[0].copy(), differs


# Polynomials below: the constant term first, no zero at the end; the zero polynomial is empty.


def _trim(a: Elements) -> Elements:
    return np.trim_zeros(a, "b")


def _scale(a: Elements, factor: Elements) -> Elements:
    """Multiply a polynomial by one element, an array of shape (1,)."""
    return _plain.mul(a, np.broadcast_to(factor, a.shape))


def _times(a: Elements, b: Elements) -> Elements:
    product = np.zeros(max(a.size + b.size - 1, 0), np.uint64)
    for k in range(a.size):
        product[k : k + b.size] = _plain.add(product[k : k + b.size], _scale(b, a[k : k + 1]))
    return _trim(product)


def _minus(a: Elements, b: Elements) -> Elements:
    size = max(a.size, b.size)
    return _trim(_plain.sub(np.pad(a, (0, size - a.size)), np.pad(b, (0, size - b.size))))


def _divide(a: Elements, b: Elements) -> tuple[Elements, Elements]:
    """Return quotient and remainder; b is not zero."""
    quotient = np.zeros(max(a.size - b.size + 1, 0), np.uint64)
    rest = a.copy()
    inverse = _plain.inverse(b[-1:])
    for k in range(quotient.size - 1, -1, -1):
        top = k + b.size
        factor = _plain.mul(rest[top - 1 : top], inverse)
        quotient[k] = factor[0]
        rest[k:top] = _plain.sub(rest[k:top], _scale(b, factor))
    return quotient, _trim(rest)


def _vanishing(points: Elements) -> Elements:
    """Return the product of all ``x - points[i]``."""
    product = _ONE
    for k in range(points.size):
        root = _plain.sub(np.zeros(1, np.uint64), points[k : k + 1])
        product = _times(np.concatenate([root, _ONE]), product)
    return product


def _interpolate(
    master: Elements, points: Elements, weights: Elements, values: Elements
) -> Elements:
    """Return the polynomial of degree below m through the values (Lagrange).

    It is the sum of ``values[i] / G'(x_i)`` times ``G / (x - x_i)``. The weight at zero is
    ``-G(0) / (x_i * G'(x_i))``, which gives the former factor; Horner's rule gives the quotient.
    """
    m = points.size
    minus_inverse = _plain.inverse(_plain.sub(np.zeros(1, np.uint64), master[:1]))
    factors = _scale(_plain.mul(_plain.mul(weights, points), values), minus_inverse)
    quotients = np.zeros((m, m), np.uint64)  # row i: G / (x - x_i)
    quotients[:, m - 1] = master[m]
    for k in range(m - 1, 0, -1):
        step = _plain.mul(quotients[:, k], points)
        quotients[:, k - 1] = _plain.add(step, np.full_like(step, master[k]))
    return _trim(_plain.weighted_sum(factors, quotients))


def _gao(master: Elements, word: Elements, m: int, threshold: int) -> Elements | None:
    """Return the polynomial of the codeword near the word, if there is one."""
    before, remainder = master, word
    before_cofactor, cofactor = np.zeros(0, np.uint64), _ONE
    while 2 * (remainder.size - 1) >= m + threshold:
        quotient, rest = _divide(before, remainder)
        before, remainder = remainder, rest
        difference = _minus(before_cofactor, _times(quotient, cofactor))
        before_cofactor, cofactor = cofactor, difference
    quotient, rest = _divide(remainder, cofactor)
    return quotient if rest.size == 0 and quotient.size <= threshold else None
