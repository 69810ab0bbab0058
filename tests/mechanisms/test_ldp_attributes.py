"""Means of many attributes from a few of each respondent's: epsilon, bias, intervals, wire."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from ldp_oracles import Z

from privagg.domain import Categorical, Floats, Integers
from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import SampledAttributes
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.attributes import _choose
from privagg.mechanisms.exact import exp_lower
from privagg.mechanisms.state import State

SURVEY = {"age": Integers(0, 100), "dose": Floats(-1, 1), "score": Floats(0, 5, steps=10)}
KINDS = ("hybrid", "pm", "duchi", "laplace", "sw")
N = 30_000


def survey(n=N):
    rng = np.random.default_rng(9)
    return {
        "age": rng.integers(20, 80, n),
        "dose": rng.beta(2, 5, n) * 2 - 1,
        "score": rng.integers(0, 11, n) / 2,
    }


@pytest.mark.parametrize("sampled", [1, 2])
@pytest.mark.parametrize("kind", ["hybrid", "duchi"])
def test_epsilon_by_enumeration(kind, sampled):
    """All reports under all pairs of tuples; both attributes may differ."""
    few = {"a": Floats(0, 1, steps=1), "b": Floats(0, 1, steps=2)}
    mechanism = SampledAttributes(few, 0.9, mechanism=kind, sampled=sampled)
    tables = [one.probabilities() for one in mechanism.mechanisms.values()]
    worst, totals = Fraction(0), {}
    for chosen in combinations(range(2), sampled):
        cells = product(*(range(len(tables[at][0])) for at in chosen))
        for report in cells:
            chances = {}
            for held in product(range(2), range(3)):
                chance = Fraction(1, comb(2, sampled))
                for at, cell in zip(chosen, report, strict=True):
                    chance *= tables[at][held[at]][cell]
                chances[held] = chance
                totals[held] = totals.get(held, 0) + chance
            worst = max(worst, max(chances.values()) / min(chances.values()))
    assert set(totals.values()) == {1}
    assert worst == mechanism.ratio <= exp_lower(0.9)
    assert 0.999 * 0.9 < mechanism.epsilon_realised <= 0.9
    assert "all 2 values" in mechanism.guarantee


def test_each_set_of_attributes_is_alike():
    for number, sampled in ((5, 2), (4, 4), (1, 1)):
        chosen = _choose(20_000, number, sampled, Draws(from_seed(3)))
        assert (np.diff(chosen, axis=1) > 0).all()
        sets = list(combinations(range(number), sampled))
        seen = [int((chosen == one).all(axis=1).sum()) for one in sets]
        assert sum(seen) == 20_000
        expected = 20_000 / len(sets)
        assert max(abs(count - expected) for count in seen) < Z * np.sqrt(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampled", [1, 2])
def test_means_are_found_and_parts_merge(kind, sampled):
    values = survey()
    mechanism = SampledAttributes(SURVEY, 2.0, mechanism=kind, sampled=sampled)
    reports = mechanism.randomize(values, from_seed(5))
    state = mechanism.aggregate(reports)
    for name, found in mechanism.estimate(state).items():
        assert abs(found.raw - values[name].mean()) < Z * np.sqrt(found.variance)
        noise = mechanism.variance(N, name, values[name]).mean() * N * sampled / 3
        unasked = (1 - sampled / 3) * values[name].var()
        # One bit does not tell the spread of the values: Duchi's counts all of it.
        near = 0.25 if kind in {"duchi", "hybrid"} else 0.06
        assert found.variance == pytest.approx((noise + unasked) / found.users, rel=near)
        assert found.users == pytest.approx(N * sampled / 3, rel=0.05)
    parts = [mechanism.aggregate(reports[a : a + 7000]) for a in range(0, N, 7000)]
    assert sum(parts).encode() == state.encode()
    assert mechanism.decode_state(state.encode()).encode() == state.encode()
    again = mechanism.decode_reports(reports.encode())
    assert again.encode() == reports.encode()
    assert mechanism.aggregate(again).encode() == state.encode()
    assert mechanism.randomize(values, from_seed(5)).encode() == reports.encode()


@pytest.mark.parametrize("sampled", [1, 3])
def test_intervals_hold_the_means_of_all_respondents(sampled):
    """Those who did not report an attribute are part of its mean, and of its error."""
    users, runs = 300, 400
    mechanism = SampledAttributes(SURVEY, 12.0, mechanism="pm", sampled=sampled)
    values = survey(users)
    codes = np.stack([domain.encode(values[name]) for name, domain in SURVEY.items()], axis=1)
    truth = {
        name: np.mean(np.array(domain.labels)[codes[:, at]])
        for at, (name, domain) in enumerate(SURVEY.items())
    }
    reports = mechanism.randomize_codes(np.tile(codes, (runs, 1)), from_seed(6))
    inside, squares = 0, []
    for run in range(runs):
        state = mechanism.aggregate(reports[run * users : (run + 1) * users])
        for name, found in mechanism.estimate(state, 0.9).items():
            inside += found.low <= truth[name] <= found.high
            squares.append((found.raw - truth[name]) ** 2 / found.variance)
    assert 0.86 < inside / (3 * runs) < 0.94
    error = np.std(squares, ddof=1) / np.sqrt(3 * runs)
    assert abs(np.mean(squares) - 1) < Z * error
    assert abs(np.mean(squares) * 1.5 - 1) > Z * error


def test_how_many_are_sampled_unless_told():
    for epsilon, sampled in ((1.0, 1), (5.0, 2), (8.0, 3), (15.0, 3)):
        mechanism = SampledAttributes(SURVEY, epsilon)
        assert mechanism.sampled == sampled
        each = next(iter(mechanism.mechanisms.values())).epsilon
        assert Fraction(each) * sampled <= Fraction(epsilon)
    one = SampledAttributes({"a": Floats(0, 1)}, 1.0)
    reports = one.randomize({"a": [0.5] * 9}, from_seed(1))
    assert one.decode_reports(reports.encode()).encode() == reports.encode()


def test_hostile_reports_and_states():
    mechanism = SampledAttributes(SURVEY, 5.0)
    reports = mechanism.randomize(survey(40), from_seed(1))
    chosen, cells = (column.copy() for column in reports.columns)
    twice, high = chosen.copy(), cells.copy()
    twice[3] = 1
    high[3] = max(one.cells for one in mechanism.mechanisms.values()) - 1
    chosen[3] = [0, 1]
    for columns, match in (((twice, cells), "ascending"), ((chosen, high), "cell")):
        with pytest.raises(PeerError, match=match):
            mechanism.decode_reports(mechanism._reports(columns, False).encode())
    state = mechanism.aggregate(reports)
    rng = np.random.default_rng(2)
    for at in range(state.sums.size):
        for value in (-1, 2**62, int(state.sums[at]) + 1000):
            sums = state.sums.copy()
            sums[at] = value
            if value < 0 or value > 2**60 or at == 0:
                with pytest.raises(PeerError):
                    mechanism.decode_state(State(state.digest, 40, sums).encode())
    refused = 0
    for data, read in (
        (reports.encode(), mechanism.decode_reports),
        (state.encode(), mechanism.decode_state),
    ):
        for _ in range(150):
            damaged = bytearray(data)
            damaged[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
            damaged = damaged[: rng.integers(1, 2 * len(data))]
            try:
                assert read(bytes(damaged)).encode() == damaged
            except PeerError:
                refused += 1
    assert refused > 150


def test_descriptions():
    mechanism = SampledAttributes(SURVEY, 5.0, mechanism="pm")
    described = mechanism.describe()
    again = SampledAttributes.from_description(described)
    assert (again.digest, repr(again)) == (mechanism.digest, repr(mechanism))
    turned = SampledAttributes(dict(reversed(SURVEY.items())), 5.0, mechanism="pm")
    assert turned.digest != mechanism.digest
    with pytest.raises(PeerError, match="configuration"):
        mechanism.aggregate(turned.randomize(survey(5), from_seed(1)))
    attributes = described["attributes"]
    for wrong in (
        3,
        {},
        {**described, "more": 1},
        {**described, "mechanism": "pm"},
        {**described, "options": {}},
        {**described, "attributes": 3},
        {**described, "attributes": [{"name": "a"}]},
        {**described, "attributes": [attributes[0], attributes[0]]},
        {**described, "epsilon": 0},
    ):
        with pytest.raises(UsageError):
            SampledAttributes.from_description(wrong)


def test_wrong_arguments():
    for attributes in ({}, 3, {1: Floats(0, 1)}, {"a": Categorical([1, 2])}, {"a": 1}):
        with pytest.raises(UsageError, match="attributes"):
            SampledAttributes(attributes, 1.0)
    for options in (
        {"mechanism": "gaussian"},
        {"mechanism": 3},
        {"sampled": 0},
        {"sampled": 4},
        {"sampled": True},
    ):
        with pytest.raises(UsageError):
            SampledAttributes(SURVEY, 1.0, **options)
    for epsilon in (0, -1, float("nan"), True, "1", None, 800):
        with pytest.raises(UsageError, match="epsilon"):
            SampledAttributes(SURVEY, epsilon)
    mechanism = SampledAttributes(SURVEY, 1.0)
    values = survey(4)
    for wrong in (
        {**values, "more": [1]},
        {"age": [1]},
        3,
        {**values, "age": [1]},
        {**values, "age": [200] * 4},
    ):
        with pytest.raises(UsageError):
            mechanism.randomize(wrong, from_seed(1))
    with pytest.raises(UsageError, match="entropy"):
        mechanism.randomize(values, 3)
    for codes in (3, np.zeros((2, 2), np.uint32), np.zeros((2, 3)), np.full((2, 3), 200)):
        with pytest.raises(UsageError, match="codes"):
            mechanism.randomize_codes(codes)
    with pytest.raises(UsageError, match="no reports"):
        mechanism.estimate(mechanism.empty())
    with pytest.raises(UsageError, match="state"):
        mechanism.estimate(3)
    with pytest.raises(UsageError, match="attribute"):
        mechanism.variance(10, "none")
