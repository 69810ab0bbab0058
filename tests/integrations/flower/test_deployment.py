"""Flower's deployment runtime on this machine, with TLS: three SuperNodes, one of them killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from flower_tls import write_certificates

import privagg
from privagg import keyfiles, keys
from privagg.protocols.secagg import Roster

APP = Path(__file__).resolve().parent / "deployed_app"
BIN = Path(sys.executable).parent
NODES, STALLED = 3, 2


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for(what, is_there, processes, seconds):
    end = time.monotonic() + seconds
    while not is_there():
        dead = [name for name, process in processes.items() if process.poll() is not None]
        assert not dead, f"{dead} ended while waiting for {what}"
        assert time.monotonic() < end, f"no {what} after {seconds} s"
        time.sleep(0.2)


def answers(port):
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def environment(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    roots = [str(Path(privagg.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "DEPLOYED_ROSTER": str(tmp_path / "roster.json"),
        "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        "PRIVAGG_JIT": "0",  # every message is a new process
        "PYTHONPATH": os.pathsep.join(filter(None, roots)),
    }


@pytest.fixture
def started(tmp_path, environment):
    """Start a program in a process group of its own; all are killed at the end."""
    processes = {}

    def start(name, *command):
        with (tmp_path / f"{name}.log").open("wb") as log:
            processes[name] = subprocess.Popen(
                command,
                env=environment,
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return processes

    try:
        yield start
    finally:
        for process in processes.values():
            kill(process)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.timeout(280)
def test_a_supernode_killed_while_it_trains_is_left_out(tmp_path, environment, started):
    link, *ports = free_ports(1 + NODES)
    identities = [keys.Identity.generate() for _ in range(NODES)]
    for number, identity in enumerate(identities):
        keyfiles.write_identity(tmp_path / f"{number}.key", identity)
    Roster(identity.public for identity in identities).save(tmp_path / "roster.json")
    write_certificates(tmp_path)
    Path(environment["FLWR_HOME"], "config.toml").write_text(
        '[superlink]\ndefault = "here"\n\n'
        f'[superlink.here]\naddress = "127.0.0.1:{link}"\n'
        f'root-certificates = "{tmp_path / "ca.pem"}"\n'
    )
    processes = started(
        "superlink",
        "flower-superlink",
        "--ssl-ca-certfile",
        "ca.pem",
        "--ssl-certfile",
        "server.pem",
        "--ssl-keyfile",
        "server.key",
        "--port",
        str(link),
        "--disable-runtime-dependency-installation",
    )
    wait_for("SuperLink", lambda: answers(link), processes, 60)
    stall, out = tmp_path / "stalled", tmp_path / "out.json"
    for number, port in enumerate(ports):
        config = {
            "number": number,
            "privagg-identity": f'"{tmp_path / f"{number}.key"}"',
            "stall": f'"{stall if number == STALLED else ""}"',
        }
        started(
            f"supernode-{number}",
            "flower-supernode",
            "--root-certificates",
            "ca.pem",
            "--superlink",
            f"127.0.0.1:{link}",
            "--port",
            str(port),
            "--node-config",
            " ".join(f"{name}={value}" for name, value in config.items()),
        )
    app = shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        ["flwr", "run", str(app), "here", "--run-config", f'out="{out}"'],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    wait_for("training", stall.exists, processes, 120)
    kill(processes.pop(f"supernode-{STALLED}"))
    (tmp_path / "killed").touch()
    wait_for("result", out.exists, processes, 90)
    found = json.loads(out.read_text())
    assert found["error"] == ""
    assert found["count"] == 2
    assert found["failures"] == {"no answer in time": 1}
    assert found["survivors"]["share-keys"] == 3
    assert found["survivors"]["masked-input"] == found["survivors"]["unmasking"] == 2
    mean = (0 * 10 + 0.1 * 11) / 21
    wanted = np.linspace(-1, 1, 50, dtype=np.float32) + mean
    assert np.abs(np.array(found["w"]) - wanted).max() <= 2 / (2**16 - 1) + 1e-6
    assert abs(found["loss"] - 11 / 21) <= 20 / (2**16 - 1)
