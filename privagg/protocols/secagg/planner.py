"""What a round will cost, before anyone sends anything.

Bytes are exact: they come from the same layouts that encode the messages. Seconds are a prediction
from a short calibration on this machine (:mod:`privagg.protocols.secagg.calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass

from privagg.protocols.secagg import calibration, layout, messages, thresholds
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import ROUNDS
from privagg.protocols.secagg.thresholds import Graph, Threat

__all__ = ["Plan", "expansion_formula", "plan"]


@dataclass(frozen=True, kw_only=True)
class Plan:
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
        Bytes the server holds at most, without the process itself.
    cpu_seconds_client, cpu_seconds_server : float
        Predicted CPU seconds of one client, and of the server when the stated dropout happens after
        the keys are shared, which is the most expensive moment. NaN-free: 0.0 where no calibration
        was asked for.
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

    @property
    def bytes_up_per_client(self) -> int:
        """All bytes that one client sends."""
        return sum(self.bytes_up.values())

    @property
    def bytes_down_per_client(self) -> int:
        """All bytes that one client receives."""
        return sum(self.bytes_down.values())


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
    edges = params.clients * peers
    gone = thresholds.dropouts(params.clients, params.dropout)
    return Plan(
        params=params,
        bytes_up=up,
        bytes_down=down,
        bytes_graph_proof=proof,
        bytes_server=params.clients * total,
        expansion=(total - proof) / params.raw_bytes,
        expansion_formula=expansion_formula(params),
        memory_server=params.length * params.word.itemsize
        + edges * max(layout.CIPHERTEXT_BYTES, 24)
        + params.clients * 96,
        cpu_seconds_client=units.client(params),
        cpu_seconds_server=units.server(params, gone),
    )


def expansion_formula(params: Params) -> float:
    """Return the paper's expansion: (256 (7n - 4) + m ceil(log2 R)) / (m v).

    Bonawitz et al., CCS 2017, section 7: 256-bit keys and shares, n the clients (the neighbours in
    the sparse graph), m coordinates of v bits, R the modulus. Tags, ids and framing are not in it.
    """
    peers = params.clients if params.graph is Graph.COMPLETE else params.neighbours
    vector = params.length * params.modulus_bits
    return (256 * (7 * peers - 4) + vector) / (8 * params.raw_bytes)
