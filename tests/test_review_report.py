"""Tables in the width of a terminal, and pictures without an empty quarter."""

from __future__ import annotations

import io

import hypothesis.strategies as st
import pytest
from hypothesis import given
from rich.cells import cell_len
from rich.console import Console

from privagg._report_draw import figure
from privagg._report_text import shrink
from privagg.report import Column, Plot, Report, Series, Table

ROUNDS = Table(
    "Rounds",
    [
        "round",
        "clients",
        Column("up per client", "B"),
        Column("down per client", "B"),
        Column("CPU per client", "s"),
        Column("CPU server", "s"),
    ],
    [
        ["advertise-keys", 20, 74, 66, 2e-4, 5e-3],
        ["consistency-check", 20, 1220, 1300, 2e-2, 3e-3],
    ],
)


def printed(table, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    Report("", {}, [table]).print(console)
    lines = console.file.getvalue().splitlines()
    assert all(cell_len(line) <= width for line in lines)
    return lines


@pytest.mark.parametrize("width", [28, 40, 60, 80, 120, 10_000])
def test_no_word_is_broken_that_could_fit(width):
    text = "\n".join(printed(ROUNDS, width))
    for word in ("advertise-keys", "consistency-check", "clients", "1.22 kB", "1.3 kB", "20 ms"):
        assert word in text
    for head in ROUNDS.heads:
        for word in head.split():
            assert word in text


def test_a_table_that_is_too_wide_is_continued_with_its_first_column():
    text = "\n".join(printed(ROUNDS, 40))
    assert text.count("consistency-check") > 1
    assert "Rounds, continued" in text
    assert "continued" not in "\n".join(printed(ROUNDS, 80))
    for wide in ("74 B", "66 B", "200 µs", "5 ms"):
        assert text.count(wide) == 1


def test_a_word_longer_than_the_terminal_is_broken_and_loses_nothing():
    key = "123456789" * 7
    for width in (10, 20, 50, 80):
        text = "".join(printed(Table("Keys", ["client", "public key"], [[0, key]]), width))
        assert "".join(c for c in text if c.isdecimal()) == "0" + key


def test_a_title_is_not_cut_to_its_table():
    title = "A title that is longer than its table, by far"
    assert printed(Table(title, ["x"], [[1]]), 80)[2] == title


def test_wide_columns_give_way_first():
    assert shrink([10, 10], [5, 5], 23) == [10, 10]
    assert shrink([10, 60], [5, 5], 43) == [10, 30]
    assert shrink([40, 60], [5, 5], 43) == [20, 20]
    assert shrink([40, 60], [5, 30], 43) == [10, 30]


COLUMNS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=6)


@given(COLUMNS, st.integers(21, 200))
def test_widths_fill_the_room_and_no_more(columns, room):
    natural = [max(pair) for pair in columns]
    least = [min(pair) for pair in columns]
    widths = shrink(natural, least, room)
    gaps = 3 * (len(widths) - 1)
    wanted = min(sum(natural) + gaps, room)
    assert all(1 <= width <= most for width, most in zip(widths, natural, strict=True))
    assert sum(widths) + gaps == wanted
    if sum(least) + gaps <= room:
        assert all(width >= low for width, low in zip(widths, least, strict=True))


def bars(title, values):
    names = [str(i) for i in range(len(values))]
    return Plot(
        kind="bar", title=title, x_label="x", y_label="y", series=[Series("s", names, values)]
    )


@pytest.mark.parametrize("count", range(1, 8))
def test_pictures_have_no_empty_quarter(count):
    pytest.importorskip("matplotlib")
    axes = figure([bars(str(i), [1, 2]) for i in range(count)]).axes
    cells = [cell for one in axes for cell in cells_of(one)]
    rows, columns = axes[0].get_subplotspec().get_gridspec().get_geometry()
    assert len(axes) == count
    assert sorted(cells) == list(range(rows * columns))


def cells_of(axes):
    _, _, first, last = axes.get_subplotspec().get_geometry()
    return range(first, last + 1)


def test_counts_have_no_fractions_on_their_axis():
    pytest.importorskip("matplotlib")
    for values, whole in (([20, 19], True), ([2, 1], True), ([0.5, 0.25], False)):
        (axes,) = figure([bars("b", values)]).axes
        assert all(float(tick).is_integer() for tick in axes.get_yticks()) is whole
