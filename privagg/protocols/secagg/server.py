"""The server: collects each round, relays, and unmasks the sum. No I/O.

Bonawitz et al., CCS 2017, figure 4, and Bell et al., CCS 2020. Per round it takes the clients'
messages by :meth:`Server.receive`, in any order and repeated at will; :meth:`Server.close` ends the
round with whoever has answered, and :meth:`Server.message_for` gives what each client gets next.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.encoding import Aggregate
from privagg.entropy import OS, Entropy
from privagg.errors import PrivaggError, UsageError
from privagg.protocols._common.collecting import CollectingServer
from privagg.protocols.secagg import client_graph, derivations, layout, tiles
from privagg.protocols.secagg.arguments import check_model, check_party
from privagg.protocols.secagg.identity import Directory
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    GraphCommitment,
    GraphReveal,
    KeyRoster,
    MaskedInput,
    Message,
    ShareBundle,
    ShareKeys,
    SignatureSet,
    Start,
    SurvivorSet,
    UnmaskShares,
)
from privagg.protocols.secagg.pairing import Agree, Strip
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.server_consistency import Consistency
from privagg.protocols.secagg.server_graph import GraphDraw
from privagg.protocols.secagg.server_store import Store
from privagg.protocols.secagg.states import SEQUENCES, SERVER_TABLE, Phase, Receipt
from privagg.protocols.secagg.survival import enough_are_left
from privagg.protocols.secagg.thresholds import Graph, Threat
from privagg.protocols.secagg.topology import Topology
from privagg.protocols.secagg.unmask import Blame, Unmasker

__all__ = ["Receipt", "Server"]


class Server(CollectingServer[Phase, Message, Start, Aggregate]):
    """The server of one round.

    It learns the sum over the survivors, who took part, and when; no input. What it is trusted with
    is ``params.threat``; what clients check of it is in
    :mod:`privagg.protocols.secagg.checks`. Memory: one accumulator of the vector's length, and
    arrays of O(edges) for keys, ciphertexts and shares; never a vector per client.

    Parameters
    ----------
    params : Params
        Agreed parameters of the round.
    roster : Directory, optional
        The clients' identities; required where messages are signed.
    session : bytes, optional
        16 bytes that name the session; drawn from `entropy` if left out.
    round_number : int
        Number of the round within the session.
    model : bytes
        Digest of the shared parameters that all clients were given, 32 bytes or empty: without it
        the masks of clients that left cannot be rebuilt.
    entropy : Entropy
        Source of the session and, in a semi-honest round, of the sparse graph.
    workers : int
        Threads for unmasking. It changes speed only.
    agree, strip : callables, optional
        Work out pairs' seeds and add up masks elsewhere (:mod:`privagg.protocols.secagg.pairing`).

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    _params: Params
    _message, _start, _due = Message, Start, SERVER_TABLE

    def __init__(
        self,
        params: Params,
        *,
        roster: Directory | None = None,
        session: bytes | None = None,
        round_number: int = 0,
        model: bytes = b"",
        entropy: Entropy = OS,
        workers: int = 1,
        agree: Agree | None = None,
        strip: Strip | None = None,
    ) -> None:
        check_party(params, entropy)
        check_model(model)
        if params.signed and not (isinstance(roster, Directory) and len(roster) == params.clients):
            raise UsageError(
                "roster",
                "none" if roster is None else type(roster).__name__,
                f"the identities of {params.clients} clients, where the threat model is "
                f"{params.threat.value}",
            )
        session = entropy.take(layout.SESSION_BYTES) if session is None else session
        super().__init__(params, SEQUENCES[params.threat], session, round_number)
        workers = whole("workers", workers, 1, 1024)
        self._directory = roster if params.signed else None
        self._model, self._workers, self._agree, self._strip = model, workers, agree, strip
        identities = b"" if self._directory is None else self._directory.digest()
        self._context = derivations.context(params, session, self._round_number, identities)
        self._store = Store(params)
        self._draw: GraphDraw | None = None
        self._topology: Topology | None = None
        self._candidates = np.zeros(params.clients, np.bool_)
        if params.threat is not Threat.SEMI_MALICIOUS:
            self._topology = Topology(params, entropy.take(32))
        self._accumulator: NDArray[Any] = np.zeros(params.length, params.word)
        self._roster = b""
        self._broadcast: KeyRoster | SignatureSet | None = None
        self._blame: tuple[Blame, ...] = ()

    @property
    def blame(self) -> tuple[Blame, ...]:
        """Wrong or missing shares that the round survived, and whose they may be."""
        return self._blame

    def close(self) -> Phase:
        """End the round being collected with those who answered, and go to the next.

        Returns
        -------
        Phase
            What is collected now; after unmasking ``Phase.DONE``: :meth:`result` is ready. After
            ``REVEAL_GRAPH`` it is ``COMMIT_GRAPH`` once more if someone did not reveal.

        Raises
        ------
        Abort
            If too few are left to go on. No share that would reveal anything has been asked for.
        PeerError
            If wrong shares leave a secret that the sum needs unknown, or no inputs have this sum.
        UsageError
            If all weights are zero, so that there is no mean. The round is over then, too.
        """
        phase = self._phase
        if phase in (Phase.DONE, Phase.ABORTED):
            raise UsageError("close", f"a server that is {phase.title}", "an open one")
        try:
            enough_are_left(self._params, phase, self._here, self._topology)
            following = [*self._sequence, Phase.DONE][self._sequence.index(phase) + 1]
            if phase is Phase.ADVERTISE_KEYS:
                self._fix_keys()
            elif phase is Phase.COMMIT_GRAPH:
                self._graph.fix(self._here[phase])
            elif phase is Phase.REVEAL_GRAPH:
                following = self._fix_graph()
            elif phase is Phase.MASKED_INPUT:
                self._store.expect_shares()
            elif phase is Phase.CONSISTENCY_CHECK and self._params.graph is Graph.COMPLETE:
                self._broadcast = self._consistency.signature_set(0, self._tag)
            elif phase is Phase.UNMASKING:
                self._aggregate, self._blame = self._unmasker().aggregate(self._accumulator)
                self._accumulator = np.zeros(0, self._params.word)
        except PrivaggError:
            self._phase = Phase.ABORTED
            self._accumulator = np.zeros(0, self._params.word)  # a view would keep the vector
            raise
        self._phase = following
        return following

    def message_for(self, client: int) -> Message:
        """Return what `client` gets in the round being collected.

        Raises
        ------
        UsageError
            If the client left in an earlier round, or the round is over.
        """
        client, phase = self._client_of_an_open_round(client), self._phase
        if phase is Phase.ADVERTISE_KEYS:
            return self.start(client)
        if phase is Phase.COMMIT_GRAPH:
            return self._graph.request(self._tag, self._expected())
        if phase is Phase.REVEAL_GRAPH:
            return self._graph.challenge(self._tag)
        if phase is Phase.SHARE_KEYS:
            return self._key_roster(client)
        if phase is Phase.MASKED_INPUT:
            return self._share_bundle(client)
        if phase is Phase.UNMASKING and self._params.signed:
            if isinstance(self._broadcast, SignatureSet):
                return self._broadcast
            return self._consistency.signature_set(client, self._tag)
        here = self._here[Phase.MASKED_INPUT]
        flags, count = here[self._members(client)], int(here.sum())
        return SurvivorSet(tag=self._tag, cohort=count, survivors=flags)

    @property
    def _graph(self) -> GraphDraw:
        return cast(GraphDraw, self._draw)  # there from the end of round 0 on

    @property
    def _edges(self) -> Topology:
        return cast(Topology, self._topology)  # there before shares are asked for

    def _expected(self) -> NDArray[np.bool_]:
        if self._phase is Phase.COMMIT_GRAPH:
            return self._candidates
        if self._phase is Phase.UNMASKING:
            # Whoever is in the sum may answer, though its signature may have been lost.
            return self._here[Phase.MASKED_INPUT]
        return super()._expected()

    def _is_late(self, sender: int, message: Message) -> bool:
        return self._draw is not None and self._draw.is_late(sender, message)

    def _listed(self) -> NDArray[np.bool_]:
        """Return U1: who is in the rosters that clients were shown."""
        return self._here[Phase.ADVERTISE_KEYS if self._draw is None else Phase.REVEAL_GRAPH]

    def _members(self, client: int) -> NDArray[np.uint32]:
        """Return the roster that `client` was shown: U1, or its neighbours in U1."""
        present = self._listed()
        if self._params.graph is Graph.COMPLETE:
            return np.flatnonzero(present).astype(np.uint32)
        row = self._edges.row(client)
        return row[present[row]]

    def _take(self, sender: int, message: Message) -> None:
        if isinstance(message, AdvertiseKeys):
            self._store.take_keys(sender, message, self._context, self._directory)
        elif isinstance(message, GraphCommitment):
            self._graph.take_commitment(sender, message)
        elif isinstance(message, GraphReveal):
            self._graph.take_opening(sender, message)
        elif isinstance(message, ShareKeys):
            self._store.take_ciphertexts(sender, message, self._edges, self._listed())
        elif isinstance(message, MaskedInput):
            if self._params.views_signed:
                statement = self._consistency.sharer_statement(sender)
                self._store.take_signature(sender, message, statement, self._directory)
            tiles.add(self._accumulator, message.vector)
        elif isinstance(message, ConsistencySignature):
            statement = self._consistency.statement(sender)
            self._store.take_signature(sender, message, statement, self._directory)
        elif isinstance(message, UnmaskShares):
            self._store.take_shares(sender, message, self._edges, self._here[Phase.SHARE_KEYS])

    @property
    def _consistency(self) -> Consistency:
        return Consistency(
            params=self._params,
            bound=(self._context, self._roster, self._model),
            shared=self._here[Phase.SHARE_KEYS],
            in_sum=self._here[Phase.MASKED_INPUT],
            signed=self._here[Phase.CONSISTENCY_CHECK],
            signatures=self._store.survivor_signatures,
            sharer_signatures=self._store.sharer_signatures,
            members=self._members,
        )

    def _fix_keys(self) -> None:
        """Fix U1 and its keys, and the digest over them that everything is bound to."""
        present = self._here[Phase.ADVERTISE_KEYS]
        members = np.flatnonzero(present).astype(np.uint32)
        if self._params.threat is Threat.SEMI_MALICIOUS:
            self._draw = GraphDraw(self._params, self._context, present, self._store.keys)
            self._candidates = present
        elif self._params.graph is Graph.SPARSE:
            self._roster = client_graph.key_tree(self._context, members, self._store.keys).root
        else:
            rows = self._store.keys[members]
            self._roster = derivations.roster_digest(self._context, members, rows)
            self._broadcast = self._store.roster_of(members, tag=self._tag, cohort=len(members))

    def _fix_graph(self) -> Phase:
        """Draw the graph if everyone who committed revealed, else ask for commitments again."""
        here = self._here
        if not np.array_equal(here[Phase.REVEAL_GRAPH], here[Phase.COMMIT_GRAPH]):
            self._graph.again()
            self._candidates = here[Phase.REVEAL_GRAPH]
            for phase in (Phase.COMMIT_GRAPH, Phase.REVEAL_GRAPH):
                here[phase] = np.zeros(self._params.clients, np.bool_)
            return Phase.COMMIT_GRAPH
        self._topology = Topology(self._params, self._graph.seed())
        self._roster = self._graph.roster()
        enough_are_left(self._params, Phase.REVEAL_GRAPH, here, self._topology)
        return Phase.SHARE_KEYS

    def _key_roster(self, client: int) -> KeyRoster:
        if isinstance(self._broadcast, KeyRoster):
            return self._broadcast
        members = self._members(client)
        return self._store.roster_of(
            members,
            tag=self._tag,
            cohort=int(self._listed().sum()),
            digest=self._roster,
            proof=None if self._draw is None else self._draw.proof(members),
        )

    def _share_bundle(self, client: int) -> ShareBundle:
        shared = self._here[Phase.SHARE_KEYS]
        members = self._members(client)
        return ShareBundle(
            tag=self._tag,
            cohort=int(shared.sum()),
            present=shared[members] & (members != client),
            ciphertexts=self._store.ciphertexts_for(client, self._edges, shared),
        )

    def _unmasker(self) -> Unmasker:
        return Unmasker(
            params=self._params,
            context=self._context,
            roster=self._roster,
            model=self._model,
            topology=self._edges,
            store=self._store,
            sharers=self._here[Phase.SHARE_KEYS],
            survivors=self._here[Phase.MASKED_INPUT],
            responders=self._here[Phase.UNMASKING],
            workers=self._workers,
            agree=self._agree,
            strip=self._strip,
        )
