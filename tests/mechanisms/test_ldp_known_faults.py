"""Mistakes that are easily made in local differential privacy: each has a test here or where named.

| mistake | test |
| --- | --- |
| a lie is drawn from all values, the true one included | `test_ldp_exact`, every word of 8 bits |
| the true bit of unary encoding is always kept | `test_ldp_unary`, reports and enumeration |
| a wrong q of OUE, a scale upside down | `test_ldp_unary`, `test_ldp_numeric`: closed forms |
| noise on floats leaks its low bits | `test_ldp_channel`: noise is a count of words |
| probabilities that underflow | `test_ldp_exponential`, utilities far apart |
| epsilon 0, negative, NaN or 800; one value | `test_ldp_oracles`, `test_domain` |
| seeds that do not repeat | `test_ldp_oracles`; below, no generator of others |
| reports that are changed by counting | `test_ldp_oracles`, aggregation changes no report |
| no check that both sides mean the same survey | `test_ldp_oracles`, other configurations |
| only powers of two | `test_ldp_hadamard`, any number of values |
| NaN or zeros where nothing is left after clipping | `test_ldp_postprocess`; below, full sums |
| tuples with too few values; kilobytes per respondent; epsilon of whole tuples | `tests/multidim` |
| index -1 is the last value, 0 is the one before the first | below |
| numbers of NumPy are no numbers | below |
"""

from __future__ import annotations

import random
from statistics import NormalDist

import numpy as np
import pytest
from ldp_oracles import Z, oracle, raw_runs

from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import LocalHashing, RandomizedResponse, State, make
from privagg.protocols import multidim

PURE = ["grr", "sue", "oue", "ue", "blh", "olh", "lh", "ss", "hr", "pgr", "she", "the", "rr"]


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("at", [0, 4])
def test_the_first_and_the_last_value_are_themselves(name, at):
    """With hardly any noise the estimate shows which value was meant."""
    one = oracle(name, 5, 6.0)
    for values in (["v0", "v4"][at // 4 : at // 4 + 1] * 3000, None):
        codes = np.full(3000, at, np.int8)
        reports = one.randomize(values, from_seed(1)) if values else one.randomize_codes(codes)
        raw = one.estimate(one.aggregate(reports), post=None).raw
        assert raw.dtype == np.float64
        assert raw.argmax() == at
        assert raw[at] == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("name", PURE)
def test_no_index_out_of_range_is_some_value(name):
    one = oracle(name, 5, 1.0)
    for wrong in (-1, -5, 5, 99, 2**40):
        with pytest.raises(UsageError, match="out of range"):
            one.randomize_codes(np.array([0, wrong]))
    for wrong in ("v5", "", None, "V0"):
        with pytest.raises(UsageError, match="missing or not declared"):
            one.randomize(["v0", wrong])


@pytest.mark.parametrize("name", [*PURE, "cms", "hcms"])
def test_no_generator_of_others_is_used(name, monkeypatch):
    one = oracle(name, 5, 1.0)

    def forbidden(*_args, **_options):
        raise AssertionError("another generator was used")

    for generator in (random, np.random):
        for call in ("random", "seed", "randint", "shuffle", "choice"):
            monkeypatch.setattr(generator, call, forbidden)
    monkeypatch.setattr(np.random, "default_rng", forbidden)
    made = [one.randomize_codes(np.zeros(200, np.uint32), from_seed(8)) for _ in range(2)]
    assert made[0].encode() == made[1].encode()
    system = {one.randomize_codes(np.zeros(200, np.uint32)).encode() for _ in range(2)}
    assert len(system) == 2


def test_numbers_of_numpy_are_numbers():
    labels = np.arange(np.int64(4))
    plain, other = Categorical(range(4)), Categorical(labels)
    assert plain == other
    assert make("grr", other, np.float64(1)).digest == make("grr", plain, 1).digest
    assert LocalHashing(other, 1.0, g=np.int64(3)).digest == LocalHashing(plain, 1.0, g=3).digest
    assert (
        make("hr", other, 1.0, blocks=np.uint8(2)).digest == make("hr", plain, 1, blocks=2).digest
    )
    assert make("oue", plain, 1.0).variance(np.int32(10)) == make("oue", plain, 1).variance(10)


@pytest.mark.parametrize("name", [*PURE, "cms", "hcms"])
@pytest.mark.parametrize("post", ["norm-sub", "clip", "base-cut", "norm-cut", None])
def test_sums_that_are_empty_or_full_give_numbers(name, post):
    one = oracle(name, 5, 1.0)
    for sums in (np.zeros(one.sums_size, np.int64), np.full(one.sums_size, 9)):
        found = one.estimate(State(one.digest, 9, sums), post=post)
        for numbers in (found.raw, found.values, found.variance, found.low, found.high):
            assert np.isfinite(numbers).all()
        if post not in (None, "base-cut"):
            assert found.values.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", [*PURE, "cms", "hcms"])
def test_sums_of_another_shape_are_refused(name):
    one = oracle(name, 5, 1.0)
    for wrong in (None, [1, 2], np.zeros(5), np.zeros((5, 1), np.int64)):
        with pytest.raises(UsageError, match="sums"):
            State(one.digest, 1, wrong)
    more = State(one.digest, 1, np.zeros(one.sums_size + 1, np.int64))
    with pytest.raises(UsageError, match="sums"):
        one.estimate(more)
    with pytest.raises(UsageError, match="sums"):
        one.empty() + more


@pytest.mark.parametrize("frequency", [[[0.1], [0.2, 0.3]], [None], "x", True, [2.0]])
def test_frequencies_that_are_none(frequency):
    with pytest.raises(UsageError, match="frequency"):
        oracle("grr", 5, 1.0).variance(10, frequency)


@pytest.mark.parametrize("table", [[[0.5, 0.5], [0.1]], "ab", 3, [[0.5, 0.5]], [["a", "b"]] * 2])
def test_tables_of_odd_shapes(table):
    with pytest.raises(UsageError, match="table"):
        RandomizedResponse(Categorical([False, True]), 1.0, table)


def test_attributes_are_counted_from_zero_up():
    domains = {"a": Categorical(range(2)), "b": Categorical(range(5))}
    params = multidim.Params(attributes=domains, epsilon=1.0)
    for wrong in (-1, 2, True, None, "a", 0.0):
        with pytest.raises(UsageError, match="attribute"):
            multidim.variance(params, wrong, 10)
    for wrong in ([0.1] * 3, [[0.5, 0.5]], [0.1, 2.0]):
        with pytest.raises(UsageError, match="frequenc"):
            multidim.variance(params, 0, 10, wrong)
    for wrong in (None, [], [np.full(2, 0.5)], [np.full(2, 0.5), np.full(4, 0.25)]):
        with pytest.raises(UsageError, match="frequencies"):
            multidim.mse_theory(params, 10, wrong)


@pytest.mark.parametrize("name", [*PURE, "dbitflip", "l-grr", "l-osue", "l-sue", "loloha"])
def test_the_variance_of_a_value_that_everybody_has(name):
    """At frequency 1 all of the variance is the own term's; 10 % of it tell."""
    users, runs = 40, 6000
    one = oracle(name, 3, 1.5)
    raw = raw_runs(one, np.zeros(users, np.uint32), runs, from_seed(3))[:, 0]
    square = (raw - 1) ** 2 / one._variances(users, np.array([1.0, 0.0, 0.0]), False)[0]
    error = square.std(ddof=1) / np.sqrt(runs)
    assert abs(square.mean() - 1) < Z * error < 0.1


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_intervals_reach_as_far_as_they_say(confidence):
    """In standard deviations of the closed form, of one oracle and of a survey."""
    factor = NormalDist().inv_cdf((1 + confidence) / 2)
    one = oracle("oue", 5, 1.0)
    found = one.estimate(one.aggregate(one.randomize(["v0"] * 99)), confidence)
    assert found.high - found.raw == pytest.approx(factor * found.variance**0.5)
    assert found.raw - found.low == pytest.approx(factor * found.variance**0.5)
    assert found.variance[4] == pytest.approx(one.variance(99, found.values[4]))
    domains = {"a": Categorical(range(2)), "b": Categorical(range(5))}
    for protocol in ("spl", "smp", "rs+fd"):
        params = multidim.Params(attributes=domains, epsilon=1.0, protocol=protocol)
        reports = multidim.randomize(params, {"a": [0] * 99, "b": [3] * 99})
        aggregator = multidim.Aggregator(params)
        aggregator.receive(reports)
        for at, each in enumerate(aggregator.estimate(confidence).values()):
            held = reports.counts[at] if protocol == "smp" else None
            near = np.clip(each.raw, 0, 1)
            variance = multidim.variance(params, at, 99, near, reports=held)
            assert each.variance == pytest.approx(variance)
            assert each.high - each.raw == pytest.approx(factor * variance**0.5)
            assert each.raw - each.low == pytest.approx(factor * variance**0.5)
