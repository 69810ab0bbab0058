"""``simulate secagg --workers``: the same output, and nothing left behind when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from privagg.cli import simulate_secagg

SMALL = ("--clients", 30, "--dim", 40, "--dropout", 0.2, "--seed", 3)
KINDS = {
    "semi-honest": (),
    "sparse": ("--graph", "sparse", "--corrupt", 0.0),
    "active": ("--threat", "active"),
    "semi-malicious": ("--threat", "semi-malicious", "--graph", "sparse", "--corrupt", 0.0),
}
LONG = ("--clients", "400", "--dim", "20000", "--workers", "2")


@pytest.mark.parametrize("kind", KINDS)
def test_json_transcript_and_sum_are_those_of_one_process(simulate, tmp_path, kind):
    found, files = [], []
    for workers in (1, 2):
        paths = [tmp_path / f"{workers}.{ending}" for ending in ("npy", "jsonl", "json")]
        outputs = ("--sum-out", paths[0], "--transcript", paths[1])
        if kind in ("active", "semi-malicious"):
            outputs += ("--roster-out", paths[2])
        settings = (*SMALL, *KINDS[kind], "--transcript-payloads", *outputs)
        data, _ = simulate(*settings, "--workers", workers)
        found.append({**data, "seconds": sorted(data["seconds"])})
        files.append([path.read_bytes() for path in paths if path.exists()])
    assert found[0] == found[1]
    assert files[0] == files[1]
    assert len(files[0]) >= 2


def test_a_large_round_says_that_it_takes_every_core(simulate, monkeypatch):
    from privagg.protocols import secagg

    monkeypatch.setattr(secagg, "recommended_workers", lambda params: 2)
    _, err = simulate(*SMALL)
    assert "--workers 2: one for each core." in err
    _, err = simulate(*SMALL, "--workers", 1)
    assert "--workers" not in err


def test_a_small_round_starts_no_process(simulate, monkeypatch):
    def start(*_):
        raise AssertionError

    monkeypatch.setattr("privagg.protocols.secagg.parties.ProcessEngine", start)
    _, err = simulate(*SMALL)
    assert "--workers" not in err


def test_a_liar_stays_in_one_process(simulate, refused):
    active = ("--clients", 9, "--dim", 4, "--threat", "active", "--misbehave", "keys-replaced")
    message = refused(*active, "--workers", 2)
    assert "--workers" in message
    assert "--misbehave" in message
    simulate(*active, "--workers", 1, code=4)


@pytest.mark.parametrize("workers", [0, -1, 1025, "two"])
def test_how_many_is_checked(refused, workers):
    assert "--workers" in refused(*SMALL, "--workers", workers)


def children_of(pid):
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in lists for word in path.read_text().split()]


def is_gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


@pytest.fixture
def running():
    """Start a round of some seconds; return its process and those of its workers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "privagg", "simulate", "secagg", *LONG, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(simulate_secagg.__file__).parents[2])},
        # A shell starts what is in its background with Ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    seen = ""
    while "advertise-keys" not in seen:  # the first round is over
        line = process.stderr.readline()
        assert line, seen
        seen += line
    workers = children_of(process.pid)
    assert len(workers) == 2
    yield process, workers
    process.kill()
    process.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_end_from_outside_has_its_code_and_takes_the_workers_along(running, number, code):
    process, workers = running
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert "Traceback" not in err
    end = time.monotonic() + 30
    while not all(map(is_gone, workers)):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
def test_a_killed_worker_is_one_line_and_no_result(running):
    process, workers = running
    os.kill(workers[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    error = json.loads(out)["error"]
    assert error["type"] == "WorkerLost"
    assert "was ended by SIGKILL" in error["message"]
    assert "Traceback" not in err
    assert "was ended by SIGKILL" in err
    assert all(map(is_gone, workers))
