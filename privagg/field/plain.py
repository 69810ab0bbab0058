"""Field arithmetic in plain NumPy: slow, obvious, and the tests' oracle for every kernel.

It serves ``PRIVAGG_JIT=0``. Every method follows the textbook formula by array operations that
cannot wrap; only a field's multiplication is written for that field.
"""

from __future__ import annotations

import numpy as np

from privagg.errors import UsageError
from privagg.field.checks import Elements
from privagg.field.params import M61, Field

__all__ = ["Plain"]

_LOW_32 = np.uint64(2**32 - 1)
_LOW_29 = np.uint64(2**29 - 1)
_P61 = np.uint64(2**61 - 1)
# NumPy 1 turns a mix of a uint64 scalar and a Python int into a float: constants are typed.
_3, _29, _32, _61 = np.uint64(3), np.uint64(29), np.uint64(32), np.uint64(61)


def _mul_m61(a: Elements, b: Elements) -> Elements:
    """Multiply modulo 2**61 - 1 by 32-bit halves: 2**64 = 8 and 2**61 = 1."""
    a0, a1 = a & _LOW_32, a >> _32
    b0, b1 = b & _LOW_32, b >> _32
    low = a0 * b0
    middle = a0 * b1 + a1 * b0  # < 2**62; its weight is 2**32
    high = a1 * b1  # < 2**58; its weight is 2**64
    total = (low & _P61) + (low >> _61)
    total = total + (middle >> _29) + ((middle & _LOW_29) << _32) + (high << _3)  # < 2**63
    return np.asarray(total % _P61)


class Plain:
    """The arithmetic of one field, without compiled code.

    Arguments are arrays of canonical elements, already checked; results are too.

    Parameters
    ----------
    field : Field
        The field.
    """

    def __init__(self, field: Field) -> None:
        if field != M61:
            raise UsageError("field", field.name, "m61")
        self.field = field
        self._p = field.dtype.type(field.modulus)

    def add(self, a: Elements, b: Elements) -> Elements:
        """Return ``a + b``, element by element."""
        return np.asarray((a + b) % self._p)

    def sub(self, a: Elements, b: Elements) -> Elements:
        """Return ``a - b``, element by element."""
        return np.asarray((a + (self._p - b)) % self._p)

    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return ``a * b``, element by element."""
        return _mul_m61(a, b)

    def inverse(self, a: Elements) -> Elements:
        """Return ``a**(p - 2)`` (Fermat), element by element; no element may be 0."""
        result = np.ones_like(a)
        for bit in bin(self.field.modulus - 2)[2:]:
            result = self.mul(result, result)
            if bit == "1":
                result = self.mul(result, a)
        return result

    def dot(self, a: Elements, b: Elements) -> Elements:
        """Return the 0-d sum of the products of two vectors."""
        products = self.mul(a, b)
        # Sums of 32-bit halves do not wrap below 2**32 terms.
        low, high = int((products & _LOW_32).sum()), int((products >> _32).sum())
        return np.array((low + 2**32 * high) % self.field.modulus, dtype=self.field.dtype)

    def weighted_sum(self, weights: Elements, rows: Elements) -> Elements:
        """Return ``sum_k weights[k] * rows[k]``, shape (m,)."""
        total = np.zeros(rows.shape[1], dtype=self.field.dtype)
        for weight, row in zip(weights, rows, strict=True):
            total = self.add(total, self.mul(np.full_like(row, weight), row))
        return total

    def evaluate(self, coefficients: Elements, points: Elements) -> Elements:
        """Return Horner's value of every polynomial (column) at every point, shape (n, m)."""
        column = points.reshape(-1, 1)
        value = np.zeros((points.size, coefficients.shape[1]), dtype=self.field.dtype)
        for row in coefficients[::-1]:
            value = self.add(self.mul(value, column), row)
        return value

    def lagrange_weights_at_zero(self, points: Elements) -> Elements:
        """Return ``prod_(j != i) x_j / (x_j - x_i)`` for every i."""
        numerator = np.ones_like(points)
        denominator = np.ones_like(points)
        one = np.ones_like(points)
        for j, point in enumerate(points):
            other = np.arange(points.size) != j
            here = np.full_like(points, point)
            numerator = self.mul(numerator, np.where(other, here, one))
            denominator = self.mul(denominator, np.where(other, self.sub(here, points), one))
        return self.mul(numerator, self.inverse(denominator))
