"""Every function of the fields on CUDA arrays, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_tools import ALGEBRAS, LENGTH, SIMULATED, invertible, name_of, operands, same, to_device

from privagg import field as fields
from privagg.field.params import Field
from privagg.field.plain import Plain

pytestmark = pytest.mark.gpu

each_algebra = pytest.mark.parametrize("field", ALGEBRAS, ids=name_of)
each_field = pytest.mark.parametrize(
    "field", [field for field in ALGEBRAS if isinstance(field, Field)], ids=name_of
)


@each_algebra
def test_elementwise(field):
    plain = Plain(field)
    a, b, c = (operands(field, 3, LENGTH // 3, seed=seed) for seed in range(3))
    x, y, z = map(to_device, (a, b, c))
    same(fields.add(x, y, field), plain.add(a, b))
    same(fields.sub(x, y, field), plain.sub(a, b))
    same(fields.mul(x, y, field), plain.mul(a, b))
    same(fields.mul_add(x, y, z, field), plain.add(plain.mul(a, b), c))
    same(fields.neg(x, field), plain.sub(np.zeros_like(a), a))
    same(x, a)  # operands are left as they were


@each_algebra
def test_borders_meet_each_other(field):
    count = 12 if SIMULATED else 24
    plain, edges = Plain(field), np.unique(operands(field, 200), axis=0)[-count:]
    a, b = np.repeat(edges, len(edges), axis=0), np.concatenate([edges] * len(edges))
    same(fields.mul(to_device(a), to_device(b), field), plain.mul(a, b))
    same(fields.add(to_device(a), to_device(b), field), plain.add(a, b))
    same(fields.sub(to_device(a), to_device(b), field), plain.sub(a, b))


@each_algebra
def test_broadcasting_of_trailing_axes_and_of_one_element(field):
    a, row, one = operands(field, 4, 5), operands(field, 5, seed=1), operands(field, 1, seed=2)
    plain = Plain(field)
    expected = plain.add(plain.mul(a, np.broadcast_to(row, a.shape)), np.broadcast_to(one, a.shape))
    same(fields.mul_add(*map(to_device, (a, row, one)), field), expected)
    same(
        fields.sub(to_device(row), to_device(a), field), plain.sub(np.broadcast_to(row, a.shape), a)
    )


@each_algebra
@pytest.mark.parametrize("exponent", [0, 1, 5, 2**64 - 1, 2**200 + 3])
def test_power(field, exponent):
    a = operands(field, 9)
    expected = [pow(value, exponent, field.modulus) for value in fields.integers(a, field)]
    same(fields.power(to_device(a), exponent, field), fields.elements(expected, field))


@each_algebra
def test_inverse(field):
    a = invertible(field, LENGTH)
    found = fields.inverse(to_device(a), field)
    ones = np.broadcast_to(fields.elements(1, field), a.shape)
    np.testing.assert_array_equal(Plain(field).mul(found.copy_to_host(), a), ones)


@each_algebra
@pytest.mark.parametrize("length", [0, 1, LENGTH])
def test_dot(field, length):
    a, b = operands(field, length), operands(field, length, seed=1)
    same(fields.dot(to_device(a), to_device(b), field), Plain(field).dot(a, b))


@each_algebra
def test_sums_of_the_largest_products(field):
    n = 40 if SIMULATED else 5000
    top = np.broadcast_to(
        fields.elements(field.modulus - 1, field), (n, *operands(field, 1).shape[1:])
    )
    a = np.ascontiguousarray(top)
    expected = fields.elements(n * (field.modulus - 1) ** 2 % field.modulus, field)
    same(fields.dot(to_device(a), to_device(a), field), expected)
    column = a.reshape(n, 1, *a.shape[1:])
    total = fields.weighted_sum(to_device(a), to_device(column), field)
    same(total, expected.reshape(1, *expected.shape))


@each_algebra
@pytest.mark.parametrize(("n", "t", "m"), [(1, 1, 1), (6, 5, 9), (4, 0, 3), (0, 2, 3), (9, 130, 3)])
def test_products_of_matrices(field, n, t, m):
    if SIMULATED and t > 100:
        t = 9
    a, b = operands(field, n, t), operands(field, t, m, seed=1)
    same(fields.matmul(to_device(a), to_device(b), field), Plain(field).matmul(a, b))
    weights = operands(field, t, seed=2)
    expected = Plain(field).weighted_sum(weights, b)
    same(fields.weighted_sum(to_device(weights), to_device(b), field), expected)
    same(fields.sum_rows(to_device(b), field), Plain(field).sum_rows(b))


@each_algebra
@pytest.mark.parametrize("t", [0, 1, 6])
def test_evaluate(field, t):
    coefficients, points = operands(field, t, 4), operands(field, 5, seed=1)
    found = fields.evaluate(to_device(coefficients), to_device(points), field)
    same(found, Plain(field).evaluate(coefficients, points))


@pytest.mark.parametrize(
    "field",
    [field for field in ALGEBRAS if isinstance(field, Field) and field.modulus > 9],
    ids=name_of,
)
def test_lagrange_weights(field):
    points = fields.elements([1, 2, 7, field.modulus - 1], field)
    targets = fields.elements([0, 7, 3], field)
    plain = Plain(field)
    found = fields.lagrange_weights(to_device(points), to_device(targets), field)
    same(found, plain.lagrange_weights(points, targets))
    found = fields.lagrange_weights_at_zero(to_device(points), field)
    same(found, plain.lagrange_weights_at_zero(points))


@pytest.mark.parametrize("rows", [None, 0, 3])
@pytest.mark.parametrize(
    ("field", "length"),
    [
        (fields.M31, 2),
        *(
            (field, length)
            for field in (fields.GOLDILOCKS, fields.F128, fields.prime_field(65537))
            for length in (1, 2, 4, 16 if SIMULATED else 2048)
        ),
    ],
    ids=name_of,
)
def test_transforms(field, length, rows):
    a = operands(field, *(() if rows is None else (rows,)), length)
    there = fields.ntt(to_device(a), field)
    same(there, fields.ntt(a, field))
    same(fields.inverse_ntt(there, field), a)


@each_algebra
def test_empty_arrays(field):
    a = operands(field, 3, 0)
    x = to_device(a)
    for found in (fields.add(x, x, field), fields.neg(x, field), fields.power(x, 3, field)):
        same(found, a)
    same(fields.inverse(x, field), a)


def test_weights_times_coded_shares_decode_the_sum_of_masks():
    """LightSecAgg's one-shot decoding: a matrix of weights times the answers of the survivors."""
    field, t, u, width = fields.M31, 2, 5, LENGTH
    points = fields.elements(range(1, u + 1), field)
    targets = fields.elements(range(11, 11 + u - t), field)
    pieces = operands(field, u, width)  # values at the first points determine the polynomials
    coded = Plain(field).matmul(fields.lagrange_weights(points, targets, field), pieces)
    weights = fields.lagrange_weights(to_device(points), to_device(targets), field)
    same(fields.matmul(weights, to_device(pieces), field), coded)
