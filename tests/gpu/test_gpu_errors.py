"""What does not fit is refused, and the message names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_tools import ALGEBRAS, name_of, operands, to_device

from privagg import field as fields
from privagg._cuda import arrays
from privagg.errors import UsageError

pytestmark = pytest.mark.gpu

M61 = fields.M61


def refused(argument: str, call: Any, *parts: str) -> None:
    with pytest.raises(UsageError) as found:
        call()
    assert found.value.argument == argument
    for part in parts:
        assert part in str(found.value)


@pytest.fixture
def x():
    return to_device(np.arange(6, dtype=np.uint64))


def test_host_and_device_do_not_mix(x):
    host = np.arange(6, dtype=np.uint64)
    refused("b", lambda: fields.add(x, host), "CUDA array", "NumPy array")
    refused("a", lambda: fields.add(host, x), "CUDA array")
    refused("b", lambda: fields.add(x, b=host))
    refused("c", lambda: fields.mul_add(x, x, host))
    refused("weights", lambda: fields.weighted_sum(host, x.reshape(6, 1)))
    refused("points", lambda: fields.evaluate(x.reshape(6, 1), host))
    refused("targets", lambda: fields.lagrange_weights(x, host))
    refused("b", lambda: fields.add(x, 3), "int")


def test_other_types(x):
    for dtype in (np.uint32, np.int64, np.float64):
        other = to_device(np.arange(6).astype(dtype))
        refused("b", lambda other=other: fields.mul(x, other), np.dtype(dtype).name, "uint64")
        refused("a", lambda other=other: fields.neg(other))
    refused("field", lambda: fields.add(x, x, "m61"))
    refused("field", lambda: fields.lagrange_weights(x, x, fields.ring(64)))


def test_gaps_in_memory():
    strided = to_device(np.arange(12, dtype=np.uint64))[::2]
    refused("a", lambda: fields.add(strided, strided), "C-contiguous")
    turned = to_device(np.arange(6, dtype=np.uint64).reshape(2, 3)).T
    refused("b", lambda: fields.matmul(to_device(np.ones((1, 3), np.uint64)), turned))


@pytest.mark.parametrize(
    "field", [f for f in ALGEBRAS if f.modulus != 2 ** (8 * f.dtype.itemsize)], ids=name_of
)
def test_elements_that_are_not_canonical(field):
    good = operands(field, 7)
    wrong = good.copy()
    if field.limbs > 1:
        wrong[3] = [field.modulus & (2**64 - 1), field.modulus >> 64]
    else:
        wrong[3] = field.modulus
    x, y = to_device(good), to_device(wrong)
    said = ("not below the modulus",)
    for function in (fields.add, fields.sub, fields.mul):
        refused("a", lambda function=function: function(y, x, field), *said)
        refused("b", lambda function=function: function(x, y, field), *said)
    refused("c", lambda: fields.mul_add(x, x, y, field), *said)
    refused("a", lambda: fields.neg(y, field), *said)
    refused("a", lambda: fields.power(y, 2, field), *said)
    refused("b", lambda: fields.dot(x, y, field), *said)
    shape = (7, 1, *good.shape[1:])
    refused("rows", lambda: fields.weighted_sum(x, y.reshape(*shape), field), *said)
    refused("rows", lambda: fields.sum_rows(y.reshape(*shape), field), *said)
    row = x.reshape(1, 7, *good.shape[1:])
    refused("a", lambda: fields.matmul(y.reshape(*shape), row, field), *said)
    refused("points", lambda: fields.evaluate(x.reshape(*shape), y, field), *said)
    refused("a", lambda: fields.neg(y, field), f"0 to {field.modulus - 1}")


def test_no_inverse():
    zero = to_device(np.array([3, 0, 4], np.uint64))
    refused("a", lambda: fields.inverse(zero), "zero")
    refused(
        "a", lambda: fields.inverse(to_device(np.zeros((3, 2), np.uint64)), fields.F128), "zero"
    )
    even = to_device(np.array([3, 2], np.uint8))
    refused("a", lambda: fields.inverse(even, fields.ring(8)), "even")


def test_shapes(x):
    refused("b", lambda: fields.add(x, to_device(np.zeros(5, np.uint64))), "shape (5,)")
    refused("b", lambda: fields.add(x.reshape(2, 3), to_device(np.zeros((2, 1), np.uint64))))
    refused("b", lambda: fields.dot(x, to_device(np.zeros(5, np.uint64))))
    refused("a", lambda: fields.dot(x.reshape(2, 3), x))
    refused("b", lambda: fields.matmul(x.reshape(2, 3), x.reshape(2, 3)))
    refused("rows", lambda: fields.weighted_sum(x, x))
    refused("weights", lambda: fields.weighted_sum(x, x.reshape(2, 3)))
    refused("coefficients", lambda: fields.evaluate(x, x))
    refused("a", lambda: fields.add(x, x, fields.F128), "last axis of 2 words")


def test_points_of_interpolation():
    points = to_device(np.array([1, 2, 1], np.uint64))
    none = to_device(np.zeros(0, np.uint64))
    refused("points", lambda: fields.lagrange_weights_at_zero(points), "repeated")
    refused("points", lambda: fields.lagrange_weights(points, none), "repeated")
    refused("points", lambda: fields.lagrange_weights(none, points), "no point")
    refused(
        "points",
        lambda: fields.lagrange_weights_at_zero(to_device(np.arange(3, dtype=np.uint64))),
        "zero",
    )


def test_exponents(x):
    for exponent in (-1, 1.0, True, None):
        refused("exponent", lambda exponent=exponent: fields.power(x, exponent))


def test_lengths_without_a_root_of_unity(x):
    refused("a", lambda: fields.ntt(x, M61), "power of two")
    refused("a", lambda: fields.ntt(x[:4], M61), "at most 2")
    refused("a", lambda: fields.inverse_ntt(x.reshape(1, 2, 3), fields.GOLDILOCKS), "vector")


def test_two_devices(x, monkeypatch):
    other = to_device(np.arange(6, dtype=np.uint64))
    monkeypatch.setattr(arrays, "device_of", lambda array: 1 if array is other else 0)
    refused("b", lambda: fields.add(x, other), "on device 1", "device 0")
    refused("c", lambda: fields.mul_add(other, other, x), "on device 0", "device 1")


class Interface:
    """An array of another library, which gives its memory away or does not."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise self.error


def test_arrays_that_give_no_access(x, monkeypatch):
    cuda = arrays.module("a")
    locked = Interface(RuntimeError("it requires a gradient"))

    def as_cuda_array(value: Any) -> Any:
        return value.__cuda_array_interface__

    monkeypatch.setattr(cuda, "as_cuda_array", as_cuda_array, raising=False)
    refused("b", lambda: fields.add(x, locked), "it requires a gradient")
