"""An engine whose clients live in worker processes, so that their Python runs on all cores.

Each worker is a fresh interpreter (about a second of CPU to start, all at the same time), not a
fork: the process that starts it may have threads, whose locks a fork would copy as they are. It
speaks frames over a private pipe (:mod:`privagg.protocols.secagg.engine_frames`). Clients are dealt
to the workers by index and never leave them; in a run without a seed each draws its secrets from
the operating system, there.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError, WorkerLost
from privagg.keys import Identity
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine import Cast, Job, Reply
from privagg.protocols.secagg.identity import Roster, Signer
from privagg.protocols.secagg.pairing import Pairs
from privagg.protocols.secagg.params import Params, Policy

__all__ = ["AHEAD", "ProcessEngine", "turns_at_once"]

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from privagg.protocols.secagg.engine_worker import main
main()
"""

_BATCH = 1 << 18
"""Coordinates that are sent to a worker at once, of several clients if their vectors are short."""

_MOST = 32
"""Clients whose turns are sent to a worker at once, at most."""

AHEAD = 2
"""Batches of turns that are under way: one is worked on while the replies of another are read."""

_PATIENCE = 5.0
"""Seconds that a process gets to end after its pipe did."""


def turns_at_once(params: Params) -> int:
    """Return of how many clients a worker is sent the turns at once."""
    return max(1, min(_MOST, _BATCH // params.length))


class ProcessEngine:
    """Clients in `workers` processes; see :class:`privagg.protocols.secagg.engine.Engine`.

    It starts them at once and can be used for several runs. Close it, or use it in a ``with``:
    workers end then, and also if this process does.

    Parameters
    ----------
    workers : int
        Processes.

    Raises
    ------
    UsageError
        If there is no interpreter to start, or the system starts no more of them.
    """

    def __init__(self, workers: int) -> None:
        workers = whole("workers", workers, 1, 1024)
        if not sys.executable:
            raise UsageError("workers", workers, "1 where there is no interpreter to start")
        self.elsewhere = 0.0
        self._width = 1
        self._opened = self._closed = False
        self._workers: list[_Worker] = []
        try:
            for number in range(workers):
                self._workers.append(_Worker(number, workers))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                hint = "Use fewer, or raise the limits of open files and processes (ulimit -n, -u)."
                allowed = f"as many as the system starts: {error.strerror}"
                raise UsageError("workers", workers, allowed, hint) from None
            raise

    @property
    def workers(self) -> int:
        """How many processes there are."""
        return len(self._workers)

    def open(self, cast: Cast, clients: Sequence[int]) -> None:
        """Make these clients, dealt to the workers by index.

        Raises
        ------
        UsageError
            If it was closed; or if the roster is no :class:`Roster` or an identity no
            :class:`privagg.keys.Identity`: other signers and directories cannot leave this process.
        WorkerLost
            If a worker ended.
        """
        if self._closed:
            hint = "Make another one: ProcessEngine(n)."
            raise UsageError("engine", "one that was closed", "an engine that is open", hint)
        self._opened = False
        policy = _policy(cast.policy)
        self._width = turns_at_once(cast.params)
        asked = []
        for worker in self._workers:
            own = [client for client in clients if self._of(client) is worker]
            identities = None
            if cast.identities is not None:
                identities = [_secret(client, cast.identities[client]) for client in own]
            frame = frames.Open(cast.params, policy, cast.model, cast.seed, own, identities)
            asked.append(worker.ask(frame, "its start"))
        for answer in asked:
            ready = answer.result()
            if ready.failure is not None:
                raise frames.exception(ready.failure)
        self._opened = True

    def call(self, method: str, jobs: Iterable[Job]) -> Iterator[Reply]:
        """Run a round method for the jobs' clients; see :class:`Engine`.

        Raises
        ------
        UsageError
            If it has no clients, or none any more.
        WorkerLost
            If a worker ended.
        """
        if not self._opened or self._closed:
            raise UsageError("engine", "no clients yet", "an engine that was opened")
        source = _Source(jobs)
        under_way: deque[_Batch] = deque()
        while True:
            while len(under_way) < AHEAD and (batch := source.take(self.workers * self._width)):
                under_way.append(self._send(method, batch))
            if not under_way:
                break
            yield from under_way.popleft().replies()
        if source.error is not None:
            raise source.error

    def agree(self, pairs: Iterable[Pairs]) -> Iterator[NDArray[np.uint8]]:
        """Work out seeds, each party's in the next worker; see :class:`Engine`."""
        under_way: deque[tuple[int, Future[Any]]] = deque()
        for turn, one in enumerate(pairs):
            worker = self._workers[turn % self.workers]
            under_way.append((one.length, worker.ask(frames.pack_pairs(one), "unmasking")))
            if len(under_way) > 2 * self.workers:
                yield self._seeds(*under_way.popleft())
        while under_way:
            yield self._seeds(*under_way.popleft())

    def _seeds(self, length: int, answer: Future[Any]) -> NDArray[np.uint8]:
        found = answer.result()
        if found.failure is not None:
            raise frames.exception(found.failure)
        self.elsewhere += found.seconds
        return np.frombuffer(found.seeds, np.uint8).reshape(-1, length)

    def close(self) -> None:
        """End the workers."""
        self._closed = True
        for worker in self._workers:
            worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ProcessEngine({self.workers})"

    def _of(self, client: int) -> _Worker:
        return self._workers[client % len(self._workers)]

    def _send(self, method: str, jobs: list[_Packed]) -> _Batch:
        batch = _Batch([job for job, _ in jobs])
        dealt = sorted(jobs, key=lambda packed: self._of(packed[0].client).number)
        for worker, own in groupby(dealt, key=lambda packed: self._of(packed[0].client)):
            turns = frames.Turns(method, [turn for _, turn in own])
            asked = worker.ask(turns, method.replace("_", "-"))
            for turn in turns.jobs:
                batch.answers[turn.client] = asked
        return batch


_Packed = tuple[Job, frames.Turn]


class _Source:
    """Jobs, taken a few at a time; what they raise is kept until the replies before it are out."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)
        self.error: Exception | None = None

    def take(self, count: int) -> list[_Packed]:
        """Return the next `count` jobs, and each as it is sent; fewer at the end."""
        batch: list[_Packed] = []
        while self.error is None and len(batch) < count:
            try:
                job = next(self._jobs)
                batch.append((job, frames.pack_job(job)))
            except StopIteration:
                break
            except Exception as error:  # it is raised in its turn
                self.error = error
        return batch


class _Batch:
    """Turns that were sent to the workers, and where their answers will be."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = jobs
        self.answers: dict[int, Future[Any]] = {}

    def replies(self) -> Iterator[Reply]:
        """Yield the replies in the order of the jobs, as soon as they are there."""
        taken: dict[int, int] = {}
        for job in self._jobs:
            answers = self.answers[job.client].result()
            place = taken.get(id(answers), 0)
            taken[id(answers)] = place + 1
            if place == len(answers.replies):
                raise frames.exception(answers.failure)
            yield frames.unpack_reply(answers.replies[place], job.post)


class _Worker:
    """One process, and the thread that speaks with it: a question, an answer, the next question."""

    def __init__(self, number: int, of: int) -> None:
        self.number, self._of = number, of
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, program and path
            # -P: no module of the folder that this process happens to be in.
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(list(map(str, sys.path)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is this process's affair: it ends the workers.
            start_new_session=True,
        )
        self._greeted = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"worker-{number}")

    def ask(self, frame: frames.Frame, doing: str) -> Future[Any]:
        """Send a frame after those before it; return where the answer will be."""
        return self._thread.submit(self._ask, frame, doing)

    def _ask(self, frame: frames.Frame, doing: str) -> Any:
        process = self._process
        try:
            if not self._greeted:
                frames.wait_for_greeting(cast(Any, process.stdout))
                self._greeted = True
            frames.write(cast(Any, process.stdin), frame)
            answer = frames.read(cast(Any, process.stdout))
            frames.check_answer(frame, answer)
        except (EOFError, OSError):
            raise WorkerLost(self._name, self._end_of(), doing) from None
        except frames.BrokenFrameError as error:
            process.kill()  # what comes next could be anything
            raise WorkerLost(self._name, f"answered out of form ({error})", doing) from None
        return answer

    @property
    def _name(self) -> str:
        return f"worker process {self.number + 1} of {self._of}"

    def _end_of(self) -> str:
        """Say how the process ended."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._thread.shutdown(cancel_futures=True)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what is still in the buffer goes nowhere
                cast(Any, pipe).close()


def _policy(policy: Policy | None) -> frames.Policy | None:
    """Return a policy as it is sent."""
    if policy is None:
        return None
    keys = None
    if policy.roster is not None:
        if type(policy.roster) is not Roster:
            raise UsageError(
                "roster",
                type(policy.roster).__name__,
                "a secagg.Roster, for worker processes",
                "Another directory stays in this process: workers=1.",
            )
        keys = policy.roster.identities
    return frames.Policy(policy.min_cohort, policy.max_corrupt, keys)


def _secret(client: int, signer: Signer) -> bytes:
    """Return the private key that a client signs with, for the private pipe to its worker."""
    if type(signer) is not Identity:
        raise UsageError(
            f"identities[{client}]",
            type(signer).__name__,
            "a privagg.keys.Identity, for worker processes",
            "Another signer stays in this process: workers=1.",
        )
    return signer.secret_bytes()
