"""What a round is: one frozen object for the parties, one for what a client insists on.

:class:`Params` is the same for every party; its digest goes into every key and every associated
data. :class:`Policy` is a client's own and is never sent: whatever the server says, a client leaves
a round that does not meet it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np

from privagg import keys
from privagg._validate import proportion, whole
from privagg.encoding import Encoding
from privagg.errors import CapacityError, UsageError
from privagg.prg import Suite
from privagg.protocols._common.cohort import (
    check_min_cohort,
    choice,
    declared_encoding,
    two_are_honest,
)
from privagg.protocols.secagg import thresholds
from privagg.protocols.secagg.identity import Directory, Roster
from privagg.protocols.secagg.thresholds import Graph, Threat

__all__ = ["MAX_CLIENTS", "PROTOCOL_VERSION", "Params", "Policy"]

PROTOCOL_VERSION = 1
"""Version of the messages and key derivations; parties of different versions cannot talk."""

MAX_CLIENTS = 2**20
"""Shares are evaluated at the points 1 ... clients; a million is what the planner is tested for."""

MAX_DIM = 2**40
"""More coordinates than this cannot be counted in the messages."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """Everything that the parties of one round must agree on. Validated when built.

    Build it with :meth:`recommend`, which fills in what the planner computes.

    Parameters
    ----------
    clients : int
        Size of the cohort that is invited, N; clients are numbered from 0.
    dim : int
        Coordinates of each client's vector, without the weight.
    encoding : Encoding
        How numbers become elements of Z/2**b.
    threshold : int
        Shares that rebuild a secret, t. Fewer than t holders together learn nothing of it.
    corrupt : int
        Clients that may collude with the server (all of them together) without learning more than
        the sum.
    dropout : float
        Fraction of the clients that may be gone at the end of the round.
    min_cohort : int
        The server gives up if fewer inputs than this are in the sum; at least ``corrupt + 2``, as
        from the sum over one honest input the corrupt ones read that input.
    graph : Graph
        ``complete`` (Bonawitz et al., CCS 2017) or ``sparse`` (Bell et al., CCS 2020).
    neighbours : int
        Degree k of the graph; ``clients - 1`` in the complete one.
    threat : Threat
        What the guarantee is against. ``semi-honest``: everyone follows the protocol.
        ``active`` (complete graph): server and corrupt clients do as they like.
        ``semi-malicious`` (sparse graph): they do, once the keys have been collected honestly.
    prg : Suite
        The mask stream.
    sigma, eta : int
        Statistical security and correctness of the sparse graph, in bits: the guarantee fails with
        probability below ``2**-sigma`` and the round below ``2**-eta``.

    Raises
    ------
    UsageError
        If a value is out of its range or the combination is insecure or cannot finish.
    CapacityError
        If a sum could wrap around the modulus.
    """

    clients: int
    dim: int
    encoding: Encoding
    threshold: int
    corrupt: int
    dropout: float
    min_cohort: int
    graph: Graph = Graph.COMPLETE
    neighbours: int
    threat: Threat = Threat.SEMI_HONEST
    prg: Suite = Suite.AES128_CTR
    sigma: int = 40
    eta: int = 20

    def __post_init__(self) -> None:
        # Plain Python types throughout: what is equal must have one digest.
        self._whole("clients", 2, MAX_CLIENTS)
        self._whole("dim", 1, MAX_DIM)
        self._whole("corrupt", 0, self.clients - 1)
        self._whole("min_cohort", 2, self.clients)
        self._whole("threshold", 1, self.clients)
        self._whole("neighbours", 1, self.clients - 1)
        self._whole("sigma", 1, 128)
        self._whole("eta", 1, 128)
        object.__setattr__(self, "dropout", proportion("dropout", self.dropout))
        if type(self.encoding) is not Encoding:
            raise UsageError("encoding", self.encoding, "an Encoding")
        for name, kind in (("graph", Graph), ("threat", Threat), ("prg", Suite)):
            # A string that equals a member would take the other branch of every ``is``.
            if not isinstance(getattr(self, name), kind):
                raise UsageError(name, getattr(self, name), f"a member of {kind.__name__}")
        _graph_fits_threat(self.graph, self.threat)
        _ = self.modulus_bits  # raises CapacityError where nothing fits
        if self.graph is Graph.COMPLETE:
            if self.neighbours != self.clients - 1:
                raise UsageError(
                    "neighbours",
                    self.neighbours,
                    f"{self.clients - 1} in the complete graph of {self.clients} clients",
                    "Leave it out, or choose graph='sparse'.",
                )
            thresholds.check_complete(
                self.clients,
                corrupt=self.corrupt,
                dropout=self.dropout,
                threshold=self.threshold,
                threat=self.threat,
            )
        else:
            thresholds.check_sparse(
                self.clients,
                corrupt=self.corrupt,
                dropout=self.dropout,
                neighbours=self.neighbours,
                threshold=self.threshold,
                threat=self.threat,
                sigma=self.sigma,
                eta=self.eta,
            )
        check_min_cohort(
            clients=self.clients,
            corrupt=self.corrupt,
            dropout=self.dropout,
            expected=self.clients - thresholds.dropouts(self.clients, self.dropout),
            min_cohort=self.min_cohort,
        )

    def _whole(self, name: str, low: int, high: int) -> None:
        object.__setattr__(self, name, whole(name, getattr(self, name), low, high))

    @classmethod
    def recommend(
        cls,
        *,
        clients: int,
        dim: int,
        value_bits: int = 16,
        signed: bool = False,
        clip: float | None = None,
        weighted: bool = False,
        max_weight: int | None = None,
        corrupt: float = 0.05,
        dropout: float = 0.05,
        threat: Threat | str = Threat.SEMI_HONEST,
        graph: Graph | str = Graph.COMPLETE,
        threshold: int | None = None,
        neighbours: int | None = None,
        min_cohort: int | None = None,
        prg: Suite | str = Suite.AES128_CTR,
        sigma: int = 40,
        eta: int = 20,
    ) -> Params:
        """Return parameters that cannot overflow, keep the guarantee and can finish.

        Parameters
        ----------
        clients, dim : int
            Cohort and coordinates.
        value_bits : int
            Bits of one value: integers in ``[0, 2**value_bits)``, or levels of a float.
        signed : bool
            Integers in ``[-2**(value_bits-1), 2**(value_bits-1))`` instead.
        clip : float, optional
            Values are floats in ``[-clip, clip]``; left out, they are integers.
        weighted : bool
            Each client has a weight; the sum of the weights is all that is learned of them.
        max_weight : int, optional
            Largest weight; required when `weighted`.
        corrupt, dropout : float
            Fractions of the clients: colluding with the server, and gone by the end.
        threat, graph, prg : str
            See the class.
        threshold, neighbours, min_cohort : int, optional
            Your own choice instead of the planner's; checked alike.
        sigma, eta : int
            See the class.

        Returns
        -------
        Params

        Raises
        ------
        UsageError, CapacityError
            As the class; the message says the nearest value that works.
        """
        clients = whole("clients", clients, 2, MAX_CLIENTS)
        threat = choice("threat", threat, Threat)
        graph = choice("graph", graph, Graph)
        suite = choice("prg", prg, Suite)
        _graph_fits_threat(graph, threat)
        encoding = declared_encoding(
            value_bits, signed=signed, clip=clip, weighted=weighted, max_weight=max_weight
        )
        corrupt_clients = thresholds.corrupted(clients, corrupt)
        if graph is Graph.COMPLETE:
            if neighbours is None:
                neighbours = clients - 1
            if threshold is None:
                threshold = thresholds.choose_complete(
                    clients, corrupt=corrupt_clients, dropout=dropout, threat=threat
                )
        elif neighbours is None or threshold is None:
            chosen = thresholds.choose_sparse(
                clients, corrupt=corrupt, dropout=dropout, threat=threat, sigma=sigma, eta=eta
            )
            neighbours = chosen.neighbours if neighbours is None else neighbours
            threshold = chosen.threshold if threshold is None else threshold
        if min_cohort is None:
            # Where this leaves fewer than two honest inputs, so would every other choice.
            expected = clients - thresholds.dropouts(clients, dropout)
            min_cohort = max(2, min((clients + corrupt_clients) // 2 + 1, expected))
        return cls(
            clients=clients,
            dim=dim,
            encoding=encoding,
            threshold=threshold,
            corrupt=corrupt_clients,
            dropout=dropout,
            min_cohort=min_cohort,
            graph=graph,
            neighbours=neighbours,
            threat=threat,
            prg=suite,
            sigma=sigma,
            eta=eta,
        )

    @property
    def holders(self) -> int:
        """Parties that hold shares of one client's secrets if nobody leaves, itself included."""
        return self.clients if self.graph is Graph.COMPLETE else self.neighbours

    @property
    def views_signed(self) -> bool:
        """Whether clients sign views of their neighbours: in the signed sparse graph."""
        return self.signed and self.graph is Graph.SPARSE

    @property
    def honest_inputs(self) -> int:
        """Honest inputs, the client's own included, in any sum learned of it: 2 or more.

        As many as the cohort's minimum leaves when the corrupt are taken out; in a semi-malicious
        round, where a server can choose who has left when it knows the graph, only the honest
        neighbours that are certain to be in it: at least t - c of its k, where c bounds the corrupt
        ones among them (but for ``2**-sigma``).
        """
        if not self.views_signed:
            return self.min_cohort - self.corrupt
        held = thresholds.max_corrupt_holders(
            self.clients, self.corrupt, self.neighbours, self.sigma
        )
        return self.threshold - held + 1

    @property
    def signed(self) -> bool:
        """Whether messages are signed: in every threat model but the semi-honest one."""
        return self.threat is not Threat.SEMI_HONEST

    @property
    def modulus_bits(self) -> int:
        """Bits b of the modulus 2**b: no sum wraps, but of residues, which are meant to."""
        bits: int = self.encoding.modulus_bits(self.clients)
        return bits

    @property
    def word(self) -> np.dtype[np.uint32] | np.dtype[np.uint64]:
        """The dtype that holds one ring element: uint32 up to 32 bits, else uint64."""
        return self.encoding.word(self.clients)

    @property
    def length(self) -> int:
        """Coordinates of the masked vector: `dim`, and one for the weight."""
        return self.encoding.length(self.dim)

    @property
    def raw_bytes(self) -> float:
        """Bytes of one client's vector as it is: dim * value_bits / 8."""
        return self.dim * self.encoding.value_bits / 8

    def digest(self) -> bytes:
        """Return SHA-256 over the canonical form of every field; it binds all keys and messages."""
        return _digest(self)

    def capacity(self) -> int:
        """Return how many clients could add their largest input before the sum wraps.

        Where it is meant to wrap, as many as there may be at all.

        Raises
        ------
        CapacityError
            If no client could.
        """
        if self.encoding.kind == "ring":
            return MAX_CLIENTS
        per_client = self.encoding.max_weight * ((1 << self.encoding.value_bits) - 1)
        clients = ((1 << self.modulus_bits) - 1) // per_client
        if clients < self.clients:
            raise CapacityError("clients", self.clients, f"at most {clients} for this modulus")
        return clients


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What one client insists on, whatever the server says. It stays with the client.

    Parameters
    ----------
    min_cohort : int
        Fewest inputs that may be in a sum that this client's input is in; at least
        ``max_corrupt + 2``.
    max_corrupt : int
        Clients that may collude with the server: the threshold must exceed the shares of one
        secret that so many can hold.
    roster : Directory or tuple of bytes, optional
        The identities of the clients allowed, by index: a :class:`Roster`, its Ed25519 public keys
        (32 bytes each), or another PKI behind the same methods. Required where the threat model has
        signatures; in a semi-honest round only their number is checked.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    min_cohort: int
    max_corrupt: int
    roster: Directory | None = None

    def __post_init__(self) -> None:
        for name, low in (("min_cohort", 2), ("max_corrupt", 0)):
            object.__setattr__(self, name, whole(name, getattr(self, name), low, MAX_CLIENTS))
        two_are_honest(self.min_cohort, self.max_corrupt)
        if isinstance(self.roster, tuple | list):
            object.__setattr__(self, "roster", Roster(self.roster))
        if self.roster is not None and not isinstance(self.roster, Directory):
            raise UsageError("roster", type(self.roster).__name__, "a Roster or a Directory")

    @classmethod
    def of(cls, params: Params, roster: Directory | None = None) -> Policy:
        """Return the policy that asks for exactly what `params` promises."""
        return cls(min_cohort=params.min_cohort, max_corrupt=params.corrupt, roster=roster)


def _graph_fits_threat(graph: Graph, threat: Threat) -> None:
    if threat is Threat.ACTIVE and graph is not Graph.COMPLETE:
        raise UsageError(
            "graph",
            graph.value,
            "complete, against an active server",
            "In the sparse graph a server that also lies while it collects the keys can surround a "
            "client with its own; choose threat='semi-malicious', which assumes honest key "
            "collection, or the complete graph.",
        )
    if threat is Threat.SEMI_MALICIOUS and graph is not Graph.SPARSE:
        raise UsageError(
            "graph",
            graph.value,
            "sparse, against a semi-malicious server",
            "In the complete graph choose threat='active': it assumes less and costs the same.",
        )


@lru_cache(maxsize=64)
def _digest(params: Params) -> bytes:
    """Every message's first check asks for it, and it never changes."""
    fields = dataclasses.asdict(params)
    return keys.digest(b"privagg secagg params", msgspec.json.encode(fields, order="sorted"))
