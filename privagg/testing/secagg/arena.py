"""All parties of one round, message by message, with somebody lying.

One client is the *victim*: in :func:`~privagg.testing.secagg.check_client` it is the one under
test, and everyone else, the server included, is the package's own. Some of the others are
*colluders*, whose identities the server may use. Every message is encoded and decoded on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg.entropy import Entropy
from privagg.errors import PeerError, PrivaggError
from privagg.protocols.secagg import (
    Client,
    Phase,
    Policy,
    Receipt,
    derivations,
)
from privagg.protocols.secagg import messages as layouts
from privagg.protocols.secagg.inputs import Inputs
from privagg.protocols.secagg.messages import Message
from privagg.protocols.secagg.result import Truth
from privagg.testing.secagg.behaviour import Cohort
from privagg.testing.secagg.setting import MODEL, SESSION, Setting, identities_of, inputs_of

__all__ = ["Accused", "Arena", "Caught", "Inapplicable", "Missed"]

Tamper = Callable[[Phase, int, Message], Iterable[Message | bytes]]
"""What a lying client sends in place of its honest answer."""


class Caught(Exception):
    """The victim refused a lie."""

    def __init__(self, error: Exception, round: str) -> None:
        super().__init__(str(error))
        self.error, self.round = error, round


class Accused(Exception):
    """The victim refused something honest."""

    def __init__(self, error: Exception, round: str) -> None:
        super().__init__(str(error))
        self.error, self.round = error, round


class Missed(Exception):
    """The victim answered a lie."""

    def __init__(self, reply: object, round: str) -> None:
        super().__init__(f"answered with {type(reply).__name__}")
        self.round = round


class Inapplicable(Exception):
    """With these parameters, or this draw of the graph, there is no such lie."""


@dataclass
class Arena:
    """One round being played; see the module.

    Attributes
    ----------
    setting : Setting
        What it was made from.
    victim : int
        The client under test, or that is lied to.
    colluders : tuple of int
        Clients on the liar's side: as many as the parameters' ``corrupt``, but at least two.
    liars : set of int
        Colluders that lie to the server, in the behaviours of clients.
    said : list of Message
        What the victim answered.
    refusals : list of PeerError
        What the server refused.
    """

    setting: Setting
    round_number: int = 7
    victim: int = field(init=False)
    colluders: tuple[int, ...] = field(init=False)
    liars: set[int] = field(default_factory=set)
    said: list[Message] = field(default_factory=list)
    lied: list[tuple[Message | bytes, str]] = field(default_factory=list)
    honest: Message | None = None
    refusals: list[PeerError] = field(default_factory=list)
    ignored: list[Receipt] = field(default_factory=list)
    ended: PrivaggError | None = None

    def __post_init__(self) -> None:
        params = self.params = self.setting.params
        if params.clients < 5:
            raise Inapplicable(f"{params.clients} clients; 5 are needed")
        self.victim = params.clients // 2
        count = min(max(2, params.corrupt), params.clients - 3)
        others = [index for index in range(params.clients) if index != self.victim]
        # The first is among the t holders whose shares a server looks at before all others.
        self.colluders = (others[0], *others[len(others) - count + 1 :])
        self._source = entropies.from_seed(self.setting.seed).spawn(f"round/{self.round_number}")
        self.identities, self.roster = identities_of(self.setting)
        self.inputs = Inputs(params, *inputs_of(self.setting))
        self.models = dict.fromkeys(range(params.clients), MODEL)
        self.gone: set[int] = set()
        self.suppressed: set[int] = set()
        self._in: dict[int, tuple[NDArray[Any], int]] = {}
        self.server: Any = self.setting.make_server(
            params,
            roster=self.roster,
            session=SESSION,
            round_number=self.round_number,
            model=MODEL,
            entropy=self._source.spawn("server"),
        )
        self.clients: dict[int, Any] = {}
        self.rosters: dict[int, layouts.KeyRoster] = {}

    # The parties.

    @property
    def policy(self) -> Policy:
        """What the victim insists on."""
        floor = {
            Cohort.OF_PARAMS: self.params.min_cohort,
            Cohort.ALL: self.params.clients,
            Cohort.TWO: self.params.corrupt + 2,
        }[self.setting.cohort]
        return Policy(min_cohort=floor, max_corrupt=self.params.corrupt, roster=self.roster)

    def make(self, index: int, policy: Policy | None = None) -> Any:
        """Make a client as the setting says: the victim's kind."""
        return self.setting.make_client(
            self.params,
            policy or self.policy,
            identity=self.identities[index] if self.params.signed else None,
            entropy=self._source.spawn(f"client/{index}"),
        )

    def client(self, index: int) -> Any:
        """Return a client: the one under test, or the package's own."""
        if index not in self.clients:
            if index == self.victim:
                self.clients[index] = self.make(index)
            else:
                self.clients[index] = Client(
                    self.params,
                    Policy.of(self.params, self.roster),
                    identity=self.identities[index] if self.params.signed else None,
                    entropy=self._source.spawn(f"client/{index}"),
                )
        return self.clients[index]

    def everyone_is_under_test(self) -> None:
        """Let all clients be of the victim's kind."""
        for index in range(self.params.clients):
            self.clients[index] = self.make(index)

    def source(self, label: str) -> Entropy:
        """Return randomness for the liars."""
        return self._source.spawn(label)

    @property
    def context(self) -> bytes:
        """What every derivation and signature of the round is bound to."""
        pinned = b"" if self.roster is None else self.roster.digest()
        return derivations.context(self.params, SESSION, self.round_number, pinned)

    def last_round(self) -> Arena:
        """Return the round before, of the same session and identities; it is to be played."""
        return Arena(self.setting, self.round_number - 1)

    # Honest play.

    @property
    def phase(self) -> Phase:
        """The round being collected."""
        found: Phase = self.server.phase
        return found

    def present(self) -> list[int]:
        """Return who takes part in the round being collected."""
        return [index for index in map(int, self.server.alive()) if index not in self.gone]

    def until(self, phase: Phase) -> None:
        """Play whole rounds, honestly, until the server collects `phase`."""
        while self.phase is not phase:
            self.step()

    def step(self) -> None:
        """Play one round honestly."""
        for index in self.present():
            self.exchange(index)
        self.server.close()

    def exchange(self, index: int) -> Message:
        """Carry one client's messages of this round both ways, honestly."""
        message = self.ask(index)
        reply = self.say(message) if index == self.victim else self.reply(index, message)
        self.server.receive(index, self._arriving(index, reply))
        return reply

    def ask(self, index: int) -> Message:
        """Return what the server has for a client now."""
        message: Message = self.server.message_for(index)
        message = layouts.decode(message.encode(), self.params, peer="server")
        if isinstance(message, layouts.KeyRoster):
            self.rosters[index] = message
        if index == self.victim:
            self.honest = message
        return message

    def due(self) -> Any:
        """Return the honest message that the victim is to get now: what a lie starts from."""
        return self.ask(self.victim)

    def reply(self, index: int, message: Message, *, method: str = "") -> Message:
        """Let a client answer a decoded message."""
        client = self.client(index)
        name = method or _METHODS[type(message)]
        if isinstance(message, layouts.SurvivorSet) and not method:
            name = "consistency_check" if self.params.signed else "unmasking"
        if name != "masked_input":
            answer: Message = getattr(client, name)(message)
            return answer
        vector, weight = self.inputs.vector(index), self.inputs.weight(index)
        if index in self.suppressed:
            vector = np.zeros_like(vector)
        answer = client.masked_input(message, vector, weight=weight, model=self.models[index])
        self._in[index] = vector, weight
        return answer

    def say(self, message: Message) -> Message:
        """Give the victim something honest."""
        try:
            return self._heard(self.setting.decode(message.encode(), self.params), "")
        except Exception as error:
            raise Accused(error, self.round_of(message)) from error

    # Lies to the victim.

    def deliver(self, lie: Message | bytes, *, method: str = "") -> Message:
        """Give the victim a lie, and return what it answers.

        Raises
        ------
        Caught
            If it does not answer.
        """
        self.lied.append((lie, method))
        try:
            data = lie if isinstance(lie, bytes) else lie.encode()
            return self._heard(self.setting.decode(data, self.params), method)
        except Exception as error:
            raise Caught(error, self.round_of(lie, method)) from error

    def lie_by_policy(self, policy: Policy) -> None:
        """Invite a client whose own policy the round does not meet.

        Raises
        ------
        Caught
            If there is no such client.
        """
        try:
            self.make(self.victim, policy)
        except Exception as error:
            raise Caught(error, "advertise-keys") from error

    def must_refuse(self, lie: Message | bytes, *, method: str = "") -> Caught:
        """Give the victim one of several lies, and return how it was caught."""
        try:
            reply = self.deliver(lie, method=method)
        except Caught as caught:
            return caught
        raise Missed(reply, self.round_of(lie, method))

    def round_of(self, message: Message | bytes, method: str = "") -> str:
        """Return the round that a message to the victim belongs to."""
        if isinstance(message, bytes):
            return self.phase.title
        if isinstance(message, layouts.SurvivorSet) and self.params.signed and not method:
            return "consistency-check"
        return message.round

    @property
    def released(self) -> int:
        """Shares that the victim gave out, in all its different answers to unmasking."""
        answers = {m.encode(): m for m in self.said if isinstance(m, layouts.UnmaskShares)}
        return sum(len(answer.shares) for answer in answers.values())

    def _heard(self, message: Message, method: str) -> Message:
        reply = self.reply(self.victim, message, method=method)
        self.said.append(reply)
        return reply

    # Lies to the server.

    def play(self, tamper: Tamper) -> None:
        """Play to the end with the `liars` sending what `tamper` makes of their answers."""
        try:
            while self.phase is not Phase.DONE:
                phase = self.phase
                for index in self.present():
                    for message in self._sent(phase, index, tamper):
                        self.hand_in_as(index, message)
                self.server.close()
        except PrivaggError as error:
            self.ended = error

    def _sent(self, phase: Phase, index: int, tamper: Tamper) -> Iterable[Message | bytes]:
        if index not in self.liars:
            return [self.reply(index, self.ask(index))]
        try:
            reply = self.reply(index, self.ask(index))
        except PrivaggError:  # the others' messages do not fit its lie: it can only leave
            self.gone.add(index)
            return []
        return tamper(phase, index, reply)

    def hand_in_as(self, index: int, message: Message | bytes) -> None:
        """Give the server a message, and note if it refuses or ignores it."""
        try:
            receipt = self.server.receive(index, self._arriving(index, message))
        except PeerError as error:
            self.refusals.append(error)
        else:
            if receipt is not Receipt.ACCEPTED:
                self.ignored.append(receipt)

    def _arriving(self, index: int, message: Message | bytes) -> Message:
        data = message if isinstance(message, bytes) else message.encode()
        return layouts.decode(data, self.params, peer=index)

    # What came of it.

    def sum_is_right(self) -> bool:
        """Whether the server's sum is that of what the survivors put in."""
        aggregate = self.server.result()
        truth = Truth(self.params)
        for index in self.server.survivors()["masked-input"]:
            truth.add(*self._in[index], clipped=0)
        encoding = self.params.encoding
        slack = 0.0
        if encoding.clip is not None:
            slack = 1e-9 * encoding.clip * encoding.max_weight * aggregate.count
        error = float(np.abs(aggregate.total - truth.total).max())
        bound = encoding.rounding_bound(aggregate.count) + slack
        return error <= bound and int(aggregate.weight_total) == truth.weight

    def peer_of_victim(self, roster: layouts.KeyRoster, among: Sequence[int] | None = None) -> int:
        """Return the position in the victim's roster of a peer, of the colluders by default."""
        wanted = self.colluders if among is None else among
        for place, member in enumerate(map(int, roster.members)):
            if member != self.victim and member in wanted:
                return place
        raise Inapplicable("none of them is a neighbour of the victim")

    @property
    def bystanders(self) -> tuple[int, ...]:
        """The honest clients but for the victim."""
        sides = {self.victim, *self.colluders}
        return tuple(index for index in range(self.params.clients) if index not in sides)


_METHODS: dict[type[Message], str] = {
    layouts.Start: "advertise_keys",
    layouts.GraphRequest: "commit_graph",
    layouts.GraphChallenge: "reveal_graph",
    layouts.KeyRoster: "share_keys",
    layouts.ShareBundle: "masked_input",
    layouts.SignatureSet: "unmasking",
    layouts.SurvivorSet: "unmasking",
}
