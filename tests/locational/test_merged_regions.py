"""Parents asked about in place of their regions, and maps: what a page and GeoJSON show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from privagg.cli import _locational_report
from privagg.cli.main import run as command
from privagg.datasets.declared import DIVISIONS
from privagg.errors import UsageError
from privagg.protocols.locational import (
    Chunk,
    Grid,
    H3Cells,
    Merged,
    Number,
    Params,
    Polygons,
    RegionList,
    run,
)
from privagg.protocols.locational.evaluation import COARSE, evaluate
from privagg.protocols.locational.maps import outlines_of
from privagg.protocols.locational.nested import run_nested

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
STATES = RegionList(list(DIVISIONS), DIVISIONS)


def test_respondents_are_in_the_parent_of_their_region():
    merged = Merged(RegionList(["x", "y", "z"], {"x": "q", "y": "p", "z": "q"}))
    assert merged.names == ("q", "p")
    assert merged.locate(["z", "y", "x", "nowhere", None]).tolist() == [0, 1, 0, -1, -1]
    other = Merged(RegionList(["x", "y", "z"], {"x": "q", "y": "p", "z": "p"}))
    assert merged.digest != other.digest
    for wrong in (RegionList(["x", "y"]), ["x"]):
        with pytest.raises(UsageError):
            Merged(wrong)


def test_merged_cells_are_on_the_map():
    outlines = outlines_of(Merged(STATES))
    assert [len(one.rings) for one in outlines] == [
        list(DIVISIONS.values()).count(one.region) for one in outlines
    ]
    assert outlines_of(Merged(RegionList(["x", "y"], {"x": "p", "y": "q"}))) is None
    cells = H3Cells.covering(4, (44, -94, 45, -93), parent_resolution=3)
    merged = Merged(cells)
    assert merged.by_points
    assert sum(len(own) for own in merged.outline()) == len(cells)
    assert merged.locate([44.5, 0.0], [-93.5, 0.0]).tolist()[1] == -1


def test_real_statistics_whose_raw_intervals_are_of_use():
    """At epsilon 3 raw intervals of three statistics hold, and are narrow in 80 % of regions."""
    rows = evaluate(sets=COARSE, epsilons=[3.0], mechanisms=["auto"], runs=10, seed=0)
    assert [row.set for row in rows] == list(COARSE)
    for row in rows:
        assert row.narrow >= 0.8
        # 90 intervals: four standard errors.
        assert row.covered > 0.95 - 4 * (0.95 * 0.05 / 90) ** 0.5


def test_parents_alone_are_asked_about(capsys):
    words = "simulate locational --input voters2016 --region state --parents census-divisions"
    asked = [*words.split(), "--levels", "parents", "--value", "voted_trump:bool"]
    asked += ["--missing", "other", "--epsilon", "3", "--json", "--quiet"]
    assert command(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["region"] for row in found["estimates"]} == set(DIVISIONS.values())
    assert len(found["estimates"]) == 9
    assert found["regions"]["kind"] == "parents"
    assert "parents" not in found
    assert found["truth"]["unknown"] == 19_668


@pytest.mark.parametrize(
    "words",
    [
        "--levels parents",
        "--parents census-divisions --levels sampled --items 2",
        "--parents census-divisions --levels adaptive --value race:ranking[a,b]",
    ],
)
def test_refused_levels(capsys, words):
    base = "simulate locational --input voters2016 --region state --quiet"
    assert command([*base.split(), *words.split()]) == 2
    assert "--levels" in capsys.readouterr().err


@pytest.mark.parametrize("adaptive", [False, True])
def test_means_on_both_levels_hold_the_truth(adaptive):
    rng = np.random.default_rng(0)
    names = [f"{parent}{child}" for parent in "abc" for child in range(3)]
    regions = RegionList(names, {name: name[0] for name in names})
    region = rng.choice(9, 6000, p=np.array([9, 8, 7, 6, 3, 2, 5, 4, 1]) / 45)
    numbers = rng.beta(1 + region % 3, 2, 6000) * 10
    chunk = Chunk([np.array(names)[region]], numbers)
    params = Params(regions=regions, value=Number(0, 10), epsilon=2.0)
    exact = [numbers[region // 3 == at].mean() for at in range(3)]
    held = total = 0
    for seed in range(40):
        found = run_nested(params, lambda: [chunk], adaptive=adaptive, seed=seed)
        assert found.true_rows[:3] == pytest.approx(exact)
        mean, low, high = found.means
        there = ~np.isnan(mean)
        held += ((low <= found.true_rows) & (found.true_rows <= high) & there).sum()
        total += there.sum()
        rows = found.rows()
        assert len(rows) == len(found.names)
        assert rows[0]["low"] < rows[0]["estimate"] < rows[0]["high"]
        # The children's respondents at either end are the parent's.
        children = found.count[found.parent == 0]
        assert children.size == 0 or np.allclose(children.sum(axis=0), found.count[0])
    assert total > 250
    assert abs(held / total - 0.95) < 4 * (0.95 * 0.05 / total) ** 0.5


def test_means_on_both_levels_are_reported(capsys):
    words = "simulate locational --input voters2016 --region state --parents census-divisions"
    asked = [*words.split(), "--levels", "sampled", "--value", "voted_trump:bool"]
    asked += ["--missing", "other", "--epsilon", "3"]
    assert command([*asked, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)["levels"]
    assert len(found["estimates"]) == len(found["truth"]) == 60
    assert all(0 < row["estimate"] < 1 for row in found["estimates"][:9])
    assert all(0 < true < 1 for true in found["truth"])


HOLE = [[3, 3], [3, 6], [6, 6], [6, 3], [3, 3]]
AROUND = [[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]]
ENCLAVE = {
    "inside": {"type": "Polygon", "coordinates": [HOLE]},
    "around": {"type": "MultiPolygon", "coordinates": [[AROUND, HOLE]]},
}


def test_a_hole_stays_a_hole():
    """On maps, rings that overlap leave a hole; GeoJSON has it as a polygon's second ring."""
    regions = Polygons(ENCLAVE)
    assert regions.locate([4.0, 1.0], [4.0, 1.0]).tolist() == [0, 1]
    assert [len(one.rings) for one in outlines_of(regions)] == [1, 2]
    params = Params(regions=regions, epsilon=3.0, other=True)
    result = run(params, [Chunk([np.full(50, 4.0), np.full(50, 4.0)])], seed=0)
    features = json.loads(_locational_report.estimates_geojson(result))["features"]
    again = Polygons({one["properties"]["name"]: one["geometry"] for one in features})
    assert again.locate([4.0, 1.0], [4.0, 1.0]).tolist() == [0, 1]
    assert features[1]["geometry"]["coordinates"] == [[AROUND, HOLE]]


def test_cells_that_cover_more_than_half_the_globe():
    assert len(H3Cells.covering(0, (-90, -180, 90, 180))) == 122
    wide = H3Cells.covering(1, (-10, -120, 10, 120))
    longitude = np.linspace(-119, 119, 60)
    assert (wide.locate(np.zeros(60), longitude) >= 0).all()
    assert wide.locate([0.0], [179.0]).tolist() == [-1]


def test_a_cell_across_the_line_at_180_degrees_is_in_one_piece():
    (cell,) = H3Cells.covering(3, (0.0, 179.9, 0.1, 179.99)).names[:1]
    ((ring,),) = H3Cells([cell]).outline()
    assert np.ptp(ring[:, 0]) < 5
    assert H3Cells([cell]).locate([0.05], [179.95]).tolist() == [0]


def test_points_beside_a_tiny_grid_are_outside():
    assert Grid(2, 2, (1e-320, 0, 2e-320, 1)).locate([40.0], [0.5]).tolist() == [-1]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_polygons_without_finite_numbers_are_refused(tmp_path, number):
    text = json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [5, 0], [1, 1], [0, 0]]]})
    shape = text.replace("5", number)
    path = tmp_path / "odd.geojson"
    path.write_text(f'{{"features": [{{"properties": {{"name": "a"}}, "geometry": {shape}}}]}}')
    with pytest.raises(UsageError):
        Polygons.read(path)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_every_region_of_the_page(tmp_path):
    path = tmp_path / "map.html"
    words = "simulate locational --input income2000 --region state --mechanism grr --epsilon 2"
    assert command([*words.split(), "--quiet", "--report", str(path)]) == 0
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags.append(f"--user-data-dir={tmp_path / 'profile'}")
    seen = subprocess.run(
        [CHROMIUM, *flags, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    shown = re.findall(r'data-region="([^"]*)"', seen.stdout)
    assert len(shown) == 3 * 51  # the estimate, the width of its interval, the truth
    assert set(shown) == set(DIVISIONS)
