"""Flower's simulation engine, which is Ray: the example runs, and training is the plain one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")
pytest.importorskip("ray", reason="the extra 'flower' is installed without simulation")

import privagg

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "flower" / "run.py"


@pytest.mark.timeout(280)
def test_the_example_trains_as_well_as_without(tmp_path):
    """Clients move between the engine's actors; their state follows them in Flower's context."""
    root = str(Path(privagg.__file__).resolve().parent.parent)
    environment = os.environ | {
        "FLWR_HOME": str(tmp_path),
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PRIVAGG_JIT": "0",  # the model is small, and each actor would load the kernels
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
    }
    example = subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--nodes", "5", "--rounds", "2", "--json"],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        output, _ = example.communicate(timeout=260)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(example.pid, signal.SIGKILL)  # whatever the engine left behind
    assert example.returncode == 0
    lines = output.decode().splitlines()
    found = json.loads(next(line for line in lines if line.startswith("{")))
    # Two roundings, and what training makes of the first.
    assert found["largest difference"] < 4 * 2 / (2**16 - 1)
    assert len(found["secure"]["accuracy"]) == 3
    assert found["secure"]["accuracy"] == pytest.approx(found["plain"]["accuracy"], abs=1e-3)
    assert found["secure"]["on nodes"] == pytest.approx(found["plain"]["on nodes"], abs=1e-3)
    assert found["secure"]["accuracy"][-1] > 0.78
    assert found["secure"]["bytes up per node and round"] < 4000
