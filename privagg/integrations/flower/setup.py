"""What the server tells a client at the start of a round, and how the client reads it.

The client takes nothing of it on trust: see :func:`accepted`. Its bytes are bound into the masks,
so clients that were told different things add masks that do not cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import msgspec

from privagg import keys
from privagg.encoding import Encoding
from privagg.errors import PeerError, UsageError
from privagg.integrations.flower.ranges import Job, Ranges
from privagg.prg import Suite
from privagg.protocols.secagg import Directory, Graph, Params, Threat

__all__ = [
    "KEY",
    "REASONS",
    "Setup",
    "SubRoster",
    "accepted",
    "bound_model",
    "enrol_statement",
    "read",
    "write",
]

KEY = "privagg.secagg"
"""Name of the record that carries the protocol in Flower's messages, and of a client's state."""

REASONS = {
    "refused": "privagg: refused what the server sent",
    "aborted": "privagg: too few nodes are left",
    "unfit": "privagg: this node's own input or configuration does not fit",
    "failed": "privagg: the client's own code failed",
}
"""All that a client says of a failure: its text could quote the client's data."""

_VERSION = 2

_LEAST_SIGMA = 40
"""What parameters are made with; with less, a sparse graph would not meet ``max_corrupt``."""

_STRENGTH = {Threat.SEMI_HONEST: 0, Threat.SEMI_MALICIOUS: 1, Threat.ACTIVE: 2}


class SubRoster:
    """The identities of one round's clients: some of a larger directory, in ascending order.

    Parameters
    ----------
    directory : Directory
        Everyone's identities.
    members : sequence of int
        Places of the round's clients in it.
    """

    def __init__(self, directory: Directory, members: Sequence[int]) -> None:
        self._directory, self._members = directory, tuple(members)

    def __len__(self) -> int:
        return len(self._members)

    def verify(self, client: int, message: bytes, signature: bytes) -> bool:
        """Say whether `signature` over `message` is that of the round's `client`."""
        if not 0 <= client < len(self._members):
            return False
        return self._directory.verify(self._members[client], message, signature)

    def digest(self) -> bytes:
        """Return 32 bytes over the whole directory and the round's places in it."""
        places = b"".join(place.to_bytes(4, "little") for place in self._members)
        return keys.digest(b"privagg flower members", self._directory.digest(), places)


class Choice(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters that a server may choose, plainly."""

    clients: int
    dim: int
    value_bits: int
    max_weight: int
    threshold: int
    corrupt: int
    dropout: float
    min_cohort: int
    graph: str
    neighbours: int
    threat: str
    prg: str
    sigma: int
    eta: int


class Setup(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that a client is told before its first message."""

    version: int
    job: str
    ranges: dict[str, Any]
    params: Choice
    members: list[int]


def write(job: Job, ranges: Ranges, params: Params, members: Sequence[int]) -> bytes:
    """Return the bytes that describe a round to its clients."""
    encoding = params.encoding
    plain = Choice(
        clients=params.clients,
        dim=params.dim,
        value_bits=encoding.value_bits,
        max_weight=encoding.max_weight,
        threshold=params.threshold,
        corrupt=params.corrupt,
        dropout=params.dropout,
        min_cohort=params.min_cohort,
        graph=params.graph.value,
        neighbours=params.neighbours,
        threat=params.threat.value,
        prg=params.prg.value,
        sigma=params.sigma,
        eta=params.eta,
    )
    return msgspec.json.encode(
        Setup(
            version=_VERSION,
            job=job,
            ranges=ranges.record(),
            params=plain,
            members=list(members),
        ),
        order="sorted",
    )


def read(data: bytes) -> tuple[Setup, Params]:
    """Read what :func:`write` wrote; parameters are validated as they are made.

    Raises
    ------
    PeerError
        If it is no such description, or its parameters are refused.
    """
    try:
        setup = msgspec.json.decode(data, type=Setup)
        plain = setup.params
        params = Params(
            clients=plain.clients,
            dim=plain.dim,
            encoding=Encoding(
                kind="float",
                value_bits=plain.value_bits,
                clip=1.0,
                max_weight=plain.max_weight,
                weighted=True,
            ),
            threshold=plain.threshold,
            corrupt=plain.corrupt,
            dropout=plain.dropout,
            min_cohort=plain.min_cohort,
            graph=Graph(plain.graph),
            neighbours=plain.neighbours,
            threat=Threat(plain.threat),
            prg=Suite(plain.prg),
            sigma=plain.sigma,
            eta=plain.eta,
        )
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # a UsageError is one
        raise PeerError("server", "setup", f"a setup that is refused: {error}") from None
    return setup, params


def accepted(
    setup: Setup,
    params: Params,
    *,
    job: Job,
    ranges: Ranges,
    threat: Threat,
    roster: Directory | None,
) -> SubRoster | None:
    """Hold what the server says against what the client declares; return the round's identities.

    The cohort's minimum and the corrupt clients are checked by the protocol's own client.

    Raises
    ------
    PeerError
        If the version, the job, a range or the threat model is another, the graph may fail more
        often than with ``2**-40``, or the members are not distinct places in the roster.
    """
    if setup.version != _VERSION:
        _refuse(f"version {setup.version}, where this client speaks {_VERSION}")
    if setup.job != job:
        _refuse(f"the job {setup.job!r} in a message of type {job}")
    ours = ranges.record()
    for name in sorted(ours | setup.ranges):
        if setup.ranges.get(name) != ours.get(name):
            _refuse(f"{name} is {setup.ranges.get(name)!r}, this client's is {ours.get(name)!r}")
    if params.encoding.max_weight != ranges.max_weight:
        _refuse("a max_weight in the parameters that is not the declared one")
    if _STRENGTH[params.threat] < _STRENGTH[threat]:
        _refuse(f"the threat model {params.threat.value}, this client insists on {threat.value}")
    if params.sigma < _LEAST_SIGMA:
        _refuse(f"sigma is {params.sigma}, this client insists on {_LEAST_SIGMA}")
    if not params.signed:
        if setup.members:
            _refuse("members in a semi-honest round")
        return None
    if roster is None:
        _refuse("signatures, where this client has no roster")
    members = setup.members
    ascending = all(low < high for low, high in pairwise(members))
    if (
        len(members) != params.clients
        or not ascending
        or not 0 <= members[0] <= members[-1] < len(roster)
    ):
        _refuse("members that are not ascending places in the roster, one per client")
    return SubRoster(roster, members)


def _refuse(reason: str) -> NoReturn:
    raise PeerError("server", "setup", reason)


def bound_model(setup: bytes, content: bytes, message_type: str, group: str) -> bytes:
    """Return the digest that masks are bound to: of what was told, given and asked for.

    The type may name one of several functions of the app (``train.other``), and the group is there
    for functions to read: both could single a node out as another model does.
    """
    asked = message_type.encode(), group.encode()
    return keys.digest(b"privagg flower model", setup, content, *asked)


def enrol_statement(nonce: bytes, place: int) -> bytes:
    """Return what a client signs to say that it is this member of the roster."""
    if len(nonce) != keys.KEY_BYTES:
        raise UsageError("nonce", f"{len(nonce)} bytes", f"{keys.KEY_BYTES} bytes")
    return keys.digest(b"privagg flower enrol", nonce, place.to_bytes(4, "little"))
