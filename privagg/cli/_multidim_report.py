"""A simulated survey as a report: JSON for programs; tables, plots and plain words for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from privagg.cli._survey_inputs import SurveyInputs
from privagg.protocols.multidim import Calibration, Params, Result
from privagg.report import Cell, Column, Plot, Report, Series, Table

__all__ = ["epsilons", "epsilons_table", "estimates_csv", "simulation"]

_MOST_PLOTS, _MOST_BARS, _MOST_ROWS = 4, 24, 12


def epsilons(params: Params) -> dict[str, float]:
    """Return every epsilon of a survey, as in the JSON object."""
    return {
        "epsilon": params.epsilon,
        "epsilon_local": params.epsilon_local,
        "epsilon_published": params.epsilon_published,
        "epsilon_attribute": params.epsilon_attribute,
        "epsilon_tuple": params.epsilon_tuple,
        "epsilon_prior": params.epsilon_prior,
    }


def simulation(result: Result, inputs: SurveyInputs) -> Report:
    """Report a simulated survey."""
    params = result.params
    data = {
        "protocol": params.protocol.value,
        "oracle": params.oracle,
        "oracles": dict(zip(params.names, params.oracles, strict=True)),
        "input": {"source": inputs.source, "reading": inputs.reading},
        "users": result.users,
        "attributes": dict(zip(params.names, params.sizes, strict=True)),
        "calibration": params.calibration.value,
        **epsilons(params),
        "runs": result.runs,
        "post": result.post,
        "confidence": next(iter(result.estimates.values())).confidence,
        "mse": result.mse,
        "mse_error": result.mse_error,
        "mse_raw": result.mse_raw,
        "mse_raw_error": result.mse_raw_error,
        "mse_theory": result.mse_theory,
        "covered": result.covered,
        "estimates": {name: one.rows() for name, one in result.estimates.items()},
        "bytes_per_report": result.bytes_per_report,
        "seconds": result.seconds,
        "guarantee": params.guarantee,
        "truth": {
            "frequencies": {n: f.tolist() for n, f in result.truth.frequencies.items()},
            "unknown": result.truth.unknown,
        },
        "insecure_seed": result.insecure_seed,
    }
    return Report(
        title=f"Survey of {params.d} attributes: {inputs.source}, {result.users:,} respondents",
        data=data,
        tables=[epsilons_table(params), _errors(result), *_estimates(result)],
        plots=list(_plots(result)),
        notes=list(_notes(result, inputs)),
        verdict=f"One report has {params.guarantee}.",
    )


def epsilons_table(params: Params) -> Table:
    """Return the table of what a report really has."""
    rows: list[list[Cell]] = [
        ["stated", params.epsilon, f"calibration: {params.calibration.value}"],
        ["of each randomiser", params.epsilon_local, "what it was asked for"],
        ["published", params.epsilon_published, "what the papers would state"],
        ["one attribute", params.epsilon_attribute, "exact: tuples that differ in one attribute"],
        ["any two tuples", params.epsilon_tuple, "exact"],
    ]
    if params.priors is not None:
        trust = params.priors.trust
        rows.append(["the priors' own", params.epsilon_prior, f"made of {trust} data"])
    return Table("Epsilon of one report", ["", "epsilon", "meaning"], rows)


def estimates_csv(result: Result) -> str:
    """Return the estimates of the first run as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    fields = ("value", "estimate", "raw", "deviation", "low", "high")
    writer.writerow(("attribute", *fields))
    for name, one in result.estimates.items():
        for row in one.rows():
            writer.writerow((name, *(row[field] for field in fields)))
    return file.getvalue()


def _errors(result: Result) -> Table:
    rows: list[list[Cell]] = [
        [f"mean squared error, {result.post or 'raw'}", result.mse, result.mse_error],
        ["mean squared error, raw", result.mse_raw, result.mse_raw_error],
        ["closed form of the raw one", result.mse_theory, None],
        ["intervals that hold the truth", result.covered, None],
        ["bytes per report", result.bytes_per_report, None],
        ["CPU of all respondents [ms]", 1e3 * result.seconds["respondents"], None],
        ["CPU of the aggregator [ms]", 1e3 * result.seconds["aggregator"], None],
    ]
    runs = f"{result.runs:,} run" + ("s" if result.runs > 1 else "")
    return Table(f"Error and cost, {runs}", ["", "value", "standard error"], rows)


def _estimates(result: Result) -> Iterator[Table]:
    for name, one in result.estimates.items():
        truth = result.truth.frequencies[name]
        rows: list[list[Cell]] = [
            [str(row["value"]), row["estimate"], row["low"], row["high"], float(truth[at])]
            for at, row in enumerate(one.rows())
        ]
        more = f", the first {_MOST_ROWS} of {len(rows)}" if len(rows) > _MOST_ROWS else ""
        columns: list[Column | str] = ["value", "estimate", "low", "high", "truth"]
        yield Table(f"{name} [{one.mechanism}]{more}", columns, rows[:_MOST_ROWS])


def _plots(result: Result) -> Iterator[Plot]:
    for name in list(result.estimates)[:_MOST_PLOTS]:
        one, truth = result.estimates[name], result.truth.frequencies[name]
        labels = [str(label) for label in list(one.labels)[:_MOST_BARS]]
        yield Plot(
            kind="bar",
            title=f"{name}: estimated and true frequencies",
            x_label=name,
            y_label="frequency",
            series=[
                Series("estimate", labels, one.values[: len(labels)].tolist()),
                Series("truth", labels, truth[: len(labels)].tolist()),
            ],
        )


def _notes(result: Result, inputs: SurveyInputs) -> Iterator[str]:
    params = result.params
    if params.calibration is Calibration.PUBLISHED and params.epsilon_tuple > params.epsilon:
        yield (
            f"The stated epsilon {params.epsilon:.4g} is not what reports have: calibration "
            "published is for comparison with papers, not for people's data."
        )
    if params.epsilon_prior:
        yield (
            f"The priors cost {params.epsilon_prior:.4g} of central differential privacy on top, "
            "to those whose data they were made of."
        )
    if inputs.reading != "declared domains":
        yield "Domains were read off the input: a real collection declares them beforehand."
    if any(one.describe()["unknown"] != "refuse" for one in params.domains):
        yield (
            "Values outside a domain go to its other cell, or to the nearer end. How many there "
            "were is in the JSON object's truth, and nowhere else: a real collection never knows."
        )
    if result.insecure_seed:
        yield "Seeded, so insecure: who knows the seed knows every value."
    yield "Intervals are each for itself, around the raw estimates of the first run."
