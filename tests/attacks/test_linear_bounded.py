"""Bounded inputs and unknown logs: the programs against enumeration."""

import importlib.util
import itertools

import numpy as np
import pytest

from privagg.attacks import linear_solver
from privagg.attacks.linear import (
    Log,
    audit,
    feasible_ranges,
    participation_from_counts,
    schedule,
)
from privagg.entropy import from_seed
from privagg.errors import UsageError

pytest.importorskip("scipy")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("high", [1, 3])
def test_ranges_of_whole_numbers_are_those_of_all_points(seed, high):
    generator = np.random.default_rng(seed)
    n, rounds = 6, 1 + seed % 4
    weights = generator.integers(0, 3, size=(rounds, n))
    truth = generator.integers(0, high + 1, size=n)
    sums = weights @ truth
    points = np.array(
        [p for p in itertools.product(range(high + 1), repeat=n) if (weights @ p == sums).all()]
    )
    steps = []
    found = feasible_ranges(
        weights, sums, high=high, progress=lambda done, of: steps.append((done, of))
    )
    assert found.proven.all()
    assert found.minimum.tolist() == points.min(axis=0).tolist()
    assert found.maximum.tolist() == points.max(axis=0).tolist()
    assert found.unique.tolist() == (points.min(axis=0) == points.max(axis=0)).tolist()
    assert steps[-1] == (n, n)
    some = feasible_ranges(weights, sums, high=high, inputs=[4, 1])
    assert some.inputs == (4, 1)
    assert some.minimum.tolist() == found.minimum[[4, 1]].tolist()


def test_sums_at_an_end_tell_every_input_though_none_is_determined():
    weights = np.ones((1, 5), np.int64)
    assert audit(Log.of_matrix(weights)).recoverable == ()
    for total in (0, 5):
        assert feasible_ranges(weights, [total]).unique.all()
    inside = feasible_ranges(weights, [2])
    assert not inside.unique.any()
    assert (inside.minimum == 0).all()
    assert (inside.maximum == 1).all()


def test_real_inputs_have_intervals():
    weights = np.array([[1.0, 1, 0], [0, 1, 1]])
    found = feasible_ranges(weights, [1.25, 1.75], low=0.0, high=1.0, integer=False)
    # c <= 1, so b >= 0.75 and a <= 0.5; b <= 1, so a >= 0.25 and c >= 0.75.
    assert np.allclose(found.minimum, [0.25, 0.75, 0.75])
    assert np.allclose(found.maximum, [0.5, 1.0, 1.0])
    assert found.proven.all()
    assert not found.unique.any()
    tight = feasible_ranges(weights, [2.0, 1.5], low=0.0, high=1.0, integer=False)
    assert tight.unique.all()
    with pytest.raises(UsageError, match="sums"):
        feasible_ranges(weights, [1.5, 0.25], low=0.0, high=1.0, integer=False)


def test_tolerance_allows_for_noise():
    weights = np.ones((1, 3), np.int64)
    strict = feasible_ranges(weights, [3])
    loose = feasible_ranges(weights, [3], tolerance=1)
    assert strict.unique.all()
    assert (loose.minimum == 0).all()
    with pytest.raises(UsageError, match="sums"):
        feasible_ranges(weights, [3.5])
    assert feasible_ranges(weights, [3.4], tolerance=0.5).unique.all()


def test_unbounded_inputs_stay_so():
    found = feasible_ranges([[1, 1], [0, 0]], [1, 0], low=-np.inf, high=np.inf, integer=False)
    assert not np.isfinite(found.minimum).any()
    assert not np.isfinite(found.maximum).any()
    assert not found.unique.any()


@pytest.mark.parametrize("seed", range(3))
def test_a_log_is_found_from_sums_and_counts(seed):
    generator = np.random.default_rng(seed)
    n, rounds, interval = 8, 36, 9
    truth = (generator.random((rounds, n)) < 0.5).astype(np.int64)
    inputs = generator.standard_normal((n, 24))
    counts = truth.reshape(rounds // interval, interval, n).sum(axis=1).T
    found = participation_from_counts(truth @ inputs, counts, interval)
    assert found.found.all()
    assert found.null_dimension == rounds - n
    for client in range(n):
        if found.unique[client]:
            assert np.array_equal(found.participation[:, client], truth[:, client])
        column = found.participation[:, client]
        assert np.array_equal(column.reshape(-1, interval).sum(axis=1), counts[client])
    assert found.unique.sum() >= n - 1
    assert audit(Log.of_matrix(found.participation)).rank == np.linalg.matrix_rank(truth)


def test_a_log_is_found_through_noise():
    generator = np.random.default_rng(4)
    n, rounds, interval = 5, 24, 8
    truth = (generator.random((rounds, n)) < 0.5).astype(np.int64)
    inputs = generator.standard_normal((n, 200))
    sums = truth @ inputs + 0.02 * generator.standard_normal((rounds, 200))
    counts = truth.reshape(rounds // interval, interval, n).sum(axis=1).T
    found = participation_from_counts(sums, counts, interval, noisy=True)
    assert np.array_equal(found.participation, truth)
    assert found.unique.all()
    assert (found.residual < 1).all()


def test_equal_clients_are_not_unique():
    truth = np.array([[1, 1], [0, 0], [1, 1], [0, 0]])
    sums = truth @ np.array([[1.0, 2, 3], [4, 5, 7]])
    found = participation_from_counts(sums, np.array([[1, 1], [1, 1]]), 2)
    assert found.found.all()
    assert np.array_equal(found.participation, truth)
    # With one interval, and rounds alike, other columns fit as well.
    loose = participation_from_counts(np.ones((4, 2)), np.array([[4], [4]]), 4)
    assert loose.unique.all()  # all four rounds: the only column with four
    wide = participation_from_counts(np.eye(4)[:, :4] * 0 + 1.0, np.array([[0]] * 2), 4)
    assert np.array_equal(wide.participation, np.zeros((4, 2)))


def test_more_rounds_than_a_square_matrix_of_is_held():
    with pytest.raises(UsageError, match="at most 8192"):
        participation_from_counts(np.ones((8193, 1)), np.ones((1, 1), int), 8193)


def test_wrong_arguments_are_named():
    ones = np.ones((2, 3))
    for argument, wrong in [
        ("weights", lambda: feasible_ranges([1, 2], [1])),
        ("weights", lambda: feasible_ranges([[np.nan, 1]], [1])),
        ("sums", lambda: feasible_ranges(ones, [1])),
        ("sums", lambda: feasible_ranges(ones, [1, np.nan])),
        ("sums", lambda: feasible_ranges(ones, ["a", "b"])),
        ("sums", lambda: feasible_ranges(ones, [1, 2])),
        ("low", lambda: feasible_ranges(ones, [1, 1], low=[0, 0])),
        ("low", lambda: feasible_ranges(ones, [1, 1], low=2, high=1)),
        ("high", lambda: feasible_ranges(ones, [1, 1], high=np.nan)),
        ("integer", lambda: feasible_ranges(ones, [1, 1], integer=1)),
        ("tolerance", lambda: feasible_ranges(ones, [1, 1], tolerance=-1)),
        ("seconds", lambda: feasible_ranges(ones, [1, 1], seconds=True)),
        ("inputs", lambda: feasible_ranges(ones, [1, 1], inputs=[3])),
        ("inputs", lambda: feasible_ranges(ones, [1, 1], inputs=[True])),
        ("sums", lambda: participation_from_counts([1, 2], [[1]], 2)),
        ("sums", lambda: participation_from_counts(ones[:, :1], [[1], [1]], 2)),
        ("sums", lambda: participation_from_counts(ones * np.inf, [[1]], 2)),
        ("counts", lambda: participation_from_counts(ones, [[0.5]], 2)),
        ("counts", lambda: participation_from_counts(ones, [[3]], 2)),
        ("counts", lambda: participation_from_counts(ones, [[1, 1]], 2)),
        ("interval", lambda: participation_from_counts(ones, [[1]], 0)),
    ]:
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.argument == argument


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(
        linear_solver.importlib.util,
        "find_spec",
        lambda name: None if name == "scipy" else importlib.util.find_spec(name),
    )
    with pytest.raises(UsageError, match=r"privagg\[audit\]"):
        feasible_ranges([[1]], [1])
    audit(schedule("batches", 4, 2, 3, entropy=from_seed(1)))  # needs none
