"""Outlines of regions: tiles, grids, H3 cells and GeoJSON."""

from __future__ import annotations

import json
import math

import pytest

from privagg.errors import UsageError
from privagg.protocols.locational.outlines import (
    STATES,
    geojson,
    grid,
    h3_cells,
    read_geojson,
    us_states,
)


def area(ring):
    pairs = zip(ring, [*ring[1:], ring[0]], strict=True)
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2


def feature(label, rings, kind="Polygon"):
    geometry = {"type": kind, "coordinates": rings}
    return {"type": "Feature", "id": label, "properties": {"name": label}, "geometry": geometry}


RING = [[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]


def test_every_state_has_a_tile_of_its_own():
    assert len(STATES) == 52
    assert len(set(STATES.values())) == 52
    assert {"DC", "PR", "AK", "HI", "TX"} < set(STATES)
    # West of, north of.
    for west, east in (("WA", "ME"), ("CA", "VA"), ("AZ", "FL"), ("OR", "NV"), ("KS", "MD")):
        assert STATES[west][1] < STATES[east][1]
    for north, south in (("ND", "TX"), ("MN", "LA"), ("NY", "FL"), ("WA", "CA"), ("MI", "OH")):
        assert STATES[north][0] < STATES[south][0]


@pytest.mark.parametrize("kind", ["hex", "tile"])
def test_tiles_do_not_overlap_and_are_of_one_size(kind):
    outlines = us_states(kind)
    sizes = [area(one.rings[0]) for one in outlines]
    assert max(sizes) == pytest.approx(min(sizes))
    middles = [
        tuple(sum(axis) / len(one.rings[0]) for axis in zip(*one.rings[0], strict=True))
        for one in outlines
    ]
    gaps = [math.dist(a, b) for at, a in enumerate(middles) for b in middles[:at]]
    assert min(gaps) >= 1 - 1e-9


def test_states_by_name():
    assert [one.region for one in us_states(regions=["tx", "CA"])] == ["tx", "CA"]
    for arguments in (("round",), ("hex", ["ZZ"]), ("hex", [7])):
        with pytest.raises(UsageError):
            us_states(*arguments)


def test_a_grid_keeps_its_proportions_on_the_earth():
    cells = grid(2, 4, south=59.0, west=10.0, north=61.0, east=14.0)
    assert [one.region for one in cells[:5]] == ["0,0", "0,1", "0,2", "0,3", "1,0"]
    xs = [x for one in cells for x, _ in one.rings[0]]
    ys = [y for one in cells for _, y in one.rings[0]]
    assert max(ys) - min(ys) == pytest.approx(2)
    assert max(xs) - min(xs) == pytest.approx(4 * 0.5)
    assert grid(1, 2, regions=["a", "b"])[1].rings[0][0] == (1.0, 0.0)
    for changes in ({"rows": 0}, {"north": -1.0}, {"east": math.nan}, {"regions": ["a"]}):
        with pytest.raises(UsageError):
            grid(**{"rows": 2, "columns": 2} | changes)


def test_h3_cells():
    h3 = pytest.importorskip("h3", reason="h3 is not installed")
    cells = sorted(h3.grid_disk(h3.latlng_to_cell(44.97, -93.26, 7), 1))
    found = h3_cells(cells)
    assert [one.region for one in found] == cells
    assert all(len(one.rings[0]) == 6 for one in found)
    assert max(abs(x) for one in found for x, _ in one.rings[0]) < 93
    around = h3_cells(sorted(h3.grid_disk(h3.latlng_to_cell(0.0, 180.0, 3), 1)))
    xs = [x for one in around for x, _ in one.rings[0]]
    assert max(xs) - min(xs) < 10
    for cells in ([], ["nowhere"], [3]):
        with pytest.raises(UsageError):
            h3_cells(cells)


def test_geojson(tmp_path):
    many = feature("b", [[RING], [[[5, 5], [6, 5], [6, 6], [5, 5]]]], "MultiPolygon")
    collection = {"type": "FeatureCollection", "features": [feature("a", [RING]), many]}
    path = tmp_path / "regions.geojson"
    path.write_text(json.dumps(collection), "utf-8")
    found = read_geojson(path, "name")
    assert found == geojson(collection)
    assert [(one.region, len(one.rings)) for one in found] == [("a", 1), ("b", 2)]
    squeeze = math.cos(math.radians(3))
    assert found[0].rings[0] == ((0, 0), (2 * squeeze, 0), (2 * squeeze, 1), (0, 1))


@pytest.mark.parametrize(
    "features",
    [
        [],
        ["a"],
        [feature(None, [RING])],
        [feature(True, [RING])],
        [feature("a", [RING]), feature("a", [RING])],
        [feature("a", [RING], "Point")],
        [feature("a", [])],
        [feature("a", [RING[:3]])],
        [feature("a", [[[0, "x"], *RING]])],
        [feature("a", [[[0, True], *RING]])],
        [feature("a", [[[44.9, -93.2], *RING[1:]]])],
        [feature("a", [[[math.nan, 0], *RING]])],
        [{"id": "a", "geometry": None}],
    ],
    ids=str,
)
def test_what_is_no_geojson(features):
    with pytest.raises(UsageError):
        geojson({"features": features})


def test_files_that_are_no_geojson(tmp_path):
    (tmp_path / "bad").write_text("{", "utf-8")
    for path in ("bad", "absent"):
        with pytest.raises(UsageError):
            read_geojson(tmp_path / path)
    for collection in ([], {}, None):
        with pytest.raises(UsageError):
            geojson(collection)
