"""The five conditions and their tails against exact fractions, SciPy and enumeration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from privagg.protocols.secagg import conditions, hypergeometric
from privagg.protocols.secagg.thresholds import (
    Threat,
    choose_sparse,
    disconnection_probability,
    max_corrupt_holders,
    min_surviving_holders,
)


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(2, 60),
    c=st.integers(0, 60),
    d=st.integers(0, 60),
    two=st.booleans(),
    sigma=st.integers(1, 12),
    eta=st.integers(1, 12),
    start=st.integers(1, 20),
)
def test_search_misses_no_degree(n, c, d, two, sigma, eta, start):
    """The skipping search finds what a plain walk with exact fractions finds."""
    c, d = c % (n + 1), d % (n + 1)
    want = None
    for k in range(start + start % 2, n - 1, 2):
        bad = min(n, c + d)
        cut = Fraction(n * (n - k - 1), 2) * Fraction(math.comb(bad, k), math.comb(n, k))
        if cut >= Fraction(1, 2 ** (sigma + 1)):
            continue
        t1 = exact_upper(n, c, k, Fraction(1, n * 2 ** (sigma + 1)))
        t2 = exact_lower(n, n - d, k, Fraction(1, n * 2**eta))
        t = max((k + t1) // 2 + 1 if two else t1 + 1, 2)
        if t <= t2:
            want = (k, t, t1, t2)
            break
    assert conditions.search(n, c, d, two, sigma, eta, start) == want


def exact_pmf(n, marked, k):
    total = math.comb(n, k)
    return [
        Fraction(math.comb(marked, x) * math.comb(n - marked, k - x), total) for x in range(k + 1)
    ]


def exact_upper(n, marked, k, limit):
    pmf = exact_pmf(n, marked, k)
    return next(x for x in range(k + 1) if sum(pmf[x + 1 :]) <= limit)


def exact_lower(n, marked, k, limit):
    pmf = exact_pmf(n, marked, k)
    return next(x for x in range(k + 1) if sum(pmf[: x + 1]) >= limit)


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(2, 90),
    marked=st.integers(0, 90),
    k=st.integers(0, 90),
    bits=st.integers(1, 60),
)
def test_quantiles_are_exact(n, marked, k, bits):
    marked, k = marked % (n + 1), k % (n + 1)
    upper = exact_upper(n, marked, k, Fraction(1, n * 2 ** (bits + 1)))
    assert max_corrupt_holders(n, marked, k, bits) == upper
    assert min_surviving_holders(n, marked, k, bits) == exact_lower(
        n, marked, k, Fraction(1, n * 2**bits)
    )


@pytest.mark.parametrize("n", [200, 5000, 10**6])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("k", [1, 24, 150])
def test_quantiles_against_scipy(n, share, k):
    marked = int(n * share)
    x = np.arange(-1, k + 1)
    upper = x[hypergeom.sf(x, n, marked, k) <= 2.0**-41 / n][0]
    lower = x[hypergeom.cdf(x, n, marked, k) >= 2.0**-20 / n][0]
    assert max_corrupt_holders(n, marked, k) == upper
    assert min_surviving_holders(n, marked, k) == lower


@pytest.fixture
def exact_calls(monkeypatch):
    """Count the decisions that whole numbers take."""
    calls = []
    true = hypergeometric._tail_fits

    def counted(*args):
        calls.append(args)
        return true(*args)

    monkeypatch.setattr(hypergeometric, "_tail_fits", counted)
    return calls


# Two marked of n: P[X > 1] = k (k - 1) / (n (n - 1)), which is 2**-(s + 1) / n exactly for these.
@pytest.mark.parametrize(("k", "sigma"), [(2, 1), (4, 3), (12, 10), (30, 7)])
def test_corrupt_tie_is_within(exact_calls, k, sigma):
    n = k * (k - 1) * 2 ** (sigma + 1) + 1
    assert max_corrupt_holders(n, 2, k, sigma) == 1
    assert exact_calls
    assert max_corrupt_holders(n - 1, 2, k, sigma) == 2


@pytest.mark.parametrize(("k", "eta"), [(2, 1), (4, 4), (12, 10), (30, 7)])
def test_surviving_tie_counts(exact_calls, k, eta):
    n = k * (k - 1) * 2**eta + 1
    assert min_surviving_holders(n, n - 2, k, eta) == k - 2
    assert exact_calls
    assert min_surviving_holders(n + 1, n - 1, k, eta) == k - 1


def test_no_tie_needs_no_whole_numbers(exact_calls):
    choose_sparse(1000, corrupt=0.05, dropout=0.05, threat=Threat.SEMI_HONEST)
    assert not exact_calls


def test_both_paths_agree(monkeypatch, exact_calls):
    grid = [(n, m, k) for n in (50, 333, 4000) for m in (0, 3, n // 3, n - 1) for k in (1, 12, 44)]
    fast = [(max_corrupt_holders(*g), min_surviving_holders(*g)) for g in grid]
    monkeypatch.setattr(hypergeometric, "TIE", math.inf)
    slow = [(max_corrupt_holders(*g), min_surviving_holders(*g)) for g in grid]
    assert len(exact_calls) > len(grid)
    assert fast == slow


def test_connection_tie(monkeypatch):
    """At the limit itself condition 1 fails, since it asks for less."""
    # n = 5, k = 2, two bad: 5 * 2 / 2 places, each with probability 1 / 10.
    assert disconnection_probability(5, 1, 1, 2) == pytest.approx(0.5)
    assert not conditions.connected(5, 2, 2, 0)
    monkeypatch.setattr(conditions, "_connected_exactly", lambda *args: True)
    assert conditions.connected(5, 2, 2, 0)


def test_connection_paths_agree(monkeypatch):
    grid = [
        (n, b, k, s) for n in (9, 40, 300) for b in (2, n // 2, n) for k in (2, 6) for s in (1, 9)
    ]
    fast = [conditions.connected(*g) for g in grid]
    monkeypatch.setattr(conditions, "TIE", 1e9)
    assert fast == [conditions.connected(*g) for g in grid]
    assert len(set(fast)) == 2


@pytest.mark.parametrize(("n", "k"), [(8, 2), (9, 4), (10, 4)])
def test_disconnection_bounds_every_cut(n, k):
    """Count the sets of bad places that cut the ring, by enumeration."""
    steps = [s for s in range(-k // 2, k // 2 + 1) if s]
    for bad in range(n - 1):
        cuts = 0
        for gone in combinations(range(n), bad):
            left = set(range(n)) - set(gone)
            seen, stack = set(), [min(left)]
            while stack:
                at = stack.pop()
                seen.add(at)
                stack += [v for s in steps if (v := (at + s) % n) in left and v not in seen]
            cuts += seen != left
        bound = disconnection_probability(n, bad, 0, k)
        assert cuts / math.comb(n, bad) <= bound * (1 + 1e-12)
        assert (cuts == 0) == (bound == 0)


def test_disconnection_values():
    assert disconnection_probability(100, 2, 3, 6) == 0.0
    assert disconnection_probability(100, 50, 10, 99) == 0.0
    want = 100 * 87 / 2 * math.comb(30, 12) / math.comb(100, 12)
    assert disconnection_probability(100, 10, 20, 12) == pytest.approx(want, rel=1e-12)
