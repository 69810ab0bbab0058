"""Element-wise arithmetic against Python integers, on compiled kernels and on plain NumPy."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field
from privagg._jit import JIT
from privagg.entropy import OS, from_seed
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.plain import Plain

P = 2**61 - 1
EDGES = sorted(
    {0, 1, 2, P - 1, P - 2, P // 2, P // 2 + 1}
    | {2**k + d for k in (29, 30, 31, 32, 33, 59, 60) for d in (-1, 0, 1)}
)
element = st.one_of(st.sampled_from(EDGES), st.integers(0, P - 1))
vectors = st.lists(element, min_size=1, max_size=20)
pairs = st.lists(st.tuples(element, element), min_size=0, max_size=20)
quick = settings(deadline=None, max_examples=150)

BACKENDS = [pytest.param(Plain(field.M61), id="plain")]
if JIT:
    BACKENDS.append(pytest.param(backend(field.M61), id="kernels"))


def test_with_the_jit_on_the_kernels_answer():
    module = getattr(backend(field.M61), "__name__", "plain")
    assert module == ("privagg.field.m61" if JIT else "plain")


def array(values):
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize("code", BACKENDS)
@pytest.mark.parametrize(
    ("name", "truth"),
    [("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b)],
)
@quick
@given(pairs)
def test_binary_operations_are_those_of_the_integers_mod_p(code, name, truth, values):
    a, b = array([x for x, _ in values]), array([y for _, y in values])
    found = getattr(code, name)(a, b)
    assert found.dtype == np.uint64
    assert found.tolist() == [truth(x, y) % P for x, y in values]


@pytest.mark.parametrize("code", BACKENDS)
def test_every_pair_of_edges(code):
    a, b = np.meshgrid(array(EDGES), array(EDGES))
    for name, truth in (("add", int.__add__), ("sub", int.__sub__), ("mul", int.__mul__)):
        expected = [truth(int(x), int(y)) % P for x, y in zip(a.flat, b.flat, strict=True)]
        assert getattr(code, name)(a, b).ravel().tolist() == expected


@pytest.mark.parametrize("code", BACKENDS)
@quick
@given(st.lists(element.filter(bool), max_size=20))
def test_inverse(code, values):
    assert code.inverse(array(values)).tolist() == [pow(x, -1, P) for x in values]


@pytest.mark.parametrize("code", BACKENDS)
@quick
@given(pairs)
def test_dot(code, values):
    a, b = array([x for x, _ in values]), array([y for _, y in values])
    assert int(code.dot(a, b)) == sum(x * y for x, y in values) % P


@pytest.mark.parametrize("code", BACKENDS)
@pytest.mark.parametrize("value", [P - 1, 2**60, 2**32 - 1])
def test_long_sums_of_extremes_do_not_wrap(code, value):
    a = np.full(5003, value, dtype=np.uint64)
    assert int(code.dot(a, a)) == 5003 * value * value % P
    rows = np.full((41, 600), value, dtype=np.uint64)
    assert set(code.weighted_sum(rows[:, 0].copy(), rows).tolist()) == {41 * value * value % P}


@pytest.mark.parametrize("code", BACKENDS)
@pytest.mark.parametrize("t", range(10))
@pytest.mark.parametrize("m", [0, 1, 7, 511, 512, 513, 1030])
def test_weighted_sum(code, t, m):
    rng = np.random.default_rng(1000 * t + m)
    pool = np.concatenate([array(EDGES), rng.integers(0, P, 40, dtype=np.uint64)])
    weights, rows = rng.choice(pool, t), rng.choice(pool, (t, m))
    columns = zip(*rows.tolist(), strict=True) if t else [()] * m
    expected = [
        sum(w * x for w, x in zip(weights.tolist(), column, strict=True)) % P for column in columns
    ]
    assert code.weighted_sum(weights, rows).tolist() == expected


@quick
@given(element, element, element)
def test_field_axioms(a, b, c):
    x, y, z = array([a]), array([b]), array([c])
    add, mul, zero, one = field.add, field.mul, array([0]), array([1])
    assert add(x, y) == add(y, x)
    assert mul(x, y) == mul(y, x)
    assert add(add(x, y), z) == add(x, add(y, z))
    assert mul(mul(x, y), z) == mul(x, mul(y, z))
    assert mul(x, add(y, z)) == add(mul(x, y), mul(x, z))
    assert add(x, zero) == x
    assert mul(x, one) == x
    assert add(x, field.neg(x)) == zero
    assert field.sub(x, y) == add(x, field.neg(y))
    if a:
        assert mul(x, field.inverse(x)) == one


@quick
@given(vectors, st.one_of(st.integers(0, 5), st.sampled_from([P - 2, P - 1, P, 2**200 + 1])))
def test_power(values, exponent):
    assert field.power(array(values), exponent).tolist() == [pow(x, exponent, P) for x in values]


def test_broadcasting_layouts_and_zero_dimensions():
    rng = np.random.default_rng(3)
    a = rng.integers(0, P, (6, 8), dtype=np.uint64)
    expected = [[x * 3 % P for x in row] for row in a.tolist()]
    assert field.mul(a, field.elements(3)).tolist() == expected
    assert field.mul(a.T, field.elements(3)).T.tolist() == expected
    assert field.mul(np.asfortranarray(a), field.elements([3])).tolist() == expected
    assert field.add(a[::2, ::-3], a[::2, ::-3]).tolist() == [
        [2 * x % P for x in row] for row in a[::2, ::-3].tolist()
    ]
    frozen = a.copy()
    frozen.setflags(write=False)
    assert field.neg(frozen).tolist() == [[-x % P for x in row] for row in a.tolist()]
    assert field.inverse(a.T).tolist() == [[pow(x, -1, P) for x in row] for row in a.T.tolist()]
    scalar = field.mul(field.elements(P - 1), field.elements(P - 1))
    assert scalar.shape == ()
    assert int(scalar) == 1
    assert int(field.power(field.elements(2), 61)) == 1
    assert field.add(a[:0], a[:0]).shape == (0, 8)


def test_arguments_are_left_alone():
    a, b = array([5, P - 1]), array([7, 9])
    for operation in (field.add, field.sub, field.mul, field.dot):
        operation(a, b)
    field.inverse(a)
    field.power(a, 5)
    assert a.tolist() == [5, P - 1]
    assert b.tolist() == [7, 9]


GOOD = array([1, 2, 3])
BAD_ARRAYS = [
    [1, 2, 3],
    3,
    None,
    "123",
    np.array([1, 2, 3]),
    np.array([1, 2, 3], dtype=np.uint32),
    np.array([1.0, 2.0, 3.0]),
    np.array([True, False, True]),
    np.array([1, 2, 3], dtype=object),
    GOOD.astype(">u8"),
    array([1, 2, P]),
    array([1, 2, 2**64 - 1]),
]


@pytest.mark.parametrize("bad", BAD_ARRAYS, ids=lambda bad: f"{type(bad).__name__}")
def test_what_is_no_array_of_elements_is_refused(bad):
    for operation in (field.add, field.sub, field.mul, field.dot):
        with pytest.raises(UsageError, match=r"^a: "):
            operation(bad, GOOD)
        with pytest.raises(UsageError, match=r"^b: "):
            operation(GOOD, bad)
    for operation in (field.neg, field.inverse, lambda a: field.power(a, 3)):
        with pytest.raises(UsageError, match=r"^a: "):
            operation(bad)
    with pytest.raises(UsageError, match=r"^weights: "):
        field.weighted_sum(bad, np.ones((3, 2), np.uint64))


def test_messages_hold_no_element():
    with pytest.raises(UsageError) as caught:
        field.add(array([P + 12345]), array([1]))
    assert str(P + 12345) not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        field.elements([P + 12345])
    assert str(P + 12345) not in str(caught.value)


def test_shapes_and_zeros_are_refused():
    with pytest.raises(UsageError, match="broadcasts"):
        field.add(GOOD, array([1, 2]))
    with pytest.raises(UsageError, match="zero"):
        field.inverse(array([4, 0]))
    with pytest.raises(UsageError, match="as many"):
        field.dot(GOOD, array([1, 2]))
    with pytest.raises(UsageError, match="axis"):
        field.dot(GOOD.reshape(1, 3), GOOD)
    with pytest.raises(UsageError, match="one for each row"):
        field.weighted_sum(GOOD, np.ones((2, 3), np.uint64))
    with pytest.raises(UsageError, match="rows"):
        field.weighted_sum(GOOD, GOOD)


@pytest.mark.parametrize("exponent", [-1, True, 1.0, None, "2"])
def test_exponents_that_are_refused(exponent):
    with pytest.raises(UsageError, match="exponent"):
        field.power(GOOD, exponent)


@pytest.mark.parametrize("unknown", ["m61", None, field.Field("m5", 5, 3, np.dtype("u8"), 2)])
def test_unknown_fields_are_refused(unknown):
    with pytest.raises(UsageError, match="field"):
        field.add(array([1]), array([1]), unknown)


@pytest.mark.parametrize("nothing", ["m61", None, 2**61 - 1])
def test_what_is_no_field_is_refused(nothing):
    with pytest.raises(UsageError, match="field"):
        field.uniform(OS, 3, nothing)
    with pytest.raises(UsageError, match="field"):
        field.elements([1], nothing)


def test_unknown_fields_have_no_plain_arithmetic():
    with pytest.raises(UsageError, match="field"):
        Plain(field.Field("m5", 5, 3, np.dtype("u8"), 2))


@pytest.mark.parametrize("field_", field.FIELDS.values(), ids=lambda f: f.name)
def test_parameters(field_):
    p = field_.modulus
    assert p.bit_length() == field_.bits
    assert all(pow(base, p - 1, p) == 1 for base in (2, 3, 5, 7, 11, 13, 17))
    order, factors, q = p - 1, set(), 2
    while q * q <= order:
        while order % q == 0:
            order //= q
            factors.add(q)
        q += 1 if q == 2 else 2
    factors |= {order} - {1}
    # A generator's order divides p - 1 and no (p - 1) / q: this proves that p is prime, too.
    assert all(pow(field_.generator, (p - 1) // q, p) != 1 for q in factors)
    for smaller in range(2, field_.generator):
        assert any(pow(smaller, (p - 1) // q, p) == 1 for q in factors)
    assert (p - 1) % 2**field_.two_adicity == 0
    assert (p - 1) % 2 ** (field_.two_adicity + 1) != 0


class Scripted:
    """An entropy that returns given words."""

    insecure = True

    def __init__(self, *words):
        self.raw = b"".join(word.to_bytes(8, "little") for word in words)

    def take(self, count):
        taken, self.raw = self.raw[:count], self.raw[count:]
        return taken

    def spawn(self, label):
        return self


def test_uniform_cuts_to_61_bits_and_rejects_the_modulus():
    # Words 0, 2 and 4 are p after the cut: the next ones take their places.
    source = Scripted(2**64 - 1, 2**61 + 5, P, P - 1, 2**63 + P, 8, 7, 99)
    assert field.uniform(source, 4).tolist() == [5, P - 1, 8, 7]
    assert source.raw == (99).to_bytes(8, "little")


def test_uniform_refuses_a_source_that_runs_dry():
    with pytest.raises(UsageError, match="source"):
        field.uniform(Scripted(1, 2), 3)


def test_uniform_is_uniform_in_each_of_its_61_bits():
    drawn = field.uniform(from_seed(5), (40, 500))
    assert drawn.shape == (40, 500)
    assert drawn.dtype == np.uint64
    assert drawn.flags.writeable
    ones = ((drawn.ravel()[:, None] >> np.arange(61, dtype=np.uint64)) & np.uint64(1)).sum(axis=0)
    # 20,000 fair coins: a deviation of 6 standard deviations is 424.
    assert (np.abs(ones.astype(int) - 10_000) < 424).all()
    assert int(drawn.max()) < P


def test_uniform_has_no_bias_where_rejection_is_frequent():
    five = field.prime_field(5)
    counts = np.bincount(field.uniform(from_seed(6), 50_000, five).astype(int))
    # 10,000 expected each, standard deviation 89.4.
    assert counts.size == 5
    assert (np.abs(counts - 10_000) < 6 * 89.4).all()


def test_uniform_repeats_with_a_seed_and_not_without():
    assert (field.uniform(from_seed(1), 9) == field.uniform(from_seed(1), 9)).all()
    assert (field.uniform(OS, 9) != field.uniform(OS, 9)).all()
    assert field.uniform(OS, 0).shape == (0,)
    assert field.uniform(OS, ()).shape == ()


@pytest.mark.parametrize("shape", [-1, 1.5, True, (2, -1), [2], "3", None])
def test_uniform_refuses_what_is_no_shape(shape):
    with pytest.raises(UsageError, match="shape"):
        field.uniform(OS, shape)


@pytest.mark.parametrize("source", [None, 5, np.random.default_rng(1), b"bytes"])
def test_uniform_refuses_what_is_no_entropy(source):
    with pytest.raises(UsageError, match="source"):
        field.uniform(source, 3)


@pytest.mark.parametrize(
    "values",
    [[1, 2], (1, 2), np.array([1, 2]), np.array([1, 2], ">u2"), array([1, 2]), range(1, 3)],
)
def test_elements_takes_integers(values):
    converted = field.elements(values)
    assert converted.dtype == np.uint64
    assert converted.tolist() == [1, 2]
    assert not np.shares_memory(converted, values)


def test_elements_keeps_shapes():
    assert field.elements([[1, 2], [3, P - 1]]).tolist() == [[1, 2], [3, P - 1]]
    assert field.elements(7).shape == ()
    assert field.elements(np.array(7)).shape == ()
    assert field.elements([]).shape == (0,)
    assert field.elements(np.zeros((0, 3), int)).shape == (0, 3)


@pytest.mark.parametrize(
    "values",
    [
        [-1],
        [P],
        [True],
        [1.0],
        ["1"],
        [None],
        [[1], [1, 2]],
        np.array([-1]),
        array([P]),
        np.array([1.0]),
        np.array([True]),
        "12",
        None,
        1.5,
        True,
        {1, 2},
    ],
)
def test_elements_refuses_all_else(values):
    with pytest.raises(UsageError, match="values"):
        field.elements(values)


PROBE = """
import sys
import numpy as np
from privagg import field, sharing
from privagg._jit import JIT
from privagg.entropy import from_seed
source = from_seed(11)
a, b = field.uniform(source, 50), field.uniform(source, 50)
parts = [field.add(a, b), field.sub(a, b), field.mul(a, b), field.neg(a), field.inverse(a)]
parts += [field.power(a, 12345), field.dot(a, b).reshape(1)]
rows = field.uniform(source, (9, 600))
parts += [field.weighted_sum(a[:9], rows), field.evaluate(rows, a[:3]).ravel()]
parts += [field.evaluate(rows[:, :3], a).ravel(), field.lagrange_weights_at_zero(a)]
secrets = np.arange(64, dtype=np.uint8).reshape(4, 16)
shares = sharing.split(secrets, 3, range(1, 6), source)
recovered, valid = sharing.combine(shares[1:4], [2, 3, 4])
assert valid.all() and (recovered == secrets).all()
parts.append(shares.ravel())
print(JIT, "numba" in sys.modules, np.concatenate(parts).tobytes().hex())
"""


def test_the_switch_changes_the_code_and_not_the_results():
    printed = {}
    for switch in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROBE],
            env={**os.environ, "PRIVAGG_JIT": switch},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed[switch] = done.stdout.split()
    assert printed["0"][:2] == ["False", "False"]
    assert printed["1"][:2] == ["True", "True"]
    assert printed["0"][2] == printed["1"][2]
