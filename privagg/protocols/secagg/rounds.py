"""The driver: all parties of one round on this machine. It reads like the paper's figure.

Every party does its own work through its own object, and every message is encoded, measured and
decoded again on its way, exactly as over a network. Where the clients live and who calls them is
the engine's affair (:mod:`privagg.protocols.secagg.engine`); the server is here.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from privagg.errors import PrivaggError, UsageError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.arguments import check_params
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.engine import Engine, Job, Reply
from privagg.protocols.secagg.identity import Directory, Signer
from privagg.protocols.secagg.inputs import Inputs
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.parties import Parties, Progress, engine_of
from privagg.protocols.secagg.result import Result, Truth
from privagg.protocols.secagg.server import Server
from privagg.protocols.secagg.states import Phase
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.transcript import Transcript

__all__ = ["Driver", "Progress", "run"]


def run(
    params: Params,
    vectors: Sequence[Any] | NDArray[Any],
    *,
    weights: Sequence[int] | None = None,
    dropouts: Mapping[int, str] | None = None,
    policy: Policy | None = None,
    seed: int | None = None,
    workers: int = 1,
    engine: Engine | None = None,
    identities: Sequence[Signer] | None = None,
    roster: Directory | None = None,
    model: bytes = b"",
    transcript: Transcript | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run one round with all its parties on this machine and return the sum and the bill.

    Guarantee: that of :class:`Client` and :class:`Server` under ``params.threat``; whoever runs it
    sees everything, as it plays all parties. The result, and every message in its order, is the
    same for any number of workers and any engine, but for the seconds.

    Parameters
    ----------
    params : Params
        The round.
    vectors : sequence of n items
        One per client: an array of ``params.dim`` numbers of any shape, or nested dicts, lists and
        tuples of arrays with so many numbers in all. Items are taken one at a time, when the client
        sends its input, so that a lazy sequence need never hold them all.
    weights : sequence of n ints, optional
        One per client, where ``params`` are weighted.
    dropouts : mapping of client to round name, optional
        The round before whose message the client leaves, one of :data:`ROUNDS`. Where the threat
        model has no such round, who leaves there is gone in the next.
    policy : Policy, optional
        What every client insists on; by default what `params` promises.
    seed : int, optional
        Makes the run repeatable and **insecure**; the result says so.
    workers : int
        With more than one, so many processes (no more than clients) hold the clients, and so many
        threads take masks off; starting them takes about a second, see
        :func:`recommended_workers`. It changes speed only.
    engine : Engine, optional
        Where the clients live instead; it is left open, for the next run.
    identities : sequence of n Signers, optional
        The clients' identities where messages are signed; new ones are made if left out.
    roster : Directory, optional
        The directory that verifies them; required with `identities`, and made with them.
    model : bytes
        Digest of the shared parameters, the same for all; see :meth:`Client.masked_input`.
    transcript : Transcript, optional
        Records every message.
    progress : callable, optional
        See :data:`Progress`.

    Returns
    -------
    Result

    Raises
    ------
    Abort
        If too few are left in some round; nothing about any input was revealed.
    UsageError
        If inputs, weights or dropouts do not fit the parameters, naming the client.
    PeerError
        If a party misbehaves, which here would be a fault of the implementation.
    WorkerLost
        If a worker process ended, for example because the memory was short.
    """
    check_params(params)
    if transcript is not None and not isinstance(transcript, Transcript):
        raise UsageError("transcript", type(transcript).__name__, "a secagg.Transcript")
    parties = Parties(
        params=params,
        policy=policy,
        seed=seed,
        identities=identities,
        roster=roster,
        model=model,
        dropouts={} if dropouts is None else dropouts,
        progress=progress,
    )
    inputs = Inputs(params, vectors, weights)
    with engine_of(params, workers, engine) as place:
        driver = Driver(
            parties=parties,
            inputs=inputs,
            truth=Truth(params),
            server=parties.server(Server, place, workers),
            engine=place,
            transcript=transcript,
        )
        return driver.run()


@dataclass
class _Turn:
    """A client that was handed a message and has not answered yet."""

    client: int
    kind: str
    data: bytes
    vector: NDArray[Any] | None = None
    weight: int = 1
    asked: bool = False


@dataclass(kw_only=True)
class Driver:
    """One run: the figure in :meth:`run`, the bookkeeping below it.

    Attributes
    ----------
    parties : Parties
        Who takes part.
    inputs : Inputs
        What they put in.
    truth : Truth
        Adds up the same in the clear.
    server : Server
        The server.
    engine : Engine
        Where the clients live.
    transcript : Transcript, optional
        Records every message.
    posts : Path, optional
        A folder for masked vectors, where they are too long for memory.
    """

    parties: Parties
    inputs: Inputs
    truth: Truth
    server: Server
    engine: Engine
    transcript: Transcript | None = None
    posts: Path | None = None
    up: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    down: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    proofs: dict[int, int] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(
        default_factory=lambda: {"client": defaultdict(float), "server": defaultdict(float)}
    )

    def run(self) -> Result:
        """Play the round to its end."""
        server = self.server
        self.engine.open(self.parties.cast(), self.parties.staying(0))
        while server.phase is not Phase.DONE:
            match server.phase:
                # Round 0, AdvertiseKeys: each client gets its index and sends two public keys.
                case Phase.ADVERTISE_KEYS:
                    self._round(Client.advertise_keys)
                # Semi-malicious only: with the keys fixed, everyone's randomness draws the graph.
                case Phase.COMMIT_GRAPH:
                    self._round(Client.commit_graph)
                case Phase.REVEAL_GRAPH:
                    self._round(Client.reveal_graph)
                # Round 1, ShareKeys: the roster goes out, encrypted shares of two seeds come back.
                case Phase.SHARE_KEYS:
                    self._round(Client.share_keys)
                # Round 2, MaskedInputCollection: shares are relayed, masked vectors come back.
                case Phase.MASKED_INPUT:
                    self._round(Client.masked_input)
                # Round 3, ConsistencyCheck, where messages are signed: who survived, as each was
                # shown it.
                case Phase.CONSISTENCY_CHECK:
                    self._round(Client.consistency_check)
                # Round 4, Unmasking: survivors (and signatures) go out, one share per peer comes
                # back.
                case _:
                    self._round(Client.unmasking)
        return Result.of(
            params=self.parties.params,
            aggregate=server.result(),
            structure=self.inputs.structure,
            survivors=server.survivors(),
            truth=self.truth,
            up=self.up,
            down=self.down,
            proofs=self.proofs,
            seconds={party: dict(rounds) for party, rounds in self.seconds.items()},
            blame=server.blame,
            insecure_seed=self.parties.source.insecure,
        )

    def _round(self, method: Callable[..., Message]) -> None:
        """Carry the server's message to each client that stays and its answer back."""
        server, phase = self.server, self.server.phase
        name, params = phase.title, self.parties.params
        for account in (self.up, self.down):  # a graph may be drawn more than once
            account.setdefault(name, np.zeros(params.clients, np.int64))
        expected = set(map(int, server.alive()))
        indices = [index for index in self.parties.staying(phase.value) if index in expected]
        exchange = self._exchange(name, method.__name__, indices)
        for done, (turn, reply) in enumerate(exchange, start=1):
            self.seconds["client"][name] += reply.seconds
            self._record(name, turn.client, "server", reply.kind, reply.outbox)
            if turn.vector is not None:
                self.truth.add(turn.vector, turn.weight, reply.clipped)
            with self._clock(name):
                message = messages.decode(reply.outbox, params, peer=turn.client)
                server.receive(turn.client, message)
            del message
            if (post := self._post(turn)) is not None:
                post.unlink()
            self.parties.progress(name, done, len(indices))
        # This process's threads are included; no client runs meanwhile.
        began = time.process_time() + self.engine.elsewhere
        server.close()
        self.seconds["server"][name] += time.process_time() + self.engine.elsewhere - began

    def _exchange(
        self, name: str, method: str, indices: Iterable[int]
    ) -> Iterator[tuple[_Turn, Reply]]:
        """Hand the server's messages out through the engine; yield turns and replies in order."""
        turns: deque[_Turn] = deque()  # handed out, not answered
        jobs = self._jobs(name, method == "masked_input", indices, turns)
        try:
            for reply in self.engine.call(method, jobs):
                turn = turns.popleft()
                self._record(name, "server", turn.client, turn.kind, turn.data)
                yield turn, reply
        except PrivaggError as error:
            self._failed(name, turns, error)

    def _jobs(
        self, name: str, with_input: bool, indices: Iterable[int], turns: deque[_Turn]
    ) -> Iterator[Job]:
        """Yield what each client is to do next, and note it in `turns`."""
        broadcast: dict[int, bytes] = {}
        complete = self.parties.params.graph is Graph.COMPLETE
        for index in indices:
            with self._clock(name):
                message = self.server.message_for(index)
                if isinstance(message, messages.KeyRoster) and message.proof is not None:
                    self.proofs[index] = message.proof.encoded_size()
                # One object serves every client of the complete graph: encode it once.
                data = broadcast.get(id(message))
                if data is None:
                    data = message.encode()
                    if complete and isinstance(message, messages.KeyRoster | messages.SignatureSet):
                        broadcast[id(message)] = data
            turn = _Turn(index, type(message).__name__, data)
            turns.append(turn)
            if with_input:
                turn.vector, turn.weight = self.inputs.vector(index), self.inputs.weight(index)
            turn.asked = True
            yield Job(
                client=index,
                inbox=data,
                vector=turn.vector,
                weight=turn.weight,
                post=self._post(turn),
            )

    def _failed(self, name: str, turns: deque[_Turn], error: PrivaggError) -> NoReturn:
        """Note what the client whose turn failed was sent, name it, and raise."""
        if not turns:
            raise error
        turn = turns[0]
        self._record(name, "server", turn.client, turn.kind, turn.data)
        if (
            isinstance(error, UsageError)
            and error.argument != "engine"  # nothing about the input
            and turn.asked
            and turn.vector is not None
        ):
            raise UsageError(
                f"client {turn.client}: {error.argument}", error.found, error.allowed, error.hint
            ) from None
        raise error

    def _post(self, turn: _Turn) -> Path | None:
        if self.posts is None or turn.vector is None:
            return None
        return self.posts / f"masked-input-{turn.client}"

    def _record(
        self,
        name: str,
        sender: int | str,
        receiver: int | str,
        kind: str,
        data: bytes | memoryview,
    ) -> None:
        if isinstance(sender, int):
            self.up[name][sender] += len(data)
        elif isinstance(receiver, int):
            self.down[name][receiver] += len(data)
        if self.transcript is not None:
            self.transcript.record(
                round=name, sender=sender, receiver=receiver, kind=kind, data=bytes(data)
            )

    @contextmanager
    def _clock(self, name: str) -> Iterator[None]:
        """Add the CPU seconds that this thread spends inside to the server's account."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.seconds["server"][name] += time.thread_time() - began
