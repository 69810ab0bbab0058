"""One round, however it is computed: every path, compiled or not, in one process or several."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from privagg import prg
from privagg.protocols import secagg

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_same_round import outcome
print(json.dumps([outcome(suite, graph) for suite, graph in json.loads(sys.argv[2])]))
"""

CASES = [(suite.value, graph) for suite in prg.Suite for graph in ("complete", "sparse")]


def outcome(suite, graph, workers=1):
    """Play a seeded round; return a digest of every message, and one of the sum."""
    more = {"graph": graph, "prg": suite, "dropout": 0.2, "corrupt": 0.0, "clip": 1.0}
    if graph == "sparse":
        more |= {"neighbours": 6, "threshold": 3, "sigma": 1, "eta": 1}
    # Words of 64 bits, and a length that is odd: every path has a tail.
    params = secagg.Params.recommend(clients=10, dim=4099, value_bits=31, **more)
    vectors = np.random.default_rng(3).uniform(-1, 1, (10, 4099))
    transcript = secagg.Transcript()
    result = secagg.run(
        params,
        vectors,
        seed=11,
        workers=workers,
        dropouts={2: "masked-input", 7: "unmasking"},
        transcript=transcript,
    )
    assert result.exact
    lines = "\n".join(f"{e.round} {e.sender} {e.receiver} {e.sha256}" for e in transcript)
    return [
        hashlib.sha256(lines.encode()).hexdigest(),
        hashlib.sha256(result.sum.tobytes()).hexdigest(),
    ]


@pytest.mark.parametrize(("suite", "graph"), CASES)
def test_every_path_sends_the_same_bytes(suite, graph, monkeypatch):
    monkeypatch.delenv("PRIVAGG_PRG", raising=False)
    expected = outcome(suite, graph)
    assert "openssl" in prg.paths(suite)
    for path in prg.paths(suite):
        monkeypatch.setenv("PRIVAGG_PRG", path)
        assert prg.path(suite) == path
        assert outcome(suite, graph) == expected


@pytest.mark.parametrize("graph", ["complete", "sparse"])
def test_worker_processes_send_the_same_bytes(graph):
    suite = "aes-128-ctr"
    assert outcome(suite, graph, workers=2) == outcome(suite, graph)


def test_nothing_compiled_sends_the_same_bytes():
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, here, json.dumps(CASES)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PRIVAGG_JIT": "0"},
    )
    assert json.loads(done.stdout) == [outcome(suite, graph) for suite, graph in CASES]
