"""What surveys refuse, and what of their values never shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from surveys import survey

from privagg.domain import Categorical
from privagg.entropy import OS, from_seed
from privagg.errors import UsageError
from privagg.mechanisms import State
from privagg.protocols.multidim import (
    Aggregator,
    Params,
    Respondent,
    randomize,
    randomize_codes,
    run,
)

SIZES = (3, 12, 70)
COLUMNS = {"a0": [0, 1], "a1": [5, 2], "a2": [9, 69]}


def make(protocol="rs+fd", oracle="grr"):
    return survey(SIZES, 1.0, protocol=protocol, oracle=oracle)


def people(sizes, n):
    return [np.arange(n, dtype=np.uint32) % k for k in sizes]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"a0": [0], "a1": [0]},
        {"a0": [0], "a1": [0], "a2": [0], "a3": [0]},
        {"a0": [0], "a1": [0, 1], "a2": [0]},
        {"a0": [3], "a1": [0], "a2": [0]},
        {"a0": ["0"], "a1": [0], "a2": [0]},
        [[0], [0], [0]],
    ],
    ids=str,
)
def test_wrong_columns(columns):
    with pytest.raises(UsageError):
        randomize(make(), columns, OS)


def test_wrong_arguments():
    params = make()
    with pytest.raises(UsageError, match="columns"):
        randomize_codes(params, people(SIZES, 3)[:2])
    with pytest.raises(UsageError):
        randomize_codes(params, [c.astype(float) for c in people(SIZES, 3)])
    with pytest.raises(UsageError):
        Respondent("survey")
    with pytest.raises(UsageError):
        Aggregator("survey")
    with pytest.raises(UsageError, match="no reports"):
        Aggregator(params).estimate()
    aggregator = Aggregator(params)
    aggregator.receive(randomize_codes(params, people(SIZES, 3)))
    for wrong in ({"post": "mle"}, {"confidence": 1.0}, {"post": 3}):
        with pytest.raises(UsageError):
            aggregator.estimate(**wrong)
    with pytest.raises(UsageError):
        aggregator.merge("state")


@pytest.mark.parametrize("codes", [None, 3, "abc", [[0], [0], [0]], {"a0": [0]}])
def test_codes_that_are_none(codes):
    with pytest.raises(UsageError, match="codes"):
        randomize_codes(make(), codes, from_seed(1))


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("entropy", 5),
        ("entropy", None),
        ("name", None),
        ("name", ""),
        ("name", True),
        ("ledger", {}),
    ],
)
def test_respondents_are_refused_before_they_have_values(argument, wrong):
    with pytest.raises(UsageError, match=argument):
        Respondent(make(), **{argument: wrong})


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [("post", []), ("post", "mle"), ("batch", 0), ("runs", True), ("seed", -1), ("progress", 3)],
)
def test_wrong_runs(argument, wrong):
    with pytest.raises(UsageError, match=argument):
        run(make(), COLUMNS, **{argument: wrong})


def test_a_run_needs_a_survey():
    with pytest.raises(UsageError, match="params"):
        run(None, COLUMNS)


def test_states_of_another_size_are_refused():
    params = make()
    state = State(params.digest, 2, np.zeros(3, np.int64))
    with pytest.raises(Exception, match="sums") as caught:
        Aggregator(params).merge(state)
    assert type(caught.value).__module__ == "privagg.errors"


def test_unknown_values_are_counted_in_the_truth_only():
    """Runs that differ in how many values are unknown, but not in codes, differ nowhere else."""
    domain = Categorical(range(3), unknown="other", other="rest")
    declared = Categorical([0, 1, 2, 3])
    params = Params(attributes={"a": domain}, epsilon=1.0)
    found = run(params, {"a": [0, 7, 8, None, 2] * 20}, seed=1)
    assert found.truth.unknown == {"a": 60}
    # Seconds may have any digits.
    timeless = replace(found, seconds={})
    assert "60" not in repr(timeless)
    same = Params(attributes={"a": declared}, epsilon=1.0)
    known = run(same, {"a": [0, 3, 3, 3, 2] * 20}, seed=1)
    assert np.array_equal(found.estimates["a"].raw, known.estimates["a"].raw)
    assert known.truth.unknown == {"a": 0}
