"""An audit of released bags as a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privagg.attacks.responses_audit import Audit
from privagg.protocols.responses.result import Released
from privagg.report import Cell, Plot, Reference, Report, Series, Table

__all__ = ["report"]

_LIMITS = (
    "The attacker knows features, bags, mechanism and all released numbers, and believes labels "
    "independent given the features; labels that depend on each other may leak more.",
    "A small advantage is no guarantee: that comes from a release's epsilon alone.",
)


def report(
    audit: Audit, releases: Sequence[Released], *, max_certain: int, max_advantage: float | None
) -> tuple[Report, bool]:
    """Return the report, and whether more leaks than allowed."""
    determined = audit.determined
    leak = audit.certain > max_certain
    leak |= max_advantage is not None and audit.additive > max_advantage
    certain_by = {
        "linear": int(determined.linear.sum()) if determined else 0,
        "propagation": determined.propagated if determined else 0,
        "integer_programs": int((determined.labels >= 0).sum()) if determined else 0,
    }
    data = {
        "rows": audit.rows,
        "bags": audit.bags,
        "releases": [
            {
                "bags": one.bags.count,
                "largest_bag": int(one.bags.sizes.max()),
                "bags_of_a_row": one.bags.copies,
                "mechanism": one.mechanism,
                "epsilon": one.epsilon,
                "delta": one.delta,
                "noise_variance": one.noise_variance,
                "guarantee": one.guarantee,
            }
            for one in releases
        ],
        "epsilon": audit.epsilon,
        "delta": audit.delta,
        "prior": {"source": audit.prior_source, "mean": float(audit.prior.mean())},
        "additive_advantage": audit.additive,
        "expected_additive_advantage": audit.expected_additive,
        "multiplicative_advantage": _finite(audit.multiplicative),
        "certain_labels": audit.certain,
        "certain_by": certain_by,
        "revealed_bags": audit.revealed,
        "exact_rows": audit.exact_rows,
        "examined_rows": determined.examined if determined else 0,
        "skipped_rows": determined.skipped if determined else 0,
        "randomised_response_epsilon": _finite(audit.response_epsilon),
        "max_certain": max_certain,
        "max_advantage": max_advantage,
        "leak": leak,
        "insecure_seed": audit.insecure,
    }
    rows: list[list[Cell]] = [
        ["guesses that get right by the release", audit.additive],
        ["the same, expected of bags by themselves", audit.expected_additive],
        ["largest change of log odds", _words(audit.multiplicative)],
        ["labels that become certain", audit.certain],
        ["bags of which every label is certain", audit.revealed],
        ["epsilon of randomised response with that advantage", _words(audit.response_epsilon)],
        ["epsilon of the release", "none" if audit.epsilon is None else audit.epsilon],
    ]
    tables = [Table("What the release tells of labels", ["", "value"], rows)]
    if determined is not None:
        found: list[list[Cell]] = [[name.replace("_", " "), n] for name, n in certain_by.items()]
        tables.append(Table("Labels that exact counts determine", ["found by", "labels"], found))
    notes = list(_LIMITS)
    if audit.prior_source == "released":
        notes.append("Prior: the mean of what was released; features may tell more.")
    if audit.exact_rows < audit.rows:
        floor = audit.rows - audit.exact_rows
        notes.append(f"Of {floor:,} labels in overlapping bags only the smallest bag was used.")
    if determined is not None and determined.skipped:
        notes.append(f"{determined.skipped:,} labels were not asked about: --examine, --seconds.")
    if audit.insecure:
        notes.append("A seed made noise: whoever knows it takes it off. Nothing is guaranteed.")
    return (
        Report(
            title=f"Audit: {audit.bags:,} bags of {audit.rows:,} labels",
            data=data,
            tables=tables,
            plots=[_plot(audit)],
            notes=notes,
            verdict=_verdict(audit, leak),
        ),
        leak,
    )


def _plot(audit: Audit) -> Plot:
    edges = np.linspace(0, 1, 21)
    parts = []
    for name, values in (("by the features", audit.prior), ("with the release", audit.posterior)):
        counts, _ = np.histogram(values, edges)
        shares = (counts / audit.rows).tolist()
        parts.append(Series(name, ((edges[1:] + edges[:-1]) / 2).tolist(), shares))
    return Plot(
        kind="line",
        title="How sure an attacker is of label 1",
        x_label="probability of label 1",
        y_label="part of the labels",
        series=parts,
        references=[Reference(0.5, "even", "x")],
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _words(value: float) -> Cell:
    return value if math.isfinite(value) else "no limit"


def _verdict(audit: Audit, leak: bool) -> str:
    guess = f"guesses are right {audit.additive:.2%} more often"
    if leak:
        return f"LEAK: {audit.certain:,} labels become certain; {guess}."
    return f"Within what is allowed: {audit.certain:,} labels become certain; {guess}."
