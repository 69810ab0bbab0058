from __future__ import annotations

import itertools
import json
import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from privagg import datasets
from privagg.cli import doctor
from privagg.cli.data import _edges
from privagg.cli.envelope import KEYS


def result(capsys):
    return json.loads(capsys.readouterr().out)


def test_doctor_says_what_is_installed(run, capsys):
    assert run("doctor", "--json") == 0
    found = result(capsys)
    assert found["core"]["numpy"] == metadata.version("numpy")
    assert found["complete"] is True
    assert found["cpu"]["usable_cores"] >= 1
    assert set(found["mask_stream"]) == {"aes-128-ctr", "chacha20"}
    assert found["gpu"]["available"] or found["gpu"]["reason"]
    assert run("doctor") == 0
    assert "Everything needed is here." in capsys.readouterr().out


def test_doctor_says_what_is_missing(run, capsys, monkeypatch):
    real = metadata.version

    def version(name):
        if name in ("rich", "torch"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert run("doctor", "--json") == 0
    found = result(capsys)
    assert found["core"]["rich"] is None
    assert found["complete"] is False
    run("doctor")
    text = capsys.readouterr().out
    assert "Missing: rich." in text
    assert "pip install 'privagg[torch]'" in text


def test_doctor_sees_that_kernels_are_off(shell):
    done = shell("doctor", "--json", env={"PRIVAGG_JIT": "0"})
    found = json.loads(done.stdout)
    assert found["jit"] == {"enabled": False, "cache": None, "cached_kernels": 0, "threads": 0}
    assert any("PRIVAGG_JIT" in line for line in found["faster"])


def test_doctor_says_what_would_be_faster():
    jit = {"enabled": True, "cache": "x"}
    cpu = {"machine": "x86_64", "features": ["aes"], "cores": 4, "usable_cores": 4}
    gpu = {"driver": None, "available": False}
    assert doctor._faster({"jit": jit, "cpu": cpu, "gpu": gpu}) == []
    for part, change, word in [
        ("jit", {"cache": None}, "NUMBA_CACHE_DIR"),
        ("cpu", {"features": []}, "--prg chacha20"),
        ("cpu", {"usable_cores": 2}, "2 of 4 cores"),
        ("gpu", {"driver": "13.0"}, "privagg[gpu]"),
    ]:
        data = {"jit": jit, "cpu": cpu, "gpu": gpu}
        (line,) = doctor._faster(data | {part: data[part] | change})
        assert word in line


def test_doctor_documents_its_keys(run, capsys):
    page = Path(__file__).parents[2].joinpath("docs", "cli.md").read_text()
    text = page.partition("## `privagg doctor`")[2].partition("\n## ")[0]
    assert run("doctor", "--json") == 0
    found = result(capsys)
    keys = {*found, *found["jit"], *found["cpu"], *found["gpu"]}
    assert keys - set(KEYS) <= set(re.findall(r"`(\w+)`", text))


def test_doctor_without_any_extra(run, capsys, monkeypatch):
    real = metadata.version

    def version(name):
        if name not in doctor.CORE:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert run("doctor") == 0
    text = capsys.readouterr().out
    assert "Everything needed is here." in text
    for extra in doctor.EXTRAS:
        assert f"pip install 'privagg[{extra}]'" in text


def test_doctor_finds_the_folder_of_kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    assert doctor._jit()["cache"] == str(tmp_path / "deep" / "cache")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert doctor._jit()["cache"] is None


def test_doctor_knows_the_packages_of_the_project_file():
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())

    def names(requirements):
        found = [re.match(r"[\w-]+", text)[0].lower() for text in requirements]
        return {name for name in found if name != "privagg"}

    assert names(project["project"]["dependencies"]) == set(doctor.CORE)
    extras = project["project"]["optional-dependencies"]
    assert set(extras) - {"dev"} == set(doctor.EXTRAS)
    for extra, packages in doctor.EXTRAS.items():
        assert names(extras[extra]) == set(packages)


def test_data_list(run, capsys):
    assert run("data", "list", "--json") == 0
    listed = result(capsys)["datasets"]
    assert [one["name"] for one in listed] == list(datasets.names())
    assert all(one["licence"] and one["source"] and one["rows"] > 0 for one in listed)
    assert run("data", "list") == 0
    text = capsys.readouterr().out
    assert all(name in text for name in datasets.names())


@pytest.mark.parametrize("name", datasets.names())
def test_data_show(run, capsys, name):
    assert run("data", "show", name, "--json", "--rows", "3") == 0
    found = result(capsys)
    table = datasets.load(name)
    assert found["rows"] == table.num_rows
    assert [one["name"] for one in found["summary"]] == table.column_names
    assert found["head"] == table.slice(0, 3).to_pylist()
    for one in found["summary"]:
        column = table.column(one["name"])
        known = column.drop_null().to_pylist()
        assert one["distinct"] == len(set(known))
        assert one["missing"] == column.null_count
        if "min" in one:
            assert (one["min"], one["max"]) == (min(known), max(known))
        else:
            counts = sorted((known.count(v) for v in set(known)), reverse=True)[:3]
            labels = {str(v): v for v in set(known)}
            assert [known.count(labels[v]) for v in one["most_frequent"]] == counts


def test_data_show_for_people(run, capsys):
    assert run("data", "show", "adult", "--rows", "2") == 0
    text = capsys.readouterr().out
    assert datasets.info("adult").source in text
    assert "First 2 rows" in text
    assert "State-gov" in text
    assert run("data", "show", "adult", "--rows", "0") == 0
    assert "First" not in capsys.readouterr().out


def test_data_show_columns(run, capsys, tmp_path):
    flags = ["--column", "age", "--column", "sex", "--column", "age"]
    assert run("data", "show", "adult", "--json", *flags) == 0
    assert [one["name"] for one in result(capsys)["summary"]] == ["age", "sex"]
    assert run("data", "show", "adult", "--column", "ages") == 2
    assert "age" in capsys.readouterr().err


def test_data_show_refuses_an_unknown_name(run, capsys):
    assert run("data", "show", "aduld") == 2
    assert "adult" in capsys.readouterr().err


def test_data_show_counts_every_row_in_its_plots(run, tmp_path, monkeypatch):
    from privagg.report import Report

    plots = []
    monkeypatch.setattr(Report, "save_html", lambda self, path: plots.extend(self.plots))
    assert run("data", "show", "voters2016", "--quiet", "--report", tmp_path / "x.html") == 0
    table = datasets.load("voters2016")
    assert len(plots) == table.num_columns
    for plot, name in zip(plots, table.column_names, strict=True):
        column = table.column(name)
        if "most frequent" not in plot.title:
            assert sum(plot.series[0].y) == len(column) - column.null_count
        assert len(plot.series[0].x) <= 20


@pytest.mark.parametrize(
    ("low", "high"), [(0, 20), (0, 21), (18, 99), (1, 99), (-5, 1000), (0, 39), (0, 40), (0.5, 2.0)]
)
def test_bins_cover_every_value_and_are_equal(low, high):
    edges = _edges(low, high)
    assert edges[0] == low
    assert edges[-1] >= high
    assert len(edges) <= 21
    widths = {round(b - a, 9) for a, b in itertools.pairwise(edges)}
    assert len(widths) == 1
