"""``--epsilon`` on ``plan secagg`` and ``simulate secagg``."""

from __future__ import annotations

import json

import pytest

from privagg.cli._privacy_options import NOISES
from privagg.mechanisms.distributed import KINDS

KEYS = {
    *("noise", "epsilon_stated", "epsilon", "epsilon_worst", "delta", "rounds", "sampling_rate"),
    *("adjacency", "proof", "survivors", "coalition", "honest", "honest_worst", "curve"),
    *("l2_clip", "bits", "length", "scale", "variance_client", "inflation", "wrap_probability"),
    *("deviation_sum", "deviation_mean", "deviation_central", "variance_ratio", "error_sum"),
}
PLAN = ("plan", "secagg", "--no-calibrate", "--clients", 200, "--dim", 3000)
SIMULATE = ("simulate", "secagg", "--clients", 20, "--dim", 300, "--seed", 1)


@pytest.fixture
def call(run, capsys):
    def called(*args, code=0):
        found = run(*args, "--json")
        out, err = capsys.readouterr()
        assert found == code, err
        return json.loads(out) if code == 0 else err

    return called


def test_the_names_are_those_of_the_mechanisms():
    assert (*KINDS, "poisson-binomial") == NOISES


def test_a_plan_says_what_a_round_guarantees(call):
    data = call(*PLAN, "--epsilon", 4, "--delta", 1e-6, "--rounds", 100)
    privacy = data["privacy"]
    assert set(privacy) == KEYS
    assert 3.9 < privacy["epsilon_worst"] <= 4
    assert privacy["epsilon"] < privacy["epsilon_worst"]
    assert privacy["honest_worst"] == data["min_cohort"] - data["corrupt"]
    assert privacy["bits"] == data["modulus_bits"] == data["value_bits"]
    assert data["dim"] == privacy["length"] == 4096
    epsilons = [one["epsilon"] for one in privacy["curve"]]
    assert epsilons == sorted(epsilons)
    assert privacy["variance_ratio"] > 1
    assert call(*PLAN)["privacy"] is None


def test_more_rounds_take_more_noise_and_replace_twice(call):
    one = call(*PLAN, "--epsilon", 4)["privacy"]
    many = call(*PLAN, "--epsilon", 4, "--rounds", 100)["privacy"]
    other = call(*PLAN, "--epsilon", 4, "--adjacency", "replace")["privacy"]
    assert many["deviation_sum"] > 3 * one["deviation_sum"]
    assert other["deviation_sum"] == pytest.approx(2 * one["deviation_sum"], rel=0.02)
    sampled = call(*PLAN, "--epsilon", 4, "--rounds", 100, "--sampling-rate", 0.05)["privacy"]
    assert sampled["deviation_sum"] < many["deviation_sum"]
    assert "not the server" in sampled["adjacency"]


@pytest.mark.parametrize("noise", NOISES)
def test_a_simulation_measures_the_error_that_was_foretold(call, noise):
    bits = 9 if noise == "poisson-binomial" else 12
    data = call(*SIMULATE, "--epsilon", 6, "--noise", noise, "--noise-bits", bits)
    privacy = data["privacy"]
    assert set(privacy) == KEYS
    assert data["exact"]
    assert privacy["noise"] == noise
    assert privacy["bits"] <= bits
    assert privacy["survivors"] == data["count"] == 19
    assert privacy["error_sum"] == pytest.approx(privacy["deviation_sum"], rel=0.3)
    assert data["truth"]["vectors_clipped"] == 19
    assert "noisy" in data["learned"]
    assert data["sum"][0]["shape"] == [300]


def test_files_and_tables_of_counts(call, tmp_path):
    file = tmp_path / "in.csv"
    file.write_text("a,b\n" + "".join(f"{i * 100000},{-i}\n" for i in range(9)))
    data = call("simulate", "secagg", "--input", file, "--epsilon", 50, "--l2-clip", 1e6)
    assert data["dim"] == 2
    assert data["truth"]["vectors_clipped"] == 0
    counts = call(
        *("simulate", "secagg", "--data", "adult", "--column", "sex", "--clients", 10),
        *("--epsilon", 10, "--l2-clip", 5000),
    )
    assert counts["privacy"]["error_sum"] > 0


def test_the_report_has_the_curve(run, tmp_path, capsys):
    page = tmp_path / "r.html"
    assert run(*SIMULATE, "--epsilon", 6, "--report", page) == 0
    out = capsys.readouterr().out
    text = page.read_text()
    assert "Epsilon over the coalition" in text
    assert "epsilon at the worst case" in out
    assert "at worst" in out


@pytest.mark.parametrize(
    ("args", "flag"),
    [
        (("--noise", "skellam"), "--noise"),
        (("--delta", 1e-5), "--delta"),
        (("--epsilon", 1, "--clip", 1), "--clip"),
        (("--epsilon", 1, "--max-weight", 3), "--max-weight"),
        (("--epsilon", 1, "--protocol", "lightsecagg"), "--protocol"),
    ],
)
@pytest.mark.parametrize("command", [PLAN, SIMULATE])
def test_what_does_not_go_together_is_refused(call, command, args, flag):
    assert flag in call(*command, *args, code=2)


def test_a_semi_malicious_round_proves_the_worst_case_alone(run, capsys):
    sparse = ("--graph", "sparse", "--threat", "semi-malicious", "--epsilon", 4)
    for more, said in ((sparse, True), (("--epsilon", 4), False)):
        assert run(*PLAN, *more) == 0
        assert ("semi-malicious server may learn" in capsys.readouterr().out) is said


def test_sampling_says_what_it_takes_for_granted(call):
    privacy = call(*PLAN, "--epsilon", 4, "--sampling-rate", 0.5)["privacy"]
    assert "same with and without the client" in privacy["adjacency"]


@pytest.mark.parametrize(
    ("args", "flag"),
    [
        (("--l2-clip", "inf"), "--l2-clip: found inf"),
        (("--l2-clip", "1e-300"), "--l2-clip: found 1e-300"),
        (("--l2-clip", "1e300"), "--l2-clip: found 1e+300"),
        (("--noise-bits", 2), "--noise-bits: found 2"),
        (("--noise", "poisson-binomial", "--sampling-rate", 0.5), "--noise: found zero-out"),
        (("--rounds", 10**9), "--epsilon and --noise-bits: found"),
    ],
)
def test_the_options_at_fault_are_named(call, args, flag):
    assert flag in call(*SIMULATE, "--epsilon", 1, *args, code=2)


@pytest.mark.parametrize("args", [("--misbehave", "list"), ("--streamed", "--sum-out", "x.npy")])
def test_lies_and_streams_have_no_noise(call, args):
    assert "--epsilon" in call(*SIMULATE, "--epsilon", 1, *args, code=2)
