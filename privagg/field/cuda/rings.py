"""Integers modulo 2**b on a CUDA device: words that wrap, and a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda.jit import device
from privagg.field.cuda import single
from privagg.field.cuda.operations import Operations
from privagg.field.cuda.words import ONE, ZERO
from privagg.field.params import Ring

__all__ = ["ring_operations"]


@device
def _even(value: Any) -> Any:
    return (value & ONE) == ZERO


@device
def _accumulate(total: Any, a: Any, b: Any) -> Any:
    return total + a * b


def ring_operations(ring: Ring) -> Operations:
    """Return the device functions of Z/2**b."""
    mask = np.uint64(ring.modulus - 1)

    @device
    def add(a: Any, b: Any) -> Any:
        return (a + b) & mask

    @device
    def sub(a: Any, b: Any) -> Any:
        return (a - b) & mask

    @device
    def mul(a: Any, b: Any) -> Any:
        return (a * b) & mask

    @device
    def finish(total: Any) -> Any:
        return total & mask

    @device
    def wrong(value: Any) -> Any:
        return value > mask

    return Operations(
        dtype=ring.dtype,
        words=1,
        load=single.load,
        store=single.store,
        zero=single.zero,
        one=single.one,
        wrong=wrong,
        singular=_even,
        add=add,
        sub=sub,
        mul=mul,
        start=single.zero,
        accumulate=_accumulate,
        finish=finish,
        inverse_exponent=2 ** max(ring.bits - 1, 1) - 1,
    )
