"""Generalised randomised response over symbols, and counting symbols."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.exact import Split

__all__ = ["count_symbols", "replace_symbols", "replaced", "replaced_plain"]

_TILE = 1 << 15
_U1 = np.uint32(1)


def replace_symbols(symbols: NDArray[np.uint32], chances: Split, draws: Draws) -> Any:
    """Return each symbol kept or replaced, one word for each: ``(n,)`` uint8, uint16 or uint32.

    Raises
    ------
    UsageError
        If a symbol is not below k. They are looked at on the way, so that they are read once.
    """
    small = next(size for size in (1, 2, 4) if chances.k <= 1 << 8 * size)
    out = np.empty(symbols.size, f"u{small}")
    buffer = np.empty(min(_TILE, symbols.size), f"u{chances.bits // 8}")
    constants = _constants(chances)
    largest = 0
    for start in range(0, symbols.size, _TILE):
        part = symbols[start : start + _TILE]
        words = buffer[: part.size]
        draws.fill(words)
        if JIT:
            top = replaced(part, words, *constants, out[start : start + _TILE])
        else:
            out[start : start + _TILE] = replaced_plain(part, words, chances)
            top = part.max()
        largest = max(largest, int(top))
    if largest >= chances.k:
        raise UsageError("codes", "a code out of range", f"codes from 0 to {chances.k - 1}")
    return out


def _constants(chances: Split) -> tuple[Any, Any, Any]:
    """Return what the kernel compares and divides with.

    32-bit words are divided by multiplying with the next float above the reciprocal: for words and
    divisors below 2**32 the truncated product is the exact quotient, as the error, below
    2**-19 of the distance to the next multiple, never reaches it.
    """
    lies = (chances.k - 1) * chances.other
    if chances.bits == 32:
        return np.uint32(lies), math.nextafter(1.0 / chances.other, math.inf), np.uint32(1)
    return np.uint64(lies), 1.0, np.uint64(chances.other)


@kernel
def replaced(symbols: Any, words: Any, lies: Any, reciprocal: Any, other: Any, out: Any) -> Any:
    """Keep or replace each symbol: words below `lies` replace by the quotient's other symbol.

    Returns the largest symbol.
    """
    top = np.uint32(0)
    if words.itemsize == 4:
        for i in range(symbols.size):
            word = words[i]
            at = np.uint32(np.int64(np.float64(word) * reciprocal))
            value = symbols[i]
            top = max(top, value)
            at = np.uint32(at + _U1) if at >= value else at
            out[i] = at if word < lies else value
    else:
        for i in range(symbols.size):
            word = words[i]
            value = symbols[i]
            top = max(top, value)
            if word < lies:
                at = np.uint32(word // np.uint64(other))
                value = np.uint32(at + _U1) if at >= value else at
            out[i] = value
    return top


def replaced_plain(
    symbols: NDArray[np.uint32], words: NDArray[Any], chances: Split
) -> NDArray[np.uint32]:
    """Do the same with integer division."""
    wide = words.astype(np.uint64)
    at = (wide // np.uint64(chances.other)).astype(np.int64)
    at += at >= symbols
    lies = wide < np.uint64((chances.k - 1) * chances.other)
    return np.where(lies, at, symbols.astype(np.int64)).astype(np.uint32)


def count_symbols(symbols: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Return how often each symbol below `size` occurs."""
    if not JIT:
        return np.bincount(symbols, minlength=size).astype(np.int64)
    counts: NDArray[np.int64] = _counted(symbols, np.zeros((4, size), np.int64))
    return counts


@kernel
def _counted(symbols: Any, tables: Any) -> Any:
    """Count into four tables in turn: equal neighbours need not wait for one another."""
    whole = symbols.size - symbols.size % 4
    first, second, third, fourth = tables[0], tables[1], tables[2], tables[3]
    for i in range(0, whole, 4):
        first[symbols[i]] += 1
        second[symbols[i + 1]] += 1
        third[symbols[i + 2]] += 1
        fourth[symbols[i + 3]] += 1
    for i in range(whole, symbols.size):
        first[symbols[i]] += 1
    return first + second + third + fourth
