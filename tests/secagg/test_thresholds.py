"""The planner against published parameters, SciPy, exact fractions and brute force."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from privagg.errors import UsageError
from privagg.protocols.secagg import conditions
from privagg.protocols.secagg.thresholds import (
    SparseChoice,
    Threat,
    check_complete,
    check_sparse,
    choose_complete,
    choose_sparse,
    corrupted,
    disconnection_probability,
    dropouts,
    max_corrupt_holders,
    min_surviving_holders,
)

HONEST, TWO, ACTIVE = Threat.SEMI_HONEST, Threat.SEMI_MALICIOUS, Threat.ACTIVE

# clients, corrupt, dropout, (k, t) semi-honest, (k, t) semi-malicious; sigma = 40, eta = 20.
GOLDEN = [
    (100, 0.05, 0.05, (12, 6), (16, 11)),
    (1000, 0.05, 0.05, (30, 17), (52, 37)),
    (10**4, 0.05, 0.05, (34, 20), (62, 44)),
    (10**6, 0.05, 0.05, (38, 22), (74, 52)),
    (100, 0.05, 0.33, (28, 6), (72, 39)),
    (1000, 0.05, 0.33, (72, 24), (398, 223)),
    (10**4, 0.05, 0.33, (86, 29), (746, 420)),
    (100, 0.33, 0.05, (34, 29), (42, 37)),
    (1000, 0.33, 0.05, (78, 60), (132, 109)),
    (10**4, 0.33, 0.05, (92, 70), (178, 146)),
    (100, 0.33, 0.33, (68, 34), None),
    (1000, 0.33, 0.33, (286, 150), None),
    (10**4, 0.33, 0.33, (422, 221), None),
    (1000, 0.30, 0.30, "unknown", (872, 584)),
    (10**4, 0.30, 0.30, "unknown", (4822, 3230)),
    (1000, 0.45, 0.45, (822, 417), None),
]
CASES = [
    pytest.param(n, g, d, who, want, id=f"{n}-{g}-{d}-{who.value}")
    for n, g, d, honest, two in GOLDEN
    for who, want in ((HONEST, honest), (TWO, two))
    if want != "unknown"
]
CLOSED = [case for case in CASES if case.values[4] is not None and case.values[3] is HONEST]
FEASIBLE = [case for case in CASES if case.values[4] is not None]


@pytest.mark.parametrize(("n", "g", "d", "who", "want"), CASES)
def test_golden(n, g, d, who, want):
    if want is None:
        with pytest.raises(UsageError, match="leaves a sparse graph safe"):
            choose_sparse(n, corrupt=g, dropout=d, threat=who)
        return
    got = choose_sparse(n, corrupt=g, dropout=d, threat=who)
    assert (got.neighbours, got.threshold) == want
    assert check_sparse(n, corrupted(n, g), d, *want, who) == got


@pytest.mark.parametrize(("n", "g", "d", "who", "want"), CLOSED)
def test_closed_form_bounds(n, g, d, who, want):
    """Hoeffding's bound and the run bound enclose the semi-honest degree."""
    k, t = want
    need = math.log(n) + 40 * math.log(2)
    beta, alpha = t / k, n / (n - 1)
    c = min(2 * (beta - alpha * g) ** 2, -math.log(g + d))
    keep = (math.log(n) + 20 * math.log(2)) / (2 * (alpha * (1 - d) - beta) ** 2)
    assert need / 5 <= k <= max(need / c + 1, keep) + 2


def scipy_works(n, c, d, k, two, sigma, eta):
    """The conditions as they are written, by SciPy and big fractions; (t1, t, t2) or None."""
    bad = c + d
    cut = Fraction(n * (n - k - 1), 2) * Fraction(math.comb(bad, k), math.comb(n, k))
    if cut >= Fraction(1, 2 ** (sigma + 1)):
        return None
    x = np.arange(-1, k + 1)
    t1 = int(x[hypergeom.sf(x, n, c, k) <= 2.0 ** -(sigma + 1) / n][0])
    t2 = int(x[hypergeom.cdf(x, n, n - d, k) >= 2.0**-eta / n][0])
    low = math.ceil((t1 + k - 1.25) / 2) + 1 if two else t1 + 1
    return (t1, max(low, 2), t2) if max(low, 2) <= t2 else None


@pytest.mark.parametrize(
    ("n", "g", "d", "who", "want"), [case for case in FEASIBLE if case.values[0] <= 1000]
)
def test_every_smaller_degree_fails(n, g, d, who, want):
    k, t = want
    c, gone = corrupted(n, g), dropouts(n, d)
    for smaller in range(2, k, 2):
        assert scipy_works(n, c, gone, smaller, who is TWO, 40, 20) is None
    assert scipy_works(n, c, gone, k, who is TWO, 40, 20)[1] == t


@pytest.mark.parametrize("n", [10**4, 10**6, 2**30])
def test_many_clients(n):
    got = choose_sparse(n, corrupt=0.45, dropout=0.45, threat=HONEST)
    assert got.threshold == got.max_corrupt_holders + 1 <= got.min_surviving_holders
    assert conditions.connected(n, corrupted(n, 0.45) + dropouts(n, 0.45), got.neighbours, 40)
    low = conditions.bounds(
        n, corrupted(n, 0.45), dropouts(n, 0.45), got.neighbours - 2, False, 40, 20
    )
    assert low[1] > low[2]


@pytest.mark.parametrize(
    ("n", "g", "d", "who"),
    [
        (100, 0.33, 0.33, TWO),
        (10**4, 0.6, 0.35, HONEST),
        (60, 0.02, 0.89, HONEST),
        (20, 0.15, 0.75, HONEST),
    ],
)
def test_infeasible_names_what_works(n, g, d, who):
    with pytest.raises(UsageError) as caught:
        choose_sparse(n, corrupt=g, dropout=d, threat=who)
    less_g = float(re.search(r"corrupt <= ([\d.]+) ", caught.value.hint)[1])
    less_d = float(re.search(r"dropout <= ([\d.]+) ", caught.value.hint)[1])
    choose_sparse(n, corrupt=less_g, dropout=d, threat=who)
    choose_sparse(n, corrupt=g, dropout=less_d, threat=who)
    for worse in ({"corrupt": less_g + 0.001, "dropout": d}, {"corrupt": g, "dropout": less_d}):
        worse["dropout"] += 0.001 if worse["corrupt"] == g else 0
        with pytest.raises(UsageError):
            choose_sparse(n, threat=who, **worse)


@pytest.mark.parametrize("n", [2, 3])
def test_too_few_for_a_sparse_graph(n):
    with pytest.raises(UsageError, match="complete graph"):
        choose_sparse(n, corrupt=0, dropout=0, threat=HONEST)


def test_nothing_works():
    with pytest.raises(UsageError, match="Lower both"):
        choose_sparse(100, corrupt=1.0, dropout=1.0, threat=HONEST)


def test_no_bad_clients():
    assert choose_sparse(50, corrupt=0, dropout=0, threat=HONEST) == SparseChoice(2, 2, 0, 2)


def test_sparse_active_is_refused():
    with pytest.raises(UsageError, match="complete graph"):
        choose_sparse(100, corrupt=0.05, dropout=0.05, threat=ACTIVE)


@pytest.mark.parametrize(
    ("k", "t", "message"),
    [
        (13, 6, "neighbours: found 13; allowed: an even number. Use 14 neighbours"),
        (8, 5, r"condition 1\). Use 12 neighbours with a threshold from 6 to 7"),
        (12, 5, r"condition 4\).* Use 6"),
        (12, 8, r"condition 3\). Use 7"),
        (99, 50, "Use the complete graph"),
        (100, 50, "Use the complete graph"),
    ],
)
def test_check_sparse_names_the_condition(k, t, message):
    with pytest.raises(UsageError, match=message):
        check_sparse(100, 5, 0.05, k, t, HONEST)


def test_check_sparse_two_stories():
    assert check_sparse(1000, 50, 0.05, 52, 37, TWO).threshold == 37
    with pytest.raises(UsageError, match=r"when doubled.*condition 4\).*Use 37"):
        check_sparse(1000, 50, 0.05, 52, 36, TWO)


def test_check_sparse_no_room_for_a_threshold():
    with pytest.raises(UsageError, match=r"at least 27.*at most 25 \(condition 5\). Use 34 neigh"):
        check_sparse(100, 33, 0.05, 30, 27, HONEST)


def test_check_sparse_suggests_fewer_where_no_more_fit():
    with pytest.raises(UsageError, match=r"Use 98 neighbours"):
        check_sparse(101, 5, 0.05, 99, 50, HONEST)


def test_check_sparse_says_where_nothing_fits():
    with pytest.raises(UsageError, match=r"None works: lower corrupt"):
        check_sparse(12, 6, 0.5, 10, 6, HONEST)


def test_check_sparse_accepts_every_threshold_in_range():
    got = choose_sparse(1000, corrupt=0.05, dropout=0.05, threat=HONEST)
    k = got.neighbours + 10
    low = max_corrupt_holders(1000, 50, k) + 1
    high = min_surviving_holders(1000, 950, k)
    assert high > low
    for t in range(low, high + 1):
        assert check_sparse(1000, 50, 0.05, k, t, HONEST).threshold == t
    for t in (low - 1, high + 1):
        with pytest.raises(UsageError, match=f"Use {low if t < low else high}"):
            check_sparse(1000, 50, 0.05, k, t, HONEST)


@pytest.mark.parametrize(
    ("n", "c", "d", "who", "want"),
    [
        (10, 0, 0.0, HONEST, 6),
        (10, 3, 0.0, HONEST, 7),
        (10, 3, 0.5, HONEST, 5),
        (100, 33, 0.33, ACTIVE, 67),
        (100, 33, 0.0, TWO, 67),
        (2, 0, 0.0, HONEST, 2),
        (2, 0, 0.0, ACTIVE, 2),
        (9, 2, 0.2, ACTIVE, 6),
    ],
)
def test_choose_complete(n, c, d, who, want):
    assert choose_complete(n, corrupt=c, dropout=d, threat=who) == want
    assert check_complete(n, c, d, want, who) == want


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(2, 40),
    c=st.integers(0, 40),
    gone=st.integers(0, 40),
    who=st.sampled_from(Threat),
)
def test_complete_is_the_stated_range(n, c, gone, who):
    c, gone = c % (n + 1), gone % (n + 1)
    d = gone / n
    two = who is not HONEST
    fits = [
        t
        for t in range(1, n + 1)
        if t >= 2 and t > c and t <= n - gone and (not two or 2 * t > n + c)
    ]
    if fits:
        assert choose_complete(n, corrupt=c, dropout=d, threat=who) in fits
        for t in range(1, n + 1):
            if t in fits:
                assert check_complete(n, c, d, t, who) == t
                continue
            near = min(fits, key=lambda f: abs(f - t))
            with pytest.raises(UsageError, match=f"Use {near}"):
                check_complete(n, c, d, t, who)
        return
    with pytest.raises(UsageError) as caught:
        choose_complete(n, corrupt=c, dropout=d, threat=who)
    drop = re.search(r"dropout <= ([\d.e-]+) \((\d+)", caught.value.hint)
    most = re.search(r"corrupt <= (\d+)", caught.value.hint)
    if drop:
        assert dropouts(n, float(drop[1])) == int(drop[2])
        choose_complete(n, corrupt=c, dropout=float(drop[1]), threat=who)
        with pytest.raises(UsageError):
            choose_complete(n, corrupt=c, dropout=(int(drop[2]) + 1) / n, threat=who)
    else:
        with pytest.raises(UsageError):
            choose_complete(n, corrupt=c, dropout=0, threat=who)
    if most:
        choose_complete(n, corrupt=int(most[1]), dropout=d, threat=who)
        with pytest.raises(UsageError):
            choose_complete(n, corrupt=int(most[1]) + 1, dropout=d, threat=who)
    else:
        with pytest.raises(UsageError):
            choose_complete(n, corrupt=0, dropout=d, threat=who)


@pytest.mark.parametrize(
    ("n", "f", "want"),
    [(1000, 0.1, 100), (100, 0.29, 29), (100, 0.57, 57), (3, 1 / 3, 1), (49, 1 / 49, 1)],
)
def test_fractions_lose_no_client_to_rounding(n, f, want):
    assert dropouts(n, f) == want == corrupted(n, f)


def test_fraction_is_floored():
    assert dropouts(10, 0.19999) == 1
    assert dropouts(10, 0) == 0
    assert dropouts(10, 1) == 10
    assert dropouts(10**6, 0.3299995) == 329999


@settings(max_examples=300, deadline=None)
@given(n=st.integers(2, 2**30), data=st.data())
def test_any_count_survives_the_round_trip(n, data):
    count = data.draw(st.integers(0, n))
    assert dropouts(n, count / n) == count


BAD_WHOLE = [True, 1.0, "4", None, -1, np.float64(3), np.True_]


@pytest.mark.parametrize("bad", BAD_WHOLE, ids=repr)
def test_numbers_are_checked(bad):
    calls = {
        "clients": [
            lambda: dropouts(bad, 0.1),
            lambda: choose_sparse(bad, corrupt=0.1, dropout=0.1, threat=HONEST),
            lambda: choose_complete(bad, corrupt=0, dropout=0.1, threat=HONEST),
        ],
        "corrupt": [
            lambda: max_corrupt_holders(10, bad, 2),
            lambda: check_sparse(10, bad, 0.1, 2, 2, HONEST),
            lambda: check_complete(10, bad, 0.1, 2, HONEST),
            lambda: disconnection_probability(10, bad, 1, 2),
        ],
        "dropped": [lambda: disconnection_probability(10, 1, bad, 2)],
        "survivors": [lambda: min_surviving_holders(10, bad, 2)],
        "neighbours": [
            lambda: max_corrupt_holders(10, 2, bad),
            lambda: check_sparse(10, 1, 0.1, bad, 2, HONEST),
        ],
        "threshold": [
            lambda: check_sparse(10, 1, 0.1, 2, bad, HONEST),
            lambda: check_complete(10, 1, 0.1, bad, HONEST),
        ],
        "sigma": [lambda: max_corrupt_holders(10, 2, 2, sigma=bad)],
        "eta": [lambda: choose_sparse(10, corrupt=0, dropout=0, threat=HONEST, eta=bad)],
    }
    for name, group in calls.items():
        for call in group:
            with pytest.raises(UsageError) as caught:
                call()
            assert caught.value.argument == name


@pytest.mark.parametrize("bad", [True, "0.1", None, -0.1, 1.01, math.nan, math.inf], ids=repr)
def test_fractions_are_checked(bad):
    for name, call in {
        "dropout": lambda: dropouts(10, bad),
        "corrupt": lambda: choose_sparse(10, corrupt=bad, dropout=0.1, threat=HONEST),
    }.items():
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.argument == name


@pytest.mark.parametrize(
    "call",
    [
        lambda: max_corrupt_holders(10, 11, 2),
        lambda: max_corrupt_holders(10, 1, 11),
        lambda: max_corrupt_holders(2**30 + 1, 1, 2),
        lambda: max_corrupt_holders(1, 1, 1),
        lambda: max_corrupt_holders(10, 1, 2, sigma=257),
        lambda: min_surviving_holders(10, 1, 2, eta=0),
        lambda: check_complete(10, 1, 0.1, 0, HONEST),
    ],
)
def test_ranges_are_checked(call):
    with pytest.raises(UsageError, match=r"allowed: \d+ to \d+"):
        call()


def test_threat_is_checked():
    got = choose_sparse(100, corrupt=0.05, dropout=0.05, threat="semi-honest")
    assert got == SparseChoice(12, 6, got.max_corrupt_holders, got.min_surviving_holders)
    for bad in ("honest", None, 1):
        with pytest.raises(UsageError, match="'semi-honest', 'semi-malicious', 'active'"):
            choose_complete(10, corrupt=1, dropout=0.1, threat=bad)
