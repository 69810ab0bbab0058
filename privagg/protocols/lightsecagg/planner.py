"""What a round will cost, before anyone sends anything, and beside the other protocol.

Bytes are exact: they come from the same layouts that encode the messages. Seconds are a prediction
from a short calibration on this machine (:mod:`privagg.protocols.lightsecagg.calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privagg import keys
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols._common.bill import PlannedBytes
from privagg.protocols.lightsecagg import calibration, messages
from privagg.protocols.lightsecagg.checks import check_params
from privagg.protocols.lightsecagg.params import Params
from privagg.protocols.lightsecagg.states import ROUNDS
from privagg.protocols.secagg.identity import SIGNATURE_BYTES
from privagg.protocols.secagg.planner import SEEN_KEY_BYTES

__all__ = ["Comparison", "Plan", "compare", "plan"]

BANDWIDTH = 12_500_000
"""Bytes a second of a client's connection where nothing else is said: 100 Mbit/s."""


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
    bytes_shares : int
        Of the bytes up (and as many down), the coded shares: N - 1 times ``ceil(d / (U - T))``
        elements, encrypted.
    bytes_server : int
        Bytes through the server in and out, if nobody drops out.
    elements_relayed : int
        Field elements in the coded shares that the server relays: N (N - 1) ``ceil(d / (U - T))``.
    expansion : float
        A client's bytes up and down over its vector's as it is.
    memory_server : int
        Bytes the server holds at most, without the process itself and the message being read.
    memory_client : int
        Bytes a client holds at most, without the process itself and the message being read: the
        coded shares of all and for all, its mask, and `memory_code`.
    memory_code : int
        Of `memory_client`, the code's generator, N * U elements, and what it is made of. Parties of
        one process share it.
    cpu_seconds_client, cpu_seconds_server : float
        Predicted CPU seconds of one client, and of the server when the stated dropout happens,
        which hardly matters to it. 0.0 where no calibration was asked for.
    cpu_seconds_recovery : float
        Of the server's seconds, those after the last answer: what the sum waits for.
    """

    params: Params
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]
    bytes_shares: int
    bytes_server: int
    elements_relayed: int
    expansion: float
    memory_server: int
    memory_client: int
    memory_code: int
    cpu_seconds_client: float
    cpu_seconds_server: float
    cpu_seconds_recovery: float


def plan(params: Params, *, units: calibration.Units | None = None) -> Plan:
    """Return what a round with `params` costs.

    Parameters
    ----------
    params : Params
        The round.
    units : Units, optional
        Costs of the single operations; measured now if left out.

    Returns
    -------
    Plan

    Raises
    ------
    UsageError
        If an argument is of another type.
    """
    check_params(params)
    if units is not None and not isinstance(units, calibration.Units):
        raise UsageError("units", type(units).__name__, "calibration.Units, or None to measure")
    units = calibration.measure(params) if units is None else units
    clients = params.clients
    up = {
        "advertise-keys": messages.AdvertiseKeys.size(params),
        "share-masks": messages.ShareMasks.size(params, clients - 1),
        "masked-input": messages.MaskedInput.size(params, clients),
        "unmasking": messages.CodedSum.size(params),
    }
    down = {
        "advertise-keys": messages.Start.size(),
        "share-masks": messages.KeyRoster.size(params, clients),
        "masked-input": messages.ShareBundle.size(params, clients, clients - 1),
        "unmasking": messages.SurvivorSet.size(params, clients, clients),
    }
    if params.signed:
        up["consistency-check"] = messages.ConsistencySignature.size()
        down["consistency-check"] = down["unmasking"]
        down["unmasking"] = messages.SignatureSet.size(clients, clients)
    up, down = ({name: side[name] for name in ROUNDS if name in side} for side in (up, down))
    total = sum(up.values()) + sum(down.values())
    shares = (clients - 1) * messages.share_bytes(params)
    return Plan(
        params=params,
        bytes_up=up,
        bytes_down=down,
        bytes_shares=shares,
        bytes_server=clients * total,
        elements_relayed=clients * (clients - 1) * params.piece,
        expansion=total / params.raw_bytes,
        memory_server=_memory_server(params),
        memory_client=_memory_code(params) + _memory_shares(params),
        memory_code=_memory_code(params),
        cpu_seconds_client=units.client(params),
        cpu_seconds_server=units.server(params),
        cpu_seconds_recovery=units.recovery(params),
    )


def _memory_server(params: Params) -> int:
    """Return the bytes of what a server holds, at most: while it relays, or while it recovers."""
    clients, word = params.clients, params.word.itemsize
    row = keys.KEY_BYTES + SEEN_KEY_BYTES + clients  # a key, and who could not open whose share
    row += params.signed * 3 * SIGNATURE_BYTES
    relaying = clients * (clients - 1) * messages.share_bytes(params)
    # Coded sums twice, as they came and as a matrix; the weights and what they are made of.
    sums = 2 * clients * params.piece * word
    weights = 8 * params.threshold * max(params.code.pieces, params.threshold) * word
    vectors = 3 * params.length * word + 3 * params.dim * 8  # sum, masks, words; decoded
    return clients * row + max(relaying, sums + weights) + vectors


def _memory_code(params: Params) -> int:
    """Return the bytes of the generator while it is made: Lagrange's differences and products."""
    return 6 * params.clients * params.threshold * params.word.itemsize


def _memory_shares(params: Params) -> int:
    """Return the bytes of masks and shares: as elements for all and of all, and packed."""
    elements = 2 * params.clients * params.piece + params.threshold * params.piece
    packed = 2 * params.clients * messages.share_bytes(params)
    return (elements + 2 * params.length) * params.word.itemsize + packed


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One cohort under both protocols, with the same corruption, dropout and threat model.

    Attributes
    ----------
    bonawitz : secagg.Plan
        Of the complete graph, after Bonawitz et al.
    lightsecagg : Plan
        After So et al.
    bandwidth : float
        Bytes a second of a client's connection.
    """

    bonawitz: secagg.Plan
    lightsecagg: Plan
    bandwidth: float

    @property
    def seconds(self) -> dict[str, float]:
        """Predicted seconds of a round, by protocol.

        A client's CPU, its bytes over its connection, and the server's CPU on one core, one after
        the other; clients work at the same time, and latency is not counted.
        """
        found = {}
        for name, plan in (("bonawitz", self.bonawitz), ("lightsecagg", self.lightsecagg)):
            carried = (plan.bytes_up_per_client + plan.bytes_down_per_client) / self.bandwidth
            found[name] = plan.cpu_seconds_client + carried + plan.cpu_seconds_server
        return found

    @property
    def recommended(self) -> Literal["bonawitz", "lightsecagg"]:
        """The protocol with the fewer seconds."""
        seconds = self.seconds
        return "lightsecagg" if seconds["lightsecagg"] < seconds["bonawitz"] else "bonawitz"


def compare(
    bonawitz: secagg.Plan, lightsecagg: Plan, *, bandwidth: float = BANDWIDTH
) -> Comparison:
    """Put two plans of the same cohort side by side.

    Parameters
    ----------
    bonawitz, lightsecagg : plans
        Calibrated, or the seconds are those of the bytes alone.
    bandwidth : float
        Bytes a second of a client's connection.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        If the plans are not of one cohort, vector and threat model, of two protocols, or there is
        no bandwidth.
    """
    for name, one, kind, due in (
        ("bonawitz", bonawitz, secagg.Plan, "a secagg.Plan"),
        ("lightsecagg", lightsecagg, Plan, "a lightsecagg.Plan"),
    ):
        if not isinstance(one, kind):
            raise UsageError(name, type(one).__name__, due)
    ours, theirs = lightsecagg.params, bonawitz.params
    for name in ("clients", "dim", "encoding", "corrupt", "dropout", "threat"):
        if getattr(ours, name) != getattr(theirs, name):
            raise UsageError(name, f"{getattr(theirs, name)} and {getattr(ours, name)}", "the same")
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, int | float) or not bandwidth > 0:
        raise UsageError("bandwidth", bandwidth, "a positive number of bytes a second")
    return Comparison(bonawitz=bonawitz, lightsecagg=lightsecagg, bandwidth=float(bandwidth))
