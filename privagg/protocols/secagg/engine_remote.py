"""An engine whose clients live with workers that answer frames, wherever those are.

Clients are dealt to the workers by index and never leave them; in a run without a seed each draws
its secrets from the operating system, there. What passes is in
:mod:`privagg.protocols.secagg.engine_frames`. How a frame gets to a worker is the subclass's
affair: over a pipe (:mod:`privagg.protocols.secagg.engine_processes`), or in a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.keys import Identity
from privagg.protocols.secagg import engine_frames as frames
from privagg.protocols.secagg.engine import Cast, Job, OneRun, Reply
from privagg.protocols.secagg.identity import Roster, Signer
from privagg.protocols.secagg.pairing import Pairs
from privagg.protocols.secagg.params import Params, Policy

__all__ = ["AHEAD", "Answering", "RemoteEngine", "Worker", "turns_at_once"]

_BATCH = 1 << 18
"""Coordinates that are sent to a worker at once, of several clients if their vectors are short."""

_MOST = 32
"""Clients whose turns are sent to a worker at once, at most."""

AHEAD = 2
"""Batches of turns that are under way: one is worked on while the replies of another are read."""


def turns_at_once(params: Params) -> int:
    """Return of how many clients a worker is sent the turns at once."""
    return max(1, min(_MOST, _BATCH // params.length))


class Answering(Protocol):
    """Where the answer to a frame will be."""

    def result(self) -> Any:
        """Wait for the answer and return it; WorkerLost if there will be none."""


class Worker(Protocol):
    """Somebody who answers frames, in the order in which they were sent."""

    number: int

    def ask(self, frame: frames.Frame, doing: str) -> Answering:
        """Send a frame after those before it; return where the answer will be."""

    def end(self) -> None:
        """End it, whatever it does."""


class RemoteEngine:
    """Clients dealt to workers; see :class:`privagg.protocols.secagg.engine.Engine`.

    A subclass starts the workers: it fills `_workers`.

    Attributes
    ----------
    elsewhere : float
        CPU seconds that the workers have worked for the server.
    """

    _files = True
    """Whether the workers see the files that this process does."""

    _again = "Make another one."
    """What to do when it is closed."""

    def __init__(self) -> None:
        self.elsewhere = 0.0
        self._width = 1
        self._opened = self._closed = False
        self._run = OneRun()
        self._workers: Sequence[Worker] = []

    @property
    def workers(self) -> int:
        """How many workers there are."""
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
            raise UsageError("engine", "one that was closed", "an engine that is open", self._again)
        self._opened = False
        self._run.start()
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
        number = self._run.check()
        source = _Source(jobs, self._files)
        under_way: deque[_Batch] = deque()
        while True:
            while len(under_way) < AHEAD and (batch := source.take(self.workers * self._width)):
                under_way.append(self._send(method, batch))
            if not under_way:
                break
            for reply in under_way.popleft().replies():
                yield reply
                self._run.check(number)
        if source.error is not None:
            raise source.error

    def agree(self, pairs: Iterable[Pairs]) -> Iterator[NDArray[np.uint8]]:
        """Work out seeds, each party's in the next worker; see :class:`Engine`."""
        self._run.check()
        under_way: deque[tuple[int, Answering]] = deque()
        for turn, one in enumerate(pairs):
            worker = self._workers[turn % self.workers]
            under_way.append((one.length, worker.ask(frames.pack_pairs(one), "unmasking")))
            if len(under_way) > 2 * self.workers:
                yield self._seeds(*under_way.popleft())
        while under_way:
            yield self._seeds(*under_way.popleft())

    def _seeds(self, length: int, answer: Answering) -> NDArray[np.uint8]:
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
        return f"{type(self).__name__}({self.workers})"

    def _of(self, client: int) -> Worker:
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

    def __init__(self, jobs: Iterable[Job], files: bool) -> None:
        self._jobs = iter(jobs)
        self._files = files
        self.error: Exception | None = None

    def take(self, count: int) -> list[_Packed]:
        """Return the next `count` jobs, and each as it is sent; fewer at the end."""
        batch: list[_Packed] = []
        while self.error is None and len(batch) < count:
            try:
                job = next(self._jobs)
                batch.append((job, frames.pack_job(job, files=self._files)))
            except StopIteration:
                break
            except Exception as error:  # it is raised in its turn
                self.error = error
        return batch


class _Batch:
    """Turns that were sent to the workers, and where their answers will be."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = jobs
        self.answers: dict[int, Answering] = {}

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
                "a secagg.Roster, for workers elsewhere",
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
            "a privagg.keys.Identity, for workers elsewhere",
            "Another signer stays in this process: workers=1.",
        )
    return signer.secret_bytes()
