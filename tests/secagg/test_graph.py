"""The sparse graph: its shape, its randomness, and that it survives what the planner says."""

from __future__ import annotations

import hashlib
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privagg import _shuffle
from privagg.errors import UsageError
from privagg.protocols.secagg import graph
from privagg.protocols.secagg.graph import (
    Neighbourhoods,
    build,
    permutation,
    position,
    reverse_positions,
)
from privagg.protocols.secagg.thresholds import Threat, choose_sparse, corrupted, dropouts


def seed_of(number):
    return hashlib.sha256(number.to_bytes(8, "big")).digest()


sizes = st.integers(3, 80).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, (n - 1) // 2).map(lambda h: 2 * h))
)


@settings(max_examples=80, deadline=None)
@given(size=sizes, seed=st.binary(min_size=16, max_size=16))
def test_regular_symmetric_sorted(size, seed):
    n, k = size
    rows = build(n, k, seed)
    assert rows.shape == (n, k)
    assert rows.dtype == np.int32
    edges = {(i, int(j)) for i, row in enumerate(rows) for j in row}
    assert len(edges) == n * k
    assert edges == {(j, i) for i, j in edges}
    assert all(i != j and 0 <= j < n for i, j in edges)
    assert (np.diff(rows, axis=1) > 0).all()


@pytest.mark.parametrize(("n", "k"), [(3, 2), (7, 2), (7, 6), (40, 6), (41, 12)])
def test_is_the_relabelled_ring(n, k):
    seed = seed_of(n)
    ring = permutation(n, seed)
    rows = build(n, k, seed)
    for p in range(n):
        near = {int(ring[(p + s) % n]) for s in range(-k // 2, k // 2 + 1) if s}
        assert set(rows[ring[p]].tolist()) == near


def test_seed_decides():
    assert (build(200, 8, seed_of(1)) == build(200, 8, seed_of(1))).all()
    assert (build(200, 8, seed_of(1)) != build(200, 8, seed_of(2))).any()
    assert (permutation(50, bytes(16)) != permutation(50, bytes(32))).any()


def test_known_permutation():
    """Fixed for ever: a graph must be rebuilt alike from a stored seed."""
    assert permutation(10, bytes(range(16))).tolist() == [5, 4, 9, 2, 3, 7, 8, 0, 6, 1]


def test_permutation_is_uniform():
    """All 24 orders of 4 are equally frequent: chi-square with fixed seeds, and no value lost."""
    orders = {order: m for m, order in enumerate(permutations(range(4)))}
    draws = 4800
    counts = np.zeros(24)
    for number in range(draws):
        counts[orders[tuple(permutation(4, seed_of(number)).tolist())]] += 1
    statistic = ((counts - draws / 24) ** 2 / (draws / 24)).sum()
    assert chi2.sf(statistic, 23) > 0.001
    assert chi2.cdf(statistic, 23) > 0.001


SHUFFLES = [_shuffle._shuffle_plain, _shuffle._shuffle_kernel]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_shuffle_throws_favoured_words_away(shuffle):
    """2**32 = 3 * 1431655765 + 1, so among three the last word is thrown away."""
    order = np.arange(3, dtype=np.int32)
    words = np.array([2**32 - 1, 2**32 - 2], dtype=np.uint32)
    assert shuffle(order, words, 2) == 1
    assert order.tolist() == [0, 1, 2]
    order = np.arange(3, dtype=np.int32)
    assert shuffle(order, np.array([3, 2**32 - 2, 7], dtype=np.uint32), 2) == 0
    assert order.tolist() == [1, 2, 0]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_shuffle_goes_on_where_words_ran_out(shuffle):
    words = np.random.default_rng(5).integers(0, 2**32, 200, dtype=np.uint32)
    whole = np.arange(60, dtype=np.int32)
    assert shuffle(whole, words, 59) == 0
    parts = np.arange(60, dtype=np.int32)
    last = shuffle(parts, words[:20], 59)
    assert last == 39
    assert shuffle(parts, words[20:], last) == 0
    assert (whole == parts).all()


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_shuffle_paths_agree(n, seed):
    words = np.random.default_rng(seed).integers(0, 2**32, n + 5, dtype=np.uint32)
    words[::7] = 2**32 - 1
    plain, fast = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)
    assert _shuffle._shuffle_plain(plain, words, n - 1) == _shuffle._shuffle_kernel(
        fast, words, n - 1
    )
    assert (plain == fast).all()


def test_chunks_do_not_matter(monkeypatch):
    whole = permutation(5000, bytes(32))
    monkeypatch.setattr(_shuffle, "_CHUNK", 7)
    assert (permutation(5000, bytes(32)) == whole).all()


@settings(max_examples=60, deadline=None)
@given(size=sizes, seed=st.binary(min_size=32, max_size=32))
def test_reverse_positions(size, seed):
    n, k = size
    rows = build(n, k, seed)
    reverse = reverse_positions(rows)
    assert reverse.dtype == np.int32
    assert (rows[rows, reverse] == np.arange(n)[:, None]).all()
    plain, fast = np.empty_like(rows), np.empty_like(rows)
    assert graph._reverse_plain(rows, plain)
    assert graph._reverse_kernel(rows, fast)
    assert (plain == reverse).all()
    assert (fast == reverse).all()
    who = np.repeat(np.arange(n), k)
    assert (position(rows, who, rows.ravel()) == reverse.ravel()).all()


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2], [0, 2], [1, 3], [0, 2]],
        [[1, 2], [2, 3], [0, 3], [0, 1]],
        [[0, 1], [0, 1]],
        [[1], [2], [0]],
        [[1, 2], [0, 2], [0, 1], [0, 1]],
    ],
)
def test_asymmetric_rows_are_refused(rows):
    rows = np.array(rows, dtype=np.int32)
    symmetric = all(i in rows[j] for i, row in enumerate(rows) for j in row)
    assert graph._reverse_plain(rows, np.empty_like(rows)) == symmetric
    assert graph._reverse_kernel(rows, np.empty_like(rows)) == symmetric
    if not symmetric:
        with pytest.raises(UsageError, match="symmetric"):
            reverse_positions(rows)


@pytest.mark.parametrize("rows", [[[2, 1], [0, 2], [0, 1]], [[1, 1], [0, 0]], [[-1, 1], [0, 1]]])
def test_unsorted_or_foreign_rows_are_refused(rows):
    with pytest.raises(UsageError, match="sorted clients"):
        reverse_positions(np.array(rows, dtype=np.int32))


def test_position_refuses_strangers():
    rows = build(30, 4, bytes(16))
    stranger = next(j for j in range(1, 30) if j not in rows[0])
    with pytest.raises(UsageError, match=f"found {stranger}; allowed: a neighbour of client 0"):
        position(rows, np.array([rows[0, 0], stranger]), np.array([0, 0]))
    with pytest.raises(UsageError, match="a neighbour of client 5"):
        position(rows, np.array([5]), np.array([5]))
    with pytest.raises(UsageError, match="clients from 0 to 29"):
        position(rows, np.array([30]), np.array([0]))
    with pytest.raises(UsageError, match="clients from 0 to 29"):
        position(rows, np.array([0]), np.array([-1]))
    with pytest.raises(UsageError, match="as many as"):
        position(rows, np.array([1, 2]), np.array([0]))
    with pytest.raises(UsageError, match="integer array"):
        position(rows, np.array([1.0]), np.array([0]))
    assert position(rows, np.array([], dtype=int), np.array([], dtype=int)).shape == (0,)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 40))
def test_complete_neighbourhoods(n):
    hood = Neighbourhoods.complete(n)
    assert hood.size == n - 1
    assert hood.rows is None
    for i in range(n):
        row = hood.of(i)
        assert row.dtype == np.int32
        assert row.tolist() == [j for j in range(n) if j != i]
        assert hood.position(row, np.full(n - 1, i)).tolist() == list(range(n - 1))
        with pytest.raises(UsageError, match="a neighbour of"):
            hood.position(np.array([i]), np.array([i]))


def test_full_ring_is_the_complete_graph():
    sparse, complete = Neighbourhoods.sparse(9, 8, bytes(16)), Neighbourhoods.complete(9)
    for i in range(9):
        assert (sparse.of(i) == complete.of(i)).all()
        assert (sparse.position(sparse.of(i), np.full(8, i)) == np.arange(8)).all()
    assert repr(sparse) == "Neighbourhoods(sparse, clients=9, size=8)"
    assert repr(complete) == "Neighbourhoods(complete, clients=9, size=8)"


def test_neighbourhoods_are_checked():
    hood = Neighbourhoods.sparse(20, 4, bytes(16))
    assert hood.size == 4
    with pytest.raises(ValueError, match="read-only"):
        hood.of(0)[0] = 1
    for bad in (-1, 20, True, 1.0):
        with pytest.raises(UsageError, match="client:"):
            hood.of(bad)
    with pytest.raises(UsageError, match="one for each"):
        Neighbourhoods(19, hood.rows)
    with pytest.raises(UsageError, match="int32"):
        Neighbourhoods(20, hood.rows.astype(np.int64))


def test_large_complete_graph_is_not_written_out():
    hood = Neighbourhoods.complete(2**20)
    assert hood.of(5)[[4, 5, -1]].tolist() == [4, 6, 2**20 - 1]


@pytest.mark.parametrize("who", [Threat.SEMI_HONEST, Threat.SEMI_MALICIOUS])
def test_planned_graph_holds(who):
    """Random corrupt clients and dropouts break none of the planner's promises.

    Each trial fails with probability 2**-20 at most.
    """
    n, corrupt, dropout = 600, 0.1, 0.15
    plan = choose_sparse(n, corrupt=corrupt, dropout=dropout, threat=who)
    rng = np.random.default_rng(11)
    for trial in range(20):
        rows = build(n, plan.neighbours, seed_of(trial))
        mixed = rng.permutation(n)
        bad = np.zeros(n, dtype=bool)
        gone = np.zeros(n, dtype=bool)
        c, d = corrupted(n, corrupt), dropouts(n, dropout)
        bad[mixed[:c]] = True
        gone[mixed[c : c + d]] = True
        assert bad[rows].sum(axis=1).max() <= plan.max_corrupt_holders < plan.threshold
        assert (~gone)[rows].sum(axis=1).min() >= plan.min_surviving_holders >= plan.threshold
        assert components(rows, ~bad & ~gone) == 1


def test_components_notices_a_cut():
    ring = permutation(12, bytes(16))
    rows = build(12, 4, bytes(16))
    alive = np.ones(12, dtype=bool)
    alive[ring[[0, 1, 6]]] = False
    assert components(rows, alive) == 1
    alive[ring[7]] = False
    assert components(rows, alive) == 2


def components(rows, alive):
    label = np.where(alive, np.arange(len(rows)), len(rows))
    while True:
        near = np.where(alive, np.minimum(label, label[rows].min(axis=1)), len(rows))
        if (near == label).all():
            return len(np.unique(label[alive]))
        label = near


def test_neighbours_are_uniform():
    """Every other client is client 0's neighbour equally often (chi-square, fixed seeds)."""
    n, k, draws = 12, 4, 2200
    counts = np.zeros(n)
    for number in range(draws):
        counts[build(n, k, seed_of(number))[0]] += 1
    assert counts[0] == 0
    # Drawing k of n - 1 without putting back shrinks the variance by (n - 1 - k) / (n - 2).
    mean = draws * k / (n - 1)
    statistic = ((counts[1:] - mean) ** 2).sum() / (mean * (n - 1 - k) / (n - 2))
    assert 0.001 < chi2.cdf(statistic, n - 2) < 0.999


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ((2, 2, bytes(16)), "clients"),
        ((2**30 + 1, 2, bytes(16)), "clients"),
        ((True, 2, bytes(16)), "clients"),
        ((10.0, 2, bytes(16)), "clients"),
        ((10, 3, bytes(16)), "neighbours"),
        ((10, 0, bytes(16)), "neighbours"),
        ((10, 10, bytes(16)), "neighbours"),
        ((10, "4", bytes(16)), "neighbours"),
        ((10, 4, bytes(15)), "seed"),
        ((10, 4, bytearray(16)), "seed"),
        ((10, 4, 7), "seed"),
    ],
)
def test_arguments_are_checked(args, name):
    with pytest.raises(UsageError) as caught:
        build(*args)
    assert caught.value.argument == name


def test_seed_never_shows():
    with pytest.raises(UsageError) as caught:
        build(10, 4, b"secret")
    assert "secret" not in str(caught.value)
