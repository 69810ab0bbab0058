"""The driver: all parties of one round in this process. It reads like the paper's figure.

Every party does its own work through its own object, and every message is encoded, measured and
decoded again on its way, exactly as over a network.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg import keys
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.arguments import check_params, is_sequence, rounds_of_leaving
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.identity import Directory, Roster, Signer
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.result import Result, Truth
from privagg.protocols.secagg.server import Server
from privagg.protocols.secagg.states import Phase
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.transcript import Transcript
from privagg.trees import Structure

__all__ = ["Progress", "run"]

Progress = Callable[[str, int, int], None]
"""Called with the round's name, the clients done and the clients in it."""

_A = TypeVar("_A")


def run(
    params: Params,
    vectors: Sequence[Any] | NDArray[Any],
    *,
    weights: Sequence[int] | None = None,
    dropouts: Mapping[int, str] | None = None,
    policy: Policy | None = None,
    seed: int | None = None,
    workers: int = 1,
    identities: Sequence[Signer] | None = None,
    roster: Directory | None = None,
    model: bytes = b"",
    transcript: Transcript | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run one round with all its parties in this process and return the sum and the bill.

    Guarantee: that of :class:`Client` and :class:`Server` under ``params.threat``; the process
    itself sees everything, as it plays all parties.

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
        Threads over the clients and for unmasking. It changes speed only.
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
    """
    check_params(params)
    if policy is not None and not isinstance(policy, Policy):
        raise UsageError("policy", type(policy).__name__, "secagg.Policy")
    if transcript is not None and not isinstance(transcript, Transcript):
        raise UsageError("transcript", type(transcript).__name__, "a secagg.Transcript")
    if progress is not None and not callable(progress):
        raise UsageError("progress", type(progress).__name__, "a function of name, done and total")
    if identities is not None and not is_sequence(identities):
        raise UsageError("identities", type(identities).__name__, "a sequence of n Signers")
    source = entropies.from_seed(seed)
    leaves = rounds_of_leaving(params, {} if dropouts is None else dropouts)
    inputs = Inputs(params, vectors, weights)
    if not params.signed and (identities is not None or roster is not None):
        raise UsageError(
            "identities",
            "identities or a roster",
            f"none where the threat model is {params.threat.value}: nothing is signed there",
            "Choose threat='active' or 'semi-malicious'.",
        )
    if params.signed and identities is None and roster is None:
        made = [
            keys.Identity.generate(source.spawn(f"identity/{index}"))
            for index in range(params.clients)
        ]
        identities, roster = made, Roster(identity.public for identity in made)
    if params.signed and (roster is None or len(identities or ()) != params.clients):
        raise UsageError(
            "identities",
            f"{len(identities or ())} signers, {'a' if roster else 'no'} roster",
            f"{params.clients} signers and the roster that verifies them",
        )
    driver = _Driver(
        params=params,
        inputs=inputs,
        leaves=leaves,
        policy=policy or (Policy.of(params, roster) if params.signed else None),
        source=source,
        server=Server(
            params,
            roster=roster,
            model=model,
            entropy=source.spawn("server"),
            workers=workers,
        ),
        identities=identities,
        model=model,
        workers=workers,
        transcript=transcript,
        progress=progress or (lambda name, done, total: None),
    )
    return driver.run()


class Inputs:
    """The clients' vectors and weights, checked one client at a time."""

    def __init__(
        self,
        params: Params,
        vectors: Sequence[Any] | NDArray[Any],
        weights: Sequence[int] | None,
    ) -> None:
        if not is_sequence(vectors):
            raise UsageError(
                "vectors", type(vectors).__name__, "a sequence with an item per client"
            )
        if len(vectors) != params.clients:
            raise UsageError(
                "vectors", f"{len(vectors)} items", f"one for each of {params.clients} clients"
            )
        if weights is not None and not is_sequence(weights):
            raise UsageError("weights", type(weights).__name__, "a sequence with an int per client")
        if (weights is not None) != params.encoding.weighted:
            raise UsageError(
                "weights",
                "none" if weights is None else f"{len(weights)} weights",
                "weights exactly when the parameters are weighted",
                "Pass weighted=True and max_weight to Params.recommend."
                if weights is not None
                else "",
            )
        if weights is not None and len(weights) != params.clients:
            raise UsageError("weights", f"{len(weights)} weights", f"{params.clients} weights")
        self._params = params
        self._vectors = vectors
        self._weights = weights
        self.structure = Structure.of(vectors[0])
        if self.structure.size != params.dim:
            raise UsageError(
                "vectors", f"{self.structure.size} numbers per client", f"params.dim = {params.dim}"
            )

    def weight(self, client: int) -> int:
        """Return the client's weight; 1 in an unweighted round."""
        return 1 if self._weights is None else self._weights[client]

    def vector(self, client: int) -> NDArray[Any]:
        """Return the client's numbers as one flat array."""
        try:
            return self.structure.flatten(self._vectors[client])
        except UsageError as error:
            raise UsageError(
                f"vectors[{client}] {error.argument}", error.found, error.allowed, error.hint
            ) from None


@dataclass(kw_only=True)
class _Driver:
    """One run: the figure in :meth:`run`, the bookkeeping below it."""

    params: Params
    inputs: Inputs
    leaves: NDArray[np.int8]
    policy: Policy | None
    source: Entropy
    server: Server
    identities: Sequence[Signer] | None
    model: bytes
    workers: int
    transcript: Transcript | None
    progress: Progress
    clients: dict[int, Client] = field(default_factory=dict)
    up: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    down: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    proofs: dict[int, int] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(
        default_factory=lambda: {"client": defaultdict(float), "server": defaultdict(float)}
    )

    def run(self) -> Result:
        server, truth = self.server, Truth(self.params)

        # Round 0, AdvertiseKeys: each client gets its index and sends two public keys.
        def advertise_keys(client: Client, start: messages.Start) -> Message:
            return client.advertise_keys(start)

        # Semi-malicious only: with the keys fixed, everyone's randomness draws the graph.
        def commit_graph(client: Client, request: messages.GraphRequest) -> Message:
            return client.commit_graph(request)

        def reveal_graph(client: Client, challenge: messages.GraphChallenge) -> Message:
            return client.reveal_graph(challenge)

        # Round 1, ShareKeys: the roster goes out, encrypted shares of two seeds come back.
        def share_keys(client: Client, roster: messages.KeyRoster) -> Message:
            return client.share_keys(roster)

        # Round 2, MaskedInputCollection: shares are relayed, masked vectors come back.
        def masked_input(client: Client, bundle: messages.ShareBundle) -> Message:
            index = int(client.index or 0)
            vector, weight = self.inputs.vector(index), self.inputs.weight(index)
            try:
                message = client.masked_input(bundle, vector, weight=weight, model=self.model)
            except UsageError as error:
                raise UsageError(
                    f"client {index}: {error.argument}", error.found, error.allowed, error.hint
                ) from None
            truth.add(vector, weight, client.clipped)
            return message

        # Round 3, ConsistencyCheck, where messages are signed: who survived, as each was shown it.
        def consistency_check(client: Client, survivors: messages.SurvivorSet) -> Message:
            return client.consistency_check(survivors)

        # Round 4, Unmasking: survivors (and signatures) go out, one share per peer comes back.
        def unmasking(
            client: Client, message: messages.SurvivorSet | messages.SignatureSet
        ) -> Message:
            return client.unmasking(message)

        steps: dict[Phase, tuple[type[Message], Callable[..., Message]]] = {
            Phase.ADVERTISE_KEYS: (messages.Start, advertise_keys),
            Phase.COMMIT_GRAPH: (messages.GraphRequest, commit_graph),
            Phase.REVEAL_GRAPH: (messages.GraphChallenge, reveal_graph),
            Phase.SHARE_KEYS: (messages.KeyRoster, share_keys),
            Phase.MASKED_INPUT: (messages.ShareBundle, masked_input),
            Phase.CONSISTENCY_CHECK: (messages.SurvivorSet, consistency_check),
            Phase.UNMASKING: (
                messages.SignatureSet if self.params.signed else messages.SurvivorSet,
                unmasking,
            ),
        }
        for index in self._staying(0):
            self.clients[index] = Client(
                self.params,
                self.policy,
                identity=None if self.identities is None else self.identities[index],
                entropy=self.source.spawn(f"client/{index}"),
            )
        while server.phase is not Phase.DONE:
            self._round(server.phase, *steps[server.phase])
        return Result.of(
            params=self.params,
            aggregate=server.result(),
            structure=self.inputs.structure,
            survivors=server.survivors(),
            truth=truth,
            up=self.up,
            down=self.down,
            proofs=self.proofs,
            seconds={party: dict(rounds) for party, rounds in self.seconds.items()},
            blame=server.blame,
            insecure_seed=self.source.insecure,
        )

    def _round(self, phase: Phase, kind: type[Message], answer: Callable[..., Message]) -> None:
        """Carry the server's message to each client that stays and its answer back."""
        name = phase.title
        for account in (self.up, self.down):  # a graph may be drawn more than once
            account.setdefault(name, np.zeros(self.params.clients, np.int64))
        expected = set(map(int, self.server.alive()))
        indices = [index for index in self._staying(phase.value) if index in expected]
        broadcast: dict[int, bytes] = {}
        index_free = kind in (messages.KeyRoster, messages.SignatureSet)

        def send(index: int) -> tuple[int, bytes]:
            with self._clock("server", name):
                message = self.server.message_for(index)
                if isinstance(message, messages.KeyRoster) and message.proof is not None:
                    self.proofs[index] = message.proof.encoded_size()
                # One object serves every client of the complete graph: encode it once.
                data = broadcast.get(id(message))
                if data is None:
                    data = message.encode()
                    if index_free and self.params.graph is Graph.COMPLETE:
                        broadcast[id(message)] = data
            self._record(name, "server", index, kind.__name__, data)
            return index, data

        def work(job: tuple[int, bytes]) -> tuple[int, bytes, str, float]:
            index, data = job
            began = time.thread_time()
            client = self.clients[index]
            reply = answer(client, kind.decode(data, self.params, peer="server"))
            encoded = reply.encode()
            client.delivered()
            return index, encoded, type(reply).__name__, time.thread_time() - began

        for done, (index, data, sent, seconds) in enumerate(
            self._map(work, map(send, indices)), start=1
        ):
            self.seconds["client"][name] += seconds
            self._record(name, index, "server", sent, data)
            with self._clock("server", name):
                self.server.receive(index, messages.decode(data, self.params, peer=index))
            self.progress(name, done, len(indices))
        began = time.process_time()  # its own threads included; no client runs meanwhile
        self.server.close()
        self.seconds["server"][name] += time.process_time() - began

    def _staying(self, number: int) -> list[int]:
        return [int(index) for index in np.flatnonzero(self.leaves > number)]

    def _map(
        self,
        work: Callable[[tuple[int, bytes]], _A],
        jobs: Iterator[tuple[int, bytes]],
    ) -> Iterator[_A]:
        """Map in order with at most a few results waiting, so that vectors do not pile up."""
        if self.workers == 1:
            yield from map(work, jobs)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            while batch := list(itertools.islice(jobs, 4 * self.workers)):
                yield from pool.map(work, batch)

    def _record(
        self, name: str, sender: int | str, receiver: int | str, kind: str, data: bytes
    ) -> None:
        if isinstance(sender, int):
            self.up[name][sender] += len(data)
        elif isinstance(receiver, int):
            self.down[name][receiver] += len(data)
        if self.transcript is not None:
            self.transcript.record(
                round=name, sender=sender, receiver=receiver, kind=kind, data=data
            )

    def _clock(self, party: str, name: str) -> _Clock:
        return _Clock(self.seconds[party], name)


class _Clock:
    """Adds the CPU seconds that this thread spends inside to an account."""

    def __init__(self, account: dict[str, float], name: str) -> None:
        self._account, self._name = account, name

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self._account[self._name] += time.thread_time() - self._began
