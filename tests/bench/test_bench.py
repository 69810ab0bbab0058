"""Benchmarks run, on one small cell each, and say what they measured; no figure is asserted."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec

import numpy as np
import pytest

from privagg import field as fields
from privagg import prg
from privagg.bench import clock, field, flower, peers, peers_field, rows, secagg
from privagg.bench import prg as streams
from privagg.cli import main
from privagg.cli.bench import field_command, prg_command, secagg_command
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.field import FIELDS
from privagg.prg import Suite
from privagg.protocols.secagg import Params, calibration


def good(report):
    """Check a report's rows, and that it can be printed as JSON; return its cases by name."""
    data = json.loads(report.to_json())
    assert data["clock"] == rows.CLOCK
    assert "GHz" in data["hertz_basis"] or data["hertz"] is None
    cases = {case["name"]: case for case in data["cases"]}
    assert len(cases) == len(data["cases"])
    for case in cases.values():
        names = [row["who"] for row in case["rows"]]
        assert len(set(names)) == len(names)
        assert names[0].startswith(rows.OURS)
        for row in case["rows"]:
            seconds = row["seconds"]
            assert 0 < seconds["best"] <= seconds["low"] <= seconds["median"] <= seconds["high"]
            assert math.isclose(
                row["ratio_to_ours"],
                seconds["median"]
                / min(
                    other["seconds"]["median"]
                    for other in case["rows"]
                    if other["who"].startswith(rows.OURS)
                ),
            )
        assert all(floor["seconds"] > 0 and floor["reason"] for floor in case["floors"])
    assert len(report.tables) == len(cases)
    return cases


def test_streams():
    seen = []
    report = streams.bench(
        length=2000, short=50, neighbours=3, repeats=2, step=lambda *step: seen.append(step)
    )
    cases = good(report)
    assert len(cases) == 2 * len(Suite)
    for suite in Suite:
        (long,) = (c for name, c in cases.items() if name.startswith(f"{suite}: one"))
        assert long["amount"] == 8000
        names = {row["who"] for row in long["rows"]}
        assert {f"privagg, path {path}" for path in prg.paths(suite)} <= names
        assert "cryptography update_into, no addition" in names
        assert any("addition" in floor["reason"] for floor in long["floors"])
    assert seen[-1] == ("mask streams", 4, 4)


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv("PRIVAGG_PRG", "openssl")
    streams.bench(length=10, short=10, neighbours=1, repeats=1)
    assert prg.path(Suite.AES128_CTR) == "openssl"


def test_sharing():
    report = field.bench(parts=["sharing"], clients=9, threshold=5, secrets=4, repeats=2)
    cases = good(report)
    assert len(cases) == 3
    shared = cases["a secret of 128 bits shared among n = 9, t = 5"]["rows"]
    labels = {row["who"]: row["extrapolated"] for row in shared}
    assert labels["plain Python integers"] is None
    assert "n = 9, t = 5" in labels["pycryptodome Shamir.split"]


def test_arithmetic():
    seen = []
    report = field.bench(
        parts=["arithmetic"],
        length=5000,
        columns=30,
        transform=16,
        repeats=2,
        step=lambda *step: seen.append(step),
    )
    cases = good(report)
    assert len(cases) == 9
    assert seen[-1] == ("fields", 9, 9)
    rows = {row["who"]: row for row in cases["5000 products modulo 2**31 - 1"]["rows"]}
    assert rows["NumPy, 64-bit words"]["extrapolated"] is None
    assert rows["plain Python integers"]["extrapolated"] == "from 4096 products"
    contestants = {row["who"] for case in cases.values() for row in case["rows"]}
    notes = " ".join(report.notes)
    for name, module in (("python-flint nmod_mat", "flint"), ("galois", "galois")):
        installed = find_spec(module) is not None
        assert (name in contestants) == installed
        assert (name.split()[0] in notes) != installed


def as_integers(result):
    entries = getattr(result, "entries", None)
    if entries is not None:
        return [int(x) for x in entries()]
    if isinstance(result, np.ndarray):
        return [int(x) for x in result.ravel()]
    return [int(x) for x in result]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FIELDS.values(), ids=lambda kind: kind.name)
def test_peers_compute_the_same(kind):
    a, b = (fields.uniform(from_seed(k), (6, 6), kind) for k in (1, 2))
    flat = [v.reshape(36, *v.shape[2:]) for v in (a, b)]
    elements = fields.integers(fields.mul(*flat, kind), kind).tolist()
    works = peers_field.products(kind, *flat)
    if kind.modulus < 2**32:
        works |= peers_field.word_products(kind, *flat)
    assert {name: as_integers(work()) for name, work in works.items()} == dict.fromkeys(
        works, elements
    )
    product = fields.integers(fields.matmul(a, b, kind), kind).ravel().tolist()
    works = peers_field.matrix_products(kind, a, b)
    if kind.limbs == 1:
        works |= peers_field.flint_matrix_product(kind, a, b)
    for work in works.values():
        assert as_integers(work()) == product
    if kind == fields.GOLDILOCKS:
        expected = fields.polynomial_product(*flat, kind).tolist()
        for work in peers_field.polynomial_products(kind, *flat).values():
            assert as_integers(work()) == expected


def test_the_object_decoder_decodes_what_ours_does():
    points, targets = np.arange(3, 8, dtype=np.uint32), np.arange(1, 3, dtype=np.uint32)
    shares = fields.uniform(from_seed(3), (5, 4), fields.M31)
    weights = fields.lagrange_weights(points, targets, fields.M31)
    expected = fields.matmul(weights, shares, fields.M31).tolist()
    (work,) = peers_field.decoders(points, targets, shares).values()
    assert work().tolist() == expected


def test_rounds(monkeypatch):
    params = Params.recommend(clients=5, dim=40, clip=8.0, value_bits=22)
    units = calibration.measure(params)
    monkeypatch.setattr(calibration, "measure", lambda params: units)
    report = secagg.bench(clients=(5, 7), dims=(40, 60), repeats=1, dropped=0.2)
    cases = good(report)
    assert len(cases) == 8
    for case in cases.values():
        measured, plan = case["rows"][:2]
        assert measured["extrapolated"] is None
        assert plan["who"] == "plan"
        assert "predicted" in plan["extrapolated"]
    assert len(report.plots) == 4
    assert {plot.title for plot in report.plots} == {
        f"{party} over {axis}" for party in ("client", "server") for axis in "dn"
    }


def test_python_shares_rebuild_the_secret():
    shares = peers.python_share(12345, 3, 6)
    for chosen in ([1, 2, 3], [6, 2, 5], [1, 2, 3, 4, 5, 6]):
        weights = peers.python_weights(chosen)
        assert peers.python_combine(weights, [shares[at - 1] for at in chosen]) == 12345
    assert peers.python_combine(peers.python_weights([1, 2]), shares[:2]) != 12345


@pytest.mark.parametrize("suite", list(Suite))
def test_peers_make_the_same_streams(suite):
    size = prg.seed_bytes(suite)
    seeds = np.random.default_rng(1).integers(0, 256, (3, size), dtype=np.uint8)
    expected = np.zeros(77, np.uint32)
    prg.accumulate(expected, seeds, np.ones(3, np.int8), suite=suite)
    accumulator = np.zeros(77, np.uint32)
    for work in peers.streams(suite, seeds, accumulator).values():
        accumulator[:] = 0
        work()
        assert np.array_equal(accumulator, expected)


def test_timings_are_summed_up():
    timing = clock.Timing.of([3.0, 1.0, 2.0], 5)
    assert (timing.best, timing.median, timing.low, timing.high) == (1.0, 2.0, 1.5, 2.5)
    assert (timing.repeats, timing.calls) == (3, 5)
    assert timing.times(10).high == 25.0
    assert timing.plus(timing).median == 4.0


def test_a_race_calls_everyone_equally_often():
    calls = {"a": 0, "b": 0}

    def count(name):
        calls[name] += 1

    clock.race({name: lambda name=name: count(name) for name in calls}, repeats=4, least=0.0)
    assert calls == {"a": 3 + 4, "b": 3 + 4}


@pytest.mark.parametrize(
    ("bench", "wrong", "argument"),
    [
        (streams.bench, {"length": 0}, "length"),
        (streams.bench, {"repeats": True}, "repeats"),
        (field.bench, {"threshold": 1}, "threshold"),
        (field.bench, {"clients": 5, "threshold": 6}, "threshold"),
        (field.bench, {"parts": []}, "parts"),
        (field.bench, {"parts": ["addition"]}, "parts"),
        (field.bench, {"columns": 0}, "columns"),
        (field.bench, {"transform": 24}, "transform"),
        (field.bench, {"transform": 2}, "transform"),
        (secagg.bench, {"clients": ()}, "clients"),
        (secagg.bench, {"dims": ()}, "dims"),
        (secagg.bench, {"workers": 0}, "workers"),
    ],
)
def test_sizes_are_checked(bench, wrong, argument):
    with pytest.raises(UsageError) as caught:
        bench(**wrong)
    assert caught.value.argument == argument


@pytest.mark.skipif(find_spec("flwr") is not None, reason="Flower is installed")
@pytest.mark.parametrize("bench", [streams.bench, field.bench, secagg.bench])
def test_a_peer_that_is_not_installed_is_said(bench):
    with pytest.raises(UsageError, match="make bench-peers"):
        bench(against_flower=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Flower imports
@pytest.mark.skipif(find_spec("flwr") is None, reason="Flower is not installed")
def test_flower():
    good(streams.bench(length=100, short=10, neighbours=2, repeats=1, against_flower=True))
    good(
        field.bench(
            parts=["sharing"],
            clients=5,
            threshold=3,
            secrets=2,
            repeats=1,
            against_flower=True,
        )
    )
    cases = good(
        secagg.bench(clients=(5,), dims=(40,), dropped=0.2, repeats=1, against_flower=True)
    )
    client, server = cases.values()
    assert client["rows"][2]["who"] == "Flower client, both rounds"
    assert client["rows"][2]["extrapolated"] is None
    assert all(row["extrapolated"] for row in server["rows"][1:])
    assert flower.require() is None


@pytest.mark.parametrize("command", [prg_command, field_command, secagg_command])
def test_defaults_are_of_their_own_types(command):
    with command.make_context("bench", []) as context:
        values = context.params
    if command is secagg_command:
        assert (values["clients"], values["dim"]) == ((100,), (100_000,))
    assert values["repeats"] >= 3
    assert values["against"] is None


@pytest.mark.parametrize(
    "words",
    [
        ["prg", "--length", "100", "--short", "10", "--neighbours", "2"],
        [
            *("field", "--clients", "5", "--threshold", "3", "--secrets", "2", "--length", "9"),
            *("--columns", "3", "--transform", "8", "--part", "arithmetic", "--part", "sharing"),
        ],
        ["secagg", "--clients", "4", "--dim", "30", "--dropped", "0.25"],
    ],
    ids=lambda words: words[0],
)
def test_commands(words, capsys):
    assert main.run(["bench", *words, "--repeats", "1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema_version"] == 1
    assert data["cases"]
    assert flower.CLIP == 8.0
