"""All parties of one round, stage by stage, with every message in its encoded form.

The tests drive real clients and a real server through here, so that they can stop anywhere, change
bytes on their way, and look at what each party then is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from privagg import entropy
from privagg.protocols import secagg
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.calibration import Units
from privagg.protocols.secagg.states import ClientState, Phase

SEED = 7
"""Seed of every play that does not ask for another; seeded, so that twins can be compared."""

FREE = Units(**{field.name: 0.0 for field in fields(Units)})
"""Operations that take no time, for plans that are asked for bytes only."""

Alter = Callable[[int, bytes], bytes]
"""Client's index and encoded message to what arrives in its place."""


def complete(clients=5, dim=4, **options):
    """Return parameters of a complete graph that lets nearly everyone leave."""
    options = {"corrupt": 0.0, "dropout": 0.0, "threshold": 2, "min_cohort": 2} | options
    return secagg.Params.recommend(clients=clients, dim=dim, **options)


def sparse(clients=8, dim=4, **options):
    """Return parameters of a ring with few neighbours: its security bits are for tests only."""
    options = {
        "corrupt": 0.0,
        "dropout": 0.0,
        "threshold": 2,
        "neighbours": 4 if clients > 5 else 2,
        "min_cohort": 2,
        "sigma": 1,
        "eta": 1,
    } | options
    return secagg.Params.recommend(clients=clients, dim=dim, graph="sparse", **options)


BOTH = {"complete": complete, "sparse": sparse}


def inputs(params, seed=11):
    """Return one vector per client, within what the parameters declare."""
    rng = np.random.default_rng(seed)
    shape = (params.clients, params.dim)
    encoding = params.encoding
    if encoding.clip is not None:
        return rng.uniform(-encoding.clip, encoding.clip, shape)
    low = -encoding.offset
    return rng.integers(low, low + encoding.levels + 1, shape)


def respond(client, message, vector=None, weight=1):
    """Call the client's method for a message of the server."""
    if isinstance(message, messages.Start):
        return client.advertise_keys(message)
    if isinstance(message, messages.KeyRoster):
        return client.share_keys(message)
    if isinstance(message, messages.ShareBundle):
        return client.masked_input(message, vector, weight=weight)
    return client.unmasking(message)


@dataclass
class Play:
    """One round; `leaves` says before which round number (0 to 4) a client is gone."""

    params: secagg.Params
    vectors: object = None
    weights: object = None
    policy: secagg.Policy | None = None
    leaves: dict[int, int] | None = None
    seed: int = SEED
    session: bytes | None = None
    round_number: int = 0

    def __post_init__(self):
        if self.vectors is None:
            self.vectors = inputs(self.params)
        self.source = entropy.from_seed(self.seed)
        self.server = secagg.Server(
            self.params,
            session=self.session,
            round_number=self.round_number,
            entropy=self.source.spawn("server"),
        )
        self.clients = [self.new_client(index) for index in range(self.params.clients)]
        self.down = {}
        self.up = {}

    def new_client(self, index):
        """Return a client in its first state, with the randomness of that index."""
        source = self.source.spawn(f"client/{index}")
        return secagg.Client(self.params, self.policy, entropy=source)

    @property
    def phase(self):
        return self.server.phase

    def present(self):
        """Return the clients that take part in the round being collected."""
        leaves = self.leaves or {}
        alive = map(int, self.server.alive())
        return [index for index in alive if leaves.get(index, 5) > self.phase.value]

    def ask(self, index):
        """Return the encoded message that the server has for a client now."""
        starting = self.phase is Phase.ADVERTISE_KEYS
        message = self.server.start(index) if starting else self.server.message_for(index)
        data = message.encode()
        self.down[self.phase, index] = data
        return data

    def answer(self, index, data, vector=None):
        """Let a client read `data` and return its encoded answer."""
        message = messages.decode(data, self.params, peer="server")
        weight = 1 if self.weights is None else self.weights[index]
        vector = self.vectors[index] if vector is None else vector
        reply = respond(self.clients[index], message, vector, weight).encode()
        self.up[self.phase, index] = reply
        return reply

    def hand_in(self, index, data):
        """Let the server read a client's answer."""
        return self.server.receive(index, messages.decode(data, self.params, peer=index))

    def exchange(self, down: Alter | None = None, up: Alter | None = None):
        """Carry this round's messages both ways, without closing it."""
        for index in self.present():
            data = self.ask(index)
            answer = self.answer(index, data if down is None else down(index, data))
            self.hand_in(index, answer if up is None else up(index, answer))

    def step(self, down: Alter | None = None, up: Alter | None = None):
        """Carry this round's messages both ways and close it."""
        self.exchange(down, up)
        return self.server.close()

    def until(self, phase):
        """Play whole rounds until the server collects `phase`."""
        while self.phase is not phase:
            self.step()
        return self

    def finish(self):
        """Play to the end and return the aggregate."""
        return self.until(Phase.DONE).server.result()


STAGES = {
    ClientState.IDLE: (Phase.ADVERTISE_KEYS, False),
    ClientState.ADVERTISED: (Phase.ADVERTISE_KEYS, True),
    ClientState.SHARED: (Phase.SHARE_KEYS, True),
    ClientState.MASKED: (Phase.MASKED_INPUT, True),
    ClientState.UNMASKED: (Phase.UNMASKING, True),
}
"""The phase in which a client comes into a state, and whether it has answered by then."""


def play_to(state, params, **options):
    """Return a play in which every client is in `state`, the phase still being collected."""
    phase, answered = STAGES[state]
    play = Play(params, **options).until(phase)
    if answered:
        play.exchange()
    return play


def due(play, index=0):
    """Return the decoded message that the server has for a client now."""
    return messages.decode(play.ask(index), play.params, peer="server")


def is_empty_handed(client):
    """Say whether a client has given up and remembers no secret."""
    memory = client._memory
    secrets = (memory.context, memory.cipher_seed, memory.mask_seed, memory.self_seed)
    arrays = (memory.members, memory.mask_keys, memory.inward, memory.held, memory.holders)
    return (
        client.state is ClientState.ABORTED
        and not any(secrets)
        and memory.reply is None
        and not any(len(array) for array in arrays)
        and not memory.own_shares.any()
    )
