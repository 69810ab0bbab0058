from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from privagg import entropy
from privagg.cli import _secagg_costs, _secagg_inputs, _secagg_schedule, envelope, simulate_secagg
from privagg.cli._secagg_options import GRAPHS, PRGS, THREATS, RoundOptions
from privagg.errors import UsageError
from privagg.prg import Suite
from privagg.protocols import secagg

SMALL = ("--clients", 10, "--dim", 7, "--dropout", 0.2)
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
    *("signed", "clip", "weighted", "max_weight", "clip_source", "max_weight_source", "input"),
    *("dropouts", "survivors", "count", "weight_total", "expansion", "expansion_formula"),
    *("bytes_up_per_client", "bytes_down_per_client", "bytes_up", "bytes_down", "seconds"),
    *("exact", "max_error", "error_bound", "sum", "mean", "histogram", "guarantee", "learned"),
    *("not_learned", "truth", "insecure_seed", "blame", "expansion_graph_proof", "privacy"),
}
SECONDS = {"client", "server", "total_cpu", "wall", "clients_by_round", "server_by_round"}


def options(**changes):
    given = RoundOptions(
        clients=5,
        dim=4,
        value_bits=16,
        signed=False,
        clip=None,
        weights=None,
        max_weight=None,
        corrupt=0.05,
        dropout=0.05,
        threat="semi-honest",
        graph="complete",
        threshold=None,
        neighbours=None,
        min_cohort=None,
        prg="aes-128-ctr",
    )
    return replace(given, **changes)


def test_the_choices_are_the_protocols_own():
    assert tuple(t.value for t in secagg.Threat) == THREATS
    assert tuple(g.value for g in secagg.Graph) == GRAPHS
    assert tuple(s.value for s in Suite) == PRGS
    assert simulate_secagg.DROP_AT == secagg.ROUNDS


# The result


@pytest.mark.parametrize(
    "settings", [(), ("--clip", 2.5), ("--max-weight", 9), ("--signed",), ("--prg", "chacha20")]
)
def test_the_object_has_its_keys_and_the_sum_is_right(simulate, settings):
    data, _ = simulate(*SMALL, *settings)
    assert set(data) == KEYS
    assert set(data["seconds"]) == SECONDS
    assert data["exact"]
    assert data["protocol"] == "secagg"
    assert data["survivors"] == {
        "advertise-keys": 10,
        "share-keys": 10,
        "masked-input": 8,
        "unmasking": 8,
    }
    assert data["dropouts"]["masked-input"] == 2
    assert data["max_error"] <= data["error_bound"]
    assert not data["insecure_seed"]
    assert data["seconds"]["total_cpu"] > data["seconds"]["server"] > 0


@pytest.mark.parametrize("graph", ["complete", "sparse"])
def test_a_plan_says_the_bytes_that_a_run_then_measures(simulate, run, capsys, graph):
    settings = ("--clients", 40, "--dim", 50, "--dropout", 0, "--corrupt", 0, "--graph", graph)
    data, _ = simulate(*settings)
    assert run("plan", "secagg", *settings, "--json", "--no-calibrate") == 0
    plan = json.loads(capsys.readouterr().out)
    shared = set(data) & set(plan) - {"command"}
    assert {"threshold", "neighbours", "expansion", "bytes_up", "bytes_down"} <= shared
    assert {key: data[key] for key in shared} == {key: plan[key] for key in shared}


def test_for_people_there_are_rounds_the_bill_and_what_was_learned(run, capsys):
    assert run("simulate", "secagg", *SMALL, "--seed", 1) == 0
    out = capsys.readouterr().out
    for words in (
        "masked-input",
        "up per client",
        "formula",
        "The server learned the sum over 8 clients",
        "It did not learn any single client's input",
        "Seeded, so insecure",
        "equals the plain sum of the 8 survivors exactly",
        "semi-honest",
    ):
        assert words in out


def test_a_wrong_sum_is_reported_and_ends_with_4(simulate, run, capsys, monkeypatch):
    right = secagg.run

    def wrong(*args, **settings):
        return replace(right(*args, **settings), exact=False, max_error=3.0)

    monkeypatch.setattr(secagg, "run", wrong)
    data, err = simulate(*SMALL, code=4)
    assert not data["exact"]
    assert "differs from the plain sum" in err
    assert run("simulate", "secagg", *SMALL) == 4
    assert "WRONG" in capsys.readouterr().out


def test_pages_and_plots_are_written(simulate, tmp_path):
    page, plot = tmp_path / "r.html", tmp_path / "r.png"
    simulate(*SMALL, "--report", page, "--plot", plot)
    assert "Clients that answered each round" in page.read_text()
    assert plot.read_bytes().startswith(b"\x89PNG")


# Seeds and workers


def test_a_seed_repeats_everything_but_the_seconds(simulate):
    settings = (*SMALL, "--clip", 1, "--max-weight", 5)
    first, _ = simulate(*settings, "--seed", 3)
    for again in (("--seed", 3), ("--seed", 3, "--workers", 3)):
        second, _ = simulate(*settings, *again)
        assert {**first, "seconds": 0} == {**second, "seconds": 0}
    other, _ = simulate(*settings, "--seed", 4)
    assert other["sum"] != first["sum"]
    assert first["insecure_seed"]


def test_without_a_seed_runs_differ_and_a_client_keeps_its_numbers(simulate):
    assert simulate(*SMALL)[0]["sum"] != simulate(*SMALL)[0]["sum"]
    vectors = _secagg_inputs.generated(options(), entropy.OS).inputs.vectors
    assert np.array_equal(vectors[3], vectors[3])
    assert not np.array_equal(vectors[3], vectors[2])


@pytest.mark.parametrize("bits", [1, 7, 16, 32])
@pytest.mark.parametrize("signed", [False, True])
def test_generated_integers_fill_their_range(bits, signed):
    given = options(dim=4000, value_bits=bits, signed=signed)
    vector = _secagg_inputs.generated(given, entropy.from_seed(5)).inputs.vectors[0]
    low = -(2 ** (bits - 1)) if signed else 0
    assert low <= vector.min() < low + 2**bits / 100 + 1
    assert low + 2**bits - 2**bits / 100 - 2 < vector.max() < low + 2**bits


def test_generated_floats_and_weights_fill_their_range():
    given = options(clients=500, dim=4000, clip=3.0, max_weight=4)
    material = _secagg_inputs.generated(given, entropy.from_seed(5))
    vector = material.inputs.vectors[1]
    assert -3 <= vector.min() < -2.9
    assert 2.9 < vector.max() < 3
    assert set(material.inputs.weights) == {1, 2, 3, 4}


# Dropouts


@pytest.mark.parametrize(
    ("before", "survivors", "count"),
    [
        ("advertise-keys", [8, 8, 8, 8], 8),
        ("share-keys", [10, 8, 8, 8], 8),
        ("masked-input", [10, 10, 8, 8], 8),
        ("consistency-check", [10, 10, 10, 8], 10),
        ("unmasking", [10, 10, 10, 8], 10),
    ],
)
def test_the_dropout_fraction_leaves_before_any_round(simulate, before, survivors, count):
    data, _ = simulate(*SMALL, "--drop-at", before)
    assert list(data["survivors"].values()) == survivors
    assert data["count"] == count
    assert data["dropouts"][before] == 2
    assert data["exact"]


def test_who_leaves_is_drawn():
    assert _secagg_schedule.draw(10, 0, "unmasking", entropy.OS) == {}
    assert set(_secagg_schedule.draw(10, 10, "unmasking", entropy.OS)) == set(range(10))
    seen = set()
    for seed in range(40):
        leaves = _secagg_schedule.draw(10, 3, "unmasking", entropy.from_seed(seed))
        assert len(leaves) == 3
        assert set(leaves.values()) == {"unmasking"}
        seen |= set(leaves)
    assert seen == set(range(10))


def test_a_schedule_says_who_leaves_when(simulate, tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"advertise-keys": [0], "share-keys": [], "unmasking": [9, 4]}')
    data, _ = simulate(*SMALL, "--schedule", path)
    assert list(data["survivors"].values()) == [9, 9, 9, 7]
    assert data["exact"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "list"),
        ("{", "no JSON"),
        ("\xff", "UTF-8"),
        ('{"masked": [1]}', "masked-input"),
        ('{"unmasking": 3}', "a list"),
        ('{"unmasking": [10]}', "0 to 9"),
        ('{"unmasking": [-1]}', "0 to 9"),
        ('{"unmasking": [true]}', "True"),
        ('{"unmasking": [1.0]}', "1.0"),
        ('{"unmasking": [1, 1]}', "client 1 again"),
        ('{"unmasking": [1], "share-keys": [1]}', "client 1 again"),
        ('{"unmasking": [1], "unmasking": [2]}', "twice"),
    ],
)
def test_bad_schedules_are_refused(refused, tmp_path, text, words):
    path = tmp_path / "s.json"
    path.write_bytes(text.encode("latin-1"))
    message = refused(*SMALL, "--schedule", path)
    assert words in message
    assert "s.json" in message


def test_a_schedule_and_a_round_do_not_go_together(refused, tmp_path):
    path = tmp_path / "s.json"
    path.write_text("{}")
    assert "--schedule" in refused(*SMALL, "--schedule", path, "--drop-at", "unmasking")


@pytest.mark.parametrize("before", ["advertise-keys", "share-keys", "masked-input", "unmasking"])
def test_too_many_dropouts_abort_with_3(simulate, tmp_path, before):
    path, record = tmp_path / "s.json", tmp_path / "t.jsonl"
    path.write_text(json.dumps({before: [0, 1, 2, 3, 4, 5]}))
    data, err = simulate(*SMALL, "--schedule", path, "--transcript", record, code=3)
    assert set(data) == {*envelope.KEYS, "error"}
    assert data["error"]["type"] == "Abort"
    assert data["error"]["alive"] == 4
    assert "Aborted" in err or "aborted" in err
    header = json.loads(record.read_text().splitlines()[0])
    assert header["aborted"] == data["error"]["message"]


# Memory


def test_scarce_memory_is_warned_of(simulate, monkeypatch):
    monkeypatch.setattr(_secagg_costs, "memory_here", lambda: (10, None))
    _, err = simulate(*SMALL)
    assert "of memory; 10 B are available" in err


def test_payloads_and_vectors_count_as_memory():
    small, large = options().params(), options(dim=10**6).params()
    need = _secagg_costs.memory_needed
    assert need(large, 1, payloads=False) > 8 * 10**6 + need(small, 1, payloads=False)
    assert need(large, 1, payloads=True) > need(large, 1, payloads=False) + 5 * 2 * 10**6
    available, total = _secagg_costs.memory_here()
    assert total is None or total >= (available or 0) > 0


# Files


@pytest.mark.parametrize("payloads", [False, True])
def test_the_transcript_holds_every_message(simulate, tmp_path, payloads):
    path = tmp_path / "t.jsonl"
    flags = ["--transcript-payloads"] if payloads else []
    data, _ = simulate(*SMALL, "--transcript", path, *flags)
    header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert header["protocol"] == "secagg"
    assert header["aborted"] is None
    assert header["messages"] == len(lines) == 2 * sum(data["survivors"].values())
    for name, clients in data["survivors"].items():
        sent = [line for line in lines if line["round"] == name and line["receiver"] == "server"]
        assert len(sent) == clients
        assert sum(line["size"] for line in sent) / clients == pytest.approx(data["bytes_up"][name])
    for line in lines:
        assert (line["payload"] is not None) == payloads
        if payloads:
            content = base64.b64decode(line["payload"])
            assert len(content) == line["size"]
            assert hashlib.sha256(content).hexdigest() == line["sha256"]


def test_a_schedule_is_read_with_names_in_any_order(tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"unmasking": [2], "advertise-keys": [1]}')
    assert _secagg_schedule.read(path, 3) == {2: "unmasking", 1: "advertise-keys"}
    with pytest.raises(UsageError, match="0 to 1"):
        _secagg_schedule.read(path, 2)
