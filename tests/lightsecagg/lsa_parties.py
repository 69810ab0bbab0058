"""All parties of one LightSecAgg round, stage by stage, with every message in its encoded form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privagg import entropy, field, keys
from privagg.protocols import lightsecagg as lsa
from privagg.protocols.lightsecagg import messages
from privagg.protocols.lightsecagg.states import SEQUENCES, Phase

SEED = 7


def honest(clients=5, dim=4, **options):
    """Return parameters against semi-honest parties that let nearly everyone leave."""
    options = {"corrupt": 0.0, "dropout": 0.0, "threshold": 2, "min_cohort": 2} | options
    return lsa.Params.recommend(clients=clients, dim=dim, **options)


def active(clients=5, dim=4, **options):
    """Return parameters against an active server, with the lowest threshold they allow."""
    options = {"threshold": (clients + 1) // 2 + 1, "threat": "active"} | options
    return honest(clients, dim, **options)


ALL = {"semi-honest": honest, "active": active}


@lru_cache(maxsize=512)
def identity(index):
    return keys.Identity(keys.digest(b"test identity", index.to_bytes(4, "little")))


@lru_cache(maxsize=64)
def pinned(clients):
    return lsa.Roster(identity(index).public for index in range(clients))


def inputs(params, seed=11):
    rng = np.random.default_rng(seed)
    shape, encoding = (params.clients, params.dim), params.encoding
    if encoding.clip is not None:
        return rng.uniform(-encoding.clip, encoding.clip, shape)
    return rng.integers(-encoding.offset, encoding.levels - encoding.offset + 1, shape)


METHODS = {
    messages.Start: "advertise_keys",
    messages.KeyRoster: "share_masks",
    messages.ShareBundle: "masked_input",
    messages.SurvivorSet: "unmasking",
    messages.SignatureSet: "unmasking",
}


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

    params: lsa.Params
    leaves: dict[int, Phase] | None = None
    seed: int = SEED
    session: bytes | None = None
    round_number: int = 0
    model: bytes = b""
    models: dict[int, bytes] | None = None
    policy: lsa.Policy | None = None

    def __post_init__(self):
        params = self.params
        self.vectors = inputs(params)
        self.source = entropy.from_seed(self.seed)
        self.roster = pinned(params.clients) if params.signed else None
        self.policy = self.policy or lsa.policy_of(params, self.roster)
        self.server = lsa.Server(
            params,
            roster=self.roster,
            session=self.session,
            round_number=self.round_number,
            model=self.model,
            entropy=self.source.spawn("server"),
        )
        self.clients = {i: self.client(i) for i in range(params.clients)}
        self.down, self.up = {}, {}

    def client(self, index, **changes):
        options = {
            "identity": identity(index) if self.params.signed else None,
            "entropy": self.source.spawn(f"client/{index}"),
        }
        return lsa.Client(self.params, self.policy, **options | changes)

    def staying(self):
        gone = {i for i, at in (self.leaves or {}).items() if at.value <= self.server.phase.value}
        return [i for i in map(int, self.server.alive()) if i not in gone]

    def say(self, index):
        """Return the server's message to a client, as bytes."""
        phase = self.server.phase
        self.down[phase, index] = data = self.server.message_for(index).encode()
        return data

    def answer(self, index, data):
        message = messages.decode(data, self.params, peer="server")
        model = (self.models or {}).get(index, self.model)
        return respond(self.clients[index], message, self.vectors[index], model=model).encode()

    def deliver(self, index, data):
        return self.server.receive(index, messages.decode(data, self.params, peer=index))

    def collect(self, alter=None):
        """Carry one round's messages; `alter` (index, bytes) changes answers on their way."""
        for index in self.staying():
            reply = self.answer(index, self.say(index))
            self.up[self.server.phase, index] = reply
            self.deliver(index, alter(index, reply) if alter else reply)

    def until(self, phase):
        while self.server.phase is not phase:
            self.collect()
            self.server.close()
        return self

    def finish(self):
        return self.until(Phase.DONE).server.result()

    def due(self, index):
        """Return the server's decoded message to a client in the round being collected."""
        return messages.decode(self.say(index), self.params, peer="server")

    def plain_sum(self):
        return self.vectors[list(self.server.survivors()["masked-input"])].sum(axis=0)


def phases(params):
    return SEQUENCES[params.threat]


def plus_one(params, reply):
    """Return a coded sum with one element changed."""
    message = messages.CodedSum.decode(reply, params, peer=0)
    elements = message.elements.copy()
    elements[:1] = field.add(elements[:1], np.ones(1, params.word), params.field)
    return messages.CodedSum(tag=message.tag, bits=message.bits, elements=elements).encode()
