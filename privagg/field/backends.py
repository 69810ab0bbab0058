"""Which code computes: compiled kernels, or plain NumPy when the JIT is off."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from privagg._jit import JIT
from privagg.field.checks import Elements, check_algebra
from privagg.field.params import M61, Algebra

__all__ = ["Backend", "backend"]


class Backend(Protocol):
    """Arithmetic of one field or ring on checked arrays of canonical elements.

    A module of functions will do. Element-wise functions take arrays of one shape. Shapes below are
    those of the elements; a field of two limbs adds its axis at the end.
    """

    def add(self, a: Elements, b: Elements) -> Elements:
        """Return ``a + b``."""

    def sub(self, a: Elements, b: Elements) -> Elements:
        """Return ``a - b``."""

    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return ``a * b``."""

    def mul_add(self, a: Elements, b: Elements, c: Elements) -> Elements:
        """Return ``a * b + c``."""

    def inverse(self, a: Elements) -> Elements:
        """Return ``1 / a``; every element has an inverse."""

    def dot(self, a: Elements, b: Elements) -> Elements:
        """Return the 0-d sum of products of two vectors."""

    def sum_rows(self, rows: Elements) -> Elements:
        """Return (m,) sums of the (n, m) rows."""

    def weighted_sum(self, weights: Elements, rows: Elements) -> Elements:
        """Return (m,) sums of the (t, m) rows with the (t,) weights."""

    def matmul(self, a: Elements, b: Elements) -> Elements:
        """Return the (n, m) product of (n, t) and (t, m)."""

    def evaluate(self, coefficients: Elements, points: Elements) -> Elements:
        """Return the (n, m) values of m polynomials, (t, m), at (n,) points."""

    def lagrange_weights_at_zero(self, points: Elements) -> Elements:
        """Return the (t,) weights of interpolation at 0 from distinct, nonzero points."""


def backend(field: Algebra) -> Backend:
    """Return the arithmetic of `field`; Numba is imported at the first call that needs it.

    Raises
    ------
    UsageError
        `field` is neither a field nor a ring.
    """
    check_algebra(field)
    return _backend(field)


@cache
def _backend(field: Algebra) -> Backend:
    if not JIT:
        from privagg.field.plain import Plain

        return Plain(field)
    if field == M61:
        from privagg.field import m61

        return m61
    from privagg.field.kernels import Kernels

    return Kernels(field)
