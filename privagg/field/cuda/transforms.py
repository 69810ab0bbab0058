"""Number-theoretic transforms on a CUDA device, by passes over the whole array.

Stockham's order (van Loan, *Computational Frameworks for the Fast Fourier Transform*, 1992, section
1.7): each pass reads one array and writes another, so that the result is in natural order and no
bits are reversed.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda

from privagg._cuda.jit import kernel
from privagg.field.cuda.elementwise import powers
from privagg.field.cuda.operations import operations
from privagg.field.cuda.words import ZERO
from privagg.field.params import Field

__all__ = ["transform_kernels"]


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
