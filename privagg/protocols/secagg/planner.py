"""What a round will cost, before anyone sends anything.

Bytes are exact: they come from the same layouts that encode the messages. Seconds are a prediction
from a short calibration on this machine (:mod:`privagg.protocols.secagg.calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass

from privagg import prg, sharing
from privagg._validate import whole
from privagg.protocols._common.bill import PlannedBytes
from privagg.protocols.secagg import calibration, layout, messages, thresholds
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import ROUNDS, SEQUENCES
from privagg.protocols.secagg.thresholds import Graph, Threat

__all__ = ["Plan", "expansion_formula", "plan"]

SEEN_KEY_BYTES = 80 + 134
"""A key in a set of keys: the object, and 16 bytes a slot of a table that is from 12 % full on."""

START_SECONDS = 1.0
"""From the start of a worker process to its first client: imports, most of all."""

NODE_BYTES = 80 + 8
"""A digest in a list: the object and the reference."""


@dataclass(frozen=True, kw_only=True)
class Plan(PlannedBytes):
    """The bill of one round.

    Attributes
    ----------
    params : Params
        The round.
    bytes_up, bytes_down : dict of round name to int
        Encoded bytes of one client if nobody drops out, which is the most a client can send and
        receive.
    bytes_graph_proof : int
        Of the bytes down, the proof that the client's neighbours are those of the committed graph
        (semi-malicious): 16 bytes per client, and a Merkle path per neighbour.
    bytes_server : int
        Bytes through the server in and out, if nobody drops out.
    expansion : float
        A client's bytes up and down over its vector's as it is, the graph's proof left out.
    expansion_formula : float
        The paper's formula for the same, which counts keys, shares and vector but no tags, ids,
        commitments or framing.
    memory_server : int
        Bytes the server holds at most, without the process itself and the message being read.
    cpu_seconds_client, cpu_seconds_server : float
        Predicted CPU seconds of one client, and of the server when the stated dropout happens after
        the keys are shared, which is the most expensive moment. NaN-free: 0.0 where no calibration
        was asked for.
    cpu_seconds_unmasking : float
        Of the server's, those that the workers of a simulation share.
    """

    params: Params
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]
    bytes_graph_proof: int
    bytes_server: int
    expansion: float
    expansion_formula: float
    memory_server: int
    cpu_seconds_client: float
    cpu_seconds_server: float
    cpu_seconds_unmasking: float

    def wall_seconds(self, workers: int = 1) -> float:
        """Predict how long :func:`privagg.protocols.secagg.run` takes with a core per worker.

        The workers share the clients, and what they can of unmasking; the server's rest goes on
        beside them, but never faster than alone. Clients that leave, at the stated dropout, do
        half of their work.

        Raises
        ------
        UsageError
            If `workers` is no number of processes.
        """
        workers = whole("workers", workers, 1, 1024)
        gone = thresholds.dropouts(self.params.clients, self.params.dropout)
        clients = (self.params.clients - gone / 2) * self.cpu_seconds_client
        if workers == 1:
            return clients + self.cpu_seconds_server
        alone = self.cpu_seconds_server - self.cpu_seconds_unmasking
        shared = (clients + self.cpu_seconds_server) / workers
        return max(shared, alone + self.cpu_seconds_unmasking / workers) + START_SECONDS


def plan(params: Params, *, units: calibration.Units | None = None) -> Plan:
    """Return what a round with `params` costs.

    Parameters
    ----------
    params : Params
        The round.
    units : Units, optional
        Costs of the single operations; measured now (about a second) if left out.

    Returns
    -------
    Plan
    """
    units = calibration.measure(params) if units is None else units
    peers = params.neighbours
    members = peers + (params.graph is Graph.COMPLETE)
    up = {
        "advertise-keys": messages.AdvertiseKeys.size(params),
        "share-keys": messages.ShareKeys.size(peers),
        "masked-input": messages.MaskedInput.size(params),
        "unmasking": messages.UnmaskShares.size(members),
    }
    down = {
        "advertise-keys": messages.Start.size(),
        "share-keys": messages.KeyRoster.size(params, members),
        "masked-input": messages.ShareBundle.size(members, peers),
        "unmasking": messages.SurvivorSet.size(members),
    }
    proof = 0
    if params.signed:
        up["consistency-check"] = messages.ConsistencySignature.size()
        down["consistency-check"] = messages.SurvivorSet.size(members)
        down["unmasking"] = messages.SignatureSet.size(params, members, members)
    if params.threat is Threat.SEMI_MALICIOUS:
        up["commit-graph"] = messages.GraphCommitment.size()
        down["commit-graph"] = messages.GraphRequest.size(params)
        up["reveal-graph"] = messages.GraphReveal.size()
        down["reveal-graph"] = messages.GraphChallenge.size(params)
        proof = messages.GraphProof.size(params, peers)
        down["share-keys"] += proof
    up, down = ({name: side[name] for name in ROUNDS if name in side} for side in (up, down))
    total = sum(up.values()) + sum(down.values())
    gone = thresholds.dropouts(params.clients, params.dropout)
    return Plan(
        params=params,
        bytes_up=up,
        bytes_down=down,
        bytes_graph_proof=proof,
        bytes_server=params.clients * total,
        expansion=(total - proof) / params.raw_bytes,
        expansion_formula=expansion_formula(params),
        memory_server=_memory_server(params),
        cpu_seconds_client=units.client(params),
        cpu_seconds_server=units.server(params, gone),
        cpu_seconds_unmasking=units.unmasking(params, gone),
    )


def _memory_server(params: Params) -> int:
    """Return the bytes of what a server holds, at most: while it relays, unmasks, or has decoded.

    Where it holds objects, as for the keys it has seen, with Python's own overhead.
    """
    clients, edges = params.clients, params.clients * params.neighbours
    complete, drawn = params.graph is Graph.COMPLETE, params.threat is Threat.SEMI_MALICIOUS
    row = layout.BOTH_KEYS + layout.DIGEST_BYTES  # keys, commitment
    row += 2 * SEEN_KEY_BYTES + len(SEQUENCES[params.threat]) + 1  # who answered each round
    row += params.signed * 3 * SIGNATURE_BYTES  # over keys, survivors and sharers
    row += sharing.LIMBS * 8  # the share of its own secret
    if complete:  # a roster for all, and later the signatures for all
        row += 4 + layout.BOTH_KEYS + params.signed * (SIGNATURE_BYTES + 1)
    if drawn:  # commitments and openings, twice; a tree of digests; a place
        row += 2 * (layout.DIGEST_BYTES + 17) + 2 * NODE_BYTES + 8
    ends = 0 if complete else 8  # a neighbour, and the place in its row
    relaying = edges * layout.CIPHERTEXT_BYTES
    gone = thresholds.dropouts(clients, params.dropout)
    # Shares, which did not open, and where all have the same holders a table of t of them.
    unmasking = edges * (sharing.LIMBS * 8 + 1)
    unmasking += complete * params.threshold * clients * sharing.LIMBS * 8
    # Seeds of the streams to take off: each also once in the list it comes from.
    unmasking += (clients + gone * params.neighbours) * 2 * (prg.seed_bytes(params.prg) + 1)
    vector = params.length * params.word.itemsize
    decoded = 3 * params.dim * 8  # levels, total and mean
    return vector + clients * row + edges * ends + max(relaying, unmasking) + decoded


def expansion_formula(params: Params) -> float:
    """Return the paper's expansion: (256 (7n - 4) + m ceil(log2 R)) / (m v).

    Bonawitz et al., CCS 2017, section 7: 256-bit keys and shares, n the clients (the neighbours in
    the sparse graph), m coordinates of v bits, R the modulus. Tags, ids and framing are not in it.
    """
    peers = params.clients if params.graph is Graph.COMPLETE else params.neighbours
    vector = params.length * params.modulus_bits
    return (256 * (7 * peers - 4) + vector) / (8 * params.raw_bytes)
