"""The round in Flower, by our workflow and by its own: both give the mean, ours in fewer bytes."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from privagg.bench import flower_round
from privagg.cli import main
from privagg.errors import UsageError


def test_the_same_job_by_both(capsys):
    line = ["bench", "flower", "--nodes", 5, "--dim", 3000, "--dropped", 1, "--repeats", 1]
    assert main.run([*map(str, line), "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    active, honest, theirs = found["rows"]
    assert "SecAgg+" in theirs["who"]
    for row in found["rows"]:
        assert row["seconds"] > 0
        assert row["max_error"] < 1e-3
    for row in (active, honest):
        # The masked vector alone: 29 bits of a coordinate, where theirs has 64.
        assert 3000 * 29 / 8 * 4 / 5 < row["bytes_up_per_node"] < theirs["bytes_up_per_node"] / 2
        assert row["max_error"] < 2 / (2**16 - 1) + 1e-6


def test_what_is_refused():
    with pytest.raises(UsageError, match="dropped"):
        flower_round.bench(nodes=4, dropped=4)
    with pytest.raises(UsageError, match="nodes"):
        flower_round.bench(nodes=0)
