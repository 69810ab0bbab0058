"""A cluster of sensors as the kit plays it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.entropy import Entropy
from privagg.errors import Abort, UsageError
from privagg.protocols import sensor
from privagg.protocols.sensor import MemberState, messages
from privagg.protocols.sensor.states import Mode, mode
from privagg.testing.protocol_contract import Envelope, Party, Protocol, Run, Sum

__all__ = ["SensorCluster"]

_KINDS: dict[str, type[messages.Message]] = {
    "roster": messages.Roster,
    "shares": messages.Shares,
    "received": messages.Received,
    "senders": messages.SenderSet,
    "echo": messages.Echo,
    "answer": messages.Answer,
}
_EPOCH = 1
_KEY_BYTES = 16


class SensorCluster(Protocol):
    """One epoch of one cluster under ``cpda-field`` or ``mask-cluster``; the first node leads.

    The leader collects lists and answers as the radio brings them, also before it has all shares.

    Parameters
    ----------
    params : privagg.protocols.sensor.Params
        Of a sound protocol.
    readings : mapping of int to int
        Node to what it adds; the first one is the leader.
    """

    public_fields = ("items", "sealed")  # ciphertexts and tags

    def __init__(self, params: sensor.Params, readings: Mapping[int, int]) -> None:
        if list(readings) != sorted(readings) or len(readings) < 2:
            raise UsageError("readings", f"{len(readings)} nodes", "at least two, in their order")
        self.params, self.readings = params, dict(readings)
        self.clients = tuple(readings)
        kinds = {
            "mask-cluster": ("roster", "answer"),
            "cpda-field": ("roster", "shares", "answer"),
        }
        rounds = kinds[params.protocol.value]
        if params.drops:
            rounds = ("roster", "shares", "received", "senders", "echo", "answer")
        self.rounds = rounds
        self.asynchronous = self.clients[:1]  # a leader takes what the radio brings
        drops = f", {params.drops} may drop" if params.drops else ""
        self.name = f"sensor {params.protocol.value}{drops}"

    def start(self, entropy: Entropy) -> Run:
        """Return an epoch of new nodes, with keys of their own."""
        return _Epoch(self, entropy)

    def decode(self, envelope: Envelope) -> Any:
        """Decode the message of a round."""
        kind, sender = _KINDS[envelope.round], envelope.sender
        members = 0 if kind is messages.Roster else len(self.clients)
        peer = sender if isinstance(sender, int) else 0
        return kind.decode(envelope.data, self.params, peer=peer, members=members)

    def expected(self, contributors: tuple[int, ...]) -> NDArray[Any]:
        """Return the plain sum."""
        return np.array([sum(self.readings[node] for node in contributors)])


class _Epoch(Run):
    def __init__(self, protocol: SensorCluster, entropy: Entropy) -> None:
        self._protocol = protocol
        nodes, params = protocol.clients, protocol.params
        self._head, links = nodes[0], entropy.spawn("links")
        held: dict[int, dict[int, bytes]] = {node: {} for node in nodes}
        for a, b in combinations(nodes, 2):
            held[a][b] = held[b][a] = links.take(_KEY_BYTES)
        self.parties: dict[Party, Any] = {}
        for node in nodes:
            kind = sensor.Leader if node == self._head else sensor.Member
            keyring = sensor.PreloadedKeys(node, held[node])
            self.parties[node] = kind(params, keyring, entropy=entropy.spawn(f"node/{node}"))
            self.parties[node].begin_reports(_EPOCH)
        stages = [self._rosters, self._leaders_shares]
        if params.drops:
            stages += [self._received, self._senders]
        self._stages = iter([*stages, self._answers])

    def due(self) -> list[Envelope]:
        while (stage := next(self._stages, None)) is not None:
            if said := stage():
                return said
        return []

    def handle(self, envelope: Envelope) -> list[Envelope]:
        message, node, sender = self._protocol.decode(envelope), envelope.receiver, envelope.sender
        party = self.parties[node]
        match message:
            case messages.Roster():
                return self._to_all(node, "shares", self._share(node, message, sender))
            case messages.Shares():
                party.receive(message, sender)
            case messages.Received():
                party.note_received(message, sender)
            case messages.SenderSet():
                return self._to_all(node, "echo", party.confirm(message))
            case messages.Echo():
                party.hear_echo(message, sender)
            case messages.Answer():
                party.collect(message, sender)
        return []

    def result(self) -> Sum:
        sums, count = self.parties[self._head].conclude()
        contributors = self._protocol.clients
        if self._protocol.params.drops:
            chosen = zip(contributors, self.parties[self._head]._senders, strict=True)
            contributors = tuple(node for node, there in chosen if there)
        if count != len(contributors):
            raise UsageError("count", count, f"{len(contributors)} contributors")
        return Sum(contributors, np.array(sums))

    def _share(self, node: Party, roster: Any, leader: Party) -> Any:
        readings = self._protocol.readings
        return self.parties[node].share(roster, [readings[int(node)]], leader)

    def _to_all(self, node: Party, name: str, message: Any) -> list[Envelope]:
        if message is None:  # masks need no shares
            return []
        data, others = message.encode(), [one for one in self._protocol.clients if one != node]
        return [Envelope(node, other, name, data) for other in others]

    def _members(self) -> list[int]:
        """Return who takes part, but for the leader."""
        return [
            node
            for node in self._protocol.clients[1:]
            if self.parties[node].state is not MemberState.IDLE
        ]

    def _rosters(self) -> list[Envelope]:
        members = self._protocol.clients
        roster = messages.Roster(epoch=_EPOCH, members=members, id_size=2)
        self._leaders = self._share(self._head, roster, self._head)
        return self._to_all(self._head, "roster", roster)

    def _leaders_shares(self) -> list[Envelope]:
        return self._to_all(self._head, "shares", self._leaders)

    def _received(self) -> list[Envelope]:
        return [
            Envelope(node, self._head, "received", self.parties[node].received().encode())
            for node in self._members()
        ]

    def _senders(self) -> list[Envelope]:
        leader = self.parties[self._head]
        chosen = leader.choose_senders()
        told = self._to_all(self._head, "senders", chosen)
        return [*told, *self._to_all(self._head, "echo", leader.confirm(chosen))]

    def _answers(self) -> list[Envelope]:
        said = []
        agreed = {
            Mode.FULL: MemberState.SHARED,
            Mode.THRESHOLD: MemberState.ECHOED,
            Mode.MASKED: MemberState.MASKED,
        }[mode(self._protocol.params)]
        for node in self._members():
            if self.parties[node].state is not agreed:
                continue
            try:
                said.append((node, self.parties[node].answer()))
            except Abort:  # it lacks what it would have to add up
                continue
        return [Envelope(node, self._head, "answer", one.encode()) for node, one in said]
