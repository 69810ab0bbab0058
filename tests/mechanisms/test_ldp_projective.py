"""Projective geometry response: the geometry by brute force, exact epsilon, both decoders."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ldp_oracles import domain, oracle
from scipy import stats

from privagg.domain import Categorical
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms import PGR
from privagg.mechanisms._kernels import projective as kernels

SPACES = [(2, 2), (2, 3), (2, 7), (3, 4), (3, 13), (5, 6), (5, 31), (7, 8)]


def points(space):
    """Return all points by brute force: vectors whose first coordinate that is not 0 is 1."""
    found = []
    for vector in product(range(space.field), repeat=space.dimension):
        nonzero = [x for x in vector if x]
        if nonzero and nonzero[0] == 1:
            found.append(vector)
    # By how many coordinates follow the 1, then as digits.
    return sorted(found, key=lambda v: (space.dimension - v.index(1), v))


@pytest.mark.parametrize(("field", "k"), SPACES)
def test_numbering(field, k):
    space = kernels.Space(field, k)
    every = points(space)
    assert len(every) == space.points >= k
    found, pivot = kernels.vectors(field, space.dimension, np.arange(space.points))
    assert found.T.tolist() == [list(point) for point in every]
    assert pivot.tolist() == [point.index(1) for point in every]
    for factor in range(1, field):
        scaled = found * factor % field
        assert kernels.numbers_of(space, scaled).tolist() == list(range(space.points))


@pytest.mark.parametrize(("field", "k"), SPACES)
def test_hyperplanes(field, k):
    space = kernels.Space(field, k)
    every = np.array(points(space))
    orthogonal = every @ every.T % field == 0
    assert set(orthogonal.sum(axis=1).tolist()) == {space.plane}
    meets = {int((orthogonal[a] & orthogonal[b]).sum()) for a in range(k) for b in range(a)}
    assert meets == {space.meet}
    for value in range(space.points):
        for pick, count, expected in (
            (kernels.points_on, space.plane, orthogonal[value]),
            (kernels.points_off, space.points - space.plane, ~orthogonal[value]),
        ):
            found = pick(space, np.full(count, value), np.arange(count, dtype=np.uint32))
            assert sorted(found.tolist()) == np.flatnonzero(expected).tolist()


@pytest.mark.parametrize(("field", "k"), SPACES)
def test_both_decoders_add_up_the_hyperplanes(field, k):
    space = kernels.Space(field, k)
    counts = np.random.default_rng(1).integers(0, 1000, space.points)
    every = np.array(points(space))
    expected = ((every @ every.T % field == 0) @ counts)[:k]
    assert kernels.decode_each(space, counts, k).tolist() == expected.tolist()
    assert kernels.decode_all(space, counts, k).tolist() == expected.tolist()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("k", [2, 3, 5, 13])
def test_epsilon_p_and_q_by_enumeration(epsilon, k):
    mechanism = PGR(domain(k), epsilon)
    space = mechanism._space
    every = np.array(points(space))
    orthogonal = every @ every.T % space.field == 0
    own = mechanism.p / space.plane
    other = (1 - mechanism.p) / (space.points - space.plane)
    assert own / other == mechanism.ratio
    for x in range(k):
        row = [own if hit else other for hit in orthogonal[x]]
        assert sum(row) == 1
        for v in range(k):
            support = sum(chance for chance, hit in zip(row, orthogonal[v], strict=True) if hit)
            assert support == (mechanism.p if v == x else mechanism.q)


def test_reports_have_those_probabilities():
    n = 300_000
    mechanism = PGR(domain(6), 1.0)
    space = mechanism._space
    every = np.array(points(space))
    for value in (0, 5):
        drawn = mechanism.randomize_codes(np.full(n, value), from_seed(9)).columns[0]
        observed = np.bincount(drawn, minlength=space.points)
        hit = every @ every[value] % space.field == 0
        for shift, right in ((0.0, True), (0.02, False), (-0.02, False)):
            p = float(mechanism.p) + shift
            expected = n * np.where(hit, p / space.plane, (1 - p) / (space.points - space.plane))
            assert (stats.chisquare(observed, expected).pvalue > 1e-5) == right


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("k", [100, 1000])
def test_error_is_nearly_the_best(epsilon, k):
    """Within a tenth of subset selection's, and of 4 e / (e - 1)**2; in reports of a few bits."""
    mechanism = PGR(domain(k), epsilon)
    e = np.exp(epsilon)
    assert mechanism.variance(1) < 1.1 * 4 * e / (e - 1) ** 2
    if k == 1000:
        assert mechanism.variance(1) < 1.1 * oracle("ss", k, epsilon).variance(1)
    assert mechanism.report_bytes * 8 <= np.log2(k * (e + 2)) + 1


def test_large_domains():
    mechanism = PGR(Categorical(range(20_000)), 1.0)
    codes = np.full(20_000, 19_999, np.uint32)
    found = mechanism.estimate(mechanism.aggregate(mechanism.randomize_codes(codes, from_seed(1))))
    deviation = np.sqrt(mechanism.variance(20_000, 1.0))
    assert abs(found.raw[-1] - 1) < 4.5 * deviation
    rest = found.raw[:-1] / np.sqrt(mechanism.variance(20_000, 0.0))
    assert abs(rest.std() - 1) < 0.1


def test_too_large():
    with pytest.raises(UsageError, match="points"):
        PGR(Categorical(range(2**22)), 5.0)
