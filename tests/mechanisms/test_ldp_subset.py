"""Subset selection: its sets are exactly uniform, and the own value is in them as often as said."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from ldp_oracles import domain, oracle
from scipy import stats

from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import GRR, SubsetSelection
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels import subsets

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(("k", "w"), [(2, 1), (4, 1), (5, 2), (5, 4), (6, 3)])
def test_every_pick_gives_every_set_equally_often(k, w, inside):
    """All picks that there are, for every own value: each possible set equally often."""
    picks = np.array(list(product(*(range(k - w + s) for s in range(w)))), np.uint32)
    for own in range(k):
        codes = np.full(len(picks), own, np.uint32)
        held = np.full(len(picks), inside)
        rows = subsets.draw_subsets(codes, held, picks, k)
        assert np.array_equal(rows, subsets.subsets_plain(codes, held, picks, k))
        found = subsets.positions_of(rows, w)
        others = [v for v in range(k) if v != own]
        size = w - 1 if inside else w
        possible = {tuple(sorted((*c, own) if inside else c)) for c in combinations(others, size)}
        sets, times = np.unique(found, axis=0, return_counts=True)
        assert {tuple(row) for row in sets.tolist()} == possible
        assert len(set(times.tolist())) == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(("k", "w"), [(2, 1), (4, 2), (5, None), (6, 5)])
def test_epsilon_p_and_q_by_enumeration(epsilon, k, w):
    mechanism = SubsetSelection(domain(k), epsilon, w)
    size, p = mechanism.w, mechanism.p
    sets = list(combinations(range(k), size))

    def probability(report, value):
        if value in report:
            return p / comb(k - 1, size - 1)
        return (1 - p) / comb(k - 1, size)

    worst = max(
        probability(report, x) / probability(report, y)
        for report in sets
        for x in range(k)
        for y in range(k)
    )
    assert worst == mechanism.ratio
    for x in range(k):
        assert sum(probability(report, x) for report in sets) == 1
        for v in range(k):
            support = sum(probability(report, x) for report in sets if v in report)
            assert support == (p if v == x else mechanism.q)


def test_reports_have_those_probabilities():
    n, k = 300_000, 5
    mechanism = oracle("ss", k, 0.8)
    assert mechanism.w == 2
    rows = mechanism.randomize_codes(np.full(n, 3), from_seed(5)).columns[0][:, 0]
    observed = np.bincount(rows.astype(int), minlength=32)
    sets = [sum(1 << v for v in chosen) for chosen in combinations(range(k), 2)]
    assert observed.sum() == observed[sets].sum()
    for epsilon, right in ((0.8, True), (0.9, False), (0.7, False)):
        p = float(SubsetSelection(domain(k), epsilon, 2).p)
        expected = [n * (p / 4 if one >> 3 & 1 else (1 - p) / 6) for one in sets]
        assert (stats.chisquare(observed[sets], expected).pvalue > 1e-5) == right


@pytest.mark.parametrize(("k", "epsilon"), [(20, 0.5), (20, 1.0), (20, 2.0), (100, 1.0), (20, 4.0)])
def test_closed_forms(k, epsilon):
    e = np.exp(epsilon)
    mechanism = SubsetSelection(domain(k), epsilon)
    w = max(1, round(k / (e + 1)))
    assert mechanism.w == w
    p = w * e / (w * e + k - w)
    q = (w * e * (w - 1) + (k - w) * w) / ((k - 1) * (w * e + k - w))
    assert mechanism.variance(1) == pytest.approx(q * (1 - q) / (p - q) ** 2, rel=1e-3)
    assert float(mechanism.q) == pytest.approx(q, rel=1e-4)


def test_known_variances():
    """n Var at k = 20 for epsilon 1, 2: 3.224 and 0.549; better than every other oracle."""
    assert oracle("ss", 20, 1.0).variance(1) == pytest.approx(3.224, abs=1e-3)
    assert oracle("ss", 20, 2.0).variance(1) == pytest.approx(0.549, abs=1e-3)
    for name in ("grr", "sue", "oue", "olh"):
        assert oracle(name, 20, 1.0).variance(1) > oracle("ss", 20, 1.0).variance(1)


def test_sets_of_one_are_randomised_response():
    one, grr = oracle("ss", 5, 3.0), GRR(domain(5), 3.0)
    assert one.w == 1
    assert float(one.p) == pytest.approx(float(grr.p), rel=1e-6)
    assert one.variance(1) == pytest.approx(grr.variance(1), rel=1e-4)


@pytest.mark.parametrize(("k", "w", "bitmap"), [(64, 1, True), (300, 1, False), (300, 60, True)])
def test_the_shorter_form_is_sent(k, w, bitmap):
    mechanism = SubsetSelection(domain(k), 1.0, w)
    assert mechanism.layout[0].bitmap is bitmap
    reports = mechanism.randomize_codes(RNG.integers(0, k, 50), from_seed(1))
    again = mechanism.decode_reports(reports.encode())
    assert mechanism.aggregate(again).sums.tolist() == mechanism.aggregate(reports).sums.tolist()
    assert mechanism.aggregate(again).sums.sum() == 50 * w


def test_bounded_numbers_are_exactly_uniform_also_at_bounds_that_reject():
    """A bound just above 2**31 throws away half of the words: the rest is still uniform."""
    for bound in (3, 2**31 + 1, 2**32 - 1):
        drawn = Draws(from_seed(bound)).below([bound, 5], 20_000)
        assert int(drawn[:, 0].max()) < bound
        assert stats.kstest(drawn[:, 0] / bound, "uniform").pvalue > 1e-4 or bound == 3
        assert stats.chisquare(np.bincount(drawn[:, 1], minlength=5)).pvalue > 1e-4
        assert stats.chisquare(np.bincount(drawn[:, 0] % 3, minlength=3)).pvalue > 1e-4


def test_sets_of_other_sizes_are_refused():
    mechanism = SubsetSelection(domain(5), 1.0, 2)
    reports = mechanism.randomize_codes(np.zeros(2, np.uint32), from_seed(1))
    data = bytearray(reports.encode())
    data[-1] = 0b111
    with pytest.raises(PeerError, match="sets of 2"):
        mechanism.decode_reports(bytes(data))
    lists = SubsetSelection(domain(300), 1.0, 2)
    sent = lists.randomize_codes(np.zeros(1, np.uint32), from_seed(1))
    swapped = type(sent)(sent.digest, sent.layout, (sent.columns[0][:, ::-1],), True)
    with pytest.raises(PeerError, match="increasing"):
        lists.decode_reports(swapped.encode())


@pytest.mark.parametrize("w", [0, 5, -1, 2.0, True, "2"])
def test_w_out_of_range(w):
    with pytest.raises(UsageError) as caught:
        SubsetSelection(domain(5), 1.0, w)
    assert caught.value.argument == "w"


def test_ratio_is_exact():
    assert isinstance(SubsetSelection(domain(5), 1.0).ratio, Fraction)
