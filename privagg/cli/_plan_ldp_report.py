"""A survey's plan as a report."""

from __future__ import annotations

from collections.abc import Iterator

from privagg.cli._multidim_report import epsilons
from privagg.protocols.multidim import Calibration, Forecast, Plan
from privagg.report import Cell, Column, Plot, Report, Series, Table

__all__ = ["report"]


def report(
    plan: Plan, confidence: float, interval: float | None, frequency: float | None
) -> Report:
    """Report a plan.

    Parameters
    ----------
    plan : Plan
        The plan.
    confidence : float
        Of the intervals.
    interval : float, optional
        Half the width that was asked for.
    frequency : float, optional
        Of the value in question.
    """
    first = plan.forecasts[0].params
    data = {
        "users": plan.users,
        "attributes": dict(zip(first.names, first.sizes, strict=True)),
        "calibration": first.calibration.value,
        "epsilon": first.epsilon,
        "frequency": frequency,
        "confidence": confidence,
        "interval_wanted": interval,
        "recommended": None if plan.recommended is None else _named(plan.recommended),
        "forecasts": [_row(one) for one in plan.forecasts],
        "refused": plan.refused,
    }
    best = plan.recommended
    if best is None:
        verdict = "Nothing is within the limits."
    else:
        verdict = (
            f"Recommended: {_name(best)}. Expected error {best.mse:.3g}, intervals of ±"
            f"{best.reach:.3g} at most, {best.bytes_per_report:.3g} bytes per report."
        )
    return Report(
        title=f"Plan: a survey of {first.d} attributes, {plan.users:,} respondents, "
        f"epsilon {first.epsilon:g}",
        data=data,
        tables=[_table(plan, interval)],
        plots=[_plot(plan)],
        notes=list(_notes(plan, confidence, interval, frequency)),
        verdict=verdict,
    )


def _name(one: Forecast) -> str:
    return f"{one.params.protocol.value}[{one.params.oracle}]"


def _named(one: Forecast) -> dict[str, str]:
    return {"protocol": one.params.protocol.value, "oracle": one.params.oracle}


def _row(one: Forecast) -> dict[str, object]:
    return {
        **_named(one),
        "oracles": list(one.params.oracles),
        **epsilons(one.params),
        "mse": one.mse,
        "interval": one.reach,
        "bytes_per_report": one.bytes_per_report,
        "decode_seconds": one.decode_seconds,
        "users_needed": one.users_needed,
        "excluded": one.excluded,
    }


def _table(plan: Plan, interval: float | None) -> Table:
    columns: list[Column | str] = ["protocol", "expected MSE", "interval ±"]
    columns += ["bytes per report", Column("decoding", "s"), "epsilon, tuples", "one attribute"]
    if interval is not None:
        columns.append(f"users for ±{interval:g}")
    columns.append("excluded")
    rows: list[list[Cell]] = []
    for one in plan.forecasts:
        row: list[Cell] = [_name(one), one.mse, one.reach, one.bytes_per_report]
        row += [one.decode_seconds, one.params.epsilon_tuple, one.params.epsilon_attribute]
        if interval is not None:
            row.append(one.users_needed)
        rows.append([*row, one.excluded or None])
    return Table("Forecasts, the best first", columns, rows)


def _plot(plan: Plan) -> Plot:
    names = [_name(one) for one in plan.forecasts]
    return Plot(
        kind="bar",
        title="Expected mean squared error of raw estimates",
        x_label="protocol [oracle]",
        y_label="mean squared error",
        series=[Series("expected", names, [one.mse for one in plan.forecasts])],
        log_y=True,
    )


def _notes(
    plan: Plan, confidence: float, interval: float | None, frequency: float | None
) -> Iterator[str]:
    about = "all values of an attribute alike" if frequency is None else f"frequency {frequency:g}"
    yield f"Errors of raw estimates, {about}; {100 * confidence:.4g} % intervals, each for itself."
    calibration = plan.forecasts[0].params.calibration
    if calibration is Calibration.PUBLISHED:
        yield (
            "Calibration published: the rows do not have equal privacy (see the columns of "
            "epsilon), so their errors do not compare."
        )
    if calibration is Calibration.ATTRIBUTE:
        yield "Epsilon holds for one attribute only: two whole tuples can be told apart by more."
    if interval is not None and any(one.users_needed is None for one in plan.forecasts):
        yield "A dash: no number of respondents is enough."
    yield "Not forecast: rs+rfd, whose error depends on its priors."
    for name, reason in plan.refused.items():
        yield f"{name} is not possible: {reason}"
