"""Bars with the ends of an interval."""

from __future__ import annotations

import pytest

from privagg import _report_draw
from privagg.errors import UsageError
from privagg.report import Plot, Series


def plot(kind="bar", low=(0.5, -0.25), high=(1.5, 0.75)):
    labels = ["a", "b"] if kind != "line" else [1.0, 2.0]
    series = [Series("s", labels, [1.25, 0.0], low, high)]
    return Plot(kind=kind, title="t", x_label="x", y_label="y", series=series)


def axes_of(one):
    (axes,) = _report_draw.figure([one]).axes
    return axes


def test_whiskers_stand_around_their_own_middle():
    (lines,) = axes_of(plot()).collections
    spans = [(segment[0][1], segment[1][1]) for segment in lines.get_segments()]
    assert spans == [(0.5, 1.5), (-0.25, 0.75)]


def test_the_axis_shows_whole_whiskers():
    assert axes_of(plot()).get_ylim()[0] < -0.25
    assert axes_of(plot(low=(), high=())).get_ylim()[0] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"low": (0.5,)}, "low of series"),
        ({"high": ()}, "high of series"),
        ({"low": (0.5, float("nan"))}, "low"),
        ({"kind": "line"}, "whiskers"),
        ({"kind": "stacked-bar"}, "whiskers"),
    ],
)
def test_what_cannot_be_drawn(change, words):
    with pytest.raises(UsageError, match=words):
        plot(**change)
