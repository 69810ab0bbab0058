"""Small pieces of LLVM IR that the cipher kernels share.

Numba decides by the date of a kernel's own file whether its cached code is still good: after a
change here, touch the files of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numba.extending
from llvmlite import ir
from numba.core import cgutils

__all__ = ["add_words", "array_bytes", "constant", "declare", "intrinsic", "shuffle", "splat"]

_BYTE = ir.IntType(8)
_INT32 = ir.IntType(32)


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that writes LLVM IR: compiled code calls it without the first argument."""
    return cast(Callable[..., Any], numba.extending.intrinsic(function))


def declare(builder: Any, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """Return a function of LLVM's by name, declared in the module that is being built."""
    insert = cast(Callable[..., Any], cgutils.get_or_insert_function)
    return insert(builder.module, ir.FunctionType(result, list(arguments)), name)


def array_bytes(context: Any, builder: Any, kind: Any, value: Any, offset: Any) -> Any:
    """Return a byte pointer to item `offset` of a contiguous array, no bounds checked."""
    data = context.make_array(kind)(context, builder, value).data
    size = ir.Constant(offset.type, kind.dtype.bitwidth // 8)
    pointer = builder.bitcast(data, _BYTE.as_pointer())
    return builder.gep(pointer, [builder.mul(offset, size)])


def constant(values: Sequence[int], bits: int) -> ir.Constant:
    """Return a constant vector of integers."""
    return ir.Constant(ir.VectorType(ir.IntType(bits), len(values)), list(values))


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """Return a vector whose lanes all hold `value`."""
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    vector = builder.insert_element(vector, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(vector, vector, constant([0] * lanes, 32))


def shuffle(builder: Any, left: Any, right: Any, picks: Sequence[int]) -> Any:
    """Pick lanes of two vectors; numbers past the first vector's lanes pick from the second."""
    return builder.shuffle_vector(left, right, constant(picks, 32))


def add_words(
    builder: Any, pointer: Any, stream: Sequence[Any], itemsize: int, negative: Any
) -> None:
    """Add vectors to the words at `pointer`, or subtract them where `negative` holds.

    The words need only be aligned to their own size.
    """
    size = stream[0].type.count * stream[0].type.element.width // 8
    kind = ir.VectorType(ir.IntType(8 * itemsize), size // itemsize)
    words = [builder.bitcast(vector, kind) for vector in stream]
    # One well-predicted branch for the group is cheaper than negating every vector.
    with builder.if_else(negative) as (subtract, add):
        for branch, combine in ((subtract, builder.sub), (add, builder.add)):
            with branch:
                for index, vector in enumerate(words):
                    place = builder.gep(pointer, [ir.Constant(_INT32, index * size)])
                    place = builder.bitcast(place, kind.as_pointer())
                    old = builder.load(place, align=itemsize)
                    builder.store(combine(old, vector), place, align=itemsize)
