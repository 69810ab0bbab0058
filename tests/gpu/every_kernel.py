"""Every kernel of the package with the types it is launched with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import types

from privagg import field as fields
from privagg._cuda import aes, bits, chacha20, levels
from privagg.field.cuda.elementwise import elementwise_kernels
from privagg.field.cuda.sums import product_kernels
from privagg.field.cuda.transforms import transform_kernels
from privagg.field.params import Algebra, Field

ALGEBRAS: tuple[Algebra, ...] = (
    *fields.FIELDS.values(),
    fields.prime_field(4294967291),
    fields.ring(8),
    fields.ring(20),
    fields.ring(64),
)

I64, U64, U32, F64 = types.int64, types.uint64, types.uint32, types.float64
FLAGS = WORDS32 = types.uint32[::1]
WORDS64, SIGNS, BYTES = types.uint64[::1], types.int8[::1], types.uint8[::1]


def of_field(field: Algebra) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Yield name, kernel and argument types of the kernels of one field or ring."""
    array = getattr(types, field.dtype.name)[::1]
    two = (array, I64, array, I64)
    by_name = {
        "add": (*two, array, I64, FLAGS),
        "sub": (*two, array, I64, FLAGS),
        "mul": (*two, array, I64, FLAGS),
        "mul_add": (*two, array, I64, array, I64, FLAGS),
        "neg": (array, array, I64, FLAGS),
        "power": (array, U64, U64, I64, array, I64, FLAGS),
        "inverse": (array, array, I64, FLAGS),
        "check": (array, I64, FLAGS, I64),
        "dot": (array, array, array, I64),
        "total": (array, I64, array),
        "weighted_sum": (array, array, array, I64, I64),
        "matmul": (array, array, array, I64, I64, I64),
        "evaluate": (array, array, array, I64, I64, I64),
        "lagrange": (array, array, array, I64, I64, FLAGS),
        "twiddles": (array, array, I64, I64),
        "butterflies": (array, array, array, I64, I64, I64),
        "sum_rows": (array, array, I64, I64),
    }
    groups = [elementwise_kernels(field), product_kernels(field)]
    if isinstance(field, Field):
        groups.append(transform_kernels(field))
    for group in groups:
        for name, kernel in vars(group).items():
            yield f"{field.name} {name}", kernel, by_name[name]


def without_field() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Yield name, kernel and argument types of the kernels that belong to no field."""
    for word, suffix in ((WORDS32, "32"), (WORDS64, "64")):
        stream = (SIGNS, I64, I64)
        yield (
            f"chacha20 {suffix}",
            getattr(chacha20, f"accumulate_{suffix}"),
            (word, I64, WORDS32, *stream, U32, I64, I64),
        )
        yield (
            f"aes {suffix}",
            getattr(aes, f"accumulate_{suffix}"),
            (word, I64, WORDS32, WORDS32, WORDS64, *stream, U64, I64, I64),
        )
        packed = (BYTES, U64, U64, word, I64)
        yield f"unpack {suffix}", bits.unpack_store, packed
        yield f"unpack and add {suffix}", bits.unpack_add, packed
        yield f"mask {suffix}", bits.mask_words, (word, U64, I64)
        for values in (np.float32, np.float64):
            array = getattr(types, np.dtype(values).name)[::1]
            yield (
                f"float levels {array.dtype} {suffix}",
                levels.float_kernel,
                (array, I64, WORDS32, WORDS32, F64, F64, U64, U64, word, WORDS64),
            )
        integer = (types.int64[::1], I64, U64, U64, U64, word, WORDS64)
        yield f"integer levels {suffix}", levels.integer_kernel, integer
    yield "aes keys", aes.expand_keys, (WORDS32, WORDS32, I64, I64, I64, WORDS32)


def every_kernel() -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Yield name, kernel and argument types of every kernel."""
    for field in ALGEBRAS:
        yield from of_field(field)
    yield from without_field()
