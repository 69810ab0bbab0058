"""The functions of :mod:`privagg.field` on CUDA arrays; there is what they take and raise.

What differs: all array arguments lie on one device and are C-contiguous; an operand broadcasts if
it is one element, or if its shape is the last axes of the result's. Results are Numba's device
arrays. Each call reads back a few bytes that say whether the operands were canonical, and so waits
until the device is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privagg._cuda import arrays
from privagg._cuda.arrays import grid, launch
from privagg.errors import UsageError
from privagg.field.checks import check_field
from privagg.field.cuda.operands import Call, limb_axis, new, operands
from privagg.field.params import M61, Algebra, Field, Ring

__all__ = [
    "add",
    "dot",
    "evaluate",
    "inverse_ntt",
    "inverse",
    "lagrange_weights",
    "lagrange_weights_at_zero",
    "matmul",
    "mul",
    "mul_add",
    "neg",
    "ntt",
    "power",
    "sub",
    "sum_rows",
    "weighted_sum",
]

_Shape = tuple[int, ...]


def _elementwise_kernels(field: Algebra) -> Any:
    from privagg.field.cuda.elementwise import elementwise_kernels

    return elementwise_kernels(field)


def _product_kernels(field: Algebra) -> Any:
    from privagg.field.cuda.sums import product_kernels

    return product_kernels(field)


def _common_shape(call: Call) -> _Shape:
    """Return the shape of the result: the operand's with most axes, if all others fit its end."""
    shape = max(call.shapes, key=lambda one: (len(one), _count(one)))
    for name, other in zip(call.names, call.shapes, strict=True):
        kept = list(other)
        while kept and kept[0] == 1:
            del kept[0]
        if tuple(kept) != shape[len(shape) - len(kept) :] and tuple(kept) != ():
            raise UsageError(
                name,
                f"shape {other}",
                f"one element, or a shape that the other operands' {shape} ends with",
                "Other shapes broadcast only where NumPy arrays are.",
            )
    return shape


def _count(shape: _Shape) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _combine(name: str, field: Algebra, **values: object) -> Any:
    with operands(field, None, **values) as call:
        shape = _common_shape(call)
        out, count = new(shape, field), _count(shape)
        if count:
            periods = [
                part for pair in zip(call.arrays, call.sizes(), strict=True) for part in pair
            ]
            kernel = getattr(_elementwise_kernels(field), name)
            launch(kernel, *grid(count), *periods, arrays.flat(out), count, call.flags)
            call.read_flags()
        return out


def add(a: Any, b: Any, field: Algebra = M61) -> Any:
    """Return ``a + b``; see :func:`privagg.field.add`."""
    return _combine("add", field, a=a, b=b)


def sub(a: Any, b: Any, field: Algebra = M61) -> Any:
    """Return ``a - b``; see :func:`privagg.field.sub`."""
    return _combine("sub", field, a=a, b=b)


def mul(a: Any, b: Any, field: Algebra = M61) -> Any:
    """Return ``a * b``; see :func:`privagg.field.mul`."""
    return _combine("mul", field, a=a, b=b)


def mul_add(a: Any, b: Any, c: Any, field: Algebra = M61) -> Any:
    """Return ``a * b + c``; see :func:`privagg.field.mul_add`."""
    return _combine("mul_add", field, a=a, b=b, c=c)


def neg(a: Any, field: Algebra = M61) -> Any:
    """Return ``-a``; see :func:`privagg.field.neg`."""
    with operands(field, a=a) as call:
        out, (count,) = new(call.shapes[0], field), call.sizes()
        if count:
            kernel = _elementwise_kernels(field).neg
            launch(kernel, *grid(count), call.arrays[0], arrays.flat(out), count, call.flags)
            call.read_flags()
        return out


def power(a: Any, exponent: int, field: Algebra = M61) -> Any:
    """Return ``a**exponent``; see :func:`privagg.field.power`."""
    from privagg.field.cuda.elementwise import exponent_words

    with operands(field, a=a) as call:
        if isinstance(exponent, bool) or not isinstance(exponent, int | np.integer) or exponent < 0:
            hint = "For negative powers use inverse."
            raise UsageError("exponent", exponent, "an integer of 0 or more", hint)
        exponent = int(exponent)
        if exponent and not isinstance(field, Ring):
            # A positive exponent stays positive, so that powers of zero stay zero.
            exponent = (exponent - 1) % (field.modulus - 1) + 1
        elif exponent.bit_length() > 128:
            # Orders of odd elements divide 2**62; even ones raised to 2**64 or more are 0.
            exponent = exponent % 2**62 + 2**64
        out, (count,) = new(call.shapes[0], field), call.sizes()
        if count:
            launch(
                _elementwise_kernels(field).power,
                *grid(count),
                call.arrays[0],
                *exponent_words(exponent),
                arrays.flat(out),
                count,
                call.flags,
            )
            call.read_flags()
        return out


def inverse(a: Any, field: Algebra = M61) -> Any:
    """Return ``1 / a``; see :func:`privagg.field.inverse`."""
    with operands(field, a=a) as call:
        out, (count,) = new(call.shapes[0], field), call.sizes()
        if count:
            # One exponentiation serves up to 32 elements where there are threads enough.
            each = 2 if arrays.SIMULATED else max(1, min(32, count >> 17))
            kernel = _elementwise_kernels(field).inverse
            place = grid(count, each)
            launch(kernel, *place, call.arrays[0], arrays.flat(out), count, call.flags)
            if call.read_flags():
                if isinstance(field, Ring):
                    hint = "Even ones have no inverse."
                    raise UsageError("a", "an even element", "odd elements", hint)
                raise UsageError("a", "a zero", "nonzero elements", "Zero has no inverse.")
        return out


def dot(a: Any, b: Any, field: Algebra = M61) -> Any:
    """Return the 0-d sum of the products; see :func:`privagg.field.dot`."""
    with operands(field, 1, a=a, b=b) as call:
        (count, other) = call.sizes()
        if count != other:
            raise UsageError("b", f"{other} elements", f"{count}, as many as a has")
        call.check()
        kernels, out = _product_kernels(field), new((), field)
        # A 0-d array has no index in a kernel: its one element is written through a longer one.
        blocks, threads = grid(count, 1 if arrays.SIMULATED else 8)
        partial, flat = new((blocks,), field), _one_element(out)
        shared = arrays.THREADS * field.limbs * field.dtype.itemsize
        sums = arrays.flat(partial)
        launch(kernels.dot, blocks, threads, *call.arrays, sums, count, shared=shared)
        launch(kernels.total, 1, 1, sums, blocks, flat)
        return out


def _one_element(out: Any) -> Any:
    """Return a flat view of an array of one element that may have no axis."""
    return out if len(out.shape) == 1 else out.reshape(1)


def sum_rows(rows: Any, field: Algebra = M61) -> Any:
    """Return the sums of columns; see :func:`privagg.field.sum_rows`."""
    with operands(field, 2, rows=rows) as call:
        ((n, m),) = call.shapes
        call.check()
        out = new((m,), field)
        if m:
            kernel = _product_kernels(field).sum_rows
            launch(kernel, *grid(m), *call.arrays, arrays.flat(out), n, m)
        return out


def weighted_sum(weights: Any, rows: Any, field: Algebra = M61) -> Any:
    """Return the sum of weighted rows; see :func:`privagg.field.weighted_sum`."""
    with operands(field, weights=weights, rows=rows) as call:
        axes = {"weights": 1, "rows": 2}
        for (name, wanted), shape in zip(axes.items(), call.shapes, strict=True):
            if len(shape) != wanted:
                raise UsageError(name, f"a CUDA array of shape {shape}", f"{wanted} axes")
        (t,), (height, m) = call.shapes
        if t != height:
            raise UsageError("weights", f"{t} weights", f"{height}, one for each row")
        call.check()
        out = new((m,), field)
        if m:
            kernel = _product_kernels(field).weighted_sum
            launch(kernel, *grid(m), *call.arrays, arrays.flat(out), t, m)
        return out


def matmul(a: Any, b: Any, field: Algebra = M61) -> Any:
    """Return the product of two matrices; see :func:`privagg.field.matmul`."""
    from privagg.field.cuda.sums import DEPTH, ROWS

    with operands(field, 2, a=a, b=b) as call:
        (n, t), (height, m) = call.shapes
        if t != height:
            raise UsageError("b", f"{height} rows", f"{t}, as many as a has columns")
        call.check()
        out = new((n, m), field)
        if n and m:
            blocks = (-(-m // arrays.THREADS), min(-(-n // ROWS), 65_535))
            kernel = _product_kernels(field).matmul
            shared = ROWS * DEPTH * field.limbs * field.dtype.itemsize
            sizes = (n, t, m)
            product = arrays.flat(out)
            launch(kernel, blocks, arrays.THREADS, *call.arrays, product, *sizes, shared=shared)
        return out


def evaluate(coefficients: Any, points: Any, field: Field = M61) -> Any:
    """Return values of polynomials at points; see :func:`privagg.field.evaluate`."""
    with operands(field, coefficients=coefficients, points=points) as call:
        axes = {"coefficients": 2, "points": 1}
        for (name, wanted), shape in zip(axes.items(), call.shapes, strict=True):
            if len(shape) != wanted:
                raise UsageError(name, f"a CUDA array of shape {shape}", f"{wanted} axes")
        (t, m), (n,) = call.shapes
        call.check()
        out = new((n, m), field)
        if n and m:
            kernel = _product_kernels(field).evaluate
            launch(kernel, *grid(n * m), *call.arrays, arrays.flat(out), t, n, m)
        return out


def lagrange_weights(points: Any, targets: Any, field: Field = M61) -> Any:
    """Return weights of interpolation; see :func:`privagg.field.lagrange_weights`.

    Takes ``t**2 * m`` multiplications and an inversion for each weight: for few points.
    """
    check_field(field)
    return _lagrange(points, targets, field)[0]


def lagrange_weights_at_zero(points: Any, field: Field = M61) -> Any:
    """Return weights at zero; see :func:`privagg.field.lagrange_weights_at_zero`."""
    check_field(field)
    view = arrays.checked("points", points, f"a C-contiguous CUDA array of {field.dtype}")
    with arrays.current(arrays.device_of(view)):
        zero = arrays.upload(np.zeros((1, *limb_axis(field)), field.dtype))
    weights, has_zero = _lagrange(view, zero, field)
    if has_zero:
        raise UsageError("points", "a zero", "nonzero points", "The value at 0 is what is sought.")
    return weights.reshape(*(int(length) for length in tuple(weights.shape)[1:]))


def _lagrange(points: Any, targets: Any, field: Field) -> tuple[Any, bool]:
    """Return the weights, and whether a point is zero."""
    with operands(field, 1, points=points, targets=targets) as call:
        (t, m) = call.sizes()
        if t == 0:
            raise UsageError("points", "no point", "at least one")
        call.check()
        out, found = new((m, t), field), arrays.upload(np.zeros(2, np.uint32))
        # Points are checked even where there is no target: any then stands for one.
        nodes, aims = call.arrays if m else (call.arrays[0], call.arrays[0])
        room = out if m else new((1, t), field)
        count = max(m, 1)
        kernel = _product_kernels(field).lagrange
        launch(kernel, *grid(t * count), nodes, aims, arrays.flat(room), t, count, found)
        repeated, has_zero = found.copy_to_host().tolist()
        if repeated:
            raise UsageError("points", "a repeated point", "distinct points")
        return out, bool(has_zero)


def ntt(a: Any, field: Field) -> Any:
    """Transform vectors; see :func:`privagg.field.ntt`."""
    from privagg.field.cuda.transforms import transform

    return transform(a, field, inverse=False)


def inverse_ntt(a: Any, field: Field) -> Any:
    """Undo :func:`ntt`; see :func:`privagg.field.inverse_ntt`."""
    from privagg.field.cuda.transforms import transform

    return transform(a, field, inverse=True)
