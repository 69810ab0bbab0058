"""What the server chooses for its rounds, and what it reports of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from privagg._validate import proportion, whole
from privagg.errors import UsageError
from privagg.integrations.flower.ranges import Job, Ranges
from privagg.protocols.secagg import Directory, Graph, Params, Threat

__all__ = ["RoundReport", "Settings"]

_MAX_SECONDS = 10**7


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The server's choices for every round; what clients insist on is in their own policies.

    Parameters
    ----------
    ranges : Ranges
        The same as the clients'.
    roster : Directory, optional
        The identities of all nodes that may ever take part; required unless semi-honest.
    threat : Threat or str
        ``active`` (the default) or ``semi-malicious`` with a roster, or, said by its name,
        ``semi-honest``.
    graph : Graph or str, optional
        ``complete``, or ``sparse`` for hundreds of nodes and more; by default what the threat
        model needs.
    corrupt, dropout : float
        Fractions of a round's nodes: colluding with the server, and gone by its end.
    min_cohort, threshold : int, optional
        Your own choice instead of the planner's; checked alike.
    value_bits : int
        Levels of one coordinate, as bits: a step is ``2 * clip / (2**value_bits - 1)``.
    deadline : float
        Seconds that one round of the protocol waits for answers, at most.
    training_deadline : float
        The same for the round in which clients train or evaluate.
    on_abort : {"skip", "raise"}
        What becomes of a Flower round whose protocol aborts: the strategy gets no replies and keeps
        its model, with a warning in the log and the reason in the report; or the error is raised.

    Raises
    ------
    UsageError
        If a value is out of its range, or signatures are asked for without a roster.
    """

    ranges: Ranges
    roster: Directory | None = None
    threat: Threat | str = Threat.ACTIVE
    graph: Graph | str | None = None
    corrupt: float = 0.05
    dropout: float = 0.2
    min_cohort: int | None = None
    threshold: int | None = None
    value_bits: int = 16
    deadline: float = 60.0
    training_deadline: float = 600.0
    on_abort: Literal["skip", "raise"] = "skip"

    def __post_init__(self) -> None:
        if not isinstance(self.ranges, Ranges):
            raise UsageError("ranges", type(self.ranges).__name__, "Ranges")
        threat = threat_of(self.threat)
        object.__setattr__(self, "threat", threat)
        if self.graph is None:
            graph = Graph.SPARSE if threat is Threat.SEMI_MALICIOUS else Graph.COMPLETE
            object.__setattr__(self, "graph", graph)
        if threat is not Threat.SEMI_HONEST and not isinstance(self.roster, Directory):
            raise UsageError(
                "roster",
                type(self.roster).__name__,
                f"the nodes' identities, where the threat model is {threat.value}",
                "Make them with `privagg keys new`, or say threat='semi-honest': then the server "
                "is trusted to follow the protocol.",
            )
        for name in ("corrupt", "dropout"):
            object.__setattr__(self, name, proportion(name, getattr(self, name)))
        object.__setattr__(self, "value_bits", whole("value_bits", self.value_bits, 1, 32))
        for name in ("deadline", "training_deadline"):
            object.__setattr__(self, name, _seconds(name, getattr(self, name)))
        if self.on_abort not in ("skip", "raise"):
            raise UsageError("on_abort", self.on_abort, "'skip' or 'raise'")

    def params(self, clients: int, dim: int) -> Params:
        """Return the parameters of one round, which are checked as they are made.

        Raises
        ------
        UsageError, CapacityError
            As :meth:`privagg.protocols.secagg.Params.recommend`.
        """
        return Params.recommend(
            clients=clients,
            dim=dim,
            value_bits=self.value_bits,
            clip=1.0,  # coordinates are scaled by their own ranges
            weighted=True,
            max_weight=self.ranges.max_weight,
            corrupt=self.corrupt,
            dropout=self.dropout,
            threat=self.threat,
            graph=Graph.COMPLETE if self.graph is None else self.graph,
            threshold=self.threshold,
            min_cohort=self.min_cohort,
        )


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """What became of one Flower round.

    Attributes
    ----------
    job : {"train", "evaluate"}
        What was aggregated.
    cohort : int
        Nodes that were asked.
    params : Params or None
        Of the protocol; None if it did not come to that.
    survivors : dict of round name to int
        How many answered each round.
    count, weight_total : int
        Nodes in the mean, and the sum of their weights; 0 if the round aborted.
    bytes_up, bytes_down : dict of round name to int
        The protocol's encoded messages over all nodes, without Flower's framing and the model.
    seconds : float
        From the first message to the last.
    failures : dict of str to int
        Redacted reasons in error replies, and time-outs, with how often each occurred.
    error : str
        Why the round aborted; empty if it did not.
    """

    job: Job
    cohort: int
    params: Params | None = None
    survivors: dict[str, int] = field(default_factory=dict)
    count: int = 0
    weight_total: int = 0
    bytes_up: dict[str, int] = field(default_factory=dict)
    bytes_down: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    error: str = ""


def threat_of(value: Threat | str) -> Threat:
    """Return the threat model of this name.

    Raises
    ------
    UsageError
        If there is none.
    """
    try:
        return Threat(value)
    except ValueError:
        names = ", ".join(threat.value for threat in Threat)
        raise UsageError("threat", value, names) from None


def _seconds(name: str, value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= _MAX_SECONDS
    ):
        raise UsageError(name, value, f"seconds, above 0 and up to {_MAX_SECONDS}")
    return float(value)
