"""Unit costs of this machine, measured in a second or two, and how they add up to a round.

The model: a client pays per peer (two key agreements, key derivation, encryption and decryption),
per peer and coordinate (the mask stream), per coordinate (encoding and packing) and per share; the
server pays per edge for relaying, per client that left for rebuilding its masks, and per coordinate
for each vector it adds, each mask it takes off, and once for decoding the sum. CPU seconds, single
thread. Costs are medians: a round is long enough to meet a busy machine's average, not its best
moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys, prg, sharing
from privagg.entropy import OS
from privagg.protocols.secagg import (
    client_graph,
    derivations,
    graph,
    layout,
    merkle,
    messages,
    pairing,
    tiles,
)
from privagg.protocols.secagg.client import Client
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.messages import Message
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
    decoded : float
        One coordinate of the sum, from its words to totals and means.
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
    opening : float
        Where clients draw the graph: checking one client's opening, its part of the tree over the
        commitments, and its row of the graph.
    proof_step : float
        One step of a neighbour's path in the tree over the keys.
    view : float
        One statement of whom a client was told of.
    """

    client_fixed: float
    client_peer: float
    server_fixed: float
    server_edge: float
    stream: float
    seed: float
    vector_client: float
    vector_server: float
    decoded: float
    share_term: float
    combine_term: float
    lagrange_term: float
    agreement: float
    self_seed: float
    verification: float
    opening: float
    proof_step: float
    view: float

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
            + self._drawn(params) * (params.clients * self.opening + peers * self._proof(params))
        )

    def server(self, params: Params, gone: int) -> float:
        """Return the server's CPU seconds when `gone` clients leave after sharing their keys."""
        clients, coordinates, t = params.clients, params.length, params.threshold
        stayed = clients - gone
        weights = t * t * self.lagrange_term * (1 if params.graph is Graph.COMPLETE else clients)
        return (
            clients * self.server_fixed
            + clients * params.neighbours * self.server_edge
            + stayed * coordinates * self.vector_server
            + weights
            + clients * t * 3 * self.combine_term
            + stayed * self.self_seed
            + coordinates * self.decoded
            + self.unmasking(params, gone)
            + _signed_rounds(params) * clients * self.verification
            + self._drawn(params)
            * clients
            * (self.opening + params.neighbours * self._proof(params))
        )

    def unmasking(self, params: Params, gone: int) -> float:
        """Return of the server's seconds those that workers share: agreements and masks."""
        stayed = params.clients - gone
        pairs = gone * params.neighbours * stayed / max(params.clients - 1, 1)
        masks = stayed + pairs
        return pairs * self.agreement + masks * (self.seed + params.length * self.stream)

    def _drawn(self, params: Params) -> bool:
        """Say whether the clients draw the graph."""
        return params.threat is Threat.SEMI_MALICIOUS

    def _proof(self, params: Params) -> float:
        """Return what a neighbour's keys and view cost, whoever shows or checks them."""
        return merkle.depth(params.clients) * self.proof_step + self.view


def _signed_rounds(params: Params) -> int:
    """Return in how many rounds each client checks a signature of each peer."""
    return {Threat.SEMI_HONEST: 0, Threat.ACTIVE: 2, Threat.SEMI_MALICIOUS: 3}[params.threat]


def measure(params: Params) -> Units:
    """Measure the unit costs for rounds like `params`, on this machine, now."""
    few, many = _small(params, 8), _small(params, 40)
    _round_seconds(few)  # compiles, and fills the caches
    small, large = (_medians([_round_seconds(size) for _ in range(3)]) for size in (few, many))
    client_fixed, client_peer = _fit(small[0], large[0], 8, 40)
    # A server's edges are cheap: they show in larger rounds only, which need no clients.
    served = [median(_server_seconds(_small(params, n)) for _ in range(3)) for n in (40, 240)]
    _, server_edge = _fit(served[0], served[1], 40, 240)
    server_fixed = max(large[1] / 40 - 39 * server_edge, 0.0)
    stream, seed = _stream_seconds(params)
    vector_client, vector_server, decoded = _vector_seconds(params)
    share, combine, lagrange = _sharing_seconds()
    opening, proof_step, view = _drawing_seconds(params)
    return Units(
        client_fixed=client_fixed,
        client_peer=client_peer,
        server_fixed=server_fixed,
        server_edge=server_edge,
        stream=stream,
        seed=seed,
        vector_client=vector_client,
        vector_server=vector_server,
        decoded=decoded,
        share_term=share,
        combine_term=combine,
        lagrange_term=lagrange,
        agreement=_agreement_seconds(params),
        verification=_verification_seconds(),
        opening=opening,
        proof_step=proof_step,
        view=view,
        self_seed=_typical(
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


def _typical(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median CPU seconds of `repeats` calls, after one that warms up."""
    work()
    seconds = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        seconds.append(time.thread_time() - began)
    return median(seconds)


def _medians(runs: list[tuple[float, float]]) -> tuple[float, float]:
    return median(run[0] for run in runs), median(run[1] for run in runs)


def _fit(small: float, large: float, few: int, many: int) -> tuple[float, float]:
    """Return (fixed, per peer) of ``seconds(n) = n * fixed + n * (n - 1) * per peer``."""
    peer = max((large / many - small / few) / (many - few), 0.0)
    return max(small / few - (few - 1) * peer, 0.0), peer


def _small(params: Params, clients: int) -> Params:
    """Return a semi-honest round of one coordinate; signatures are measured on their own."""
    return replace(
        params,
        clients=clients,
        dim=1,
        graph=Graph.COMPLETE,
        threat=Threat.SEMI_HONEST,
        neighbours=clients - 1,
        threshold=2,
        corrupt=0,
        dropout=0.0,
        min_cohort=2,
    )


def _round_seconds(params: Params) -> tuple[float, float]:
    """Return the clients' and the server's seconds of a real round, up to its last close."""
    server = Server(params)
    clients = [Client(params) for _ in range(params.clients)]
    vector = np.zeros(params.dim, np.int64 if params.encoding.clip is None else np.float64)
    clients_spent = server_spent = 0.0
    while True:
        for index, client in enumerate(clients):
            began = time.thread_time()
            data = server.message_for(index).encode()
            sent = time.thread_time()
            reply = _answer(client, messages.decode(data, params, peer="server"), vector).encode()
            came = time.thread_time()
            server.receive(index, messages.decode(reply, params, peer=index))
            clients_spent += came - sent
            server_spent += sent - began + time.thread_time() - came
        if server.phase is Phase.UNMASKING:
            return clients_spent, server_spent
        began = time.thread_time()
        server.close()
        server_spent += time.thread_time() - began


def _answer(client: Client, message: Message, vector: NDArray[Any]) -> Message:
    if isinstance(message, messages.Start):
        return client.advertise_keys(message)
    if isinstance(message, messages.KeyRoster):
        return client.share_keys(message)
    if isinstance(message, messages.ShareBundle):
        return client.masked_input(message, vector)
    assert isinstance(message, messages.SurvivorSet)
    return client.unmasking(message)


def _server_seconds(params: Params) -> float:
    """Return the server's seconds up to the last round's close, which is measured in parts.

    Ciphertexts, masked vectors and shares are zeros: to the server it makes no difference.
    """
    server, everyone = Server(params), range(params.clients)
    tag = server.start(0).tag
    rows = np.frombuffer(OS.take(64 * params.clients), np.uint8).reshape(-1, 64) & np.uint8(0x7F)
    columns = np.zeros((params.clients - 1, layout.CIPHERTEXT_BYTES), np.uint8)
    shares = np.zeros((params.clients, sharing.LIMBS), np.uint64)
    vector = np.zeros(params.length, params.word)
    replies: dict[Phase, Callable[[int], Message]] = {
        Phase.ADVERTISE_KEYS: lambda index: messages.AdvertiseKeys(
            tag=tag, cipher_key=rows[index, :32].tobytes(), mask_key=rows[index, 32:].tobytes()
        ),
        Phase.SHARE_KEYS: lambda index: messages.ShareKeys(
            tag=tag, commitment=bytes(32), ciphertexts=columns
        ),
        Phase.MASKED_INPUT: lambda index: messages.MaskedInput(
            tag=tag, bits=params.modulus_bits, vector=vector
        ),
        Phase.UNMASKING: lambda index: messages.UnmaskShares(
            tag=tag, shares=shares, missing=np.zeros(params.clients, np.bool_)
        ),
    }
    spent = 0.0
    while True:
        data = [replies[server.phase](index).encode() for index in everyone]
        began = time.thread_time()
        for index in everyone:
            message = server.message_for(index)
            if index == 0 or not isinstance(message, messages.KeyRoster):  # one serves everyone
                message.encode()
            server.receive(index, messages.decode(data[index], params, peer=index))
        last = server.phase is Phase.UNMASKING
        if not last:
            server.close()
        spent += time.thread_time() - began
        if last:
            return spent


def _stream_seconds(params: Params) -> tuple[float, float]:
    """Return seconds per coordinate of one mask, and per mask set up."""
    length = prg.seed_bytes(params.prg)
    seeds = np.frombuffer(OS.take(64 * length), np.uint8).reshape(64, length)
    signs = np.ones(64, np.int8)
    # Enough seeds that they meet in the cache, as many masks on one vector do.
    size, count = min(params.length, _WORDS // 2), 16
    long, short = np.zeros(size, params.word), np.zeros(1, params.word)
    work = partial(prg.accumulate, long, seeds[:count], signs[:count], suite=params.prg)
    setup = _typical(lambda: prg.accumulate(short, seeds, signs, suite=params.prg)) / 64
    return max(_typical(work) / count - setup, 0.0) / size, setup


def _vector_seconds(params: Params) -> tuple[float, float, float]:
    """Return seconds per coordinate: a client's encoding and packing, the server's, the sum's."""
    sized = replace(params, dim=_WORDS)
    tag = bytes(layout.TAG_BYTES)
    low = 0.0 if params.encoding.clip is not None else 0
    vector = np.full(_WORDS, low)

    def encode() -> bytes:
        encoded = params.encoding.encode(vector, weight=1, clients=params.clients, entropy=OS)
        return messages.MaskedInput(
            tag=tag,
            bits=params.modulus_bits,
            vector=encoded.words,
            signature=bytes(SIGNATURE_BYTES * params.views_signed),
        ).encode()

    data = encode()
    accumulator = np.zeros(sized.length, params.word)

    def add() -> None:
        tiles.add(accumulator, messages.MaskedInput.decode(data, sized, peer=0).vector)

    words = np.ones(sized.length, params.word)  # a weight, where there are some, is not zero
    decode = partial(params.encoding.decode, words, count=params.clients)
    return _typical(encode) / _WORDS, _typical(add) / _WORDS, _typical(decode) / _WORDS


def _sharing_seconds() -> tuple[float, float, float]:
    """Return seconds per coefficient and point, per share rebuilt, per factor of the weights."""
    points = np.arange(1, 201, dtype=np.uint64)
    secrets = np.zeros((2, sharing.SECRET_BYTES), np.uint8)
    share = _typical(lambda: sharing.split(secrets, 100, points, OS)) / (6 * 100 * 200)
    lagrange = _typical(lambda: sharing.Combiner(points)) / 200**2
    combiner = sharing.Combiner(points[:100])
    shares = np.zeros((100, 200, sharing.LIMBS), np.uint64)
    return share, _typical(lambda: combiner.combine(shares)) / (3 * 100 * 200), lagrange


def _verification_seconds() -> float:
    identity = keys.Identity.generate()
    signature = identity.sign(bytes(32))
    work = partial(keys.verify, identity.public, bytes(32), signature)
    return _typical(lambda: [work() for _ in range(20)]) / 20


def _drawing_seconds(params: Params) -> tuple[float, float, float]:
    """Return seconds per opening, per step of a path, and per view; nothing where none is drawn."""
    if params.threat is not Threat.SEMI_MALICIOUS:
        return 0.0, 0.0, 0.0
    count, keep = 256, 64
    degree = min(params.neighbours, count - 2)
    rows = np.zeros((count, layout.BOTH_KEYS), np.uint8)
    tree = client_graph.key_tree(bytes(32), np.arange(count, dtype=np.uint32), rows)

    def openings() -> None:
        leaves = [
            derivations.graph_commitment(bytes(32), bytes(32), client, bytes(16))
            for client in range(count)
        ]
        merkle.Tree(leaves)
        graph.build(count, degree, bytes(32))

    def paths() -> None:
        for client in range(keep):
            leaf = client_graph.key_leaf(bytes(32), client, rows[client].tobytes())
            merkle.root_from_path(leaf, client, tree.path(client))

    told = np.ones(params.neighbours, np.bool_)

    def views() -> None:
        for client in range(keep):
            view = layout.pack_view(told, params)
            derivations.view_statement(b"sharers", bytes(32), bytes(32), bytes(32), client, view)

    return (
        _typical(openings) / count,
        _typical(paths) / (keep * merkle.depth(count)),
        _typical(views) / keep,
    )


def _agreement_seconds(params: Params) -> float:
    length = prg.seed_bytes(params.prg)
    private = OS.take(32)
    public = np.frombuffer(keys.public_key(OS.take(32)), np.uint8)
    publics, peers = np.tile(public, (100, 1)), np.arange(1, 101, dtype=np.uint32)
    work = partial(
        pairing.mask_seeds,
        private,
        publics,
        context=bytes(32),
        roster=bytes(32),
        own=0,
        peers=peers,
        length=length,
        round="calibration",
    )
    return _typical(work) / len(peers)
