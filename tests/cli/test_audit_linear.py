from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "audit-linear.md").read_text(encoding="utf-8")

LIST = "client,round,weight\nann,1,1\nbob,1,1\ncy,1,1\nann,2,1\nbob,2,1\ndan,4,1\nbob,4,1\n"
MATRIX = "round,ann,bob,cy,dan\n1,1,1,1,0\n2,1,1,0,0\n4,0,1,0,1\n"
BATCHES = "a,b,c,d\n1,1,0,0\n0,0,1,1\n1,1,0,0\n"


@pytest.fixture
def audit(run, capsys, tmp_path):
    """Write a log, audit it, and return the JSON object."""

    def call(log, *args, code=0, name="log.csv"):
        path = tmp_path / name
        if isinstance(log, str):
            path.write_text(log, encoding="utf-8")
        elif log is not None:
            parquet.write_table(pyarrow.table(log), path)
        found = run("audit", "linear", "--participation", path, *args, "--json", "--quiet")
        out, err = capsys.readouterr()
        assert found == code, out + err
        return json.loads(out)

    return call


@pytest.fixture
def refused(audit):
    return lambda log, *args, **more: audit(log, *args, code=2, **more)["error"]["message"]


@pytest.mark.parametrize("log", [LIST, MATRIX], ids=["list", "matrix"])
def test_a_leak(audit, log):
    data = audit(log, code=5)
    assert (data["clients"], data["rounds"], data["rank"]) == (4, 3, 3)
    assert data["recoverable"] == ["cy"]
    assert data["first_exposed"] == {"cy": 2}
    assert data["isolating_pairs"] == [{"rounds": [1, 2], "client": "cy"}]
    assert data["noise_gain"] == {"cy": pytest.approx(2**0.5)}
    assert data["cosine"] == {"cy": pytest.approx(6**-0.5)}
    assert data["missing_rounds"] == [3]
    assert data["exposed_after"] == [0, 1, 1]
    assert data["smallest_coalition"] == {
        "at_least": 1,
        "size": 1,
        "members": ["cy"],
        "factors": ["1"],
        "exact": True,
    }
    assert data["leak"]
    assert data["verdict"].startswith("LEAK: 1 of 4 clients")
    allowed = audit(log, "--max-recoverable", 1)
    assert not allowed["leak"]


def test_keys_are_documented(audit):
    keys = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE))))
    assert set(audit(BATCHES)) - {"command", "privagg"} == keys


def test_batches_hold(audit):
    data = audit(BATCHES, "--schedules")
    assert data["recoverable"] == []
    assert data["first_exposed"] == {}
    assert data["smallest_coalition"]["members"] in (["a", "b"], ["c", "d"])
    assert not data["leak"]
    assert "not linearly determined" in " ".join(data["limits"]).lower()
    assert [one["name"] for one in data["schedules"]] == [
        "uniform",
        "skewed",
        "batches",
        "dropouts",
    ]
    strict = audit(BATCHES, "--min-coalition", 3, code=5)
    assert strict["leak"]


def test_a_parquet_list_with_names_of_its_own(audit):
    table = {
        "who": ["x", "y", "x"],
        "when": np.array(["2024-01-01", "2024-01-01", "2024-01-02"], "datetime64[D]"),
        "samples": [10, 5, 10],
        "site": ["a", "b", "a"],
    }
    flags = ("--client-column", "who", "--round-column", "when", "--weight-column", "samples")
    data = audit(table, *flags, code=5, name="log.parquet")
    assert data["recoverable"] == ["x", "y"]
    assert data["first_exposed"] == {"x": "2024-01-02", "y": "2024-01-02"}
    assert "site" in data["input"]["reading"]


def test_truth_values_and_numbered_clients(audit):
    data = audit("0,1,2\n1,1,0\n0,1,1\n", "--header")
    assert data["clients"] == 3
    assert audit("1,1,0\n0,1,1\n", "--no-header")["clients"] == 3
    flags = {"a": [True, True], "b": [False, True]}
    assert audit(flags, code=5, name="log.parquet")["recoverable"] == ["a", "b"]


def test_weights_of_all_kinds(audit):
    assert audit("a,b\n0.5,1\n0.5,2\n", code=5)["recoverable"] == ["a", "b"]
    assert audit("a,b\n0.1,0.2\n0.2,0.4\n")["rank"] == 1


@pytest.mark.parametrize(
    ("log", "args", "says"),
    [
        ("client,round\nann,1\nann,1\n", (), r"'ann' again in round '1'"),
        ("client,round,weight\nann,1,nan\n", (), r"'weight'.*no number in data row 1"),
        ("client,round,weight\nann,1,inf\n", (), r"finite"),
        ("client,round,weight\nann,1,\n", (), r"no number in data row 1"),
        ("client,round\nann,\nbob,2\n", (), r"'round'.*no name in data row 1"),
        ("a,b\n1,\n0,1\n", (), r"column 'b'.*no number in data row 1"),
        ("a,b\n1,x\n0,1\n", (), r"column 'b'.*text 'x'"),
        ("a,b\n1,nan\n0,1\n", (), r"column 'b'.*no number in data row 1"),
        ("a,a\n1,0\n", (), r"two columns 'a'"),
        ("round,a\n1,1\n1,0\n", (), r"rounds.*twice"),
        ("round\n1\n", (), r"a column for each client"),
        ("a,b\n\n1,0\n", (), r"a blank line"),
        ("a,b\n", (), r"no rows"),
        ("1,0\n0,1\n", (), r"--no-header"),
        ("a,b\n1,99999999999999999999\n", (), r"integers below 2\*\*63|2\*\*53"),
        ("a,b\n1,0\n", ("--layout", "list"), r"--client-column"),
        ("a,b\n1,0\n", ("--low", "2"), r"--low.*without --sums"),
        ("a,b\n1,0\n", ("--seconds", "2"), r"--seconds.*without --sums"),
        ("a,b\n1,0\n", ("--interval", "2"), r"--interval.*with --participation"),
        ("a,b\n1,0\n", ("--noisy",), r"--noisy.*with --participation"),
        ("a,b\n1,0\n", ("--variation", "nan"), r"variation"),
        ("a,b\n1,0\n", ("--coalition-budget", "inf"), r"--coalition-budget"),
    ],
)
def test_what_is_no_log_is_refused(refused, log, args, says):
    assert re.search(says, refused(log, *args))


def test_a_nan_is_refused_with_its_place(refused):
    table = {"a": [1.0, 0.0], "b": [0.5, float("nan")]}
    said = refused(table, name="log.parquet")
    assert "column 'b'" in said
    assert "nan in data row 2" in said
    assert "Write 0" in said


def test_other_files_are_refused(refused):
    assert ".csv or .parquet" in refused("a,b\n1,0\n", name="log.txt")
    assert "log.parquet" in refused("a,b\n1,0\n", name="log.parquet")


def test_bounded_inputs(audit, tmp_path):
    pytest.importorskip("scipy")
    sums = tmp_path / "sums.csv"
    sums.write_text("round,sum\n0,2\n1,1\n2,2\n", encoding="utf-8")
    data = audit(BATCHES, "--sums", sums, code=5)
    assert data["recoverable"] == []
    assert data["ranges"]["a"] == {
        "minimum": 1.0,
        "maximum": 1.0,
        "unique": True,
        "proven": True,
        "linearly_determined": False,
    }
    assert not data["ranges"]["c"]["unique"]
    assert "2 that sums alone do not" in data["verdict"]
    real = audit(BATCHES, "--sums", sums, "--real", "--high", 3)
    assert real["ranges"]["a"]["maximum"] == pytest.approx(2)
    assert not real["leak"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("round,sum\n0,2\n", "no sum of round '1'"),
        ("round,sum\n0,2\n0,2\n1,2\n2,2\n", "twice"),
        ("round,sum,more\n0,2,1\n", "one of sums"),
        ("round,sum\n0,2\n1,3\n2,2\n", "no inputs within the bounds"),
    ],
)
def test_sums_that_do_not_fit_are_refused(refused, tmp_path, text, says):
    pytest.importorskip("scipy")
    sums = tmp_path / "sums.csv"
    sums.write_text(text, encoding="utf-8")
    assert says in refused(BATCHES, "--sums", sums)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--low", "2", "--high", "1"), "--high"),
        (("--low", "nan"), "--low"),
        (("--high", "inf"), "--high"),
    ],
)
def test_bounds_are_checked(refused, tmp_path, flags, says):
    sums = tmp_path / "sums.csv"
    sums.write_text("round,sum\n0,2\n1,1\n2,2\n", encoding="utf-8")
    assert says in refused(BATCHES, "--sums", sums, *flags)


def test_gains_only_where_they_are_cheap_or_asked_for(audit, monkeypatch):
    default = audit(MATRIX, code=5)
    assert default["gain_reason"] is None
    without = audit(MATRIX, "--no-gain", code=5)
    assert without["noise_gain"] is without["cosine"] is without["gain_reliable"] is None
    assert "--gain" in without["gain_reason"]
    assert "noise gain" not in without["verdict"]
    assert without["first_exposed"] == default["first_exposed"]
    monkeypatch.setattr("privagg.attacks.linear.GAIN_WORK", 35)  # 3 * 4 * 3 = 36
    assert audit(MATRIX, code=5)["noise_gain"] is None
    assert audit(MATRIX, "--gain", code=5)["noise_gain"] == default["noise_gain"]
    assert audit(BATCHES)["noise_gain"] == {}  # nobody is determined: no work


@pytest.fixture
def rebuilt(run, capsys, tmp_path):
    """Write counts and the rounds' vectors, audit them, and return the JSON object."""
    pytest.importorskip("scipy")

    def call(counts, vectors, *args, code=5, suffix=".npy"):
        table, sums = tmp_path / "counts.csv", tmp_path / f"sums{suffix}"
        table.write_text(counts, encoding="utf-8")
        if suffix == ".npy":
            np.save(sums, vectors)
        else:
            sums.write_text(vectors, encoding="utf-8")
        found = run("audit", "linear", "--counts", table, "--sums", sums, *args, "--json")
        out, err = capsys.readouterr()
        assert found == code, out + err
        return json.loads(out), err

    return call


def unknown(rounds=24, n=4, interval=6, seed=3):
    """Return a random log, what the rounds sum to, and the counts as a table."""
    random = np.random.default_rng(seed)
    log = (random.random((rounds, n)) < 0.5).astype(np.int64)
    log[0], log[1] = 1, [0, *[1] * (n - 1)]
    counts = log.reshape(rounds // interval, interval, n).sum(axis=1).T
    lines = [",".join(["client", *(f"i{k}" for k in range(counts.shape[1]))])]
    lines += [",".join([f"c{i}", *map(str, row)]) for i, row in enumerate(counts.tolist())]
    return log, random.standard_normal((n, n + 4)), "\n".join(lines) + "\n"


def test_an_unknown_log_is_found_from_counts(rebuilt):
    log, inputs, counts = unknown()
    data, err = rebuilt(counts, log @ inputs, "--interval", 6)
    found = data["reconstruction"]
    assert found["interval"] == 6
    assert found["null_dimension"] == 20
    assert all(found["unique"].values())
    for client in range(4):
        assert found["rounds"][f"c{client}"] == np.flatnonzero(log[:, client]).tolist()
    assert data["clients"] == 4
    assert set(data["recoverable"]) == {"c0", "c1", "c2", "c3"}
    assert data["first_exposed"]["c0"] == 1
    assert "found again" in data["verdict"]
    assert "sums.npy" not in data["input"]["source"]
    assert "Warning" not in err
    changed = log @ inputs + 0.01 * np.random.default_rng(1).standard_normal((24, 8))
    noisy, _ = rebuilt(counts, changed, "--interval", 6, "--noisy")
    assert noisy["reconstruction"]["rounds"] == found["rounds"]
    lost, _ = rebuilt(counts, changed, "--interval", 6, code=3)
    assert lost["error"]["needed"] == 4
    assert "--noisy" in lost["error"]["message"]


def test_a_table_of_vectors_with_names(rebuilt):
    text = "round,x,y\nmon,1,2\ntue,3,4\nwed,1,2\nthu,0,0\n"
    data, err = rebuilt("client,a\nann,2\nbob,1\n", text, "--interval", 4, suffix=".csv")
    assert data["reconstruction"]["rounds"] == {"ann": ["mon", "wed"], "bob": ["tue"]}
    assert data["first_exposed"] == {"ann": "mon", "bob": "tue"}
    data, err = rebuilt("client,a\nann,1\nbob,1\n", np.ones((2, 2)), "--interval", 2, code=3)
    assert "ann" in data["error"]["message"]
    turns = np.array([[1, 2], [3, 4]] * 2)  # whose turn is first?
    data, err = rebuilt("client,a\nann,2\nbob,2\n", turns, "--interval", 4, code=0)
    assert not any(data["reconstruction"]["unique"].values())
    assert "not the only ones that fit: 2" in err


@pytest.mark.parametrize(
    ("counts", "args", "says"),
    [
        ("client,a\nann,1\n", (), "--interval"),
        ("client,a\nann,9\n", ("--interval", 2), "counts"),
        ("client,a\nann,-1\n", ("--interval", 2), "counts"),
        ("client,a\nann,0.5\n", ("--interval", 2), "whole numbers"),
        ("client,a,b\nann,1,1\n", ("--interval", 2), "2 intervals"),
        ("who,a\nann,1\n", ("--interval", 2), "--client-column"),
        ("client\nann\n", ("--interval", 2), "no column of counts"),
        ("client,a\nann,1\nann,1\n", ("--interval", 2), "twice"),
        ("client,a\nann,1\nbob,1\ncy,1\n", ("--interval", 2), "at least 3"),
        ("client,a\nann,1\n", ("--interval", 2, "--low", 0), "--low"),
        ("client,a\nann,1\n", ("--interval", 2, "--layout", "list"), "--layout"),
        ("", ("--interval", 2), "empty"),
    ],
)
def test_counts_are_checked(rebuilt, counts, args, says):
    data, _ = rebuilt(counts, np.ones((2, 2)), *args, code=2)
    assert says in data["error"]["message"]


def test_a_log_or_counts(run, capsys, tmp_path):
    assert run("audit", "linear") == 2
    assert "neither" in capsys.readouterr().err
    path = tmp_path / "a.csv"
    path.write_text("client,a\nann,1\n", encoding="utf-8")
    assert run("audit", "linear", "--participation", path, "--counts", path) == 2
    assert "both" in capsys.readouterr().err
    assert run("audit", "linear", "--counts", path) == 2
    assert "--sums" in capsys.readouterr().err


@pytest.mark.parametrize("array", [np.ones(3), np.array([["a"]]), np.full((2, 2), np.nan)])
def test_vectors_are_checked(rebuilt, array):
    data, _ = rebuilt("client,a\nann,1\n", array, "--interval", 2, code=2)
    assert "sums" in data["error"]["message"]


def test_without_scipy_the_extra_is_named(refused, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "scipy" else found(n, *a)
    )
    sums = tmp_path / "sums.csv"
    sums.write_text("round,sum\n0,2\n1,1\n2,2\n", encoding="utf-8")
    assert "privagg[audit]" in refused(BATCHES, "--sums", sums)


def test_for_people(run, capsys, tmp_path):
    log, page, plot = tmp_path / "log.csv", tmp_path / "page.html", tmp_path / "plot.svg"
    log.write_text(MATRIX, encoding="utf-8")
    flags = ("--participation", log, "--schedules", "--seed", 1, "--report", page, "--plot", plot)
    assert run("audit", "linear", *flags) == 5
    out, err = capsys.readouterr()
    assert "cy" in out
    assert "1 pair of rounds isolating a client (rounds 1 and 2: client cy)" in out
    assert "order of magnitude" not in out
    assert "seeded" in err
    assert "<svg" in plot.read_text(encoding="utf-8")
    assert "Exposure" in page.read_text(encoding="utf-8")
    again = run("audit", "linear", *flags)
    assert again == 5
    assert capsys.readouterr().out == out
