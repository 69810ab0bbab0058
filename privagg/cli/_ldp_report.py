"""Estimates of a survey as a report: JSON and CSV for programs; tables and plots for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from privagg.mechanisms import Estimate, MeanEstimate
from privagg.protocols.collection import Collector
from privagg.report import Cell, Column, Plot, Report, Series, Table

__all__ = ["estimates_csv", "estimates_report"]

Found: TypeAlias = Estimate | MeanEstimate

_FIELDS = ("value", "estimate", "raw", "deviation", "low", "high")
_MOST_ROWS, _MOST_PLOTS, _MOST_VALUES = 50, 12, 24


def estimates_csv(estimates: Mapping[str, Found]) -> str:
    """Return all estimates as CSV, a row for each value of each attribute."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("attribute", *_FIELDS))
    for name, one in estimates.items():
        for row in one.rows():
            writer.writerow((name, *(row[field] for field in _FIELDS)))
    return file.getvalue()


def estimates_report(collector: Collector, estimates: Mapping[str, Found], source: Path) -> Report:
    """Report the estimates of every attribute."""
    survey = collector.survey
    first = next(iter(estimates.values()))
    params = survey.params
    data = {
        "state": str(source),
        "digest": survey.digest.hex(),
        "users": collector.users,
        "attributes": {name: domain.size for name, domain in survey.attributes.items()},
        "protocol": None if params is None else params.protocol.value,
        "mechanisms": {name: one.mechanism for name, one in estimates.items()},
        "epsilon": survey.randomiser.epsilon,
        "cost": survey.cost,
        "guarantee": survey.guarantee,
        "post": first.post if isinstance(first, Estimate) else None,
        "confidence": first.confidence,
        "population": first.population,
        "estimates": {name: one.rows() for name, one in estimates.items()},
        "insecure_seed": collector.state.insecure,
    }
    return Report(
        title=f"Estimates of {len(estimates)} attribute{'s' * (len(estimates) > 1)}, "
        f"{collector.users:,} reports",
        data=data,
        tables=list(_tables(estimates)),
        plots=list(_plots(estimates)),
        notes=list(_notes(collector, first)),
        verdict=f"One report has {survey.guarantee}.",
    )


def _tables(estimates: Mapping[str, Found]) -> Iterator[Table]:
    for name, one in estimates.items():
        rows: list[list[Cell]] = [
            [str(row["value"]), *(row[field] for field in _FIELDS[1:])]
            for row in one.rows()[:_MOST_ROWS]
        ]
        size = len(one.rows())
        more = f", the first {_MOST_ROWS} of {size:,} values" if size > _MOST_ROWS else ""
        columns: list[Column | str] = list(_FIELDS)
        yield Table(f"{name} [{one.mechanism}], {one.users:,} reports{more}", columns, rows)


def _plots(estimates: Mapping[str, Found]) -> Iterator[Plot]:
    for name, one in list(estimates.items())[:_MOST_PLOTS]:
        if isinstance(one, MeanEstimate):
            continue
        labels = [str(label) for label in list(one.labels)[:_MOST_VALUES]]
        size = len(labels)
        more = f" (the first {size} values)" if size < len(one.labels) else ""
        yield Plot(
            kind="bar",
            title=f"{name}: estimated frequencies, {one.confidence:.4g} intervals{more}",
            x_label=name,
            y_label="frequency [1]",
            series=[
                Series(
                    f"estimate ({one.post or 'raw'}), with the interval of the raw one",
                    labels,
                    one.values[:size].tolist(),
                    one.low[:size].tolist(),
                    one.high[:size].tolist(),
                )
            ],
        )


def _notes(collector: Collector, first: Found) -> Iterator[str]:
    about = "a population that the respondents are a sample of"
    what = "frequency" if isinstance(first, Estimate) else "mean"
    yield (
        f"Intervals hold the true {what} with probability {first.confidence:g}, each for "
        f"itself, around the raw estimate; they are about "
        f"{about if first.population else 'the respondents themselves'}."
    )
    params = collector.survey.params
    if params is not None and params.epsilon_prior:
        yield f"The priors had cost {params.epsilon_prior:.4g} before: an earlier survey's reports."
    if collector.state.insecure:
        yield "Some reports were made from a seed: who knows it knows the values behind them."
