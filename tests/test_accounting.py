"""Epsilon per respondent adds up exactly, over surveys and rounds, and stops at the limit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privagg.accounting import Entry, Ledger
from privagg.errors import UsageError


def test_sums_over_surveys_and_rounds():
    ledger = Ledger()
    ledger.spend("alice", 1.0, survey="a")
    ledger.spend(["alice", "bob"], 0.5, survey="b", round=0)
    ledger.spend(["alice", "bob"], 0.5, survey="b", round=1)
    assert (ledger.spent("alice"), ledger.spent("bob"), ledger.spent("carol")) == (2.0, 1.0, 0.0)
    assert ledger.most() == 2.0
    assert ledger.remaining("alice") == math.inf
    assert ledger.entries[1:3] == (Entry("alice", "b", 0, 0.5), Entry("bob", "b", 0, 0.5))
    assert Ledger().most() == 0.0


def test_sums_are_exact_and_round_up():
    ledger = Ledger(limit=1.0)
    for turn in range(9):
        ledger.spend(3, 0.1, survey="a", round=turn)
    exact = 9 * Fraction(0.1)
    assert Fraction(ledger.spent(3)) >= exact
    assert math.nextafter(ledger.spent(3), 0) < exact
    assert Fraction(ledger.remaining(3)) <= 1 - exact
    # Ten times the float 0.1 is above 1, though adding floats would say 0.99...9.
    with pytest.raises(UsageError, match="nobody was charged"):
        ledger.spend(3, 0.1, survey="a", round=9)
    assert len(ledger.entries) == 9


def test_all_or_nobody():
    ledger = Ledger(limit=2)
    ledger.spend("bob", 1.5, survey="a")
    with pytest.raises(UsageError, match=r"0\.5 of 2 is left"):
        ledger.spend(["alice", "bob"], 1, survey="b")
    assert ledger.spent("alice") == 0.0
    # The same respondent twice in one call pays twice.
    with pytest.raises(UsageError):
        ledger.spend(["alice"] * 3, 1, survey="b")
    ledger.spend(["alice"] * 2, 1, survey="b")
    assert ledger.remaining("alice") == 0.0


def test_memoised_answers_are_paid_once():
    ledger = Ledger(limit=2)
    for turn in range(5):
        ledger.spend(np.arange(3), 1.0, survey="a", round=turn, key="value 7")
    assert [ledger.spent(one) for one in range(3)] == [1.0, 1.0, 1.0]
    ledger.spend(1, 1.0, survey="a", key="value 8")
    assert ledger.spent(1) == 2.0
    ledger.spend(2, 1.0, survey="b", key="value 7")
    assert ledger.spent(2) == 2.0
    ledger.spend([0, 0], 1.0, survey="c", key="k")
    assert ledger.spent(0) == 2.0


def test_saved_and_read():
    ledger = Ledger(limit=3)
    ledger.spend(["a", "b"], 0.7, survey="x", key="k")
    ledger.spend("a", 0.1, survey="y", round=4)
    again = Ledger.decode(ledger.encode())
    assert again.encode() == ledger.encode()
    assert again.entries == ledger.entries
    again.spend("b", 0.7, survey="x", key="k")
    assert again.spent("b") == ledger.spent("b")
    assert "2 respondents, 3 charges, limit 3" in repr(again)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format":"privagg ledger 2","limit":null,"entries":[]}',
        b'{"format":"privagg ledger 1","limit":0,"entries":[]}',
        b'{"format":"privagg ledger 1","limit":null,"entries":[[1]]}',
        b'{"format":"privagg ledger 1","limit":null,"entries":3}',
        b'{"format":"privagg ledger 1","limit":1,"entries":[["a","s",0,2,""]]}',
        b'{"format":"privagg ledger 1","limit":1,"entries":[["a","s",0,-1,""]]}',
    ],
)
def test_what_is_no_ledger(data):
    with pytest.raises(UsageError):
        Ledger.decode(data)


@pytest.mark.parametrize(
    ("who", "epsilon", "options"),
    [
        ("a", 0, {}),
        ("a", float("nan"), {}),
        ("a", float("inf"), {}),
        ("a", True, {}),
        ("a", "1", {}),
        ("", 1, {}),
        (True, 1, {}),
        (1.5, 1, {}),
        ([["a"]], 1, {}),
        ("a", 1, {"survey": ""}),
        ("a", 1, {"round": -1}),
        ("a", 1, {"round": 0.5}),
        ("a", 1, {"key": 3}),
    ],
)
def test_wrong_arguments(who, epsilon, options):
    with pytest.raises(UsageError):
        Ledger().spend(who, epsilon, **{"survey": "s", **options})
    with pytest.raises(UsageError):
        Ledger(limit=-1)


def test_sums_beyond_all_floats_are_never_stated_too_small():
    ledger = Ledger()
    for _ in range(2):
        ledger.spend("a", 1.7e308, survey="s")
    assert ledger.spent("a") == ledger.most() == float("inf")
    limited = Ledger(1e308)
    limited.spend("a", 9e307, survey="s")
    with pytest.raises(UsageError, match="nobody was charged"):
        limited.spend("a", 9e307, survey="s")
    for wrong in (lambda: Ledger(10**400), lambda: ledger.spend("a", 10**400, survey="s")):
        with pytest.raises(UsageError, match="beyond all floats"):
            wrong()


@pytest.mark.parametrize("who", [b"ab", bytearray(b"a"), memoryview(b"a")])
def test_bytes_are_no_list_of_respondents(who):
    ledger = Ledger()
    with pytest.raises(UsageError, match="respondent"):
        ledger.spend(who, 1.0, survey="s")
    assert ledger.entries == ()


def test_what_is_charged_can_be_saved():
    ledger = Ledger()
    half = "\ud800"
    for who, survey, key in ((half, "s", ""), ("a", half, ""), ("a", "s", half)):
        with pytest.raises(UsageError, match="surrogate"):
            ledger.spend(who, 1.0, survey=survey, key=key)
    assert Ledger.decode(ledger.encode()).most() == 0
