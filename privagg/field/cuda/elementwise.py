"""Kernels on arrays of elements, one by one.

Operands are checked on the way: ``flags[k]`` becomes 1 if operand k has an element that is not
canonical, and the last flag if an element to invert has no inverse. What was written is then to be
thrown away. An operand is read from its start again when its `period` is shorter than the result:
trailing axes broadcast so.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda

from privagg._cuda.jit import device, kernel
from privagg.field.cuda.operations import operations
from privagg.field.cuda.words import ONE, ZERO
from privagg.field.params import Algebra

__all__ = ["elementwise_kernels", "exponent_words", "powers"]

_U64 = np.uint64(64)


@device
def _place(index: Any, period: Any, count: Any) -> Any:
    return index if period == count else index % period


def exponent_words(exponent: int) -> tuple[np.uint64, np.uint64, int]:
    """Return an exponent as the kernels take it: low word, high word, bits."""
    low, high = np.uint64(exponent & (2**64 - 1)), np.uint64(exponent >> 64)
    return low, high, exponent.bit_length()


@cache
def powers(field: Algebra) -> Any:
    """Return the device function that raises a value to a power.

    It takes the value, the exponent's low and high word, and how many bits the exponent has.
    """
    ops = operations(field)
    mul, one = ops.mul, ops.one

    @device
    def power(value: Any, low: Any, high: Any, bits: Any) -> Any:
        result = one()
        for k in range(bits - 1, -1, -1):
            result = mul(result, result)
            word = high if k >= 64 else low
            if (word >> (np.uint64(k) % _U64)) & ONE != ZERO:
                result = mul(result, value)
        return result

    return power


@cache
def elementwise_kernels(field: Algebra) -> SimpleNamespace:
    """Return the kernels of `field` by name."""
    ops = operations(field)
    load, store, wrong, singular = ops.load, ops.store, ops.wrong, ops.singular
    plus, minus, times, zero, one = ops.add, ops.sub, ops.mul, ops.zero, ops.one
    raised = powers(field)
    exponent_low, exponent_high, exponent_bits = exponent_words(ops.inverse_exponent)

    @kernel
    def add(a: Any, period_a: Any, b: Any, period_b: Any, out: Any, count: Any, flags: Any) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            x, y = load(a, _place(i, period_a, count)), load(b, _place(i, period_b, count))
            if wrong(x):
                flags[0] = 1
            if wrong(y):
                flags[1] = 1
            store(out, i, plus(x, y))

    @kernel
    def sub(a: Any, period_a: Any, b: Any, period_b: Any, out: Any, count: Any, flags: Any) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            x, y = load(a, _place(i, period_a, count)), load(b, _place(i, period_b, count))
            if wrong(x):
                flags[0] = 1
            if wrong(y):
                flags[1] = 1
            store(out, i, minus(x, y))

    @kernel
    def mul(a: Any, period_a: Any, b: Any, period_b: Any, out: Any, count: Any, flags: Any) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            x, y = load(a, _place(i, period_a, count)), load(b, _place(i, period_b, count))
            if wrong(x):
                flags[0] = 1
            if wrong(y):
                flags[1] = 1
            store(out, i, times(x, y))

    @kernel
    def mul_add(
        a: Any,
        period_a: Any,
        b: Any,
        period_b: Any,
        c: Any,
        period_c: Any,
        out: Any,
        count: Any,
        flags: Any,
    ) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            x, y = load(a, _place(i, period_a, count)), load(b, _place(i, period_b, count))
            z = load(c, _place(i, period_c, count))
            if wrong(x):
                flags[0] = 1
            if wrong(y):
                flags[1] = 1
            if wrong(z):
                flags[2] = 1
            store(out, i, plus(times(x, y), z))

    @kernel
    def neg(a: Any, out: Any, count: Any, flags: Any) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            x = load(a, i)
            if wrong(x):
                flags[0] = 1
            store(out, i, minus(zero(), x))

    @kernel
    def power(a: Any, low: Any, high: Any, bits: Any, out: Any, count: Any, flags: Any) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            x = load(a, i)
            if wrong(x):
                flags[0] = 1
            store(out, i, raised(x, low, high, bits))

    @kernel
    def inverse(a: Any, out: Any, count: Any, flags: Any) -> None:
        # Montgomery's trick, each thread for its own elements, a grid apart: they are read and
        # written side by side with its neighbours'.
        first, step = cuda.grid(1), cuda.gridsize(1)
        running = one()
        last = first - step
        for i in range(first, count, step):
            x = load(a, i)
            if wrong(x):
                flags[0] = 1
            if singular(x):
                flags[1] = 1
            store(out, i, running)
            running = times(running, x)
            last = i
        running = raised(running, exponent_low, exponent_high, exponent_bits)
        while last >= first:
            store(out, last, times(running, load(out, last)))
            running = times(running, load(a, last))
            last = last - step

    @kernel
    def check(a: Any, count: Any, flags: Any, number: Any) -> None:
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            if wrong(load(a, i)):
                flags[number] = 1

    return SimpleNamespace(
        add=add,
        sub=sub,
        mul=mul,
        mul_add=mul_add,
        neg=neg,
        power=power,
        inverse=inverse,
        check=check,
    )
