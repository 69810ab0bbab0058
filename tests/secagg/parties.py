"""All parties of one round, stage by stage, with every message in its encoded form.

The tests drive real clients and a real server through here, so that they can stop anywhere, change
bytes on their way, and look at what each party then is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from privagg import entropy, keys
from privagg.protocols import secagg
from privagg.protocols.secagg import messages, thresholds
from privagg.protocols.secagg.calibration import Units
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.states import SEQUENCES, SERVER_TABLE, ClientState, Phase

SEED = 7
"""Seed of every play that does not ask for another; seeded, so that twins can be compared."""

FREE = Units(**{field.name: 0.0 for field in fields(Units)})
"""Operations that take no time, for plans that are asked for bytes only."""

Alter = Callable[[int, bytes], bytes]
"""Client's index and encoded message to what arrives in its place."""


def lowest(clients, options):
    """Return the least cohort that parameters may have beside those corrupt clients."""
    return 2 + thresholds.corrupted(clients, options.get("corrupt", 0.0))


def complete(clients=5, dim=4, **options):
    """Return parameters of a complete graph that lets nearly everyone leave."""
    least = lowest(clients, options)
    options = {"corrupt": 0.0, "dropout": 0.0, "threshold": 2, "min_cohort": least} | options
    return secagg.Params.recommend(clients=clients, dim=dim, **options)


def sparse(clients=8, dim=4, **options):
    """Return parameters of a ring with few neighbours: its security bits are for tests only."""
    options = {
        "corrupt": 0.0,
        "dropout": 0.0,
        "threshold": 2,
        "neighbours": 4 if clients > 5 else 2,
        "min_cohort": lowest(clients, options),
        "sigma": 1,
        "eta": 1,
    } | options
    return secagg.Params.recommend(clients=clients, dim=dim, graph="sparse", **options)


def active(clients=5, dim=4, **options):
    """Return parameters against an active server, with the lowest threshold they allow."""
    options = {"threshold": clients // 2 + 1, "threat": "active"} | options
    return complete(clients, dim, **options)


def drawn(clients=8, dim=4, **options):
    """Return parameters against a semi-malicious server: the clients draw the ring."""
    k = options.get("neighbours", 4 if clients > 5 else 2)
    return sparse(clients, dim, **{"threshold": k // 2 + 1, "threat": "semi-malicious"} | options)


BOTH = {"complete": complete, "sparse": sparse}
"""The two graphs, in the semi-honest model."""

SIGNED = {"active": active, "semi-malicious": drawn}
"""The threat models with signatures."""

ALL = BOTH | SIGNED
"""Every kind of round."""


@lru_cache(maxsize=512)
def identity(index):
    """Return the identity of a client; the same in every test."""
    return keys.Identity(keys.digest(b"test identity", index.to_bytes(4, "little")))


@lru_cache(maxsize=64)
def pinned(clients):
    """Return the roster of so many clients."""
    return Roster(identity(index).public for index in range(clients))


def inputs(params, seed=11):
    """Return one vector per client, within what the parameters declare."""
    rng = np.random.default_rng(seed)
    shape = (params.clients, params.dim)
    encoding = params.encoding
    if encoding.clip is not None:
        return rng.uniform(-encoding.clip, encoding.clip, shape)
    low = -encoding.offset
    return rng.integers(low, low + encoding.levels + 1, shape)


METHODS = {
    messages.Start: "advertise_keys",
    messages.GraphRequest: "commit_graph",
    messages.GraphChallenge: "reveal_graph",
    messages.KeyRoster: "share_keys",
    messages.ShareBundle: "masked_input",
    messages.SurvivorSet: "unmasking",
    messages.SignatureSet: "unmasking",
}
"""A client's method for each message; where messages are signed, so are survivors, first."""


def respond(client, message, vector=None, weight=1, model=b""):
    """Call the client's method for a message of the server."""
    name = METHODS[type(message)]
    if isinstance(message, messages.ShareBundle):
        return client.masked_input(message, vector, weight=weight, model=model)
    if isinstance(message, messages.SurvivorSet) and client._params.signed:
        name = "consistency_check"
    return getattr(client, name)(message)


@dataclass
class Play:
    """One round; `leaves` says at which phase a client is gone, before its message."""

    params: secagg.Params
    vectors: object = None
    weights: object = None
    policy: secagg.Policy | None = None
    leaves: dict[int, Phase] | None = None
    seed: int = SEED
    session: bytes | None = None
    round_number: int = 0
    model: bytes = b""
    models: dict[int, bytes] | None = None

    def __post_init__(self):
        if self.vectors is None:
            self.vectors = inputs(self.params)
        self.source = entropy.from_seed(self.seed)
        self.roster = pinned(self.params.clients) if self.params.signed else None
        if self.policy is None and self.params.signed:
            self.policy = secagg.Policy.of(self.params, self.roster)
        self.server = secagg.Server(
            self.params,
            roster=self.roster,
            session=self.session,
            round_number=self.round_number,
            model=self.model,
            entropy=self.source.spawn("server"),
        )
        self.clients = [self.new_client(index) for index in range(self.params.clients)]
        self.down = {}
        self.up = {}

    def new_client(self, index, kind=secagg.Client):
        """Return a client in its first state, with the randomness of that index."""
        source = self.source.spawn(f"client/{index}")
        return kind(self.params, self.policy, identity=self.identity_of(index), entropy=source)

    def identity_of(self, index):
        """Return what a client signs with, if it signs."""
        return identity(index) if self.params.signed else None

    def load(self, index, state, source=None):
        """Return the client that a dumped state makes."""
        options = {} if source is None else {"entropy": source}
        return secagg.Client.load_state(
            state, self.params, self.policy, identity=self.identity_of(index), **options
        )

    @property
    def phase(self):
        return self.server.phase

    def present(self):
        """Return the clients that take part in the round being collected."""
        leaves = self.leaves or {}
        alive = map(int, self.server.alive())
        return [i for i in alive if leaves.get(i, Phase.DONE).value > self.phase.value]

    def ask(self, index):
        """Return the encoded message that the server has for a client now."""
        data = self.server.message_for(index).encode()
        self.down[self.phase, index] = data
        return data

    def answer(self, index, data, vector=None):
        """Let a client read `data` and return its encoded answer."""
        message = messages.decode(data, self.params, peer="server")
        weight = 1 if self.weights is None else self.weights[index]
        vector = self.vectors[index] if vector is None else vector
        model = (self.models or {}).get(index, self.model)
        reply = respond(self.clients[index], message, vector, weight, model).encode()
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


_REACHED = {
    Phase.ADVERTISE_KEYS: ClientState.ADVERTISED,
    Phase.COMMIT_GRAPH: ClientState.COMMITTED,
    Phase.REVEAL_GRAPH: ClientState.REVEALED,
    Phase.SHARE_KEYS: ClientState.SHARED,
    Phase.MASKED_INPUT: ClientState.MASKED,
    Phase.CONSISTENCY_CHECK: ClientState.CHECKED,
    Phase.UNMASKING: ClientState.UNMASKED,
}

_SPOKEN = {
    Phase.ADVERTISE_KEYS: messages.Start,
    Phase.COMMIT_GRAPH: messages.GraphRequest,
    Phase.REVEAL_GRAPH: messages.GraphChallenge,
    Phase.SHARE_KEYS: messages.KeyRoster,
    Phase.MASKED_INPUT: messages.ShareBundle,
    Phase.CONSISTENCY_CHECK: messages.SurvivorSet,
    Phase.UNMASKING: messages.SurvivorSet,
}


def phases(params):
    """Return the phases with messages, in order."""
    return SEQUENCES[params.threat]


def states(params):
    """Return the states that a client goes through, in order."""
    return [ClientState.IDLE, *(_REACHED[phase] for phase in phases(params))]


def spoken(params):
    """Return what the server says in each phase."""
    said = [_SPOKEN[phase] for phase in phases(params)]
    return [*said[:-1], messages.SignatureSet] if params.signed else said


def answered(params):
    """Return what a client says in each phase."""
    kinds = {phase: kind for kind, phase in SERVER_TABLE.items()}
    return [kinds[phase] for phase in phases(params)]


PLACES = [(name, state) for name, make in ALL.items() for state in states(make(6, 1))]
"""Every kind of round with every state on its way."""

PLACE_IDS = [f"{name}-{state.name}" for name, state in PLACES]


def play_to(state, params, **options):
    """Return a play in which every client is in `state`, the phase still being collected."""
    at = states(params).index(state)
    play = Play(params, **options).until(phases(params)[max(at - 1, 0)])
    if at:
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
        and not memory.opening
        and memory.reply is None
        and not any(len(array) for array in arrays)
        and not memory.own_shares.any()
    )
