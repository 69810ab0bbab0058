"""Arrays for the tests that run on a device or in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg import field as fields
from privagg._cuda.arrays import SIMULATED
from privagg.field.params import Algebra, Ring

ALGEBRAS: tuple[Algebra, ...] = (
    *fields.FIELDS.values(),
    fields.prime_field(2),
    fields.prime_field(65537),
    fields.prime_field(4294967291),
    fields.ring(1),
    fields.ring(8),
    fields.ring(20),
    fields.ring(64),
)

LENGTH = 37 if SIMULATED else 20_011
"""More than a grid of the simulator has threads; few, since it interprets every one of them."""


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, Algebra) else None


def to_device(array: np.ndarray[Any, Any]) -> Any:
    from numba import cuda

    return cuda.to_device(array)


def same(found: Any, expected: np.ndarray[Any, Any]) -> None:
    """Require a device array of these elements, shape and type."""
    assert not isinstance(found, np.ndarray)
    copied = found.copy_to_host()
    assert copied.dtype == expected.dtype
    np.testing.assert_array_equal(copied, expected, strict=True)


def operands(field: Algebra, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return elements: half of them at the borders of the field and of its words, half random."""
    rng = np.random.default_rng([seed, field.bits, *shape])
    p = field.modulus
    borders = [
        0,
        1,
        2,
        p - 1,
        p - 2,
        p // 2,
        *(2**k + d for k in (16, 31, 32, 63, 64, 96) for d in (-1, 0, 1)),
    ]
    borders = [border % p for border in borders]
    count = int(np.prod(shape))
    values = [
        borders[int(rng.integers(len(borders)))]
        if rng.random() < 0.5
        else int.from_bytes(rng.bytes(17), "little") % p
        for _ in range(count)
    ]
    limbs = (field.limbs,) if field.limbs > 1 else ()
    return fields.elements(values, field).reshape(*shape, *limbs)


def invertible(field: Algebra, *shape: int) -> np.ndarray[Any, Any]:
    """Return elements that have an inverse."""
    values = operands(field, *shape)
    if isinstance(field, Ring):
        return values | field.dtype.type(1)
    zero = ~values.any(axis=-1) if field.limbs > 1 else values == 0
    values[zero] = fields.elements(1, field)
    return values
