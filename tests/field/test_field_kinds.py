"""Every field and ring against Python's integers, on the code that answers and on plain NumPy."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field
from privagg._jit import JIT
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.plain import Plain

KINDS = [
    field.M31,
    field.M61,
    field.GOLDILOCKS,
    field.F128,
    field.prime_field(2),
    field.prime_field(5),
    field.prime_field(2147483629),
    field.prime_field(4294967291),
    *(field.ring(bits) for bits in (1, 5, 8, 16, 31, 32, 33, 61, 64)),
]
PRIMES = [kind for kind in KINDS if isinstance(kind, field.Field)]


def names(kinds):
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)


def operands(kind):
    p = kind.modulus
    edges = {0, 1, 2, p - 1, p - 2, p // 2, p // 2 + 1}
    edges |= {
        2**k + d for k in (15, 16, 30, 31, 32, 33, 61, 63, 64, 65, 96, 127) for d in (-1, 0, 1)
    }
    return sorted(x for x in edges if 0 <= x < p)


def backends(kind):
    return [Plain(kind), backend(kind)]


def integers(array, kind):
    return field.integers(array, kind).tolist()


def shaped(values, shape, kind):
    """Integers -> elements in an array of that shape, row by row."""
    limbs = (kind.limbs,) if kind.limbs > 1 else ()
    return field.elements(list(values), kind).reshape(*shape, *limbs)


def numbers(kind):
    return st.one_of(st.sampled_from(operands(kind)), st.integers(0, kind.modulus - 1))


@pytest.mark.skipif(not JIT, reason="kernels are off")
@names(KINDS)
def test_with_the_jit_on_kernels_answer(kind):
    assert not isinstance(backend(kind), Plain)


@names(KINDS)
def test_all_pairs_of_edges(kind):
    p, edges = kind.modulus, operands(kind)
    pairs = [(x, y) for x in edges for y in edges]
    a, b = (field.elements([pair[k] for pair in pairs], kind) for k in (0, 1))
    for code in backends(kind):
        for name, truth in (("add", int.__add__), ("sub", int.__sub__), ("mul", int.__mul__)):
            found = getattr(code, name)(a, b)
            assert found.dtype == kind.dtype
            assert field.integers(found, kind).tolist() == [truth(x, y) % p for x, y in pairs]
        found = code.mul_add(a, b, a)
        assert field.integers(found, kind).tolist() == [(x * y + x) % p for x, y in pairs]


@names(KINDS)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_products_of_matrices(kind, data):
    p = kind.modulus
    n, t, m = (data.draw(st.integers(low, 7)) for low in (0, 0, 1))
    number = st.one_of(st.sampled_from(operands(kind)), st.integers(0, p - 1))
    left = [[data.draw(number) for _ in range(t)] for _ in range(n)]
    right = [[data.draw(number) for _ in range(m)] for _ in range(t)]
    expected = [[sum(row[k] * right[k][j] for k in range(t)) % p for j in range(m)] for row in left]
    limbs = (kind.limbs,) if kind.limbs > 1 else ()
    a = field.elements([x for row in left for x in row], kind).reshape(n, t, *limbs)
    b = field.elements([x for row in right for x in row], kind).reshape(t, m, *limbs)
    for code in backends(kind):
        assert field.integers(code.matmul(a, b), kind).tolist() == expected
    if n:
        assert field.integers(field.weighted_sum(a[0], b, kind), kind).tolist() == expected[0]
        found = field.dot(a[0], np.ascontiguousarray(b[:, 0]), kind)
        assert int(field.integers(found, kind)[()]) == expected[0][0]


@names(KINDS)
def test_inverses_and_powers(kind):
    p = kind.modulus
    values = [x for x in operands(kind) if (x if isinstance(kind, field.Field) else x % 2)]
    a = field.elements(values, kind)
    for code in backends(kind):
        found = field.integers(code.inverse(a), kind).tolist()
        assert [x * y % p for x, y in zip(values, found, strict=True)] == [1 % p] * len(values)
    for exponent in (0, 1, 2, 5, p - 1, p, 3**90):
        every = field.elements(operands(kind), kind)
        found = field.integers(field.power(every, exponent, kind), kind).tolist()
        assert found == [pow(x, exponent, p) for x in operands(kind)]


@names(PRIMES)
def test_interpolation_at_other_points_and_at_the_points(kind):
    p = kind.modulus
    t = min(p, 6)
    points = [(7 * x + 1) % p for x in range(t)] if p > 7 else list(range(t))
    targets = [0, 1 % p, *points, p - 1]
    nodes, wanted = field.elements(points, kind), field.elements(targets, kind)
    weights = field.lagrange_weights(nodes, wanted, kind)
    assert np.array_equal(weights, Plain(kind).lagrange_weights(nodes, wanted))
    coefficients = field.uniform(from_seed(1), (t, 3), kind)
    values = field.evaluate(coefficients, nodes, kind)
    at_targets = field.evaluate(coefficients, wanted, kind)
    assert np.array_equal(field.matmul(weights, values, kind), at_targets)


@names(PRIMES)
def test_generators(kind):
    p = kind.modulus
    half = field.power(field.elements([kind.generator], kind), max(1, (p - 1) // 2), kind)
    assert int(field.integers(half, kind)[0]) == p - 1
    assert (p - 1) % 2**kind.two_adicity == 0
    assert p == 2 or (p - 1) // 2**kind.two_adicity % 2 == 1


@names(KINDS)
def test_uniform_elements_are_canonical_in_stream_order_and_reach_every_value(kind):
    drawn = field.integers(field.uniform(from_seed(3), (40, 25), kind), kind)
    assert drawn.shape == (40, 25)
    assert drawn.min() >= 0
    assert drawn.max() < kind.modulus
    if kind.modulus <= 5:
        assert set(drawn.ravel()) == set(range(kind.modulus))
    size = kind.dtype.itemsize * kind.limbs
    stream, one_by_one = from_seed(3), []
    while len(one_by_one) < 1000:
        word = int.from_bytes(stream.take(size), "little") % 2**kind.bits
        one_by_one += [word] * (word < kind.modulus)
    assert drawn.ravel().tolist() == one_by_one


@names(KINDS)
def test_out_of_range_wrong_dtype_and_shapes_are_refused(kind):
    with pytest.raises(UsageError, match="outside the range"):
        field.elements([kind.modulus], kind)
    with pytest.raises(UsageError, match="outside the range"):
        field.elements([-1], kind)
    good = field.elements([1, 0], kind)
    with pytest.raises(UsageError, match=r"^b: "):
        field.add(good, good.astype(np.float64), kind)
    with pytest.raises(UsageError, match=r"^b: "):
        field.mul(good, field.elements([1, 0, 1], kind), kind)
    bits = 8 * kind.dtype.itemsize
    if kind.modulus < 2 ** (bits * kind.limbs):
        too_large = good.copy()
        too_large[0] = 2**bits - 1
        with pytest.raises(UsageError, match="not below the modulus"):
            field.add(good, too_large, kind)


def test_two_limbs_are_asked_for_by_name():
    good = field.elements([1, 2, 3], field.F128)
    with pytest.raises(UsageError, match="last axis of 2 words"):
        field.add(good[:, 0], good[:, 0], field.F128)


@pytest.mark.parametrize("modulus", [0, 1, 4, 9, 2**32 + 15, 341, 2047, 3215031751, True, 5.0])
def test_composites_and_large_moduli_are_refused(modulus):
    with pytest.raises(UsageError, match="modulus"):
        field.prime_field(modulus)


def test_prime_fields_against_a_sieve():
    sieve = np.ones(5000, bool)
    sieve[:2] = False
    for k in range(2, 71):
        if sieve[k]:
            sieve[k * k :: k] = False
    found = []
    for n in range(2, 5000):
        try:
            found.append(field.prime_field(n).modulus)
        except UsageError:
            continue
    assert found == np.flatnonzero(sieve).tolist()


def test_rings_have_neither_roots_nor_interpolation():
    ring = field.ring(32)
    with pytest.raises(UsageError, match="ring z2_32"):
        field.lagrange_weights_at_zero(field.elements([1, 2], ring), ring)
    with pytest.raises(UsageError, match="an even element"):
        field.inverse(field.elements([3, 2], ring), ring)
    for bits in (0, 65, True):
        with pytest.raises(UsageError, match="bits"):
            field.ring(bits)


@names(KINDS)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_axioms(kind, data):
    count = data.draw(st.integers(1, 9))
    drawn = [[data.draw(numbers(kind)) for _ in range(count)] for _ in range(3)]
    x, y, z = (field.elements(values, kind) for values in drawn)
    zero, one = np.zeros_like(x), field.power(x, 0, kind)
    for code in backends(kind):
        same, add, mul = np.testing.assert_array_equal, code.add, code.mul
        same(add(x, y), add(y, x))
        same(mul(x, y), mul(y, x))
        same(add(add(x, y), z), add(x, add(y, z)))
        same(mul(mul(x, y), z), mul(x, mul(y, z)))
        same(mul(x, add(y, z)), add(mul(x, y), mul(x, z)))
        same(code.mul_add(x, y, z), add(mul(x, y), z))
        same(add(x, zero), x)
        same(mul(x, one), x)
        same(mul(x, zero), zero)
        same(add(code.sub(x, y), y), x)
        same(add(x, code.sub(zero, x)), zero)
        invertible = np.array(
            [v % 2 if isinstance(kind, field.Ring) else v for v in drawn[0]], bool
        )
        same(mul(x[invertible], code.inverse(x[invertible])), one[invertible])


@names(KINDS)
@pytest.mark.parametrize("count", [1, 7, 15, 16, 17, 31, 32, 33, 130])
def test_inverses_in_lanes(kind, count):
    values = field.integers(field.uniform(from_seed(count), count, kind), kind)
    values = [x | 1 if isinstance(kind, field.Ring) else x or 1 for x in values]
    inverses = integers(backend(kind).inverse(field.elements(values, kind)), kind)
    p = kind.modulus
    assert [x * y % p for x, y in zip(values, inverses, strict=True)] == [1 % p] * count


@names(KINDS)
def test_long_sums_of_extremes_do_not_wrap(kind):
    p = kind.modulus
    tops = sorted({p - 1, p // 2, min(p - 1, 2**32 - 1), min(p - 1, 2 ** (kind.bits - 1) + 1)})
    for top in tops:
        for code in backends(kind):
            t = 211
            vector = shaped([top] * t, (t,), kind)
            assert integers(code.dot(vector, vector), kind) == t * top * top % p
            rows = shaped([top] * t * 3, (t, 3), kind)
            assert integers(code.sum_rows(rows), kind) == [t * top % p] * 3
            product = code.matmul(shaped([top] * 5 * t, (5, t), kind), rows)
            assert integers(product, kind) == [[t * top * top % p] * 3] * 5
    if JIT:
        many = 70_001
        vector = np.broadcast_to(
            shaped([p - 1], (1,), kind), shaped([0] * many, (many,), kind).shape
        )
        assert integers(backend(kind).dot(vector, vector), kind) == many * (p - 1) ** 2 % p
        products = backend(kind).matmul(vector[np.newaxis], vector[:, np.newaxis])
        assert integers(products, kind) == [[many * (p - 1) ** 2 % p]]


@names(KINDS)
@pytest.mark.parametrize("shape", [(4, 4, 479), (5, 3, 481), (1, 9, 961), (8, 6, 1), (3, 0, 5)])
def test_products_over_tiles_and_rests(kind, shape):
    n, t, m = shape
    a = field.uniform(from_seed(1), (n, t), kind)
    b = field.uniform(from_seed(2), (t, m), kind)
    plain, code = Plain(kind), backend(kind)
    expected = plain.matmul(a, b)
    for found in (code.matmul(a, b), code.matmul(np.asfortranarray(a), np.asfortranarray(b))):
        assert found.flags.c_contiguous
        assert found.dtype == kind.dtype
        assert np.array_equal(found, expected)
    assert np.array_equal(code.weighted_sum(a[-1], b), expected[-1])
    assert np.array_equal(field.sum_rows(b, kind), plain.sum_rows(b))
    assert np.array_equal(field.sum_rows(b[::-1, ::2], kind), plain.sum_rows(b[:, ::2]))


@names(KINDS)
@pytest.mark.parametrize("shape", [(0, 2, 3), (1, 3, 1), (5, 1, 1), (6, 300, 1), (6, 300, 4)])
def test_evaluation(kind, shape):
    t, n, m = shape
    p = kind.modulus
    coefficients = field.uniform(from_seed(1), (t, m), kind)
    points = field.uniform(from_seed(2), n, kind)
    found = integers(backend(kind).evaluate(coefficients, points), kind)
    columns = np.array(field.integers(coefficients, kind), object).T.tolist() if t else [[]] * m
    expected = [
        [sum(c * x**k for k, c in enumerate(column)) % p for column in columns]
        for x in integers(points, kind)
    ]
    assert found == expected


@names([kind for kind in PRIMES if kind.modulus > 2])
@pytest.mark.parametrize("t", [1, 4, 90])
def test_weights_at_zero(kind, t):
    t = min(t, kind.modulus - 1)
    points = field.elements([kind.modulus - 1 - k for k in range(t)], kind)
    found = field.lagrange_weights_at_zero(points, kind)
    coefficients = field.uniform(from_seed(4), (t, 2), kind)
    values = field.evaluate(coefficients, points, kind)
    assert np.array_equal(field.weighted_sum(found, values, kind), coefficients[0])
    if t < 10:
        assert np.array_equal(found, Plain(kind).lagrange_weights_at_zero(points))


@names(KINDS)
def test_layouts_and_read_only_arrays(kind):
    a = field.uniform(from_seed(1), (6, 8), kind)
    plain, code = Plain(kind), backend(kind)
    a.setflags(write=False)
    for view in (a, a[::2, ::-3], a.swapaxes(0, 1), a[:0], a[0, 0]):
        for name in ("add", "sub", "mul"):
            found = getattr(code, name)(view, view)
            assert found.flags.c_contiguous
            assert found.dtype == kind.dtype
            assert np.array_equal(found, getattr(plain, name)(view, view))
        assert np.array_equal(code.mul_add(view, view, view), plain.mul_add(view, view, view))
    assert code.inverse(a[:0]).shape == a[:0].shape
    own = field.uniform(from_seed(2), (6, 8), kind)
    code.add(own, own)
    code.matmul(own[:, :6], own)
    assert own.flags.writeable
    assert integers(field.sum_rows(a[:0], kind), kind) == [0] * 8
    with pytest.raises(UsageError, match=r"^rows: "):
        field.sum_rows(a[0], kind)


PROBE = """
import sys
from privagg import field
assert "numba" not in sys.modules
field.mul(field.elements([2]), field.elements([3]))
assert "privagg.field.kernels" not in sys.modules
kind = field.prime_field(4294967291)
assert field.mul(field.elements([2**31], kind), field.elements([2], kind), kind).tolist() == [5]
from privagg.field import _loops
print(len(_loops.mul_arrays.stats.cache_hits), len(_loops.mul_arrays.stats.cache_misses))
"""


@pytest.mark.skipif(not JIT, reason="kernels are off")
def test_numba_is_imported_late_and_kernels_of_tags_are_kept(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROBE],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed == [["0", "1"], ["1", "0"]]
