"""An audited participation log as a report: JSON for programs; tables, plots and plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privagg.attacks.linear import Audit, Exposure, Ranges, Reconstruction
from privagg.attacks.linear_advice import advice
from privagg.report import Cell, Column, Plot, Reference, Report, Series, Table

__all__ = ["Rebuilt", "leaks", "report"]

_SHOWN = 20
"""So many rows of a table are shown; the JSON has all."""

_POINTS = 400
"""Points of a curve in the plot."""

LIMITS = (
    "The audit knows who took part and with what weight, and what sums of rounds determine; it "
    "sees no input.",
    "Not linearly determined is not safe: inputs may be bounded, correlated, or known in part.",
    "A client's input is its mean over the rounds: what varies comes out as noise.",
)


@dataclass(frozen=True)
class Rebuilt:
    """A log that was found again.

    Attributes
    ----------
    found : Reconstruction
        What was found.
    interval : int
        Rounds in an interval of the counts.
    noisy : bool
        Whether inputs were taken to change.
    """

    found: Reconstruction
    interval: int
    noisy: bool


def leaks(audit: Audit, ranges: Ranges | None, max_recoverable: int, min_coalition: int) -> bool:
    """Whether more is exposed than allowed: clients, or a sum of too few."""
    exposed = set(audit.order.tolist())
    if ranges is not None:
        exposed |= {column for column, one in zip(ranges.inputs, ranges.unique, strict=True) if one}
    small = 1 < len(audit.coalition.members) < min_coalition
    return len(exposed) > max_recoverable or small


def report(
    audit: Audit,
    *,
    name: str,
    reading: str,
    max_recoverable: int,
    min_coalition: int,
    ranges: Ranges | None,
    schedules: Sequence[Exposure] | None,
    insecure_seed: bool,
    gains: bool = True,
    rebuilt: Rebuilt | None = None,
) -> Report:
    """Report an audit.

    Parameters
    ----------
    audit : Audit
        The audit.
    name, reading : str
        The file, and how it was read.
    max_recoverable, min_coalition : int
        What is allowed.
    ranges : Ranges or None
        Of bounded inputs.
    schedules : sequence of Exposure, or None
        Others to compare with.
    insecure_seed : bool
        Whether the primes came from a seed.
    gains : bool
        Whether noise gains are computed.
    rebuilt : Rebuilt, optional
        How the log was found, where it was not given.
    """
    leak = leaks(audit, ranges, max_recoverable, min_coalition)
    verdict = _verdict(audit, ranges, max_recoverable, min_coalition, gains)
    if rebuilt is not None:
        verdict = f"The log was found again from sums and counts. {verdict}"
    said = advice(audit, gains=gains)
    reliable = (
        dict(zip(audit.recoverable, map(bool, audit.gains.reliable), strict=True))
        if gains
        else None
    )
    data = {
        "clients": len(audit.log.clients),
        "rounds": len(audit.log.rounds),
        "recoverable": audit.recoverable,
        "first_exposed": {
            client: _label(audit, round) for client, round in audit.first_exposed.items()
        },
        "isolating_pairs": _pairs(audit),
        "isolating_pair_count": audit.pairs.count,
        "noise_gain": audit.noise_gain if gains else None,
        "gain_reliable": reliable,
        "cosine": audit.cosine if gains else None,
        "gain_reason": None if gains else _why_no_gain(audit),
        "variation": audit.variation,
        "noise": audit.noise,
        "rank": audit.rank,
        "smallest_coalition": _coalition(audit),
        "exposed_after": audit.exposure.curve.tolist(),
        "absent": audit.absent,
        "missing_rounds": audit.log.missing,
        "schedules": None if schedules is None else [_schedule(one, audit) for one in schedules],
        "ranges": None if ranges is None else _ranges(audit, ranges),
        "reconstruction": None if rebuilt is None else _reconstruction(audit, rebuilt),
        "advice": said,
        "max_recoverable": max_recoverable,
        "min_coalition": min_coalition,
        "leak": leak,
        "error_bound": audit.error_bound,
        "insecure_seed": insecure_seed,
        "input": {"source": name, "reading": reading},
        "limits": LIMITS,
        "verdict": verdict,
    }
    return Report(
        title=f"Audit of a participation log: {name}",
        data=data,
        tables=_tables(audit, ranges, schedules, gains, rebuilt),
        plots=_plots(audit, schedules, gains),
        notes=[*said, *([] if gains else [_why_no_gain(audit)]), *_notes(audit), *LIMITS],
        verdict=verdict,
    )


def _pairs(audit: Audit) -> list[dict[str, object]]:
    rounds, clients = audit.log.rounds, audit.log.clients
    return [
        {
            "rounds": [_label(audit, rounds[one]), _label(audit, rounds[other])],
            "client": clients[client],
        }
        for one, other, client in audit.pairs.first.tolist()
    ]


def _label(audit: Audit, round: str) -> str | int:
    """Return a round's name; its number, if all names are numbers."""
    return int(round) if audit.log.numbered else round


def _coalition(audit: Audit) -> dict[str, object]:
    found = audit.coalition
    return {
        "at_least": found.least,
        "size": len(found.members),
        "members": [audit.log.clients[column] for column in found.members],
        "factors": None if found.factors is None else [str(factor) for factor in found.factors],
        "exact": found.exact,
    }


def _schedule(one: Exposure, audit: Audit) -> dict[str, object]:
    clients = len(audit.log.clients)
    return {
        "name": one.name,
        "recoverable": one.exposed,
        "rank": one.rank,
        "first": one.rounds_to(0, clients),
        "half": one.rounds_to(0.5, clients),
        "all": one.rounds_to(1, clients),
        "exposed_after": one.curve.tolist(),
    }


def _ranges(audit: Audit, ranges: Ranges) -> dict[str, dict[str, object]]:
    linear = audit.first >= 0
    return {
        audit.log.clients[column]: {
            "minimum": _finite(ranges.minimum[index]),
            "maximum": _finite(ranges.maximum[index]),
            "unique": bool(ranges.unique[index]),
            "proven": bool(ranges.proven[index]),
            "linearly_determined": bool(linear[column]),
        }
        for index, column in enumerate(ranges.inputs)
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _why_no_gain(audit: Audit) -> str:
    return (
        f"Noise gains and cosines not computed: {len(audit.log.rounds):,} rounds of "
        f"{len(audit.log.clients):,} clients take a while. Ask for them with --gain."
    )


def _reconstruction(audit: Audit, rebuilt: Rebuilt) -> dict[str, object]:
    found, clients, rounds = rebuilt.found, audit.log.clients, audit.log.rounds
    return {
        "interval": rebuilt.interval,
        "noisy": rebuilt.noisy,
        "null_dimension": found.null_dimension,
        "unique": dict(zip(clients, map(bool, found.unique), strict=True)),
        "residual": dict(zip(clients, map(float, found.residual), strict=True)),
        "rounds": {
            client: [_label(audit, rounds[at]) for at in np.flatnonzero(column).tolist()]
            for client, column in zip(clients, found.participation.T, strict=True)
        },
    }


def _tables(
    audit: Audit,
    ranges: Ranges | None,
    schedules: Sequence[Exposure] | None,
    gains: bool,
    rebuilt: Rebuilt | None,
) -> list[Table]:
    log = audit.log
    facts: list[list[Cell]] = [
        ["rounds", len(log.rounds)],
        ["clients", len(log.clients)],
        ["clients that never took part", len(audit.absent)],
        ["mean cohort", float(log.cohorts.mean())],
        ["independent sums", audit.rank],
        ["clients determined", len(audit.recoverable)],
        ["pairs of rounds that isolate a client", audit.pairs.count],
        ["smallest exposed sum, clients", _size(audit)],
    ]
    if rebuilt is not None:
        facts += [
            ["columns found again", int(rebuilt.found.found.sum())],
            ["of these the only ones that fit", int(rebuilt.found.unique.sum())],
            ["equations that the sums give", rebuilt.found.null_dimension],
        ]
    tables = [Table("The log", ["what", "value"], facts)]
    if audit.recoverable:
        tables.append(_determined(audit, gains))
    if audit.pairs.count:
        rows: list[list[Cell]] = [
            [log.rounds[one], log.rounds[other], log.clients[client]]
            for one, other, client in audit.pairs.first[:_SHOWN].tolist()
        ]
        title = "Pairs of rounds that isolate one client"
        tables.append(
            Table(title + _more(audit.pairs.count), ["round", "and round", "client"], rows)
        )
    if schedules is not None:
        heads = ["schedule", "determined", "first after", "half after", "all after"]
        tables.append(
            Table(
                "Schedules of as many clients and rounds",
                heads,
                [_when(one, audit) for one in (audit.exposure, *schedules)],
            )
        )
    if ranges is not None:
        tables.append(_range_table(audit, ranges))
    return tables


def _when(one: Exposure, audit: Audit) -> list[Cell]:
    clients = len(audit.log.clients)
    return [one.name, one.exposed, *(one.rounds_to(part, clients) for part in (0, 0.5, 1))]


def _determined(audit: Audit, gains: bool) -> Table:
    heads: list[Column | str] = ["client", "determined after round"]
    rows: list[list[Cell]] = [
        [client, audit.first_exposed[client]] for client in audit.recoverable[:_SHOWN]
    ]
    if gains:
        heads += ["noise gain", "cosine", "gain"]
        gain, cosine = audit.noise_gain, audit.cosine
        for row, client, good in zip(rows, audit.recoverable, audit.gains.reliable, strict=False):
            row += [gain[client], cosine[client], "" if good else "order of magnitude only"]
    return Table("Determined clients" + _more(len(audit.recoverable)), heads, rows)


def _range_table(audit: Audit, ranges: Ranges) -> Table:
    linear = audit.first >= 0
    order = sorted(range(len(ranges.inputs)), key=lambda index: not ranges.unique[index])
    rows: list[list[Cell]] = []
    for index in order[:_SHOWN]:
        column = ranges.inputs[index]
        if ranges.unique[index]:
            said = "determined" if linear[column] else "not linearly determined, yet known"
        else:
            said = "not linearly determined" if ranges.proven[index] else "not settled in time"
        rows.append(
            [
                audit.log.clients[column],
                float(ranges.minimum[index]),
                float(ranges.maximum[index]),
                said,
            ]
        )
    heads: list[Column | str] = ["client", "least", "greatest", "so"]
    return Table("Inputs that fit the sums" + _more(len(ranges.inputs)), heads, rows)


def _more(total: int) -> str:
    return f" (and {total - _SHOWN:,} more)" if total > _SHOWN else ""


def _size(audit: Audit) -> str:
    found = audit.coalition
    if not found.members:
        return "none is exposed"
    size = len(found.members)
    return str(size) if found.exact else f"{found.least} to {size}"


def _plots(audit: Audit, schedules: Sequence[Exposure] | None, gained: bool) -> list[Plot]:
    series = [_curve(one) for one in (audit.exposure, *(schedules or ()))]
    plots = [
        Plot(
            kind="line",
            title="Exposure",
            x_label="rounds",
            y_label="clients determined",
            series=series,
            references=[Reference(len(audit.log.clients), "clients", axis="x")],
        )
    ]
    if audit.recoverable and gained:
        gains = np.sort(audit.gains.gain)
        at = np.unique(np.linspace(0, len(gains) - 1, _POINTS).round().astype(int))
        plots.append(
            Plot(
                kind="line",
                title="Noise gain of the determined",
                x_label="clients, the least noisy first",
                y_label="noise gain",
                series=[Series("noise gain", (at + 1).tolist(), gains[at].tolist())],
            )
        )
    return plots


def _curve(one: Exposure) -> Series:
    # Where it changes, and points between.
    steps = np.flatnonzero(np.diff(one.curve)) + 1
    even = np.linspace(0, len(one.curve) - 1, _POINTS).round().astype(int)
    at = np.unique(np.concatenate([even, steps, steps - 1]))
    return Series(one.name, (at + 1).tolist(), one.curve[at].tolist())


def _notes(audit: Audit) -> list[str]:
    notes = []
    found = audit.coalition
    if len(found.members) > 1 and found.factors is not None and len(found.members) <= _SHOWN:
        terms = [
            f"{factor} {audit.log.clients[column]}"
            for factor, column in zip(found.factors, found.members, strict=True)
        ]
        rank = "The smallest exposed sum" if found.exact else "A small exposed sum"
        notes.append(f"{rank}: {', '.join(terms)}.")
    if audit.log.missing:
        shown = ", ".join(map(str, audit.log.missing[:_SHOWN]))
        notes.append(f"No such round in the log, counted as not seen: {shown}.")
    if audit.absent:
        shown = ", ".join(audit.absent[:_SHOWN])
        notes.append(f"Never took part: {shown}{', ...' if len(audit.absent) > _SHOWN else ''}.")
    notes.append(f"Any answer is wrong with probability at most {audit.error_bound:.2g}.")
    return notes


def _verdict(
    audit: Audit, ranges: Ranges | None, max_recoverable: int, min_coalition: int, gained: bool
) -> str:
    count, total = len(audit.recoverable), len(audit.log.clients)
    leak = "LEAK: " if leaks(audit, ranges, max_recoverable, min_coalition) else ""
    if count:
        first = next(iter(audit.first_exposed.values()))
        span = ""
        if gained:
            low, high = float(audit.gains.gain.min()), float(audit.gains.gain.max())
            span = f", with a noise gain of {low:.3g}" + f" to {high:.3g}" * (count > 1)
        said = (
            f"{leak}{count:,} of {total:,} clients are determined, the first after round {first}"
            f"{span}."
        )
    else:
        said = (
            f"{leak}No client is linearly determined; the smallest exposed sum has "
            f"{_size(audit)} clients."
            if audit.coalition.members
            else f"{leak}No sum is exposed."
        )
    if ranges is not None:
        linear = audit.first >= 0
        known = sum(
            bool(one) and not linear[column]
            for column, one in zip(ranges.inputs, ranges.unique, strict=True)
        )
        said += f" Bounds on the inputs give away {known:,} that sums alone do not determine."
    return said
