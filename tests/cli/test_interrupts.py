"""Ctrl-C at any moment: exit code 130, no file, no process, no traceback; SIGTERM: 143."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from strict_schemas import check

PAUSES = """
import builtins, os, signal, sys, time

def pause():
    print("ready", file=sys.stderr, flush=True)
    for _ in range(6000):
        time.sleep(0.01)
"""
# Where a run is stopped: code that runs first, and makes the run wait there.
MOMENTS = {
    "import": """
import importlib.abc
class Waits(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            sys.meta_path.remove(self)
            pause()
sys.meta_path.insert(0, Waits())
""",
    "work": """
from privagg.cli import common
from contextlib import contextmanager
@contextmanager
def progress(options):
    def step(phase, done, total):
        pause()
    yield step
common.progress = progress
""",
    "writing": """
real = os.replace
def replace(*args, **settings):
    pause()
    return real(*args, **settings)
os.replace = replace
link = os.link
def waiting_link(*args, **settings):
    pause()
    return link(*args, **settings)
os.link = waiting_link
""",
}
RUN = "\nfrom privagg.cli.main import main\nmain()\n"

SECAGG = "simulate secagg --clients 8 --dim 50"
CASES = [
    (SECAGG + " --workers 1 --out {d}/r.json --sum-out {d}/s.npy", "import"),
    (SECAGG + " --workers 2 --out {d}/r.json --sum-out {d}/s.npy", "work"),
    (SECAGG + " --workers 2 --out {d}/r.json --transcript {d}/t.jsonl", "writing"),
    (SECAGG + " --streamed --scratch {d}/scratch --sum-out {d}/s.npy", "work"),
    ("simulate sensor --nodes 20 --area 60 --out {d}/r.json", "import"),
    ("ldp randomize {d}/config.json --input {d}/colours.csv --out {d}/r.bin", "work"),
    ("ldp randomize {d}/config.json --input {d}/colours.csv --out {d}/r.bin", "writing"),
    ("bench prg --length 2000 --short 50 --repeats 1 --out {d}/r.json", "work"),
    ("audit gradient --demo --attack fast --out {d}/r.json", "import"),
    ("keys new bob --dir {d}/keys", "writing"),
    ("data list --out {d}/r.json", "writing"),
]


@pytest.fixture
def folder(tmp_path, run):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "keys").mkdir()
    (tmp_path / "colours.csv").write_text("colour\n" + "red\nblue\n" * 10)
    (tmp_path / "survey.toml").write_text(
        '[attributes.colour]\nkind = "categorical"\nvalues = ["red", "blue"]\n'
    )
    config = tmp_path / "config.json"
    words = ["ldp", "init", "--attributes", tmp_path / "survey.toml", "--epsilon", "1"]
    assert run(*words, "--quiet", "--out", config) == 0
    return tmp_path


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def members(group):
    """Return the processes of a process group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = path.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(path.parent.name)
    return found


def stopped(folder, line, moment, number):
    """Run a command line, send `number` when it waits; return the process and what it said."""
    code = PAUSES + MOMENTS[moment] + RUN
    words = [*line.format(d=folder).split(), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("PRIVAGG_")},
        start_new_session=True,
        # What is started in a shell's background has Ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    said = []
    for text in process.stderr:
        if text == "ready\n":
            break
        said.append(text)
    else:
        pytest.fail("it never came to that moment: " + "".join(said))
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # the terminal sends Ctrl-C to all of the group
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process, out, "".join(said) + err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(("line", "moment"), CASES)
def test_control_c(folder, line, moment):
    before = files(folder)
    process, out, err = stopped(folder, line, moment, signal.SIGINT)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert files(folder) == before
    data = json.loads(out)
    assert data["error"]["type"] == "Interrupted"
    assert data["error"]["exit_code"] == 130
    check(data["command"], data)
    for _ in range(100):
        if not members(process.pid):
            break
        time.sleep(0.05)
    assert members(process.pid) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("line", "moment"), [case for case in CASES if case[0].startswith(SECAGG)][1:2] + CASES[-1:]
)
def test_sigterm(folder, line, moment):
    before = files(folder)
    process, out, err = stopped(folder, line, moment, signal.SIGTERM)
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert files(folder) == before
    assert json.loads(out)["error"]["exit_code"] == 143
    for _ in range(100):
        if not members(process.pid):
            break
        time.sleep(0.05)
    assert members(process.pid) == []
