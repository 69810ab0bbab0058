"""Arguments of the field's functions that are CUDA arrays: checked as NumPy arrays are.

No message holds an element: elements are often shares or masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from privagg._cuda import arrays
from privagg.errors import UsageError
from privagg.field.checks import check_algebra
from privagg.field.params import Algebra

__all__ = ["Call", "limb_axis", "new", "operands"]


def limb_axis(field: Algebra) -> tuple[int, ...]:
    """Return the shape of an element of `field` in an array: nothing, or its limbs."""
    return (field.limbs,) if field.limbs > 1 else ()


def new(shape: tuple[int, ...], field: Algebra) -> Any:
    """Return an array of elements, not yet written, on the current device."""
    return arrays.empty(shape + limb_axis(field), field.dtype)


class Call:
    """The checked operands of one call, on their device, which is the current one.

    Attributes
    ----------
    names : tuple of str
        Names of the arguments.
    arrays : tuple of device arrays
        Flat words of each.
    shapes : tuple of tuple of int
        Shapes in elements, without the axis of limbs.
    flags : device array of uint32
        Zeros: one for each operand and one more, in which kernels report.
    """

    def __init__(self, field: Algebra, found: dict[str, Any]) -> None:
        limbs = len(limb_axis(field))
        self.field = field
        self.names = tuple(found)
        self.arrays = tuple(arrays.flat(array) for array in found.values())
        shapes = (tuple(map(int, array.shape)) for array in found.values())
        self.shapes = tuple(shape[: len(shape) - limbs] for shape in shapes)
        self.flags = arrays.upload(np.zeros(len(found) + 1, np.uint32))

    def sizes(self) -> tuple[int, ...]:
        """Return how many elements each operand has."""
        return tuple(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    def check(self) -> None:
        """Raise unless all operands are canonical: a pass over each of them."""
        from privagg.field.cuda.elementwise import elementwise_kernels

        kernel = elementwise_kernels(self.field).check
        for number, (array, size) in enumerate(zip(self.arrays, self.sizes(), strict=True)):
            if size:
                arrays.launch(kernel, *arrays.grid(size), array, size, self.flags, number)
        self.read_flags()

    def read_flags(self) -> bool:
        """Wait for the kernels; raise if one found an operand that is not canonical.

        Returns
        -------
        bool
            Whether the last flag is set.
        """
        flags = self.flags.copy_to_host()
        for name, flag in zip(self.names, flags[:-1].tolist(), strict=True):
            if flag:
                raise UsageError(
                    name,
                    "an element that is not below the modulus",
                    f"canonical elements, 0 to {self.field.modulus - 1}",
                    "Reduce before the call; nothing is reduced silently.",
                )
        return bool(flags[-1])


@contextmanager
def operands(field: Algebra, ndim: int | None = None, **values: object) -> Iterator[Call]:
    """Check CUDA arrays and make their device the current one.

    Parameters
    ----------
    field : Field or Ring
        What elements are expected of.
    ndim : int, optional
        Number of axes that is required of all, an axis of limbs not counted.
    **values
        The arguments by name.

    Raises
    ------
    UsageError
        Naming the argument: not a CUDA array, another dtype or number of axes, gaps in memory, or
        on another device than the first. Canonical elements are for kernels to check.
    """
    check_algebra(field)
    found = {name: _operand(name, value, field, ndim) for name, value in values.items()}
    with arrays.current(arrays.one_device(found)):
        yield Call(field, found)


def _operand(name: str, value: object, field: Algebra, ndim: int | None) -> Any:
    axes = "" if ndim is None else f" with {ndim} {'axis' if ndim == 1 else 'axes'}"
    if field.limbs > 1:
        axes += f" and a last axis of {field.limbs} words"
    allowed = f"a C-contiguous CUDA array of {field.dtype}{axes}"
    array = arrays.checked(name, value, allowed)
    shape = tuple(map(int, array.shape))
    limbs = limb_axis(field)
    if (
        array.dtype != field.dtype
        or (ndim is not None and len(shape) != ndim + len(limbs))
        or (limbs and (not shape or shape[-1:] != limbs))
    ):
        raise UsageError(name, f"a CUDA array of {array.dtype}, shape {shape}", allowed)
    return array
