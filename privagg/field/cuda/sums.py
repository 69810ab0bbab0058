"""Kernels for sums of products: dot products, weighted sums of rows, matrix products, polynomials.

Arrays are flat, matrices by rows. Operands are canonical: they were checked by a kernel before.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from numba import cuda

from privagg._cuda.arrays import SIMULATED, THREADS
from privagg._cuda.jit import kernel, type_of
from privagg.field.cuda.elementwise import exponent_words, powers
from privagg.field.cuda.operations import operations
from privagg.field.params import Algebra

__all__ = ["DEPTH", "ROWS", "product_kernels"]

ROWS = 4
"""Rows of a product that one thread makes: each element of the right matrix serves four times."""

DEPTH = 4 if SIMULATED else 64
"""Columns of the left matrix that a block keeps in shared memory."""


@cache
def product_kernels(field: Algebra) -> SimpleNamespace:
    """Return the kernels of `field` by name."""
    ops = operations(field)
    load, store, plus, times = ops.load, ops.store, ops.add, ops.mul
    minus, zero, one, singular = ops.sub, ops.zero, ops.one, ops.singular
    start, accumulate, finish = ops.start, ops.accumulate, ops.finish
    raised = powers(field)
    exponent_low, exponent_high, exponent_bits = exponent_words(ops.inverse_exponent)
    word = type_of(ops.dtype)

    @kernel
    def dot(a: Any, b: Any, partial: Any, count: Any) -> None:
        """Write one sum a block; :func:`total` adds them up."""
        shared = cuda.shared.array(0, word)
        sums = start()
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            sums = accumulate(sums, load(a, i), load(b, i))
        here = cuda.threadIdx.x
        store(shared, here, finish(sums))
        half = THREADS // 2
        while half > 0:
            cuda.syncthreads()
            if here < half:
                store(shared, here, plus(load(shared, here), load(shared, here + half)))
            half = half // 2
        if here == 0:
            store(partial, cuda.blockIdx.x, load(shared, 0))

    @kernel
    def total(partial: Any, count: Any, out: Any) -> None:
        if cuda.grid(1) == 0:
            value = zero()
            for i in range(count):
                value = plus(value, load(partial, i))
            store(out, 0, value)

    @kernel
    def weighted_sum(weights: Any, rows: Any, out: Any, t: Any, m: Any) -> None:
        for j in range(cuda.grid(1), m, cuda.gridsize(1)):
            sums = start()
            for k in range(t):
                sums = accumulate(sums, load(weights, k), load(rows, k * m + j))
            store(out, j, finish(sums))

    @kernel
    def sum_rows(rows: Any, out: Any, n: Any, m: Any) -> None:
        for j in range(cuda.grid(1), m, cuda.gridsize(1)):
            value = zero()
            for k in range(n):
                value = plus(value, load(rows, k * m + j))
            store(out, j, value)

    @kernel
    def matmul(a: Any, b: Any, out: Any, n: Any, t: Any, m: Any) -> None:
        # A block takes THREADS columns of b and four rows of a, whose elements all its threads need
        # at the same time: they come from shared memory.
        tile = cuda.shared.array(0, word)
        here = cuda.threadIdx.x
        column = cuda.blockIdx.x * cuda.blockDim.x + here
        for group in range(cuda.blockIdx.y, (n + ROWS - 1) // ROWS, cuda.gridDim.y):
            row = group * ROWS
            sums0, sums1, sums2, sums3 = start(), start(), start(), start()
            for first in range(0, t, DEPTH):
                cuda.syncthreads()
                for place in range(here, ROWS * DEPTH, cuda.blockDim.x):
                    i, k = row + place // DEPTH, first + place % DEPTH
                    if i < n and k < t:
                        store(tile, place, load(a, i * t + k))
                    else:
                        store(tile, place, zero())
                cuda.syncthreads()
                if column < m:
                    for k in range(min(DEPTH, t - first)):
                        right = load(b, (first + k) * m + column)
                        sums0 = accumulate(sums0, load(tile, k), right)
                        sums1 = accumulate(sums1, load(tile, DEPTH + k), right)
                        sums2 = accumulate(sums2, load(tile, 2 * DEPTH + k), right)
                        sums3 = accumulate(sums3, load(tile, 3 * DEPTH + k), right)
            if column < m:
                store(out, row * m + column, finish(sums0))
                if row + 1 < n:
                    store(out, (row + 1) * m + column, finish(sums1))
                if row + 2 < n:
                    store(out, (row + 2) * m + column, finish(sums2))
                if row + 3 < n:
                    store(out, (row + 3) * m + column, finish(sums3))

    @kernel
    def evaluate(coefficients: Any, points: Any, out: Any, t: Any, n: Any, m: Any) -> None:
        for place in range(cuda.grid(1), n * m, cuda.gridsize(1)):
            j = place % m
            point = load(points, place // m)
            value = zero()
            for k in range(t - 1, -1, -1):
                value = plus(times(value, point), load(coefficients, k * m + j))
            store(out, place, value)

    @kernel
    def lagrange(points: Any, targets: Any, out: Any, t: Any, m: Any, flags: Any) -> None:
        for place in range(cuda.grid(1), t * m, cuda.gridsize(1)):
            j = place % t
            here, target = load(points, j), load(targets, place // t)
            above, below = one(), one()
            for k in range(t):
                if k != j:
                    other = load(points, k)
                    above = times(above, minus(target, other))
                    below = times(below, minus(here, other))
            if singular(below):
                flags[0] = 1
            if singular(here):
                flags[1] = 1
            inverted = raised(below, exponent_low, exponent_high, exponent_bits)
            store(out, place, times(above, inverted))

    return SimpleNamespace(
        dot=dot,
        total=total,
        sum_rows=sum_rows,
        weighted_sum=weighted_sum,
        matmul=matmul,
        evaluate=evaluate,
        lagrange=lagrange,
    )
