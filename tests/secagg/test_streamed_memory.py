"""A streamed round stays far below one copy of one vector, in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
from privagg.protocols.secagg import Params, streaming, tiles
from privagg.protocols.secagg.engine import LocalEngine
from privagg.protocols.secagg.engine_processes import ProcessEngine

folder, dim, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def peak(pid="self"):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def mapped(name, dtype, dim):
    return np.memmap(folder / name, dtype, "w+", shape=(dim,))

def play(dim, engine):
    params = Params.recommend(clients=4, dim=dim, clip=1.0, dropout=0.25, corrupt=0.0)
    vectors = [mapped(f"in{client}-{dim}", np.float32, dim) for client in range(4)]
    for client, vector in enumerate(vectors):
        for first, end in tiles.spans(dim):
            vector[first:end] = (client + 1) / 8
            tiles.release(vector[first:end])
    total = mapped(f"total-{dim}", np.float64, dim)
    pids = ["self", *(worker._process.pid for worker in getattr(engine, "_workers", []))]
    before = [peak(pid) for pid in pids]
    found = streaming.run_streamed(
        params, vectors, total, scratch=folder, dropouts={0: "masked-input"}, engine=engine
    )
    after = [peak(pid) for pid in pids]
    worst = max(
        float(np.abs(total[first:end] - 9 / 8).max()) for first, end in tiles.spans(dim)
    )
    assert found.count == 3
    assert found.exact
    grown = max(now - then for now, then in zip(after, before))
    return grown, max(after), worst, params.encoding.rounding_bound(3)

with LocalEngine() if workers == 1 else ProcessEngine(workers) as engine:
    play(2 * tiles.TILE, engine)  # compiles, and takes what a round takes at any length
    grown, peak_bytes, worst, bound = play(dim, engine)
print(json.dumps({"grown": grown, "peak": peak_bytes, "worst": worst, "bound": bound}))
"""

DIM = 1 << 24
LONG = 10**8
STATED = 384 << 20
"""What docs/speed.md says that a process takes, whatever the length."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")


def measured(folder, dim, workers):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(dim), str(workers)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["worst"] <= found["bound"] * (1 + 1e-9)
    assert found["peak"] < STATED
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_of_a_streamed_round(tmp_path, workers):
    # One vector of words has 4 * DIM bytes, the sum 8 * DIM.
    assert measured(tmp_path, DIM, workers)["grown"] < DIM


@pytest.mark.sweep
@pytest.mark.parametrize("workers", [1, 2])
def test_memory_at_a_hundred_million_coordinates(tmp_path, workers):
    assert measured(tmp_path, LONG, workers)["grown"] < 64 << 20
