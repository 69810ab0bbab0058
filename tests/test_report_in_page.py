"""Pictures in a page: no wider than a phone shows, with ticks that people read."""

from __future__ import annotations

import re

import pytest

from privagg import _report_draw
from privagg.report import Plot, Report, Series

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

WORDS = {"title": "A title", "x_label": "x [m]", "y_label": "y [1]"}


def lines(xs, ys, **changes):
    return Plot(kind="line", series=[Series("s", xs, ys)], **WORDS | changes)


def ticks(plot, axis="x"):
    whole = _report_draw.figure([plot])
    whole.canvas.draw()
    (axes,) = whole.axes
    low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
    labels = axes.get_xticklabels() if axis == "x" else axes.get_yticklabels()
    places = axes.get_xticks() if axis == "x" else axes.get_yticks()
    shown = zip(places, labels, strict=True)
    return [text.get_text() for place, text in shown if low <= place <= high]


def test_powers_are_written_out():
    assert ticks(lines([1, 10, 1000], [1, 2, 3], log_x=True)) == ["1", "10", "100", "1000"]
    assert ticks(lines([0.01, 1, 1e6], [1, 2, 3], log_x=True))[::2] == [
        "0.01",
        "1",
        "100",
        "10k",
        "1M",
    ]
    assert ticks(lines([1, 2, 3], [1, 9, 20], log_y=True), "y") == ["1", "2", "5", "10", "20"]
    tiny = ticks(lines([1, 2], [1e-9, 1.0], log_y=True), "y")
    assert any("10^{-8}" in one for one in tiny)
    assert tiny[-1] == "1"


def test_whole_numbers_along_x_have_whole_ticks():
    assert all(float(text).is_integer() for text in ticks(lines([1, 2, 3], [1.0, 2.5, 3.0])))
    assert not all(float(text).is_integer() for text in ticks(lines([0.5, 1.2], [1.0, 2.5])))


def test_a_flat_line_stands_above_zero():
    (axes,) = _report_draw.figure([lines([1, 2], [0.31, 0.31])]).axes
    assert axes.get_ylim()[0] == 0


def test_long_titles_of_pictures_are_broken():
    (axes,) = _report_draw.figure([lines([1, 2], [1, 2], title="words " * 30)]).axes
    title = axes.get_title(loc="left")
    assert max(map(len, title.split("\n"))) <= 52
    assert title.split() == ["words"] * 30


def test_the_page_writes_the_title_and_the_legend_stands_below():
    series = [Series(f"series {i}", [1, 2], [i, i]) for i in range(1, 4)]
    plot = Plot(kind="line", series=series, **WORDS)
    page = Report("t", {}, plots=[plot]).to_html()
    svg = page[page.index("<svg") : page.index("</svg>")]
    assert "A title" not in svg
    assert "<figcaption>A title</figcaption>" in page
    assert 'aria-label="A title: lines, y [1] by x [m]; series 1, series 2, series 3"' in page
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
    assert width < 350  # points: letters of 9 points stay 9 points on a phone
    # Every name of the legend is below the label of the x axis.
    place = {
        name: float(re.search(rf'y="(\S+)"[^>]*>{re.escape(name)}<', svg)[1])
        for name in ("x [m]", "series 1", "series 2", "series 3")
    }
    assert all(place["x [m]"] < place[f"series {i}"] < height for i in (1, 2, 3))


@pytest.mark.parametrize(("columns", "digits"), [(3, 3), (16, 2), (20, None)])
def test_heat_maps_have_the_digits_that_fit(columns, digits):
    names = [str(i) for i in range(columns)]
    values = [(i + 1) / 1000 + 0.1 for i in range(columns)]
    rows = [Series("a row", names, values), Series("another", names, values)]
    plot = Plot(kind="heatmap", series=rows, value_label="v", **WORDS)
    texts = [one.get_text() for one in _report_draw.figure([plot]).axes[0].texts]
    expected = [] if digits is None else [f"{round(v, digits):.4g}" for v in values] * 2
    assert texts == expected
