"""What may come at worker processes from outside: odd arguments, noise, broken answers."""

from __future__ import annotations

import errno
import io
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from parties import complete, inputs

from privagg.errors import UsageError, WorkerLost
from privagg.protocols import secagg
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg import engine_processes
from privagg.protocols.secagg.engine import Job, LocalEngine
from privagg.protocols.secagg.engine_processes import ProcessEngine

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine():
    with ProcessEngine(2) as made:
        yield made


def said(engine, params, **options):
    with pytest.raises(UsageError) as caught:
        secagg.run(params, inputs(params), engine=engine, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "weight",
    [
        *(2**70, -(2**70), Fraction(1, 2), 1j, np.float32(2), np.float64(2.0), np.True_),
        *(b"x", [1], (1,), {"a": 1}, np.array(2), np.array([2]), True, None, "many"),
    ],
    ids=repr,
)
def test_a_weight_that_is_none_is_refused_in_the_same_words(engine, weight):
    params = complete(4, 3, weighted=True, max_weight=5)
    weights = [1, 1, weight, 1]
    here = said(LocalEngine(), params, weights=weights)
    assert here.startswith("client 2: weight: found")
    assert said(engine, params, weights=weights) == here


@pytest.mark.parametrize("seed", [np.int64(3), np.uint64(2**63), 2**64 - 1])
def test_seeds_of_numpy_are_seeds(engine, seed):
    params = complete(4, 3)
    sums = [secagg.Transcript(payloads=True) for _ in range(2)]
    for place, transcript in zip((engine, LocalEngine()), sums, strict=True):
        secagg.run(params, inputs(params), seed=seed, engine=place, transcript=transcript)
    assert list(sums[0]) == list(sums[1])


def test_what_a_lazy_sequence_raises_comes_in_its_turn(engine):
    """As with all clients here: those before it have answered."""

    class Lazy(list):
        def __getitem__(self, index):
            if index == 3:
                raise FileNotFoundError("of client 3")
            return super().__getitem__(index)

    params = complete(6, 3)
    vectors = Lazy(inputs(params))
    seen = []
    for place in (engine, LocalEngine()):
        steps = []
        with pytest.raises(FileNotFoundError, match="client 3"):
            secagg.run(params, vectors, engine=place, progress=lambda *at, to=steps: to.append(at))
        seen.append(steps)
    assert seen[0] == seen[1]
    assert seen[0][-1] == ("masked-input", 3, 6)


def test_an_error_of_the_system_is_one_here_too():
    for error in (OSError(errno.ENOSPC, "No space left", "file"), OSError(errno.EIO, "I/O")):
        found = frames.exception(frames.failure(error, "trace"))
        assert isinstance(found, OSError)
        assert (found.errno, found.strerror) == (error.errno, error.strerror)
        assert found.filename == error.filename
    assert isinstance(frames.exception(frames.failure(OSError("odd"), "trace")), RuntimeError)


def test_an_engine_that_is_closed_or_has_no_clients_says_so():
    made = ProcessEngine(1)
    job = Job(client=0, inbox=b"")
    with pytest.raises(UsageError, match="no clients yet"):
        next(made.call("advertise_keys", [job]))
    made.close()
    params = complete(4, 3)
    with pytest.raises(UsageError, match="engine: found one that was closed"):
        secagg.run(params, inputs(params), engine=made)
    for kind in (ProcessEngine, LocalEngine):  # a class has the methods, too
        with pytest.raises(UsageError, match="engine: found type"):
            secagg.run(params, inputs(params), engine=kind)


def test_no_more_processes_than_clients(monkeypatch):
    started = []

    def start(workers):
        started.append(workers)
        return LocalEngine()

    monkeypatch.setattr("privagg.protocols.secagg.parties.ProcessEngine", start)
    params = complete(4, 3)
    assert secagg.run(params, inputs(params), workers=1024).exact
    assert started == [4]


def test_processes_that_the_system_does_not_start_are_told_and_the_others_ended(monkeypatch):
    started = []

    class Started(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            if len(started) == 2:
                raise OSError(errno.EMFILE, "Too many open files")
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(engine_processes.subprocess, "Popen", Started)
    with pytest.raises(UsageError, match=r"workers: found 3.*Too many open files.*ulimit"):
        ProcessEngine(3)
    assert all(process.returncode is not None for process in started)


def test_a_module_of_the_current_folder_is_not_run(tmp_path):
    """A folder that somebody else wrote may be where the command is called."""
    script = (
        "import sys; sys.path[:] = [p for p in sys.path if p]\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from privagg.protocols.secagg.engine_processes import ProcessEngine\n"
        "from privagg.protocols import secagg\n"
        "import numpy as np\n"
        "params = secagg.Params.recommend(clients=4, dim=2)\n"
        "print(secagg.run(params, np.ones((4, 2), int), workers=2).exact)\n"
    )
    (tmp_path / "script.py").write_text(script)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "json.py").write_text("open('run', 'w'); raise SystemExit('not json')")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], cwd=folder, capture_output=True, text=True
    )
    assert not (folder / "run").exists()
    assert done.stdout == "True\n", done.stderr


def test_what_an_interpreter_prints_while_it_starts_is_no_frame(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("print('x' * 100_000, flush=True)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    params = complete(4, 3)
    assert secagg.run(params, inputs(params), workers=2).exact


def test_the_greeting_is_found_after_anything_and_its_lack_is_the_end():
    pipe = io.BytesIO()
    pipe.write(b"\x00privagg work\x00\x00priv")
    frames.greet(pipe)
    frames.write(pipe, frames.Ready(None))
    pipe.seek(0)
    frames.wait_for_greeting(pipe)
    assert isinstance(frames.read(pipe), frames.Ready)
    with pytest.raises(EOFError):
        frames.wait_for_greeting(io.BytesIO(b"privagg"))


def broken(data):
    return (len(data)).to_bytes(8, "little") + data


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 16,
        (2**62).to_bytes(8, "little"),
        broken(b""),
        broken(b"\xc1"),
        broken(msgspec.msgpack.encode(["Ready"])),
        broken(msgspec.msgpack.encode(["Nothing", None])),
        broken(msgspec.msgpack.encode(["Answers", 3, None])),
        broken(msgspec.msgpack.encode(["Ready", None]) + b"\x00"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(data):
    with pytest.raises(frames.BrokenFrameError):
        frames.read(io.BytesIO(data))


def turn(client, post=None):
    return frames.Turn(client, b"", 1, None, post)


def answer(client, outbox=b""):
    return frames.Answer(client, "AdvertiseKeys", outbox, 0, 0.0)


PAIR = frames.Pair(b"k" * 32, b"", b"", b"", 0, bytes(8), 16, "unmasking", b"")
FAILED = frames.Failure("privagg", ["so"])


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (frames.Turns("m", []), frames.Ready(None)),
        (frames.Turns("m", [turn(1), turn(2)]), frames.Answers([answer(1)], None)),
        (frames.Turns("m", [turn(1)]), frames.Answers([answer(1), answer(2)], None)),
        (frames.Turns("m", [turn(1)]), frames.Answers([answer(1)], FAILED)),
        (frames.Turns("m", [turn(1)]), frames.Answers([answer(2)], None)),
        (frames.Turns("m", [turn(1)]), frames.Answers([answer(1, None)], None)),
        (frames.Turns("m", [turn(1, "post")]), frames.Answers([answer(1)], None)),
        (frames.Agreements(PAIR), frames.Seeds(bytes(31), 0.0, None)),
        (frames.Agreements(PAIR), frames.Ready(None)),
    ],
)
def test_an_answer_to_another_question_is_refused(asked, found):
    with pytest.raises(frames.BrokenFrameError):
        frames.check_answer(asked, found)


def test_a_worker_that_answers_out_of_form_is_lost_and_ended(monkeypatch):
    monkeypatch.setattr(
        engine_processes,
        "_PROGRAM",
        "import sys\n"
        "from privagg.protocols.secagg import engine_frames as frames\n"
        "frames.greet(sys.stdout.buffer)\n"
        "frames.write(sys.stdout.buffer, frames.Seeds(b'', 0.0, None))\n"
        "sys.stdin.buffer.read()\n",
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    params = complete(4, 3)
    with ProcessEngine(1) as made:
        with pytest.raises(WorkerLost, match=r"answered out of form .* during its start"):
            secagg.run(params, inputs(params), engine=made)
        assert made._workers[0]._process.wait(60) != 0


def test_frames_keep_secrets_from_repr_and_pickle():
    params = complete(4, 3)
    secret = b"a secret of 32 bytes, at the least"
    held = [
        frames.Open(params, None, secret, 123456789, [0], [secret]),
        frames.Turns("m", [frames.pack_job(Job(client=0, inbox=secret, vector=np.arange(9)))]),
        frames.Answers([answer(0, secret)], FAILED),
        frames.Agreements(frames.Pair(secret, secret, b"", b"", 0, b"", 16, "r", secret)),
        frames.Seeds(secret, 0.0, None),
    ]
    for frame in held:
        assert repr(frame) == f"<{type(frame).__name__}>"
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(frame)
