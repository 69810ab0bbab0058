"""``--protocol lightsecagg`` of ``simulate secagg`` and ``plan secagg``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privagg.cli import _lightsecagg, _lightsecagg_plan
from privagg.cli._secagg_options import RoundOptions
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import calibration
from privagg.protocols.secagg.calibration import Units as TheirUnits

ROUND = ("--clients", 12, "--dim", 30, "--protocol", "lightsecagg", "--dropout", 0.25)


def command(run, capsys, *args, code=0):
    found = run(*args, "--json")
    out, err = capsys.readouterr()
    assert found == code, err
    return json.loads(out)


@pytest.mark.parametrize("threat", ["semi-honest", "active"])
def test_a_round_is_run_and_reported(simulate, threat):
    data, err = simulate(*ROUND, "--threat", threat)
    assert data["protocol"] == "lightsecagg"
    assert (data["exact"], data["count"], data["threat"]) == (True, 9, threat)
    assert data["survivors"]["unmasking"] == 9
    assert data["dropouts"]["masked-input"] == 3
    assert data["field"] == "m31"
    assert "share-masks: 12 of 12" in err


def test_the_sum_is_written_and_is_that_of_the_file(run, capsys, tmp_path):
    vectors = np.arange(40).reshape(8, 5)
    np.save(tmp_path / "in.npy", vectors)
    out = tmp_path / "sum.npy"
    data = command(
        run,
        capsys,
        "simulate",
        "secagg",
        "--input",
        tmp_path / "in.npy",
        "--protocol",
        "lightsecagg",
        "--dropout",
        0,
        "--sum-out",
        out,
    )
    assert data["max_error"] == 0
    assert np.array_equal(np.load(out), vectors.sum(axis=0))


def test_a_schedule_and_a_transcript(run, capsys, tmp_path):
    (tmp_path / "gone.json").write_text('{"share-masks": [3], "unmasking": [5]}')
    log = tmp_path / "log.jsonl"
    data = command(
        run,
        capsys,
        "simulate",
        "secagg",
        *ROUND,
        "--schedule",
        tmp_path / "gone.json",
        "--transcript",
        log,
        "--transcript-payloads",
        "--seed",
        1,
    )
    assert (data["count"], data["insecure_seed"]) == (11, True)
    header, *lines = map(json.loads, log.read_text().splitlines())
    assert header["format"] == "privagg lightsecagg transcript 1"
    assert header["messages"] == len(lines)
    assert {line["round"] for line in lines} == set(lsa.ROUNDS) - {"consistency-check"}
    assert sum(line["size"] for line in lines if line["sender"] == 0) == sum(
        data["bytes_up"].values()
    )


def test_the_audit_of_the_other_protocol_says_what_it_was_given(run, capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    command(run, capsys, "simulate", "secagg", *ROUND, "--transcript", log)
    assert run("audit", "secagg", "--transcript", log) == 2
    said = capsys.readouterr().err
    assert "log.jsonl, line 1: found a transcript of LightSecAgg" in said
    assert "--protocol bonawitz" in said


def test_an_abort_ends_with_its_code_and_keeps_the_transcript(run, capsys, tmp_path):
    (tmp_path / "gone.json").write_text(json.dumps({"masked-input": list(range(7))}))
    log = tmp_path / "log.jsonl"
    data = command(
        run,
        capsys,
        "simulate",
        "secagg",
        *ROUND,
        "--schedule",
        tmp_path / "gone.json",
        "--transcript",
        log,
        code=3,
    )
    assert (data["error"]["alive"], data["error"]["needed"]) == (5, 9)
    assert json.loads(log.read_text().splitlines()[0])["aborted"].startswith("round masked-input")


@pytest.mark.parametrize(
    ("flags", "match"),
    [
        (("--graph", "sparse"), "--graph: found sparse"),
        (("--prg", "chacha20"), "--prg: found chacha20"),
        (("--neighbours", 4), "--neighbours: found 4"),
        (("--threat", "semi-malicious"), "Choose active"),
        (("--misbehave", "keys-replaced"), "--misbehave: found keys-replaced"),
        (("--workers", 2), "--workers: found 2"),
        (("--drop-at", "share-keys"), "--drop-at: found share-keys"),
        (("--threshold", 1), "N - D >= U > T"),
        (("--roster-out", "x.json"), "--threat active"),
    ],
)
def test_what_the_protocol_does_not_have_is_refused(refused, flags, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert match in refused(*ROUND, *flags)


def test_the_other_protocol_has_no_round_of_shared_masks(refused):
    assert "--drop-at" in refused("--clients", 9, "--dim", 2, "--drop-at", "share-masks")


def test_a_plan_gives_the_bytes_of_a_run(run, capsys, simulate):
    plan = command(run, capsys, "plan", "secagg", *ROUND, "--no-calibrate")
    data, _ = simulate(*ROUND, "--drop-at", "unmasking")
    assert plan["bytes_up"] == data["bytes_up"]
    assert plan["bytes_down"] == data["bytes_down"]
    assert plan["cpu_seconds_server"] is None
    assert plan["elements_relayed"] == 12 * 11 * plan["share_elements"]


def test_a_comparison_recommends_one(run, capsys):
    words = ("plan", "secagg", "--clients", 400, "--dim", 50_000, "--dropout", 0.3)
    data = command(run, capsys, *words, "--protocol", "compare")
    seconds = {name: one["seconds"] for name, one in data["protocols"].items()}
    assert data["recommended"] == min(seconds, key=seconds.get)
    bare = command(run, capsys, *words, "--protocol", "compare", "--no-calibrate")
    assert bare["recommended"] is None
    for name, one in bare["protocols"].items():
        assert one["expansion"] == data["protocols"][name]["expansion"]
    assert run(*words, "--protocol", "compare", "--no-calibrate") == 0
    assert "Calibrate to have one recommended" in capsys.readouterr().out


def given(**changes):
    usual = dict.fromkeys(RoundOptions.__dataclass_fields__)
    usual |= {"clients": 100, "dim": 1000, "value_bits": 16, "signed": False, "corrupt": 0.05}
    usual |= {"dropout": 0.05, "threat": "semi-honest", "graph": "complete", "prg": "aes-128-ctr"}
    return RoundOptions(**usual | changes)


def test_the_plot_shows_the_crossover():
    """Where only the pairwise masks take time, the lines part; they cover this plan."""
    costly = TheirUnits(**dict.fromkeys(TheirUnits.__dataclass_fields__, 0.0) | {"stream": 1e-7})
    plots = list(_lightsecagg_plan._crossover(given(), calibration.free(), costly))
    assert [plot.x_label for plot in plots] == ["clients", "dropout [fraction]"]
    for plot, here in zip(plots, (100, 0.05), strict=True):
        theirs, ours = plot.series
        assert [theirs.name, ours.name] == ["Bonawitz", "LightSecAgg"]
        assert here in theirs.x
        assert here in ours.x
        gain = [a / b for a, b in zip(theirs.y, ours.y, strict=True)]
        assert gain[-1] > gain[0]


def test_guarantees_name_threat_and_coalition():
    params = _lightsecagg.params_of(given(corrupt=0.1, threat="active"))
    assert "up to 10 clients colluding" in _lightsecagg.guarantee(params)
    assert "whatever they do (active)" in _lightsecagg.guarantee(params)
    alone = _lightsecagg.params_of(given(corrupt=0.0, dropout=0.0, min_cohort=2))
    assert (alone.privacy, alone.honest_inputs) == (1, 2)
    assert "colluding" not in _lightsecagg.guarantee(alone)
