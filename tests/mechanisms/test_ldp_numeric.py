"""What every mechanism on a range of numbers keeps: exact epsilon, no bias, its variance, wire."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ldp_oracles import Z

from privagg.domain import Categorical, Floats, Integers
from privagg.entropy import OS, from_seed
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import MECHANISMS, NumericMechanism, make, mechanism_from
from privagg.mechanisms.exact import exp_lower
from privagg.mechanisms.state import State

NAMES = [name for name, kind in MECHANISMS.items() if issubclass(kind, NumericMechanism)]
EVERY = pytest.mark.parametrize("name", NAMES)
PURE = pytest.mark.parametrize("name", [name for name in NAMES if name != "gaussian"])


def moments(mechanism):
    """Return mean and variance of a report's estimate of t for each code, from the whole table."""
    found = []
    for row in mechanism.probabilities():
        estimates = per_report(mechanism, len(row))
        mean = sum(p * u for p, u in zip(row, estimates, strict=True))
        square = sum(p * u * u for p, u in zip(row, estimates, strict=True))
        found.append((mean, square - mean * mean))
    return found


def per_report(mechanism, cells):
    """Return the estimate of t that each single report gives, as the aggregator makes it."""
    found = []
    for cell in range(cells):
        sums = mechanism._sums((np.array([cell], mechanism.layout[0].dtype),))
        found.append(mechanism._moments(State(mechanism.digest, 1, sums))[0])
    return found


def test_names():
    assert set(NAMES) == {"laplace", "duchi", "pm", "hybrid", "gaussian", "sw"}


@PURE
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.2, 0.61, 1.0, 3.0])
def test_epsilon_by_enumeration(name, steps, epsilon):
    """All reports under all values; the largest ratio is the stated one, to the last count."""
    mechanism = make(name, Floats(0, 1, steps=steps), epsilon)
    table = mechanism.probabilities()
    assert [sum(row) for row in table] == [1] * (steps + 1)
    assert {len(row) for row in table} == {mechanism.cells}
    worst = max(max(column) / min(column) for column in zip(*table, strict=True))
    assert worst == mechanism.ratio
    assert worst <= exp_lower(epsilon)
    assert 0.999 * epsilon < mechanism.epsilon_realised <= epsilon


@EVERY
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.61, 1.0, 3.0])
def test_no_bias_and_the_closed_variance_by_enumeration(name, steps, epsilon):
    """Exactly unbiased, but for the cut-off of added noise; the variance is a float's rounding."""
    mechanism = make(name, Floats(-1, 1, steps=steps), epsilon)
    for code, (mean, variance) in enumerate(moments(mechanism)):
        t = Fraction(2 * code, steps) - 1
        if name in ("laplace", "gaussian"):
            assert abs(mean - t) < 1e-8 / epsilon
        else:
            assert mean == t
        assert mechanism.variance(1, float(t)) == pytest.approx(float(variance), rel=1e-6)
        assert mechanism.variance(1) >= float(variance) * (1 - 1e-6)
    ends = mechanism.variance(1, np.array([-1.0, 0.0, 1.0]))
    assert mechanism.variance(1) == pytest.approx(ends.max())
    assert mechanism.variance(10, 1) == pytest.approx(ends[2] / 10)


@EVERY
@pytest.mark.parametrize(("steps", "epsilon"), [(1, 0.5), (4, 1.0), (64, 2.5)])
def test_runs_have_that_mean_and_variance(name, steps, epsilon):
    """The sampler makes what the table says: so many runs tell a tenth in the scale apart."""
    users, runs = 40, 10_000
    mechanism = make(name, Floats(-1, 1, steps=steps), epsilon)
    codes = np.arange(users, dtype=np.uint32) * 7 % (steps + 1)
    codes[: users // 3] = steps  # a mean that is not 0
    t = 2 * codes / steps - 1
    reports = mechanism.randomize_codes(np.tile(codes, runs), from_seed(31))
    table = np.array([float(u) for u in per_report(mechanism, mechanism.cells)])
    raw = table[reports.columns[0]].reshape(runs, users).mean(axis=1)
    variance = mechanism.variance(1, t).sum() / users**2
    for scale, accepted in ((1.0, True), (1.1, False), (1 / 1.1, False)):
        error = (raw * scale - t.mean()) ** 2 / variance
        score = (error.mean() - 1) / (error.std(ddof=1) / np.sqrt(runs))
        assert bool(abs(score) < Z) is accepted
    assert abs(raw.mean() - t.mean()) < Z * np.sqrt(variance / runs)
    state = mechanism.aggregate(reports[:users])
    assert mechanism.estimate(state).raw == pytest.approx(raw[0])


@EVERY
def test_the_sampler_follows_the_table(name):
    mechanism = make(name, Floats(0, 1, steps=3), 1.0)
    table = np.array([[float(p) for p in row] for row in mechanism.probabilities()])
    for code in range(4):
        drawn = mechanism.randomize_codes(np.full(60_000, code), from_seed(code)).columns[0]
        seen = np.bincount(drawn, minlength=mechanism.cells)
        for held in range(4):
            expected = table[held] * 60_000
            spread = np.sqrt(expected.clip(1))
            far = np.abs(np.cumsum(seen - expected)).max() / np.sqrt(60_000)
            # Kolmogorov: 2.5 is passed once in 250,000 tests.
            assert bool(far < 2.5) is (held == code)
            assert held != code or (np.abs(seen - expected) / spread).max() < 7


@EVERY
@pytest.mark.parametrize("population", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(name, population):
    users, runs = 300, 500
    mechanism = make(name, Floats(10, 30, steps=40), 1.5)
    rng = np.random.default_rng(3)
    values = rng.beta(6, 2, (runs, users)) * 20 + 10
    if not population:
        values[:] = values[0]
    truth = 25.0 if population else values[0].mean()
    reports = mechanism.randomize(values.reshape(-1), from_seed(8))
    inside = 0
    for run in range(runs):
        state = mechanism.aggregate(reports[run * users : (run + 1) * users])
        found = mechanism.estimate(state, 0.9, population=population)
        inside += found.low <= truth <= found.high
        assert found.low < found.raw < found.high
        assert 10 <= found.value <= 30
    # 4 standard deviations of 500 runs. Duchi's interval is wider than need be for a mechanism's
    # own noise, by the variance of the values.
    assert 0.846 < inside / runs < (0.99 if name in {"duchi", "hybrid"} else 0.954)


@EVERY
def test_merging_wire_and_digest(name):
    mechanism = make(name, Integers(-3, 9), 1.0)
    codes = np.arange(1001) % 13
    codes.flags.writeable = False
    reports = mechanism.randomize_codes(codes, from_seed(2))
    state = mechanism.aggregate(reports)
    parts = [mechanism.aggregate(reports[a : a + 77]) for a in range(0, 1001, 77)]
    assert (sum(parts) + mechanism.empty()).encode() == state.encode()
    assert mechanism.decode_state(state.encode()).encode() == state.encode()
    again = mechanism.decode_reports(reports.encode())
    assert again.encode() == reports.encode()
    assert len(reports.encode()) - 46 <= np.ceil(1001 * reports.report_bytes) + 8
    assert mechanism.decode_reports(reports[:0].encode()).encode() == reports[:0].encode()
    built = mechanism_from(mechanism.describe())
    assert (built.digest, repr(built)) == (mechanism.digest, repr(mechanism))
    assert all(type(count) is int and count >= 0 for count in mechanism.thresholds.values())
    assert "array" not in repr(reports) + repr(state)
    assert "adjacency: one respondent's value" in mechanism.guarantee


@EVERY
def test_wire_fuzz(name):
    """Damaged bytes are refused, or are other reports that encode back to the same bytes."""
    mechanism = make(name, Integers(0, 4), 1.0)
    reports = mechanism.randomize_codes(np.arange(20) % 5, from_seed(4))
    state = mechanism.aggregate(reports).encode()
    rng = np.random.default_rng(1)
    refused = 0
    for data, read in (
        (reports.encode(), mechanism.decode_reports),
        (state, mechanism.decode_state),
    ):
        for turn in range(150):
            damaged = bytearray(data)
            if turn % 3 == 0:
                damaged[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
            elif turn % 3 == 1:
                del damaged[rng.integers(0, len(data)) :]
            else:
                damaged += rng.bytes(int(rng.integers(1, 9)))
            try:
                found = read(bytes(damaged))
            except PeerError:
                refused += 1
                continue
            assert found.encode() == damaged
            held = found if isinstance(found, State) else mechanism.aggregate(found)
            again = mechanism.decode_state(held.encode())
            assert np.isfinite(mechanism.estimate(again).variance)
    assert refused > 200


@EVERY
def test_sums_that_no_reports_have(name):
    mechanism = make(name, Integers(0, 4), 1.0)
    state = mechanism.aggregate(mechanism.randomize_codes(np.arange(50) % 5, from_seed(4)))
    size = mechanism.sums_size
    for at in range(size):
        for value in (-1, 2**62, -(2**63)):
            sums = state.sums.copy()
            sums[at] = value
            with pytest.raises(PeerError):
                mechanism.decode_state(State(state.digest, 50, sums).encode())
    for users, sums in ((0, np.ones(size)), (50, np.full(size, -1)), (1, np.full(size, 2**40))):
        with pytest.raises(PeerError):
            mechanism.decode_state(State(state.digest, users, sums.astype(np.int64)).encode())
    with pytest.raises(PeerError):
        mechanism.decode_state(State(state.digest, 50, state.sums[:-1]).encode())


@EVERY
def test_other_configurations_are_refused(name):
    mechanism = make(name, Floats(0, 1, steps=4), 1.0)
    for other in (
        make(name, Floats(0, 1, steps=5), 1.0),
        make(name, Floats(0, 1, steps=4), 1.25),
        make(name, Floats(0, 2, steps=4), 1.0),
        make("grr", Categorical(range(5)), 1.0),
    ):
        reports = other.randomize_codes(np.zeros(3, np.uint32), from_seed(1))
        state = other.aggregate(reports)
        for call in (
            lambda reports=reports: mechanism.aggregate(reports),
            lambda reports=reports: mechanism.decode_reports(reports.encode()),
            lambda state=state: mechanism.decode_state(state.encode()),
            lambda state=state: mechanism.estimate(state),
        ):
            with pytest.raises(PeerError, match="configuration"):
                call()


@EVERY
def test_seeds_repeat_a_run_and_the_system_does_not(name):
    mechanism = make(name, Floats(0, 1, steps=4), 1.0)
    values = np.linspace(0, 1, 500)
    values.flags.writeable = False
    first = mechanism.randomize(values, from_seed(7))
    assert first.encode() == mechanism.randomize(values, from_seed(7)).encode()
    assert first.encode() != mechanism.randomize(values, from_seed(8)).encode()
    fresh = mechanism.randomize(values)
    assert fresh.encode() != mechanism.randomize(values, OS).encode()
    assert (first.insecure, fresh.insecure) == (True, False)
    assert mechanism.estimate(mechanism.aggregate(first)).insecure


@EVERY
def test_values_between_the_points_are_right_on_average(name):
    """Nearest rounding of 0.3 to a grid of 0 and 1 would give 0."""
    mechanism = make(name, Floats(0, 1, steps=1), 2.0)
    n = 40_000
    found = mechanism.estimate(mechanism.aggregate(mechanism.randomize([0.3] * n, from_seed(1))))
    spread = np.sqrt(mechanism.variance(n) + 0.25 / n)
    assert abs(found.raw - 0.3) < Z * spread
    assert abs(found.raw) > Z * spread
    clipping = make(name, Floats(0, 1, steps=4, unknown="clip"), 2.0)
    low = clipping.randomize([-5, 0], from_seed(1)).encode()
    assert low == clipping.randomize([0.0, -0.1], from_seed(1)).encode()


@EVERY
@pytest.mark.parametrize(
    "epsilon", [0, -1, float("nan"), float("inf"), True, "1", None, 800, 10**400, 1e-300]
)
def test_epsilon_that_cannot_be(name, epsilon):
    with pytest.raises(UsageError) as caught:
        make(name, Floats(0, 1, steps=4), epsilon)
    assert caught.value.argument == "epsilon"


@EVERY
def test_wrong_arguments(name):
    mechanism = make(name, Floats(0, 1, steps=4), 1.0)
    for domain in (Categorical([1, 2]), 5):
        with pytest.raises(UsageError, match="domain"):
            make(name, domain, 1.0)
    for values in ([2.0], [float("nan")], [None], ["a"], [True], 3):
        with pytest.raises(UsageError):
            mechanism.randomize(values, from_seed(1))
    with pytest.raises(UsageError, match="entropy"):
        mechanism.randomize([0.5], 3)
    with pytest.raises(UsageError, match="no reports"):
        mechanism.estimate(mechanism.empty())
    with pytest.raises(UsageError, match="state"):
        mechanism.estimate(3)
    state = mechanism.aggregate(mechanism.randomize([0.5, 1], from_seed(1)))
    for confidence in (0, 1.0, True, "0.9"):
        with pytest.raises(UsageError, match="confidence"):
            mechanism.estimate(state, confidence)
    for n, value in ((0, 0), (True, 0), (1, -0.1), (1, 1.1), (1, float("nan")), (1, "x")):
        with pytest.raises(UsageError):
            mechanism.variance(n, value)
    assert mechanism.estimate(state).rows()[0]["value"] == "mean"


def test_a_domain_too_large_says_what_works():
    for name in ("laplace", "gaussian", "pm", "sw"):
        with pytest.raises(UsageError, match="steps=") as caught:
            make(name, Floats(0, 1, steps=2**23), 1.0)
        steps = int(caught.value.hint.split("steps=")[1].split()[0])
        make(name, Floats(0, 1, steps=steps // 16), 1.0)
    assert make("duchi", Integers(0, 2**24 - 2), 1.0).epsilon_realised > 0.999
