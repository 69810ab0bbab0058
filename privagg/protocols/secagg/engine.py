"""Where the clients of a simulated round live, and who calls their methods.

The driver (:mod:`privagg.protocols.secagg.rounds`) says which round method runs for which clients
on which messages; an :class:`Engine` has it run and gives back what the clients answered. All that
passes is encoded messages, inputs and weights: a client never leaves the :class:`Shard` that made
it. :class:`LocalEngine` has one shard here;
:class:`privagg.protocols.secagg.engine_processes.ProcessEngine` has one in each worker process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg.errors import UsageError
from privagg.protocols.secagg import messages, tiles
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.identity import Signer
from privagg.protocols.secagg.messages import MaskedInput
from privagg.protocols.secagg.pairing import Pairs
from privagg.protocols.secagg.params import Params, Policy

__all__ = [
    "METHODS",
    "Cast",
    "Engine",
    "Job",
    "LocalEngine",
    "OneRun",
    "Reply",
    "Shard",
    "Stripping",
]

METHODS = frozenset(
    {
        *("advertise_keys", "commit_graph", "reveal_graph", "share_keys", "masked_input"),
        *("consistency_check", "unmasking"),
    }
)
"""The round methods of :class:`Client`: all that an engine may be asked to call."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """What is the same for all clients of a run, and how they are made.

    Attributes
    ----------
    params : Params
        The round.
    policy : Policy, optional
        What every client insists on.
    model : bytes
        Digest of the shared parameters.
    seed : int, optional
        Of the run: each client's entropy is spawned from it by the client's label, so that it is
        the same in every shard. None where each client draws from the operating system.
    identities : mapping of client to Signer, optional
        Where messages are signed.
    """

    params: Params
    policy: Policy | None = None
    model: bytes = b""
    seed: int | None = field(default=None, repr=False)
    identities: Mapping[int, Signer] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One client's turn.

    Attributes
    ----------
    client : int
        Its index.
    inbox : bytes
        The server's message, encoded.
    vector : (dim,) array, optional
        Its input, for ``masked_input``.
    weight : int
        Its weight.
    post : Path, optional
        A file that the masked vector is written to by tiles, and read from: for vectors that are
        too long for memory.
    """

    client: int
    inbox: bytes = field(repr=False)
    vector: NDArray[Any] | None = field(default=None, repr=False)
    weight: int = 1
    post: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a client answered.

    Attributes
    ----------
    client : int
        Its index.
    kind : str
        The message's class.
    outbox : bytes or memoryview
        The message, encoded; the view of a map where the job had a `post`.
    clipped : int
        Coordinates of its input outside the clip.
    seconds : float
        CPU seconds of the turn: decoding, the method, encoding.
    """

    client: int
    kind: str
    outbox: bytes | memoryview = field(repr=False)
    clipped: int = 0
    seconds: float = 0.0


@runtime_checkable
class Engine(Protocol):
    """Runs round methods for clients. One run at a time; several runs after each other.

    Attributes
    ----------
    workers : int
        How many turns it can take at the same time.
    elsewhere : float
        CPU seconds that :meth:`agree` has taken outside this process so far.
    """

    @property
    def workers(self) -> int:
        """How many turns it can take at the same time."""

    @property
    def elsewhere(self) -> float:
        """CPU seconds that :meth:`agree` has taken outside this process so far."""

    def open(self, cast: Cast, clients: Sequence[int]) -> None:
        """Make these clients; those of an earlier run are gone.

        Raises
        ------
        UsageError
            If something in `cast` cannot reach where the clients live.
        """

    def call(self, method: str, jobs: Iterable[Job]) -> Iterator[Reply]:
        """Run a round method for the jobs' clients.

        Replies come in the order of the jobs. Jobs are taken from `jobs` a few ahead of the
        replies, never all at once: they hold vectors. Where a turn fails, or `jobs` itself raises,
        the replies before it come first, then the exception, as if turns were taken one by one.
        """

    def agree(self, pairs: Iterable[Pairs]) -> Iterator[NDArray[np.uint8]]:
        """Work out the seeds that the server needs of clients that left, in order."""

    def close(self) -> None:
        """End it, and whatever still runs in it."""


@runtime_checkable
class Stripping(Protocol):
    """An engine that also adds up the masks that the server takes off the sum."""

    def strip(
        self,
        params: Params,
        seeds: NDArray[np.uint8],
        signs: NDArray[np.int8],
        spans: Iterable[tuple[int, int]],
    ) -> Iterator[NDArray[Any]]:
        """Add up streams; see :data:`privagg.protocols.secagg.pairing.Strip`."""


class OneRun:
    """Which run an engine has: clients of two at the same time would get each other's messages."""

    def __init__(self) -> None:
        self._number, self._thread = 0, 0

    def start(self) -> None:
        """Note that the calling thread's run begins; what was before is over."""
        self._number, self._thread = self._number + 1, threading.get_ident()

    def check(self, number: int | None = None) -> int:
        """Require that the run is still the calling thread's, and of this number; return it.

        Raises
        ------
        UsageError
            If another one has begun meanwhile.
        """
        if self._thread != threading.get_ident() or number not in (None, self._number):
            raise UsageError(
                "engine",
                "another run in the same engine, before this one is over",
                "one run at a time",
                "Give every thread an engine of its own.",
            )
        return self._number


class Shard:
    """Some of a run's clients, made here and called here.

    Parameters
    ----------
    cast : Cast
        What they have in common.
    clients : iterable of int
        Their indices.
    """

    def __init__(self, cast: Cast, clients: Iterable[int]) -> None:
        source = entropies.from_seed(cast.seed)
        self._cast = cast
        self._clients = {
            index: Client(
                cast.params,
                cast.policy,
                identity=None if cast.identities is None else cast.identities[index],
                entropy=source.spawn(f"client/{index}"),
            )
            for index in clients
        }

    def answer(self, method: str, job: Job) -> Reply:
        """Let a client take its turn.

        Raises
        ------
        PrivaggError
            What the client's method raises.
        OSError
            If there is no room for the job's `post`.
        """
        if method not in METHODS:
            raise UsageError("method", method, f"one of {', '.join(sorted(METHODS))}")
        began = time.thread_time()
        client, cast = self._clients[job.client], self._cast
        message: Any = messages.decode(job.inbox, cast.params, peer="server")
        outbox: bytes | memoryview
        clipped = 0
        if method == "masked_input":
            out = None
            if job.post is not None:
                size = MaskedInput.size(cast.params)
                out = tiles.create(job.post, np.uint8, size)
            # The client refuses what is no vector.
            vector: Any = job.vector
            reply: messages.Message = client.masked_input(
                message, vector, weight=job.weight, model=cast.model, out=out
            )
            outbox = reply.encode() if out is None else out.data
            clipped = client.clipped
        else:
            reply = getattr(client, method)(message)
            outbox = reply.encode()
        client.delivered()
        return Reply(
            client=job.client,
            kind=type(reply).__name__,
            outbox=outbox,
            clipped=clipped,
            seconds=time.thread_time() - began,
        )


class LocalEngine:
    """All clients in this process, one turn after the other."""

    workers = 1
    elsewhere = 0.0

    def __init__(self) -> None:
        self._shard: Shard | None = None
        self._run = OneRun()

    def open(self, cast: Cast, clients: Sequence[int]) -> None:
        """Make these clients; see :class:`Engine`."""
        self._run.start()
        self._shard = Shard(cast, clients)

    def call(self, method: str, jobs: Iterable[Job]) -> Iterator[Reply]:
        """Run a round method for the jobs' clients; see :class:`Engine`."""
        if self._shard is None:
            raise UsageError("engine", "no clients yet", "an engine that was opened")
        number = self._run.check()
        for job in jobs:
            self._run.check(number)
            yield self._shard.answer(method, job)

    def agree(self, pairs: Iterable[Pairs]) -> Iterator[NDArray[np.uint8]]:
        """Work out seeds; see :class:`Engine`."""
        return map(Pairs.seeds, pairs)

    def close(self) -> None:
        """Forget the clients."""
        self._shard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
