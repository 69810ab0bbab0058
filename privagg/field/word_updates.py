"""Compiled updates of matrices modulo a prime below 2**32: ``target -= left @ right``.

What elimination spends its time on. Odd primes below 2**31 have the fast kernel: sums of two
products fit 63 bits, a sum that reaches 2**63 loses the largest multiple of p below that, and what
is left is reduced without a division (Montgomery, twice), for which the factors of `left` come in
times 2**64. Other primes take a kernel that sums the halves of products, and divides.
"""

from __future__ import annotations

import numpy as np

from privagg._jit import inlined, kernel
from privagg.field.checks import Elements

__all__ = ["subtract_product"]

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
    if p == 2 or p >= 2**31:
        _any(target, np.ascontiguousarray(left), np.ascontiguousarray(right), np.uint64(p))
        return
    scaled = np.zeros((m, t + -t % 4), np.uint64)
    factor = np.uint64(2**64 % p)
    scaled[:, :t] = left.astype(np.uint64) * factor % np.uint64(p)
    if t % 4:
        right = np.concatenate([right, np.zeros((-t % 4, n), np.uint32)])
    multiple, negated = 2**63 // p * p, -pow(p, -1, 2**32) % 2**32
    _fast(
        target.reshape(-1),
        scaled.reshape(-1),
        np.ascontiguousarray(right).reshape(-1),
        n,
        np.uint64(p),
        np.uint64(multiple),
        np.uint64(negated),
    )
