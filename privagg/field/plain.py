"""Field arithmetic in plain NumPy: slow, obvious, and the tests' oracle for every kernel.

It serves ``PRIVAGG_JIT=0``. Every method follows the textbook formula on integers that cannot wrap:
64-bit words where products of elements fit, Python's integers in object arrays elsewhere. Only
2**61 - 1, the field of the shares, has a multiplication by halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.field.checks import Elements, check_algebra
from privagg.field.params import M61, Algebra, Field

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
    return np.asarray(total % _P61, order="C")


class Plain:
    """The arithmetic of one field or ring, without compiled code.

    Arguments are arrays of canonical elements, already checked; results are new C-contiguous ones.

    Parameters
    ----------
    field : Field or Ring
        What the elements belong to.
    """

    def __init__(self, field: Algebra) -> None:
        check_algebra(field)
        self.field = field
        self._words = field.modulus < 2**32  # products fit 64-bit words
        self._m61 = field == M61

    def _wide(self, a: Elements) -> NDArray[Any]:
        """Elements -> integers in which sums and products do not wrap; no axis of limbs."""
        if self._words:
            return a.astype(np.uint64)
        if self.field.limbs == 2:
            return np.asarray(a[..., 0].astype(object) + (a[..., 1].astype(object) << 64))
        return a.astype(object)

    def _narrow(self, a: NDArray[Any]) -> Elements:
        """Integers -> the elements they are congruent to."""
        if self._words:
            return np.asarray(a % np.uint64(self.field.modulus)).astype(self.field.dtype, order="C")
        reduced = np.asarray(a % self.field.modulus, dtype=object)
        if self.field.limbs == 2:
            pair = [reduced & (2**64 - 1), reduced >> 64]
            words = [np.asarray(part).astype(np.uint64) for part in pair]
            return np.asarray(np.stack(words, axis=-1), order="C")
        return reduced.astype(self.field.dtype, order="C")

    def _one(self) -> int | np.uint64:
        return np.uint64(1) if self._words else 1

    def add(self, a: Elements, b: Elements) -> Elements:
        """Return ``a + b``, element by element."""
        if self._m61:
            return np.asarray((a + b) % _P61, order="C")
        return self._narrow(self._wide(a) + self._wide(b))

    def sub(self, a: Elements, b: Elements) -> Elements:
        """Return ``a - b``, element by element."""
        if self._m61:
            return np.asarray((a + (_P61 - b)) % _P61, order="C")
        modulus: Any = np.uint64(self.field.modulus) if self._words else self.field.modulus
        return self._narrow(self._wide(a) + (modulus - self._wide(b)))

    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return ``a * b``, element by element."""
        if self._m61:
            return _mul_m61(a, b)
        return self._narrow(self._wide(a) * self._wide(b))

    def mul_add(self, a: Elements, b: Elements, c: Elements) -> Elements:
        """Return ``a * b + c``, element by element."""
        return self.add(self.mul(a, b), c)

    def power(self, a: Elements, exponent: int) -> Elements:
        """Return ``a**exponent`` by squaring; ``0**0`` is 1."""
        result = self._narrow(np.zeros_like(self._wide(a)) + self._one())
        for bit in bin(exponent)[2:]:
            result = self.mul(result, result)
            if bit == "1":
                result = self.mul(result, a)
        return result

    def inverse(self, a: Elements) -> Elements:
        """Return ``1 / a``, element by element: nonzero in a field, odd in a ring."""
        if isinstance(self.field, Field):
            return self.power(a, self.field.modulus - 2)  # Fermat
        # The odd elements modulo 2**b are a group whose exponent divides 2**(b - 1).
        return self.power(a, 2 ** (self.field.bits - 1) - 1)

    def dot(self, a: Elements, b: Elements) -> Elements:
        """Return the 0-d sum of the products of two vectors."""
        return np.asarray(self.matmul(a[np.newaxis], b[:, np.newaxis])[0, 0])

    def sum_rows(self, rows: Elements) -> Elements:
        """Return the sum of the rows, shape (m,)."""
        total = np.zeros(rows.shape[1:], self.field.dtype)
        for row in rows:
            total = self.add(total, row)
        return total

    def weighted_sum(self, weights: Elements, rows: Elements) -> Elements:
        """Return ``sum_k weights[k] * rows[k]``, shape (m,)."""
        return np.asarray(self.matmul(weights[np.newaxis], rows)[0])

    def matmul(self, a: Elements, b: Elements) -> Elements:
        """Return the (n, m) product of (n, t) and (t, m): a sum of outer products."""
        limb_axis = a.shape[2:]
        total = np.zeros((a.shape[0], b.shape[1], *limb_axis), dtype=self.field.dtype)
        for k in range(a.shape[1]):
            column, row = np.broadcast_arrays(a[:, k][:, np.newaxis], b[k][np.newaxis])
            total = self.add(total, self.mul(column, row))
        return total

    def evaluate(self, coefficients: Elements, points: Elements) -> Elements:
        """Return Horner's value of every polynomial (column) at every point, shape (n, m)."""
        shape = (points.shape[0], *coefficients.shape[1:])
        value = np.zeros(shape, dtype=self.field.dtype)
        column = np.broadcast_to(points[:, np.newaxis], shape)
        for row in coefficients[::-1]:
            value = self.add(self.mul(value, column), np.broadcast_to(row, shape))
        return value

    def lagrange_weights_at_zero(self, points: Elements) -> Elements:
        """Return ``prod_(j != i) x_j / (x_j - x_i)`` for every i."""
        return np.asarray(self.lagrange_weights(points, np.zeros_like(points[:1]))[0])

    def lagrange_weights(self, points: Elements, targets: Elements) -> Elements:
        """Return ``prod_(k != j) (t_i - x_k) / (x_j - x_k)`` in row i, column j."""
        n, m = points.shape[0], targets.shape[0]
        one = self.power(points[:1], 0)
        numerator = np.broadcast_to(one, (m, *points.shape)).copy()
        denominator = np.broadcast_to(one, points.shape).copy()
        for k in range(n):
            others = np.flatnonzero(np.arange(n) != k)
            here = np.broadcast_to(points[k], points[others].shape)
            away = self.sub(targets, np.broadcast_to(points[k], targets.shape))
            factor = np.broadcast_to(away[:, np.newaxis], (m, *points[others].shape))
            numerator[:, others] = self.mul(numerator[:, others], factor)
            denominator[others] = self.mul(denominator[others], self.sub(points[others], here))
        inverse = np.broadcast_to(self.inverse(denominator), numerator.shape)
        return self.mul(numerator, inverse)
