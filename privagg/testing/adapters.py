"""Our protocols as the kit plays them; each is also an example of how to write one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols import additive, lightsecagg, secagg
from privagg.protocols.lightsecagg import messages as lightsecagg_messages
from privagg.protocols.lightsecagg.states import SEQUENCES as LIGHTSECAGG_SEQUENCES
from privagg.protocols.secagg import messages as secagg_messages
from privagg.protocols.secagg.states import SEQUENCES as SECAGG_SEQUENCES
from privagg.testing.protocol_contract import Envelope, Party, Protocol, Run, Sum

__all__ = ["Additive", "LightSecAgg", "SecAgg"]

_SERVER = "server"
_LEADER = "leader"


class _ClientServer(Protocol):
    """Clients and one server, who opens each round and closes it."""

    kit: Any
    messages: Any
    methods: dict[type[Any], str]
    public_fields = ("session", "cipher_key", "mask_key", "members")

    def __init__(self, params: Any, vectors: Any, rounds: Iterable[Any]) -> None:
        self.params = params
        self.vectors = np.asarray(vectors)
        if len(self.vectors) != params.clients:
            raise UsageError("vectors", f"{len(self.vectors)} rows", f"{params.clients} rows")
        self.rounds = tuple(phase.title for phase in rounds)
        self.clients = tuple(range(params.clients))
        self.identities = [
            keys.Identity(keys.digest(b"conformance", index.to_bytes(4, "little")))
            for index in self.clients
        ]

    @property
    def roster(self) -> Any:
        """What clients are verified by, where messages are signed."""
        if not self.params.signed:
            return None
        return self.kit.Roster(one.public for one in self.identities)

    @abstractmethod
    def policy(self) -> Any:
        """Return what clients insist on."""

    def start(self, entropy: Entropy) -> Run:
        """Return a run of these parameters."""
        return _Rounds(self, entropy)

    def decode(self, envelope: Envelope) -> Any:
        """Decode any message of the protocol."""
        return self.messages.decode(envelope.data, self.params, peer=envelope.sender)

    def expected(self, contributors: tuple[int, ...]) -> NDArray[Any]:
        """Return the plain sum."""
        return np.asarray(self.vectors[list(contributors)].sum(axis=0))

    def simulated(self, seed: int | None) -> bool | None:
        """Return whether the driver's result says insecure."""
        return bool(self.kit.run(self.params, self.vectors, seed=seed).insecure_seed)


class _Rounds(Run):
    def __init__(self, protocol: _ClientServer, entropy: Entropy) -> None:
        self._protocol, self._opened = protocol, False
        self._options: dict[Party, dict[str, Any]] = {}
        params, policy = protocol.params, protocol.policy()
        self.parties: dict[Party, Any] = {
            _SERVER: protocol.kit.Server(
                params, roster=protocol.roster, entropy=entropy.spawn(_SERVER)
            )
        }
        for index in protocol.clients:
            identity = protocol.identities[index] if params.signed else None
            source = entropy.spawn(f"client/{index}")
            self._options[index] = {"identity": identity, "entropy": source}
            self.parties[index] = protocol.kit.Client(params, policy, **self._options[index])

    def due(self) -> list[Envelope]:
        server = self.parties[_SERVER]
        if self._opened:
            server.close()
        self._opened = True
        name = server.phase.title
        if name not in self._protocol.rounds:
            return []
        return [
            Envelope(_SERVER, index, name, server.message_for(index).encode())
            for index in map(int, server.alive())
        ]

    def handle(self, envelope: Envelope) -> list[Envelope]:
        message = self._protocol.decode(envelope)
        party = self.parties[envelope.receiver]
        if envelope.receiver == _SERVER:
            party.receive(envelope.sender, message)
            return []
        name = self._protocol.methods[type(message)]
        if name == "unmasking" and self._signs_first(message):
            name = "consistency_check"
        extra = [self._protocol.vectors[envelope.receiver]] if name == "masked_input" else []
        reply = getattr(party, name)(message, *extra)
        return [Envelope(envelope.receiver, _SERVER, envelope.round, reply.encode())]

    def _signs_first(self, message: Any) -> bool:
        return self._protocol.params.signed and isinstance(
            message, self._protocol.messages.SurvivorSet
        )

    def result(self) -> Sum:
        server = self.parties[_SERVER]
        found = server.survivors()["masked-input"]
        total = np.asarray(server.result().total)
        return Sum(tuple(map(int, found)), total)

    def reload(self, party: Party) -> None:
        if party != _SERVER:
            protocol = self._protocol
            self.parties[party] = protocol.kit.Client.load_state(
                self.parties[party].dump_state(),
                protocol.params,
                protocol.policy(),
                **self._options[party],
            )


class SecAgg(_ClientServer):
    """:mod:`privagg.protocols.secagg` of any threat model, with its kit of lies.

    Parameters
    ----------
    params : privagg.protocols.secagg.Params
        The round.
    vectors : (n, dim) array
        The clients' inputs, integers.
    behaviours : sequence of str
        The lies that are told: names in :data:`privagg.testing.secagg.BEHAVIOURS`. None unless
        given; ``check_client`` and ``check_server`` tell all.
    """

    kit = secagg
    messages = secagg_messages
    methods = {  # noqa: RUF012 - a constant of the class
        secagg_messages.Start: "advertise_keys",
        secagg_messages.GraphRequest: "commit_graph",
        secagg_messages.GraphChallenge: "reveal_graph",
        secagg_messages.KeyRoster: "share_keys",
        secagg_messages.ShareBundle: "masked_input",
        secagg_messages.SurvivorSet: "unmasking",
        secagg_messages.SignatureSet: "unmasking",
    }

    def __init__(self, params: secagg.Params, vectors: Any, behaviours: Sequence[str] = ()) -> None:
        super().__init__(params, vectors, SECAGG_SEQUENCES[params.threat])
        self.name = f"secagg, {params.threat.value}, {params.graph.value} graph"
        self._behaviours = tuple(behaviours)

    def policy(self) -> Any:
        """Return the policy of the parameters themselves."""
        return secagg.Policy.of(self.params, self.roster)

    def lies(self) -> Iterable[tuple[str, bool, str]]:
        """Yield what became of each lie."""
        from privagg.testing.secagg import BEHAVIOURS, check_client, check_server

        for name in self._behaviours:
            check = check_client if BEHAVIOURS[name].of_server else check_server
            for finding in check(threat=self.params.threat, behaviours=[name]).findings:
                yield name, finding.passed, str(finding)


class LightSecAgg(_ClientServer):
    """:mod:`privagg.protocols.lightsecagg` of either threat model.

    Parameters
    ----------
    params : privagg.protocols.lightsecagg.Params
        The round.
    vectors : (n, dim) array
        The clients' inputs, integers.
    """

    kit = lightsecagg
    messages = lightsecagg_messages
    methods = {  # noqa: RUF012 - a constant of the class
        lightsecagg_messages.Start: "advertise_keys",
        lightsecagg_messages.KeyRoster: "share_masks",
        lightsecagg_messages.ShareBundle: "masked_input",
        lightsecagg_messages.SurvivorSet: "unmasking",
        lightsecagg_messages.SignatureSet: "unmasking",
    }

    def __init__(self, params: lightsecagg.Params, vectors: Any) -> None:
        super().__init__(params, vectors, LIGHTSECAGG_SEQUENCES[params.threat])
        self.name = f"lightsecagg, {params.threat.value}"

    def policy(self) -> Any:
        """Return the policy of the parameters themselves."""
        return lightsecagg.policy_of(self.params, self.roster)


class Additive(Protocol):
    """:mod:`privagg.protocols.additive`.

    Parameters
    ----------
    params : privagg.protocols.additive.Params
        What all have agreed on.
    vectors : (n, dim) array
        The clients' inputs.

    Attributes
    ----------
    client, helper, leader : type
        The parties under test; a subclass may name others.
    """

    name = "additive"
    rounds = additive.ROUNDS
    client: type[Any] = additive.Client
    helper: type[Any] = additive.Helper
    leader: type[Any] = additive.Leader

    def __init__(self, params: additive.Params, vectors: Any) -> None:
        self.params, self.vectors = params, np.asarray(vectors)
        if len(self.vectors) != params.clients:
            raise UsageError("vectors", f"{len(self.vectors)} rows", f"{params.clients} rows")
        self.clients = tuple(range(params.clients))

    def start(self, entropy: Entropy) -> Run:
        """Return a run of these parameters, in a session of its own."""
        return _AdditiveRun(self, entropy)

    def decode(self, envelope: Envelope) -> Any:
        """Decode any message of the protocol."""
        return additive.decode(envelope.data, self.params, peer=envelope.sender)

    def expected(self, contributors: tuple[int, ...]) -> NDArray[Any]:
        """Return the plain sum."""
        return np.asarray(self.vectors[list(contributors)].sum(axis=0), np.uint64)

    def simulated(self, seed: int | None) -> bool | None:
        """Return whether the driver's result says insecure."""
        return additive.run(self.params, self.vectors, seed=seed).insecure


class _AdditiveRun(Run):
    def __init__(self, protocol: Additive, entropy: Entropy) -> None:
        self._protocol = protocol
        params, self._session = protocol.params, entropy.take(additive.SESSION_BYTES)
        self._helpers = [f"helper {at}" for at in range(params.helpers)]
        self.parties: dict[Party, Any] = {_LEADER: protocol.leader(params, self._session)}
        for name in self._helpers:
            self.parties[name] = protocol.helper(params, self._session)
        for index in protocol.clients:
            source = entropy.spawn(f"client/{index}")
            self.parties[index] = protocol.client(params, self._session, index, entropy=source)
        self._openings = iter((self._seeds, self._holders, self._asked, self._cohort))

    def due(self) -> list[Envelope]:
        opening = next(self._openings, None)
        return [] if opening is None else opening()

    def _seeds(self) -> list[Envelope]:
        return [
            Envelope(index, helper, "share-seeds", share.encode())
            for index in self._protocol.clients
            for helper, share in zip(self._helpers, self.parties[index].share_seeds(), strict=True)
        ]

    def _holders(self) -> list[Envelope]:
        return [
            Envelope(name, _LEADER, "share-seeds", self.parties[name].holders().encode())
            for name in self._helpers
        ]

    def _asked(self) -> list[Envelope]:
        message = self.parties[_LEADER].ask_inputs()
        members = np.flatnonzero(message.members).tolist()
        return [Envelope(_LEADER, who, "masked-input", message.encode()) for who in members]

    def _cohort(self) -> list[Envelope]:
        data = self.parties[_LEADER].ask_masks().encode()
        return [Envelope(_LEADER, name, "sum-masks", data) for name in self._helpers]

    def handle(self, envelope: Envelope) -> list[Envelope]:
        message = self._protocol.decode(envelope)
        to, party = envelope.receiver, self.parties[envelope.receiver]
        if isinstance(to, int):
            reply = party.masked_input(message, self._protocol.vectors[to])
        elif to == _LEADER:
            party.receive(self._number(envelope.sender), message)
            return []
        elif isinstance(message, additive.Cohort):
            reply = party.sum_masks(message)
        else:
            party.receive(envelope.sender, message)
            return []
        return [Envelope(to, _LEADER, envelope.round, reply.encode())]

    def _number(self, name: Party) -> int:
        return name if isinstance(name, int) else self._helpers.index(name)

    def result(self) -> Sum:
        leader = self.parties[_LEADER]
        return Sum(leader.cohort(), leader.result())

    def reload(self, party: Party) -> None:
        if isinstance(party, int):
            protocol, data = self._protocol, self.parties[party].dump_state()
            self.parties[party] = protocol.client.load_state(data, protocol.params, self._session)
