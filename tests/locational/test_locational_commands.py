"""The commands: ``privagg simulate locational`` and ``privagg bench locational``."""

from __future__ import annotations

import csv
import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from privagg import datasets
from privagg.bench import locational as bench
from privagg.cli import simulate_locational
from privagg.cli.main import run
from privagg.datasets.declared import DIVISIONS, STATE_CODES
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.locational import (
    FAMILIES,
    MECHANISMS,
    Aggregator,
    Category,
    Chunk,
    Grid,
    Params,
    RegionList,
    hold,
    randomize,
)
from privagg.protocols.locational.evaluation import SETS, evaluate, statistic
from privagg.protocols.locational.nested import run_nested

STATES = Path(__file__).resolve().parents[2] / "examples" / "states.txt"
POINTS = ("--input", "stops2017", "--latitude", "latitude", "--longitude", "longitude")
KEYS = {
    *("regions", "mechanism", "why", "epsilon", "delta", "notion", "users", "bytes_per_report"),
    *("estimates", "truth"),
}


@pytest.fixture
def call(capsys):
    def called(*words, code=0):
        found = run(["simulate", "locational", *map(str, words), "--quiet"])
        output = capsys.readouterr()
        assert found == code, output.err
        return output.out if code == 0 else output.err

    return called


def as_json(text):
    return json.loads(text)


# The three lines of the page.


def test_income_by_state(call, tmp_path):
    words = "--input income2000 --region state --value weekly_income:float[0,5000] --clamp"
    page = tmp_path / "map.html"
    found = as_json(call(*words.split(), "--epsilon", 2, "--report", page, "--json", "--seed", 1))
    assert set(found) >= KEYS
    assert found["truth"]["clamped"] == 582
    assert found["truth"]["unknown"] == 0
    assert len(found["estimates"]) == 51
    assert set(found["estimates"][0]) >= {"region", "estimate", "low", "high", "count"}
    html = page.read_text(encoding="utf-8")
    states = datasets.load("income2000")["state"].combine_chunks().dictionary.to_pylist()
    assert all(state in html for state in states)
    assert "<path" in html or "<polygon" in html


def test_incidents_on_a_grid(call):
    words = "--input stops2017 --region grid:6x6 --latitude latitude --longitude longitude"
    found = as_json(call(*words.split(), "--value", "problem:category", "--epsilon", 2, "--json"))
    assert len(found["estimates"]) == 72
    assert {row["value"] for row in found["estimates"]} == {"suspicious", "traffic"}
    assert found["notion"] == "local"
    assert found["epsilon_realised"] <= 2
    assert not found["insecure_seed"]


def test_votes_by_a_declared_list(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "states.txt").write_text(STATES.read_text(encoding="utf-8"), encoding="utf-8")
    words = "--input voters2016 --region state:states.txt --value voted_trump:bool --missing other"
    found = as_json(call(*words.split(), "--mechanism", "exponential", "--epsilon", 3, "--json"))
    assert found["mechanism"] == "exponential"
    assert found["oracle"] == "ss"
    assert found["truth"]["unknown"] == 19_668
    error = call(*words.split()[:-2], "--epsilon", 3, code=2)
    assert "not declared" in error
    words = "--input voters2016 --region state:one.txt --epsilon 3"
    (tmp_path / "one.txt").write_text("Ohio\nIowa\n", encoding="utf-8")
    assert "--unknown other" in call(*words.split(), code=2)


# Outputs, files, other options.


def test_tables_and_maps_are_written(call, tmp_path):
    words = [*POINTS, "--region", "grid:2x2"]
    table, shapes = tmp_path / "x.csv", tmp_path / "x.geojson"
    call(*words, "--epsilon", 3, "--out", table)
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [row["region"] for row in rows] == ["0,0", "0,1", "1,0", "1,1"]
    assert abs(sum(float(row["estimate"]) for row in rows) - 51_920) < 1500
    call(*words, "--epsilon", 3, "--out", shapes)
    features = json.loads(shapes.read_text(encoding="utf-8"))["features"]
    ring = features[0]["geometry"]["coordinates"][0][0]
    assert len(ring) == 5
    assert ring[0] == ring[-1]
    assert {"name", "estimate", "low", "high", "count"} <= set(features[0]["properties"])


def people(path, n=3000):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "where": pa.array(rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])),
            "cases": pa.array(rng.integers(0, 9, n)),
        }
    )
    parquet.write_table(table, path, row_group_size=500)
    return table


def test_a_file_needs_what_it_declares(call, tmp_path):
    path, names = tmp_path / "people.parquet", tmp_path / "names.txt"
    table = people(path)
    names.write_text("a\nb\nc\n", encoding="utf-8")
    base = ["--input", path, "--region", f"where:{names}", "--epsilon", 3]
    found = as_json(call(*base, "--value", "cases:int[0,8]", "--json"))
    assert found["users"] == 3000
    assert found["truth"]["count"] == [
        table["where"].to_pylist().count(name) for name in ("a", "b", "c")
    ]
    assert "declared" in call("--input", path, "--region", "where", code=2)
    assert "Declare it" in call(*base, "--value", "cases:int", code=2)
    assert "out of range" in call(*base, "--value", "cases:int[0,5]", code=2)
    assert "another file" in call(*base, "--out", path, code=2)
    assert "another file" in call(*base, "--out", names, code=2)
    assert names.read_text(encoding="utf-8") == "a\nb\nc\n"
    assert found["users"] == as_json(call(*base, "--confidence", 1 - 2**-53, "--json"))["users"]
    assert "needed" in call("--region", "where", code=2)
    names.write_text("a\nb\n", encoding="utf-8")
    assert "no declared region" in call(*base, code=2)
    assert as_json(call(*base, "--missing", "other", "--json"))["truth"]["unknown"] > 200


def test_parquet_is_read_in_constant_memory(tmp_path):
    """Ten times the respondents, and no more memory but for what a chunk takes."""
    from privagg.cli._locational_inputs import Place, read
    from privagg.protocols.locational import run as run_all

    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\n", encoding="utf-8")
    peaks = []
    for n in (200_000, 1_000_000):
        path = tmp_path / f"{n}.parquet"
        people(path, n)
        place = Place(
            region=f"where:{names}", latitude=None, longitude=None, bbox=None, parents=None
        )
        inputs = read(str(path), place, None, 1, lambda *_: None)
        params = Params(regions=inputs.regions, epsilon=1.0)
        run_all(params, inputs.chunks, seed=1) if not peaks else None
        tracemalloc.start()
        result = run_all(params, inputs.chunks, seed=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert result.users == n
    assert peaks[1] < 1.5 * peaks[0]


def test_lists_of_items(call, tmp_path):
    path, names = tmp_path / "marks.parquet", tmp_path / "names.txt"
    names.write_text("\n".join("abcdefgh"), encoding="utf-8")
    rows = [["a", "c"], ["b"], [], ["h", "a"]] * 300
    parquet.write_table(pa.table({"marks": rows}), path)
    base = ["--region", f"marks:{names}", "--items", 2, "--epsilon", 2, "--json"]
    found = as_json(call("--input", path, *base))
    assert found["users"] == 1200
    assert found["oracle"] == "privset"
    assert found["truth"]["estimates"][0] == [600.0]
    text = tmp_path / "marks.csv"
    text.write_text("marks\n" + "a; c\nb\nh;a\n" * 100, encoding="utf-8")
    assert as_json(call("--input", text, *base))["truth"]["estimates"][0] == [200.0]


def test_parents_levels_and_other_notions(call):
    base = ["--input", "voters2016", "--region", "state", "--epsilon", 2, "--json"]
    found = as_json(call(*base, "--parents", "census-divisions", "--levels", "sampled"))
    assert len(found["parents"]) == 9
    assert len(found["levels"]["estimates"]) == 60
    assert sum(found["levels"]["shares"]) == pytest.approx(1)
    shuffled = as_json(call(*base, "--shuffle"))["shuffled"]
    assert shuffled["holds"]
    assert shuffled["epsilon"] < 0.5 < shuffled["local"]
    beside = as_json(call(*base, "--beside-secagg"))["alternatives"]
    assert [row["mse"] > 0 for row in beside] == [True, False, True]
    grid = [*POINTS, "--region", "grid:4x4"]
    geo = as_json(call(*grid, "--notion", "geo", "--epsilon", 0.002, "--json"))
    assert geo["notion"] == "geo"
    assert geo["mechanism"] in ("planar-laplace", "region-exponential")
    assert geo["epsilon_realised"] > 10
    refused = call(*grid, "--notion", "geo", "--value", "problem:category", code=2)
    assert "presence" in refused


@pytest.mark.parametrize(
    "words",
    [
        "--input voters2016 --region state --notion geo",
        "--input voters2016 --region state --levels sampled",
        "--input voters2016 --region state --bbox 0,0,1,1",
        "--input voters2016 --region state --parents nowhere.csv",
        "--input voters2016 --region nowhere",
        "--input voters2016 --region grid:2x2",
        "--input voters2016 --region grid:2x2 --latitude age --longitude age",
        "--input stops2017 --region grid:2 --latitude latitude --longitude longitude",
        "--input stops2017 --region grid:2x2 --latitude longitude --longitude latitude",
        "--input stops2017 --region grid:2x2 --latitude latitude --longitude longitude --bbox 1,2",
        "--input voters2016 --region state --value state:category",
        "--input voters2016 --region state --value age",
        "--input voters2016 --region state --mechanism gaussian --shuffle",
        "--input voters2016 --region state --max-seconds 1",
        "--input voters2016 --region state --sets votes",
        "--input nothing.txt --region state",
        "--evaluate --input voters2016",
        "--evaluate --sets nothing",
        "--evaluate --epsilons one",
        "--evaluate --sets votes --mechanism ss",
        "--evaluate --sets votes --region state",
        "--evaluate --sets votes --clamp",
        "--input stops2017 --region grid:²x2 --latitude latitude --longitude longitude",
        "--input stops2017 --region h3:² --latitude latitude --longitude longitude",
    ],
)
def test_refused(call, words):
    call(*words.split(), code=2)


def test_names_in_the_help_are_the_protocols():
    assert simulate_locational.MECHANISM_NAMES == MECHANISMS
    assert set(FAMILIES) <= set(MECHANISMS)
    assert set(DIVISIONS) <= set(STATE_CODES)


# The evaluation.


def test_evaluation_says_where_everything_loses(call):
    found = as_json(
        call("--evaluate", "--sets", "one-hot,incidents", "--epsilons", "1,3", "--json")
    )["evaluation"]
    one_hot = [row for row in found if row["set"] == "one-hot" and row["epsilon"] == 1]
    assert all(row["loses"] for row in one_hot)
    assert {"auto", "gaussian", "published"} <= {row["mechanism"] for row in one_hot}
    own = [row for row in found if row["set"] == "incidents"]
    assert not any(row["loses"] for row in own if row["oracle"] != "gaussian")


@pytest.mark.parametrize("name", SETS)
def test_every_statistic_runs(name):
    rows = evaluate(sets=[name], epsilons=[3.0], mechanisms=["auto"])
    assert rows[0].users >= 1000
    assert math.isfinite(rows[0].mse)
    survey, chunk = statistic(name)
    assert len(chunk.places[0]) >= 1000
    assert Params(epsilon=1.0, **survey).cells.known == rows[0].cells


def test_real_statistics_whose_intervals_are_of_use():
    """At epsilon 3, in 80 % of the regions: raw ones on a grid of 4 x 4, and smoothed means."""
    rows = evaluate(sets=["votes", "income"], epsilons=[3.0], mechanisms=["ss"], runs=3, seed=4)
    for row in rows:
        assert row.narrow_smooth >= 0.8
        assert row.covered_smooth > 0.85
    survey, chunk = statistic("incidents")
    survey["regions"] = Grid(4, 4, survey["regions"].bounds)
    params = Params(epsilon=3.0, **survey)
    narrow = []
    held = hold(params, chunk.places)
    for seed in range(5):
        aggregator = Aggregator(params)
        aggregator.receive(randomize(params, held, from_seed(seed)))
        narrow.append(aggregator.estimate().narrow)
    assert np.mean(narrow) >= 0.8


# Levels, and the benchmark.


@pytest.mark.parametrize("adaptive", [False, True])
def test_levels_agree_and_hold_the_truth(adaptive):
    rng = np.random.default_rng(0)
    names = [f"{parent}{child}" for parent in "abc" for child in range(4)]
    regions = RegionList(names, {name: name[0] for name in names})
    region = rng.choice(12, 4000, p=np.array([9, 8, 7, 6, 3, 2, 1, 1, 0.2, 0.1, 0.1, 0.1]) / 37.5)
    values = np.array(["x", "y"])[rng.integers(0, 2, 4000)]
    chunk = Chunk([np.array(names)[region]], values)
    params = Params(regions=regions, value=Category(["x", "y"]), epsilon=2.0)
    inside = []
    for seed in range(25):
        found = run_nested(params, lambda: [chunk], adaptive=adaptive, seed=seed)
        inside.append(((found.low <= found.truth) & (found.truth <= found.high)).mean())
        children = np.zeros((3, 2))
        there = found.parent >= 0
        np.add.at(children, found.parent[there], found.count[there])
        split = np.isin(np.arange(3), found.parent)
        assert np.allclose(children[split], found.count[:3][split])
        assert len(found.rows()) == 2 * len(found.names)
    assert 0.9 < np.mean(inside) < 0.99
    with pytest.raises(UsageError):
        run_nested(Params(regions=RegionList(names), epsilon=1.0), lambda: [chunk])


def test_sums_of_parents_vary_as_stated():
    names = [str(at) for at in range(9)]
    regions = RegionList(names, {name: "ab"[int(name) < 4] for name in names})
    region = np.random.default_rng(0).integers(0, 9, 800)
    for mechanism in ("ss", "pgr", "hr", "gaussian"):
        params = Params(regions=regions, epsilon=1.0, mechanism=mechanism)
        held = hold(params, [np.array(names)[region]])
        truth = np.bincount(regions.parent_indices[region], minlength=2)
        gaps, reach = [], []
        for seed in range(300):
            aggregator = Aggregator(params)
            aggregator.receive(randomize(params, held, from_seed(seed)))
            rows = aggregator.estimate().parents()
            gaps.append([row["count"] - true for row, true in zip(rows, truth, strict=True)])
            reach.append([(row["high"] - row["low"]) / 2 / 1.96 for row in rows])
        ratio = np.square(gaps).mean(axis=0) / np.square(reach).mean(axis=0)
        assert (np.abs(ratio - 1) < 5 * math.sqrt(2 / 300)).all(), mechanism


def test_benchmark_of_tiny_sizes(capsys):
    report = bench.bench(users=300, cells=20, repeats=1)
    figures = json.loads(report.to_json())["figures"]
    assert set(figures) == set(bench.FASTEST)
    assert figures["pgr"]["bytes_per_report"] < 2
    with pytest.raises(UsageError):
        bench.bench(users=0)
    with pytest.raises(UsageError):
        bench.bench(mechanisms=["nothing"])
    assert run(["bench", "locational", "--users", "200", "--cells", "5", "--repeats", "1"]) == 0
    assert "add up and estimate" in capsys.readouterr().out
