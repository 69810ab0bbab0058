"""The benchmark of sensor networks runs, and says what it measured."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privagg.attacks import linear
from privagg.bench import rows, sensor
from privagg.cli import main
from privagg.errors import UsageError


def test_all_parts():
    seen = []
    report = sensor.bench(
        nodes=80,
        epochs=3,
        large=150,
        logs=[(12, 15), (9, 4)],
        repeats=2,
        step=lambda *step: seen.append(step),
    )
    cases = report.data["cases"]
    assert [case["name"].split(",")[0] for case in cases] == ["cpda-field"] * 3 + [
        "participation log"
    ] * 2
    assert seen[-1][1:] == (5, 5)
    for case in cases:
        assert case["rows"][0]["who"] == rows.OURS
        assert all(row["seconds"]["median"] > 0 for row in case["rows"])
        assert not any(row["extrapolated"] for row in case["rows"])
    assert len(cases[3]["rows"]) == 3


def test_what_is_beside_the_audit_finds_the_same():
    for clients, rounds in ((12, 15), (12, 8), (30, 30)):
        weights = sensor._log(clients, rounds)
        found = linear.audit(linear.Log.of_matrix(weights))
        other = sensor._by_decomposition(weights.astype(np.float64))
        assert sorted(found.order.tolist()) == other.tolist()


def test_one_part_and_what_is_refused(run, capsys):
    words = ("--part", "participation", "--log", 12, 5, "--log", 9, 9, "--repeats", 1, "--json")
    assert run("bench", "sensor", *words) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert [case["name"].split(":")[0] for case in cases] == [
        "participation log, 12 clients, 5 rounds",
        "participation log, 9 clients, 9 rounds",
    ]
    with pytest.raises(UsageError, match="parts"):
        sensor.bench(parts=["tag"])
    for name in ("nodes", "epochs", "large", "repeats"):
        with pytest.raises(UsageError, match=name):
            sensor.bench(**{name: 0})
    with pytest.raises(UsageError, match="rounds"):
        sensor.bench(logs=[(3, 0)])


@pytest.fixture
def run():
    return lambda *args: main.run([str(arg) for arg in args])
