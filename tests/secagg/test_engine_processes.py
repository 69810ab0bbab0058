"""Clients in worker processes: the same round, byte for byte, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from parties import ALL, SIGNED, active, complete, drawn, identity, inputs, pinned, sparse

from privagg.errors import Abort, UsageError, WorkerLost
from privagg.protocols import secagg
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg import streaming
from privagg.protocols.secagg.engine import Engine, LocalEngine
from privagg.protocols.secagg.engine_processes import ProcessEngine

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine():
    """Two processes for all tests that do not end them."""
    with ProcessEngine(2) as made:
        yield made


def processes_of(engine):
    return [worker._process for worker in engine._workers]


def is_gone(pid):
    """Say whether a process is no more, or only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def played(params, where, **options):
    """Play a round; return all of it that must not depend on where clients live."""
    transcript = secagg.Transcript(payloads=True)
    seen = []
    result = secagg.run(
        params,
        options.pop("vectors", inputs(params)),
        engine=where,
        transcript=transcript,
        progress=lambda *step: seen.append(step),
        **options,
    )
    bills = [
        {name: list(map(int, counts)) for name, counts in side.items()}
        for side in (result.bytes_up, result.bytes_down)
    ]
    rest = (result.exact, result.max_error, result.clipped, result.weight_total, result.blame)
    more = (result.survivors, result.bytes_graph_proof, result.insecure_seed)
    return list(transcript), seen, result.sum.tolist(), result.mean.tolist(), bills, rest, more


DROPOUTS = {0: "masked-input", 3: "unmasking", 5: "masked-input"}


def lenient(kind, dim=4, **options):
    """Return parameters of ten clients that let these three leave."""
    if ALL[kind] in (sparse, drawn):
        options["neighbours"] = 8
    return ALL[kind](10, dim, **options)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("options", [{"clip": 1.0}, {"max_weight": 5, "weighted": True}], ids=str)
def test_the_round_is_the_same_to_the_byte_and_in_the_same_order(engine, kind, options):
    params = lenient(kind, 301, **options)
    more = {"seed": 4, "dropouts": DROPOUTS}
    if params.encoding.weighted:
        more["weights"] = [client % 6 for client in range(10)]
    assert played(params, engine, **more) == played(params, LocalEngine(), **more)


@pytest.mark.parametrize("kind", SIGNED)
def test_given_identities_sign_in_the_workers(engine, kind):
    params = SIGNED[kind](8)
    more = {
        "seed": 4,
        "identities": [identity(index) for index in range(8)],
        "roster": pinned(8),
        "model": bytes(range(32)),
    }
    assert played(params, engine, **more) == played(params, LocalEngine(), **more)


def test_a_graph_that_is_drawn_twice_is_drawn_alike(engine):
    params = lenient("semi-malicious")
    more = {"seed": 2, "dropouts": {1: "advertise-keys", 2: "commit-graph", 4: "reveal-graph"}}
    assert played(params, engine, **more) == played(params, LocalEngine(), **more)


def test_workers_are_an_engine_for_one_run():
    params = complete(7, 5000, clip=1.0)
    more = {"seed": 4, "dropouts": DROPOUTS}
    expected = played(params, None, **more)
    assert played(params, None, workers=3, **more) == expected


def test_many_clients_in_many_batches(engine, monkeypatch):
    """Replies come in the order of the clients, however they are dealt and sent."""
    monkeypatch.setattr("privagg.protocols.secagg.engine_remote._MOST", 2)
    params = complete(23, 5)
    more = {"seed": 4, "dropouts": dict.fromkeys((0, 2, 4, 6, 8, 10, 21), "share-keys")}
    assert played(params, engine, **more) == played(params, LocalEngine(), **more)


def test_without_a_seed_every_worker_draws_its_own(engine):
    params = complete(6)
    logs = [secagg.Transcript() for _ in range(2)]
    for log in logs:
        result = secagg.run(params, inputs(params), engine=engine, transcript=log)
        assert result.exact
        assert not result.insecure_seed
    keys = [[e.sha256 for e in log if e.kind == "AdvertiseKeys"] for log in logs]
    assert len(set(keys[0] + keys[1])) == 12


def test_a_memory_mapped_input_is_read_in_the_worker_where_it_is_streamed(
    engine, tmp_path, monkeypatch
):
    """Elsewhere an input is a tree, whose flat vector is made here and sent."""
    params = complete(6, 4000, clip=1.0)
    np.save(tmp_path / "inputs.npy", inputs(params))
    mapped = np.load(tmp_path / "inputs.npy", mmap_mode="r")
    sent = []
    pack = frames.pack_job

    def noted(job, **settings):
        turn = pack(job, **settings)
        sent.extend([turn.vector] if turn.vector is not None else [])
        return turn

    monkeypatch.setattr(frames, "pack_job", noted)
    total = np.zeros(params.dim)
    streaming.run_streamed(params, list(mapped), total, scratch=tmp_path, engine=engine)
    assert [(vector.path is not None, vector.data) for vector in sent] == [(True, None)] * 6
    sent.clear()
    assert played(params, engine, seed=1, vectors=mapped) == played(params, None, seed=1)
    assert [vector.path for vector in sent] == [None] * 6


# What goes wrong


def outcome(params, where, **options):
    log = secagg.Transcript()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - both are compared
        secagg.run(params, engine=where, transcript=log, seed=3, **options)
    return type(caught.value), str(caught.value), list(log)


class Failing:
    """Vectors, one of which cannot be had."""

    def __init__(self, vectors, at):
        self.vectors, self.at = vectors, at

    def __len__(self):
        return len(self.vectors)

    def __getitem__(self, client):
        if client == self.at:
            return "no vector"
        return self.vectors[client]


def spoiled(params, client, value):
    vectors = inputs(params)
    vectors[client, 2] = value
    return vectors


@pytest.mark.parametrize(
    "case",
    [
        lambda p: {"vectors": spoiled(p, 5, np.nan)},
        lambda p: {"vectors": Failing(inputs(p), 4)},
        lambda p: {"vectors": Failing(spoiled(p, 3, np.inf), 4)},
        lambda p: {"vectors": Failing(spoiled(p, 5, np.inf), 4)},
        lambda p: {"vectors": inputs(p), "policy": secagg.Policy(min_cohort=9, max_corrupt=0)},
        lambda p: {"vectors": inputs(p), "dropouts": dict.fromkeys(range(8), "masked-input")},
    ],
)
def test_a_failure_is_the_same_and_comes_at_the_same_place(engine, case):
    params = complete(9, 10, clip=1.0)
    if "policy" in (options := case(params)):
        options["dropouts"] = {0: "share-keys"}
    found = outcome(params, engine, **options)
    assert found == outcome(params, None, **options)
    assert issubclass(found[0], UsageError | Abort)
    # The workers go on with the next round.
    assert secagg.run(params, inputs(params), engine=engine).exact


def test_a_weight_that_is_none_is_refused_alike(engine):
    params = complete(6, 3, weighted=True, max_weight=4)
    options = {"vectors": inputs(params), "weights": [1, 2, 9, 1, 1, 1]}
    assert outcome(params, engine, **options) == outcome(params, None, **options)


class OwnDirectory:
    def __len__(self):
        return 5

    def verify(self, client, message, signature):
        return pinned(5).verify(client, message, signature)

    def digest(self):
        return pinned(5).digest()


class OwnSigner:
    def sign(self, message):
        return identity(0).sign(message)


def test_what_cannot_leave_the_process_is_refused_with_the_way_out(engine):
    params = active(5)
    identities = [identity(index) for index in range(5)]
    secagg.run(params, inputs(params), identities=identities, roster=OwnDirectory())
    with pytest.raises(UsageError, match=r"roster.*OwnDirectory.*workers=1"):
        secagg.run(
            params, inputs(params), identities=identities, roster=OwnDirectory(), engine=engine
        )
    identities[0] = OwnSigner()
    secagg.run(params, inputs(params), identities=identities, roster=pinned(5))
    with pytest.raises(UsageError, match=r"identities\[0\].*OwnSigner.*workers=1"):
        secagg.run(params, inputs(params), identities=identities, roster=pinned(5), engine=engine)


@pytest.mark.parametrize("workers", [0, True, 1.5, "2", 2000])
def test_how_many_is_checked(workers):
    with pytest.raises(UsageError, match="workers"):
        ProcessEngine(workers)


# The processes


def test_it_is_an_engine_and_says_how_many(engine):
    assert isinstance(engine, Engine)
    assert engine.workers == 2
    assert repr(engine) == "ProcessEngine(2)"


@pytest.mark.parametrize("at", ["advertise-keys", "share-keys", "masked-input", "unmasking"])
def test_a_killed_worker_is_an_error_that_names_it(at):
    params = complete(9)
    with ProcessEngine(2) as engine:
        processes = processes_of(engine)

        def kill(name, done, of):
            if (name, done) == (at, 1):
                processes[1].send_signal(signal.SIGKILL)
                processes[1].wait()
                # What it had answered already counts; then it is missed.

        def twice():
            for _ in range(2):
                secagg.run(params, inputs(params), engine=engine, progress=kill)

        with pytest.raises(WorkerLost, match=r"worker process 2 of 2 was ended by SIGKILL") as lost:
            twice()
        assert lost.value.exit_code == 1
        assert "fewer workers" in str(lost.value)
    assert all(process.returncode is not None for process in processes)


def test_a_worker_that_ends_by_itself_says_its_exit_code(monkeypatch):
    monkeypatch.setattr("privagg.protocols.secagg.engine_processes._PROGRAM", "raise SystemExit(7)")
    params = complete(5)
    with (
        ProcessEngine(1) as engine,
        pytest.raises(WorkerLost, match="1 of 1 ended with exit code 7 during its start"),
    ):
        secagg.run(params, inputs(params), engine=engine)


def test_closing_ends_the_processes_whatever_they_do():
    engine = ProcessEngine(2)
    processes = processes_of(engine)
    assert all(process.poll() is None for process in processes)
    engine.close()
    assert all(process.returncode == -signal.SIGKILL for process in processes)
    engine.close()  # again


def test_an_error_of_ones_own_ends_the_processes_too(monkeypatch):
    params, made = complete(9), []

    def stop(name, done, of):
        if name == "share-keys":
            raise ZeroDivisionError

    start = ProcessEngine.__init__

    def noted(self, workers):
        start(self, workers)
        made.extend(processes_of(self))

    monkeypatch.setattr(ProcessEngine, "__init__", noted)
    with pytest.raises(ZeroDivisionError):
        secagg.run(params, inputs(params), workers=2, progress=stop)
    assert len(made) == 2
    assert all(process.returncode is not None for process in made)


PROGRAM = """
import sys, time
from privagg.protocols import secagg
from privagg.protocols.secagg.engine_processes import ProcessEngine

params = secagg.Params.recommend(clients=30, dim=10, corrupt=0.0)
engine = ProcessEngine(2)
print(*(worker._process.pid for worker in engine._workers), flush=True)

def step(name, done, of):
    if name == "masked-input" and done == 1:
        print("running", flush=True)
        time.sleep(60)

# No guard against being imported again: a worker does not import its parent's program.
secagg.run(params, [[1] * 10] * 30, engine=engine, progress=step)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_the_process_that_started_it(signum):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        # A shell starts what is in its background with Ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pids = [int(word) for word in process.stdout.readline().split()]
    assert process.stdout.readline() == "running\n", process.communicate()
    assert not any(map(is_gone, pids))
    process.send_signal(signum)
    process.communicate()
    wait_until(lambda: all(map(is_gone, pids)))
