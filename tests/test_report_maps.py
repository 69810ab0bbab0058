from __future__ import annotations

import pytest

from privagg.errors import UsageError
from privagg.report import Plot, Report, Series

WORDS = {"title": "Where", "x_label": "x [m]", "y_label": "y [m]"}
POINTS = [Series("nodes", [0, 1, 2], [0, 2, 1]), Series("base", [5], [5])]


def test_a_map_is_drawn_with_points_and_lines(tmp_path):
    lines = [Series("cluster", [0, 1, 1, 2], [0, 2, 2, 1]), Series("tree", [2, 5], [1, 5])]
    plot = Plot(kind="map", series=POINTS, segments=lines, **WORDS)
    report = Report("A map", {}, plots=[plot])
    report.save_plot(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 5000
    page = report.to_html()
    for name in ("nodes", "base", "cluster", "tree"):
        assert name in page


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "map", "segments": [Series("odd", [0], [0])]},
        {"kind": "map", "series": [Series("words", ["a"], [1])]},
        {"kind": "map", "segments": [Series("words", ["a", "b"], [1, 2])]},
        {"kind": "map", "log_y": True, "series": [Series("one", [1], [1])]},
        {"kind": "line", "segments": [Series("even", [0, 1], [0, 1])]},
    ],
    ids=str,
)
def test_maps_are_checked(changes):
    with pytest.raises(UsageError):
        Plot(**{"series": POINTS} | WORDS | changes)
