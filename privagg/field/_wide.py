"""Integers of more than 64 bits inside compiled code, as tuples of words, the low one first.

LLVM has integers of any width and makes add-with-carry chains and 64 x 64 -> 128 bit products of
them; Numba has not, so these pieces are written as LLVM's code.

The prime of two limbs is p = 2**128 - c with c = 7 * 2**66 - 1, so ``2**128 = c`` (mod p): a *fold*
replaces what is above bit 128 by c times as much, which is 59 bits shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numba.extending
from llvmlite import ir
from numba.core import cgutils, types

from privagg.field.params import F128

__all__ = [
    "absorb_words",
    "f128_absorb",
    "f128_add",
    "f128_finish",
    "f128_mul",
    "f128_sub",
    "mul_wide",
]

_WORD = ir.IntType(64)
_C = 2**128 - F128.modulus


def _intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    return cast(Callable[..., Any], numba.extending.intrinsic(function))


def _words(count: int) -> Any:
    return cast(Any, types).UniTuple(types.uint64, count)


def _opaque(builder: Any, word: Any) -> Any:
    """Return a word in a way that keeps LLVM from vectorising: wide integers have no lanes."""
    kind = ir.FunctionType(_WORD, [_WORD])
    return builder.call(ir.InlineAsm(kind, "", "=r,0"), [word])


def _join(builder: Any, value: Any, count: int, bits: int) -> Any:
    """Return the integer of `bits` bits that a tuple of words stands for."""
    unpacked = cast(Callable[..., Sequence[Any]], cgutils.unpack_tuple)(builder, value, count)
    whole = ir.IntType(bits)
    total = builder.zext(_opaque(builder, unpacked[0]), whole)
    for place, word in enumerate(unpacked[1:], start=1):
        shifted = builder.shl(builder.zext(word, whole), ir.Constant(whole, 64 * place))
        total = builder.or_(total, shifted)
    return total


def _split(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    """Return the low words of an integer as a tuple."""
    words = []
    for place in range(kind.count):
        shifted = builder.lshr(value, ir.Constant(value.type, 64 * place))
        words.append(builder.trunc(shifted, _WORD))
    return context.make_tuple(builder, kind, words)


def _fold(builder: Any, value: Any, bits: int) -> Any:
    """Replace what is above bit 128; the result, which the caller knows to fit, has `bits` bits."""
    kind, whole = ir.IntType(bits), value.type
    low = builder.zext(builder.trunc(value, ir.IntType(128)), kind)
    high = builder.lshr(value, ir.Constant(whole, 128))
    high = builder.zext(high, kind) if bits > whole.width else builder.trunc(high, kind)
    return builder.add(low, builder.mul(high, ir.Constant(kind, _C)))


def _below_p(builder: Any, value: Any) -> Any:
    """Subtract p once, from what is below 2 * p and has more than 128 bits."""
    p = ir.Constant(value.type, F128.modulus)
    return builder.select(builder.icmp_unsigned("<", value, p), value, builder.sub(value, p))


@_intrinsic
def mul_wide(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the two words of the product of two words."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        wide = [builder.zext(value, ir.IntType(128)) for value in values]
        return _split(context, builder, builder.mul(*wide), signature.return_type)

    return _words(2)(types.uint64, types.uint64), write


@_intrinsic
def f128_add(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the sum of two elements."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total = builder.add(*(_join(builder, value, 2, 192) for value in values))
        return _split(context, builder, _below_p(builder, total), signature.return_type)

    return _words(2)(_words(2), _words(2)), write


@_intrinsic
def f128_sub(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the difference of two elements."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        left, right = (_join(builder, value, 2, 128) for value in values)
        p, zero = (ir.Constant(left.type, number) for number in (F128.modulus, 0))
        borrowed = builder.select(builder.icmp_unsigned("<", left, right), p, zero)
        difference = builder.add(builder.sub(left, right), borrowed)
        return _split(context, builder, difference, signature.return_type)

    return _words(2)(_words(2), _words(2)), write


@_intrinsic
def f128_mul(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the product of two elements."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        product = builder.mul(*(_join(builder, value, 2, 256) for value in values))
        # Below 2**256, then 2**198, 2**140, and 2**128 + 2**81.
        for bits in (256, 192, 192):
            product = _fold(builder, product, bits)
        return _split(context, builder, _below_p(builder, product), signature.return_type)

    return _words(2)(_words(2), _words(2)), write


@_intrinsic
def f128_absorb(typingctx: Any, total: Any, a: Any, b: Any) -> Any:
    """Return a sum of five words plus the product of two elements, not reduced."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total, left, right = values
        product = builder.mul(*(_join(builder, value, 2, 256) for value in (left, right)))
        wide = builder.zext(product, ir.IntType(320))
        new = builder.add(_join(builder, total, 5, 320), wide)
        return _split(context, builder, new, signature.return_type)

    return _words(5)(_words(5), _words(2), _words(2)), write


@_intrinsic
def f128_finish(typingctx: Any, total: Any) -> Any:
    """Return the element that a sum of five words is congruent to."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        value = _join(builder, values[0], 5, 320)
        # Below 2**320, then 2**262, 2**204, 2**146, and 2**128 + 2**87.
        for bits in (320, 256, 192, 192):
            value = _fold(builder, value, bits)
        return _split(context, builder, _below_p(builder, value), signature.return_type)

    return _words(2)(_words(5)), write


@_intrinsic
def absorb_words(typingctx: Any, total: Any, a: Any, b: Any) -> Any:
    """Return a sum of three words plus the product of two words."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = ir.IntType(192)
        left, right = (builder.zext(value, ir.IntType(128)) for value in values[1:])
        product = builder.zext(builder.mul(left, right), whole)
        new = builder.add(_join(builder, values[0], 3, 192), product)
        return _split(context, builder, new, signature.return_type)

    return _words(3)(_words(3), types.uint64, types.uint64), write
