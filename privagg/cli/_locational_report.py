"""A simulated survey by region as a report: JSON for programs; tables and plots for people."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from privagg.cli._locational_inputs import Inputs
from privagg.errors import UsageError
from privagg.mechanisms.shuffle import Amplified, amplified
from privagg.protocols.locational import Choice, Params, Result, hold
from privagg.protocols.locational.alternatives import (
    Alternative,
    alternatives,
    masked_counts,
    noisy_counts,
)
from privagg.protocols.locational.maps import maps
from privagg.protocols.locational.nested import Nested
from privagg.report import Cell, Column, Plot, Report, Series, Table

__all__ = ["beside", "estimates_csv", "estimates_geojson", "simulation"]

_MOST_ROWS, _MOST_BARS = 60, 60
_MOST_MASKED = 1000
"""Respondents whose counts are also summed by secure aggregation: more are forecast."""


@dataclass(frozen=True, kw_only=True)
class More:
    """What was asked for beside the survey itself; None is what was not.

    Attributes
    ----------
    beside : sequence of Alternative or None
        The same counts by other means.
    shuffled : Amplified or None
        Epsilon behind a shuffler.
    nested : Nested or None
        Parents and regions asked about apart, and made to agree.
    """

    beside: Sequence[Alternative] | None = None
    shuffled: Amplified | None = None
    nested: Nested | None = None


def simulation(
    result: Result,
    inputs: Inputs,
    choice: Choice,
    mechanism: str,
    more: More,
) -> Report:
    """Report a simulated survey."""
    params, found, truth = result.params, result.estimates, result.truth
    data: dict[str, Any] = {
        "input": inputs.source,
        "regions": {
            "kind": params.regions.kind,
            "count": len(params.regions),
            "names": list(params.regions.names),
            "other": params.other,
        },
        "value": params.value.describe(),
        "mechanism": params.oracle if mechanism == "auto" else mechanism,
        "oracle": params.oracle,
        "why": choice.why,
        "epsilon": params.epsilon,
        "epsilon_realised": params.epsilon_realised,
        "delta": params.delta_realised,
        "notion": params.notion,
        "guarantee": params.guarantee,
        "items": params.items,
        "users": result.users,
        "runs": result.runs,
        "confidence": found.confidence,
        "bytes_per_report": result.bytes_per_report,
        "estimates": found.rows(),
        "other": found.other,
        "narrow": found.narrow,
        "mse_theory": result.mse_theory,
        "covered": result.covered,
        "covered_all": result.covered_all,
        "covered_counts": result.covered_counts,
        "covered_smooth": result.covered_smooth,
        "forecasts": [
            {
                "mechanism": one.params.oracle,
                "mse": one.mse / result.users,
                "bytes_per_report": one.bytes_per_report,
                "excluded": one.excluded,
            }
            for one in choice.forecasts
        ],
        "seconds": result.seconds,
        "truth": {
            "mse": truth.mse,
            "mse_raw": truth.mse_raw,
            "mse_zero": truth.mse_zero,
            "mse_uniform": truth.mse_uniform,
            "mse_estimates": _or_none(truth.mse_estimates),
            "unknown": truth.unknown,
            "clamped": truth.clamped,
            "count": truth.count.tolist(),
            "estimates": [[_or_none(one) for one in row] for row in truth.estimates.tolist()],
        },
        "insecure_seed": result.insecure_seed,
    }
    beside, nested = more.beside, more.nested
    if params.regions.parents is not None:
        data["parents"] = found.parents()
    if nested is not None:
        data["levels"] = {
            "shares": list(nested.shares),
            "cells": list(nested.cells),
            "estimates": nested.rows(),
            "truth": [_or_none(one) for one in nested.true_rows.tolist()]
            if nested.means is not None
            else nested.truth.tolist(),
        }
    if beside is not None:
        data["alternatives"] = [
            {
                "name": one.name,
                "trust": one.trust,
                "guarantee": one.guarantee,
                "mse": one.mse,
                "bytes_per_client": one.bytes_per_client,
                "measured": one.measured,
            }
            for one in beside
        ]
    if more.shuffled is not None:
        data["shuffled"] = asdict(more.shuffled)
    tables = [_errors(result), _estimates(result), _forecasts(choice, result.users)]
    if params.regions.parents is not None:
        tables.append(_parents(result))
    if nested is not None:
        tables.append(_levels(nested))
    if beside is not None:
        tables.append(_beside(beside))
    return Report(
        title=f"{len(params.regions)} regions, {_what(params)}: {inputs.source}, "
        f"{result.users:,} respondents",
        data=data,
        tables=tables,
        plots=[*maps(result), *_plots(result)],
        notes=[*_notes(result), *_shuffle_notes(more.shuffled)],
        verdict=f"Guarantee: {params.guarantee}.",
    )


def beside(params: Params, inputs: Inputs, result: Result, seed: int | None) -> list[Alternative]:
    """Return the alternatives; with few respondents both kinds of rounds are run and measured."""
    sent, noisy, error = None, [], 0.0
    if result.users <= _MOST_MASKED and params.groups == 1:
        counts = np.zeros(params.cells.known, np.int64)
        for chunk in inputs.chunks():
            held = hold(params, chunk.places, chunk.values, owners=chunk.owners, users=chunk.users)
            part, size = masked_counts(params, held, seed=seed)
            counts += part
            sent = max(sent or 0, size)
            noisy.append(noisy_counts(params, held, seed=seed))
        added = np.sum([one.counts for one in noisy], axis=0)
        error = float(((added - counts) ** 2).mean()) / result.users**2
    return alternatives(
        params, result.users, result.mse_theory, sent=sent, noisy=noisy, noisy_mse=error
    )


def shuffled(result: Result, delta: float) -> Amplified:
    """Return what a trusted shuffler would make of the survey's epsilon."""
    params = result.params
    if params.notion != "local" or params.delta_realised:
        found = "geo" if params.notion != "local" else params.oracle
        raise UsageError("--shuffle", found, "a local epsilon without delta")
    # Reports of a ranking say which item they are about: they are mixed with their own kind only.
    users = min(one.users for one in result.estimates.cells)
    return amplified(params.epsilon_realised, users, delta)


def estimates_csv(result: Result) -> str:
    """Return the estimates of the first run as CSV."""
    rows = result.estimates.rows()
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def estimates_geojson(result: Result) -> str:
    """Return the estimates as a FeatureCollection; regions whose outline is not known have none."""
    found = result.estimates
    shapes = result.params.regions.geometry()
    rows = found.rows()
    columns = len(found.columns)
    features = []
    for at, name in enumerate(found.names):
        own = rows[at * columns : (at + 1) * columns]
        properties: dict[str, Any] = {"name": name}
        if columns == 1:
            properties |= {key: value for key, value in own[0].items() if key != "region"}
        else:
            properties["values"] = own
        known = None if shapes is None else {"type": "MultiPolygon", "coordinates": shapes[at]}
        features.append({"type": "Feature", "properties": properties, "geometry": known})
    table = {"type": "FeatureCollection", "features": features}
    return json.dumps(table, allow_nan=False, ensure_ascii=False) + "\n"


def _what(params: Params) -> str:
    value = params.value
    if value.numeric:
        low, high = value.range
        what = f"mean of a {value.kind}"
        return what if value.kind == "bool" else f"{what} from {low:g} to {high:g}"
    return "counts" if value.k == 1 else f"counts of {value.k} categories"


def _errors(result: Result) -> Table:
    truth = result.truth
    rows: list[list[Cell]] = [
        ["published frequencies, mean squared error", truth.mse],
        ["raw ones", truth.mse_raw],
        ["closed form of the raw ones", result.mse_theory],
        ["saying 0 everywhere", truth.mse_zero],
        ["spreading all evenly", truth.mse_uniform],
        ["raw intervals that hold the truth", result.covered],
        ["intervals narrower than the estimate", result.estimates.narrow],
        ["bytes per report", result.bytes_per_report],
        ["CPU of all respondents [ms]", 1e3 * result.seconds["respondents"]],
        ["CPU of the aggregator [ms]", 1e3 * result.seconds["aggregator"]],
    ]
    runs = f"{result.runs:,} run" + ("s" if result.runs > 1 else "")
    return Table(f"Error and cost, {runs}", ["", "value"], rows)


def _estimates(result: Result) -> Table:
    found, truth = result.estimates, result.truth.estimates
    several = len(found.columns) > 1
    columns: list[Column | str] = ["region", *(["value"] if several else [])]
    columns += ["estimate", "low", "high", "truth", "count", "of use"]
    rows: list[list[Cell]] = []
    for number, row in enumerate(found.rows()[:_MOST_ROWS]):
        at, column = divmod(number, len(found.columns))
        cells: list[Cell] = [row["region"], *([row["value"]] if several else [])]
        cells += [row["estimate"], row["low"], row["high"], _or_none(float(truth[at, column]))]
        cells += [row["count"], "withheld" if row["withheld"] else ("no" if row["wide"] else "yes")]
        rows.append(cells)
    total = len(found.names) * len(found.columns)
    more = f", the first {_MOST_ROWS} of {total:,}" if total > _MOST_ROWS else ""
    return Table(f"Regions{more}", columns, rows)


def _forecasts(choice: Choice, users: int) -> Table:
    rows: list[list[Cell]] = [
        [one.params.oracle, one.mse / users, one.bytes_per_report, one.excluded]
        for one in choice.forecasts
    ]
    columns: list[Column | str] = [
        "mechanism",
        "expected MSE of a frequency",
        Column("a report", "B"),
        "excluded",
    ]
    return Table("Mechanisms", columns, rows)


def _parents(result: Result) -> Table:
    found = result.estimates
    truth = np.bincount(found.params.regions.parent_indices, result.truth.count)
    rows: list[list[Cell]] = [
        [row["region"], row["children"], row["count"], row["low"], row["high"], float(true)]
        for row, true in zip(found.parents(), truth, strict=True)
    ]
    title = "Parents: sums of their regions' respondents"
    return Table(title, ["parent", "regions", "count", "low", "high", "truth"], rows)


def _levels(nested: Nested) -> Table:
    asked = ", ".join(
        f"{share:.0%} about {cells}"
        for share, cells in zip(nested.shares, nested.cells, strict=False)
    )
    several = nested.means is None and nested.params.value.k > 1
    rows: list[list[Cell]] = [
        [
            row["region"],
            row["parent"],
            *([row["value"]] if "value" in row else []),
            row["estimate"],
            row["low"],
            row["high"],
            _or_none(true),
        ]
        for row, true in zip(nested.rows()[:_MOST_ROWS], nested.true_rows.tolist(), strict=False)
    ]
    columns: list[Column | str] = ["region", "parent", *(["value"] if several else [])]
    columns += ["estimate", "low", "high", "truth"]
    return Table(f"Both levels, asked apart ({asked} regions)", columns, rows)


def _beside(found: Sequence[Alternative]) -> Table:
    rows: list[list[Cell]] = [
        [one.name, one.mse, one.bytes_per_client, one.guarantee, one.trust] for one in found
    ]
    columns: list[Column | str] = [
        "",
        "MSE of a frequency",
        Column("a client sends", "B"),
        "guarantee",
        "trusted",
    ]
    return Table("The same counts by other means", columns, rows)


def _plots(result: Result) -> Iterator[Plot]:
    found, truth = result.estimates, result.truth.estimates
    regions = result.params.regions
    unit = "mean" if found.means else "respondents"
    for column, label in enumerate(found.columns[:4]):
        title = "Estimates and truth" + (f": {label}" if label else "")
        there = [
            at
            for at in range(len(regions))
            if not (math.isnan(found.estimate[at, column]) or math.isnan(truth[at, column]))
        ][:_MOST_BARS]
        if not there:
            continue
        names = [regions.names[at] for at in there]
        yield Plot(
            kind="bar",
            title=title,
            x_label="region",
            y_label=unit,
            series=[
                Series(
                    "estimate",
                    names,
                    [float(found.estimate[at, column]) for at in there],
                    low=[float(found.low[at, column]) for at in there],
                    high=[float(found.high[at, column]) for at in there],
                ),
                Series("truth", names, [float(truth[at, column]) for at in there]),
            ],
        )


def _notes(result: Result) -> Iterator[str]:
    params, truth = result.params, result.truth
    if truth.beaten:
        better = "0 everywhere" if truth.mse_zero <= truth.mse_uniform else "all spread evenly"
        yield (
            f"Whoever knows nothing and says {better} errs less than these estimates: there are "
            "too few respondents for so many cells at this epsilon."
        )
    if result.estimates.withheld.any():
        yield (
            "A mean is withheld where the interval of its count holds 0. The JSON object's smooth "
            "has a value there, which rests on a model of all regions. Of more use: larger regions "
            "(--parents with --levels parents), a narrower range of the value, more respondents."
        )
    if params.other:
        yield (
            "Who is in no region, or has no value where that is allowed, is in a cell of its own. "
            "How many there are is in the JSON object's truth, and nowhere else."
        )
    if params.clamp:
        yield "Numbers out of range were moved to an end: means are of the moved ones."
    if result.insecure_seed:
        yield "Seeded, so insecure: who knows the seed knows every region and value."
    yield "Intervals are each for itself, around the raw estimates of the first run."


def _shuffle_notes(found: Amplified | None) -> Iterator[str]:
    if found is None:
        return
    if found.holds:
        yield (
            f"Behind a trusted shuffler: central epsilon {found.epsilon:.4g}, delta "
            f"{found.delta:g}, for whoever sees its output only ({found.reason}). Against the "
            f"shuffler itself the local epsilon {found.local:.4g} holds."
        )
    else:
        yield f"A shuffler would change nothing: {found.reason}."


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
