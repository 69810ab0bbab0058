"""What every frequency oracle keeps, beside what tests/testing/test_check_mechanism.py holds."""

from __future__ import annotations

import numpy as np
import pytest
from ldp_oracles import (
    Z,
    bias_scores,
    domain,
    frequencies,
    oracle,
    raw_runs,
    skewed,
    variance_score,
)

from privagg.domain import Categorical
from privagg.entropy import OS, from_seed
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import MECHANISMS, FrequencyOracle, Reports, make, mechanism_from
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State

ORACLES = [name for name, kind in MECHANISMS.items() if issubclass(kind, FrequencyOracle)]
EVERY = pytest.mark.parametrize("name", ORACLES)

# Sketches are unbiased over their hash functions, which are fixed here: see their own tests.
UNBIASED = pytest.mark.parametrize(
    "name", [name for name in ORACLES if name not in {"cms", "hcms"}]
)

USERS = 100


@UNBIASED
@pytest.mark.parametrize(
    ("k", "epsilon", "runs"),
    [(2, 0.5, 10_000), (7, 1.0, 4000), pytest.param(11, 3, 4000, marks=pytest.mark.sweep)],
)
def test_unbiased_with_the_variance_of_the_formula(name, k, epsilon, runs):
    """So many runs tell a tenth apart: the mean square of 10,000 normals is within 1.4 %."""
    mechanism = oracle(name, k, epsilon)
    codes = skewed(k, USERS)
    truth = frequencies(codes, k)
    variance = mechanism._variances(USERS, truth, False)
    raw = raw_runs(mechanism, codes, runs, from_seed(20))
    assert np.abs(bias_scores(raw, truth, variance)).max() < Z
    assert abs(variance_score(raw, truth, variance)) < Z
    # The same tests refuse a scale that is a tenth wrong, to either side.
    for wrong in (1.1, 1 / 1.1):
        assert np.abs(bias_scores(raw * wrong, truth, variance * wrong**2)).max() > Z
        assert abs(variance_score(raw, truth, variance * wrong)) > Z


@EVERY
def test_variance_of_a_sample_adds_the_sampling(name):
    mechanism = oracle(name, 5, 1.0)
    for f in (0.0, 0.3, 1.0):
        added = mechanism.variance(10, f, population=True) - mechanism.variance(10, f)
        assert added == pytest.approx(f * (1 - f) / 10, abs=1e-12)
    shaped = mechanism.variance(10, np.array([0.0, 0.5]))
    assert shaped.tolist() == [mechanism.variance(10, 0.0), mechanism.variance(10, 0.5)]
    for n, f in ((0, 0.0), (10, 1.1), (10, -0.1), (10, float("nan")), (True, 0), (10, "x")):
        with pytest.raises(UsageError):
            mechanism.variance(n, f)


@EVERY
@pytest.mark.parametrize("k", [2, 3, 17, 64, 65, 130])
def test_wire_round_trip(name, k):
    mechanism = oracle(name, k, 1.0)
    for n in (0, 1, 9):
        reports = mechanism.randomize_codes(np.arange(n) % k, from_seed(4))
        data = reports.encode()
        assert len(data) - 46 <= np.ceil(n * reports.report_bytes) + 8
        again = mechanism.decode_reports(data)
        assert again.encode() == data
        assert len(again) == n
        for one, other in zip(again.columns, reports.columns, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
        assert mechanism.aggregate(again).encode() == mechanism.aggregate(reports).encode()
    batches = [reports[2:5], reports[5:6]]
    assert Reports.concatenate(batches).encode() == reports[2:6].encode()


@EVERY
def test_wire_fuzz(name):
    """Damaged bytes are refused, or are other reports that encode back to the same bytes."""
    mechanism = oracle(name, 5, 1.0)
    reports = mechanism.randomize_codes(np.arange(20) % 5, from_seed(4))
    rng = np.random.default_rng(1)
    refused = 0
    state = mechanism.aggregate(reports).encode()
    for data, read in (
        (reports.encode(), mechanism.decode_reports),
        (state, mechanism.decode_state),
    ):
        for _ in range(400):
            damaged = bytearray(data)
            match rng.integers(0, 3):
                case 0:
                    damaged[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
                case 1:
                    del damaged[rng.integers(0, len(data)) :]
                case _:
                    damaged += rng.bytes(int(rng.integers(1, 9)))
            try:
                found = read(bytes(damaged))
            except PeerError:
                refused += 1
            else:
                assert found.encode() == damaged
                mechanism.decode_state(
                    (found if isinstance(found, State) else mechanism.aggregate(found)).encode()
                )
    assert refused > 500


@EVERY
def test_other_configurations_are_refused(name):
    mechanism = oracle(name, 5, 1.0)
    others = [
        oracle(name, 6, 1.0),
        oracle(name, 5, 1.25),
        make(name, Categorical(["a", "b", "c", "d", "e"]), 1.0, **mechanism.options),
    ]
    for other in others:
        reports = other.randomize_codes(np.zeros(3, np.uint32), from_seed(1))
        state = other.aggregate(reports)
        for call in (
            lambda reports=reports: mechanism.aggregate(reports),
            lambda reports=reports: mechanism.decode_reports(reports.encode()),
            lambda state=state: mechanism.decode_state(state.encode()),
            lambda state=state: mechanism.estimate(state),
            lambda state=state: mechanism.empty() + state,
        ):
            with pytest.raises(PeerError, match="configuration"):
                call()


@EVERY
def test_digest_is_the_configuration(name):
    mechanism = oracle(name, 5, 1.0)
    again = mechanism_from(mechanism.describe())
    assert again.digest == mechanism.digest
    assert again.describe() == mechanism.describe()
    assert repr(again) == repr(mechanism)


@EVERY
def test_seeds_repeat_a_run_and_the_system_does_not(name):
    mechanism = oracle(name, 9, 1.0)
    codes = skewed(9, 500)
    codes.flags.writeable = False
    before = codes.copy()
    first = mechanism.randomize_codes(codes, from_seed(7))
    assert first.encode() == mechanism.randomize_codes(codes, from_seed(7)).encode()
    assert first.encode() != mechanism.randomize_codes(codes, from_seed(8)).encode()
    source = from_seed(7)
    mechanism.randomize_codes(codes, source)
    assert first.encode() != mechanism.randomize_codes(codes, source).encode()
    fresh = mechanism.randomize_codes(codes)
    assert fresh.encode() != mechanism.randomize_codes(codes, OS).encode()
    assert (first.insecure, fresh.insecure) == (True, False)
    assert mechanism.estimate(mechanism.aggregate(first)).insecure
    assert not mechanism.estimate(mechanism.aggregate(fresh)).insecure
    assert np.array_equal(codes, before)


@EVERY
def test_aggregation_changes_no_report(name):
    mechanism = oracle(name, 9, 1.0)
    reports = mechanism.randomize_codes(skewed(9, 100), from_seed(7))
    before = reports.encode()
    state = mechanism.aggregate(reports)
    sums = state.sums.copy()
    mechanism.estimate(state)
    assert reports.encode() == before
    assert np.array_equal(state.sums, sums)


@EVERY
def test_values_go_through_the_declared_domain(name):
    asked = Categorical(["a", "b"], unknown="other")
    mechanism = MECHANISMS[name](asked, 1.0)
    assert mechanism.k == 3
    reports = mechanism.randomize(["a", None, "z"], from_seed(1))
    coded = mechanism.randomize_codes(np.array([0, 2, 2]), from_seed(1))
    assert reports.encode() == coded.encode()
    found = mechanism.estimate(mechanism.aggregate(reports))
    assert [row["value"] for row in found.rows()] == ["a", "b", "OTHER"]
    strict = MECHANISMS[name](Categorical(["a", "b"]), 1.0)
    with pytest.raises(UsageError, match="not declared"):
        strict.randomize(["a", "c"])


@EVERY
def test_realised_epsilon_is_below_the_stated_one_and_near_it(name):
    for k in (2, 5, 100):
        for epsilon in (0.01, 0.5, 1.0, np.log(3), 4, 8.0):
            mechanism = oracle(name, k, epsilon)
            assert 0 < mechanism.epsilon_realised <= epsilon
            if name not in {"the"}:  # its bits say less than epsilon allows
                assert mechanism.epsilon_realised > 0.999 * epsilon
            assert all(type(count) is int and count > 0 for count in mechanism.thresholds.values())


@EVERY
@pytest.mark.parametrize(
    "epsilon", [0, -1, float("nan"), float("inf"), True, "1", None, 800, 1e308, 10**400, 1e-300]
)
def test_epsilon_that_cannot_be(name, epsilon):
    with pytest.raises(UsageError) as caught:
        oracle(name, 5, epsilon)
    assert caught.value.argument == "epsilon"


@EVERY
def test_wrong_arguments(name):
    mechanism = oracle(name, 5, 1.0)
    with pytest.raises(UsageError, match="declared domain"):
        MECHANISMS[name](5, 1.0)
    late = np.zeros(70_000, np.uint32)
    late[-1] = 5
    for codes in (
        [0, 1],
        late,
        np.array([5]),
        np.array([-1]),
        np.array([0.5]),
        np.array([[0]]),
        None,
    ):
        with pytest.raises(UsageError, match="codes"):
            mechanism.randomize_codes(codes)
    with pytest.raises(UsageError, match="entropy"):
        mechanism.randomize_codes(np.array([0]), 3)
    with pytest.raises(UsageError, match="reports"):
        mechanism.aggregate(b"")
    with pytest.raises(UsageError, match="no reports"):
        mechanism.estimate(mechanism.empty())
    state = mechanism.aggregate(mechanism.randomize_codes(np.array([0])))
    for options in (
        {"confidence": 0},
        {"confidence": 1.0},
        {"confidence": True},
        {"confidence": "0.9"},
        {"post": "normsub"},
        {"post": 3},
    ):
        with pytest.raises(UsageError):
            mechanism.estimate(state, **options)
    with pytest.raises(UsageError, match="state"):
        mechanism.estimate(3)
    with pytest.raises(UsageError, match="slice"):
        mechanism.randomize_codes(np.array([0]))[0]


@EVERY
def test_the_guarantee_says_adjacency_and_nothing_shows_values(name):
    mechanism = oracle(name, 5, 1.0)
    assert "adjacency: one respondent's value" in mechanism.guarantee
    reports = mechanism.randomize_codes(np.array([3, 1]))
    shown = repr(reports) + repr(mechanism.aggregate(reports))
    assert "array" not in shown


def test_a_hostile_count_allocates_nothing():
    layout = (Column("value", 3, limit=5),)
    header = b"PALR\x01\x00" + bytes(32)
    with pytest.raises(PeerError, match="too few"):
        Reports.decode(header + (2**63).to_bytes(8, "little"), bytes(32), layout)
    with pytest.raises(PeerError, match="version"):
        Reports.decode(b"PALR\x02\x00" + bytes(40), bytes(32), layout)
    with pytest.raises(PeerError, match="flags"):
        Reports.decode(b"PALR\x01\x02" + bytes(40), bytes(32), layout)
    data = header + (1).to_bytes(8, "little") + b"\x05"
    with pytest.raises(PeerError, match="a number of 5"):
        Reports.decode(data, bytes(32), layout)
    with pytest.raises(UsageError):
        Reports.concatenate([])


def test_names_and_options():
    with pytest.raises(UsageError, match="mechanism"):
        oracle("none", 5, 1.0)
    with pytest.raises(UsageError, match=r"options\.g"):
        oracle("grr", 5, 1.0, g=3)
    described = oracle("grr", 5, 1.0).describe()
    for wrong in (
        {},
        3,
        {**described, "epsilon": 0},
        {**described, "extra": 0},
        {**described, "options": 3},
        {**described, "options": {"g": 3}},
        {**described, "mechanism": "x"},
        {**described, "domain": {"kind": "x"}},
    ):
        with pytest.raises(UsageError):
            mechanism_from(wrong)
    assert domain(3).size == 3
