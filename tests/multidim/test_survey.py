"""Respondents and aggregators: unbiased, of the stated variance, on the wire, merged, refused."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest
from surveys import attributes, distribution, leaning, outputs, survey

from privagg.accounting import Ledger
from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.mechanisms.state import State
from privagg.protocols.multidim import (
    ORACLES,
    Aggregator,
    Params,
    Protocol,
    Respondent,
    TupleReports,
    kernels,
    mse_theory,
    randomize_codes,
    report_bytes,
    respondent,
    run,
    variance,
)
from privagg.protocols.multidim.estimation import raw_estimates
from privagg.protocols.multidim.layout import row_layout

Z = 4.5
SIZES = (3, 12, 70)
EVERY = [("spl", "adp"), ("spl", "olh"), ("smp", "adp"), ("smp", "ss"), ("smp", "hr")]
EVERY += [("rs+fd", name) for name in ORACLES[Protocol.RSFD]]
EVERY += [("rs+rfd", name) for name in ORACLES[Protocol.RSRFD]]
FAKED = EVERY[5:]


def make(protocol, oracle, epsilon=1.0, sizes=SIZES, calibration="published"):
    priors = {"priors": leaning(*sizes)} if protocol == "rs+rfd" else {}
    return survey(
        sizes, epsilon, protocol=protocol, oracle=oracle, calibration=calibration, **priors
    )


def people(sizes, n, seed=0):
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.geometric(0.3, n) - 1, k - 1).astype(np.uint32) for k in sizes]


def truth(codes, sizes):
    return [np.bincount(c, minlength=k) / c.size for c, k in zip(codes, sizes, strict=True)]


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_unbiased_and_of_the_stated_variance(protocol, oracle):
    """Z-tests of mean and of mean squared error; the second fails for variances a tenth off."""
    params, n, runs = make(protocol, oracle), 1000, 700
    codes = people(SIZES, n)
    right = truth(codes, SIZES)
    source = from_seed(4)
    raws = []
    for number in range(runs):
        aggregator = Aggregator(params)
        aggregator.receive(randomize_codes(params, codes, source.spawn(f"{number}")))
        raws.append(raw_estimates(params, aggregator.state))
    for at in range(params.d):
        raw = np.stack([one[at] for one in raws])
        spread = variance(params, at, n, right[at])
        score = (raw.mean(axis=0) - right[at]) / np.sqrt(spread / runs)
        assert np.abs(score).max() < Z
        each = ((raw - right[at]) ** 2 / spread).mean(axis=1)
        off = (each.mean() - 1) / (each.std(ddof=1) / np.sqrt(runs))
        assert abs(off) < Z
    every = np.concatenate(
        [
            (np.stack([one[at] for one in raws]) - right[at]) ** 2
            / variance(params, at, n, right[at])
            for at in range(params.d)
        ],
        axis=1,
    ).mean(axis=1)
    error = every.std(ddof=1) / np.sqrt(runs)
    assert 2 * Z * error < 0.1, "the test would accept a variance a tenth off"


@pytest.mark.parametrize(("protocol", "oracle"), FAKED)
def test_reports_have_the_enumerated_distribution(protocol, oracle):
    """Chi-square over all reports of one tuple; it fails under a neighbouring epsilon."""
    sizes, n = (2, 3), 200_000
    params = make(protocol, oracle, 1.5, sizes)
    codes = [np.full(n, 1, np.uint32), np.full(n, 2, np.uint32)]
    rows = randomize_codes(params, codes, from_seed(9)).groups[0][0]
    layout = row_layout(params)
    index = np.zeros(n, np.int64)
    for offset, field in zip(layout.offsets, params.fields, strict=True):
        number = kernels.codes_of(rows, offset, field.width).astype(np.int64)
        if field.split is None:
            # outputs() lists the bits with the first value's as the most significant.
            number = sum((number >> at & 1) << (field.k - 1 - at) for at in range(field.k))
        index = index * len(outputs(field)) + number
    for stated, accepted in ((1.5, True), (1.8, False)):
        other = make(protocol, oracle, stated, sizes)
        if other.oracles != params.oracles:
            continue
        expected = np.array([float(p) for p in distribution(other)[1, 2]]) * n
        observed = np.bincount(index, minlength=expected.size)
        statistic = ((observed - expected) ** 2 / expected).sum()
        freedom = expected.size - 1
        assert (
            (statistic < freedom + Z * np.sqrt(2 * freedom) + 10) is np.True_
            if accepted
            else (statistic > freedom + Z * np.sqrt(2 * freedom) + 10)
        )


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_wire_round_trip(protocol, oracle):
    params = make(protocol, oracle)
    codes = people(SIZES, 300)
    reports = randomize_codes(params, codes, from_seed(1))
    data = reports.encode()
    again = TupleReports.decode(data, params)
    assert again.encode() == data
    assert len(again) == 300
    assert again.insecure
    first, second = Aggregator(params), Aggregator(params)
    first.receive(reports)
    second.receive(data)
    assert np.array_equal(first.state.sums, second.state.sums)
    header = 38 + 8 * len(reports.groups)
    number = (params.d - 1).bit_length() / 8 if protocol == "smp" else 0
    mean = (len(data) - header) / 300
    assert mean == pytest.approx(report_bytes(params) - number, rel=0.2, abs=0.05)
    if protocol != "smp":  # each column is filled up to whole bytes
        assert 0 <= len(data) - header - 300 * report_bytes(params) < 8


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_merging_is_a_single_pass(protocol, oracle):
    params = make(protocol, oracle)
    codes = people(SIZES, 600)
    parts = [[c[s] for c in codes] for s in (slice(0, 100), slice(100, 101), slice(101, 600))]
    batches = [randomize_codes(params, part, from_seed(at)) for at, part in enumerate(parts)]
    whole = Aggregator(params)
    whole.receive(TupleReports.concatenate(batches))
    merged = Aggregator(params)
    for batch in batches:
        own = Aggregator(params)
        own.receive(batch)
        merged.merge(Aggregator.load_state(params, own.dump_state()).state)
    assert merged.dump_state() == whole.dump_state()
    assert merged.users == 600
    for name, found in whole.estimate().items():
        assert found.values.sum() == pytest.approx(1)
        assert np.array_equal(found.raw, merged.estimate()[name].raw)


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_seeds_repeat_a_run_and_nothing_is_changed(protocol, oracle):
    params = make(protocol, oracle)
    codes = people(SIZES, 200)
    copies = [c.copy() for c in codes]
    first = randomize_codes(params, codes, from_seed(5)).encode()
    assert randomize_codes(params, codes, from_seed(5)).encode() == first
    assert randomize_codes(params, codes, from_seed(6)).encode() != first
    assert randomize_codes(params, codes).encode() != first
    assert all(np.array_equal(a, b) for a, b in zip(codes, copies, strict=True))


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_hostile_bytes(protocol, oracle):
    params = make(protocol, oracle)
    reports = randomize_codes(params, people(SIZES, 40), from_seed(2))
    data = reports.encode()
    rng = np.random.default_rng(0)
    for cut in [0, 1, 5, 37, 45, len(data) - 1]:
        with pytest.raises(PeerError):
            Aggregator(params).receive(data[:cut], peer="r7")
    with pytest.raises(PeerError, match="r7"):
        Aggregator(params).receive(data + b"\0", peer="r7")
    for _ in range(150):
        spoiled = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            spoiled[at] = rng.integers(0, 256)
        aggregator = Aggregator(params)
        try:
            aggregator.receive(bytes(spoiled))
        except PeerError:
            assert aggregator.users == 0
        else:
            assert aggregator.users == 40


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_other_surveys_are_refused(protocol, oracle):
    params, other = make(protocol, oracle), make(protocol, oracle, 1.01)
    reports = randomize_codes(params, people(SIZES, 30))
    for message in (reports, reports.encode()):
        with pytest.raises(PeerError):
            Aggregator(other).receive(message)
    own = Aggregator(params)
    own.receive(reports)
    with pytest.raises(PeerError):
        Aggregator(other).merge(own.state)
    with pytest.raises(PeerError):
        Aggregator.load_state(other, own.dump_state())
    with pytest.raises(PeerError):
        TupleReports.concatenate([reports, randomize_codes(other, people(SIZES, 3))])


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_a_description_builds_the_same_survey(protocol, oracle):
    params = make(protocol, oracle, calibration="attribute")
    same = Params.from_description(json.loads(json.dumps(params.describe())))
    assert same.digest == params.digest
    assert same.epsilon_local == params.epsilon_local
    with pytest.raises(UsageError):
        Params.from_description({"protocol": "smp"})


@pytest.mark.parametrize(("protocol", "oracle"), EVERY)
def test_impossible_sums_are_refused(protocol, oracle):
    params = make(protocol, oracle)
    own = Aggregator(params)
    own.receive(randomize_codes(params, people(SIZES, 50)))
    sums = own.state.sums.copy()
    sums[0] += 60
    bad = State(params.digest, 50, sums)
    with pytest.raises(PeerError):
        Aggregator.load_state(params, bad.encode())
    with pytest.raises(PeerError):
        own.merge(bad)


@pytest.mark.parametrize(("protocol", "oracle"), [*FAKED])
def test_the_plain_path_makes_the_same_reports(protocol, oracle, monkeypatch):
    params = make(protocol, oracle)
    codes = people(SIZES, 3000)
    with_kernels = randomize_codes(params, codes, from_seed(8))
    sums = Aggregator(params)
    sums.receive(with_kernels)
    monkeypatch.setattr(kernels, "JIT", False)
    plain = randomize_codes(params, codes, from_seed(8))
    assert plain.encode() == with_kernels.encode()
    again = Aggregator(params)
    again.receive(plain)
    assert np.array_equal(again.state.sums, sums.state.sums)


@pytest.mark.parametrize(("protocol", "oracle"), FAKED)
def test_batches_of_any_size_count_right(protocol, oracle, monkeypatch):
    """Counts equal a count by the definition of each report's bits."""
    monkeypatch.setattr(respondent, "_TILE", 7)
    params = make(protocol, oracle)
    codes = people(SIZES, 50)
    reports = randomize_codes(params, codes, from_seed(3))
    aggregator = Aggregator(params)
    aggregator.receive(reports)
    rows, layout = reports.groups[0][0], row_layout(params)
    bits = np.array(
        [[int(row[at // 64]) >> at % 64 & 1 for at in range(layout.width)] for row in rows]
    )
    expected = []
    for offset, field in zip(layout.offsets, params.fields, strict=True):
        own = bits[:, offset : offset + field.width]
        if field.split is None:
            expected.append(own.sum(axis=0))
        else:
            values = (own << np.arange(field.width)).sum(axis=1)
            expected.append(np.bincount(values, minlength=field.k))
    assert np.array_equal(aggregator.state.sums, np.concatenate(expected))


def test_one_respondent_reports_once_and_pays():
    params = make("rs+fd", "grr")
    ledger = Ledger(limit=3.0)
    one = Respondent(params, ledger=ledger, name="ann")
    with pytest.raises(UsageError):
        one.report({"a0": 1, "a1": 2})
    with pytest.raises(UsageError):
        one.report({"a0": 1, "a1": 2, "a2": 70})
    assert ledger.spent("ann") == 0
    assert len(one.report({"a0": 1, "a1": 2, "a2": 69})) == 1
    assert ledger.spent("ann") == params.epsilon_tuple > params.epsilon
    with pytest.raises(UsageError, match="second"):
        one.report({"a0": 1, "a1": 2, "a2": 69})
    tight = Respondent(params, ledger=Ledger(limit=1.0))
    with pytest.raises(UsageError, match="nobody was charged"):
        tight.report({"a0": 1, "a1": 2, "a2": 69})
    assert "69" not in repr(one)


def test_an_attribute_that_nobody_reported():
    params = make("smp", "adp")
    aggregator = Aggregator(params)
    aggregator.receive(randomize_codes(params, people(SIZES, 1)))
    with pytest.raises(UsageError, match="no report of"):
        aggregator.estimate()


@pytest.mark.parametrize("post", ["norm-sub", "clip", "base-cut", "norm-cut", None])
def test_raw_estimates_are_kept(post):
    params = make("rs+fd", "oue-z")
    aggregator = Aggregator(params)
    aggregator.receive(randomize_codes(params, people(SIZES, 100), from_seed(1)))
    raw = aggregator.estimate(post=None)
    for name, one in aggregator.estimate(post=post).items():
        assert np.array_equal(one.raw, raw[name].values)
        assert np.isfinite(one.values).all()
        if post in ("norm-sub", "clip", "norm-cut"):
            assert one.values.min() >= 0
            assert one.values.sum() == pytest.approx(1)


def test_run_compares_with_the_truth():
    params = make("rs+fd", "adp")
    codes = people(SIZES, 4000)
    columns = dict(zip(params.names, codes, strict=True))
    found = run(params, columns, runs=25, seed=1, batch=1000)
    assert found.users == 4000
    assert found.insecure_seed
    right = truth(codes, SIZES)
    for (name, one), own in zip(found.truth.frequencies.items(), right, strict=True):
        assert np.array_equal(one, own), name
    assert found.mse_theory == mse_theory(params, 4000, right)
    assert abs(found.mse_raw - found.mse_theory) < Z * found.mse_raw_error
    assert found.mse < found.mse_raw
    assert 0.9 < found.covered < 0.99
    assert run(params, columns, runs=2, seed=1, batch=1000).mse_raw != found.mse_raw
    same = run(params, columns, runs=25, seed=1, batch=1000)
    assert same.mse == found.mse
    assert set(found.truth.unknown.values()) == {0}
    with pytest.raises(UsageError):
        run(params, columns, runs=0)
    with pytest.raises(UsageError):
        run(params, {name: [] for name in columns})


def test_variance_adds_the_sample_of_a_population():
    for protocol, oracle in EVERY:
        params = make(protocol, oracle)
        f = np.full(12, 1 / 12)
        more = variance(params, 1, 500, f, population=True) - variance(params, 1, 500, f)
        assert more == pytest.approx(f * (1 - f) / 500)


def test_papers_variances():
    """d**2 s (1 - s) / (n (p - q)**2), of the papers, counts the respondents as a sample."""
    d, n = 3, 1000
    for oracle, k, share in [
        ("grr", 12, lambda f, p, q: (q + f * (p - q) + (d - 1) / 12) / d),
        ("oue-z", 12, lambda f, p, q: (d * q + f * (p - q)) / d),
        ("sue-r", 12, lambda f, p, q: (q + f * (p - q) + (d - 1) / 12 * (p + 11 * q)) / d),
    ]:
        params = make("rs+fd", oracle)
        assert params.sizes[1] == k
        p, q = float(params.fields[1].p), float(params.fields[1].q)
        for f in (0.0, 0.2, 1.0):
            s = share(f, p, q)
            expected = d**2 * s * (1 - s) / (n * (p - q) ** 2)
            found = variance(params, 1, n, f, population=True)[0]
            assert found == pytest.approx(expected, rel=1e-6)


def test_wide_rows():
    """Codes that cross from one word of a report to the next."""
    sizes = (2**18, 3000, 2**19, 2**17, 2**15, 5)
    params = make("rs+fd", "grr", 12.0, sizes)
    assert params.oracles == ("grr",) * 6
    layout = row_layout(params)
    assert any(
        o // 64 != (o + f.width - 1) // 64
        for o, f in zip(layout.offsets, params.fields, strict=True)
    )
    codes = [np.full(200, k - 1, np.uint32) for k in sizes]
    reports = randomize_codes(params, codes, from_seed(1))
    rows = reports.groups[0][0]
    for offset, field in zip(layout.offsets, params.fields, strict=True):
        values = kernels.codes_of(rows, offset, field.width)
        assert (values < field.k).all()
        assert (values == field.k - 1).sum() > 10
    assert TupleReports.decode(reports.encode(), params).encode() == reports.encode()


def test_attributes_of_any_kind():
    assert survey((2,), 1.0, protocol="rs+fd", oracle="grr").epsilon_tuple <= 1.0
    assert attributes(2)["a0"].size == 2


@pytest.mark.parametrize(("protocol", "oracle"), FAKED)
@pytest.mark.parametrize("post", ["norm-sub", "clip", "base-cut", "norm-cut", None])
def test_one_respondent_gives_numbers(protocol, oracle, post):
    """Raw estimates may all be negative; nothing becomes NaN by that."""
    params = make(protocol, oracle)
    for number in range(5):
        aggregator = Aggregator(params)
        aggregator.receive(randomize_codes(params, people(SIZES, 1), from_seed(number)))
        for one in aggregator.estimate(post=post).values():
            for numbers in (one.values, one.raw, one.variance, one.low, one.high):
                assert np.isfinite(numbers).all()


@pytest.mark.skipif(not kernels.JIT, reason="the plain path has numbers in place of bits")
@pytest.mark.parametrize(("oracle", "most"), [("oue-z", 24), ("grr", 16), ("adp", 24)])
def test_memory_per_respondent(oracle, most):
    """100 values in nine attributes: 13 bytes a report, 16 in memory; no table of floats."""
    sizes = (7, 16, 7, 14, 6, 5, 2, 41, 2)
    params, n = make("rs+fd", oracle, math.log(3), sizes), 200_000
    codes = people(sizes, n)
    randomize_codes(params, [c[:10] for c in codes])  # kernels loaded
    tracemalloc.start()
    try:
        reports = randomize_codes(params, codes, from_seed(1))
        Aggregator(params).receive(reports)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / n < most + 4_000_000 / n
