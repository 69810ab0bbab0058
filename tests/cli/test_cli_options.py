from __future__ import annotations

import importlib.util
import io
import json
import sys

import pytest

from privagg import __version__
from privagg.cli.common import Options, progress


def result(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "scenario.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


# Where values come from


def test_flags_win_over_the_environment_over_the_file_over_the_default(
    run, capsys, monkeypatch, config
):
    path = config("value-bits = 8\n")
    run("probe", "--json")
    assert result(capsys)["value_bits"] == 16
    run("probe", "--json", "--config", path)
    assert result(capsys)["value_bits"] == 8
    monkeypatch.setenv("PRIVAGG_PROBE_VALUE_BITS", "9")
    run("probe", "--json", "--config", path)
    assert result(capsys)["value_bits"] == 9
    run("probe", "--json", "--config", path, "--value-bits", "10")
    assert result(capsys)["value_bits"] == 10


def test_a_file_gives_every_kind_of_option(run, capsys, config):
    path = config(
        """
json = true
threshold = 3
value_bits = 8
rate = 0.25
fast = false
pair = [1, 2.5]
name = ["a", "b"]
seed = 18446744073709551615
"""
    )
    assert run("probe", "--config", path) == 0
    assert result(capsys) == {
        "schema_version": 1,
        "command": "probe",
        "privagg": __version__,
        "threshold": 3,
        "value_bits": 8,
        "rate": 0.25,
        "fast": False,
        "pair": [1, 2.5],
        "name": ["a", "b"],
        "seed": 2**64 - 1,
    }


def test_the_table_of_the_command_wins_and_others_are_left_alone(run, capsys, config):
    path = config(
        """
value-bits = 8
rate = 0.5
[probe]
value-bits = 9
[data.show]
rows = 3
"""
    )
    assert run("probe", "--json", "--config", path) == 0
    found = result(capsys)
    assert (found["value_bits"], found["rate"]) == (9, 0.5)


def test_a_table_two_levels_down(run, capsys, config):
    path = config("[data.show]\nrows = 2\n[probe]\nvalue-bits = 9\n")
    assert run("data", "show", "nursery", "--json", "--config", path) == 0
    assert len(result(capsys)["head"]) == 2


def test_the_path_of_the_file_may_come_from_the_environment(run, capsys, monkeypatch, config):
    monkeypatch.setenv("PRIVAGG_PROBE_CONFIG", str(config("value-bits = 8\njson = true\n")))
    run("probe")
    assert result(capsys)["value_bits"] == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("valu-bits = 8", ["valu-bits", "value-bits", "privagg probe"]),
        ("help = true", ["help"]),
        ("config = 'x'", ["config"]),
        ("[prob]\nvalue-bits = 8", ["[prob]", "probe"]),
        ("[data.shw]\nrows = 3", ["[shw]", "show"]),
        ("[probe.deeper]\nvalue-bits = 8", ["[deeper]"]),
        ("value-bits = 8\nvalue_bits = 9", ["given twice"]),
        ("value-bits = 1.5", ["--value-bits", "1.5"]),
        ("value-bits = true", ["value-bits", "number"]),
        ("threshold = 1", ["--threshold", "1"]),
        ("fast = 1", ["fast", "true or false"]),
        ("pair = 1", ["pair", "a list"]),
        ("pair = [1]", ["--pair"]),
        ("value-bits = [8]", ["value-bits", "number"]),
        ("rate = 2020-01-01", ["rate", "number"]),
        ("value-bits = x", ["TOML", "line 1"]),
    ],
)
def test_what_a_file_may_not_say(run, capsys, config, text, words):
    assert run("probe", "--config", config(text)) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    for word in words:
        assert word in streams.err


def test_a_file_that_is_no_text_or_not_there(run, capsys, tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    assert run("probe", "--config", path) == 2
    assert run("probe", "--config", tmp_path / "none.toml") == 2
    assert "none.toml" in capsys.readouterr().err


# Where results go


def test_json_is_one_line_and_stable(run, capsys):
    run("probe", "--json", "--quiet")
    first = capsys.readouterr()
    assert first.out == (
        f'{{"schema_version":1,"command":"probe","privagg":"{__version__}",'
        '"threshold":null,"value_bits":16,"rate":0.05,"fast":true,'
        '"pair":null,"name":[],"seed":null}\n'
    )
    assert first.err == ""


def test_out_takes_the_result_instead_of_stdout(run, capsys, tmp_path):
    as_json, as_text, forced = tmp_path / "a.json", tmp_path / "a.txt", tmp_path / "b.txt"
    for path, flags in ((as_json, []), (as_text, []), (forced, ["--json"])):
        assert run("probe", "--out", path, *flags) == 0
        streams = capsys.readouterr()
        assert streams.out == ""
        assert f"Wrote {path}" in streams.err
    assert json.loads(as_json.read_text())["value_bits"] == 16
    assert as_text.read_text().startswith("A probe\n")
    assert as_json.read_text() == forced.read_text()


def test_report_and_plot_are_written_beside_the_result(run, capsys, tmp_path):
    page, picture = tmp_path / "page.html", tmp_path / "plot.png"
    assert run("probe", "--json", "--report", page, "--plot", picture) == 0
    assert result(capsys)["value_bits"] == 16
    assert "<svg" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("flag", ["--out", "--report", "--plot"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(run, capsys, tmp_path, flag):
    assert run("probe", flag, tmp_path / "none" / "x.png", "--fail", "bug") == 2
    streams = capsys.readouterr()
    assert f"{flag}: found" in streams.err
    assert run("probe", flag, tmp_path, "--fail", "bug") == 2


def test_an_unknown_format_is_refused_before_the_work(run, capsys, tmp_path):
    assert run("probe", "--plot", tmp_path / "x.jpg", "--fail", "bug") == 2
    assert ".png, .svg, .pdf" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "missing"), [("--plot", "matplotlib"), ("--report", "jinja2")])
def test_a_missing_extra_is_told_before_the_work(run, capsys, tmp_path, monkeypatch, flag, missing):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else real(name)
    )
    assert run("probe", flag, tmp_path / "x.png", "--fail", "bug") == 2
    assert "pip install 'privagg[plots]'" in capsys.readouterr().err


def test_a_page_that_fails_does_not_lose_the_result(run, capsys, tmp_path, monkeypatch):
    from privagg.report import Report

    def fail(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Report, "save_html", fail)
    assert run("probe", "--json", "--report", tmp_path / "x.html") == 1
    assert result(capsys)["value_bits"] == 16


def test_quiet_hides_notes_and_not_warnings(run, capsys):
    run("probe", "--seed", "1")
    loud = capsys.readouterr().err
    assert "a note" in loud
    assert "Warning: seeded" in loud
    run("probe", "--seed", "1", "--quiet")
    quiet = capsys.readouterr().err
    assert "a note" not in quiet
    assert "Warning: seeded" in quiet


def test_help_starts_with_examples(run, capsys):
    run("probe", "--help")
    text = capsys.readouterr().out
    positions = [
        text.index(words)
        for words in ("Try the skeleton.", "privagg probe --threshold 3", "More words.", "--config")
    ]
    assert positions == sorted(positions)
    assert text.index("--value-bits") < text.index("--config")


@pytest.mark.parametrize("seed", ["-1", str(2**64), "x"])
def test_seeds_out_of_range(run, capsys, seed):
    assert run("probe", "--seed", seed) == 2
    assert "--seed" in capsys.readouterr().err


# Terminals


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_drawn_on_a_terminal_only(monkeypatch):
    for quiet, stream, drawn in [
        (False, Terminal(), True),
        (True, Terminal(), False),
    ]:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        with progress(Options(quiet=quiet)) as step:
            step("[red]share keys", 1, 10)
            step("[red]share keys", 10, 10)
        assert ("[red]share keys" in stream.getvalue()) == drawn
        assert ("10/10" in stream.getvalue()) == drawn


def test_colour_is_for_terminals_that_want_it(run, capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for no_colour, coloured in [(None, True), ("1", False)]:
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            if no_colour is not None:
                patch.setenv("NO_COLOR", no_colour)
            run("probe", "--fail", "usage")
        assert "at least 2" in stream.getvalue()
        assert ("\x1b[31m" in stream.getvalue()) == coloured
