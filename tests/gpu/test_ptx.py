"""Every kernel compiles to PTX, without a driver, where Numba's compiler for CUDA is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def missing() -> str:
    """Return which package the compilation lacks."""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed: make ptx"
    try:
        found = {name for name in ("nvvm", "nvrtc") if find_spec(f"nvidia.cu13.{name}") is not None}
    except ModuleNotFoundError:
        found = set()
    return "" if found else "nvidia-nvvm and nvidia-cuda-nvrtc are not installed: make ptx"


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=str)
def test_every_kernel_compiles(capability):
    command = [sys.executable, str(HERE / "compile_ptx.py"), *map(str, capability)]
    done = subprocess.run(
        command, cwd=HERE.parent.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line.rsplit(": ", 1) for line in done.stdout.splitlines()]
    assert len({name for name, _ in lines}) == len(lines) > 100
    for name, counts in lines:
        instructions, calls, fused, local, *assembled = map(int, re.findall(r"\d+", counts))
        assert instructions > 0, name
        assert calls == 0, f"{name}: a function was not inlined"
        # A fused multiplication rounds otherwise than the host does.
        assert fused == 0, name
        assert local == 0, f"{name}: an array is not in registers"
        if assembled:
            registers, spilled = assembled
            assert registers <= 128, f"{name}: a block of 512 threads would not fit"
            assert spilled == 0, name
