"""``simulate responses``, ``plan responses`` and ``bench responses``."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from privagg.bench import responses as bench
from privagg.cli import simulate_responses
from privagg.errors import UsageError
from privagg.protocols.responses import theory
from privagg.protocols.responses.estimators import LOSSES
from privagg.protocols.responses.simulation import MODELS


def result(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(3)
    n = 4000
    age, kind = rng.normal(size=n), rng.choice(["a", "b", "c"], n)
    spend = age + (kind == "b") + rng.normal(size=n) / 2
    table = {"age": age, "kind": kind, "spend": spend, "buys": spend > 0.5}
    table["level"] = np.where(spend > 1, "high", np.where(spend > 0, "mid", "low"))
    parquet.write_table(pa.table(table), tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def test_choices_are_those_of_the_library():
    assert simulate_responses.LOSSES == LOSSES
    assert simulate_responses.MODELS == MODELS


def test_a_bundled_table_with_noise(run, capsys):
    line = "simulate responses --input adult --target income --bag-size 10 --loss interpolate"
    assert run(*line.split(), "--epsilon", "2", "--seed", "1", "--json") == 0
    found = result(capsys)
    assert (found["loss"], found["bag_size"], found["epsilon"]) == ("interpolate", 10, 2.0)
    assert found["bags"] == found["rows"]["train"] // 10
    assert found["baseline_error"] < found["test_error"] < found["trivial_error"]
    assert found["clip"] == [0.0, 1.0]
    assert found["rho"] >= 0
    assert found["ridge"] > 0
    assert set(found["seconds"]) == {"release", "fit"}
    assert found["insecure_seed"]


def simulate(run, people, target, *more):
    args = ("--input", str(people), "--target", target, "--columns", "age,kind", "--json", "-q")
    return run("simulate", "responses", *args, "--seed", "1", "--bag-size", *more)


def test_numbers_in_a_file_with_a_public_range_and_one_that_is_paid_for(run, capsys, people):
    for clip in ("-1,2", "paid:5"):
        # After an option's name, a value that begins with a dash needs the equals sign.
        args = ("5", "--epsilon", "8", f"--clip={clip}", "--loss", "bag")
        assert simulate(run, people, "spend", *args) == 0
        found = result(capsys)
        assert found["task"] == "numbers"
        assert found["test_error"] < 0.5
        assert found["kappa"] < 1
        assert found["rho"] == 0


def test_classes_in_a_file(run, capsys, people):
    for target, model in (("buys", "logistic"), ("level", "auto")):
        args = ("4", "--model", model, "--loss", "bag", "--epsilon", "4")
        assert simulate(run, people, target, *args) == 0
        found = result(capsys)
        assert (found["task"], found["model"]) == ("classes", "logistic")
        assert found["test_error"] < found["trivial_error"] * 0.8
    assert simulate(run, people, "buys", "4", "--loss", "easyllp", "--ridge", "0.1") == 0
    assert result(capsys)["guarantee"].startswith("no differential privacy")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--epsilon", "1"), "clip"),
        (("--epsilon", "1", "--clip", "5"), "clip"),
        (("--rho", "0.5", "--loss", "bag"), "rho"),
        (("--model", "logistic"), "model"),
        (("--delta", "0.01"), "delta"),
    ],
)
def test_what_does_not_fit_is_refused(run, capsys, people, more, reason):
    assert simulate(run, people, "spend", "5", *more) == 2
    assert reason in result(capsys)["error"]["message"]


def test_targets_that_are_none(run, capsys, people, tmp_path):
    assert simulate(run, people, "nothing", "5") == 2
    parquet.write_table(
        pa.table({"age": [1.0, 2.0], "spend": [1.0, 1.0], "kind": ["a", "b"]}), people
    )
    assert simulate(run, people, "spend", "1") == 2
    parquet.write_table(
        pa.table({"age": [1.0, None], "spend": [1.0, 2.0], "kind": ["a", "b"]}), people
    )
    assert simulate(run, people, "spend", "1") == 2
    assert "missing" in capsys.readouterr().out


def test_a_plan_has_the_closed_forms(run, capsys):
    line = "plan responses --samples 10000 --features 2000 --snr 1 --bag-size 10 --json"
    assert run(*line.split(), "--sizes", "1,2,10", "--simulate", "300", "--seed", "1") == 0
    found = result(capsys)
    assert (found["psi"], found["snr"], found["bag_size"]) == (0.2, 1.0, 10)
    risk = found["risk"]
    assert risk["bag"] == pytest.approx(theory.bag_risk(0.2, 0.1, 1))
    assert risk["instance"] == pytest.approx(theory.interpolated_risk(0.2, 0.1, 1, 1.0))
    assert risk["easyllp"] == pytest.approx(theory.easyllp_risk(0.2, 0.1, 1))
    assert risk["interpolated"] == pytest.approx(theory.best_rho(0.2, 0.1, 1)[1], rel=1e-4)
    assert risk["bag_ridge"] == pytest.approx(theory.ridge_risk(0.2, 0.1, 1)[0], rel=1e-4)
    assert found["best"]["bag_size"] == 10
    assert found["best"]["clip"] is None
    assert found["best"]["risk"] <= risk["bag_ridge"] * (1 + 1e-9)
    assert not found["bagging_helps"]
    (curve,) = found["by_rho"]
    pairs = [(a, b) for a, b in zip(curve["risk"], curve["simulated"], strict=True) if a < 3]
    assert all(b == pytest.approx(a, rel=0.25) for a, b in pairs)


def test_a_private_plan_says_that_bags_buy_nothing(run, capsys):
    line = "plan responses --samples 10000 --features 500 --snr 2 --epsilon 2 --sizes 1,5,20"
    assert run(*line.split()) == 0
    out = capsys.readouterr().out
    assert "Bagging buys nothing here" in out
    assert "Best: bags of 1" in out
    assert run(*line.split(), "--json") == 0
    found = result(capsys)
    assert 0 < found["best"]["clip"] < 5
    poles = {curve["name"]: curve["risk"] for curve in found["by_size"]}
    assert poles["bag"][2] is None  # psi = 1/20


def test_more_features_than_samples_need_a_ridge(run, capsys):
    line = "plan responses --samples 100 --features 200 --snr 1 --sizes 1,2"
    assert run(*line.split(), "--json") == 0
    found = result(capsys)
    assert found["risk"]["instance"] is None
    assert found["risk"]["bag_ridge"] < 1
    assert run(*line.split(), "--bag-size", "101") == 2
    assert run(*line.split(), "--epsilon", "100") == 2


def test_pictures_have_theory_and_monte_carlo(run, tmp_path):
    line = "plan responses --samples 1000 --features 100 --snr 1 --bag-size 5 --sizes 1,5"
    page = tmp_path / "page.html"
    assert run(*line.split(), "--simulate", "200", "--report", str(page), "-q") == 0
    text = page.read_text()
    assert "Monte Carlo" in text
    assert "theory" in text


def test_the_benchmark_runs_small(run, capsys):
    sizes = ("--rows", "300", "--features", "3", "--release-rows", "1000", "--splits", "1")
    assert run("bench", "responses", *sizes, "--repeats", "1", "--json") == 0
    found = result(capsys)
    assert found["figures"]["accuracy, privagg, bags of 5"] > 0.9
    with pytest.raises(UsageError, match="parts"):
        bench.bench(parts=["all"])
