"""The epsilon of every type's report, by enumeration: region and value changed together."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from locational_enumeration import largest_ratio, report_chances, set_chances

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms.exact import exp_lower, exp_upper, log_upper
from privagg.protocols.locational import (
    FAMILIES,
    ORACLES,
    Aggregator,
    Boolean,
    Category,
    Grid,
    H3Cells,
    Number,
    OneHotGaussian,
    Params,
    Presence,
    PrivSet,
    Ranking,
    RegionList,
    hold,
    randomize,
)
from privagg.protocols.locational.gaussian import delta_of_two
from privagg.protocols.locational.geo_oracles import GEO, centres

REGIONS = RegionList(["a", "b", "c"])
VALUES = {
    "presence": Presence(),
    "category": Category(["x", "y"]),
    "bool": Boolean(),
    "number": Number(0, 10),
    "ranking": Ranking(["p", "q", "r"]),
}
EXACT = [name for name in ORACLES if name not in ("gaussian", "privset")]


@pytest.mark.parametrize("oracle", EXACT)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_epsilon_of_each_type_by_enumeration(oracle, value, epsilon):
    params = Params(
        regions=REGIONS, value=VALUES[value], epsilon=epsilon, mechanism=oracle, other=True
    )
    for one in params.oracles:
        assert one.domain.known == 3 * VALUES[value].k
        # Every two cells differ in the region, in the value, in both, or one is OTHER.
        found = largest_ratio([report_chances(one, cell) for cell in range(one.k)])
        assert found == one.ratio
    assert params.ratio <= exp_lower(epsilon)
    assert params.epsilon_realised <= epsilon
    assert params.epsilon_realised == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("oracle", ["ss", "grr", "oue"])
def test_epsilon_of_sampled_sets_by_enumeration(oracle):
    """One of up to two items, drawn after filling up: the mean of the items' reports."""
    params = Params(regions=REGIONS, epsilon=1.0, mechanism=oracle, items=2)
    one, padding = params.oracles[0], params.cells.padding
    sets = [(), *[(a,) for a in range(3)], *itertools.combinations(range(3), 2)]
    rows = []
    for items in sets:
        filled = [*items, *[padding] * (2 - len(items))]
        pairs = zip(*(report_chances(one, cell) for cell in filled), strict=True)
        rows.append([sum(pair) / 2 for pair in pairs])
    assert all(sum(row) == 1 for row in rows)
    # Both items may change, and the ratio of means is at most that of the worst.
    assert 1 < largest_ratio(rows) <= one.ratio <= exp_lower(1.0)


@pytest.mark.parametrize(
    ("m", "w", "epsilon"), [(1, 2, 1.0), (2, 1, 0.5), (2, 2, 1.0), (3, 2, 2.0)]
)
def test_epsilon_of_privset_by_enumeration(m, w, epsilon):
    params = Params(regions=RegionList(list("abcd")), epsilon=epsilon, items=max(m, 2))
    oracle = PrivSet(params.cells, epsilon, m, w)
    sets = [s for size in range(m + 1) for s in itertools.combinations(range(oracle.k), size)]
    rows = [set_chances(oracle, items) for items in sets]
    assert all(sum(row) == 1 for row in rows)
    assert largest_ratio(rows) == oracle.ratio <= exp_lower(epsilon)
    elements = list(itertools.combinations(range(oracle.elements), oracle.w))
    for items, row in zip(sets, rows, strict=True):
        for element in range(oracle.k):
            held = sum(p for p, found in zip(row, elements, strict=True) if element in found)
            # Filling up does not depend on which items there are, nor does the support of others.
            assert held == (oracle.p if element in items else oracle.q)


def test_privset_draws_what_is_enumerated():
    params = Params(regions=RegionList(list("abcd")), epsilon=1.0, items=2)
    oracle = PrivSet(params.cells, 1.0, 2, 2)
    runs = 40_000
    items = np.tile(np.array([[2, -1]]), (runs, 1))
    columns = oracle.randomize_sets(items, from_seed(3)).columns[0]
    words = columns.reshape(runs)
    found = {
        value: count for value, count in zip(*np.unique(words, return_counts=True), strict=True)
    }
    subsets = itertools.combinations(range(oracle.elements), 2)
    for chance, pair in zip(set_chances(oracle, (2,)), subsets, strict=True):
        expected = float(chance) * runs
        assert abs(found[2 ** pair[0] + 2 ** pair[1]] - expected) < 5 * expected**0.5


def test_gaussian_delta_is_that_of_all_pairs_of_entries():
    params = Params(regions=REGIONS, epsilon=2.0, mechanism="gaussian", delta=1e-3)
    oracle = params.oracles[0]
    assert isinstance(oracle, OneHotGaussian)
    zero, one = oracle.noise.row(0), oracle.noise.row(1)
    weight = exp_lower(2.0)
    gaps = [
        one[a] * zero[b] - weight * zero[a] * one[b]
        for a in range(len(zero))
        for b in range(len(zero))
    ]
    slow = sum((max(Fraction(0), gap) for gap in gaps), Fraction(0)) / 2**128
    assert slow == delta_of_two(oracle.noise, weight)
    assert slow <= Fraction(1e-3)
    assert params.delta_realised <= 1e-3
    # A sensitivity of 1, as published, would not do.
    assert oracle.sigma > 1.3 * OneHotGaussian(params.cells, 2.0 * 2**0.5, 1e-3).sigma


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 10.0])
def test_gaussian_is_calibrated_nearly_to_its_delta(epsilon):
    oracle = Params(regions=REGIONS, epsilon=epsilon, mechanism="gaussian").oracles[0]
    assert oracle.delta_realised <= 1e-6
    assert oracle.delta_realised > 1e-7


@pytest.mark.parametrize("name", [*FAMILIES, *ORACLES])
def test_no_mechanism_exceeds_the_stated_epsilon(name):
    params = Params(regions=REGIONS, epsilon=1.0, mechanism=name, items=2)
    assert params.ratio <= exp_upper(1.0)
    assert log_upper(params.ratio) <= 1.0
    assert "replaced together" in params.guarantee


def test_reports_of_two_groups_or_surveys_are_not_mixed_up():
    ranking = Params(regions=REGIONS, value=VALUES["ranking"], epsilon=1.0)
    assert len({one.digest for one in ranking.oracles}) == 3
    others = [
        {"epsilon": 2.0},
        {"regions": RegionList(["a", "b", "d"])},
        {"value": Number(0, 11)},
        {"other": True},
        {"mechanism": "oue"},
    ]
    base = {"regions": REGIONS, "value": VALUES["number"], "epsilon": 1.0}
    digests = {Params(**base | changed).digest for changed in [{}, *others]}
    assert len(digests) == len(others) + 1


def test_a_seeded_report_repeats_and_others_do_not():
    params = Params(regions=REGIONS, value=VALUES["number"], epsilon=1.0)
    held = hold(params, [["a", "b"] * 50], [3.0] * 100, entropy=from_seed(1))
    first, second = (randomize(params, held, from_seed(2)).encode() for _ in range(2))
    assert first == second
    assert randomize(params, held).encode() != randomize(params, held).encode()


@pytest.mark.parametrize("mechanism", GEO)
def test_geo_indistinguishability_of_every_two_regions(mechanism):
    grid = Grid(3, 4, (44.9, -93.3, 45.0, -93.2))
    per_metre = 0.001
    params = Params(regions=grid, epsilon=per_metre, mechanism=mechanism, notion="geo")
    oracle = params.oracles[0]
    counts = oracle.channel.counts
    distances = oracle.distances
    assert 2500 < distances[0, 1] < 3000 or 1900 < distances[0, 1] < 2100
    for one, two in itertools.permutations(range(12), 2):
        ratio = max(Fraction(int(a), int(b)) for a, b in zip(counts[one], counts[two], strict=True))
        assert ratio <= exp_upper(per_metre * distances[one, two])
    assert "metres" in params.guarantee
    held = hold(params, [[44.95] * 300, [-93.25] * 300])
    aggregator = Aggregator(params)
    aggregator.receive(randomize(params, held, from_seed(1)))
    found = aggregator.estimate()
    assert found.count.sum() == pytest.approx(300)
    assert found.count.argmax() == grid.locate([44.95], [-93.25])[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"mechanism": "ss"},
        {"value": Boolean()},
        {"other": True},
        {"items": 2},
        {"regions": REGIONS, "mechanism": "region-exponential"},
        {"regions": REGIONS},
        {"notion": "near"},
        {"notion": "local"},
    ],
    ids=str,
)
def test_refused_geo_surveys(changed):
    grid = Grid(2, 2, (0, 0, 1, 1))
    base = {"regions": grid, "epsilon": 0.001, "mechanism": "planar-laplace", "notion": "geo"}
    with pytest.raises(UsageError):
        Params(**base | changed)


@pytest.mark.parametrize("box", [(44.9, -93.3, 45.0, -93.2), (10.0, 0.0, 80.0, 60.0)])
def test_metres_are_those_of_the_globe(box):
    """A lattice as wide as the middle of the box would tell northern cells apart by more."""
    grid = Grid(3, 4, box)
    per_metre = 0.001 if box[2] == 45.0 else 2e-6
    params = Params(regions=grid, epsilon=per_metre, mechanism="planar-laplace", notion="geo")
    latitude, longitude = centres(grid)
    phi, lam = np.radians(latitude), np.radians(longitude)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    globe = 6_371_008.8 * np.arccos(np.clip(points.T @ points, -1, 1))
    counts = params.oracles[0].channel.counts
    for one, two in itertools.permutations(range(12), 2):
        ratio = max(int(a) / int(b) for a, b in zip(counts[one], counts[two], strict=True))
        assert math.log(ratio) <= per_metre * globe[one, two] * (1 + 1e-6)


def test_the_middle_of_a_cell_across_the_line_at_180_degrees():
    cells = H3Cells.covering(3, (0.0, 179.9, 0.1, 179.99))
    latitude, longitude = centres(cells)
    assert (np.abs(longitude) > 178).all()
    assert (np.abs(latitude) < 2).all()
