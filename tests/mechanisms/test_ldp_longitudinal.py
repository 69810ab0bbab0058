"""Repeated surveys: both budgets exact by enumeration, answers that stay, budgets that add up."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from ldp_oracles import Z, domain, oracle
from scipy import stats

from privagg.entropy import from_seed
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import GRR, LGRR, LOLOHA, LOSUE, LSUE, OLH, OUE, SUE, DBitFlip, Memory

EPSILONS = [(0.5, 1.0), (1.0, 2.0), (1.0, 1.2), (2.0, 6.0)]


@pytest.mark.parametrize(("epsilon", "permanent"), EPSILONS)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_budgets_of_l_grr_by_enumeration(epsilon, permanent, k):
    mechanism = LGRR(domain(k), epsilon, permanent)
    first, second = mechanism._chain.first, mechanism._chain.second

    def step(chances, symbol, value):
        return chances.p if symbol == value else chances.q

    one = [
        [
            sum(step(first, middle, x) * step(second, y, middle) for middle in range(k))
            for y in range(k)
        ]
        for x in range(k)
    ]
    assert all(sum(row) == 1 for row in one)
    assert max(max(c) / min(c) for c in zip(*one, strict=True)) == mechanism.ratio
    assert one[0][0] == mechanism.p
    assert one[0][1] == mechanism.q
    # Two reports of one value: below both permanent and twice epsilon.
    twice = [
        [
            sum(step(first, m, x) * step(second, y, m) * step(second, z, m) for m in range(k))
            for y, z in product(range(k), repeat=2)
        ]
        for x in range(k)
    ]
    worst = np.log(float(max(max(c) / min(c) for c in zip(*twice, strict=True))))
    assert worst <= min(permanent, 2 * epsilon)
    assert worst > mechanism.epsilon_realised
    assert mechanism.epsilon_realised <= epsilon
    assert mechanism.permanent_realised <= permanent


@pytest.mark.parametrize(("epsilon", "permanent"), EPSILONS)
def test_second_steps_beside_the_published_ones(epsilon, permanent):
    """Equal for two values; for more, the published step of L-GRR has less epsilon than stated."""
    e1, ei = np.exp(epsilon), np.exp(permanent)
    p2 = (1 - e1 * ei) / (e1 - ei - e1 * ei + 1)
    assert 1 - float(LOSUE(domain(4), epsilon, permanent).flip) == pytest.approx(p2, rel=1e-3)
    for k in (2, 4, 32):
        p2 = (e1 * ei - 1) / (-k * e1 + (k - 1) * ei + e1 + e1 * ei - 1)
        mechanism = LGRR(domain(k), epsilon, permanent)
        ours = float(mechanism._chain.second.p)
        p1 = float(mechanism._chain.first.p)
        q1, q2 = (1 - p1) / (k - 1), (1 - p2) / (k - 1)
        true = p1 * p2 + (k - 1) * q1 * q2
        other = q1 * p2 + p1 * q2 + (k - 2) * q1 * q2
        if k == 2:
            assert ours == pytest.approx(p2, rel=1e-3)
            assert np.log(true / other) == pytest.approx(epsilon, rel=1e-3)
        else:
            assert ours > p2
            assert np.log(true / other) < 0.999 * epsilon


def test_published_variances():
    """Var* at 10,000 respondents of the table in the literature."""
    for kind, k, epsilon, permanent, expected in (
        (LGRR, 2, 1.0, 2.0, 9.2e-5),
        (LOSUE, 5, 1.0, 2.0, 3.68e-4),
        (LOSUE, 5, 0.5, 1.0, 1.567e-3),
        (LGRR, 2, 0.5, 1.0, 3.92e-4),
    ):
        found = kind(domain(k), epsilon, permanent).variance(10_000)
        assert found == pytest.approx(expected, rel=6e-3)


def test_one_report_alone_is_that_of_the_mechanism_without_memory():
    """So no accuracy is lost to the permanent step; published, L-GRR has 1.39e-2 at k = 32."""
    for k in (2, 8, 32):
        grr = GRR(domain(k), 1.0).variance(10_000)
        assert LGRR(domain(k), 1.0, 2.0).variance(10_000) == pytest.approx(grr, rel=1e-3)
    assert LGRR(domain(32), 1.0, 2.0).variance(10_000) < 1.2e-3
    olh = OLH(domain(50), 1.0).variance(1)
    assert LOLOHA(domain(50), 1.0, 2.0).variance(1) == pytest.approx(olh, rel=1e-3)
    assert LOLOHA(domain(50), 2.4, 4.0).g == 12
    assert "all reports of one value together: 2" in LGRR(domain(8), 1.0, 2.0).guarantee


@pytest.mark.parametrize(("epsilon", "permanent"), EPSILONS)
@pytest.mark.parametrize(("kind", "alone"), [(LOSUE, OUE), (LSUE, SUE)])
def test_budgets_of_unary_encoding_twice_by_enumeration(kind, alone, epsilon, permanent):
    """All reports of two bits under two values: independent bits, each made in two steps."""
    mechanism = kind(domain(2), epsilon, permanent)
    flip, first = mechanism.flip, mechanism.first

    def bit(report, chance):
        one = chance * (1 - flip) + (1 - chance) * flip
        return one if report else 1 - one

    table = [
        [
            bit(y[0], first.p if x == 0 else first.q) * bit(y[1], first.p if x == 1 else first.q)
            for y in product((0, 1), repeat=2)
        ]
        for x in range(2)
    ]
    assert max(max(c) / min(c) for c in zip(*table, strict=True)) == mechanism.ratio
    assert mechanism.p == (Fraction(1, 2) if kind is LOSUE else 1 - mechanism.q)
    # One report alone is that of the encoding without memory.
    assert mechanism.variance(1) == pytest.approx(alone(domain(2), epsilon).variance(1), rel=1e-3)
    assert mechanism.epsilon_realised <= epsilon
    assert mechanism.permanent_realised <= permanent


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_budget_of_dbitflip_by_enumeration(epsilon, d):
    """Every sample of d of four values; the sample does not depend on the value."""
    mechanism = DBitFlip(domain(4), epsilon, d)
    p, q = mechanism.p, mechanism.q
    worst = Fraction(1)
    for x, y in product(range(4), repeat=2):
        for bits in product((0, 1), repeat=d):
            # Samples hold neither, one, or both of x and y; values 0 .. d - 1 are sampled.
            chance = [Fraction(1), Fraction(1)]
            for at, bit in enumerate(bits):
                for side, value in enumerate((x, y)):
                    one = p if value == at else q
                    chance[side] *= one if bit else 1 - one
            worst = max(worst, chance[0] / chance[1])
    assert worst == mechanism.ratio
    assert 0.999 * epsilon < mechanism.epsilon_realised <= epsilon
    assert mechanism.answers == min(d + 1, 4)


def test_samples_of_dbitflip_are_uniform():
    mechanism = DBitFlip(domain(5), 1.0, 3)
    sampled = mechanism.randomize_codes(np.zeros(100_000, np.uint32), from_seed(1)).columns[0]
    assert (np.diff(sampled.astype(int), axis=1) > 0).all()
    sets, times = np.unique(sampled, axis=0, return_counts=True)
    assert len(sets) == 10
    assert stats.chisquare(times).pvalue > 1e-4


REPEATED = pytest.mark.parametrize("name", ["l-grr", "l-osue", "l-sue", "loloha", "dbitflip"])


@REPEATED
def test_many_rounds_reveal_the_permanent_answer_and_no_more(name):
    """Means over many rounds of one value tend to the permanent answer, not to the value."""
    mechanism = oracle(name, 4, 1.0)
    memory = mechanism.remember(2000, from_seed(1))
    values = ["v1"] * 2000
    source = from_seed(2)
    rounds = [mechanism.report(values, memory, source) for _ in range(60)]
    raws = [mechanism._raw(mechanism.aggregate(one)) for one in rounds]
    # Over one memory the permanent part does not average out: the mean stays off by it, while
    # fresh memories would bring it to the truth like 1 / sqrt(60).
    off = np.abs(np.mean(raws, axis=0) - [0, 1, 0, 0])
    assert off.max() > 0
    assert np.abs(off).max() < Z * np.sqrt(mechanism.variance(2000, 1.0) + mechanism.variance(2000))
    if name == "dbitflip":
        assert all(one.encode() == rounds[0].encode() for one in rounds)
    else:
        assert rounds[0].encode() != rounds[1].encode()


@REPEATED
def test_spent_budgets_add_up(name):
    mechanism = oracle(name, 5, 1.0)
    memory = mechanism.remember(3, from_seed(1))
    assert mechanism.spent(memory).tolist() == [0, 0, 0]
    source = from_seed(2)
    mechanism.report(["v0", "v1", "v2"], memory, source)
    assert mechanism.spent(memory).tolist() == [1, 1, 1]
    for _ in range(5):
        mechanism.report(["v0"], memory, source, who=np.array([0]))
    # Six reports of one value: no more than the permanent answer.
    assert mechanism.spent(memory).tolist() == [mechanism.permanent, 1, 1]
    for _ in range(4):
        for value in ("v0", "v1", "v2", "v3", "v4"):
            mechanism.report([value], memory, source, who=np.array([1]))
    spent = mechanism.spent(memory)[1]
    assert spent <= mechanism.lifetime_epsilon
    if name in {"l-grr", "l-osue", "l-sue"}:
        assert spent == 5 * mechanism.permanent == mechanism.lifetime_epsilon


def test_the_budget_of_loloha_stays_with_the_cells():
    mechanism = LOLOHA(domain(200), 1.0, 2.0, g=2)
    memory = mechanism.remember(10, from_seed(3))
    for value in range(200):
        for turn in (0, 1):
            mechanism.report([f"v{value}"] * 10, memory, from_seed(2 * value + turn))
    assert mechanism.spent(memory).tolist() == [4.0] * 10
    assert mechanism.lifetime_epsilon == 4.0
    assert LGRR(domain(200), 1.0, 2.0).lifetime_epsilon == 400.0


@REPEATED
def test_memories_are_kept_and_read(name):
    mechanism = oracle(name, 5, 1.0)
    memory = mechanism.remember(20, from_seed(1))
    values = [f"v{i % 5}" for i in range(20)]
    mechanism.report(values, memory, from_seed(2))
    again = mechanism.load_memory(memory.dump_state())
    assert again.dump_state() == memory.dump_state()
    one = mechanism.report(values, memory, from_seed(3))
    other = mechanism.report(values, again, from_seed(3))
    assert one.encode() == other.encode()
    assert mechanism.spent(again).tolist() == mechanism.spent(memory).tolist()
    data = memory.dump_state()
    rng = np.random.default_rng(1)
    for _ in range(60):
        damaged = bytearray(data)
        del damaged[int(rng.integers(0, len(data))) :]
        with pytest.raises(PeerError):
            mechanism.load_memory(bytes(damaged))
    with pytest.raises(UsageError, match="another mechanism"):
        oracle(name, 6, 1.0).load_memory(data)
    assert repr(memory) == "Memory(20 respondents)"
    with pytest.raises(TypeError, match="dump_state"):
        memory.__reduce__()


@REPEATED
def test_wrong_reports(name):
    mechanism = oracle(name, 5, 1.0)
    memory = mechanism.remember(3, from_seed(1))
    for values, options in (
        (["v0"], {}),
        (["v0"] * 3, {"who": np.array([0, 1])}),
        (["v0"] * 2, {"who": np.array([1, 1])}),
        (["v0"], {"who": np.array([3])}),
        (["v0"], {"who": [0]}),
        (["x"] * 3, {}),
    ):
        with pytest.raises(UsageError):
            mechanism.report(values, memory, **options)
    with pytest.raises(UsageError, match="memory"):
        mechanism.report(["v0"] * 3, oracle(name, 5, 1.1).remember(3))
    for count in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="respondents"):
            mechanism.remember(count)
    assert isinstance(memory, Memory)


def test_permanent_must_be_above_epsilon():
    for kind in (LGRR, LOSUE, LOLOHA):
        for permanent in (1.0, 0.5, 0, float("nan"), "2"):
            with pytest.raises(UsageError) as caught:
                kind(domain(4), 1.0, permanent)
            assert caught.value.argument == "permanent"
    for d in (0, 5, 1.5):
        with pytest.raises(UsageError, match="d:"):
            DBitFlip(domain(4), 1.0, d)
    with pytest.raises(UsageError, match="g:"):
        LOLOHA(domain(4), 1.0, g=1)
