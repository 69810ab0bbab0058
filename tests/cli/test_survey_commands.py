"""``simulate multidim``, ``plan ldp`` and ``audit ldp``."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from privagg.attacks import ldp
from privagg.cli import _survey_options, audit_ldp, simulate_multidim
from privagg.cli.envelope import KEYS
from privagg.protocols.multidim import Calibration, Protocol
from privagg.protocols.multidim.estimation import POSTS


def result(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.parquet"
    n = 2000
    table = {
        "sex": ["f", "m"] * (n // 2),
        "race": [["a", "b", "c", "d"][i % 4] for i in range(n)],
        "income": [i % 3 for i in range(n)],
        "age": [i / 7 for i in range(n)],
        "adult": [i % 5 > 0 for i in range(n)],
    }
    parquet.write_table(pa.table(table), path)
    return path


def test_choices_are_those_of_the_library():
    assert set(_survey_options.PROTOCOLS) == {one.value for one in Protocol}
    assert set(_survey_options.CALIBRATIONS) == {one.value for one in Calibration}
    assert set(simulate_multidim.POSTS) == {*POSTS, "none"}
    assert set(audit_ldp.KNOWLEDGE) == set(ldp.KNOWLEDGE)


def test_simulation_of_a_bundled_table(run, capsys):
    line = "simulate multidim --input nursery --protocol rs+fd --oracle adp --epsilon 1.0986"
    assert run(*line.split(), "--runs", "3", "--seed", "1", "--json") == 0
    found = result(capsys)
    assert (found["protocol"], found["oracle"], found["calibration"]) == ("rs+fd", "adp", "tuple")
    assert found["users"] == 12960
    assert list(found["attributes"].values()) == [3, 5, 4, 4, 3, 2, 3, 3, 5]
    assert found["epsilon_tuple"] <= 1.0986
    assert found["epsilon_attribute"] < found["epsilon_tuple"]
    assert found["insecure_seed"] is True
    assert found["runs"] == 3
    assert 0 < found["mse"] < found["mse_raw"]
    assert found["mse_theory"] == pytest.approx(found["mse_raw"], rel=0.8)
    for name, rows in found["estimates"].items():
        assert len(rows) == found["attributes"][name]
        assert sum(row["estimate"] for row in rows) == pytest.approx(1)
        assert all(row["low"] < row["raw"] < row["high"] for row in rows)
        assert sum(found["truth"]["frequencies"][name]) == pytest.approx(1)


def test_json_keys_are_documented(run, capsys):
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for line, heading in (
        ("simulate multidim --input nursery --columns form", "## `privagg simulate multidim`"),
        ("plan ldp --users 9 --domain 4 --epsilon 1 --no-calibrate", "## `privagg plan ldp`"),
    ):
        assert run(*line.split(), "--json") == 0
        text = page.split(heading)[1].split("Keys of `--json`")[1].split("## ")[0]
        keys = set(re.findall(r"`(\w+)`", text))
        assert set(result(capsys)) - set(KEYS) <= keys


def test_published_has_to_be_named_and_warns(run, capsys):
    line = "simulate multidim --input nursery --protocol rs+fd --oracle grr --epsilon 1 --json"
    assert run(*line.split(), "--calibration", "published") == 0
    captured = capsys.readouterr()
    assert "not the stated 1" in captured.err
    found = json.loads(captured.out)
    assert found["epsilon_published"] == pytest.approx(1, rel=1e-4)
    assert found["epsilon_tuple"] == pytest.approx(math.log(9 * (math.e - 1) + 1), rel=1e-4)
    assert run(*line.split()) == 0
    assert "stated" not in capsys.readouterr().err


def test_estimates_as_csv(run, capsys, people, tmp_path):
    out = tmp_path / "estimates.csv"
    line = ["simulate", "multidim", "--input", str(people), "--columns", "sex,race,income"]
    assert run(*line, "--epsilon", "2", "--out", str(out), "--seed", "4") == 0
    assert "Epsilon of one report" in capsys.readouterr().out
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["attribute"] for row in rows] == ["sex"] * 2 + ["race"] * 4 + ["income"] * 3
    assert set(rows[0]) == {"attribute", "value", "estimate", "raw", "deviation", "low", "high"}


def test_a_page(run, people, tmp_path):
    page = tmp_path / "page.html"
    line = ["simulate", "multidim", "--input", str(people), "--columns", "sex,race"]
    assert run(*line, "--report", str(page), "--post", "none") == 0
    assert "closed form" in page.read_text()


def test_priors_cost(run, capsys, people):
    line = ["simulate", "multidim", "--input", str(people), "--columns", "sex,race"]
    assert run(*line, "--protocol", "rs+rfd", "--oracle", "grr", "--json") == 0
    assert result(capsys)["epsilon_prior"] == 0.1
    assert run(*line, "--protocol", "rs+rfd", "--prior", "uniform", "--json") == 0
    assert result(capsys)["epsilon_prior"] == 0


def test_declared_domains(run, capsys, people, tmp_path):
    toml = tmp_path / "survey.toml"
    toml.write_text(
        '[attributes.race]\nkind = "categorical"\nvalues = ["a", "b", "c"]\nunknown = "other"\n'
        '[attributes.age]\nkind = "float"\nlow = 0.0\nhigh = 300.0\nsteps = 10\n'
    )
    line = ["simulate", "multidim", "--input", str(people), "--attributes", str(toml)]
    assert run(*line, "--json") == 0
    found = result(capsys)
    assert found["attributes"] == {"race": 4, "age": 11}
    assert found["truth"]["unknown"] == {"race": 500, "age": 0}
    assert found["input"]["reading"] == "declared domains"


def test_default_columns_are_categories(run, capsys, people):
    assert run("simulate", "multidim", "--input", str(people), "--json") == 0
    assert list(result(capsys)["attributes"]) == ["sex", "race", "income", "adult"]
    assert run("simulate", "multidim", "--input", "adult", "--json") == 0
    assert len(result(capsys)["attributes"]) == 9


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--input", "adlut"], "adult"),
        (["--input", "none.csv"], "exists"),
        (["--input", "nursery", "--columns", "form,colour"], "colour"),
        (["--input", "nursery", "--columns", "form,,form"], "distinct"),
        (["--input", "adult", "--columns", "age", "--epsilon", "0"], "above 0"),
        (["--input", "adult", "--oracle", "oue-z"], "with smp"),
        (["--input", "adult", "--protocol", "rs+fd", "--oracle", "ss"], "with rs+fd"),
        (["--input", "voters2016", "--columns", "voted_trump"], "missing or not declared"),
    ],
    ids=str,
)
def test_wrong_simulations(run, capsys, words, says):
    assert run("simulate", "multidim", *words) == 2
    assert says in capsys.readouterr().err


def test_missing_values_have_a_cell(run, capsys):
    line = "simulate multidim --input voters2016 --columns voted_trump,race --unknown other --json"
    assert run(*line.split()) == 0
    assert result(capsys)["truth"]["unknown"]["voted_trump"] > 0


def test_floats_need_a_domain(run, capsys, people):
    assert run("simulate", "multidim", "--input", str(people), "--columns", "age") == 2
    assert "--attributes" in capsys.readouterr().err


def test_input_is_not_overwritten(run, capsys, people):
    copy = people.with_suffix(".csv")
    copy.write_text("sex\nf\nm\n")
    assert run("simulate", "multidim", "--input", str(copy), "--out", str(copy)) == 2
    assert "another file" in capsys.readouterr().err
    assert copy.read_text() == "sex\nf\nm\n"


def test_plan(run, capsys):
    line = "plan ldp --users 45000 --domain 7,16,7,14 --epsilon 1 --no-calibrate"
    assert run(*line.split(), "--interval", "0.02", "--json") == 0
    found = result(capsys)
    rows = found["forecasts"]
    assert found["recommended"] == {key: rows[0][key] for key in ("protocol", "oracle")}
    assert all(row["epsilon_tuple"] <= 1 for row in rows)
    assert all((row["users_needed"] > 45000) == (row["interval"] > 0.02) for row in rows)
    assert all(row["decode_seconds"] is None for row in rows)
    assert run(*line.split(), "--max-bytes", "1.5", "--calibration", "attribute") == 0
    text = capsys.readouterr().out
    assert "Recommended: " in text
    assert "one attribute only" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--users", "9"], "--domain"),
        (["--users", "9", "--domain", "7,x"], "whole numbers"),
        (["--users", "9", "--domain", "7,1"], "2 to"),
        (["--users", "9", "--domain", "7", "--no-calibrate", "--max-seconds", "1"], "no-calibrate"),
    ],
    ids=str,
)
def test_wrong_plans(run, capsys, words, says):
    assert run("plan", "ldp", "--epsilon", "1", *words) == 2
    assert says in capsys.readouterr().err


def test_audit_of_oracles(run, capsys):
    line = "audit ldp --values 5 --epsilon 1 --oracles grr,oue --trials 3000 --json"
    assert run(*line.split()) == 0
    found = result(capsys)
    assert [row["oracle"] for row in found["oracles"]] == ["grr", "oue"]
    assert found["leak"] is False
    for row in found["oracles"]:
        assert 0 < row["bound"]["epsilon"] <= row["epsilon_realised"] <= 1


def test_audit_refutes_the_published_epsilon(run, capsys):
    line = "audit ldp --input nursery --columns form,children --protocol rs+fd --oracle grr"
    words = [*line.split(), "--epsilon", "0.6931", "--json"]
    assert run(*words, "--calibration", "published") == 5
    found = result(capsys)
    assert found["leak"] is True
    assert found["bounds"][0]["exceeds"] is True
    assert found["bounds"][0]["epsilon"] <= found["epsilon_tuple"]
    assert found["attribute_inference"]["baseline"] == 0.5
    for honest in ("tuple", "attribute"):
        assert run(*words, "--calibration", honest) == 0
        assert result(capsys)["leak"] is False


def test_audit_of_sampling(run, capsys):
    line = "audit ldp --input nursery --oracle grr --epsilon 5 --surveys 4 --people 100 --json"
    assert run(*line.split()) == 0
    found = result(capsys)
    assert found["reidentification"]["surveys"] == 4
    assert found["reidentification"]["top"]["10"] > found["reidentification"]["baseline"]["10"]
    assert set(found["poisoning"]) == set(found["oracles"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--values"),
        (["--values", "4", "--input", "adult"], "either"),
        (["--values", "4", "--targets", "5"], "up to"),
        (["--values", "4", "--oracles", "none"], "grr"),
        (["--input", "adult", "--oracles", "grr"], "--oracle chooses"),
    ],
    ids=str,
)
def test_wrong_audits(run, capsys, words, says):
    assert run("audit", "ldp", *words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("unknown", [0, 37])
def test_unknown_values_are_counted_in_the_truth_only(run, capsys, tmp_path, unknown):
    """Neither the text nor the page, nor any other key, says how many there were."""
    path, page = tmp_path / "mine.csv", tmp_path / "page.html"
    rows = ["no"] * (400 - unknown) + ["maybe"] * unknown
    path.write_text("likes\n" + "\n".join(rows) + "\n")
    domains = tmp_path / "survey.toml"
    domains.write_text(
        '[attributes.likes]\nkind = "categorical"\nvalues = ["no", "yes"]\nunknown = "other"\n'
    )
    line = f"simulate multidim --input {path} --attributes {domains} --seed 1"
    assert run(*line.split(), "--report", str(page)) == 0
    text = capsys.readouterr()
    assert "in the JSON object's truth" in text.out.replace("\n", " ") + text.err
    for shown in (text.out, text.err, page.read_text()):
        assert f"{unknown} values were outside" not in shown
    assert run(*line.split(), "--json") == 0
    assert result(capsys)["truth"]["unknown"] == {"likes": unknown}
