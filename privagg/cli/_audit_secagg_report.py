"""An audited round as a report: JSON for programs; tables, plots and plain words for people."""

from __future__ import annotations

from privagg.attacks.secagg import Audit
from privagg.attacks.secagg_coalitions import Size
from privagg.attacks.secagg_findings import DEVIATIONS, NOTICES, Finding
from privagg.cli._secagg_shared import count, guarantee
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.transcript_file import Header
from privagg.report import Cell, Column, Plot, Reference, Report, Series, Table

__all__ = ["report"]

_SHOWN = 12
"""So many findings, and so many clients of a list, are in the tables; the JSON has all."""

_EXACT = 2**53
"""JSON readers round larger integers."""

LIMITS = (
    "The audit sees what an observer of all traffic sees, and believes that the transcript holds "
    "all of it.",
    "Edges of the graph are read from the key rosters that clients were shown.",
    "It counts who knows which masks and shares; what a sum says of the inputs in it is not "
    "counted, nor what is known from other rounds.",
)


def report(audit: Audit, header: Header, name: str) -> Report:
    """Report an audit.

    Parameters
    ----------
    audit : Audit
        The audit.
    header : Header
        Of the transcript.
    name : str
        The transcript's name.
    """
    return Report(
        title=f"Audit of a secure aggregation round: {name}",
        data=_data(audit, header),
        tables=[
            _threshold_table(audit),
            Table(
                "Who answered",
                ["round", "clients"],
                [[round, len(who)] for round, who in audit.cohorts.items()],
            ),
            _sybil_table(audit),
            _coalition_table(audit),
            *([_finding_table(audit)] if audit.findings else []),
        ],
        plots=_plots(audit),
        notes=[
            f"Claimed: {guarantee(audit.params)}.",
            *_notes(audit, header),
            *LIMITS,
        ],
        verdict=_verdict(audit),
    )


def _data(audit: Audit, header: Header) -> dict[str, object]:
    params, thresholds, sybils = audit.params, audit.thresholds, audit.sybils
    smallest = audit.smallest
    return {
        "protocol": "secagg",
        "threat": params.threat.value,
        "graph": params.graph.value,
        "clients": params.clients,
        "neighbours": params.neighbours,
        "thresholds": {
            "threshold": thresholds.threshold,
            "min_cohort": thresholds.min_cohort,
            "corrupt": thresholds.corrupt,
            "holders_least": thresholds.holders[0],
            "holders_most": thresholds.holders[1],
            "corrupt_holders": thresholds.corrupt_holders,
            "margin": thresholds.margin,
        },
        "cohorts": {round: len(who) for round, who in audit.cohorts.items()},
        "inputs": len(audit.inputs),
        "honest_set": audit.honest_set,
        "sybils": {
            "signed": sybils.signed,
            "pinned": sybils.pinned,
            "cohort": len(sybils.cohort),
            "vouched": len(sybils.vouched),
            "unsigned": len(sybils.unsigned),
            "forged": sybils.forged,
            "signed_by_another": {str(k): v for k, v in sybils.signed_by_another.items()},
            "unknown": sybils.unknown,
            "missing": sybils.missing,
            "strangers": sybils.strangers,
            "share_outside": sybils.share_outside,
        },
        "coalitions": [_size(size) for size in audit.sizes],
        "smallest_coalition": None
        if smallest is None
        else {
            "size": len(smallest.coalition),
            "coalition": smallest.coalition,
            "victim": smallest.victim,
            "by": smallest.by,
            "exact": smallest.exact,
        },
        "exposed": audit.exposed,
        "chance": audit.chance,
        "max_exposed": audit.max_exposed,
        "adaptive": audit.adaptive,
        "leak": audit.leak,
        "deviations": len(audit.deviations),
        "findings": [_finding(finding) for finding in audit.findings],
        "messages": audit.messages,
        "aborted": header.aborted,
        "insecure_seed": header.insecure_seed,
        "limits": LIMITS,
    }


def _size(size: Size) -> dict[str, object]:
    return {
        "size": size.size,
        "coalitions": size.total if size.total < _EXACT else None,
        "tried": size.tried,
        "method": size.method,
        "exposed": size.exposed,
        "smallest_sum": size.smallest,
        "fraction": size.fraction,
        "smallest_sum_drawn": size.smallest_drawn,
        "coalition": size.coalition,
        "victim": size.victim,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "deviation": finding.is_deviation,
        "peer": finding.peer,
        "round": finding.round,
        "detail": finding.detail,
        "clients": finding.clients,
        "seen_by": finding.seen_by,
        "caught": finding.caught,
        "messages": finding.messages,
    }


def _threshold_table(audit: Audit) -> Table:
    thresholds = audit.thresholds
    least, most = thresholds.holders
    rows: list[list[Cell]] = [
        ["shares that rebuild a secret, t", thresholds.threshold],
        ["fewest inputs in a sum", thresholds.min_cohort],
        ["clients that may collude with the server", thresholds.corrupt],
        ["fewest holders of a client's shares", least],
        ["most holders of a client's shares, N", most],
        ["of them corrupt at most", thresholds.corrupt_holders],
        ["margin 2t - N - corrupt", thresholds.margin],
        ["inputs sent", len(audit.inputs)],
        ["honest inputs among which each hides", audit.honest_set],
    ]
    return Table("Thresholds in force", ["what", "value"], rows)


def _sybil_table(audit: Audit) -> Table:
    sybils = audit.sybils
    rows: list[list[Cell]] = [
        ["advertised keys", len(sybils.cohort), ""],
        ["vouched for by the roster", len(sybils.vouched), ""],
        ["unsigned", len(sybils.unsigned), ""],
        ["signature is not of the identity", len(sybils.forged), _ids(sybils.forged)],
        ["identity is not in the roster", len(sybils.unknown), _ids(sybils.unknown)],
        ["index beyond the cohort", len(sybils.strangers), _ids(sybils.strangers)],
        ["of the roster, absent", len(sybils.missing), _ids(sybils.missing)],
    ]
    return Table("Identities", ["clients", "number", "which"], rows)


def _coalition_table(audit: Audit) -> Table:
    heads: list[Column | str] = [
        "colluding",
        "clients exposed at worst",
        "smallest honest sum at worst",
        "coalitions exposing any",
        "method",
    ]
    rows: list[list[Cell]] = [
        [
            size.size,
            size.exposed,
            size.smallest,
            "-" if size.fraction is None else f"{size.fraction:.3g}",
            size.method,
        ]
        for size in audit.sizes
    ]
    return Table("What the server and so many clients learn", heads, rows)


def _finding_table(audit: Audit) -> Table:
    said = {True: "stopped", False: "went on", None: "-"}
    rows: list[list[Cell]] = [
        [
            finding.round,
            f"client {finding.peer}" if isinstance(finding.peer, int) else finding.peer,
            finding.kind,
            finding.detail,
            _ids(finding.clients),
            finding.seen_by,
            said[finding.caught],
        ]
        for finding in audit.findings[:_SHOWN]
    ]
    heads = ["round", "peer", "what", "detail", "clients", "seen by", "those who saw it"]
    more = len(audit.findings) - _SHOWN
    title = "What was found" + (f" (and {more} more)" if more > 0 else "")
    return Table(title, heads, rows)


def _ids(clients: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, clients[:_SHOWN]))
    return shown + (", ..." if len(clients) > _SHOWN else "")


def _plots(audit: Audit) -> list[Plot]:
    sizes = audit.sizes
    bound = Reference(audit.params.corrupt, "corrupt bound", axis="x")
    label = "clients colluding with the server"
    plots = [
        Plot(
            kind="line",
            title="Clients exposed",
            x_label=label,
            y_label="clients whose input is known at worst",
            series=[Series("at worst", [s.size for s in sizes], [s.exposed for s in sizes])],
            references=[bound],
        )
    ]
    known = [size for size in sizes if size.smallest is not None]
    if known:
        series = [Series("at worst", [s.size for s in known], [s.smallest or 0 for s in known])]
        drawn = [size for size in known if size.method.startswith("greedy")]
        if drawn:
            xs, ys = [s.size for s in drawn], [s.smallest_drawn or 0 for s in drawn]
            series.append(Series("of random coalitions", xs, ys))
        plots.insert(
            0,
            Plot(
                kind="line",
                title="Smallest honest sum",
                x_label=label,
                y_label="honest inputs in the smallest known sum",
                series=series,
                references=[bound],
            ),
        )
    return plots


def _notes(audit: Audit, header: Header) -> list[str]:
    notes = []
    smallest, sybils = audit.smallest, audit.sybils
    if smallest is None:
        notes.append("No coalition that was tried learns a client's input.")
    else:
        who = count(len(smallest.coalition)) if smallest.coalition else "no client"
        how = "as it holds t shares" if smallest.by == "shares" else "as it is all its neighbours"
        rank = "The smallest coalition that learns" if smallest.exact else "Found to learn"
        notes.append(
            f"{rank} one client's input: the server and {who} "
            f"({_ids(smallest.coalition) or 'itself alone'}), client {smallest.victim}'s, {how}."
        )
    if audit.params.graph is Graph.SPARSE:
        notes.append(
            "The sparse graph withstands coalitions that were chosen without knowing it, but for a "
            f"chance of 2**-{audit.params.sigma}; the worst ones are chosen with it in view"
            + (" and count, as asked." if audit.adaptive else " and do not count as a leak.")
        )
    if not sybils.signed:
        notes.append(
            "Nothing is signed in a semi-honest round: whether the clients are who they seem, and "
            "not the server's own, cannot be told."
        )
    elif not sybils.pinned:
        notes.append("Identities were compared with the transcript's own roster: pin one.")
    if sybils.outside:
        who = count(len(sybils.outside))
        notes.append(f"{who} outside of the roster counted as the server's.".capitalize())
    if header.aborted is not None:
        notes.append(f"The round was aborted: {header.aborted}.")
    if header.insecure_seed:
        notes.append("The round's secrets came from a seed: whoever knows it knows every input.")
    for kind in dict.fromkeys(finding.kind for finding in audit.findings):
        notes.append(f"{kind}: {(DEVIATIONS | NOTICES)[kind]}.")
    return notes


def _verdict(audit: Audit) -> str:
    bound = audit.at_bound.size
    whom = f"the server and {count(bound)}" if bound else "the server alone"
    if audit.leak:
        first = f"LEAK: {whom} learn the input of {count(audit.exposed)}, against {{}} allowed."
        first = first.format(audit.max_exposed)
    elif audit.at_bound.smallest is None:
        first = f"No sum is known to {whom}."
    else:
        inputs = audit.at_bound.smallest_drawn or audit.at_bound.smallest
        first = f"To {whom} each honest input hides in a sum of at least {inputs}"
        sampled = audit.at_bound.method.startswith("greedy") and not audit.adaptive
        first += ", where coalitions are drawn at random." if sampled else "."
    deviations = len(audit.deviations)
    if not deviations:
        return f"{first} Nobody left the protocol."
    rounds = ", ".join(dict.fromkeys(finding.round for finding in audit.deviations))
    times = "once" if deviations == 1 else f"{deviations} times"
    return f"{first} The protocol was left {times}: {rounds}."
