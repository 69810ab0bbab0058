"""The exact engine against elimination on fractions, and the audit's parts against brute force."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import entropy, field
from privagg.attacks import linear, linear_exact
from privagg.attacks.linear import ExactSpace, Log
from privagg.attacks.linear_coalitions import smallest_coalition
from privagg.attacks.linear_pairs import isolating_pairs
from privagg.errors import UsageError

SEEDED = entropy.from_seed(3)


def rank(rows, columns):
    """Textbook elimination on fractions."""
    rows, done = [[Fraction(x) for x in row] for row in rows], 0
    for column in range(columns):
        found = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        rows[done], rows[found] = rows[found], rows[done]
        for i in range(done + 1, len(rows)):
            factor = rows[i][column] / rows[done][column]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[done], strict=True)]
        done += 1
    return done


def exposure(rows, columns):
    times = [-1] * columns
    for time in range(len(rows)):
        prefix = [list(row) for row in rows[: time + 1]]
        known = rank(prefix, columns)
        for column in range(columns):
            unit = [int(j == column) for j in range(columns)]
            if times[column] < 0 and rank([*prefix, unit], columns) == known:
                times[column] = time
    return times


def least_weight(rows, columns):
    """Smallest support of a combination of the rows: others' columns lose rank without it."""
    known = rank(rows, columns)
    if known == 0:
        return 0
    for size in range(1, columns + 1):
        for support in itertools.combinations(range(columns), size):
            left = [[x for j, x in enumerate(row) if j not in support] for row in rows]
            if rank(left, columns - size) < known:
                return size
    raise AssertionError("the whole support is enough")


NUMBERS = {
    "bits": st.integers(0, 1),
    "integers": st.integers(-3, 3),
    "large": st.integers(-(2**63) + 1, 2**63 - 1),
    "floats": st.floats(allow_nan=False, allow_infinity=False, width=64),
    "fractions": st.fractions(max_denominator=10**12),
    "mixed": st.one_of(st.integers(-2, 2), st.sampled_from([0.5, 0.1, Fraction(1, 3)])),
}


@pytest.mark.parametrize("kind", NUMBERS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_random_rows(kind, data):
    columns = data.draw(st.integers(1, 5))
    row = st.lists(st.one_of(st.just(0), NUMBERS[kind]), min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    if data.draw(st.booleans()):
        rows.append(rows[0])
    matrix = np.empty((len(rows), columns), object)
    matrix[:] = rows
    space = ExactSpace(columns, SEEDED)
    grew = space.extend(matrix).tolist()
    ranks = [rank(rows[:k], columns) for k in range(len(rows) + 1)]
    assert grew == [after > before for before, after in itertools.pairwise(ranks)]
    assert space.rank == ranks[-1]
    assert space.first_exposed.tolist() == exposure(rows, columns)
    assert space.contains(matrix).all()
    assert 0 <= space.error_bound < 1e-6
    single = ExactSpace(columns, SEEDED)
    assert [single.add(np.array(row, object)) for row in rows] == grew
    assert np.array_equal(single.first_exposed, space.first_exposed)


@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (3, 2), (4, 2)])
def test_all_small_logs(shape):
    for entries in itertools.product((0, 1), repeat=shape[0] * shape[1]):
        weights = np.array(entries).reshape(shape)
        rows = weights.tolist()
        space = ExactSpace(shape[1], SEEDED, primes=1)
        space.extend(weights)
        assert space.first_exposed.tolist() == exposure(rows, shape[1])
        found = smallest_coalition(space, weights, entropy=SEEDED)
        assert found.exact
        assert len(found.members) == least_weight(rows, shape[1])


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_smallest_coalitions(data):
    columns = data.draw(st.integers(2, 7))
    entry = data.draw(st.sampled_from([st.integers(0, 1), st.integers(-2, 3)]))
    row = st.lists(entry, min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    weights = np.array(rows)
    space = ExactSpace(columns, SEEDED)
    space.extend(weights)
    found = smallest_coalition(space, weights, entropy=SEEDED)
    assert found.exact
    assert len(found.members) == least_weight(rows, columns)
    bounded = smallest_coalition(space, weights, budget=0, entropy=SEEDED)
    assert bounded.least <= len(found.members) <= len(bounded.members)
    for coalition in (found, bounded):
        if coalition.factors is None or not coalition.members:
            continue
        vector = np.zeros((1, columns), object)
        vector[0, list(coalition.members)] = coalition.factors
        assert space.contains(vector).all()
        assert all(coalition.factors)


def test_a_row_of_zeros_exposes_nothing():
    space = ExactSpace(4, SEEDED)
    space.extend(np.zeros((3, 4)))
    assert space.rank == 0
    found = smallest_coalition(space, np.zeros((3, 4)), entropy=SEEDED)
    assert (found.members, found.least, found.exact) == ((), 0, True)


@pytest.mark.parametrize("n", [5, 60, 300])
def test_ill_conditioned_logs_are_decided_exactly(n):
    # Rounds {i, i + 1, i + 3} around a circle: by an integer determinant, singular for some n only.
    weights = np.zeros((n, n), np.int64)
    for shift in (0, 1, 3):
        weights[np.arange(n), (np.arange(n) + shift) % n] += 1
    roots = np.exp(2j * np.pi * np.arange(n) / n)
    singular = int(np.sum(np.abs(1 + roots + roots**3) < 1e-9))
    space = ExactSpace(n)
    space.extend(weights)
    assert space.rank == n - singular
    assert space.determined.all() == (singular == 0)
    # The open chain: three unknowns more than equations say nothing of any input.
    chain = ExactSpace(n + 3)
    rows = np.zeros((n, n + 3), np.int64)
    for shift in (0, 1, 3):
        rows[np.arange(n), np.arange(n) + shift] = 1
    chain.extend(rows)
    assert chain.rank == n
    assert not chain.determined.any()
    # Closing it at one end by three inputs gives all, however far the others are.
    ends = np.eye(3, n + 3, dtype=np.int64)
    chain.extend(ends)
    assert chain.determined.all()
    assert chain.first_exposed[-1] == n + 2


def test_weights_up_to_5000_are_exact():
    n = 200
    generator = np.random.default_rng(6)
    weights = generator.permutation(5000)[:n] + 1
    rows = np.tril(np.ones((n, n), np.int64)) * weights
    space = ExactSpace(n)
    space.extend(rows[generator.permutation(n)])
    assert space.determined.all()
    # One client's weight changes by one between two rounds that are otherwise equal.
    dense = generator.integers(1, 5001, size=(3, 1000))
    dense[2] = dense[0]
    dense[2, 123] += 1
    found = linear.audit(Log.of_matrix(dense), entropy=SEEDED)
    assert found.recoverable == ("123",)
    assert found.first_exposed == {"123": "2"}
    assert found.pairs.first.tolist() == [[0, 2, 123]]


def test_floats_of_any_size_are_exact():
    tiny, huge = 2.0**-1074, 1.7976931348623157e308
    rows = np.array([[tiny, huge, 0.0], [tiny, -huge, 0.1], [0.0, 0.0, 0.3]])
    space = ExactSpace(3)
    space.extend(rows)
    assert space.first_exposed.tolist() == [2, 2, 2]
    near = ExactSpace(2)
    near.extend(np.array([[0.1 + 0.2, 1.0], [0.3, 1.0]]))  # not the same float
    assert near.rank == 2


def test_a_bad_prime_is_dropped(monkeypatch):
    good, bad = field.prime_field(2147483629), field.prime_field(1073741827)
    monkeypatch.setattr(linear_exact, "random_primes", lambda count, entropy: (bad, good)[:count])
    # Row 2 is a multiple of row 1 modulo the bad prime only.
    rows = np.array([[1, 1, 0], [1, 1 + bad.modulus, 0], [0, 1, 1]])
    space = ExactSpace(3)
    assert space.extend(rows).tolist() == [True, True, True]
    assert [one.field for one in space.spaces] == [good]
    assert space.first_exposed.tolist() == [1, 1, 2]
    # A unit vector that is one modulo the bad prime only: the good one objects.
    early = ExactSpace(2)
    early.extend(np.array([[1, bad.modulus]]))
    assert len(early.spaces) == 2
    assert early.first_exposed.tolist() == [-1, -1]


def test_the_error_bound_is_the_stated_one():
    space = ExactSpace(10, primes=2)
    space.extend(np.ones((1, 10), np.int64))
    bits = 0.5 * np.log2(10)
    expected = 10 * (2 * bits / 30 / 50_697_537) ** 2
    assert space.error_bound == pytest.approx(expected)
    one = ExactSpace(10, primes=1)
    one.extend(np.ones((2, 10), np.int64))  # the second adds nothing
    assert one.error_bound == pytest.approx(10 * (2 * bits / 30 / 50_697_537))
    assert one.rows_seen == 2


def test_primes_are_random_and_in_range():
    drawn = {space.modulus for _ in range(20) for space in linear_exact.random_primes(2)}
    assert len(drawn) > 30
    assert all(2**30 < p < 2**31 for p in drawn)
    seeded = [linear_exact.random_primes(2, entropy.from_seed(1)) for _ in range(2)]
    assert seeded[0] == seeded[1]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_isolating_pairs(data):
    shape = (data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4)))
    entry = data.draw(
        st.sampled_from(
            [st.integers(0, 1), st.sampled_from([0.0, -0.0, 0.1, 0.5]), st.integers(-1, 2)]
        )
    )
    flat = data.draw(st.lists(entry, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    weights = np.array(flat).reshape(shape)
    if data.draw(st.booleans()):
        weights = weights.astype(object)
    expected = [
        [one, other, int(np.flatnonzero(weights[one] != weights[other])[0])]
        for other in range(shape[0])
        for one in range(other)
        if (weights[one] != weights[other]).sum() == 1
    ]
    found = isolating_pairs(weights, entropy=SEEDED)
    assert found.count == len(expected)
    assert found.first.tolist() == expected
    counts = np.bincount([pair[2] for pair in expected], minlength=shape[1])
    assert found.per_client.tolist() == counts.tolist()
    few = isolating_pairs(weights, 2, SEEDED)
    assert few.count == len(expected)
    assert len(few.first) == min(2, len(expected))
    assert all(pair in expected for pair in few.first.tolist())


def test_wrong_arguments_are_named():
    space = ExactSpace(2)
    for argument, wrong in [
        ("columns", lambda: ExactSpace(0)),
        ("columns", lambda: ExactSpace(True)),
        ("primes", lambda: ExactSpace(2, primes=0)),
        ("rows", lambda: space.extend([[1, 2, 3]])),
        ("rows", lambda: space.extend([1, 2])),
        ("rows", lambda: space.extend([[1.0, np.nan]])),
        ("rows", lambda: space.extend(np.array([[2**60 + 1, float("inf")]], object))),
        ("rows", lambda: space.extend([["a", "b"]])),
        ("vectors", lambda: space.contains([[1]])),
        ("log", lambda: linear.audit([[1, 0]])),
        ("variation", lambda: linear.audit(Log.of_matrix([[1]]), variation=-1)),
        ("noise", lambda: linear.audit(Log.of_matrix([[1]]), noise=float("nan"))),
        ("pairs", lambda: linear.audit(Log.of_matrix([[1]]), pairs=-1)),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument
    assert space.rank == 0
