"""Number-theoretic transforms on a CUDA device, by passes over the whole array.

Stockham's order (van Loan, *Computational Frameworks for the Fast Fourier Transform*, 1992, section
1.7): each pass reads one array and writes another, so that the result is in natural order and no
bits are reversed.
"""

from __future__ import annotations

from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda

from privagg._cuda import arrays
from privagg._cuda.arrays import grid, launch, upload
from privagg._cuda.jit import kernel
from privagg.errors import UsageError
from privagg.field.checks import check_field, elements
from privagg.field.cuda.elementwise import elementwise_kernels, powers
from privagg.field.cuda.operands import Call, new, operands
from privagg.field.cuda.operations import operations
from privagg.field.cuda.words import ZERO
from privagg.field.params import Field
from privagg.field.transforms import check_length, root_of_unity

__all__ = ["transform", "transform_kernels"]


@cache
def transform_kernels(field: Field) -> SimpleNamespace:
    """Return the kernels of `field` by name."""
    ops = operations(field)
    load, store, plus, minus, times = ops.load, ops.store, ops.add, ops.sub, ops.mul
    raised = powers(field)

    @kernel
    def twiddles(root: Any, out: Any, count: Any, bits: Any) -> None:
        """Write ``root**i`` for i below `count`, whose indices have `bits` bits."""
        base = load(root, 0)
        for i in range(cuda.grid(1), count, cuda.gridsize(1)):
            store(out, i, raised(base, np.uint64(i), ZERO, bits))

    @kernel
    def butterflies(source: Any, out: Any, twiddle: Any, half: Any, shift: Any, rows: Any) -> None:
        """Do the pass in which ``2**shift`` transforms of length 2 * half / 2**shift are halved."""
        stride = 1 << shift
        for place in range(cuda.grid(1), rows * half, cuda.gridsize(1)):
            row, inside = place // half, place % half
            block, offset = inside >> shift, inside & (stride - 1)
            base = row * (2 * half)
            x = load(source, base + inside)
            y = load(source, base + inside + half)
            into = base + offset + (block << (shift + 1))
            store(out, into, plus(x, y))
            store(out, into + stride, times(minus(x, y), load(twiddle, block << shift)))

    return SimpleNamespace(twiddles=twiddles, butterflies=butterflies)


def transform(a: Any, field: Field, *, inverse: bool) -> Any:
    """Transform a vector or the rows of a matrix: see :func:`privagg.field.ntt`."""
    check_field(field)
    with operands(field, a=a) as call:
        shape = call.shapes[0]
        if len(shape) not in (1, 2):
            raise UsageError(
                "a",
                f"a CUDA array of shape {shape}",
                "one vector, or a matrix with a vector in each row",
            )
        n = shape[-1]
        check_length("a", n, field)
        call.check()
        root, scale = root_of_unity(n, field), 1
        if inverse:
            root, scale = (pow(number, -1, field.modulus) for number in (root, n))
        return _passes(call, n, root, scale)


def _passes(call: Call, n: int, root: int, scale: int) -> Any:
    field, (shape,), (source,) = call.field, call.shapes, call.arrays
    count = call.sizes()[0]
    out = new(shape, field)
    if not count:
        return out
    half, kernels = n // 2, transform_kernels(field)
    # Passes go to and fro between two arrays, so that the last one ends in the result.
    targets = [arrays.flat(out), arrays.flat(new(shape, field))] if n > 2 else [arrays.flat(out)]
    passes = n.bit_length() - 1
    for shift in range(passes):
        target = targets[(passes - 1 - shift) % len(targets)]
        factors = _twiddles(arrays.device_of(out), field, root, half)
        place = grid(count // 2)
        launch(kernels.butterflies, *place, source, target, factors, half, shift, count // n)
        source = target
    if scale != 1 or not passes:
        factor = arrays.flat(upload(elements([scale], field)))
        kernel = elementwise_kernels(field).mul
        target = arrays.flat(out)
        launch(kernel, *grid(count), source, count, factor, 1, target, count, call.flags)
    return out


@lru_cache(maxsize=4)
def _twiddles(device: int, field: Field, root: int, half: int) -> Any:
    """Return the powers of a root on a device, which is the current one."""
    out, base = arrays.flat(new((half,), field)), arrays.flat(upload(elements([root], field)))
    kernel = transform_kernels(field).twiddles
    launch(kernel, *grid(half), base, out, half, max((half - 1).bit_length(), 1))
    return out
