"""Bags: who is with whom, and sums over them."""

import numpy as np
import pytest

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.responses import sorting
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.targets import as_bags, as_responses


def test_random_bags_are_a_partition_with_sizes_that_differ_by_one():
    bags = Bags.random(23, 5, from_seed(1))
    assert bags.count == 4
    assert sorted(bags.sizes) == [5, 6, 6, 6]
    assert sorted(np.concatenate(bags.members())) == list(range(23))
    assert bags.insecure
    assert bags.disjoint


def test_any_two_rows_meet_equally_often():
    met = sum(len(set(Bags.random(6, 2, from_seed(s)).labels[[0, 3], 0])) == 1 for s in range(2000))
    assert met == pytest.approx(2000 / 5, abs=90)  # 5 standard deviations


def test_copies_are_partitions_each():
    bags = Bags.random(12, 3, from_seed(2), copies=3)
    assert bags.copies == 3
    assert bags.count == 12
    assert (bags.sizes == 3).all()
    assert not bags.disjoint
    assert [len(set(rows)) for rows in bags.members()] == [3] * 12


def test_given_strings_are_bags_in_sorted_order():
    bags = Bags.given(["b", "a", "b", "c"])
    assert bags.names == ("a", "b", "c")
    assert bags.sizes.tolist() == [1, 2, 1]
    assert [m.tolist() for m in bags.members()] == [[1], [0, 2], [3]]


def test_ids_of_any_type_that_can_be_a_key():
    bags = Bags.given(np.array([(1, "x"), "a", (1, "x")], dtype=object))
    assert bags.count == 2
    assert bags.labels[0, 0] == bags.labels[2, 0]


@pytest.mark.parametrize(
    "ids",
    [
        [1.0, np.nan],
        ["a", None],
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        np.ma.masked_array([1, 2], [False, True]),
        [],
        [[1, 2]],
        np.array([[], [1]], dtype=object)[:, None],
    ],
)
def test_missing_bags_are_refused(ids):
    with pytest.raises(UsageError, match="bags"):
        Bags.given(ids)


def test_lists_of_rows_may_overlap_and_are_unequal():
    bags = Bags.of([[0, 1, 2], [2, 3], [3]], 4)
    assert bags.sizes.tolist() == [3, 2, 1]
    assert bags.copies == 2
    assert bags.sums([1.0, 2, 4, 8]).tolist() == [7, 12, 8]
    assert bags.means([1.0, 2, 4, 8]).tolist() == [7 / 3, 6, 8]
    assert bags.spread([1.0, 2, 4]).tolist() == [1, 1, 1.5, 3]
    row = np.array([0, 1, 2, 2, 3, 3])
    assert (Bags.of_pairs(row, np.array([0, 0, 0, 1, 1, 2])).labels == bags.labels).all()


@pytest.mark.parametrize(
    ("members", "rows"),
    [([], 1), ([[]], 1), ([[0, 0]], 1), ([[1]], 1), ([[0]], 2), ([[True]], 2), ([[0.0]], 1)],
)
def test_impossible_lists_of_rows_are_refused(members, rows):
    with pytest.raises(UsageError, match="members"):
        Bags.of(members, rows)


def test_pairs_that_come_twice_or_leave_a_bag_out_are_refused():
    for numbers in ([0, 0], [0, 2]):
        with pytest.raises(UsageError, match="members"):
            Bags.of_pairs(np.array([0, 0]), np.array(numbers))


def test_tables_are_summed_column_by_column(rng):
    bags, table = Bags.given(rng.integers(0, 7, 50)), rng.normal(size=(50, 3))
    expected = np.array([table[rows].sum(axis=0) for rows in bags.members()])
    assert np.allclose(bags.sums(table), expected)
    with pytest.raises(UsageError, match="values"):
        bags.sums(table[:-1])


def test_responses_by_name_need_no_order():
    bags = Bags.given(["b", "a", "b"])
    assert as_responses({"b": 4.0, "a": 1.0}, bags, "sum").ravel().tolist() == [1, 2]
    for wrong in ({"a": 1.0}, {"a": 1, "b": 2, "c": 3}, [1.0], [1.0, np.nan], ["x", "y"]):
        with pytest.raises(UsageError, match="responses"):
            as_responses(wrong, bags)
    with pytest.raises(UsageError, match="aggregate"):
        as_responses([1, 2], bags, "median")
    with pytest.raises(UsageError, match="bags"):
        as_bags(["a"], 2)


def brute(scores, size):
    """Return the least sum of squares over all partitions into sorted runs of any lengths."""
    ordered, n = np.sort(scores), len(scores)
    best = [0.0] + [np.inf] * n
    for i in range(1, n + 1):
        for before in range(i):
            if i - before >= size:
                run = ordered[before:i]
                best[i] = min(best[i], best[before] + ((run - run.mean()) ** 2).sum())
    return best[n]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_sorted_bags_are_the_best_and_large_enough(rng, size):
    for n in (7, 20, 31):
        scores = np.round(rng.normal(size=n), 1)  # ties, too
        bags = sorting.by_score(scores, size)
        cost = sum(((scores[m] - scores[m].mean()) ** 2).sum() for m in bags.members())
        assert cost == pytest.approx(brute(scores, size), abs=1e-9)
        assert bags.sizes.min() >= size
        assert bags.sizes.max() <= max(2 * size - 1, n if n < 2 * size else 0)
        ordered = np.sort(scores) - scores.mean()
        kernel, plain = sorting._lengths(ordered, size), sorting._lengths_plain(ordered, size)
        # Ties may be cut in two ways of equal cost: lengths that differ are no error.
        assert (kernel > 0).tolist() == (plain > 0).tolist()


def test_kernel_and_plain_cut_alike_without_ties(rng):
    ordered = np.sort(rng.normal(size=200))
    for size in (2, 5, 9):
        assert (sorting._lengths(ordered, size) == sorting._lengths_plain(ordered, size)).all()


@pytest.mark.parametrize("scores", [[], [np.nan], ["a"], [[1.0]]])
def test_impossible_scores_are_refused(scores):
    with pytest.raises(UsageError, match="scores"):
        sorting.by_score(scores, 1)
