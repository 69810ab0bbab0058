"""A streamed round stays far below one copy of one vector, in a process of its own."""

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

folder, dim = Path(sys.argv[1]), int(sys.argv[2])

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def mapped(name, dtype, dim):
    return np.memmap(folder / name, dtype, "w+", shape=(dim,))

def play(dim):
    params = Params.recommend(clients=4, dim=dim, clip=1.0, dropout=0.25, corrupt=0.0)
    vectors = [mapped(f"in{client}-{dim}", np.float32, dim) for client in range(4)]
    for client, vector in enumerate(vectors):
        for first, end in tiles.spans(dim):
            vector[first:end] = (client + 1) / 8
            tiles.release(vector[first:end])
    total = mapped(f"total-{dim}", np.float64, dim)
    before = peak()
    found = streaming.run_streamed(
        params, vectors, total, scratch=folder, dropouts={0: "masked-input"}, workers=2
    )
    after = peak()
    worst = max(
        float(np.abs(total[first:end] - 9 / 8).max()) for first, end in tiles.spans(dim)
    )
    assert found.aggregate.count == 3
    return after - before, worst, params.encoding.rounding_bound(3)

play(2 * tiles.TILE)  # compiles, and takes what a round takes at any length
grown, worst, bound = play(dim)
print(json.dumps({"grown": grown, "worst": worst, "bound": bound}))
"""

DIM = 1 << 24


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
def test_memory_of_a_streamed_round(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(DIM)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["worst"] <= found["bound"] * (1 + 1e-9)
    # One vector of words has 4 * DIM bytes, the sum 8 * DIM.
    assert found["grown"] < DIM
