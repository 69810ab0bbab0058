"""Audit a secure aggregation round from its transcript: who could learn what, and who cheated.

:func:`audit` takes what an observer of all traffic sees and answers four questions: among how many
honest inputs each input is hidden, what coalitions of clients and the server learn, whether the
clients are those of a roster one trusts, and where a peer left the protocol and whether anyone in
the round could notice.

Source of what is looked for: Bonawitz et al., CCS 2017, section 6; Bell et al., CCS 2020; Pasquini,
Francati and Ateniese, "Eluding Secure Aggregation in Federated Learning via Model Inconsistency",
CCS 2022.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from privagg._validate import whole
from privagg.attacks.secagg_coalitions import Search, Size, Smallest
from privagg.attacks.secagg_compare import Comparison
from privagg.attacks.secagg_exposure import Knowledge
from privagg.attacks.secagg_findings import Finding, merge
from privagg.attacks.secagg_replay import Record, replay
from privagg.attacks.secagg_shadow import Rules
from privagg.attacks.secagg_shares import check_shares
from privagg.attacks.secagg_sybils import Sybils, find_sybils
from privagg.errors import UsageError
from privagg.protocols.secagg import thresholds
from privagg.protocols.secagg.identity import Roster
from privagg.protocols.secagg.layout import DIGEST_BYTES
from privagg.protocols.secagg.messages import MaskedInput, ShareKeys, Start
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import SEQUENCES, SERVER_TABLE
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.transcript import Transcript

__all__ = ["Audit", "Thresholds", "audit"]

_REPLY_OF = {phase: kind for kind, phase in SERVER_TABLE.items()}

_GRID = 24
"""Sizes of coalitions on the curve, beside the telling ones."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """What was in force.

    Attributes
    ----------
    threshold : int
        Shares that rebuild a secret, t.
    min_cohort : int
        Fewest inputs in a sum.
    corrupt : int
        Clients that may collude with the server.
    holders : (int, int)
        Fewest and most parties that a client gave shares of its secrets, itself included where it
        keeps one.
    corrupt_holders : int
        How many of one client's holders may be corrupt: all the corrupt in the complete graph; in
        the sparse one as many as are among its neighbours but for ``2**-sigma``.
    margin : int or None
        ``2 t - holders - corrupt_holders`` at the most holders, where messages are signed: positive
        if no server can get both kinds of share of one client.
    """

    threshold: int
    min_cohort: int
    corrupt: int
    holders: tuple[int, int]
    corrupt_holders: int
    margin: int | None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What a transcript says.

    Attributes
    ----------
    params : Params
        The round.
    findings : tuple of Finding
        Deviations and notices.
    thresholds : Thresholds
        What was in force.
    cohorts : dict of str to tuple of int
        Per round the clients that answered.
    sybils : Sybils
        The cohort against the roster.
    sizes : tuple of Size
        What coalitions learn, by size, ascending.
    smallest : Smallest or None
        The smallest coalition that learns one client's input.
    max_exposed : int
        Clients that may be exposed by a coalition up to the corrupt bound.
    adaptive : bool
        Whether coalitions count that were chosen with the graph in view.
    messages : int
        Messages in the transcript.
    """

    params: Params
    findings: tuple[Finding, ...]
    thresholds: Thresholds
    cohorts: dict[str, tuple[int, ...]]
    sybils: Sybils
    sizes: tuple[Size, ...] = field(repr=False)
    smallest: Smallest | None
    max_exposed: int
    adaptive: bool
    messages: int

    @property
    def inputs(self) -> tuple[int, ...]:
        """Clients whose masked input was sent."""
        return self.cohorts[MaskedInput.round]

    @property
    def deviations(self) -> tuple[Finding, ...]:
        """Findings that are someone's fault."""
        return tuple(finding for finding in self.findings if finding.is_deviation)

    @property
    def honest_set(self) -> int:
        """Inputs that one hides among: those sent, without the corrupt and those unvouched for."""
        outside = len(set(self.inputs) & set(self.sybils.outside))
        return max(len(self.inputs) - outside - self.params.corrupt, 0)

    @property
    def at_bound(self) -> Size:
        """What coalitions at the corrupt bound learn."""
        return next(
            size
            for size in self.sizes
            if size.size == min(self.params.corrupt, self.sizes[-1].size)
        )

    @property
    def exposed(self) -> int:
        """Most clients exposed by one coalition up to the corrupt bound, chosen at will."""
        bound = self.at_bound.size
        worst = max(size.exposed for size in self.sizes if size.size <= bound)
        found = self.smallest is not None and len(self.smallest.coalition) <= bound
        return max(worst, int(found))

    @property
    def chance(self) -> float:
        """Fraction of the coalitions at the bound that expose more clients than allowed."""
        size = self.at_bound
        if size.fraction is None:
            return float(size.exposed > self.max_exposed)
        return size.fraction

    @property
    def leak(self) -> bool:
        """Whether more is exposed than allowed, by coalitions that the guarantee speaks of.

        In the complete graph these are all up to the corrupt bound. In the sparse one they are
        those that were chosen without knowing the graph: their chance must stay below
        ``2**-sigma``. With `adaptive` all count there, too.
        """
        if self.params.graph is Graph.COMPLETE or self.adaptive or self.sizes[0].exposed:
            return self.exposed > self.max_exposed
        return self.chance > 2.0**-self.params.sigma


def audit(
    transcript: Transcript,
    *,
    params: Params,
    roster: Roster | None = None,
    pinned: Roster | None = None,
    model: bytes = b"",
    max_exposed: int = 0,
    adaptive: bool = False,
    seed: int = 0,
) -> Audit:
    """Audit one round.

    Sees what an observer of all traffic sees, and believes that the transcript holds all of it as
    it was sent. Edges of the graph are read from the rosters that clients were shown; secrets that
    never travel are not known, so whether a ciphertext was made well is only seen when its holder
    complains or a share turns out wrong. What the sum itself says of an input is not its subject.

    Parameters
    ----------
    transcript : Transcript
        With payloads.
    params : Params
        The round's parameters.
    roster : Roster, optional
        The identities by which messages are signed; required where they are.
    pinned : Roster, optional
        Those that the auditor trusts, in any order; by default `roster`.
    model : bytes
        Digest of the shared parameters that the clients were given, or empty.
    max_exposed : int
        Clients that a coalition up to the corrupt bound may expose before it is a leak.
    adaptive : bool
        In the sparse graph: count coalitions chosen with the graph in view. The protocol does not
        claim to withstand them.
    seed : int
        Of the random coalitions.

    Returns
    -------
    Audit
        What was found, with what it takes to repeat it.

    Raises
    ------
    UsageError
        If the transcript has no payloads or files a message wrongly, or an argument does not fit.
    """
    if not isinstance(transcript, Transcript):
        raise UsageError("transcript", type(transcript).__name__, "a Transcript")
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "secagg.Params")
    for name, value in (("roster", roster), ("pinned", pinned)):
        if value is not None and not isinstance(value, Roster):
            raise UsageError(name, type(value).__name__, "a Roster, or None")
    if not isinstance(model, bytes) or len(model) not in (0, DIGEST_BYTES):
        raise UsageError("model", type(model).__name__, "32 bytes, or none")
    whole("max_exposed", max_exposed, 0, params.clients)
    whole("seed", seed, 0, 2**64 - 1)
    if params.signed and (roster is None or len(roster) != params.clients):
        raise UsageError(
            "roster",
            "none" if roster is None else f"{len(roster)} identities",
            f"the {params.clients} identities by which the messages are signed",
        )
    record = replay(transcript, Rules(params, roster, model))
    if not record.have_said(MaskedInput) and not any(
        Start in shadow.shown for shadow in record.shadows.values()
    ):
        raise UsageError("transcript", "no round", "at least the invitation of a client")
    comparison = Comparison(record)
    findings = [*record.findings, *comparison.findings, *check_shares(record, comparison)]
    sybils = find_sybils(record, roster, pinned)
    knowledge = Knowledge.of(record, comparison)
    search = Search(knowledge, sybils.cohort, sybils.outside, allowed=max_exposed, seed=seed)
    smallest = search.smallest()
    return Audit(
        params=params,
        findings=merge(findings),
        thresholds=_thresholds(params, record),
        cohorts={
            phase.title: record.have_said(_REPLY_OF[phase]) for phase in SEQUENCES[params.threat]
        },
        sybils=sybils,
        sizes=tuple(map(search.of_size, _grid(params, search, smallest))),
        smallest=smallest,
        max_exposed=max_exposed,
        adaptive=adaptive,
        messages=len(transcript),
    )


def _grid(params: Params, search: Search, smallest: Smallest | None) -> list[int]:
    """Return sizes of coalitions: none, the bound, where something happens, and some between."""
    most = search.most
    telling = {0, 1, 2, params.corrupt, params.threshold - 1, params.threshold, most}
    if smallest is not None:
        telling |= {len(smallest.coalition) - 1, len(smallest.coalition)}
    spread = {round(step * most / _GRID) for step in range(_GRID + 1)}
    bound = {min(params.corrupt, most)}
    return sorted(size for size in telling | spread | bound if 0 <= size <= most)


def _thresholds(params: Params, record: Record) -> Thresholds:
    held = [
        len(shadow.memory.members) for shadow in record.shadows.values() if ShareKeys in shadow.said
    ]
    corrupt = params.corrupt
    if params.graph is Graph.SPARSE:
        corrupt = thresholds.max_corrupt_holders(
            params.clients, corrupt, params.neighbours, params.sigma
        )
    most = max(held, default=params.holders)
    return Thresholds(
        threshold=params.threshold,
        min_cohort=params.min_cohort,
        corrupt=params.corrupt,
        holders=(min(held, default=0), max(held, default=0)),
        corrupt_holders=corrupt,
        margin=2 * params.threshold - most - corrupt if params.signed else None,
    )
