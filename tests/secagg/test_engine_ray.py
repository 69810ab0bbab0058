"""Clients in Ray actors: the same round, byte for byte, and nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from parties import ALL, SIGNED, complete, drawn, identity, inputs, pinned, sparse

from privagg.cli import main
from privagg.errors import UsageError, WorkerLost
from privagg.integrations.ray import RayEngine
from privagg.protocols import secagg
from privagg.protocols.secagg import streaming
from privagg.protocols.secagg.engine import Engine, LocalEngine, Stripping

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
ROOT = Path(__file__).parents[2]
DROPOUTS = {0: "masked-input", 3: "unmasking", 5: "masked-input"}


@contextmanager
def rays_own_warnings():
    """Ray leaves files and processes to the collector, and warns of a setting about GPUs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield
        gc.collect()


@pytest.fixture(scope="module")
def joined():
    """Ray on this machine; return its address."""
    with rays_own_warnings():
        settings = {"num_cpus": 4, "include_dashboard": False, "log_to_driver": False}
        ray.init("local", logging_level="ERROR", **settings)
    yield ray.get_runtime_context().gcs_address
    with rays_own_warnings():
        ray.shutdown()


@pytest.fixture(scope="module")
def engine(joined):
    with RayEngine(2) as made:
        yield made
    assert ray.is_initialized()  # it was there before


def played(params, where, **options):
    """Play a round; return all of it that must not depend on where clients live."""
    log = secagg.Transcript(payloads=True)
    result = secagg.run(params, inputs(params), engine=where, transcript=log, **options)
    bills = [
        {name: list(map(int, counts)) for name, counts in side.items()}
        for side in (result.bytes_up, result.bytes_down)
    ]
    rest = (result.exact, result.max_error, result.clipped, result.weight_total, result.blame)
    return list(log), result.sum.tolist(), bills, rest, result.survivors


def lenient(kind, dim, **options):
    """Return parameters of ten clients that let three leave."""
    if ALL[kind] in (sparse, drawn):
        options["neighbours"] = 8
    return ALL[kind](10, dim, **options)


@pytest.mark.parametrize("kind", ALL)
def test_the_round_is_the_same_to_the_byte(engine, kind):
    params = lenient(kind, 9001, weighted=True, max_weight=5)
    more = {"seed": 4, "dropouts": DROPOUTS, "weights": [client % 6 for client in range(10)]}
    assert played(params, engine, **more) == played(params, LocalEngine(), **more)


@pytest.mark.parametrize("kind", SIGNED)
def test_given_identities_sign_in_the_actors(engine, kind):
    params = SIGNED[kind](8, 40, clip=1.0)
    more = {
        "seed": 4,
        "identities": [identity(index) for index in range(8)],
        "roster": pinned(8),
        "model": bytes(range(32)),
    }
    assert played(params, engine, **more) == played(params, LocalEngine(), **more)


def test_the_masks_are_added_up_by_ranges_in_the_actors(engine, monkeypatch):
    assert isinstance(engine, Engine)
    assert isinstance(engine, Stripping)
    asked = []
    strip = RayEngine.strip

    def noted(self, params, seeds, signs, spans):
        asked.append((list(spans), len(seeds)))
        return strip(self, params, seeds, signs, asked[-1][0])

    monkeypatch.setattr(RayEngine, "strip", noted)
    monkeypatch.setattr("privagg.protocols.secagg.tiles.unmask", None)
    params = complete(6, 20_000)
    found = secagg.run(params, inputs(params), engine=engine, dropouts={1: "masked-input"})
    assert found.exact
    ((spans, streams),) = asked
    assert spans == [(0, 12288), (12288, 20000)]
    assert streams == 5 + 5
    assert engine.elsewhere > 0


def test_an_actor_that_is_killed_in_a_round_is_told(joined):
    params = complete(6, 3000)

    class Vectors(list):
        def __getitem__(self, client):
            if client == 4:
                ray.kill(made._actors[0].actor)
            return super().__getitem__(client)

    lost = r"Ray actor 1 of 1 was lost \(Actor\w+\) during"
    with RayEngine(at_most=1) as made:
        with pytest.raises(WorkerLost, match=f"{lost} masked-input"):
            secagg.run(params, Vectors(inputs(params)), engine=made)
        with pytest.raises(WorkerLost, match=f"{lost} its start"):
            secagg.run(params, inputs(params), engine=made)
    with pytest.raises(UsageError, match=r"RayEngine\(n\)"):
        secagg.run(params, inputs(params), engine=made)


def test_what_the_cluster_does_not_have_is_refused(engine, tmp_path):
    with pytest.raises(UsageError, match=r"workers: found 5; allowed: at most the cluster's 4"):
        RayEngine(5)
    with pytest.raises(UsageError, match="has joined Ray"):
        RayEngine(1, address="192.0.2.1:6379")
    for wrong in (0, True, "two", 1.5):
        with pytest.raises(UsageError, match="workers"):
            RayEngine(wrong)
    with pytest.raises(UsageError, match="address"):
        RayEngine(1, address="")
    params = complete(4, 30)
    total = np.zeros(30, np.int64)
    with pytest.raises(UsageError, match="workers that share no files"):
        streaming.run_streamed(params, list(inputs(params)), total, scratch=tmp_path, engine=engine)


def test_the_command_gives_the_same_and_leaves_the_cluster_alone(engine, capsys):
    small = "simulate secagg --clients 12 --dim 40 --dropout 0.2 --seed 3 --quiet --json"
    found = []
    for more in ("--workers 1", "--engine ray --workers 2"):
        assert main.run([*small.split(), *more.split()]) == 0
        data = json.loads(capsys.readouterr().out)
        found.append({**data, "seconds": sorted(data["seconds"])})
    assert found[0] == found[1]
    assert ray.is_initialized()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("--ray-address auto", "--ray-address"),
        ("--engine ray --protocol lightsecagg", "--engine"),
        ("--engine ray --streamed", "--engine"),
        ("--engine ray --threat active --misbehave keys-replaced", "--engine"),
    ],
)
def test_options_that_do_not_go_together(more, named, capsys):
    line = f"simulate secagg --clients 9 --dim 4 --json {more}"
    assert main.run(line.split()) == 2
    assert named in json.loads(capsys.readouterr().out)["error"]["message"]


def test_nobody_listens_there(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9", "[::1]:9", "127.0.0.1:99999"):
        with pytest.raises(UsageError, match=r"address: found .*ray start --head"):
            RayEngine(1, address=address)


TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
import ray
sys.path.insert(0, sys.argv[1])
from parties import complete, inputs
from privagg.integrations.ray import RayEngine
from privagg.protocols import secagg
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=2)  # each actor takes a CPU: three are on both nodes
params = complete(9, 9000)
more = {"seed": 1, "dropouts": {3: "masked-input"}}
with RayEngine(address=cluster.address) as engine:
    assert engine.workers == 3
    found = secagg.run(params, inputs(params), engine=engine, **more)
assert not ray.is_initialized()
assert (found.sum == secagg.run(params, inputs(params), **more).sum).all()
cluster.shutdown()
print("done")
"""


@pytest.mark.sweep
def test_two_nodes():
    found = subprocess.run(
        [sys.executable, "-c", TWO_NODES, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        timeout=200,
    )
    assert found.stdout.endswith("done\n"), found.stderr


def test_ctrl_c_takes_the_actors_along(joined, engine):
    """A process of its own joins the cluster, and is stopped in the middle of a round."""

    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "privagg", "simulate", "secagg", "--clients", "300"),
            *("--dim", "40000", "--json", "--engine", "ray", "--workers", "1"),
            *("--ray-address", joined),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    seen = ""
    while "advertise-keys" not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert "Traceback" not in err
    end = time.monotonic() + 30
    while ray.available_resources().get("CPU") != 2:  # the module's engine has two of four
        assert time.monotonic() < end
        time.sleep(0.1)


def test_two_threads_need_two_engines():
    """The second run's clients would get the first one's messages: it says so instead."""
    params = complete(6, 3000)
    place, first, errors = LocalEngine(), threading.Event(), []
    other = threading.Event()

    class Vectors(list):
        def __getitem__(self, client):
            if client == 3:
                first.set()
                other.wait(30)
            return super().__getitem__(client)

    def run():
        try:
            secagg.run(params, Vectors(inputs(params)), engine=place)
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    first.wait(30)
    assert secagg.run(params, inputs(params), engine=place).exact
    other.set()
    thread.join(60)
    assert [error.argument for error in errors] == ["engine"]
    assert "of its own" in errors[0].hint
