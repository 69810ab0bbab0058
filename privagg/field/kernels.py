"""Arithmetic of every field and ring but 2**61 - 1 by compiled kernels; see ``backends.Backend``.

The kernels are the loops of ``_loops``, compiled for the field's tag; here arrays are laid out for
them and results allocated. :class:`~privagg.field.plain.Plain` does the same without compiled code.
"""

from __future__ import annotations

import numpy as np

from privagg.field import _loops
from privagg.field._scalars import tag_of
from privagg.field.checks import Elements, check_algebra, elements, integers
from privagg.field.params import Algebra, Field

__all__ = ["Kernels"]

_POINTS = 256
"""Points whose powers are in memory at a time."""


def _inverses(values: list[int], modulus: int) -> list[int]:
    """Invert a few of Python's integers: one inversion, and three products each."""
    before = [1]
    for value in values:
        before.append(before[-1] * value % modulus)
    rest = pow(before.pop(), -1, modulus)
    inverses = []
    for value, product in zip(reversed(values), reversed(before), strict=True):
        inverses.append(rest * product % modulus)
        rest = rest * value % modulus
    return inverses[::-1]


class Kernels:
    """The arithmetic of one field or ring.

    Arguments are arrays of canonical elements, already checked; results are new C-contiguous ones.

    Parameters
    ----------
    field : Field or Ring
        What the elements belong to; not 2**61 - 1, which has kernels of its own.
    """

    def __init__(self, field: Algebra) -> None:
        check_algebra(field)
        self.field = field
        self._tag = tag_of(field)
        self._limb_axis = (field.limbs,) if field.limbs > 1 else ()
        # The kernels of rings of at most 32 bits share one compiled version.
        self._wide = isinstance(field, Field) and field.bits > 32
        narrow = field.dtype.itemsize < 4
        self._dtype = np.dtype(np.uint32) if narrow else field.dtype

    # Operands go to the kernels as read-only views, whatever they are: Numba would compile a kernel
    # anew for each mixture of arrays that are read-only and arrays that are not.

    def _flat(self, a: Elements) -> Elements:
        words = np.ascontiguousarray(a, dtype=self._dtype).reshape(-1)
        words.flags.writeable = False
        return words

    def _rows(self, a: Elements) -> Elements:
        """Return a matrix of words, the limbs of an element side by side."""
        words = np.ascontiguousarray(a, dtype=self._dtype).reshape(a.shape[0], -1)
        words.flags.writeable = False
        return words

    def _empty(self, *shape: int) -> Elements:
        return np.empty((*shape, *self._limb_axis), self._dtype)

    def _result(self, out: Elements) -> Elements:
        return out.astype(self.field.dtype, copy=False)

    def _one(self) -> Elements:
        return elements(1 % self.field.modulus, self.field)

    def add(self, a: Elements, b: Elements) -> Elements:
        """Return ``a + b``, element by element; the shapes agree."""
        out = np.empty(a.shape, self._dtype)
        count = out.size // self.field.limbs
        _loops.add_arrays(self._tag, self._flat(a), self._flat(b), out.reshape(-1), count)
        return self._result(out)

    def sub(self, a: Elements, b: Elements) -> Elements:
        """Return ``a - b``, element by element; the shapes agree."""
        out = np.empty(a.shape, self._dtype)
        count = out.size // self.field.limbs
        _loops.sub_arrays(self._tag, self._flat(a), self._flat(b), out.reshape(-1), count)
        return self._result(out)

    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return ``a * b``, element by element; the shapes agree."""
        out = np.empty(a.shape, self._dtype)
        count = out.size // self.field.limbs
        _loops.mul_arrays(self._tag, self._flat(a), self._flat(b), out.reshape(-1), count)
        return self._result(out)

    def mul_add(self, a: Elements, b: Elements, c: Elements) -> Elements:
        """Return ``a * b + c``, element by element; the shapes agree."""
        out = np.empty(a.shape, self._dtype)
        count = out.size // self.field.limbs
        flat = self._flat(a), self._flat(b), self._flat(c)
        _loops.mul_add_arrays(self._tag, *flat, out.reshape(-1), count)
        return self._result(out)

    def inverse(self, a: Elements) -> Elements:
        """Return ``1 / a``, element by element: nonzero in a field, odd in a ring."""
        out = np.empty(a.shape, self._dtype)
        count = out.size // self.field.limbs
        if count == 0:
            return self._result(out)
        words, rest = self._flat(a), np.empty_like(out)
        shape = (count, *self._limb_axis)
        lanes = min(_loops.LANES, count)
        out.reshape(shape)[:lanes] = self._one()
        last = self._empty(lanes)
        _loops.invert_forward(self._tag, words, out.reshape(-1), last.reshape(-1), count)
        products = integers(self._result(last), self.field).tolist()
        inverses = _inverses(products, self.field.modulus)
        rest.reshape(shape)[count - lanes :] = elements(inverses, self.field)
        _loops.invert_backward(self._tag, words, out.reshape(-1), rest.reshape(-1), count)
        return self._result(out)

    def sum_rows(self, rows: Elements) -> Elements:
        """Return the sum of the rows, shape (m,)."""
        out = np.zeros(rows.shape[1:], self._dtype)
        if rows.size:
            _loops.sum_rows(self._tag, self._rows(rows), out.reshape(-1), rows.shape[1])
        return self._result(out)

    def dot(self, a: Elements, b: Elements) -> Elements:
        """Return the 0-d sum of the products of two vectors of one length, below 2**30."""
        out = self._empty()
        _loops.dot(self._tag, self._flat(a), self._flat(b), out.reshape(-1), a.shape[0])
        return self._result(out)

    def weighted_sum(self, weights: Elements, rows: Elements) -> Elements:
        """Return ``sum_k weights[k] * rows[k]``, shape (m,)."""
        return np.asarray(self.matmul(weights[np.newaxis], rows)[0])

    def matmul(self, a: Elements, b: Elements) -> Elements:
        """Return the product of two matrices, (n, t) and (t, m), t below 2**30."""
        n, t, m = a.shape[0], a.shape[1], b.shape[1]
        out = np.zeros((n, m, *self._limb_axis), self._dtype)
        if n and t and m:
            left, right, rows = self._rows(a), self._rows(b), out.reshape(n, -1)
            # Products of wide elements cost more than reading them: nothing is gained by sharing.
            fours = 0 if self._wide else n - n % 4
            if fours:
                _loops.products_by_four_rows(self._tag, left[:fours], right, rows[:fours], m)
            if fours < n:
                _loops.products_by_row(self._tag, left[fours:], right, rows[fours:], m)
        return self._result(out)

    def evaluate(self, coefficients: Elements, points: Elements) -> Elements:
        """Return the value of every polynomial (column) at every point, shape (n, m)."""
        t, m, n = coefficients.shape[0], coefficients.shape[1], points.shape[0]
        if m == 1 and n:
            out = np.zeros((n, 1, *self._limb_axis), self._dtype)
            column = self._flat(coefficients[:, 0])
            _loops.horner(self._tag, column, self._flat(points), out.reshape(-1), n)
            return self._result(out)
        out = np.zeros((n, m, *self._limb_axis), self._dtype)
        for start in range(0, n if t else 0, _POINTS):
            some = points[start : start + _POINTS]
            powers = self._empty(t, len(some))
            powers[:1] = self._one()
            _loops.powers(self._tag, self._flat(some), powers.reshape(t, -1), len(some))
            vandermonde = self._result(np.swapaxes(powers, 0, 1))
            out[start : start + _POINTS] = self.matmul(vandermonde, coefficients)
        return self._result(out)

    def lagrange_weights_at_zero(self, points: Elements) -> Elements:
        """Return ``prod_(j != i) x_j / (x_j - x_i)`` for every i; points distinct and nonzero."""
        n = points.shape[0]
        denominators = np.array(points, self._dtype, order="C")
        arguments = self._flat(points), denominators.reshape(-1)
        _loops.lagrange_denominators(self._tag, *arguments, n)
        product = 1
        for point in integers(points, self.field).tolist():
            product = product * point % self.field.modulus
        numerators = np.broadcast_to(elements(product, self.field), points.shape)
        return self.mul(self.inverse(self._result(denominators)), numerators)
