"""Channels, and the mechanisms that are one: randomised response by a table, SHE and THE."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from ldp_oracles import Z, domain, frequencies, oracle, raw_runs, skewed, variance_score
from scipy import stats

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import GRR, OUE, SHE, THE, RandomizedResponse
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels import tables
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.histogram_encoding import discrete_laplace

TABLE = [[0.5, 0.3, 0.2], [0.25, 0.5, 0.25]]
RNG = np.random.default_rng(0)


def test_a_channel_keeps_its_rows():
    made = Channel.build(TABLE, 1.0)
    assert [sum(row) for row in made.counts.tolist()] == [2**64, 2**64]
    assert made.probabilities == pytest.approx(np.array(TABLE))
    assert float(made.ratio) == pytest.approx(2.0)
    assert made.ratio == Fraction(*[int(made.counts[i, 0]) for i in (0, 1)])
    assert (made.inputs, made.outputs) == (2, 3)


def test_a_ratio_at_the_bound_is_brought_below_it():
    """The table's ratio is e**epsilon to the last digit of a float; the counts' is not above."""
    for epsilon in (0.1, 1.0, 5.0):
        e = np.exp(epsilon)
        made = Channel.build([[e / (1 + e), 1 / (1 + e)], [1 / (1 + e), e / (1 + e)]], epsilon)
        assert float(made.ratio) <= e
        assert float(made.ratio) == pytest.approx(e, rel=1e-4)


@pytest.mark.parametrize(
    ("table", "epsilon"),
    [
        ([[1.0, 0.0], [0.5, 0.5]], 1.0),  # impossible for one, possible for the other
        (TABLE, 0.5),
        ([[0.5, 0.5]], 1.0),
        ([[1.0], [1.0]], 1.0),
        ([[0.5, 0.6], [0.5, 0.5]], 1.0),
        ([[0.5, np.nan], [0.5, 0.5]], 1.0),
        ([["a", "b"], ["a", "b"]], 1.0),
        ([0.5, 0.5], 1.0),
        ([[1.0 - 1e-300, 1e-300], [1.0 - 1e-300, 1e-300]], 1.0),
    ],
)
def test_tables_that_cannot_be(table, epsilon):
    with pytest.raises(UsageError):
        Channel.build(table, epsilon)


@pytest.mark.parametrize(
    "counts",
    [
        [[0, 0], [1, 2**64 - 1]],
        [[1, 1], [1, 2**64 - 1]],
        [[2**63 + 1, 2**63 + 1], [2**63, 2**63]],
        [[2**63, 2**63, 2**63, 2**63], [2**62, 2**62, 2**62, 2**62]],
    ],
)
def test_counts_that_are_no_channel(counts):
    with pytest.raises(UsageError):
        Channel(np.array(counts, np.uint64))
    with pytest.raises(UsageError):
        Channel(np.array(counts, np.float64))


def test_the_edges_of_the_counts_are_exact():
    counts = np.array([[2**63, 2**62, 2**62], [1, 2, 2**64 - 3]], np.uint64)
    ends = Channel(counts)._ends
    words = np.array([0, 2**63 - 1, 2**63, 3 * 2**62 - 1, 3 * 2**62, 2**64 - 1], np.uint64)
    for value, expected in ((0, [0, 0, 1, 1, 2, 2]), (1, [0, 2, 2, 2, 2, 2])):
        held = np.full(6, value, np.uint32)
        out = np.empty(6, np.uint32)
        tables.looked_up(held, words, ends, out)
        assert out.tolist() == expected
        assert tables.looked_up_plain(held, words, ends).tolist() == expected
    words = np.array([0, 1, 2, 3], np.uint64)
    assert tables.looked_up_plain(np.ones(4, np.uint32), words, ends).tolist() == [0, 1, 1, 2]


def test_kernel_is_the_plain_path():
    made = Channel.build(RNG.dirichlet(np.full(9, 50), 5), 3.0)
    held = RNG.integers(0, 5, 3000, np.uint32)
    words = RNG.integers(0, 2**64, 3000, np.uint64)
    out = np.empty_like(held)
    tables.looked_up(held, words, made._ends, out)
    assert np.array_equal(out, tables.looked_up_plain(held, words, made._ends))


def test_samples_have_those_probabilities():
    made = Channel.build(TABLE, 1.0)
    for value in (0, 1):
        drawn = made.sample(np.full(100_000, value, np.uint32), Draws(from_seed(value)))
        observed = np.bincount(drawn, minlength=3)
        assert stats.chisquare(observed, np.array(TABLE[value]) * 100_000).pvalue > 1e-5
        assert stats.chisquare(observed, np.array(TABLE[1 - value]) * 100_000).pvalue < 1e-5


def test_randomised_response_by_a_table_of_three_reports():
    """Warner's question for two, with a third report "do not know"."""
    table = [[0.5, 0.2, 0.3], [0.2, 0.5, 0.3]]
    mechanism = RandomizedResponse(domain(2), 1.0, table)
    assert float(mechanism.ratio) == pytest.approx(2.5)
    assert mechanism.epsilon_realised == pytest.approx(np.log(2.5))
    codes = skewed(2, 100)
    truth = frequencies(codes, 2)
    raw = raw_runs(mechanism, codes, 6000, from_seed(1))
    variance = mechanism._variances(100, truth, False)
    assert np.abs((raw.mean(axis=0) - truth) / np.sqrt(variance / 6000)).max() < Z
    assert abs(variance_score(raw, truth, variance)) < Z


def test_without_a_table_it_is_generalised_randomised_response():
    one, grr = RandomizedResponse(domain(7), 1.0), GRR(domain(7), 1.0)
    assert one.channel.probabilities.diagonal() == pytest.approx(float(grr.p), rel=1e-3)
    for f in (0.0, 0.2, 1.0):
        assert one.variance(10, f) == pytest.approx(grr.variance(10, f), rel=1e-3)


@pytest.mark.parametrize(
    "table",
    [
        [[0.5, 0.5], [0.5, 0.5]],
        [[0.5, 0.5]],
        [0.5, 0.5],
        [[1.0, 0.0], [0.0, 1.0]],
        [[0.9, 0.1], [0.1, 0.9]],
        [["a"], ["b"]],
        "ab",
    ],
)
def test_tables_refused(table):
    with pytest.raises(UsageError):
        RandomizedResponse(domain(2), 1.0, table)
    with pytest.raises(UsageError, match="domain"):
        RandomizedResponse(domain(513), 1.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_epsilon_of_she_by_enumeration(epsilon):
    """Two values differ in two coordinates; all points of both, all other coordinates cancel."""
    mechanism = SHE(domain(3), epsilon)
    zero, one = (row for row in mechanism.channel.counts.tolist())
    step = max(1, len(zero) // 60)  # the grid's points at a stride, its ends and inputs
    at = sorted({*range(0, len(zero), step), 0, len(zero) - 1, *mechanism_inputs(mechanism)})
    worst = max(Fraction(one[i] * zero[j], zero[i] * one[j]) for i, j in product(at, at))
    assert worst <= mechanism.ratio
    whole = max(Fraction(b, a) for a, b in zip(zero, one, strict=True))
    assert whole * max(Fraction(a, b) for a, b in zip(zero, one, strict=True)) == mechanism.ratio
    assert epsilon * 0.999 < mechanism.epsilon_realised <= epsilon


def mechanism_inputs(mechanism):
    return [int(row.argmax()) for row in mechanism.channel.probabilities]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 8.0])
def test_variance_of_she_is_nearly_laplace(epsilon):
    assert SHE(domain(5), epsilon).variance(1) == pytest.approx(8 / epsilon**2, rel=2e-3)


def test_discrete_laplace_has_its_shape():
    made = discrete_laplace(4, 0.5).probabilities[0]
    peak = int(made.argmax())
    inner = made[peak : peak + 50]
    assert inner[1:] / inner[:-1] == pytest.approx(np.exp(-0.5 / 4), rel=1e-6)
    assert made[0] < 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_is_as_published(epsilon):
    """Thresholds and n Var of the literature, and less error nowhere than OUE."""
    mechanism = THE(domain(5), epsilon)
    known = {0.5: (0.562, None), 1.0: (0.619, 4.807), 2.0: (0.710, 1.284), 4.0: (0.816, None)}
    threshold, variance = known[epsilon]
    assert mechanism.threshold == pytest.approx(threshold, abs=2e-3)
    if variance:
        assert mechanism.variance(1) == pytest.approx(variance, abs=2e-3)
    assert mechanism.variance(1) > OUE(domain(5), epsilon).variance(1)
    p = 1 - np.exp(epsilon * (mechanism.threshold - 1) / 2) / 2
    assert float(mechanism.p) == pytest.approx(p)
    assert float(mechanism.q) == pytest.approx(np.exp(-epsilon * mechanism.threshold / 2) / 2)


def test_bits_of_the_have_less_than_the_noise():
    mechanism = oracle("the", 3, 1.0)
    worst = max(
        np.prod([bit(mechanism, y[i], i == x) / bit(mechanism, y[i], i == z) for i in range(3)])
        for y in product((0, 1), repeat=3)
        for x in range(3)
        for z in range(3)
    )
    assert worst == pytest.approx(float(mechanism.ratio))
    assert mechanism.epsilon_realised < 0.95 < mechanism.noise_epsilon <= 1.0


def bit(mechanism, report, own):
    chance = float(mechanism.p if own else mechanism.q)
    return chance if report else 1 - chance
