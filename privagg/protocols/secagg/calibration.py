"""Unit costs of this machine, measured in about a second, and how they add up to a round.

The model: a client pays per peer (two key agreements, key derivation, encryption and decryption),
per peer and coordinate (the mask stream), per coordinate (encoding and packing) and per share; the
server pays per edge for relaying, per client that left for rebuilding its masks, and per coordinate
for each mask it takes off. CPU seconds, single thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from privagg import keys, prg, sharing
from privagg.entropy import OS
from privagg.protocols.secagg import derivations, layout, messages
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.server import Server
from privagg.protocols.secagg.states import Phase
from privagg.protocols.secagg.thresholds import Graph, Threat

__all__ = ["Units", "measure"]

_WORDS = 1 << 18
"""Coordinates of the vectors that per-coordinate costs are measured on."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """CPU seconds of single operations on this machine.

    Attributes
    ----------
    client_fixed, client_peer : float
        A client's work in all rounds: once, and per peer; vector work and sharing not included.
    server_fixed, server_edge : float
        The server's, per client and per edge.
    stream : float
        One coordinate of one mask, added into an accumulator.
    seed : float
        Setting up one mask stream.
    vector_client, vector_server : float
        One coordinate through encoding and packing, and through unpacking and adding.
    share_term : float
        One coefficient of one polynomial at one point.
    combine_term : float
        One share of one secret, in a rebuilding from many secrets at once.
    lagrange_term : float
        One of the t**2 factors of a set of interpolation weights.
    agreement : float
        Key agreement and derivation for one pair.
    self_seed : float
        Checking and deriving one self mask.
    verification : float
        Checking one signature.
    """

    client_fixed: float
    client_peer: float
    server_fixed: float
    server_edge: float
    stream: float
    seed: float
    vector_client: float
    vector_server: float
    share_term: float
    combine_term: float
    lagrange_term: float
    agreement: float
    self_seed: float
    verification: float

    def client(self, params: Params) -> float:
        """Return the CPU seconds of one client that stays to the end."""
        peers, coordinates = params.neighbours, params.length
        return (
            self.client_fixed
            + peers * self.client_peer
            + 6 * params.threshold * (peers + 1) * self.share_term
            + (peers + 1) * (self.seed + coordinates * self.stream)
            + coordinates * self.vector_client
            + _signed_rounds(params) * peers * self.verification
        )

    def server(self, params: Params, gone: int) -> float:
        """Return the server's CPU seconds when `gone` clients leave after sharing their keys."""
        clients, coordinates, t = params.clients, params.length, params.threshold
        stayed = clients - gone
        pairs = gone * params.neighbours * stayed / max(clients - 1, 1)
        masks = stayed + pairs
        weights = t * t * self.lagrange_term * (1 if params.graph is Graph.COMPLETE else clients)
        return (
            clients * self.server_fixed
            + clients * params.neighbours * self.server_edge
            + stayed * coordinates * self.vector_server
            + weights
            + clients * t * 3 * self.combine_term
            + stayed * self.self_seed
            + pairs * self.agreement
            + masks * (self.seed + coordinates * self.stream)
            + _signed_rounds(params) * clients * self.verification
        )


def _signed_rounds(params: Params) -> int:
    """Return in how many rounds each client checks a signature of each peer."""
    return 2 if params.signed else 0


def measure(params: Params) -> Units:
    """Measure the unit costs for rounds like `params`, on this machine, now."""
    small, large = _round_seconds(params, 6), _round_seconds(params, 30)
    # seconds(n) = n * fixed + n * (n - 1) * per peer, for clients and server alike.
    per_peer = [max((b / 30 - a / 6) / 24, 0.0) for a, b in zip(small, large, strict=True)]
    fixed = [max(a / 6 - 5 * peer, 0.0) for a, peer in zip(small, per_peer, strict=True)]
    stream, seed = _stream_seconds(params)
    vector_client, vector_server = _vector_seconds(params)
    share, combine, lagrange = _sharing_seconds()
    return Units(
        client_fixed=fixed[0],
        client_peer=per_peer[0],
        server_fixed=fixed[1],
        server_edge=per_peer[1],
        stream=stream,
        seed=seed,
        vector_client=vector_client,
        vector_server=vector_server,
        share_term=share,
        combine_term=combine,
        lagrange_term=lagrange,
        agreement=_agreement_seconds(params),
        verification=_verification_seconds(),
        self_seed=_best(
            lambda: [
                (
                    derivations.commitment(bytes(16), bytes(32), client),
                    derivations.self_mask_seed(bytes(16), bytes(32), client, 32),
                )
                for client in range(50)
            ]
        )
        / 50,
    )


def _best(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least CPU seconds of `repeats` calls, after one that warms up."""
    work()
    seconds = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        seconds.append(time.thread_time() - began)
    return min(seconds)


def _round_seconds(params: Params, clients: int) -> tuple[float, float]:
    """Return the (clients', server's) seconds of a real round of one coordinate, keys to shares."""
    small = replace(
        params,
        clients=clients,
        dim=1,
        graph=Graph.COMPLETE,
        threat=Threat.SEMI_HONEST,  # signatures are measured on their own
        neighbours=clients - 1,
        threshold=2,
        corrupt=0,
        dropout=0.0,
        min_cohort=2,
    )
    spent = [float("inf"), float("inf")]
    for _ in range(3):
        once = _play(small)
        spent = [min(before, now) for before, now in zip(spent, once, strict=True)]
    return spent[0], spent[1]


def _play(params: Params) -> tuple[float, float]:
    spent = {"client": 0.0, "server": 0.0}

    def timed(party: str, work: Callable[[], bytes]) -> bytes:
        began = time.thread_time()
        result = work()
        spent[party] += time.thread_time() - began
        return result

    server = Server(params)
    clients = [Client(params) for _ in range(params.clients)]
    low = 0.0 if params.encoding.clip is not None else 0
    vector = np.full(params.dim, low)
    while server.phase is not Phase.DONE:
        first = server.phase is Phase.ADVERTISE_KEYS
        for index, client in enumerate(clients):

            def send(index: int = index, first: bool = first) -> bytes:
                message = server.start(index) if first else server.message_for(index)
                return message.encode()

            data = timed("server", send)

            def answer(client: Client = client, data: bytes = data) -> bytes:
                message = messages.decode(data, params, peer="server")
                if isinstance(message, messages.Start):
                    return client.advertise_keys(message).encode()
                if isinstance(message, messages.KeyRoster):
                    return client.share_keys(message).encode()
                if isinstance(message, messages.ShareBundle):
                    return client.masked_input(message, vector).encode()
                assert isinstance(message, messages.SurvivorSet)
                return client.unmasking(message).encode()

            reply = timed("client", answer)

            def receive(index: int = index, reply: bytes = reply) -> bytes:
                server.receive(index, messages.decode(reply, params, peer=index))
                return b""

            timed("server", receive)
        if server.phase is Phase.UNMASKING:
            break  # rebuilding is measured on its own
        timed("server", lambda: bytes(server.close().value))
    return spent["client"], spent["server"]


def _stream_seconds(params: Params) -> tuple[float, float]:
    """Return seconds per coordinate of one mask, and per mask set up."""
    length = prg.seed_bytes(params.prg)
    seeds = np.frombuffer(OS.take(64 * length), np.uint8).reshape(64, length)
    signs = np.ones(64, np.int8)
    long, short = np.zeros(_WORDS, params.word), np.zeros(1, params.word)
    few = _best(lambda: prg.accumulate(long, seeds[:4], signs[:4], suite=params.prg))
    setup = _best(lambda: prg.accumulate(short, seeds, signs, suite=params.prg)) / 64
    return few / 4 / _WORDS, setup


def _vector_seconds(params: Params) -> tuple[float, float]:
    """Return seconds per coordinate of a client's encoding and packing, and of the server's."""
    sized = replace(params, dim=_WORDS)
    tag = bytes(layout.TAG_BYTES)
    low = 0.0 if params.encoding.clip is not None else 0
    vector = np.full(_WORDS, low)

    def encode() -> bytes:
        encoded = params.encoding.encode(vector, weight=1, clients=params.clients, entropy=OS)
        return messages.MaskedInput(
            tag=tag, bits=params.modulus_bits, vector=encoded.words
        ).encode()

    data = encode()
    accumulator = np.zeros(sized.length, params.word)

    def add() -> None:
        message = messages.MaskedInput.decode(data, sized, peer=0)
        np.add(accumulator, message.vector, out=accumulator)

    return _best(encode) / _WORDS, _best(add) / _WORDS


def _sharing_seconds() -> tuple[float, float, float]:
    """Return seconds per coefficient and point, per share rebuilt, per factor of the weights."""
    points = np.arange(1, 201, dtype=np.uint64)
    secrets = np.zeros((2, sharing.SECRET_BYTES), np.uint8)
    share = _best(lambda: sharing.split(secrets, 100, points, OS)) / (6 * 100 * 200)
    lagrange = _best(lambda: sharing.Combiner(points)) / 200**2
    combiner = sharing.Combiner(points[:100])
    shares = np.zeros((100, 200, sharing.LIMBS), np.uint64)
    return share, _best(lambda: combiner.combine(shares)) / (3 * 100 * 200), lagrange


def _verification_seconds() -> float:
    identity = keys.Identity.generate()
    signature = identity.sign(bytes(32))
    return (
        _best(lambda: [keys.verify(identity.public, bytes(32), signature) for _ in range(20)]) / 20
    )


def _agreement_seconds(params: Params) -> float:
    length = prg.seed_bytes(params.prg)
    private = OS.take(32)
    public = keys.public_key(OS.take(32))

    def pair() -> None:
        for peer in range(1, 21):
            secret = keys.agree(private, public)
            derivations.pairwise_mask_seed(secret, bytes(32), bytes(32), 0, peer, length)

    return _best(pair) / 20
