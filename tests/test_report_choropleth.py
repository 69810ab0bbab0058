"""Choropleths: what a page and a picture of them hold, also as a browser sees the page."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from privagg import _report_choropleth, _report_draw
from privagg._report_parts import Series
from privagg.errors import UsageError
from privagg.protocols.locational.outlines import grid, us_states
from privagg.report import Area, Choropleth, Plot, Report

SQUARE = [[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def areas(outlines, **changes):
    return [
        Area(
            region=one.region,
            rings=one.rings,
            label=one.label,
            estimate=float(at),
            low=at - 1.5,
            high=at + 2.0,
            count=10 * at,
            truth=at + 0.25,
            flagged=at % 5 == 0,
            **changes,
        )
        for at, one in enumerate(outlines)
    ]


def states(**changes):
    given = {"title": "Income", "value_label": "mean income [$]", "areas": areas(us_states())}
    return Choropleth(**given | changes)


def regions(page):
    return re.findall(r'data-region="([^"]*)"', page)


def test_every_region_is_in_the_page_with_what_is_known_of_it():
    page = Report("A map", {}, plots=[states()]).to_html()
    names = [one.region for one in us_states()]
    assert regions(page) == names * 3
    assert "estimate 3 (1.5 to 5)" in page
    assert "respondents 30, truth 3.25" in page
    assert "interval wider than useful" in page
    for title in ("Estimate: mean", "Width of the 95 % interval: mean", "Truth: mean"):
        assert title in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_estimates_and_truth_share_a_scale_and_what_is_missing_is_grey():
    shown = [
        Area(region="a", rings=SQUARE, estimate=2.0, truth=6.0),
        Area(region="b", rings=SQUARE, estimate=None, truth=1.0),
    ]
    plot = states(areas=shown)
    assert [(one.low, one.high) for one in plot.panels()] == [(1.0, 6.0), (1.0, 6.0)]
    markup = _report_choropleth.markup(plot, "p-")
    assert _report_choropleth.colour(None, 0.0, 1.0) in markup
    assert "grey: nothing published" in markup
    assert "no estimate" in markup
    assert "Width" not in markup


def test_names_are_escaped_and_ids_are_unique():
    wicked = Area(region='<b a="x">&\x1b', rings=SQUARE, estimate=1.0, label="<i>")
    plot = states(areas=[wicked], title="<script>")
    page = Report("Two", {}, plots=[plot, plot]).to_html()
    assert "<script" not in page
    assert "<i>" not in page
    assert regions(page) == ["&lt;b a=&quot;x&quot;&gt;&amp;\\x1b"] * 2
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    for used in re.findall(r"url\(#([^)]*)\)", page):
        assert used in ids


def test_a_picture_of_maps_and_other_plots(tmp_path):
    lines = Plot(kind="line", title="l", x_label="x", y_label="y", series=[Series("s", [0], [1])])
    hole = [[(0, 0), (9, 0), (9, 9), (0, 9)], [(3, 3), (6, 3), (6, 6), (3, 6)]]
    donut = states(areas=[Area(region="ring", rings=hole, estimate=0.0, flagged=True)])
    report = Report("All", {}, plots=[lines, lines, donut, states(areas=areas(us_states()[:9]))])
    report.save_plot(tmp_path / "map.svg")
    picture = (tmp_path / "map.svg").read_text("utf-8")
    assert picture.count('id="patch_') > 27
    assert "hatched" in picture or "pattern" in picture
    assert len(_report_draw._rows(report.plots)) == 3


def test_a_hole_runs_the_other_way_around():
    hole = [[(0, 0), (9, 0), (9, 9), (0, 9)], [(3, 3), (6, 3), (6, 6), (3, 6)]]
    path = _report_choropleth._path(Area(region="ring", rings=hole, estimate=0.0))
    rings = [path.vertices[:4].tolist(), path.vertices[5:9].tolist()]
    assert [_report_choropleth._signed(ring) for ring in rings] == [81.0, -9.0]
    assert _report_choropleth._middle(Area(region="one", rings=SQUARE, estimate=0)) == (0.5, 0.5)


def test_colours_grow_lighter_and_letters_are_readable():
    def light(shade):
        return sum(
            weight * int(shade[at : at + 2], 16)
            for at, weight in ((1, 0.299), (3, 0.587), (5, 0.114))
        )

    shades = [_report_choropleth.colour(at / 50, 0.0, 1.0) for at in range(51)]
    lights = [light(shade) for shade in shades]
    assert lights == sorted(lights)
    assert lights[-1] - lights[0] > 180
    for shade in shades:
        assert abs(light(_report_choropleth._on(shade)) - light(shade)) > 110
    assert _report_choropleth.colour(9.0, 0.0, 1.0) == shades[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"estimate": float("nan")},
        {"rings": []},
        {"rings": [[(0, 0), (1, 1)]]},
        {"rings": [[(0, 0), (1, 1), (0, float("inf"))]]},
        {"low": 1.0},
        {"low": 2.0, "high": 1.0},
    ],
    ids=str,
)
def test_areas_are_checked(changes):
    with pytest.raises(UsageError):
        Area(**{"region": "a", "rings": SQUARE, "estimate": 1.0} | changes)


def test_maps_are_checked():
    one = Area(region="a", rings=SQUARE, estimate=1.0)
    for changes in ({"areas": []}, {"areas": [one, one]}, {"confidence": 1.0}):
        with pytest.raises(UsageError):
            states(**changes)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_every_region(tmp_path):
    path = tmp_path / "map.html"
    plots = [states(), states(areas=areas(grid(12, 23)), title="Grid")]
    Report("Maps", {}, plots=plots).save_html(path)
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
    ]
    found = subprocess.run(
        [CHROMIUM, *flags, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    expected = [one.region for one in us_states()] * 3 + [one.region for one in grid(12, 23)] * 3
    assert regions(found.stdout) == expected
