"""Arithmetic in prime fields by other means: NumPy, plain Python, python-flint and galois.

Each function takes our arrays of elements, converts them before the clock starts, and returns
callables by the name of the contestant. Their results are those of ours, in types of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privagg import field
from privagg.bench.peers import Work, optional
from privagg.field import M31, Elements, Field

__all__ = ["decoders", "matrix_products", "missing", "polynomial_products", "products"]

OBJECTS = "NumPy, object arrays"


def missing() -> list[str]:
    """Return the names of the libraries that would be contestants and are not installed."""
    names = {"python-flint": "flint", "galois": "galois"}
    return [name for name, module in names.items() if optional(module) is None]


def _galois(kind: Field) -> Callable[[Elements], Any] | None:
    """Return a maker of galois' arrays from ours."""
    galois = optional("galois")
    if galois is None:
        return None
    # The generator is known: finding one for a large prime takes long.
    made = galois.GF(kind.modulus, primitive_element=kind.generator, verify=False)
    return lambda values: made(field.integers(values, kind).tolist())


def products(kind: Field, left: Elements, right: Elements) -> dict[str, Work]:
    """Return multipliers of two vectors, element by element; all of them slow.

    Parameters
    ----------
    kind : Field
        The field.
    left : (n,) array of elements
        One operand.
    right : (n,) array of elements
        The other.
    """
    p = kind.modulus
    a, b = field.integers(left, kind).tolist(), field.integers(right, kind).tolist()
    found: dict[str, Work] = {
        "plain Python integers": lambda: [x * y % p for x, y in zip(a, b, strict=True)]
    }
    make = _galois(kind)
    if make is not None:
        one, other = make(left), make(right)
        found["galois"] = lambda: one * other
    return found


def word_products(kind: Field, left: Elements, right: Elements) -> dict[str, Work]:
    """Return multipliers of two vectors whose products fit 64 bits."""
    p, a, b = np.uint64(kind.modulus), left.astype(np.uint64), right.astype(np.uint64)
    return {"NumPy, 64-bit words": lambda: a * b % p}


def matrix_products(kind: Field, left: Elements, right: Elements) -> dict[str, Work]:
    """Return multipliers of two matrices by slow means, on object arrays and by galois.

    Parameters
    ----------
    kind : Field
        The field.
    left : (n, m) array of elements
        The left operand.
    right : (m, k) array of elements
        The right one.
    """
    p = kind.modulus
    a, b = field.integers(left, kind), field.integers(right, kind)
    found: dict[str, Work] = {OBJECTS: lambda: a @ b % p}
    make = _galois(kind)
    if make is not None:
        one, other = make(left), make(right)
        found["galois"] = lambda: one @ other
    return found


def flint_matrix_product(kind: Field, left: Elements, right: Elements) -> dict[str, Work]:
    """Return python-flint's multiplier of two matrices, if it is installed."""
    flint = optional("flint")
    if flint is None:
        return {}
    a, b = (
        flint.nmod_mat(*each.shape[:2], field.integers(each, kind).ravel().tolist(), kind.modulus)
        for each in (left, right)
    )
    return {"python-flint nmod_mat": lambda: a * b}


def decoders(points: Elements, targets: Elements, shares: Elements) -> dict[str, Work]:
    """Return decoders of coded sums modulo 2**31 - 1, Lagrange's weights included.

    Parameters
    ----------
    points : (U,) array of elements
        Where the shares are values.
    targets : (m,) array of elements
        Where values are wanted.
    shares : (U, columns) array of elements
        A share in each row.
    """
    p = M31.modulus
    given, wanted = points.tolist(), targets.tolist()
    boxed = shares.astype(object)

    def weight(target: int, here: int) -> int:
        above, below = 1, 1
        for other in given:
            if other != here:
                above = above * (target - other) % p
                below = below * (here - other) % p
        return above * pow(below, -1, p) % p

    def work() -> object:
        weights = np.array([[weight(t, x) for x in given] for t in wanted], dtype=object)
        return weights @ boxed % p

    return {OBJECTS: work}


def polynomial_products(kind: Field, left: Elements, right: Elements) -> dict[str, Work]:
    """Return multipliers of two polynomials, the constant term first.

    Parameters
    ----------
    kind : Field
        The field.
    left : (n,) array of elements
        Coefficients.
    right : (m,) array of elements
        Coefficients.
    """
    flint = optional("flint")
    if flint is None:
        return {}
    a, b = (
        flint.nmod_poly(field.integers(each, kind).tolist(), kind.modulus) for each in (left, right)
    )
    return {"python-flint nmod_poly": lambda: a * b}
