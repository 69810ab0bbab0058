"""Evaluation and interpolation against Python integers, on every code path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field
from privagg._jit import JIT
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.plain import Plain

P = 2**61 - 1
EDGES = [0, 1, 2, 2**30, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**60, P - 2, P - 1]
element = st.one_of(st.sampled_from(EDGES), st.integers(0, P - 1))
quick = settings(deadline=None, max_examples=150)

BACKENDS = [pytest.param(Plain(field.M61), id="plain")]
if JIT:
    BACKENDS.append(pytest.param(backend(field.M61), id="kernels"))


def array(values):
    return np.array(values, dtype=np.uint64)


def horner(coefficients, point):
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % P
    return value


def expected_values(coefficients, points):
    columns = coefficients.T.tolist()
    return [[horner(column, point) for column in columns] for point in points.tolist()]


# Few points and many polynomials, or the reverse; points below 2**31, from 2**31, mixed: this takes
# each of the compiled paths.
@pytest.mark.parametrize("code", BACKENDS)
@pytest.mark.parametrize("highest", [40, 2**31 - 1, P - 1])
@pytest.mark.parametrize(
    ("t", "m", "n"),
    [
        (1, 1, 1),
        (1, 3, 9),
        (2, 9, 3),
        (5, 6, 40),
        (9, 40, 6),
        (12, 1, 1),
        (3, 700, 2),
        (3, 150, 130),
    ],
)
def test_evaluate(code, t, m, n, highest):
    rng = np.random.default_rng(t * m * n)
    pool = np.concatenate([array(EDGES), rng.integers(0, P, 40, dtype=np.uint64)])
    coefficients = rng.choice(pool, (t, m))
    points = rng.integers(0, highest, n, dtype=np.uint64, endpoint=True)
    points[0] = highest
    assert code.evaluate(coefficients, points).tolist() == expected_values(coefficients, points)


@pytest.mark.parametrize("code", BACKENDS)
@pytest.mark.parametrize("point", [2**31 - 1, 2**31, 2**32 - 1, P - 1])
@pytest.mark.parametrize("m", [1, 4])
def test_evaluate_extremes_of_high_degree(code, point, m):
    coefficients = np.full((300, m), P - 1, dtype=np.uint64)
    points = array([point, point - 1])
    assert code.evaluate(coefficients, points).tolist() == expected_values(coefficients, points)


@pytest.mark.parametrize("code", BACKENDS)
@quick
@given(st.lists(element, max_size=12), st.lists(element, max_size=12))
def test_evaluate_one_polynomial(code, coefficients, points):
    found = code.evaluate(array(coefficients).reshape(-1, 1), array(points))
    assert found.shape == (len(points), 1)
    assert found.ravel().tolist() == [horner(coefficients, point) for point in points]


@pytest.mark.parametrize("code", BACKENDS)
def test_evaluate_empty(code):
    some = np.ones((3, 2), np.uint64)
    assert code.evaluate(some, array([])).shape == (0, 2)
    assert code.evaluate(some[:, :0], array([1, 2])).shape == (2, 0)
    assert code.evaluate(some[:0], array([1, 2, P - 1])).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("code", BACKENDS)
@quick
@given(st.lists(element.filter(bool), min_size=1, max_size=12, unique=True))
def test_lagrange_weights_are_the_formula(code, points):
    expected = []
    for i, x in enumerate(points):
        weight = 1
        for j, other in enumerate(points):
            if j != i:
                weight = weight * other * pow(other - x, -1, P) % P
        expected.append(weight)
    assert code.lagrange_weights_at_zero(array(points)).tolist() == expected


@quick
@given(st.data())
def test_interpolation_undoes_evaluation(data):
    t = data.draw(st.integers(1, 10))
    extra = data.draw(st.integers(0, 3))
    coefficients = data.draw(st.lists(element, min_size=t, max_size=t))
    points = data.draw(
        st.lists(element.filter(bool), min_size=t + extra, max_size=t + extra, unique=True)
    )
    values = field.evaluate(array(coefficients).reshape(t, 1), array(points))
    weights = field.lagrange_weights_at_zero(array(points))
    assert field.weighted_sum(weights, values).tolist() == [coefficients[0]]


def test_layouts_that_are_not_contiguous():
    rng = np.random.default_rng(8)
    wide = rng.integers(0, P, (8, 10), dtype=np.uint64)
    points = rng.integers(1, 2**31, 24, dtype=np.uint64)
    for coefficients in (wide.T, wide[::2, ::-1], np.asfortranarray(wide)):
        assert field.evaluate(coefficients, points[::3]).tolist() == expected_values(
            coefficients, points[::3]
        )
    assert (
        field.lagrange_weights_at_zero(points[::-2]).tolist()
        == field.lagrange_weights_at_zero(points[::-2].copy()).tolist()
    )


@pytest.mark.parametrize(
    "bad", [[], [0], [1, 0, 2], [1, 2, 1], [5, 5], [P], [P + 1], [1, 2**64 - 1]]
)
def test_points_that_do_not_interpolate_are_refused(bad):
    with pytest.raises(UsageError, match="points"):
        field.lagrange_weights_at_zero(array(bad))


@pytest.mark.parametrize(
    "bad", [None, 3, [1, 2], np.array([1, 2]), np.array([1.0]), np.ones((2, 2), np.uint64)]
)
def test_what_is_no_vector_of_elements_is_refused(bad):
    with pytest.raises(UsageError, match="points"):
        field.lagrange_weights_at_zero(bad)
    with pytest.raises(UsageError, match="points"):
        field.evaluate(np.ones((2, 2), np.uint64), bad)


@pytest.mark.parametrize(
    "bad", [None, [[1]], array([1]), array([[P]]), np.ones((2, 2)), np.ones((2, 2, 2), np.uint64)]
)
def test_what_is_no_table_of_coefficients_is_refused(bad):
    with pytest.raises(UsageError, match="coefficients"):
        field.evaluate(bad, array([1]))
