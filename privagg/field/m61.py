"""Compiled arithmetic modulo p = 2**61 - 1.

Products are made of 30- and 31-bit halves so that everything fits 64-bit lanes and LLVM vectorises
the loops: with ``a = a1 * 2**30 + a0`` and ``b = b1 * 2**31 + b0``,

    a * b = a0*b0 + 2**30 * (a1*b0 + 2*a0*b1) + 2**61 * a1*b1,   and 2**61 = 1 (mod p).

The masks on halves that are small anyway tell LLVM so: it then emits one 32 x 32 -> 64 multiply
instead of a full 64-bit one, which halves the time.

Values inside a loop are *lazy*: congruent to the element, below a bound stated at the place, and
made canonical once at the end.
"""

from __future__ import annotations

import numpy as np

from privagg._jit import kernel
from privagg.field.checks import Elements

__all__ = [
    "SMALL_POINT",
    "add",
    "dot",
    "evaluate",
    "inverse",
    "lagrange_weights_at_zero",
    "matmul",
    "mul",
    "mul_add",
    "sub",
    "sum_rows",
    "weighted_sum",
]

SMALL_POINT = 2**31
"""Horner's rule takes two multiplications, not four, at points below this."""

_P = np.uint64(2**61 - 1)
_0, _1 = np.uint64(0), np.uint64(1)
_29, _30, _31, _32, _61 = (np.uint64(k) for k in (29, 30, 31, 32, 61))
_LOW_29 = np.uint64(2**29 - 1)
_LOW_30 = np.uint64(2**30 - 1)
_LOW_31 = np.uint64(2**31 - 1)
_LOW_32 = np.uint64(2**32 - 1)
_TWO_32 = np.uint64(2**32)
_TILE = 512  # columns whose accumulators stay in the first-level cache


@kernel
def _fold(value: np.uint64) -> np.uint64:
    """Any value -> a congruent one, at most p + 7."""
    return (value & _P) + (value >> _61)


@kernel
def _canonical(value: np.uint64) -> np.uint64:
    """Any value -> its canonical representative."""
    folded = (value & _P) + (value >> _61)
    return folded - _P if folded >= _P else folded


@kernel
def _product(a: np.uint64, b: np.uint64) -> np.uint64:
    """Two values of at most p + 7 -> their product, lazy, below 2**63.

    ``a1 <= 2**31`` and ``b1 <= 2**30`` would be off by one bit at exactly p + 1 to p + 7, so the
    masks are one bit wider than the canonical halves.
    """
    a0, a1 = a & _LOW_30, (a >> _30) & _LOW_32
    b0, b1 = b & _LOW_31, (b >> _31) & _LOW_31
    middle = a1 * b0 + ((a0 + a0) & _LOW_31) * b1  # < 2**62 + 2**61
    return a0 * b0 + a1 * b1 + (middle >> _31) + ((middle & _LOW_31) << _30)


@kernel
def _step_small(value: np.uint64, point: np.uint64, coefficient: np.uint64) -> np.uint64:
    """Return ``value * point + coefficient``, lazy, for any value and a point below 2**31.

    Never wraps: ``low * point < 2**63``, the two parts of ``high * point * 2**32`` are below 2**34
    and 2**61, a coefficient below 2**61.
    """
    x = point & _LOW_32
    high = (value >> _32) * x
    return (value & _LOW_32) * x + (high >> _29) + ((high & _LOW_29) << _32) + coefficient


@kernel
def _add(a: Elements, b: Elements, out: Elements) -> None:
    for i in range(out.size):
        total = a[i] + b[i]
        out[i] = total - _P if total >= _P else total


@kernel
def _sub(a: Elements, b: Elements, out: Elements) -> None:
    for i in range(out.size):
        total = a[i] + (_P - b[i])
        out[i] = total - _P if total >= _P else total


@kernel
def _mul(a: Elements, b: Elements, out: Elements) -> None:
    for i in range(out.size):
        out[i] = _canonical(_product(a[i], b[i]))


@kernel
def _mul_add(a: Elements, b: Elements, c: Elements, out: Elements) -> None:
    for i in range(out.size):
        out[i] = _canonical(_product(a[i], b[i]) + c[i])


@kernel
def _invert_one(a: np.uint64) -> np.uint64:
    """Fermat: ``a**(p - 2)``; p - 2 is 59 ones, a zero and a one."""
    power = a
    for _ in range(58):
        power = _fold(_product(_fold(_product(power, power)), a))
    power = _fold(_product(power, power))
    return _canonical(_product(_fold(_product(power, power)), a))


@kernel
def _inverse(a: Elements, out: Elements) -> None:
    """Montgomery's trick: one inversion and three multiplications an element."""
    running = _1
    for i in range(a.size):
        out[i] = running
        running = _fold(_product(running, a[i]))
    running = _invert_one(running)
    for i in range(a.size - 1, -1, -1):
        out[i] = _canonical(_product(running, out[i]))
        running = _fold(_product(running, a[i]))


@kernel
def _dot(a: Elements, b: Elements) -> np.uint64:
    # Two sums of 32-bit halves cannot wrap below 2**32 terms, and vectorise.
    low, high = _0, _0
    for i in range(a.size):
        term = _fold(_product(a[i], b[i]))
        low += term & _LOW_32
        high += term >> _32
    return _canonical(_product(_fold(high), _TWO_32) + _fold(low))


@kernel
def _weighted_sum(weights: Elements, rows: Elements, out: Elements) -> None:
    """Four rows a pass: the sums of their products are folded together, not one by one."""
    t, m = rows.shape
    quads = t - t % 4
    tile = np.empty(_TILE, np.uint64)
    for start in range(0, m, _TILE):
        stop = min(m, start + _TILE)
        n = stop - start
        tile[:] = _0
        for k in range(0, quads, 4):
            w, x, y, z = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            w0, w1 = w & _LOW_30, (w >> _30) & _LOW_31
            x0, x1 = x & _LOW_30, (x >> _30) & _LOW_31
            y0, y1 = y & _LOW_30, (y >> _30) & _LOW_31
            z0, z1 = z & _LOW_30, (z >> _30) & _LOW_31
            w2, x2 = (w0 + w0) & _LOW_31, (x0 + x0) & _LOW_31
            y2, z2 = (y0 + y0) & _LOW_31, (z0 + z0) & _LOW_31
            # Rows are sliced before the loop: an index with an offset would not vectorise.
            row_w, row_x = rows[k][start:stop], rows[k + 1][start:stop]
            row_y, row_z = rows[k + 2][start:stop], rows[k + 3][start:stop]
            for i in range(n):
                a, b, c, d = row_w[i], row_x[i], row_y[i], row_z[i]
                a0, a1 = a & _LOW_31, (a >> _31) & _LOW_30
                b0, b1 = b & _LOW_31, (b >> _31) & _LOW_30
                c0, c1 = c & _LOW_31, (c >> _31) & _LOW_30
                d0, d1 = d & _LOW_31, (d >> _31) & _LOW_30
                # Each a0*b0 + a1*b1 is below 2**62, four of them below 2**64; each middle part is
                # below 2**62 + 2**61, two of them below 2**64.
                outer = w0 * a0 + w1 * a1 + x0 * b0 + x1 * b1
                outer += y0 * c0 + y1 * c1 + z0 * d0 + z1 * d1
                first = w1 * a0 + w2 * a1 + x1 * b0 + x2 * b1
                second = y1 * c0 + y2 * c1 + z1 * d0 + z2 * d1
                total = _fold(outer) + (first >> _31) + (second >> _31)
                total += ((first & _LOW_31) << _30) + ((second & _LOW_31) << _30)
                tile[i] = _fold(total + tile[i])
        for k in range(quads, t):
            weight = weights[k]
            row = rows[k][start:stop]
            for i in range(n):
                tile[i] = _fold(_product(row[i], weight) + tile[i])
        part = out[start:stop]
        for i in range(n):
            part[i] = _canonical(tile[i])


@kernel
def _sum_rows(rows: Elements, out: Elements) -> None:
    for start in range(0, out.size, _TILE):
        stop = min(out.size, start + _TILE)
        part = out[start:stop]
        for k in range(rows.shape[0]):
            row = rows[k][start:stop]
            for i in range(stop - start):
                total = part[i] + row[i]
                part[i] = total - _P if total >= _P else total


@kernel
def _matmul(a: Elements, b: Elements, out: Elements) -> None:
    for i in range(a.shape[0]):
        _weighted_sum(a[i], b, out[i])


@kernel
def _evaluate_small(coefficients: Elements, points: Elements, out: Elements) -> None:
    """Horner's rule at points below 2**31, all points abreast."""
    t, m = coefficients.shape
    value = np.empty(points.size, np.uint64)
    for j in range(m):
        value[:] = _0
        for k in range(t - 1, -1, -1):
            coefficient = coefficients[k, j]
            for i in range(points.size):
                value[i] = _step_small(value[i], points[i], coefficient)
        for i in range(points.size):
            out[i, j] = _canonical(value[i])


@kernel
def _evaluate_any(coefficients: Elements, points: Elements, out: Elements) -> None:
    """Horner's rule at any points, all points abreast."""
    t, m = coefficients.shape
    value = np.empty(points.size, np.uint64)
    for j in range(m):
        value[:] = _0
        for k in range(t - 1, -1, -1):
            coefficient = coefficients[k, j]
            for i in range(points.size):
                value[i] = _fold(_product(value[i], points[i]) + coefficient)
        for i in range(points.size):
            out[i, j] = _canonical(value[i])


@kernel
def _evaluate_wide(coefficients: Elements, points: Elements, out: Elements) -> None:
    """Few points, many polynomials: one weighted sum of the coefficient rows a point."""
    t = coefficients.shape[0]
    powers = np.empty(t, np.uint64)
    for i in range(points.size):
        power = _1
        for k in range(t):
            powers[k] = power
            power = _canonical(_product(power, points[i]))
        _weighted_sum(powers, coefficients, out[i])


@kernel
def _lagrange_denominators(points: Elements, out: Elements) -> None:
    """Write ``x_i * prod_(j != i) (x_j - x_i)``; the inner loop runs over i to vectorise."""
    for i in range(points.size):
        out[i] = points[i]
    for j in range(points.size):
        raised = points[j] + _P
        for i in range(points.size):
            factor = _fold(raised - points[i])
            factor = _1 if i == j else factor
            out[i] = _fold(_product(out[i], factor))
    for i in range(points.size):
        out[i] = _canonical(out[i])


def _flat(a: Elements) -> Elements:
    return np.ascontiguousarray(a).reshape(-1)


def add(a: Elements, b: Elements) -> Elements:
    """Return ``a + b``, element by element; the shapes agree."""
    out = np.empty(a.shape, np.uint64)
    _add(_flat(a), _flat(b), out.reshape(-1))
    return out


def sub(a: Elements, b: Elements) -> Elements:
    """Return ``a - b``, element by element; the shapes agree."""
    out = np.empty(a.shape, np.uint64)
    _sub(_flat(a), _flat(b), out.reshape(-1))
    return out


def mul(a: Elements, b: Elements) -> Elements:
    """Return ``a * b``, element by element; the shapes agree."""
    out = np.empty(a.shape, np.uint64)
    _mul(_flat(a), _flat(b), out.reshape(-1))
    return out


def mul_add(a: Elements, b: Elements, c: Elements) -> Elements:
    """Return ``a * b + c``, element by element; the shapes agree."""
    out = np.empty(a.shape, np.uint64)
    _mul_add(_flat(a), _flat(b), _flat(c), out.reshape(-1))
    return out


def inverse(a: Elements) -> Elements:
    """Return ``1 / a``, element by element; no element may be 0."""
    out = np.empty(a.shape, np.uint64)
    _inverse(_flat(a), out.reshape(-1))
    return out


def dot(a: Elements, b: Elements) -> Elements:
    """Return the 0-d sum of the products of two vectors of one length, below 2**32."""
    return np.array(_dot(_flat(a), _flat(b)), np.uint64)


def sum_rows(rows: Elements) -> Elements:
    """Return the sum of the rows, shape (m,)."""
    out = np.zeros(rows.shape[1], np.uint64)
    _sum_rows(np.ascontiguousarray(rows), out)
    return out


def weighted_sum(weights: Elements, rows: Elements) -> Elements:
    """Return ``sum_k weights[k] * rows[k]``, shape (m,)."""
    out = np.empty(rows.shape[1], np.uint64)
    _weighted_sum(_flat(weights), np.ascontiguousarray(rows), out)
    return out


def matmul(a: Elements, b: Elements) -> Elements:
    """Return the product of two matrices, (n, t) and (t, m)."""
    out = np.empty((a.shape[0], b.shape[1]), np.uint64)
    _matmul(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
    return out


def evaluate(coefficients: Elements, points: Elements) -> Elements:
    """Return the value of every polynomial (column) at every point, shape (n, m)."""
    n, m = points.size, coefficients.shape[1]
    out = np.empty((n, m), np.uint64)
    coefficients, points = np.ascontiguousarray(coefficients), _flat(points)
    small = n == 0 or int(points.max()) < SMALL_POINT
    if n < m and not (small and n >= 128):
        _evaluate_wide(coefficients, points, out)
    elif small:
        _evaluate_small(coefficients, points, out)
    else:
        _evaluate_any(coefficients, points, out)
    return out


def lagrange_weights_at_zero(points: Elements) -> Elements:
    """Return ``prod_(j != i) x_j / (x_j - x_i)`` for every i; points distinct and nonzero."""
    points = _flat(points)
    denominators = np.empty_like(points)
    _lagrange_denominators(points, denominators)
    product = 1
    for point in points.tolist():
        product = product * point % int(_P)
    return mul(inverse(denominators), np.full_like(points, product))
