from __future__ import annotations

import json

import pytest

from privagg.protocols import secagg

KEYS = {
    *("schema_version", "command", "privagg"),
    *(
        "protocol",
        "threat",
        "graph",
        "clients",
        "corrupt",
        "dropout",
    ),
    *("threshold", "neighbours", "min_cohort", "prg", "modulus_bits", "dim", "value_bits"),
    *("signed", "clip", "weighted", "max_weight", "survivors_expected", "sigma"),
    *(
        "eta",
        "expansion",
        "expansion_formula",
        "expansion_graph_proof",
        "bytes_up_per_client",
        "bytes_down_per_client",
    ),
    *("bytes_up", "bytes_down", "bytes_server", "memory_server"),
    *("cpu_seconds_client", "cpu_seconds_server", "simulation_workers", "simulation_seconds"),
    "privacy",
}
ROUND = ("--clients", 1000, "--dim", 100_000)
QUICK = (*ROUND, "--no-calibrate")


@pytest.fixture
def plan(run, capsys):
    def call(*args, code=0):
        found = run("plan", "secagg", *args, "--json")
        out, err = capsys.readouterr()
        assert found == code, err
        return json.loads(out)

    return call


def test_the_object_has_its_keys(plan):
    data = plan(*ROUND)
    assert set(data) == KEYS
    assert data["cpu_seconds_client"] > 0
    assert data["cpu_seconds_server"] > 0
    assert data["simulation_seconds"] > data["cpu_seconds_client"]
    assert data["simulation_workers"] >= 1
    assert data["bytes_up_per_client"] == sum(data["bytes_up"].values())
    assert data["bytes_server"] == 1000 * sum(
        data[key] for key in ("bytes_up_per_client", "bytes_down_per_client")
    )


def test_without_a_calibration_there_are_no_seconds(plan, run, capsys):
    data = plan(*QUICK)
    assert set(data) == KEYS
    assert data["cpu_seconds_client"] is None
    assert data["simulation_seconds"] is None
    assert run("plan", "secagg", *QUICK) == 0
    assert "CPU" not in capsys.readouterr().out


def test_the_golden_expansions_are_reached(plan):
    big = ("--clients", 2**10, "--dim", 2**20, "--no-calibrate")
    assert plan(*big)["expansion"] <= 1.73
    sparse = plan(*big, "--graph", "sparse", "--corrupt", 0.1, "--dropout", 0.1)
    assert sparse["expansion"] <= 1.635


@pytest.mark.parametrize(
    ("graph", "threat"), [("complete", "active"), ("sparse", "semi-malicious")]
)
def test_stronger_threat_models_are_planned(plan, graph, threat):
    data = plan(*QUICK, "--graph", graph, "--threat", threat)
    weaker = plan(*QUICK, "--graph", graph)
    assert data["threat"] == threat
    assert "consistency-check" in data["bytes_up"]
    assert data["bytes_up_per_client"] > weaker["bytes_up_per_client"]
    assert weaker["expansion_graph_proof"] == 0
    if graph == "complete":
        assert 2 * data["threshold"] > 1000 + data["corrupt"]
        assert data["expansion_graph_proof"] == 0
        return
    choice = secagg.thresholds.choose_sparse(
        1000, corrupt=0.05, dropout=0.05, threat=secagg.Threat.SEMI_MALICIOUS
    )
    assert (data["neighbours"], data["threshold"]) == (choice.neighbours, choice.threshold)
    assert data["neighbours"] > weaker["neighbours"]
    proof = data["expansion_graph_proof"] * 100_000 * 2
    total = data["bytes_up_per_client"] + data["bytes_down_per_client"]
    assert proof > 1000 * 16
    assert data["expansion"] * 100_000 * 2 + proof == pytest.approx(total)


def test_a_threat_model_needs_its_graph(plan):
    for graph, threat in (("complete", "semi-malicious"), ("sparse", "active")):
        error = plan(*QUICK, "--graph", graph, "--threat", threat, code=2)["error"]
        assert "--graph" in error["message"]


def test_given_thresholds_are_checked_against_the_threat(plan):
    args = (*QUICK, "--threat", "active")
    assert plan(*args, "--threshold", 526)["threshold"] == 526
    message = plan(*args, "--threshold", 525, code=2)["error"]["message"]
    assert "--threshold" in message
    assert "Use 526" in message


def test_given_neighbours_are_checked(plan):
    args = (*QUICK, "--graph", "sparse", "--threat", "semi-malicious")
    assert "neighbours" in plan(*args, "--neighbours", 30, code=2)["error"]["message"]
    data = plan(*args, "--neighbours", 60, "--threshold", 42)
    assert (data["neighbours"], data["threshold"]) == (60, 42)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((*QUICK, "--weights", "n"), "--max-weight"),
        ((*QUICK, "--corrupt", 0.6, "--dropout", 0.5), "dropout <= "),
        ((*QUICK, "--graph", "sparse", "--corrupt", 0.55, "--dropout", 0.4), "corrupt <= "),
        ((*QUICK, "--graph", "sparse", "--threat", "active"), "complete graph"),
        ((*QUICK, "--min-cohort", 990), "--min-cohort"),
        ((*QUICK, "--value-bits", 32, "--max-weight", 2**30), "--max-weight 1073741 "),
    ],
)
def test_what_is_infeasible_is_refused_with_what_is_feasible(plan, args, words):
    error = plan(*args, code=2)["error"]
    assert error["exit_code"] == 2
    assert words in error["message"]


def test_a_cohort_is_supposed_where_none_is_given_and_said(run, capsys):
    assert run("plan", "secagg", "--no-calibrate", "--json") == 0
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    assert (data["clients"], data["dim"]) == (1000, 16384)
    assert "No --clients given: planned for 1000." in shown.err
    assert "No --dim given: planned for 16384." in shown.err


def test_weights_cost_one_coordinate(plan):
    data = plan(*QUICK, "--max-weight", 500, "--weights", "n", "--clip", 1)
    assert data["weighted"]
    assert data["max_weight"] == 500
    assert data["modulus_bits"] == 35


def test_for_people_the_other_graph_is_named_too(run, capsys):
    assert run("plan", "secagg", *QUICK) == 0
    out = capsys.readouterr().out
    assert "With --graph sparse: expansion" in out
    assert run("plan", "secagg", *QUICK, "--threat", "active") == 0
    assert "With --graph sparse --threat semi-malicious: expansion" in capsys.readouterr().out
    assert "learn no more of the other inputs than their sum" in out
    assert (
        run("plan", "secagg", "--clients", 5, "--dim", 9, "--corrupt", 0.4, "--no-calibrate") == 0
    )
    assert "--graph sparse is not feasible" in capsys.readouterr().out


def test_the_page_and_the_plot_show_both_graphs(run, tmp_path):
    page, plot = tmp_path / "p.html", tmp_path / "p.svg"
    assert run("plan", "secagg", *QUICK, "--report", page, "--plot", plot) == 0
    for target in (page, plot):
        text = target.read_text()
        assert "Expansion over the size of the cohort" in text or target == plot
        assert len(text) > 10_000
    assert "sparse" in page.read_text()


def test_other_cohorts_that_do_not_fit_are_left_out(run, tmp_path):
    small = ("--clients", 3, "--dim", 5, "--no-calibrate", "--corrupt", 0)
    assert run("plan", "secagg", *small, "--plot", tmp_path / "p.png") == 0
