"""Where respondents are: lists, grids, H3 cells, polygons; and what they hold there."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.locational import (
    Boolean,
    Category,
    Grid,
    H3Cells,
    Number,
    Params,
    Polygons,
    Presence,
    Ranking,
    RegionList,
    Respondent,
    hold,
    parse_value,
    randomize,
    read_names,
)
from privagg.protocols.locational.geometry import check_box
from privagg.protocols.locational.regions import MISSING

CITY = (44.885, -93.335, 45.055, -93.19)


def some_points(count=500, seed=0):
    rng = np.random.default_rng(seed)
    south, west, north, east = CITY
    return rng.uniform(south - 0.01, north + 0.01, count), rng.uniform(west, east, count)


def square(west, south, size=1.0):
    east, north = west + size, south + size
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


# Lists.


def test_list_of_a_column():
    regions = RegionList(["Ohio", "Iowa"], {"Ohio": "east", "Iowa": "west"})
    column = pa.array(["Iowa", None, "Atlantis", "Ohio"]).dictionary_encode()
    assert regions.locate(column).tolist() == [1, -1, -1, 0]
    assert regions.parent_names == ("east", "west")
    assert regions.parent_indices.tolist() == [0, 1]
    assert regions.outline() is None


@pytest.mark.parametrize("names", ["ab", [], ["a", "a"], ["a", " "], ["a", 3], 7])
def test_refused_names(names):
    with pytest.raises(UsageError):
        RegionList(names)


@pytest.mark.parametrize("parents", [{"a": "x"}, {"a": "x", "b": "y", "c": "z"}, ["x", "y"]])
def test_refused_parents(parents):
    with pytest.raises(UsageError):
        RegionList(["a", "b"], parents)


def test_file_of_names(tmp_path):
    path = tmp_path / "states.txt"
    path.write_text("# states\nOhio\n\n  Iowa \n", encoding="utf-8")
    assert read_names(path) == ["Ohio", "Iowa"]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError):
        read_names(path)
    with pytest.raises(UsageError, match="name of a region in each line"):
        read_names(tmp_path / "none.txt")


# Grids.


def test_grid_against_a_loop():
    grid = Grid(5, 7, CITY)
    latitude, longitude = some_points()
    south, west, north, east = CITY
    expected = []
    for lat, lon in zip(latitude, longitude, strict=True):
        if not (south <= lat <= north and west <= lon <= east):
            expected.append(-1)
            continue
        row = sum(lat >= south + (north - south) * i / 5 for i in range(1, 5))
        column = sum(lon >= west + (east - west) * i / 7 for i in range(1, 7))
        expected.append(row * 7 + column)
    found = grid.locate(latitude, longitude)
    assert (found == expected).mean() > 0.99  # on a line both are right
    assert -1 in found
    assert grid.locate([north], [east]).tolist() == [34]


def test_outlines_of_a_grid_hold_its_points():
    grid = Grid(4, 3, CITY)
    latitude, longitude = some_points()
    for at, lat, lon in zip(grid.locate(latitude, longitude), latitude, longitude, strict=True):
        if at >= 0:
            (ring,) = grid.outline()[at]
            assert ring[:, 0].min() <= lon <= ring[:, 0].max()
            assert ring[:, 1].min() <= lat <= ring[:, 1].max()


@pytest.mark.parametrize(
    "regions", [Grid(3, 3, CITY), H3Cells.covering(7, CITY)], ids=["grid", "h3"]
)
def test_exchanged_coordinates_are_said(regions):
    latitude, longitude = some_points()
    with pytest.raises(UsageError, match="exchange"):
        regions.locate(longitude, latitude)
    with pytest.raises(UsageError, match="exchange"):
        regions.locate(longitude[:1], latitude[:1])
    # Points elsewhere are in no region, not exchanged.
    assert regions.locate([10.0], [10.0]).tolist() == [-1]


def test_a_few_points_beside_a_box_that_overlaps_its_mirror_are_outside():
    grid = Grid(2, 2, (0, 0, 10, 30))
    assert grid.locate([20.0], [5.0]).tolist() == [-1]
    with pytest.raises(UsageError, match="exchange"):
        grid.locate([20.0] * 50, [5.0] * 50)


def test_exchanged_boxes_are_said():
    with pytest.raises(UsageError, match="Latitude comes first"):
        check_box([-93.3, 44.8, -93.1, 45.0])


@pytest.mark.parametrize(
    "box",
    [(1, 1, 1, 2), (0, 5, 1, 4), (0, 0, 91, 1), (0, 0, 1), "0,0,1,1", (0, 0, 1, float("nan"))],
)
def test_refused_boxes(box):
    with pytest.raises(UsageError):
        Grid(2, 2, box)


def test_points_off_the_globe_and_missing_ones():
    grid = Grid(2, 2, (0, 0, 10, 10))
    with pytest.raises(UsageError, match="off the globe"):
        grid.locate([95.0], [3.0])
    with pytest.raises(UsageError):
        grid.locate([float("inf")], [3.0])
    with pytest.raises(UsageError):
        grid.locate(["5"], [3.0])
    with pytest.raises(UsageError):
        grid.locate([5.0, 5.0], [3.0])
    assert grid.locate([None, 5.0], [1.0, float("nan")]).tolist() == [MISSING] * 2
    assert grid.locate([], []).tolist() == []


def test_a_missing_coordinate_is_an_error_by_default():
    grid = Grid(2, 2, (0, 0, 10, 10))
    with pytest.raises(UsageError, match="missing"):
        hold(Params(regions=grid, epsilon=1.0, other=True), [[float("nan")], [1.0]])
    held = hold(
        Params(regions=grid, epsilon=1.0, other=True, missing="other"), [[float("nan")], [1.0]]
    )
    assert held.codes.tolist() == [[4]]
    assert held.unknown == 1


# H3 cells and polygons.


def test_h3_cells_cover_the_box():
    regions = H3Cells.covering(7, CITY, parent_resolution=5)
    latitude, longitude = some_points()
    inside = (latitude >= CITY[0]) & (latitude <= CITY[2])
    assert (regions.locate(latitude, longitude)[inside] >= 0).all()
    assert regions.locate([0.0], [0.0]).tolist() == [-1]
    assert len(regions.outline()) == len(regions) > len(regions.parent_names) > 1
    with pytest.raises(UsageError):
        H3Cells.covering(15, (0, 0, 10, 10))
    with pytest.raises(UsageError):
        H3Cells(["nonsense"])


def test_polygons_against_their_squares(tmp_path):
    features = [
        {"type": "Feature", "properties": {"name": f"s{at}"}, "geometry": square(at, 0)}
        for at in range(3)
    ]
    path = tmp_path / "squares.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    regions = Polygons.read(path)
    rng = np.random.default_rng(1)
    longitude, latitude = rng.uniform(-0.5, 3.5, 300), rng.uniform(-0.5, 1.5, 300)
    there = (latitude >= 0) & (latitude <= 1) & (longitude >= 0) & (longitude <= 3)
    assert (
        regions.locate(latitude, longitude).tolist()
        == np.where(there, np.floor(longitude), -1).astype(int).tolist()
    )
    # On a common edge: the first.
    assert regions.locate([0.5], [1.0]).tolist() == [0]
    assert regions.bounds == (0, 0, 1, 3)


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        "[]",
        '{"features": []}',
        '{"features": [{"properties": {"name": "a"}, "geometry": {"type": "Point"}}]}',
        '{"features": [{"properties": {}, "geometry": null}]}',
    ],
)
def test_refused_geojson(tmp_path, content):
    path = tmp_path / "bad.geojson"
    path.write_text(content)
    with pytest.raises(UsageError):
        Polygons.read(path)


def test_self_crossing_polygons_are_refused():
    bow = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}
    with pytest.raises(UsageError, match="invalid"):
        Polygons({"bow": bow})


# What respondents hold.

REGIONS = RegionList(["a", "b", "c"])


def test_cells_of_region_and_value():
    params = Params(regions=REGIONS, value=Category(["x", "y"]), epsilon=1.0)
    held = hold(params, [["a", "c", "b"]], ["y", "x", "x"])
    assert held.codes.reshape(-1).tolist() == [1, 4, 2]
    assert "a" not in repr(held).split("(")[1]


def test_numbers_are_rounded_without_bias():
    params = Params(regions=REGIONS, value=Number(0, 10), epsilon=1.0)
    n = 40_000
    held = hold(params, [["a"] * n], [3.0] * n, entropy=from_seed(5))
    share = (held.codes % 2 == 1).mean()
    assert abs(share - 0.3) < 5 * (0.21 / n) ** 0.5
    assert held.exact[0, 0] == pytest.approx(-0.4)
    ends = hold(params, [["a", "a"]], [0.0, 10.0])
    assert ends.codes.reshape(-1).tolist() == [0, 1]


@pytest.mark.parametrize("bad", [float("nan"), None, float("inf"), 10.5, -1.0])
@pytest.mark.parametrize("clamp", [False, True])
def test_bad_numbers_are_errors_by_default(bad, clamp):
    params = Params(regions=REGIONS, value=Number(0, 10), epsilon=1.0, clamp=clamp)
    if clamp and bad in (10.5, -1.0):
        held = hold(params, [["a"]], [bad])
        assert held.codes.tolist() == [[int(bad > 0)]]
        assert held.clamped == 1
        return
    with pytest.raises(UsageError) as caught:
        hold(params, [["a"]], [bad])
    assert "10.5" not in str(caught.value)


def test_unknown_regions_and_values():
    strict = Params(regions=REGIONS, value=Boolean(), epsilon=1.0)
    with pytest.raises(UsageError):
        hold(strict, [["a", "z"]], [True, True])
    with pytest.raises(UsageError):
        hold(strict, [["a"]], [None])
    open_ = Params(regions=REGIONS, value=Boolean(), epsilon=1.0, other=True, missing="other")
    held = hold(open_, [["a", "z", "b", None]], [True, True, None, False])
    assert held.codes.reshape(-1).tolist() == [1, 6, 6, 6]
    assert held.unknown == 3
    # A place outside has a cell; a missing value still is an error.
    places_only = Params(regions=REGIONS, value=Boolean(), epsilon=1.0, other=True)
    assert hold(places_only, [["z"]], [True]).codes.tolist() == [[6]]
    with pytest.raises(UsageError):
        hold(places_only, [["a"]], [None])


def test_rankings_as_texts_and_as_places():
    ranking = Ranking(["x", "y", "z"])
    assert ranking.scores(["y > x > z", "z>y>x"]).tolist() == [[1, 2, 0], [0, 1, 2]]
    assert ranking.scores(np.array([[1, 0, 2]])).tolist() == [[1, 2, 0]]
    for bad in (["x > y"], ["x > y > y"], [3], np.array([[0, 0, 1]])):
        with pytest.raises(UsageError):
            ranking.scores(bad)


def test_several_items_of_a_respondent():
    params = Params(regions=REGIONS, epsilon=1.0, items=2)
    held = hold(params, [["a", "c", "b"]], owners=np.array([0, 0, 2]), users=4)
    assert held.codes.tolist() == [[0, 2], [-1, -1], [1, -1], [-1, -1]]
    with pytest.raises(UsageError, match="one region"):
        hold(params, [["a", "a"]], owners=np.array([0, 0]))
    with pytest.raises(UsageError, match="more items"):
        hold(params, [["a", "b", "c"]], owners=np.array([0, 0, 0]))
    with pytest.raises(UsageError):
        hold(params, [["a", "b"]], owners=np.array([1, 0]))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bool", Boolean),
        ("int[0,5]", Number),
        ("float[-1.5, 2e3]", Number),
        ("category[a, b]", Category),
        ("ranking[a,b,c]", Ranking),
    ],
)
def test_values_are_declared_in_words(text, kind):
    assert isinstance(parse_value(text), kind)


@pytest.mark.parametrize(
    "text",
    ["float", "int[1]", "int[1.5,2]", "float[a,b]", "bool[x]", "text", "category[a]", "int[3,3]"],
)
def test_refused_values(text):
    with pytest.raises(UsageError):
        parse_value(text)


def test_one_region_needs_a_value():
    with pytest.raises(UsageError, match="one cell"):
        Params(regions=RegionList(["a"]), value=Presence(), epsilon=1.0)
    assert Params(regions=RegionList(["a"]), value=Boolean(), epsilon=1.0).cells.size == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 0.0},
        {"epsilon": True},
        {"mechanism": "auto"},
        {"mechanism": "nope"},
        {"items": 4},
        {"items": 0},
        {"missing": "other"},
        {"missing": "drop"},
        {"clamp": 1},
        {"regions": ["a"]},
        {"value": "bool"},
        {"value": Ranking(["x", "y"]), "items": 2},
        {"mechanism": "gaussian", "delta": 0.5},
    ],
    ids=str,
)
def test_refused_surveys(changed):
    with pytest.raises(UsageError):
        Params(**{"regions": REGIONS, "epsilon": 1.0} | changed)


@pytest.mark.parametrize("text", ["category[a,]", "category[]", "ranking[a,,b]", "float[,1]", 5])
def test_values_with_a_gap_are_refused(text):
    with pytest.raises(UsageError):
        parse_value(text)


def test_a_value_that_nobody_asks_for_is_refused():
    """Presence reports no value: one that is given would be dropped in silence."""
    params = Params(regions=REGIONS, epsilon=1.0)
    with pytest.raises(UsageError, match="presence"):
        hold(params, [["a"]], [True])
    one = Respondent(params)
    with pytest.raises(UsageError, match="presence"):
        one.report(("a", True))
    assert len(one.report(("a", None))) == 1


def test_many_regions_with_parents():
    """A hundred thousand: what looks at all names for each name would take minutes."""
    names = [str(at) for at in range(100_000)]
    regions = RegionList(names, {name: name[-1] for name in names})
    assert len(regions.parent_names) == 10
    with pytest.raises(UsageError, match="'99999' twice"):
        RegionList([*names, "99999"])


@pytest.mark.parametrize("mechanism", ["privset", "grr"])
@pytest.mark.parametrize("value", [Presence(), Boolean(), Number(0, 1), Category(["x", "y"])])
def test_nobody_has_any_of_several_items(mechanism, value):
    params = Params(regions=REGIONS, value=value, epsilon=2.0, items=2, mechanism=mechanism)
    values = None if isinstance(value, Presence) else []
    held = hold(params, [[]], values, owners=np.zeros(0, np.int64), users=5)
    assert held.codes.tolist() == [[-1, -1]] * 5
    assert len(randomize(params, held)) == 5
    assert len(Respondent(params).report()) == 1
    with pytest.raises(UsageError, match="1 to 1"):
        Respondent(Params(regions=REGIONS, value=value, epsilon=2.0)).report()
