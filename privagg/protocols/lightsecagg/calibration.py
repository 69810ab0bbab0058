"""Unit costs of this machine, from about a second of measuring, for the planner's predictions.

The unit of each operation is measured on the code that a round runs, at a size near the round's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from statistics import median

import numpy as np

from privagg import field as fieldmath
from privagg import keys
from privagg.entropy import OS
from privagg.protocols.lightsecagg import client_work, derivations, messages
from privagg.protocols.lightsecagg.client_state import ClientMemory
from privagg.protocols.lightsecagg.coding import MaskCode
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.server import Server
from privagg.protocols.lightsecagg.states import Phase

__all__ = ["Units", "free", "measure"]

_PEERS = 40
_WORDS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Units:
    """CPU seconds of the operations that a round consists of.

    Attributes
    ----------
    product : float
        One multiply-and-add of a matrix product.
    weight : float
        One factor of a Lagrange weight.
    peer : float
        Agreement with a peer, sealing its share and opening the one from it, without the elements.
    element : float
        Packing, sealing, opening and unpacking one element of a share.
    draw : float
        Drawing one element.
    client_word, server_word : float
        Encoding, masking and packing a coordinate; reading it, and adding it to the sum.
    add : float
        Adding one element of a coded share.
    relayed : float
        One byte of a share through the server.
    server_client, server_edge : float
        What the server does for each client, and for each pair of them, whatever the sizes.
    verification : float
        Checking one signature.
    """

    product: float
    weight: float
    peer: float
    element: float
    draw: float
    client_word: float
    server_word: float
    add: float
    relayed: float
    server_client: float
    server_edge: float
    verification: float

    def client(self, params: Params) -> float:
        """Return the CPU seconds of one client that stays to the end."""
        clients, needed, piece = params.clients, params.threshold, params.piece
        noise = params.privacy * piece
        return (
            clients * needed * (self.weight + piece * self.product)
            + clients * (self.peer + piece * (self.element + self.add))
            + (params.length + noise) * self.draw
            + params.length * self.client_word
            + params.signed * 3 * clients * self.verification
        )

    def server(self, params: Params) -> float:
        """Return the server's CPU seconds, whoever leaves."""
        clients = params.clients
        return (
            clients * (self.server_client + params.length * self.server_word)
            + clients * (clients - 1) * self.server_edge
            + clients * (clients - 1) * messages.share_bytes(params) * self.relayed
            + params.signed * 3 * clients * self.verification
            + self.recovery(params)
        )

    def recovery(self, params: Params) -> float:
        """Return those of the seconds that come after the last answer."""
        needed, pieces = params.threshold, params.code.pieces
        surplus = max(params.clients - params.dropouts - needed, 0)
        return (
            needed * (needed + pieces + surplus) * self.weight
            + pieces * needed * params.piece * self.product
            + surplus * needed * params.piece * self.add
        )


def free() -> Units:
    """Return operations that take no time: for plans that are asked for bytes only."""
    return Units(**{one.name: 0.0 for one in fields(Units)})


def measure(params: Params) -> Units:
    """Measure the unit costs for rounds like `params`, on this machine, now."""
    of = params.field
    # A smaller code of the same shape: as many pieces to a threshold.
    clients = min(params.clients, 200)
    needed = max(2, params.threshold * clients // params.clients)
    privacy = min(max(1, params.privacy * clients // params.clients), needed - 1)
    code, width = MaskCode(clients, needed, privacy, of), min(params.piece, 2048)
    mask = fieldmath.uniform(OS, width * code.pieces, of)
    noise = fieldmath.uniform(OS, (privacy, width), of)
    code.generator()
    product = _typical(lambda: code.split(mask, noise)) / (clients * needed * width)
    nodes, holders = code.nodes()[: code.pieces], np.arange(needed)
    weight = _typical(lambda: code.weights(holders, nodes)) / (needed * (needed + code.pieces))
    draw = _typical(lambda: fieldmath.uniform(OS, _WORDS, of)) / _WORDS
    rows = fieldmath.uniform(OS, (64, 1024), of)
    add = _typical(lambda: client_work.add_shares(params, rows)) / rows.size
    peer, element = _pairing_seconds(params)
    client_word, server_word = _vector_seconds(params)
    octets = np.zeros((256, 4096), np.uint8)
    # Read, gathered into another client's message, and written.
    relayed = 3 * _typical(lambda: np.concatenate(list(octets))) / octets.size
    few, many = (_server_seconds(params, count) / count for count in (16, 120))
    server_edge = max(many - few, 0.0) / (120 - 16)
    return Units(
        product=product,
        weight=weight,
        peer=peer,
        element=element,
        draw=draw,
        client_word=client_word,
        server_word=server_word,
        add=add,
        relayed=relayed,
        server_client=max(few - 15 * server_edge, 0.0),
        server_edge=server_edge,
        verification=_verification_seconds(),
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


def _server_seconds(params: Params, clients: int) -> float:
    """Return the server's seconds of a round of one coordinate, up to its last close.

    Ciphertexts, masked vectors and sums are zeros: to the server it makes no difference.
    """
    small = Params.recommend(clients=clients, dim=1, corrupt=0.0, dropout=0.0, field=params.field)
    server, everyone = Server(small), range(clients)
    tag = server.start(0).tag
    rows = np.frombuffer(OS.take(32 * clients), np.uint8).reshape(-1, 32) & np.uint8(0x7F)
    columns = np.zeros((clients - 1, messages.share_bytes(small)), np.uint8)
    nobody, one = np.zeros(clients, np.bool_), np.zeros(1, small.word)
    replies: dict[Phase, Callable[[int], messages.Message]] = {
        Phase.ADVERTISE_KEYS: lambda index: messages.AdvertiseKeys(
            tag=tag, cipher_key=rows[index].tobytes()
        ),
        Phase.SHARE_MASKS: lambda index: messages.ShareMasks(tag=tag, ciphertexts=columns),
        Phase.MASKED_INPUT: lambda index: messages.MaskedInput(
            tag=tag, bits=small.bits, missing=nobody, vector=one
        ),
        Phase.UNMASKING: lambda index: messages.CodedSum(tag=tag, bits=small.bits, elements=one),
    }
    spent = 0.0
    while True:
        phase = server.phase
        data = [replies[phase](index).encode() for index in everyone]
        began = time.thread_time()
        for index in everyone:
            server.message_for(index).encode()
            server.receive(index, messages.decode(data[index], small, peer=index))
        if phase is not Phase.UNMASKING:
            server.close()
        spent += time.thread_time() - began
        if phase is Phase.UNMASKING:
            return spent


def _pairing_seconds(params: Params) -> tuple[float, float]:
    """Return seconds per peer, and per element of its share, of sealing and opening."""
    short, long = (
        _typical(_exchange(replace(params, dim=dim), _PEERS), 3) / _PEERS
        for dim in (1, _WORDS * params.code.pieces // 16)
    )
    element = max(long - short, 0.0) / (_WORDS // 16)
    return max(short - element, 0.0), element


def _exchange(params: Params, peers: int) -> Callable[[], object]:
    """Return the work of sealing shares for so many peers, and of opening as many."""
    peers = min(peers, params.clients - 1)
    context, members = bytes(32), np.arange(peers + 1, dtype=np.uint32)
    seeds = [OS.take(derivations.SEED_BYTES) for _ in members]
    rows = [derivations.cipher_keys(seed, context, at)[1] for at, seed in enumerate(seeds)]
    roster = messages.KeyRoster(
        tag=bytes(8),
        members=members,
        keys=np.frombuffer(b"".join(rows), np.uint8).reshape(-1, keys.KEY_BYTES),
        universe=params.clients,
    )
    shares = np.zeros((params.clients, params.piece), params.word)

    def memory(index: int) -> ClientMemory:
        made = ClientMemory()
        made.index, made.context, made.roster = index, context, bytes(32)
        made.cipher_seed, made.members = seeds[index], members
        return made

    others = [memory(index) for index in range(1, peers + 1)]
    sent = [client_work.seal_shares(other, params, roster, shares)[0] for other in others]
    bundle = messages.ShareBundle(tag=bytes(8), present=members != 0, ciphertexts=np.stack(sent))

    def work() -> None:
        own = memory(0)
        client_work.seal_shares(own, params, roster, shares)
        client_work.open_shares(own, params, bundle)

    return work


def _vector_seconds(params: Params) -> tuple[float, float]:
    """Return seconds per coordinate of a client's masked input, and of the server's part."""
    sized = replace(params, dim=_WORDS)
    vector = np.full(_WORDS, 0.0 if params.encoding.clip is not None else 0)
    mask, missing = fieldmath.uniform(OS, sized.length, sized.field), np.zeros(1, np.bool_)

    def send() -> bytes:
        encoded = sized.encoding.encode(vector, weight=1, clients=sized.clients, entropy=OS)
        return messages.MaskedInput(
            tag=bytes(8),
            bits=sized.bits,
            missing=missing,
            vector=client_work.mask_input(sized, encoded.words, mask),
            signature=bytes(64 * sized.signed),
        ).encode()

    data = send()

    def take() -> object:
        message = messages.MaskedInput.decode(data, sized, peer=0)
        return fieldmath.add(mask, message.vector, sized.field)

    return _typical(send) / _WORDS, _typical(take) / _WORDS


def _verification_seconds() -> float:
    identity = keys.Identity.generate()
    signature = identity.sign(bytes(32))

    def check() -> None:
        for _ in range(10):
            keys.verify(identity.public, bytes(32), signature)

    return _typical(check) / 10
