"""Transforms and products against sums of powers in Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field
from privagg.errors import UsageError
from privagg.field import transforms

SMALL = field.prime_field(97)  # roots up to 32
LARGE = field.prime_field(4294967291)  # 2**32 - 5: a root of order 2 only
FIELDS = [
    field.GOLDILOCKS,
    field.F128,
    field.M31,
    field.M61,
    SMALL,
    LARGE,
    field.prime_field(998244353),
    field.prime_field(2),
]
named = pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.name)


def operands(kind):
    p = kind.modulus
    edges = {0, 1, 2, p - 1, p - 2, p // 2, 2**32 - 1, 2**32, 2**63, 2**64 - 2**32, 2**64 - 1}
    return st.one_of(st.sampled_from(sorted(x for x in edges if x < p)), st.integers(0, p - 1))


def draw(kind, shape, seed):
    """Random elements with every third one at the upper edge."""
    generator = np.random.default_rng(seed)
    count = int(np.prod(shape))
    words = generator.integers(0, 2**63, size=(count, 2)).tolist()
    numbers = [(a * 2**63 + b) % kind.modulus for a, b in words]
    numbers[::3] = [kind.modulus - 1 - i % min(3, kind.modulus) for i in range(len(numbers[::3]))]
    limbs = (kind.limbs,) if kind.limbs > 1 else ()
    return field.elements(numbers, kind).reshape(*shape, *limbs)


def transformed(row, root, p):
    n = len(row)
    powers = [pow(root, j, p) for j in range(n)]
    return [sum(x * powers[j * k % n] for j, x in enumerate(row)) % p for k in range(n)]


def multiplied(a, b, p):
    product = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] = (product[i + j] + x * y) % p
    return product


LENGTHS = [
    pytest.param(kind, log, rows, id=f"{kind.name}-{2**log}-{rows}")
    for kind in FIELDS
    for log in range(min(kind.two_adicity, 8) + 1)
    for rows in ((1, 3, 19) if log < 5 else (1,))
]


@pytest.mark.parametrize(("kind", "log", "rows"), LENGTHS)
def test_transforms_are_sums_of_powers(kind, log, rows):
    n, p = 2**log, kind.modulus
    root = field.root_of_unity(n, kind)
    assert pow(root, n, p) == 1
    assert n == 1 or pow(root, n // 2, p) == p - 1
    a = draw(kind, (rows, n), log)
    found = field.ntt(a, kind)
    assert found.dtype == kind.dtype
    for row in {0, rows - 1}:
        truth = transformed(field.integers(a[row], kind).tolist(), root, p)
        assert field.integers(found[row], kind).tolist() == truth
    # By the plain path, and as a matrix product.
    plain = transforms._stockham(a, root, 1, kind)
    assert np.array_equal(plain, found)
    powers = field.vandermonde(field.elements([pow(root, k, p) for k in range(n)], kind), n, kind)
    assert np.array_equal(
        np.swapaxes(field.matmul(powers, np.swapaxes(a[:2], 0, 1).copy(), kind), 0, 1), found[:2]
    )
    assert np.array_equal(field.inverse_ntt(found, kind), a)
    assert np.array_equal(field.ntt(a[0], kind), found[0])
    assert np.array_equal(field.inverse_ntt(found[0], kind), a[0])


@pytest.mark.parametrize("log", [5, 7, 9, 10, 11, 12])
@pytest.mark.parametrize("rows", [1, 17])
def test_long_goldilocks_transforms(log, rows):
    kind = field.GOLDILOCKS
    n, p = 2**log, kind.modulus
    a = draw(kind, (rows, n), log)
    found = field.ntt(a, kind)
    root = field.root_of_unity(n, kind)
    points = [0, 1, 2, n // 2 - 1, n // 2, n - 1]
    values = field.elements([pow(root, k, p) for k in points], kind)
    horner = field.evaluate(np.ascontiguousarray(a[-1:].T), values, kind)[:, 0]
    assert np.array_equal(found[-1, points], horner)
    assert np.array_equal(field.inverse_ntt(found, kind), a)


@pytest.mark.parametrize("log", [15, 16, 17])
def test_very_long_goldilocks_transforms(log):
    kind = field.GOLDILOCKS
    n, p = 2**log, kind.modulus
    a = draw(kind, (n,), log)
    found = field.ntt(a, kind)
    numbers, root = a.tolist(), field.root_of_unity(n, kind)
    for k in (0, 1, n // 2 + 1, n - 1):
        point, value = pow(root, k, p), 0
        for number in reversed(numbers):
            value = (value * point + number) % p
        assert int(found[k]) == value
    assert np.array_equal(field.inverse_ntt(found, kind), a)


def test_an_impulse_and_a_constant():
    kind, n = field.GOLDILOCKS, 64
    impulse = field.elements([1] + [0] * (n - 1), kind)
    assert field.ntt(impulse, kind).tolist() == [1] * n
    top = np.full(n, kind.modulus - 1, np.uint64)
    assert field.ntt(top, kind).tolist() == [kind.modulus - n] + [0] * (n - 1)


@named
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_short_products(kind, data):
    a = data.draw(st.lists(operands(kind), min_size=1, max_size=12))
    b = data.draw(st.lists(operands(kind), min_size=1, max_size=12))
    found = field.polynomial_product(field.elements(a, kind), field.elements(b, kind), kind)
    assert field.integers(found, kind).tolist() == multiplied(a, b, kind.modulus)


@named
@pytest.mark.parametrize(("n", "m"), [(33, 32), (40, 100), (64, 65)])
def test_products_on_both_sides_of_the_switch(kind, n, m):
    a, b = draw(kind, (2, n), 1), draw(kind, (2, m), 2)
    found = field.polynomial_product(a, b, kind)
    for row in (0, 1):
        x, y = (field.integers(side[row], kind).tolist() for side in (a, b))
        assert field.integers(found[row], kind).tolist() == multiplied(x, y, kind.modulus)
    shared = field.polynomial_product(a[0], b, kind)
    assert np.array_equal(shared[0], found[0])
    assert np.array_equal(field.polynomial_product(a, b[:1], kind)[0], found[0])
    assert np.array_equal(field.polynomial_product(a[0], b[0], kind), found[0])


def test_products_with_python_flint():
    flint = pytest.importorskip("flint")
    p = field.GOLDILOCKS.modulus
    for n, m in ((1, 1), (3, 50), (1000, 777), (4096, 4097)):
        a, b = draw(field.GOLDILOCKS, (n,), n), draw(field.GOLDILOCKS, (m,), m)
        truth = flint.nmod_poly(a.tolist(), p) * flint.nmod_poly(b.tolist(), p)
        found = field.polynomial_product(a, b, field.GOLDILOCKS).tolist()
        assert found == [int(truth[i]) for i in range(n + m - 1)]


def test_transforms_with_galois():
    galois = pytest.importorskip("galois")
    kind = field.prime_field(998244353)
    a = draw(kind, (64,), 5)
    values = np.asarray(galois.ntt(a.tolist(), modulus=kind.modulus)).tolist()
    # galois chooses a root of its own: the same values in another order.
    assert sorted(values) == sorted(field.ntt(a, kind).tolist())


def test_wrong_arguments_are_named():
    kind = field.GOLDILOCKS
    a = field.elements([1, 2, 3, 4], kind)
    for argument, wrong in [
        ("a", lambda: field.ntt(a[:3], kind)),
        ("a", lambda: field.ntt(a[:0], kind)),
        ("a", lambda: field.ntt([1, 2], kind)),
        ("a", lambda: field.ntt(a.astype(np.int64), kind)),
        ("a", lambda: field.ntt(np.full(4, kind.modulus, np.uint64), kind)),
        ("a", lambda: field.ntt(a.reshape(1, 2, 2), kind)),
        ("a", lambda: field.ntt(field.elements([1, 2, 3, 4], field.M61), field.M61)),
        ("a", lambda: field.inverse_ntt(field.elements([1] * 4, field.M31), field.M31)),
        ("a", lambda: field.ntt(np.zeros((3, 2), np.uint64), field.F128)),
        ("length", lambda: field.root_of_unity(4, field.M61)),
        ("length", lambda: field.root_of_unity(6, kind)),
        ("length", lambda: field.root_of_unity(0, kind)),
        ("length", lambda: field.root_of_unity(True, kind)),
        ("length", lambda: field.root_of_unity(2**33, kind)),
        ("field", lambda: field.ntt(a, field.ring(64))),
        ("field", lambda: field.root_of_unity(2, "goldilocks")),
        ("a", lambda: field.polynomial_product(a[:0], a, kind)),
        ("b", lambda: field.polynomial_product(a, a[:0], kind)),
        ("b", lambda: field.polynomial_product(a.reshape(2, 2), np.ones((3, 2), np.uint64), kind)),
        ("b", lambda: field.polynomial_product(a, a.astype(np.uint32), kind)),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument


def test_no_row_makes_no_product():
    empty = np.zeros((0, 4), np.uint64)
    assert field.polynomial_product(empty, empty, field.GOLDILOCKS).shape == (0, 7)
    assert field.ntt(empty, field.GOLDILOCKS).shape == (0, 4)


def test_kept_tables_are_bounded():
    for log in range(17):
        field.ntt(np.zeros(2**log, np.uint64), field.GOLDILOCKS)
    from privagg.field import goldilocks_ntt

    assert goldilocks_ntt._table.cache_info().maxsize == 64
    assert transforms._kept_powers.cache_info().maxsize == 32
