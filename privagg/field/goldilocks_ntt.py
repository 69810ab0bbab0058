"""Compiled number-theoretic transforms modulo p = 2**64 - 2**32 + 1.

A transform of length ``n = n1 * n2`` is two sweeps over memory (Bailey's four-step algorithm):
transforms of length n1 down the columns of the (n1, n2) matrix and twiddle factors, then transforms
of length n2 along its rows, written as columns. Sixteen of the short ones go abreast in a tile that
stays in the second-level cache, so that every inner loop runs over neighbours with one twiddle
factor for all, and LLVM vectorises it. The short ones are decimations in frequency by four; a
quarter turn is a product with 2**48, a shift. They leave their rows in digit-reversed order, which
costs nothing: the copy out of the tile puts rows where they belong.

Products come from 32-bit halves; 2**64 = 2**32 - 1 and 2**96 = -1 modulo p.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg._jit import inlined, kernel
from privagg.field.checks import Elements
from privagg.field.params import GOLDILOCKS

__all__ = ["multiply", "transform"]

_P = np.uint64(GOLDILOCKS.modulus)
_E = np.uint64(2**32 - 1)
_0 = np.uint64(0)
_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)
_TURN = 2**48  # a root of unity of order 4
_WIDTH = 16  # transforms in a tile
_BLOCK = np.uint64(16)  # columns turned at a time
_WHOLE = 2**11  # up to this length, many transforms go abreast undivided


@inlined
def _reduce(low: np.uint64, high: np.uint64) -> np.uint64:
    """Return ``low + 2**64 * high``, canonical.

    ``low - high // 2**32`` wraps at most once, and so does the sum with ``(2**32 - 1) * mid``; a
    word that wrapped is set right with 2**64 = 2**32 - 1, and does not wrap again.
    """
    top = high >> _32
    middle = high & _E
    scaled = (middle << _32) - middle
    total = low - top - (_E if low < top else _0) + scaled
    total = total + (_E if total < scaled else _0)
    return total - (_P if total >= _P else _0)


@inlined
def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the product of any two words, canonical."""
    a0, a1, b0, b1 = a & _E, a >> _32, b & _E, b >> _32
    low = a0 * b0
    first = a1 * b0 + (low >> _32)
    second = a0 * b1 + (first & _E)
    return _reduce((second << _32) | (low & _E), a1 * b1 + (first >> _32) + (second >> _32))


@inlined
def _plus(a: np.uint64, b: np.uint64) -> np.uint64:
    complement = _P - b
    return a - complement + (_P if a < complement else _0)


@inlined
def _minus(a: np.uint64, b: np.uint64) -> np.uint64:
    return a - b + (_P if a < b else _0)


@inlined
def _turned(a: np.uint64) -> np.uint64:
    """Return ``2**48 * a``."""
    return _reduce(a << _48, a >> _16)


@kernel
def _pair(tile: Elements, a: np.uint64, b: np.uint64, width: np.uint64, w: np.uint64) -> None:
    for i in range(width):
        x, y = tile[a + i], tile[b + i]
        tile[a + i] = _plus(x, y)
        tile[b + i] = _times(_minus(x, y), w)


@kernel
def _quad(
    tile: Elements,
    start: np.uint64,
    step: np.uint64,
    width: np.uint64,
    w1: np.uint64,
    w2: np.uint64,
    w3: np.uint64,
) -> None:
    b, c, d = start + step, start + step + step, start + step + step + step
    for i in range(width):
        w, x, y, z = tile[start + i], tile[b + i], tile[c + i], tile[d + i]
        even, odd = _plus(w, y), _plus(x, z)
        across, turned = _minus(w, y), _turned(_minus(x, z))
        tile[start + i] = _plus(even, odd)
        tile[b + i] = _times(_plus(across, turned), w1)
        tile[c + i] = _times(_minus(even, odd), w2)
        tile[d + i] = _times(_minus(across, turned), w3)


@kernel
def _last_quad(tile: Elements, start: np.uint64, width: np.uint64) -> None:
    b, c, d = start + width, start + width + width, start + width + width + width
    for i in range(width):
        w, x, y, z = tile[start + i], tile[b + i], tile[c + i], tile[d + i]
        even, odd = _plus(w, y), _plus(x, z)
        across, turned = _minus(w, y), _turned(_minus(x, z))
        tile[start + i] = _plus(even, odd)
        tile[b + i] = _plus(across, turned)
        tile[c + i] = _minus(even, odd)
        tile[d + i] = _minus(across, turned)


@kernel
def _tile(tile: Elements, roots: Elements, positive: bool) -> None:
    """Transform every column of (n, width) in place; rows come out in the order of `_order`.

    Rows are addressed by unsigned offsets into one flat array: slices would be counted references.
    """
    n = roots.size
    width = tile.size // n
    length = n
    twos = 0
    while 1 << twos < n:
        twos += 1
    if twos % 2:
        length = n // 2
        for j in range(length):
            _pair(
                tile,
                np.uint64(j * width),
                np.uint64((j + length) * width),
                np.uint64(width),
                roots[j],
            )
    while length > 4:
        quarter = length // 4
        stride = n // length
        for start in range(0, n, length):
            for j in range(quarter):
                w1, w2, w3 = roots[j * stride], roots[2 * j * stride], roots[3 * j * stride]
                if not positive:
                    w1, w3 = w3, w1
                _quad(
                    tile,
                    np.uint64((start + j) * width),
                    np.uint64(quarter * width),
                    np.uint64(width),
                    w1,
                    w2,
                    w3,
                )
        length = quarter
    if length == 4:
        for k in range(0, n, 4):
            _last_quad(tile, np.uint64(k * width), np.uint64(width))


@kernel
def _load(source: Elements, start: np.uint64, width: np.uint64, tile: Elements) -> None:
    """Copy neighbours `start` to ``start + width`` of each of the tile's rows from a matrix."""
    n = np.uint64(tile.size) // width
    m = np.uint64(source.size) // n
    for k in range(n):
        for i in range(width):
            tile[k * width + i] = source[k * m + start + i]


@kernel
def _load_turned(source: Elements, n: np.uint64, width: np.uint64, tile: Elements) -> None:
    """Transpose `width` rows of length n into a tile, a few columns at a time."""
    block = min(n, _BLOCK)
    for first in range(np.uint64(0), n, block):
        for i in range(width):
            for k in range(first, first + block):
                tile[k * width + i] = source[i * n + k]


@kernel
def _twiddle(
    tile: Elements,
    order: NDArray[np.uint64],
    factor: Elements,
    step: Elements,
    out: Elements,
    start: np.uint64,
) -> None:
    """Copy a tile out, row k in its place and times ``factor * step**k``."""
    n, width = np.uint64(order.size), np.uint64(factor.size)
    m = np.uint64(out.size) // n
    for k in range(n):
        row, target = order[k] * width, k * m + start
        for i in range(width):
            out[target + i] = _times(tile[row + i], factor[i])
            factor[i] = _times(factor[i], step[i])


@kernel
def _columns(
    matrix: Elements,
    out: Elements,
    roots: Elements,
    order: NDArray[np.uint64],
    positive: bool,
    root: np.uint64,
    scale: np.uint64,
) -> None:
    """Transform the columns of (n, m); multiply entry (k, j) by ``scale * root**(k * j)``.

    Matrices are flat.
    """
    n = roots.size
    m = matrix.size // n
    width = min(m, _WIDTH)
    tile = np.empty(n * width, np.uint64)
    factor, step = np.empty(width, np.uint64), np.empty(width, np.uint64)
    step[0] = np.uint64(1)
    for i in range(1, width):
        step[i] = _times(step[i - 1], root)
    stride = _times(step[width - 1], root)
    for start in range(0, m, width):
        _load(matrix, np.uint64(start), np.uint64(width), tile)
        _tile(tile, roots, positive)
        factor[:] = scale
        _twiddle(tile, order, factor, step, out, np.uint64(start))
        for i in range(width):
            step[i] = _times(step[i], stride)


@kernel
def _rows(
    matrix: Elements, out: Elements, roots: Elements, order: NDArray[np.uint64], positive: bool
) -> None:
    """Transform the rows of (m, n) into the columns of (n, m); matrices are flat."""
    n = roots.size
    m = matrix.size // n
    width = min(m, _WIDTH)
    wide = np.uint64(width)
    tile = np.empty(n * width, np.uint64)
    for start in range(0, m, width):
        _load_turned(matrix[start * n :], np.uint64(n), wide, tile)
        _tile(tile, roots, positive)
        target = np.uint64(start)
        for row in order:
            for i in range(wide):
                out[target + i] = tile[row * wide + i]
            target += np.uint64(m)


@kernel
def _abreast(
    batch: Elements, roots: Elements, order: NDArray[np.uint64], positive: bool, scale: np.uint64
) -> None:
    """Transform every row of (m, n) in place, sixteen in a tile; the batch is flat."""
    n = roots.size
    m = batch.size // n
    for start in range(0, m, _WIDTH):
        width = min(_WIDTH, m - start)
        tile = np.empty(n * width, np.uint64)
        rows = batch[start * n :]
        _load_turned(rows, np.uint64(n), np.uint64(width), tile)
        _tile(tile, roots, positive)
        for i in range(width):
            for k in range(n):
                rows[i * n + k] = _times(tile[order[k] * np.uint64(width) + np.uint64(i)], scale)


@kernel
def _multiply(a: Elements, b: Elements, out: Elements) -> None:
    for i in range(out.size):
        out[i] = _times(a[i], b[i])


def _order(n: int, digits: tuple[int, ...]) -> NDArray[np.uint64]:
    """Return the row of a tile in which each of n outputs ends.

    A decimation by r leaves the outputs congruent to m modulo r in its m-th part; `digits` tells
    where a decimation by four has them.
    """
    if n == 1:
        return np.zeros(1, np.uint64)
    parts = (0, 1) if n.bit_length() % 2 == 0 else digits
    inner = _order(n // len(parts), digits)
    order = np.empty(n, np.uint64)
    for digit, part in enumerate(parts):
        order[digit :: len(parts)] = inner + np.uint64(part * (n // len(parts)))
    return order


@lru_cache(maxsize=64)
def _table(n: int, root: int) -> tuple[Elements, NDArray[np.uint64], bool]:
    """Return the powers of a root of order n, where outputs end, and whether 2**48 is the turn."""
    powers = [1]
    for _ in range(n - 1):
        powers.append(powers[-1] * root % GOLDILOCKS.modulus)
    positive = n < 4 or powers[n // 4] == _TURN
    order = _order(n, (0, 1, 2, 3) if positive else (0, 3, 2, 1))
    return np.array(powers, np.uint64), order, positive


def transform(batch: Elements, root: int, scale: int) -> Elements:
    """Return ``scale * sum_j batch[:, j] * root**(j * k)`` in column k.

    Parameters
    ----------
    batch : ndarray of uint64, shape (m, n)
        Canonical; n is a power of two.
    root : int
        A root of unity of order n.
    scale : int
        Canonical factor.

    Returns
    -------
    ndarray of uint64, shape (m, n)
        Canonical, new.
    """
    m, n = batch.shape
    if n <= 2 or (n <= _WHOLE and m >= _WIDTH):
        out = batch.copy()
        _abreast(out.reshape(-1), *_table(n, root), np.uint64(scale))
        return out
    out = np.empty_like(batch)
    half = n.bit_length() // 2
    n1, n2 = 2**half, n >> half
    down = _table(n1, pow(root, n2, GOLDILOCKS.modulus))
    along = _table(n2, pow(root, n1, GOLDILOCKS.modulus))
    between = np.empty(n, np.uint64)
    for row, target in zip(np.ascontiguousarray(batch), out, strict=True):
        _columns(row, between, *down, np.uint64(root), np.uint64(scale))
        _rows(between, target, *along)
    return out


def multiply(a: Elements, b: Elements) -> Elements:
    """Return ``a * b``, element by element; the shapes agree."""
    out = np.empty(a.shape, np.uint64)
    _multiply(
        np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1), out.reshape(-1)
    )
    return out
