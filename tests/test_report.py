from __future__ import annotations

import builtins
import importlib.util
import io
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from privagg.errors import UsageError
from privagg.report import (
    SCHEMA_VERSION,
    Column,
    Plot,
    Reference,
    Report,
    Series,
    Table,
    plain,
)

LINE = Plot(
    kind="line",
    title="Expansion",
    x_label="clients",
    y_label="expansion [times]",
    series=[Series("complete", [64, 128, 256], [1.2, 1.3, 1.5]), Series("sparse", [64], [1.1])],
    log_x=True,
    references=[Reference(1.734, "formula"), Reference(100, "plan", axis="x")],
)
BARS = Plot(
    kind="bar",
    title="Seconds",
    x_label="party",
    y_label="time [s]",
    series=[Series("a", ["client", "server"], [1, 2]), Series("b", ["client", "server"], [3, 4])],
)
STACKED = Plot(
    kind="stacked-bar",
    title="Bytes",
    x_label="round",
    y_label="bytes [B]",
    series=[Series("x", ["one", "two"], [5, -6]), Series("y", ["one", "two"], [7, 8])],
)
HEAT = Plot(
    kind="heatmap",
    title="Leak",
    x_label="batch",
    y_label="attack",
    value_label="recovered [fraction]",
    series=[Series("first", [8, 16], [0.9, 0.1]), Series("second", [8, 16], [0.5, 0.5])],
)
PLOTS = [LINE, BARS, STACKED, HEAT]
EVIL = "<script>alert('x')</script> \"quoted\" & $x^{$ [red]markup[/red] \x1b[31m"


def printed(report: Report, width: int = 120) -> str:
    out = io.StringIO()
    report.print(Console(file=out, width=width, force_terminal=False))
    return out.getvalue()


# JSON


def test_json_starts_with_the_schema_version_and_keeps_the_order():
    text = Report("t", {"b": 1, "a": 2}).to_json()
    assert text == f'{{"schema_version":{SCHEMA_VERSION},"b":1,"a":2}}'


def test_json_keeps_a_schema_version_of_the_data():
    assert Report("t", {"a": 1, "schema_version": 7}).to_json() == '{"schema_version":7,"a":1}'


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_json_refuses_a_bad_schema_version(version):
    with pytest.raises(UsageError, match="schema_version"):
        Report("t", {"schema_version": version}).to_json()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        (np.array(2.5), 2.5),
        (np.array([]), []),
        (np.array(["a", "b"]), ["a", "b"]),
        ((1, None, False), [1, None, False]),
        ({"inner": {"x": np.array([1.5])}}, {"inner": {"x": [1.5]}}),
        (2**100, 2**100),
    ],
)
def test_json_takes_numpy_and_nested_values(value, expected):
    assert json.loads(Report("t", {"v": value}).to_json())["v"] == expected


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (math.nan, "data.v"),
        (-math.inf, "data.v"),
        (np.float64("nan"), "data.v"),
        ([0.0, {"deep": math.inf}], r"data.v\[1\].deep"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), r"data.v\[1\]\[1\]"),
        (np.array([1.0, math.nan], dtype=object), r"data.v\[1\]"),
    ],
)
def test_json_refuses_nan_and_infinity_and_says_where(value, where):
    with pytest.raises(UsageError, match=where):
        Report("t", {"v": value}).to_json()


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j, np.array([1j]), {1: "a"}])
def test_json_refuses_what_json_does_not_have(value):
    with pytest.raises(UsageError, match=r"data\.v"):
        Report("t", {"v": value}).to_json()


# Without lone surrogates, which are no text: they cannot be encoded.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("xyz"), JSON_VALUES))
def test_json_gives_back_what_went_in(data):
    report = Report("t", data)
    assert json.loads(report.to_json()) == {"schema_version": SCHEMA_VERSION, **data}
    assert json.loads(report.to_json(indent=2)) == json.loads(report.to_json())
    assert plain(data) == data


# Print


def test_print_shows_tables_notes_and_verdict():
    table = Table(
        "Rounds",
        ["round", Column("up", "B"), Column("time", "s"), Column("share", "%"), "n", "ok"],
        [
            ["masked input", 3_456_789, 0.0123, 12.5, 1234567, True],
            ["unmasking", None, 7200, 1e-7, 5, False],
        ],
    )
    text = printed(Report("A round", {}, [table], notes=["Seeded."], verdict="Sum learned."))
    for part in ["A round", "3.46 MB", "12.3 ms", "2 h", "share [%]", "1,234,567", "yes", "1e-07"]:
        assert part in text
    assert "• Seeded." in text
    assert text.rstrip().endswith("Sum learned.")


def test_print_aligns_numbers_to_the_right():
    lines = printed(Report("t", {}, [Table("T", ["name", "n"], [["a", 1], ["b", 1000]])]))
    rows = [line for line in lines.splitlines() if line.startswith(("a", "b"))]
    assert rows[0].rstrip().endswith("    1")
    assert len(rows[0].rstrip()) == len(rows[1].rstrip())


def test_print_obeys_nothing_that_strings_say():
    report = Report(EVIL, {}, [Table(EVIL, [EVIL], [[EVIL]])], notes=[EVIL], verdict=EVIL)
    text = printed(report, width=200)
    assert text.count("[red]markup[/red]") == 6
    assert text.count(r"\x1b[31m") == 6
    assert "\x1b" not in text


def test_print_loses_nothing_on_a_narrow_console():
    text = printed(Report("t", {}, [Table("T", ["a", "b"], [["x" * 30, "y" * 30]])]), width=20)
    assert text.count("x") == 30
    assert text.count("y") == 30


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (999.7, "B", "1 kB"),
        (1_500_000, "B", "1.5 MB"),
        (64.5, "B", "64.5 B"),
        (0, "s", "0 s"),
        (0.0000021, "s", "2.1 µs"),
        (5e-10, "s", "5e-10 s"),
        (59.95, "s", "60 s"),
        (600, "s", "10 min"),
        (12345.6, "", "12,346"),
        (0.12345, "", "0.1235"),
        (-3, "", "-3"),
        (math.inf, "", "inf"),
        (None, "B", "-"),
    ],
)
def test_cells_read_well(value, unit, text):
    assert Table("T", [Column("c", unit)], [[value]]).texts() == [[text]]


def test_tables_refuse_ragged_rows_and_unknown_types():
    with pytest.raises(UsageError, match=r"rows\[1\].*2 cells"):
        Table("T", ["a"], [[1], [1, 2]])
    with pytest.raises(UsageError, match="cell"):
        Table("T", ["a"], [[[1]]]).texts()


# Plots


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "pie"}, "kind"),
        ({"series": []}, "at least one point"),
        ({"series": [Series("s", [], [])]}, "at least one point"),
        ({"series": [Series("s", ["a"], [1])]}, "numbers"),
        ({"series": [Series("s", [0], [1])], "log_x": True}, "positive"),
        ({"log_y": True, "series": [Series("s", [1], [-1])]}, "positive"),
        ({"log_y": True, "references": [Reference(0, "r")]}, "positive"),
    ],
)
def test_plots_refuse_parts_that_do_not_fit(change, words):
    fields = {"kind": "line", "title": "T", "x_label": "x", "y_label": "y"}
    with pytest.raises(UsageError, match=words):
        Plot(**{**fields, "series": [Series("s", [1], [1])], **change})


def test_bars_need_the_same_x_and_no_logarithm_along_it():
    fields = {"title": "T", "x_label": "x", "y_label": "y"}
    with pytest.raises(UsageError, match="same x"):
        Plot(kind="bar", **fields, series=[Series("a", ["p"], [1]), Series("b", ["q"], [1])])
    with pytest.raises(UsageError, match="log_x"):
        Plot(kind="bar", **fields, series=[Series("a", [1], [1])], log_x=True)
    with pytest.raises(UsageError, match="heat map"):
        Plot(kind="heatmap", **fields, series=[Series("a", [1], [1])], log_y=True)


def test_series_refuse_nan_and_lengths_that_differ():
    with pytest.raises(UsageError, match=r"y\[1\]"):
        Series("s", [1, 2], [1, math.nan])
    with pytest.raises(UsageError, match=r"x\[0\]"):
        Series("s", [math.inf], [1])
    with pytest.raises(UsageError, match="as many as x"):
        Series("s", [1, 2], [1])
    with pytest.raises(UsageError, match="axis"):
        Reference(1, "r", axis="z")
    with pytest.raises(UsageError, match="finite"):
        Reference(math.nan, "r")


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89")],
)
def test_save_plot_writes_every_kind_in_every_format(tmp_path, suffix, magic):
    target = tmp_path / f"plot.{suffix}"
    Report("t", {}, plots=PLOTS).save_plot(target)
    assert target.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [target]


def test_the_same_report_draws_the_same_picture(tmp_path):
    for suffix in ("png", "svg", "pdf"):
        first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
        Report("t", {}, plots=[LINE]).save_plot(first)
        Report("t", {}, plots=[LINE]).save_plot(second)
        assert first.read_bytes() == second.read_bytes()


def test_everything_named_is_in_the_picture(tmp_path):
    from privagg import _report_draw

    axes = _report_draw.figure([LINE]).axes[0]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == [
        "complete",
        "sparse",
        "formula",
        "plan",
    ]
    assert axes.get_xlabel() == "clients"
    assert axes.get_ylabel() == "expansion [times]"
    low, high = axes.get_ylim()
    assert low < 1.1 < 1.734 < high


def test_stacked_bars_add_up_and_negative_parts_go_down():
    from privagg import _report_draw

    axes = _report_draw.figure([STACKED]).axes[0]
    ends = [(round(p.get_y(), 9), round(p.get_y() + p.get_height(), 9)) for p in axes.patches]
    assert ends == [(0, 5), (0, -6), (5, 12), (0, 8)]


def test_drawing_leaves_no_global_state():
    code = """
import sys, matplotlib
from privagg.report import Plot, Report, Series

def settings():  # reading "backend" would choose one
    return {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != "backend"}

before = settings()
plot = Plot(kind="bar", title="t", x_label="x", y_label="y", series=[Series("s", ["a"], [1])])
Report("t", {}, plots=[plot]).to_html()
assert settings() == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_any_text_can_be_drawn(tmp_path):
    names = [EVIL, "_hidden", "$", "$$", r"\frac{", "$\\bad$"]
    series = [Series(name, names, range(len(names))) for name in names]
    plot = Plot(kind="bar", title=EVIL, x_label=EVIL, y_label=EVIL, series=series)
    Report("t", {}, plots=[plot]).save_plot(tmp_path / "x.png")
    from privagg import _report_draw

    legend = _report_draw.figure([plot]).axes[0].get_legend()
    assert len(legend.get_texts()) == len(names)


def test_save_plot_refuses_no_plots_and_unknown_formats(tmp_path):
    with pytest.raises(UsageError, match="has plots"):
        Report("t", {}).save_plot(tmp_path / "x.png")
    with pytest.raises(UsageError, match=r"\.png"):
        Report("t", {}, plots=[LINE]).save_plot(tmp_path / "x.jpg")
    assert not list(tmp_path.iterdir())


# Page


def test_the_page_refers_to_nothing_outside(tmp_path):
    target = tmp_path / "page.html"
    Report("t", {"a": 1}, [Table("T", ["a"], [[1]])], PLOTS, ["n"], "v").save_html(target)
    page = target.read_text("utf-8")
    # A heat map's raster is inside the page; what is left of it may name nothing to fetch.
    page = re.sub(r'href="data:image/png;base64,[^"]*"', "", page)
    assert "//" not in page
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert not re.search(r"@import|url\((?!#)", page)
    assert "default-src 'none'" in page
    assert page.count("<svg") == len(PLOTS)


def test_the_page_escapes_every_string():
    evil_plot = Plot(
        kind="bar", title=EVIL, x_label=EVIL, y_label=EVIL, series=[Series(EVIL, [EVIL], [1])]
    )
    report = Report(
        EVIL, {EVIL: EVIL}, [Table(EVIL, [Column(EVIL, EVIL)], [[EVIL]])], [evil_plot], [EVIL], EVIL
    )
    page = report.to_html()
    assert "<script" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;") >= 9


def test_the_pictures_of_a_page_share_no_ids_and_point_only_to_their_own():
    page = Report("t", {}, plots=[LINE, HEAT, LINE]).to_html()
    ids = re.findall(r'\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 0
    targets = re.findall(r'(?:href="#|url\(#)([^")]*)', page)
    assert targets
    assert set(targets) <= set(ids)


def test_the_page_takes_the_colours_of_the_reader():
    page = Report("t", {}, plots=[LINE]).to_html()
    assert "prefers-color-scheme: dark" in page
    svg = page[page.index("<svg") : page.index("</svg>")]
    assert "var(--ink)" in svg
    assert "#1d2733" not in svg


def test_the_page_says_when_the_data_is_too_long_for_it():
    page = Report("t", {"v": list(range(60_000))}).to_html()
    assert "too long for a page" in page
    assert len(page) < 20_000


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch, tmp_path, missing):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else real(name)
    )
    with pytest.raises(UsageError, match=r"pip install 'privagg\[plots\]'"):
        Report("t", {}, plots=[LINE]).save_html(tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


def test_text_and_json_need_no_extra(monkeypatch):
    real = builtins.__import__

    def guarded(name, *args, **kwargs):
        assert name.partition(".")[0] not in ("matplotlib", "jinja2")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", guarded)
    report = Report("t", {"a": 1}, [Table("T", ["a"], [[1]])], [LINE])
    assert report.to_json()
    assert printed(report)
