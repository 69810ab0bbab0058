"""The driver: all parties of one round in this process. It reads like the paper's algorithm.

Every party does its own work through its own object, and every message is encoded, measured and
decoded again on its way, exactly as over a network.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg import keys
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols._common.cohort import leaving
from privagg.protocols.lightsecagg import messages
from privagg.protocols.lightsecagg.checks import check_params
from privagg.protocols.lightsecagg.client import Client
from privagg.protocols.lightsecagg.messages import Message
from privagg.protocols.lightsecagg.params import Params, Policy, policy_of
from privagg.protocols.lightsecagg.result import Result
from privagg.protocols.lightsecagg.server import Server
from privagg.protocols.lightsecagg.states import ROUNDS, Phase
from privagg.protocols.secagg.arguments import is_sequence
from privagg.protocols.secagg.identity import Directory, Roster, Signer
from privagg.protocols.secagg.inputs import Inputs
from privagg.protocols.secagg.parties import Progress
from privagg.protocols.secagg.result import Truth
from privagg.protocols.secagg.transcript import Transcript
from privagg.trees import Structure

__all__ = ["run"]


def run(
    params: Params,
    vectors: Sequence[Any] | NDArray[Any],
    *,
    weights: Sequence[int] | None = None,
    dropouts: Mapping[int, str] | None = None,
    policy: Policy | None = None,
    seed: int | None = None,
    identities: Sequence[Signer] | None = None,
    roster: Directory | None = None,
    model: bytes = b"",
    transcript: Transcript | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run one round with all its parties in this process and return the sum and the bill.

    Guarantee: that of :class:`Client` and :class:`Server` under ``params.threat``; the process
    itself sees everything, as it plays all parties. It holds the coded shares of all clients for
    all clients: ``N * N * ceil(d / (U - T))`` elements.

    Parameters
    ----------
    params : Params
        The round.
    vectors : sequence of n items
        One per client: an array of ``params.dim`` numbers of any shape, or nested dicts, lists and
        tuples of arrays with so many numbers in all.
    weights : sequence of n ints, optional
        One per client, where ``params`` are weighted.
    dropouts : mapping of client to round name, optional
        The round before whose message the client leaves, one of :data:`ROUNDS`. Who leaves at the
        consistency check where nothing is signed is gone in the next round.
    policy : Policy, optional
        What every client insists on; by default what `params` promises.
    seed : int, optional
        Makes the run repeatable and **insecure**; the result says so.
    identities : sequence of n Signers, optional
        The clients' identities where messages are signed; new ones are made if left out.
    roster : Directory, optional
        The directory that verifies them; required with `identities`, and made with them.
    model : bytes
        Digest of the shared parameters, the same for all; see :meth:`Client.masked_input`.
    transcript : Transcript, optional
        Records every message.
    progress : callable, optional
        Called with the round's name, the clients done and the clients in it.

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
    if transcript is not None and not isinstance(transcript, Transcript):
        raise UsageError("transcript", type(transcript).__name__, "a secagg.Transcript")
    if progress is not None and not callable(progress):
        raise UsageError("progress", type(progress).__name__, "a function of name, done and total")
    source = entropies.from_seed(seed)
    declared: Any = params  # only the cohort, the dimension and the encoding are looked at
    identities, roster = signers(params, identities, roster, source)
    inputs = Inputs(declared, vectors, weights)
    driver = _Driver(
        params=params,
        inputs=inputs,
        structure=inputs.structure or Structure.of(vectors[0]),
        truth=Truth(declared),
        leaves=leaving(params.clients, {} if dropouts is None else dropouts, ROUNDS),
        policy=policy or policy_of(params, roster),
        source=source,
        server=Server(params, roster=roster, model=model, entropy=source.spawn("server")),
        identities=identities,
        model=model,
        transcript=transcript,
        progress=progress or (lambda name, done, total: None),
    )
    return driver.run()


def signers(
    params: Params,
    identities: Sequence[Signer] | None,
    roster: Directory | None,
    source: Entropy,
) -> tuple[Sequence[Signer] | None, Directory | None]:
    """Return the identities and the roster of a simulated round; new ones where there are none.

    Raises
    ------
    UsageError
        If they do not fit the threat model or the cohort.
    """
    if identities is not None and not is_sequence(identities):
        raise UsageError("identities", type(identities).__name__, "a sequence of n Signers")
    if not params.signed:
        if identities is not None or roster is not None:
            raise UsageError(
                "identities",
                "identities or a roster",
                f"none where the threat model is {params.threat.value}: nothing is signed there",
                "Choose threat='active'.",
            )
        return None, None
    if identities is None and roster is None:
        made = [
            keys.Identity.generate(source.spawn(f"identity/{index}"))
            for index in range(params.clients)
        ]
        return made, Roster(identity.public for identity in made)
    if roster is None or len(identities or ()) != params.clients:
        raise UsageError(
            "identities",
            f"{len(identities or ())} signers, {'a' if roster else 'no'} roster",
            f"{params.clients} signers and the roster that verifies them",
        )
    return identities, roster


@dataclass(kw_only=True)
class _Driver:
    """One run: the algorithm in :meth:`run`, the bookkeeping below it."""

    params: Params
    inputs: Inputs
    truth: Truth
    leaves: NDArray[np.int8]
    policy: Policy
    source: Entropy
    server: Server
    identities: Sequence[Signer] | None
    model: bytes
    structure: Structure
    transcript: Transcript | None
    progress: Progress
    clients: dict[int, Client] = field(default_factory=dict)
    up: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    down: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(
        default_factory=lambda: {"client": defaultdict(float), "server": defaultdict(float)}
    )

    def run(self) -> Result:
        server = self.server
        for index in self._staying(Phase.ADVERTISE_KEYS):
            self.clients[index] = Client(
                self.params,
                self.policy,
                identity=None if self.identities is None else self.identities[index],
                entropy=self.source.spawn(f"client/{index}"),
            )
        while server.phase is not Phase.DONE:
            match server.phase:
                # Each client gets its index and sends the public key that shares travel under.
                case Phase.ADVERTISE_KEYS:
                    self._round(lambda client, start: client.advertise_keys(start))
                # Offline encoding and sharing of local masks: each draws z_i, cuts it into U - T
                # pieces, adds T of noise, encodes, and sends share j to client j, encrypted.
                case Phase.SHARE_MASKS:
                    self._round(lambda client, roster: client.share_masks(roster))
                # Masking and uploading of local models: the shares arrive, x_i + z_i goes up.
                case Phase.MASKED_INPUT:
                    self._round(self._masked_input)
                # Where messages are signed: who survived (U1), as each client was shown it.
                case Phase.CONSISTENCY_CHECK:
                    self._round(lambda client, survivors: client.consistency_check(survivors))
                # One-shot recovery: each survivor sends the sum of its coded shares over U1; any U
                # such sums give the sum of the masks.
                case _:
                    self._round(lambda client, message: client.unmasking(message))
        return Result.of(
            params=self.params,
            aggregate=server.result(),
            structure=self.structure,
            survivors=server.survivors(),
            truth=self.truth,
            up=self.up,
            down=self.down,
            seconds={party: dict(rounds) for party, rounds in self.seconds.items()},
            blame=server.blame,
            model_bound=self.params.signed and bool(self.model),
            insecure_seed=self.source.insecure,
        )

    def _masked_input(self, client: Client, bundle: Any) -> Message:
        index = int(client.index or 0)
        vector, weight = self.inputs.vector(index), self.inputs.weight(index)
        try:
            message = client.masked_input(bundle, vector, weight=weight, model=self.model)
        except UsageError as error:
            raise UsageError(
                f"client {index}: {error.argument}", error.found, error.allowed, error.hint
            ) from None
        self.truth.add(vector, weight, client.clipped)
        return message

    def _round(self, answer: Callable[[Client, Any], Message]) -> None:
        """Carry the server's message to each client that stays and its answer back."""
        server, phase, name = self.server, self.server.phase, self.server.phase.title
        for account in (self.up, self.down):
            account[name] = np.zeros(self.params.clients, np.int64)
        expected = set(map(int, server.alive()))
        indices = [index for index in self._staying(phase) if index in expected]
        for done, index in enumerate(indices, start=1):
            with self._clock("server", name):
                said = server.message_for(index)
                data = said.encode()
            self._record(name, "server", index, said, data)
            with self._clock("client", name):
                client = self.clients[index]
                reply = answer(client, messages.decode(data, self.params, peer="server"))
                data = reply.encode()
                client.delivered()
            self._record(name, index, "server", reply, data)
            with self._clock("server", name):
                server.receive(index, messages.decode(data, self.params, peer=index))
            self.progress(name, done, len(indices))
        with self._clock("server", name):
            server.close()

    def _staying(self, phase: Phase) -> list[int]:
        return [int(index) for index in np.flatnonzero(self.leaves > phase.value)]

    def _record(
        self, name: str, sender: int | str, receiver: int | str, message: Message, data: bytes
    ) -> None:
        if isinstance(sender, int):
            self.up[name][sender] += len(data)
        elif isinstance(receiver, int):
            self.down[name][receiver] += len(data)
        if self.transcript is not None:
            kind = type(message).__name__
            self.transcript.record(
                round=name, sender=sender, receiver=receiver, kind=kind, data=data
            )

    @contextmanager
    def _clock(self, party: str, name: str) -> Iterator[None]:
        """Add the CPU seconds that this thread spends inside to an account."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.seconds[party][name] += time.thread_time() - began
