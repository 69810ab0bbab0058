"""Interpolation and Vandermonde matrices against Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field
from privagg.errors import UsageError
from privagg.field import polynomials

FIELDS = [
    field.M31,
    field.M61,
    field.GOLDILOCKS,
    field.F128,
    field.prime_field(2),
    field.prime_field(13),
    field.prime_field(4294967291),
]
named = pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.name)


@named
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_the_polynomial_through_points_is_found_again(kind, data):
    p = kind.modulus
    number = st.one_of(st.sampled_from([0, 1, p - 1]), st.integers(0, p - 1))
    points = data.draw(st.lists(number, min_size=1, max_size=min(p, 8), unique=True))
    m = data.draw(st.integers(1, 3))
    truth = [[data.draw(number) for _ in range(m)] for _ in points]
    values = [
        [sum(row[j] * pow(x, k, p) for k, row in enumerate(truth)) % p for j in range(m)]
        for x in points
    ]
    found = field.interpolate(field.elements(points, kind), field.elements(values, kind), kind)
    assert found.dtype == kind.dtype
    assert field.integers(found, kind).tolist() == truth


@named
def test_long_interpolations_undo_evaluation(kind, monkeypatch):
    t = min(kind.modulus, 33)
    points = field.elements(list(range(t)), kind)
    generator = np.random.default_rng(4)
    numbers = generator.integers(0, 2**62, size=(t, 5)) % min(kind.modulus, 2**62)
    truth = field.elements(numbers.tolist(), kind)
    values = field.evaluate(truth, points, kind)
    assert np.array_equal(field.interpolate(points, values, kind), truth)
    monkeypatch.setattr(polynomials, "_BLOCK", 4 * t)  # several blocks, the last one short
    assert np.array_equal(field.interpolate(points, values, kind), truth)


@named
@pytest.mark.parametrize("columns", [0, 1, 2, 3, 4, 7, 8, 9])
def test_vandermonde_matrices_hold_powers(kind, columns):
    p = kind.modulus
    points = sorted({0, 1, 2 % p, p - 1, p // 2})
    found = field.vandermonde(field.elements(points, kind), columns, kind)
    assert found.dtype == kind.dtype
    truth = [[pow(x, j, p) for j in range(columns)] for x in points]
    assert field.integers(found, kind).tolist() == truth
    none = field.vandermonde(field.elements(points, kind)[:0], columns, kind)
    assert none.shape[:2] == (0, columns)


def test_wrong_arguments_are_named():
    kind = field.M61
    points, values = field.elements([1, 2, 3], kind), field.elements([[1], [2], [3]], kind)
    for argument, wrong in [
        ("points", lambda: field.interpolate(points[:0], values[:0], kind)),
        ("points", lambda: field.interpolate(field.elements([1, 2, 1], kind), values, kind)),
        ("points", lambda: field.interpolate([1, 2, 3], values, kind)),
        ("values", lambda: field.interpolate(points, values[:2], kind)),
        ("values", lambda: field.interpolate(points, values[:, 0], kind)),
        ("values", lambda: field.interpolate(points, values.astype(np.int64), kind)),
        ("field", lambda: field.interpolate(points, values, field.ring(64))),
        ("columns", lambda: field.vandermonde(points, -1, kind)),
        ("columns", lambda: field.vandermonde(points, True, kind)),
        ("points", lambda: field.vandermonde(values, 3, kind)),
        ("field", lambda: field.vandermonde(points, 3, field.ring(61))),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument
