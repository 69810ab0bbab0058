"""Fields against other libraries, where they are installed: python-flint and galois."""

import numpy as np
import pytest

from privagg import field
from privagg.entropy import from_seed
from privagg.field.backends import backend
from privagg.field.plain import Plain

PRIMES = [
    field.M31,
    field.M61,
    field.GOLDILOCKS,
    field.F128,
    field.prime_field(5),
    field.prime_field(4294967291),
]
fields = pytest.mark.parametrize("kind", PRIMES, ids=lambda kind: kind.name)


def edges(kind):
    p = kind.modulus
    values = {0, 1, 2, p - 1, p - 2, p // 2, p // 2 + 1}
    values |= {2**k + d for k in (16, 31, 32, 33, 61, 63, 64, 96, 127) for d in (-1, 0, 1)}
    return sorted(x for x in values if 0 <= x < p)


def vectors(kind):
    """Every pair of edges, then random pairs."""
    pairs = [(x, y) for x in edges(kind) for y in edges(kind)]
    a, b = (field.elements([pair[k] for pair in pairs], kind) for k in (0, 1))
    source = from_seed(8)
    more = [field.uniform(source, 100, kind) for _ in range(2)]
    return np.concatenate([a, more[0]]), np.concatenate([b, more[1]])


def integers(array, kind):
    return field.integers(array, kind).tolist()


@fields
def test_flint_elements(kind):
    flint = pytest.importorskip("flint")
    context = flint.fmpz_mod_ctx(kind.modulus)
    a, b = vectors(kind)
    left, right = ([context(x) for x in integers(v, kind)] for v in (a, b))
    truths = {
        "add": [int(x + y) for x, y in zip(left, right, strict=True)],
        "sub": [int(x - y) for x, y in zip(left, right, strict=True)],
        "mul": [int(x * y) for x, y in zip(left, right, strict=True)],
    }
    nonzero = np.array([bool(int(x)) for x in left])
    inverses = [int(x.inverse()) for x in left if int(x)]
    for code in (Plain(kind), backend(kind)):
        for name, truth in truths.items():
            assert integers(getattr(code, name)(a, b), kind) == truth
        assert integers(code.inverse(a[nonzero]), kind) == inverses


@fields
def test_flint_matrices(kind):
    flint = pytest.importorskip("flint")
    n, t, m = 6, 9, 11
    a, b = vectors(kind)
    left = a[: n * t] if len(a) >= n * t else np.resize(a, n * t)
    right = b[-t * m :]
    limbs = left.shape[1:]
    context = flint.fmpz_mod_ctx(kind.modulus)
    product = flint.fmpz_mod_mat(n, t, integers(left, kind), context) * flint.fmpz_mod_mat(
        t, m, integers(right, kind), context
    )
    expected = [[int(x) for x in row] for row in product.table()]
    left, right = left.reshape(n, t, *limbs), right.reshape(t, m, *limbs)
    for code in (Plain(kind), backend(kind)):
        assert integers(code.matmul(left, right), kind) == expected
        assert integers(code.weighted_sum(left[0], right), kind) == expected[0]


@fields
def test_flint_polynomials(kind):
    flint = pytest.importorskip("flint")
    ring = flint.fmpz_mod_poly_ctx(flint.fmpz_mod_ctx(kind.modulus))
    coefficients = field.uniform(from_seed(3), (7, 2), kind)
    points, _ = vectors(kind)
    expected = [
        [int(y) for y in ring(integers(column, kind)).multipoint_evaluate(integers(points, kind))]
        for column in (coefficients[:, 0], coefficients[:, 1])
    ]
    for code in (Plain(kind), backend(kind)):
        found = integers(code.evaluate(coefficients, points), kind)
        assert [list(column) for column in zip(*found, strict=True)] == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", PRIMES[:5], ids=lambda kind: kind.name)
def test_galois(kind):
    galois = pytest.importorskip("galois")
    other = galois.GF(
        kind.modulus,
        primitive_element=kind.generator,
        verify=False,
        compile="python-calculate",
    )
    a, b = vectors(kind)
    left, right = other(integers(a, kind)), other(integers(b, kind))
    nonzero = left != 0
    matrices = left[:30].reshape(5, 6), right[-42:].reshape(6, 7)
    limbs = a.shape[1:]
    for code in (Plain(kind), backend(kind)):
        assert integers(code.add(a, b), kind) == (left + right).tolist()
        assert integers(code.sub(a, b), kind) == (left - right).tolist()
        assert integers(code.mul(a, b), kind) == (left * right).tolist()
        assert integers(code.inverse(a[nonzero]), kind) == (left[nonzero] ** -1).tolist()
        product = code.matmul(a[:30].reshape(5, 6, *limbs), b[-42:].reshape(6, 7, *limbs))
        assert integers(product, kind) == (matrices[0] @ matrices[1]).tolist()
