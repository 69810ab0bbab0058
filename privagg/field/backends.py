"""Which code computes: compiled kernels, or plain NumPy when the JIT is off."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from privagg._jit import JIT
from privagg.errors import UsageError
from privagg.field.checks import Elements
from privagg.field.params import M61, Field

__all__ = ["Backend", "backend"]


class Backend(Protocol):
    """Arithmetic of one field on checked arrays of canonical elements.

    A module of functions will do. Binary functions take two arrays of one shape.
    """

    def add(self, a: Elements, b: Elements) -> Elements:
        """Return ``a + b``."""

    def sub(self, a: Elements, b: Elements) -> Elements:
        """Return ``a - b``."""

    def mul(self, a: Elements, b: Elements) -> Elements:
        """Return ``a * b``."""

    def inverse(self, a: Elements) -> Elements:
        """Return ``1 / a``; no element is 0."""

    def dot(self, a: Elements, b: Elements) -> Elements:
        """Return the 0-d sum of products of two vectors."""

    def weighted_sum(self, weights: Elements, rows: Elements) -> Elements:
        """Return (m,) sums of the (t, m) rows with the (t,) weights."""

    def evaluate(self, coefficients: Elements, points: Elements) -> Elements:
        """Return the (n, m) values of m polynomials, (t, m), at (n,) points."""

    def lagrange_weights_at_zero(self, points: Elements) -> Elements:
        """Return the (t,) weights of interpolation at 0 from distinct, nonzero points."""


@cache
def backend(field: Field) -> Backend:
    """Return the arithmetic of `field`; Numba is imported at the first call that needs it.

    Raises
    ------
    UsageError
        `field` is not one of the fields that have arithmetic here.
    """
    if field != M61:
        raise UsageError("field", field.name, "a field of privagg.field.FIELDS")
    if JIT:
        from privagg.field import m61

        return m61
    from privagg.field.plain import Plain

    return Plain(field)
