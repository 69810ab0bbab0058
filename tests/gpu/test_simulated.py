"""The tests of this folder that need a device run in Numba's simulator, in a process of its own.

The simulator takes the place of Numba's compiler for CUDA when that is imported, so it cannot be
had in the process of the other tests. Kernels are interpreted there, one Python thread for each of
theirs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FILES = sorted(path.name for path in HERE.glob("test_gpu_*.py"))

# A busy process gives way to the threads of the simulator each time it is asked to, and soon.
PROGRAM = "import sys, pytest; sys.setswitchinterval(1e-4); sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.parametrize("name", FILES)
def test_in_the_simulator(name):
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PRIVAGG_JIT": "0"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-c", PROGRAM, "-m", "gpu", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(HERE / name)],
        cwd=HERE.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    summary = done.stdout.strip().splitlines()[-1]
    assert re.match(r"\d+ passed(?:, \d+ deselected)? in", summary), summary
