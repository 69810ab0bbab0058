"""Decoding of Reed-Solomon codes over a prime field, at any distinct, nonzero points.

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

:func:`decode` runs compiled kernels where the field is GF(2**61 - 1), and :func:`decode_plain` in
other fields or with ``PRIVAGG_JIT=0``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg.field.checks import Elements
from privagg.field.params import M61, Field
from privagg.field.plain import Plain

__all__ = ["Decoded", "decode", "decode_plain"]

Decoded = tuple[Elements, NDArray[np.bool_]]
"""Values at zero, (L,), and where the words differ from their codewords, (m, L)."""


def decode(
    points: Elements, weights: Elements, words: Elements, threshold: int, field: Field = M61
) -> Decoded | None:
    """Decode L words at the same points, each by itself.

    The arguments are not checked here; :func:`privagg.correction.correct` does so. Time is
    quadratic in m.

    Parameters
    ----------
    points : ndarray of field.dtype, shape (m,)
        Distinct, nonzero elements.
    weights : ndarray of field.dtype, shape (m,)
        Their :func:`~privagg.field.lagrange_weights_at_zero`.
    words : ndarray of field.dtype, shape (m, L)
        A word in each column.
    threshold : int
        Codewords have degree below this; from 1 to m.
    field : Field
        What they are elements of: a field of one limb.

    Returns
    -------
    tuple of ndarrays, or None
        The polynomials' values at zero, shape (L,), and bools of shape (m, L), true where
        a word differs from its codeword: at most ``(m - threshold) // 2`` in a column. None if some
        word has no codeword that near.
    """
    if not JIT or field != M61:
        return decode_plain(points, weights, words, threshold, field)
    from privagg.field import m61_gao

    return m61_gao.decode(points, weights, words, threshold)


def decode_plain(
    points: Elements, weights: Elements, words: Elements, threshold: int, field: Field = M61
) -> Decoded | None:
    """Do what :func:`decode` does in plain NumPy, a step of the paper at a time."""
    polynomials = _Polynomials(Plain(field))
    m, columns = words.shape
    master = polynomials.vanishing(points)
    coefficients = np.zeros((threshold, columns), field.dtype)
    for column in range(columns):
        word = polynomials.interpolate(master, points, weights, words[:, column])
        found = polynomials.gao(master, word, m, threshold)
        if found is None:
            return None
        coefficients[: found.size, column] = found
    differs = polynomials.code.evaluate(coefficients, points) != words
    return coefficients[0].copy(), differs


class _Polynomials:
    """Polynomials over a field: the constant term first, no zero at the end; zero is empty."""

    def __init__(self, code: Plain) -> None:
        self.code = code
        self.zero = np.zeros(1, code.field.dtype)
        self.one = np.ones(1, code.field.dtype)

    def scale(self, a: Elements, factor: Elements) -> Elements:
        """Multiply a polynomial by one element, an array of shape (1,)."""
        return self.code.mul(a, np.broadcast_to(factor, a.shape))

    def times(self, a: Elements, b: Elements) -> Elements:
        product = np.zeros(max(a.size + b.size - 1, 0), self.zero.dtype)
        for k in range(a.size):
            part = self.scale(b, a[k : k + 1])
            product[k : k + b.size] = self.code.add(product[k : k + b.size], part)
        return _trim(product)

    def minus(self, a: Elements, b: Elements) -> Elements:
        size = max(a.size, b.size)
        left, right = (np.pad(part, (0, size - part.size)) for part in (a, b))
        return _trim(self.code.sub(left, right))

    def divide(self, a: Elements, b: Elements) -> tuple[Elements, Elements]:
        """Return quotient and remainder; b is not zero."""
        quotient = np.zeros(max(a.size - b.size + 1, 0), self.zero.dtype)
        rest = a.copy()
        inverse = self.code.inverse(b[-1:])
        for k in range(quotient.size - 1, -1, -1):
            top = k + b.size
            factor = self.code.mul(rest[top - 1 : top], inverse)
            quotient[k] = factor[0]
            rest[k:top] = self.code.sub(rest[k:top], self.scale(b, factor))
        return quotient, _trim(rest)

    def vanishing(self, points: Elements) -> Elements:
        """Return the product of all ``x - points[i]``."""
        product = self.one
        for k in range(points.size):
            root = self.code.sub(self.zero, points[k : k + 1])
            product = self.times(np.concatenate([root, self.one]), product)
        return product

    def interpolate(
        self, master: Elements, points: Elements, weights: Elements, values: Elements
    ) -> Elements:
        """Return the polynomial of degree below m through the values (Lagrange).

        It is the sum of ``values[i] / G'(x_i)`` times ``G / (x - x_i)``. The weight at zero is
        ``-G(0) / (x_i * G'(x_i))``, which gives the former factor; Horner's rule gives the
        quotient.
        """
        m, code = points.size, self.code
        minus_inverse = code.inverse(code.sub(self.zero, master[:1]))
        factors = self.scale(code.mul(code.mul(weights, points), values), minus_inverse)
        quotients = np.zeros((m, m), self.zero.dtype)  # row i: G / (x - x_i)
        quotients[:, m - 1] = master[m]
        for k in range(m - 1, 0, -1):
            step = code.mul(quotients[:, k], points)
            quotients[:, k - 1] = code.add(step, np.full_like(step, master[k]))
        return _trim(code.weighted_sum(factors, quotients))

    def gao(self, master: Elements, word: Elements, m: int, threshold: int) -> Elements | None:
        """Return the polynomial of the codeword near the word, if there is one."""
        before, remainder = master, word
        before_cofactor, cofactor = self.zero[:0], self.one
        while 2 * (remainder.size - 1) >= m + threshold:
            quotient, rest = self.divide(before, remainder)
            before, remainder = remainder, rest
            difference = self.minus(before_cofactor, self.times(quotient, cofactor))
            before_cofactor, cofactor = cofactor, difference
        quotient, rest = self.divide(remainder, cofactor)
        return quotient if rest.size == 0 and quotient.size <= threshold else None


def _trim(a: Elements) -> Elements:
    return np.trim_zeros(a, "b")
