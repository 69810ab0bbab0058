"""Linear algebra against elimination on Python's integers, and over all small matrices."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privagg import field
from privagg.errors import UsageError
from privagg.field import elimination
from privagg.field.elimination import Elimination

FIELDS = [
    field.M31,
    field.M61,
    field.GOLDILOCKS,
    field.F128,
    field.prime_field(2),
    field.prime_field(3),
    field.prime_field(65521),
    field.prime_field(2147483629),
    field.prime_field(4294967291),
]
named = pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.name)


def echelon(rows, columns, p):
    """Textbook Gauss-Jordan on lists of Python integers."""
    rows, pivots = [list(row) for row in rows], []
    for column in range(columns):
        done = len(pivots)
        found = next((i for i in range(done, len(rows)) if rows[i][column] % p), None)
        if found is None:
            continue
        rows[done], rows[found] = rows[found], rows[done]
        factor = pow(rows[done][column], -1, p)
        rows[done] = [x * factor % p for x in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column]:
                rows[i] = [(x - row[column] * y) % p for x, y in zip(row, rows[done], strict=True)]
        pivots.append(column)
    return rows, pivots


def exposure(rows, columns, p):
    """After which row each unit vector is in the span, by ranks alone."""
    times = [-1] * columns
    for time in range(len(rows)):
        prefix = rows[: time + 1]
        rank = len(echelon(prefix, columns, p)[1])
        for column in range(columns):
            unit = [int(j == column) for j in range(columns)]
            if times[column] < 0 and len(echelon([*prefix, unit], columns, p)[1]) == rank:
                times[column] = time
    return times


def matrix(rows, columns, kind):
    limbs = (kind.limbs,) if kind.limbs > 1 else ()
    flat = field.elements([x for row in rows for x in row], kind)
    return flat.reshape(len(rows), columns, *limbs)


def check(rows, columns, kind):
    p = kind.modulus
    a = matrix(rows, columns, kind)
    truth, pivots = echelon(rows, columns, p)
    found, found_pivots = field.row_echelon(a, kind)
    assert found.dtype == kind.dtype
    assert field.integers(found, kind).tolist() == truth
    assert found_pivots.tolist() == pivots
    assert field.rank(a, kind) == len(pivots)
    assert field.integers(field.row_space(a, kind), kind).tolist() == truth[: len(pivots)]
    null = field.integers(field.null_space(a, kind), kind).tolist()
    assert len(null) == columns - len(pivots)
    assert len(echelon(null, columns, p)[1]) == len(null)
    for vector in null:
        assert all(sum(x * y for x, y in zip(row, vector, strict=True)) % p == 0 for row in rows)
    # One by one, in one batch, and in two.
    single, batch = Elimination(columns, kind), Elimination(columns, kind)
    grew = [single.add(row) for row in a]
    ranks = [len(echelon(rows[:k], columns, p)[1]) for k in range(len(rows) + 1)]
    assert grew == [after > before for before, after in itertools.pairwise(ranks)]
    half = len(rows) // 2
    assert batch.extend(a[:half]).tolist() + batch.extend(a[half:]).tolist() == grew
    assert single.rank == batch.rank == len(pivots)
    assert single.rows_seen == len(rows)
    times = exposure(rows, columns, p)
    for one in (single, batch):
        assert one.first_exposed.tolist() == times
        assert one.pivots.tolist() == pivots
        assert field.integers(one.basis(), kind).tolist() == truth[: len(pivots)]
        units = matrix(
            [[int(i == j) for j in range(columns)] for i in range(columns)], columns, kind
        )
        assert one.contains(units).tolist() == [time >= 0 for time in times]
        assert one.contains(a).all()


def numbers(kind):
    p = kind.modulus
    few = st.integers(0, min(p - 1, 2))  # so that rows are dependent now and then
    return st.one_of(few, few, st.sampled_from([p - 1, p // 2]), st.integers(0, p - 1))


@named
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_random_matrices(kind, data):
    columns = data.draw(st.integers(0, 6))
    row = st.lists(numbers(kind), min_size=columns, max_size=columns)
    check(data.draw(st.lists(row, max_size=7)), columns, kind)


@named
@pytest.mark.parametrize("block", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_any_size(kind, block, seed, monkeypatch):
    monkeypatch.setattr(elimination, "_BLOCK", block)
    monkeypatch.setattr(elimination, "_PROBE", seed % 3)
    generator = np.random.default_rng(seed)
    base = generator.integers(0, min(kind.modulus, 3), size=(3 + seed, 8)).tolist()
    check([*base, base[0], [0] * 8, *base[::-1]], 8, kind)


@pytest.mark.parametrize(("p", "m", "n"), [(2, 3, 3), (2, 2, 4), (2, 4, 2), (3, 2, 2), (3, 2, 3)])
def test_all_small_matrices(p, m, n, monkeypatch):
    monkeypatch.setattr(elimination, "_BLOCK", 2)
    kind = field.prime_field(p)
    for entries in itertools.product(range(p), repeat=m * n):
        rows = [list(entries[i * n : (i + 1) * n]) for i in range(m)]
        a = matrix(rows, n, kind)
        truth, pivots = echelon(rows, n, p)
        found, found_pivots = field.row_echelon(a, kind)
        assert (found.tolist(), found_pivots.tolist()) == (truth, pivots)
        seen = Elimination(n, kind)
        seen.extend(a)
        assert seen.first_exposed.tolist() == exposure(rows, n, p)
        if m != n:
            continue
        if len(pivots) == n:
            inverse = field.inverse_matrix(a, kind)
            assert np.array_equal(field.matmul(a, inverse, kind), np.eye(n, dtype=kind.dtype))
        else:
            with pytest.raises(UsageError, match=r"^a:"):
                field.inverse_matrix(a, kind)


@named
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_systems(kind, data):
    p = kind.modulus
    n, extra, k = (data.draw(st.integers(low, 4)) for low in (1, 0, 1))
    m = n + extra
    row = st.lists(numbers(kind), min_size=n, max_size=n)
    rows = data.draw(st.lists(row, min_size=m, max_size=m))
    truth = [[data.draw(numbers(kind)) for _ in range(k)] for _ in range(n)]
    right = [[sum(x * truth[i][j] for i, x in enumerate(r)) % p for j in range(k)] for r in rows]
    a, b = matrix(rows, n, kind), matrix(right, k, kind)
    if len(echelon(rows, n, p)[1]) < n:
        with pytest.raises(UsageError) as caught:
            field.solve(a, b, kind)
        assert caught.value.argument == "a"
        return
    found = field.solve(a, b, kind)
    assert field.integers(found, kind).tolist() == truth
    one = field.solve(a, np.ascontiguousarray(b[:, 0]), kind)
    assert np.array_equal(one, found[:, 0])
    if m == n:
        inverse = field.inverse_matrix(a, kind)
        assert np.array_equal(field.matmul(inverse, b, kind), found)
    # A right side outside the column space.
    right[data.draw(st.integers(0, m - 1))][0] += 1
    right = [[x % p for x in row] for row in right]
    joined = [x + y[:1] for x, y in zip(rows, right, strict=True)]
    if len(echelon(joined, n + 1, p)[1]) > n:
        with pytest.raises(UsageError) as caught:
            field.solve(a, matrix(right, k, kind), kind)
        assert caught.value.argument == "b"


@pytest.mark.parametrize(
    "kind", [field.M31, field.M61, field.prime_field(2147483629)], ids=lambda kind: kind.name
)
@pytest.mark.parametrize(("n", "rank"), [(150, 150), (150, 149), (200, 90)])
def test_matrices_of_many_blocks(kind, n, rank):
    generator = np.random.default_rng(n + rank)

    def draw(*shape):
        return field.elements(generator.integers(0, kind.modulus, size=shape), kind)

    a = field.matmul(draw(n, rank), draw(rank, n), kind)
    assert field.rank(a, kind) == rank
    null = field.null_space(a, kind)
    assert not field.matmul(a, np.ascontiguousarray(null.T), kind).any()
    if rank == n:
        inverse = field.inverse_matrix(a, kind)
        assert np.array_equal(field.matmul(inverse, a, kind), np.eye(n, dtype=kind.dtype))
        x = draw(n)
        right = field.matmul(a, x[:, np.newaxis], kind)[:, 0]
        assert np.array_equal(field.solve(a, np.ascontiguousarray(right), kind), x)
    else:
        with pytest.raises(UsageError, match=r"^a:"):
            field.inverse_matrix(a, kind)


def test_exposure_inside_a_block_has_its_row():
    kind, n = field.prime_field(2147483629), 300
    generator = np.random.default_rng(8)
    rows = (generator.random((290, n)) < 0.1).astype(np.uint32)
    expected = {}
    for time, client in ((40, 7), (41, 3), (100, 250), (200, 11), (289, 12)):
        # A round twice, the second time without the client.
        rows[time] = rows[time - 30]
        rows[time, client] ^= 1
        expected[client] = time
    seen = Elimination(n, kind)
    seen.extend(rows)
    found = seen.first_exposed
    assert {int(c): int(found[c]) for c in np.flatnonzero(found >= 0)} == expected
    again = Elimination(n, kind)
    for row in rows:
        again.add(row)
    assert np.array_equal(again.first_exposed, found)


def test_questions_between_rows_change_nothing():
    kind = field.M31
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 2, size=(30, 20)).astype(np.uint32)
    plain, asked = Elimination(20, kind), Elimination(20, kind)
    for time, row in enumerate(rows):
        plain.add(row)
        asked.add(row)
        truth = exposure(rows[: time + 1].tolist(), 20, kind.modulus) if time % 7 == 6 else None
        found = asked.first_exposed
        assert truth is None or found.tolist() == truth
        found[:] = 5  # a copy
        assert bool(asked.contains(row))
    assert np.array_equal(plain.first_exposed, asked.first_exposed)
    assert np.array_equal(plain.basis(), asked.basis())


def test_python_flint_agrees():
    flint = pytest.importorskip("flint")
    p = 2147483629
    kind = field.prime_field(p)
    generator = np.random.default_rng(1)
    for m, n, high in ((30, 40, p), (60, 50, 2), (50, 50, p)):
        a = generator.integers(0, high, size=(m, n)).astype(np.uint32)
        truth, rank = flint.nmod_mat(m, n, a.reshape(-1).tolist(), p).rref()
        assert field.rank(a, kind) == rank
        rows = [[int(x) for x in row] for row in truth.table()]
        assert field.row_echelon(a, kind)[0].tolist() == rows


def test_galois_agrees():
    galois = pytest.importorskip("galois")
    numbers = galois.GF(31)
    a = np.random.default_rng(2).integers(0, 31, size=(6, 9))
    truth = np.asarray(numbers(a).row_reduce()).tolist()
    assert field.row_echelon(a.astype(np.uint32), field.prime_field(31))[0].tolist() == truth
    null = np.asarray(numbers(a).null_space())
    found = field.null_space(a.astype(np.uint32), field.prime_field(31))
    both = np.concatenate([null.astype(np.uint32), found])
    assert field.rank(both, field.prime_field(31)) == len(null) == len(found)


def test_empty_matrices():
    for m, n in ((0, 0), (0, 3), (3, 0)):
        a = np.zeros((m, n), np.uint64)
        rows, pivots = field.row_echelon(a)
        assert (rows.shape, pivots.shape) == ((m, n), (0,))
        assert field.rank(a) == 0
        assert field.null_space(a).shape == (n, n)
    assert field.solve(np.zeros((0, 0), np.uint64), np.zeros((0, 2), np.uint64)).shape == (0, 2)
    assert field.inverse_matrix(np.zeros((0, 0), np.uint64)).shape == (0, 0)


def test_wrong_arguments_are_named():
    kind = field.M61
    a, b = np.eye(3, dtype=np.uint64), np.ones(3, np.uint64)
    seen = Elimination(3, kind)
    for argument, wrong in [
        ("a", lambda: field.rank(b, kind)),
        ("a", lambda: field.rank(a.astype(np.int64), kind)),
        ("a", lambda: field.row_echelon(a.tolist(), kind)),
        ("a", lambda: field.null_space(np.full((2, 2), kind.modulus, np.uint64), kind)),
        ("a", lambda: field.inverse_matrix(a[:2], kind)),
        ("a", lambda: field.solve(a[:2], b[:2], kind)),
        ("b", lambda: field.solve(a, b[:2], kind)),
        ("b", lambda: field.solve(a, b.reshape(3, 1, 1), kind)),
        ("b", lambda: field.solve(a, b.astype(float), kind)),
        ("field", lambda: field.rank(a, field.ring(64))),
        ("field", lambda: field.solve(a, b, field.ring(64))),
        ("field", lambda: Elimination(3, "m61")),
        ("columns", lambda: Elimination(-1, kind)),
        ("columns", lambda: Elimination(True, kind)),
        ("row", lambda: seen.add(a)),
        ("row", lambda: seen.add(b[:2])),
        ("rows", lambda: seen.extend(b)),
        ("rows", lambda: seen.extend(a[:, :2].copy())),
        ("vectors", lambda: seen.contains(b[:2])),
        ("vectors", lambda: seen.contains(a.reshape(3, 3, 1))),
        ("vectors", lambda: seen.contains([1, 0, 0])),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument
    assert (seen.rank, seen.rows_seen) == (0, 0)
