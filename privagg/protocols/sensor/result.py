"""What a simulation returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import Abort
from privagg.protocols.sensor.air import Ledger
from privagg.protocols.sensor.energy import MODELS, Energy, model
from privagg.protocols.sensor.formation import Formation
from privagg.protocols.sensor.params import Deployment, Params, Protocol, Radio
from privagg.protocols.sensor.queries import Query
from privagg.protocols.sensor.transcript import Transcript

__all__ = ["Costs", "Result", "Step", "guarantee", "paper_messages"]

_Floats = NDArray[np.float64]


def guarantee(params: Params) -> str:
    """Say what a protocol holds, in a sentence."""
    k = params.corrupt
    who = f"up to {k} members of a cluster, its leader included, learn"
    if k <= 1:
        who = "a member of a cluster that colludes with nobody, its leader too, learns"
    if params.protocol.in_field and params.keys == "pool":
        return "insecure: link keys come from a shared pool, so others can read what is sent"
    match params.protocol:
        case Protocol.TAG:
            return "none: every parent reads what its children send"
        case Protocol.SMART if params.plain_slices:
            return "insecure: plain slices say something of the reading they were cut from"
        case Protocol.SMART:
            return (
                "a node's parent and all but one of the neighbours that hold its slices,"
                f" {params.slices - 1} where it has so many, learn sums only"
            )
        case Protocol.CPDA:
            return "insecure: a leader reads every member's reading off its share (v mod x)"
        case Protocol.CPDA_SEN_EFFICIENT:
            return "insecure: the leader decodes every member's reading by design"
        case Protocol.CPDA_SEN_CHECKED:
            return "insecure: the checks pass and v mod x still gives the leader every reading"
        case Protocol.CPDA_FIELD if params.drops:
            return (
                f"{who} the cluster's sum over at least m - {params.drops} members only, whatever"
                " is done; outsiders nothing"
            )
        case Protocol.CPDA_FIELD:
            return f"{who} the cluster's sum only, whatever is done; outsiders nothing"
        case Protocol.MASK_CLUSTER:
            return (
                f"{who} the cluster's sum only, whatever is done; outsiders nothing; one silent "
                "member loses the cluster"
            )
    return "nodes on the way learn nothing; the base station could decrypt a single node's report"


def paper_messages(
    formation: Formation, params: Params, tries: _Floats | None = None, steps: int = 1
) -> float:
    """Return messages per node as the papers count them: no JOIN, roster, relay or fragment.

    TAG 2; SMART J + 1; CPDA 3 for a member and 4 for a leader; Sen's efficient variant one less,
    the checked one a message more for each further draw. ``cpda-field`` needs no seeds: one less
    than CPDA. ``mask-cluster``: JOIN and value, or HELLO and sum. One of them forms the network;
    the others are sent again in each further one of `steps`.
    """
    return 1 + steps * (_one_epoch(formation, params, tries) - 1)


def _one_epoch(formation: Formation, params: Params, tries: _Floats | None) -> float:
    elected = formation.clusters.elected
    share = float(elected.sum()) / max(formation.network.nodes, 1)
    match params.protocol:
        case Protocol.SMART:
            return params.slices + 1.0
        case Protocol.CPDA:
            return 3 + share
        case Protocol.CPDA_SEN_EFFICIENT | Protocol.CPDA_FIELD:
            return 2 + share + (3.0 if params.drops else 0.0)
        case Protocol.CPDA_SEN_CHECKED:
            extra = 0.0 if tries is None else float((tries - 1).clip(min=0).sum())
            return 3 + share + extra
    return 2.0


@dataclass(frozen=True, eq=False)
class Costs:
    """Means per node, of one formation and one epoch; the base station is no node.

    With MAX and MIN, which take many epochs, of one formation and all of them.

    Attributes
    ----------
    frames, octets : float
        Sent.
    by_kind : dict of str to tuple of three floats
        Messages, frames and bytes on air by kind of message.
    received_by_kind : dict of str to float
        Bytes on air that were meant for a node, by kind.
    sent, received, overheard : (nodes,) float arrays
        Bytes on air of each node: sent, meant for it, and sent by its neighbours.
    most_frames : float
        Frames of the busiest node.
    """

    frames: float
    octets: float
    by_kind: dict[str, tuple[float, float, float]]
    received_by_kind: dict[str, float]
    sent: _Floats = field(repr=False)
    received: _Floats = field(repr=False)
    overheard: _Floats = field(repr=False)
    most_frames: float

    @classmethod
    def of(cls, forming: Ledger, running: Ledger, formations: int, epochs: int) -> Costs:
        """Add what a formation took, on average, and what an epoch took."""

        def mean(name: str) -> _Floats:
            return np.asarray(
                getattr(forming, name)[:-1] / formations + getattr(running, name)[:-1] / epochs
            )

        frames = mean("frames_sent")
        nodes = len(frames)
        kinds: dict[str, tuple[float, float, float]] = {}
        for ledger, share in ((forming, formations), (running, epochs)):
            for kind, total in ledger.by_kind.items():
                old = kinds.get(kind, (0.0, 0.0, 0.0))
                new = total / (share * nodes)
                kinds[kind] = (old[0] + new[0], old[1] + new[1], old[2] + new[2])
        heard: dict[str, float] = {}
        for ledger, share in ((forming, formations), (running, epochs)):
            for kind, octets in ledger.received_by_kind.items():
                heard[kind] = heard.get(kind, 0.0) + octets / (share * nodes)
        sent = mean("bytes_sent")
        overheard = forming.overheard()[:-1] / formations + running.overheard()[:-1] / epochs
        return cls(
            frames=float(frames.mean()),
            octets=float(sent.mean()),
            by_kind={k: (float(v[0]), float(v[1]), float(v[2])) for k, v in kinds.items() if v[2]},
            received_by_kind=heard,
            sent=sent,
            received=mean("bytes_received"),
            overheard=overheard,
            most_frames=float(frames.max()),
        )

    def microjoules(self, name: str, range: float) -> dict[str, float]:
        """Return the mean microjoules of sending, receiving and overhearing under a model."""
        radio = model(name, range)
        return {
            "sent": float(self.sent.mean()) * radio.send,
            "received": float(self.received.mean()) * radio.receive,
            "overheard": float(self.overheard.mean()) * radio.receive,
        }


@dataclass(frozen=True)
class Step:
    """One epoch of the search for a maximum or minimum.

    Attributes
    ----------
    threshold : float
        Readings at or above it (for MIN: at or below it) were counted.
    count, true_count : int
        As aggregated (None where the base station could not decode it), and over all nodes.
    readings : int
        Readings that took part.
    """

    threshold: float
    count: int | None
    true_count: int
    readings: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Outcome of :func:`~privagg.protocols.sensor.simulate`.

    Attributes
    ----------
    params, deployment, radio, energy, query : the arguments
        As given or recommended.
    scale : int
        Fixed-point steps per unit.
    rounded : int
        Readings that lie between two steps and were rounded. What is true is true of these.
    formation : Formation
        The last one: network, clusters, tree.
    formations : int
        How often the network was formed.
    sums, true_sums : list
        By epoch, the first number's sum in units of the readings: as aggregated (None where the
        base station could not decode it) and over all nodes. With MAX and MIN what is summed are
        the readings at or beyond the epoch's threshold, 1 each.
    answers, true_answers : list
        By epoch, of the query.
    counts : list of int
        By epoch, readings in the sum.
    covered : (epochs, nodes) bool array
        Whose readings these are.
    mean_degree : float
        Neighbours of a sensor.
    costs : Costs
        What was sent and heard.
    messages : float
        Per node, as papers count.
    bisection : list of Step
        For MAX and MIN: the epochs, one by one.
    key_statistics : dict of str to float
        Of keys from a pool.
    engine : str
        ``arrays`` or ``parties``.
    insecure_seed : bool
        Whether a seed made the run repeatable: who knows it knows every secret.
    transcript : Transcript or None
        Who sent what to whom, if that was asked for.
    """

    params: Params
    deployment: Deployment
    radio: Radio
    energy: Energy
    query: Query
    scale: int
    rounded: int
    formation: Formation = field(repr=False)
    formations: int
    sums: list[Any]
    true_sums: list[Any]
    answers: list[Any]
    true_answers: list[Any]
    counts: list[int]
    covered: NDArray[np.bool_] = field(repr=False)
    mean_degree: float
    costs: Costs = field(repr=False)
    messages: float
    bisection: list[Step]
    key_statistics: dict[str, float]
    engine: str
    insecure_seed: bool
    transcript: Transcript | None = field(default=None, repr=False)

    @property
    def secure(self) -> bool:
        """Whether the protocol holds what it promises: see :attr:`guarantee`."""
        return self.params.secure

    @property
    def guarantee(self) -> str:
        """What it promises, or how it fails."""
        return guarantee(self.params)

    @property
    def clusters(self) -> int:
        """Number of clusters, after merging."""
        return self.formation.grouping.count

    @property
    def mean_cluster_size(self) -> float:
        """Mean size of them; 0 if there are none."""
        sizes = self.formation.grouping.size
        return float(sizes.mean()) if len(sizes) else 0.0

    @property
    def coverage(self) -> float:
        """Readings in the sum over nodes, mean over the epochs."""
        return float(np.mean(self.counts)) / self.deployment.nodes

    @property
    def accuracy(self) -> float | None:
        """Sum over true sum, mean over the epochs; an epoch that is not decoded counts as 0.

        None where the true sum of an epoch is zero, and for MAX and MIN, which sum no readings.
        """
        if self.query.bisects or any(true == 0 for true in self.true_sums):
            return None
        pairs = zip(self.sums, self.true_sums, strict=True)
        return float(np.mean([0.0 if got is None else got / true for got, true in pairs]))

    @property
    def abort(self) -> Abort | None:
        """Why the base station has nothing from any epoch; None if it has something."""
        if any(n and total is not None for n, total in zip(self.counts, self.sums, strict=True)):
            return None
        heard = (
            int(self.formation.clusters.flood.reached.sum()) - 1
        )  # the base station hears itself
        if not heard:
            where = (
                f"{self.mean_degree:.3g} neighbours of a node within {self.deployment.range:g} m"
            )
            return Abort(f"no node heard the query ({where}): nodes", 0, 1)
        if None in self.sums:
            reason = "slices were lost in every epoch and nothing can be decoded: whole epochs"
            return Abort(reason, 0, 1)
        if self.params.protocol.clustered and not self.clusters:
            smallest = self.params.min_cluster
            reason = f"no cluster of {smallest} or more came together among {heard} nodes: clusters"
            return Abort(reason, 0, 1)
        reason = "frames or nodes were lost and no reading reached the base station: readings"
        return Abort(reason, 0, 1)

    def microjoules(self, name: str | None = None) -> float:
        """Return the mean microjoules of a node, of one formation and one epoch.

        Sending, receiving what is meant for it, and, where :class:`Energy` says so, overhearing in
        its place and idle listening. `name` is another model than the energy's own.
        """
        chosen = name or self.energy.model
        parts = self.costs.microjoules(chosen, self.deployment.range)
        heard = parts["overheard"] if self.energy.overhearing else parts["received"]
        idle = self.energy.idle(self.deployment.range) if chosen == self.energy.model else 0.0
        return parts["sent"] + heard + idle

    def all_models(self) -> dict[str, dict[str, float]]:
        """Return :meth:`Costs.microjoules` under every model."""
        return {name: self.costs.microjoules(name, self.deployment.range) for name in MODELS}
