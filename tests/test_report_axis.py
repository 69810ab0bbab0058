"""A second scale along the top of a plot of lines."""

from __future__ import annotations

import pytest

from privagg import _report_draw
from privagg.errors import UsageError
from privagg.report import Plot, SecondAxis, Series


def plot(kind="line", log=True, **axis):
    held = {"label": "epsilon $", "places": [0.1, 1.0], "texts": ["92", "4.4"], **axis}
    series = [Series("s", [0.1, 1.0] if kind == "line" else ["a", "b"], [1.0, 2.0])]
    return Plot(
        kind=kind, title="t", x_label="x", y_label="y", series=series, log_x=log,
        second_x=SecondAxis(**held),
    )  # fmt: skip


def test_the_names_stand_at_their_places():
    (axes,) = _report_draw.figure([plot()]).axes
    (top,) = axes.child_axes
    assert list(top.get_xticks()) == [0.1, 1.0]
    assert [one.get_text() for one in top.get_xticklabels()] == ["92", "4.4"]
    assert "epsilon" in _report_draw.svg(plot(), "p-")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"texts": ["92"]}, "2, one for each"),
        ({"places": [], "texts": []}, "some"),
        ({"places": [0.1, float("inf")]}, "finite"),
        ({"places": [0.0, 1.0]}, "positive"),
        ({"kind": "bar", "log": False}, "lines"),
    ],
)
def test_what_cannot_be_drawn(change, words):
    with pytest.raises(UsageError, match=words):
        plot(**change)
