"""The arithmetic of the fields: products, matrices, decoding, transforms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from privagg import field
from privagg._jit import JIT
from privagg._validate import whole
from privagg.bench import peers_field
from privagg.bench.clock import race
from privagg.bench.peers import Work
from privagg.bench.rows import OURS, Case, Row, sizes
from privagg.entropy import OS
from privagg.errors import UsageError
from privagg.field import FIELDS, GOLDILOCKS, M31, M61, Field

__all__ = ["cases"]

_ROWS, _INNER = 100, 70
"""A client's encoding in LightSecAgg: 100 clients, 70 pieces."""

_PIECES = 20
"""Of which 20 hold the masks, and 50 noise."""

_PRODUCTS = {
    M31: (1 / 8, "a product of 32 bits, eight a cycle"),
    M61: (4 / 8, "four products of 32 bits, eight a cycle"),
    GOLDILOCKS: (1.0, "a product of 64 bits, one a cycle"),
    field.F128: (4.0, "four products of 64 bits, one a cycle"),
}
"""Cycles that the multiplications of one product of elements take, with vectors of 256 bits."""


def cases(
    *,
    length: int = 1 << 16,
    columns: int = 5000,
    transform: int = 1 << 20,
    repeats: int = 9,
    hertz: float | None,
) -> list[Callable[[], Case]]:
    """Return pieces of arithmetic, each to be timed when it is called.

    Parameters
    ----------
    length : int
        Elements of the vectors that are multiplied.
    columns : int
        Columns of the matrices: 100 x 70 times 70 x `columns`.
    transform : int
        Length of the transforms, a power of two from 4.
    repeats : int
        Repetitions, whose median is shown.
    hertz : float, optional
        The calibrated clock: with it, the floors that the multiplications set are shown.

    Raises
    ------
    UsageError
        If a number is not an integer from 1, or `transform` no power of two.
    """
    sizes(length=length, columns=columns, repeats=repeats)
    whole("transform", transform, 4, 2**32)
    if transform & (transform - 1):
        raise UsageError("transform", transform, "a power of two")
    floors = hertz if _has_wide_vectors() else None
    return [
        *(partial(_multiply, kind, length, repeats, floors) for kind in FIELDS.values()),
        *(partial(_matrices, kind, columns, repeats, floors) for kind in (M31, M61)),
        partial(_decode, columns, repeats),
        partial(_transform, transform, repeats, floors),
        partial(_polynomials, transform, repeats),
    ]


def _has_wide_vectors() -> bool:
    if not JIT:
        return False
    from privagg._streams.target import features

    return "avx2" in features()


def _rows(contestants: dict[str, Work], repeats: int) -> list[Row]:
    return [Row(who=w, timing=timing) for w, timing in race(contestants, repeats=repeats).items()]


def _slow(contestants: dict[str, Work], repeats: int, factor: float, how: str) -> list[Row]:
    timed = race(contestants, repeats=min(repeats, 5))
    label = f"from {how}" if factor > 1 else ""
    return [Row(who=w, timing=t.times(factor), extrapolated=label) for w, t in timed.items()]


def _multiply(kind: Field, length: int, repeats: int, hertz: float | None) -> Case:
    left, right = field.uniform(OS, length, kind), field.uniform(OS, length, kind)
    out = np.empty_like(left)
    contestants: dict[str, Work] = {f"{OURS}.field.mul": lambda: field.mul(left, right, kind)}
    if kind.modulus < 2**32:
        contestants |= peers_field.word_products(kind, left, right)
    addition = "NumPy's addition of the same words"
    timed = race(contestants | {addition: partial(np.add, left, right, out=out)}, repeats=repeats)
    floors = {addition: timed.pop(addition).best}
    if hertz is not None:
        cycles, reason = _PRODUCTS[kind]
        floors[reason] = cycles * length / hertz
    small = min(length, 4096)
    rows = [Row(who=who, timing=timing) for who, timing in timed.items()]
    slow = peers_field.products(kind, left[:small], right[:small])
    rows += _slow(slow, repeats, length / small, f"{small} products")
    return Case(
        name=f"{length} products modulo {_prime(kind)}",
        rows=rows,
        amount=length,
        unit="products",
        floors=floors,
    )


def _matrices(kind: Field, columns: int, repeats: int, hertz: float | None) -> Case:
    left = field.uniform(OS, (_ROWS, _INNER), kind)
    right = field.uniform(OS, (_INNER, columns), kind)
    contestants: dict[str, Work] = {f"{OURS}.field.matmul": lambda: field.matmul(left, right, kind)}
    rows = _rows(contestants | peers_field.flint_matrix_product(kind, left, right), repeats)
    few = min(columns, 25)
    slow = peers_field.matrix_products(kind, left, right[:, :few])
    rows += _slow(slow, repeats, columns / few, f"{few} columns")
    amount = _ROWS * _INNER * columns
    cycles, reason = _PRODUCTS[kind]
    return Case(
        name=f"a {_ROWS} x {_INNER} by {_INNER} x {columns} matrix product modulo {_prime(kind)}",
        rows=rows,
        amount=amount,
        unit="terms",
        floors={} if hertz is None else {reason: cycles * amount / hertz},
    )


def _decode(columns: int, repeats: int) -> Case:
    """LightSecAgg's server: the sum of the masks from the coded sums of 70 survivors."""
    points = np.arange(_PIECES + 1, _PIECES + 1 + _INNER, dtype=M31.dtype)
    targets = np.arange(1, _PIECES + 1, dtype=M31.dtype)
    shares = field.uniform(OS, (_INNER, columns), M31)

    def decode() -> object:
        return field.matmul(field.lagrange_weights(points, targets, M31), shares, M31)

    rows = _rows({f"{OURS}.field, weights included": decode}, repeats)
    rows += _rows(peers_field.decoders(points, targets, shares), min(repeats, 3))
    return Case(
        name=f"{_PIECES * columns} coordinates decoded from {_INNER} survivors, 2**31 - 1",
        rows=rows,
        amount=_PIECES * _INNER * columns,
        unit="terms",
    )


def _transform(length: int, repeats: int, hertz: float | None) -> Case:
    a = field.uniform(OS, length, GOLDILOCKS)
    butterflies = length // 2 * (length.bit_length() - 1)
    reason = "a product of 64 bits a butterfly, one a cycle"
    return Case(
        name=f"a transform of {length} elements modulo {_prime(GOLDILOCKS)}",
        rows=_rows({f"{OURS}.field.ntt": lambda: field.ntt(a, GOLDILOCKS)}, repeats),
        amount=butterflies,
        unit="butterflies",
        floors={} if hertz is None else {reason: butterflies / hertz},
    )


def _polynomials(length: int, repeats: int) -> Case:
    left, right = (field.uniform(OS, length // 2, GOLDILOCKS) for _ in range(2))
    contestants: dict[str, Work] = {
        f"{OURS}.field.polynomial_product": lambda: field.polynomial_product(
            left, right, GOLDILOCKS
        )
    }
    contestants |= peers_field.polynomial_products(GOLDILOCKS, left, right)
    return Case(
        name=f"two polynomials of {length // 2} coefficients multiplied by three transforms",
        rows=_rows(contestants, repeats),
        amount=length,
        unit="coefficients",
    )


def _prime(kind: Field) -> str:
    return {"m31": "2**31 - 1", "m61": "2**61 - 1", "goldilocks": "2**64 - 2**32 + 1"}.get(
        kind.name, "2**128 - 7 * 2**66 + 1"
    )
