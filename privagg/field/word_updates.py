"""Compiled steps of elimination modulo a prime below 2**32: ``target -= left @ right``, and rows.

What elimination spends its time on. Odd primes below 2**31 have the fast kernel: sums of two
products fit 63 bits, a sum that reaches 2**63 loses the largest multiple of p below that, and what
is left is reduced without a division (Montgomery, twice), for which the factors of `left` come in
times 2**64. Other primes take a kernel that sums the halves of products, and divides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import inlined, kernel
from privagg.field.checks import Elements

__all__ = ["hold_rows", "is_fast", "subtract_product"]

_0, _2, _3, _32 = (np.uint64(k) for k in (0, 2, 3, 32))
_LOW = np.uint64(2**32 - 1)
_TOP = np.uint64(2**63)
_TILE = 512  # columns whose sums stay in the first-level cache
_DEPTH = 256  # rows of `right` that a tile stays for in the second-level cache


@inlined
def _kept(total: np.uint64, multiple: np.uint64) -> np.uint64:
    """Take a multiple of p off a sum that reaches 2**63; below 2**63 + p is left."""
    return total - (multiple if total >= _TOP else _0)


@kernel
def _sum_two(
    one: Elements,
    two: Elements,
    right: Elements,
    start: np.uint64,
    stride: np.uint64,
    a: Elements,
    b: Elements,
    multiple: np.uint64,
) -> None:
    """Add four rows of `right`, times `a` and times `b`, to two rows of sums."""
    second, third, fourth = start + stride, start + _2 * stride, start + _3 * stride
    a0, a1, a2, a3 = a[0] & _LOW, a[1] & _LOW, a[2] & _LOW, a[3] & _LOW
    b0, b1, b2, b3 = b[0] & _LOW, b[1] & _LOW, b[2] & _LOW, b[3] & _LOW
    for i in range(np.uint64(one.size)):
        x, y = np.uint64(right[start + i]), np.uint64(right[second + i])
        z, w = np.uint64(right[third + i]), np.uint64(right[fourth + i])
        first = _kept(one[i] + (a0 * x + a1 * y), multiple)
        one[i] = _kept(first + (a2 * z + a3 * w), multiple)
        other = _kept(two[i] + (b0 * x + b1 * y), multiple)
        two[i] = _kept(other + (b2 * z + b3 * w), multiple)


@kernel
def _sum_one(
    sums: Elements,
    right: Elements,
    start: np.uint64,
    stride: np.uint64,
    a: Elements,
    multiple: np.uint64,
) -> None:
    """Add four rows of `right`, times `a`, to one row of sums."""
    second, third, fourth = start + stride, start + _2 * stride, start + _3 * stride
    a0, a1, a2, a3 = a[0] & _LOW, a[1] & _LOW, a[2] & _LOW, a[3] & _LOW
    for i in range(np.uint64(sums.size)):
        x, y = np.uint64(right[start + i]), np.uint64(right[second + i])
        z, w = np.uint64(right[third + i]), np.uint64(right[fourth + i])
        first = _kept(sums[i] + (a0 * x + a1 * y), multiple)
        sums[i] = _kept(first + (a2 * z + a3 * w), multiple)


@inlined
def _halved(value: np.uint64, p: np.uint64, negated: np.uint64) -> np.uint64:
    """Return ``value / 2**32`` modulo p, at most ``value // 2**32 + p``.

    With ``m = -value / p`` modulo 2**32, ``value + m * p`` is divisible by 2**32.
    """
    low = value & _LOW
    return (value >> _32) + ((low + ((low * negated) & _LOW) * p) >> _32)


@kernel
def _finish(
    sums: Elements, target: Elements, start: np.uint64, p: np.uint64, negated: np.uint64
) -> None:
    """Subtract ``sums / 2**64`` from a part of the target, everything canonical."""
    for i in range(np.uint64(sums.size)):
        quotient = _halved(_halved(sums[i], p, negated), p, negated)  # at most p + 1
        quotient = quotient - (p if quotient >= p else _0)
        value = np.uint64(target[start + i])
        target[start + i] = np.uint32(value - quotient + (p if value < quotient else _0))


@kernel
def _fast(
    target: Elements,
    left: Elements,
    right: Elements,
    n: int,
    p: np.uint64,
    multiple: np.uint64,
    negated: np.uint64,
) -> None:
    """Update (m, n) by (m, t) times 2**64 and (t, n); matrices are flat, t a multiple of 4."""
    m, t = target.size // n, right.size // n
    for first in range(0, t, _DEPTH):
        last = min(t, first + _DEPTH)
        for begin in range(0, n, _TILE):
            width = min(n - begin, _TILE)
            one, two = np.empty(width, np.uint64), np.empty(width, np.uint64)
            for i in range(0, m, 2):
                other = min(i + 1, m - 1)
                one[:] = _0
                two[:] = _0
                for k in range(first, last, 4):
                    _sum_two(
                        one,
                        two,
                        right,
                        np.uint64(k * n + begin),
                        np.uint64(n),
                        left[i * t + k : i * t + k + 4],
                        left[other * t + k : other * t + k + 4],
                        multiple,
                    )
                _finish(one, target, np.uint64(i * n + begin), p, negated)
                if other != i:
                    _finish(two, target, np.uint64(other * n + begin), p, negated)


@kernel
def _inverse(value: np.uint64, p: np.uint64) -> np.uint64:
    """Fermat: ``value**(p - 2)``."""
    result, power, exponent = np.uint64(1), value % p, p - _2
    while exponent > _0:
        if exponent & np.uint64(1):
            result = result * power % p
        power = power * power % p
        exponent >>= np.uint64(1)
    return result


@kernel
def _scaled(
    row: Elements,
    start: np.uint64,
    factor: np.uint64,
    out: Elements,
    place: np.uint64,
    n: np.uint64,
    p: np.uint64,
    negated: np.uint64,
) -> None:
    """Write a row times ``factor / 2**64``."""
    for i in range(n):
        value = np.uint64(row[start + i]) * (factor & _LOW)
        quotient = _halved(_halved(value, p, negated), p, negated)
        out[place + i] = np.uint32(quotient - (p if quotient >= p else _0))


@kernel
def _hold(
    part: Elements,
    block: Elements,
    solver: Elements,
    ones: NDArray[np.int64],
    count: int,
    n: int,
    p: np.uint64,
    multiple: np.uint64,
    negated: np.uint64,
    scale: np.uint64,
    grew: NDArray[np.bool_],
) -> int:
    """Reduce rows by the block's; hold those of which something is left. See Elimination."""
    most = ones.size
    factors = np.zeros(most + 4, np.uint64)
    sums = np.empty(min(n, _TILE), np.uint64)
    for r in range(grew.size):
        row = part[r * n : (r + 1) * n]
        for k in range(count):
            total = _0
            for j in range(k + 1):
                total += np.uint64(row[ones[j]]) * np.uint64(solver[j, k]) % p
            factors[k] = total % p * scale % p
        factors[count : count + 4] = _0
        for begin in range(0, n, _TILE):
            if count == 0:
                break
            width = min(n - begin, _TILE)
            tile = sums[:width]
            tile[:] = _0
            for k in range(0, count, 4):
                _sum_one(
                    tile,
                    block,
                    np.uint64(k * n + begin),
                    np.uint64(n),
                    factors[k : k + 4],
                    multiple,
                )
            _finish(tile, row, np.uint64(begin), p, negated)
        pivot = 0
        while pivot < n and row[pivot] == 0:
            pivot += 1
        if pivot == n:
            continue
        factor = _inverse(np.uint64(row[pivot]), p) * scale % p
        _scaled(row, _0, factor, block, np.uint64(count * n), np.uint64(n), p, negated)
        for k in range(count):
            total = _0
            for j in range(k, count):
                total += np.uint64(solver[k, j]) * np.uint64(block[j * n + pivot]) % p
            solver[k, count] = np.uint32((p - total % p) % p)
        solver[count, :count] = np.uint32(0)
        solver[count, count] = np.uint32(1)
        ones[count] = pivot
        grew[r] = True
        count += 1
    return count


@kernel
def _any(target: Elements, left: Elements, right: Elements, p: np.uint64) -> None:
    """Update for any prime below 2**32: halves of products are summed, then divided."""
    t, n = right.shape
    low, high = np.empty(n, np.uint64), np.empty(n, np.uint64)
    for i in range(target.shape[0]):
        low[:] = _0
        high[:] = _0
        for k in range(t):
            factor = np.uint64(left[i, k])
            row = right[k]
            for j in range(n):
                product = factor * np.uint64(row[j])
                low[j] += product & _LOW
                high[j] += product >> _32
        out = target[i]
        for j in range(n):
            # Both sums are below t * 2**32.
            total = (((high[j] % p) << _32) + low[j] % p) % p
            out[j] = np.uint32((np.uint64(out[j]) + (p - total)) % p)


def subtract_product(target: Elements, left: Elements, right: Elements, p: int) -> None:
    """Subtract ``left @ right`` from `target` in place.

    Parameters
    ----------
    target : ndarray of uint32, shape (m, n)
        C-contiguous, canonical.
    left : ndarray of uint32, shape (m, t)
        Canonical.
    right : ndarray of uint32, shape (t, n)
        Canonical.
    p : int
        A prime below 2**32.
    """
    (m, n), t = target.shape, len(right)
    if target.size == 0 or t == 0:
        return
    if not is_fast(p):
        _any(target, np.ascontiguousarray(left), np.ascontiguousarray(right), np.uint64(p))
        return
    scaled = np.zeros((m, t + -t % 4), np.uint64)
    factor = np.uint64(2**64 % p)
    scaled[:, :t] = left.astype(np.uint64) * factor % np.uint64(p)
    if t % 4:
        right = np.concatenate([right, np.zeros((-t % 4, n), np.uint32)])
    _fast(
        target.reshape(-1),
        scaled.reshape(-1),
        np.ascontiguousarray(right).reshape(-1),
        n,
        *_constants(p),
    )


def hold_rows(
    part: Elements,
    block: Elements,
    solver: Elements,
    ones: NDArray[np.int64],
    count: int,
    p: int,
) -> NDArray[np.bool_]:
    """Take rows into a block of :class:`privagg.field.Elimination`, in place.

    Parameters
    ----------
    part : ndarray of uint32, shape (m, n)
        Rows, reduced by all that is not in the block; spoiled.
    block : ndarray of uint32, shape (size, n)
        Its first `count` rows are held; `size` is a multiple of 4, and at least ``count + m``.
    solver : ndarray of uint32, shape (size, size)
        The inverse of the held rows' entries at their pivots.
    ones : ndarray of int64, shape (size,)
        The held rows' pivots.
    count : int
        How many rows are held.
    p : int
        An odd prime below 2**31.

    Returns
    -------
    ndarray of bool, shape (m,)
        Which rows are held now, too.
    """
    grew = np.zeros(len(part), np.bool_)
    n = part.shape[1]
    scale = np.uint64(2**64 % p)
    _hold(part.reshape(-1), block.reshape(-1), solver, ones, count, n, *_constants(p), scale, grew)
    return grew


def is_fast(p: int) -> bool:
    """Whether a prime has the fast kernels."""
    return 2 < p < 2**31


def _constants(p: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return p, its largest multiple up to 2**63, and ``-1 / p`` modulo 2**32."""
    return np.uint64(p), np.uint64(2**63 // p * p), np.uint64(-pow(p, -1, 2**32) % 2**32)
