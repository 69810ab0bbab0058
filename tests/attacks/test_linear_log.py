"""Participation logs: what they take, what they refuse, and that nothing changes on the way."""

from fractions import Fraction

import numpy as np
import pytest

from privagg.attacks.linear import Log
from privagg.errors import UsageError


def refused(make):
    with pytest.raises(UsageError) as caught:
        make()
    return caught.value


def test_a_matrix_keeps_its_names_and_numbers():
    log = Log.of_matrix([[1, 0, 1], [0, 2, 0]], ["ann", "bob", "cy"], ["mon", "tue"])
    assert (log.clients, log.rounds) == (("ann", "bob", "cy"), ("mon", "tue"))
    assert log.weights.dtype == np.int64
    assert log.cohorts.tolist() == [2, 1]
    assert log.missing == ()


@pytest.mark.parametrize(
    ("weights", "dtype"),
    [
        (np.array([[True, False]]), np.int64),
        (np.array([[1, 0]], np.uint8), np.int64),
        (np.array([[1.0, 0.0]]), np.int64),
        (np.array([[2.0**53, 0.0]], np.float32), np.int64),
        (np.array([[0.5, 1.0]]), np.float64),
        (np.array([[2.0**60, 1.0]]), np.float64),
        (np.array([[Fraction(1, 3), 1]], object), object),
        (np.array([[0.5, 2**60 + 1]], object), object),
        (np.array([[0.5, 3]], object), np.float64),
        (np.array([[2**60 + 1, 3]], object), np.int64),
    ],
)
def test_numbers_are_kept_exactly(weights, dtype):
    log = Log.of_matrix(weights)
    assert log.weights.dtype == dtype
    for before, after in zip(weights.flat, log.weights.flat, strict=True):
        assert Fraction(before.item() if hasattr(before, "item") else before) == Fraction(
            after.item() if hasattr(after, "item") else after
        )


def test_triples_in_any_order():
    log = Log.of_triples([("b", 10), ("a", 2, 3), ("a", 10), ("c", 9, 0.5)])
    assert log.rounds == ("2", "9", "10")
    assert log.clients == ("b", "a", "c")
    assert log.weights.tolist() == [[0, 3, 0], [0, 0, 0.5], [1, 1, 0]]
    assert log.missing == (3, 4, 5, 6, 7, 8)
    named = Log.of_triples([(7, "second"), ("7", "first"), (3, "first", Fraction(1, 3))])
    assert named.rounds == ("second", "first")
    assert named.clients == ("3", "7")
    assert named.weights.tolist() == [[0, 1], [Fraction(1, 3), 1]]


def test_time_stamps_have_no_gaps():
    assert Log.of_triples([("a", 1700000000), ("b", 1700003600)]).missing == ()
    assert Log.of_triples([("a", "007"), ("b", "009")]).missing == ()
    assert Log.of_triples([("a", -1), ("b", 2)]).missing == (0, 1)


def test_wrong_matrices_are_refused():
    nan = np.array([[1.0, 0.0], [0.0, np.nan]])
    error = refused(lambda: Log.of_matrix(nan, ["ann", "bob"], ["mon", "tue"]))
    assert "'bob'" in str(error)
    assert "'tue'" in str(error)
    for argument, make in [
        ("weights", lambda: Log.of_matrix([1, 2])),
        ("weights", lambda: Log.of_matrix([[1, 2], [3]])),
        ("weights", lambda: Log.of_matrix(np.zeros((0, 3)))),
        ("weights", lambda: Log.of_matrix(np.zeros((3, 0)))),
        ("weights", lambda: Log.of_matrix([["a"]])),
        ("weights", lambda: Log.of_matrix([[1j]])),
        ("weights", lambda: Log.of_matrix([[2**63]])),
        ("weights", lambda: Log.of_matrix([[np.inf]])),
        ("weights", lambda: Log.of_matrix(np.array([[None]], object))),
        ("weights", lambda: Log.of_matrix(np.array([[float("nan"), 2**60 + 1]], object))),
        ("weights", lambda: Log.of_matrix(np.ma.masked_array([[1]]))),
        ("clients", lambda: Log.of_matrix([[1, 2]], ["a"])),
        ("clients", lambda: Log.of_matrix([[1, 2]], ["a", "a"])),
        ("clients", lambda: Log.of_matrix([[1, 2]], ["a", " "])),
        ("clients", lambda: Log.of_matrix([[1, 2]], [1, "1"])),
        ("rounds", lambda: Log.of_matrix([[1, 2]], None, [True])),
    ]:
        assert refused(make).argument == argument


def test_wrong_triples_are_refused_with_their_place():
    for argument, triples in [
        ("triples", []),
        ("triples[1]", [("a", 1), ("a", 1)]),
        ("triples[1]", [("a", 1), ("a", "1", 2)]),
        ("triples[0]", [("a",)]),
        ("triples[0]", ["ab"]),
        ("triples[0]", [("a", 1, "x")]),
        ("triples[0]", [("a", 1, float("nan"))]),
        ("triples[0]", [("a", 1, 2**63)]),
        ("triples[0]", [(None, 1)]),
        ("triples[0]", [("", 1)]),
        ("triples[0]", [("a", True)]),
    ]:
        assert refused(lambda triples=triples: Log.of_triples(triples)).argument == argument
