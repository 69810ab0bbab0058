"""Standard streams that were closed before the start: no traceback, and nothing in a file's place.

Without pytest's capture there is no stdout to close, so these are processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import privagg

ROUND = "simulate secagg --clients 4 --dim 3 --dropout 0 --seed 1"


def shell(line, closed):
    command = f'exec "$0" -m privagg {line} {closed}'
    environment = os.environ | {"PYTHONPATH": str(Path(privagg.__file__).parents[1])}
    return subprocess.run(
        ["/bin/sh", "-c", command, sys.executable],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("line", ["doctor", "--version", f"{ROUND} --quiet --json"])
def test_a_closed_stdout_is_a_reader_that_went_away(line):
    found = shell(line, ">&-")
    assert found.returncode in (1, 141)  # rich ends so by itself
    assert found.stderr == ""


def test_a_result_that_goes_to_a_file_needs_no_stdout(tmp_path):
    found = shell(f"{ROUND} --quiet --out {tmp_path}/result.json", ">&- 2>&-")
    assert found.returncode == 0
    assert json.loads((tmp_path / "result.json").read_text())["exact"] is True


def test_an_error_is_told_on_stderr_without_a_stdout():
    found = shell("simulate secagg --clients 4 --json", ">&-")
    assert found.returncode == 2
    assert "--dim" in found.stderr
    assert "Traceback" not in found.stderr


def test_nothing_meant_for_stderr_lands_on_stdout():
    found = shell(f"{ROUND} --json", "2>&-")
    assert found.returncode == 0
    assert json.loads(found.stdout)["exact"] is True
