"""Compiled loops over arrays of elements, written once for every field and ring but 2**61 - 1.

The first argument is a tag of :mod:`privagg.field._scalars`, whose class says what ``add``, ``mul``
and so on are. Arrays are C-contiguous arrays of words: an element of a field of two limbs takes two
neighbours, so a matrix of n x m elements has the shape (n, m) or (n, 2 * m). `count` says how many
elements a vector has, or a row of a matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._jit import kernel
from privagg.field._scalars import (
    Tag,
    absorb,
    absorb_four,
    add,
    finish,
    helper,
    load,
    mul,
    open_states,
    read_state,
    store,
    sub,
    write_state,
    zero_state,
)
from privagg.field.checks import Elements

__all__ = [
    "LANES",
    "add_arrays",
    "dot",
    "horner",
    "invert_backward",
    "invert_forward",
    "lagrange_denominators",
    "mul_add_arrays",
    "mul_arrays",
    "powers",
    "products_by_four_rows",
    "products_by_row",
    "sub_arrays",
    "sum_rows",
]

LANES = 16
"""Chains of products that an inversion runs abreast, since each product waits for the last."""

_TILE = 480
"""Columns whose states stay in the first-level cache. Not a power of two: the states of four rows
would lie 4096 bytes apart, where a load seems to depend on a store to its neighbour."""


@kernel
def add_arrays(tag: Tag, a: Elements, b: Elements, out: Elements, count: int) -> None:
    """Write ``a + b``."""
    for i in range(count):
        store(tag, out, i, add(tag, load(tag, a, i), load(tag, b, i)))


@kernel
def sub_arrays(tag: Tag, a: Elements, b: Elements, out: Elements, count: int) -> None:
    """Write ``a - b``."""
    for i in range(count):
        store(tag, out, i, sub(tag, load(tag, a, i), load(tag, b, i)))


@kernel
def mul_arrays(tag: Tag, a: Elements, b: Elements, out: Elements, count: int) -> None:
    """Write ``a * b``."""
    for i in range(count):
        store(tag, out, i, mul(tag, load(tag, a, i), load(tag, b, i)))


@kernel
def mul_add_arrays(
    tag: Tag, a: Elements, b: Elements, c: Elements, out: Elements, count: int
) -> None:
    """Write ``a * b + c``."""
    for i in range(count):
        product = mul(tag, load(tag, a, i), load(tag, b, i))
        store(tag, out, i, add(tag, product, load(tag, c, i)))


@kernel
def sum_rows(tag: Tag, rows: Elements, out: Elements, count: int) -> None:
    """Add every row to `out`, tile by tile so that sums stay in the cache; count at least 1."""
    words = rows.shape[1] // count
    for start in range(0, count, _TILE):
        stop = min(count, start + _TILE)
        part = out[start * words : stop * words]
        for k in range(rows.shape[0]):
            row = rows[k][start * words : stop * words]
            for i in range(stop - start):
                store(tag, part, i, add(tag, load(tag, part, i), load(tag, row, i)))


@kernel
def dot(tag: Tag, a: Elements, b: Elements, out: Elements, count: int) -> None:
    """Write the sum of the products of two vectors."""
    state = zero_state(tag)
    for i in range(count):
        state = absorb(tag, state, load(tag, a, i), load(tag, b, i))
    store(tag, out, 0, finish(tag, state))


@helper
def _four(tag: Tag, row: Elements, k: int) -> Any:
    """Return four neighbours."""
    return (
        load(tag, row, k),
        load(tag, row, k + 1),
        load(tag, row, k + 2),
        load(tag, row, k + 3),
    )


@kernel
def products_by_row(tag: Tag, a: Elements, b: Elements, out: Elements, count: int) -> None:
    """Write the product of (n, t) and (t, count), count at least 1, a row of `a` at a time.

    Four terms are taken in for each state that is read and written.
    """
    t, words = b.shape[0], b.shape[1] // count
    tile = np.empty((len(zero_state(tag)), _TILE), np.uint64)
    s = open_states(tag, tile)
    for start in range(0, count, _TILE):
        width = min(count - start, _TILE)
        low, high = start * words, (start + width) * words
        for r in range(a.shape[0]):
            row, part = a[r], out[r][low:high]
            tile[:] = np.uint64(0)
            for k in range(0, t - t % 4, 4):
                w = _four(tag, row, k)
                # Rows are sliced before the loop: an index with an offset would not vectorise.
                b0, b1 = b[k][low:high], b[k + 1][low:high]
                b2, b3 = b[k + 2][low:high], b[k + 3][low:high]
                for i in range(width):
                    x = (load(tag, b0, i), load(tag, b1, i), load(tag, b2, i), load(tag, b3, i))
                    write_state(tag, s, i, absorb_four(tag, read_state(tag, s, i), w, x))
            for k in range(t - t % 4, t):
                w0, b0 = load(tag, row, k), b[k][low:high]
                for i in range(width):
                    state = absorb(tag, read_state(tag, s, i), w0, load(tag, b0, i))
                    write_state(tag, s, i, state)
            for i in range(width):
                store(tag, part, i, finish(tag, read_state(tag, s, i)))


@kernel
def products_by_four_rows(tag: Tag, a: Elements, b: Elements, out: Elements, count: int) -> None:
    """Write the product as above, four rows of `a` at a time, of which there are 4 * r.

    The four share each element of `b` that is read.
    """
    t, words = b.shape[0], b.shape[1] // count
    tiles = np.empty((4, len(zero_state(tag)), _TILE), np.uint64)
    s0, s1 = open_states(tag, tiles[0]), open_states(tag, tiles[1])
    s2, s3 = open_states(tag, tiles[2]), open_states(tag, tiles[3])
    for start in range(0, count, _TILE):
        width = min(count - start, _TILE)
        low, high = start * words, (start + width) * words
        for r in range(0, a.shape[0], 4):
            a0, a1, a2, a3 = a[r], a[r + 1], a[r + 2], a[r + 3]
            tiles[:] = np.uint64(0)
            for k in range(0, t - t % 4, 4):
                w0, w1 = _four(tag, a0, k), _four(tag, a1, k)
                w2, w3 = _four(tag, a2, k), _four(tag, a3, k)
                b0, b1 = b[k][low:high], b[k + 1][low:high]
                b2, b3 = b[k + 2][low:high], b[k + 3][low:high]
                for i in range(width):
                    x = (load(tag, b0, i), load(tag, b1, i), load(tag, b2, i), load(tag, b3, i))
                    write_state(tag, s0, i, absorb_four(tag, read_state(tag, s0, i), w0, x))
                    write_state(tag, s1, i, absorb_four(tag, read_state(tag, s1, i), w1, x))
                    write_state(tag, s2, i, absorb_four(tag, read_state(tag, s2, i), w2, x))
                    write_state(tag, s3, i, absorb_four(tag, read_state(tag, s3, i), w3, x))
            for k in range(t - t % 4, t):
                b0 = b[k][low:high]
                for q in range(4):
                    w, s = load(tag, a[r + q], k), open_states(tag, tiles[q])
                    for i in range(width):
                        state = absorb(tag, read_state(tag, s, i), w, load(tag, b0, i))
                        write_state(tag, s, i, state)
            for q in range(4):
                s, part = open_states(tag, tiles[q]), out[r + q][low:high]
                for i in range(width):
                    store(tag, part, i, finish(tag, read_state(tag, s, i)))


@kernel
def powers(tag: Tag, points: Elements, out: Elements, count: int) -> None:
    """Write row k of `out`, the points to the power k, from row 0 on, which is there."""
    for k in range(1, out.shape[0]):
        before, row = out[k - 1], out[k]
        for i in range(count):
            store(tag, row, i, mul(tag, load(tag, before, i), load(tag, points, i)))


@kernel
def horner(tag: Tag, coefficients: Elements, points: Elements, out: Elements, count: int) -> None:
    """Write the values of one polynomial to `out`, which holds zeros: Horner's rule abreast."""
    for k in range(coefficients.size // (points.size // count) - 1, -1, -1):
        coefficient = load(tag, coefficients, k)
        for i in range(count):
            step = mul(tag, load(tag, out, i), load(tag, points, i))
            store(tag, out, i, add(tag, step, coefficient))


@kernel
def lagrange_denominators(tag: Tag, points: Elements, out: Elements, count: int) -> None:
    """Multiply element i of `out` by ``points[j] - points[i]`` for all other j."""
    for j in range(count):
        x = load(tag, points, j)
        for i in range(count):
            if i != j:
                factor = sub(tag, x, load(tag, points, i))
                store(tag, out, i, mul(tag, load(tag, out, i), factor))


@kernel
def invert_forward(tag: Tag, a: Elements, out: Elements, last: Elements, count: int) -> None:
    """Multiply each lane out: Montgomery's trick, forward.

    Element i of `out` becomes the product of ``a[i - LANES]``, ``a[i - 2 * LANES]`` and so on; its
    first LANES are ones already. `last` gets the products up to and with each of the last LANES
    elements, or of all if they are fewer.
    """
    for i in range(count - LANES):
        store(tag, out, i + LANES, mul(tag, load(tag, out, i), load(tag, a, i)))
    lanes = min(LANES, count)
    for k in range(lanes):
        i = count - lanes + k
        store(tag, last, k, mul(tag, load(tag, out, i), load(tag, a, i)))


@kernel
def invert_backward(tag: Tag, a: Elements, out: Elements, rest: Elements, count: int) -> None:
    """Turn the products into inverses: Montgomery's trick, backward.

    The inverses of `last` are at the end of `rest`, which has room for all elements.
    """
    for i in range(count - LANES - 1, -1, -1):
        store(tag, rest, i, mul(tag, load(tag, rest, i + LANES), load(tag, a, i + LANES)))
    for i in range(count):
        store(tag, out, i, mul(tag, load(tag, out, i), load(tag, rest, i)))
