"""Without an extra's package, what needs it says which extra to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import privagg

PRIVATE = "PrivateClient(noise_multiplier=1.0, max_grad_norm=1.0, delta=1e-3)"

NEEDED = {
    "torch": ("import privagg.integrations.torch", "import privagg.integrations.opacus"),
    "opacus": (f"from privagg.integrations.opacus import PrivateClient; {PRIVATE}",),
    "ray": ("from privagg.integrations.ray import RayEngine; RayEngine(1)",),
}
EXTRAS = {"torch": "torch", "opacus": "torch", "ray": "ray"}


@pytest.mark.parametrize("package", NEEDED)
def test_the_extra_is_named(package):
    if package == "opacus":
        pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    code = f"""
import sys
sys.modules[{package!r}] = None
from privagg.errors import UsageError
for line in {NEEDED[package]!r}:
    try:
        exec(line)
    except UsageError as error:
        assert {f"privagg[{EXTRAS[package]}]"!r} in str(error), error
    else:
        raise SystemExit(line)
"""
    root = Path(privagg.__file__).resolve().parent.parent
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=root, stderr=subprocess.PIPE, check=False, timeout=60)
    assert found.returncode == 0, found.stderr.decode()
