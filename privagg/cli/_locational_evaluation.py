"""The evaluation of statistics by region as a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from privagg.protocols.locational.evaluation import PUBLISHED, Row
from privagg.report import Cell, Plot, Report, Series, Table

__all__ = ["report"]

_ZERO, _EVEN = "0 everywhere", "all spread evenly"


def report(rows: Sequence[Row], runs: int) -> Report:
    """Report an evaluation: for each set, errors by mechanism and epsilon."""
    names = list(dict.fromkeys(row.set for row in rows))
    return Report(
        title="Statistics by region: every mechanism beside knowing nothing",
        data={"evaluation": [{**asdict(row), "loses": row.loses} for row in rows], "runs": runs},
        tables=[table for name in names for table in _tables([r for r in rows if r.set == name])],
        plots=[_plot([row for row in rows if row.set == name]) for name in names],
        notes=list(_notes(rows)),
        verdict="Errors are of published frequencies of cells, mean of squares over the cells.",
    )


def _epsilons(rows: Sequence[Row]) -> list[float]:
    return sorted({row.epsilon for row in rows})


def _tables(rows: Sequence[Row]) -> Iterator[Table]:
    epsilons, first = _epsilons(rows), rows[0]
    about = f"{first.set}: {first.users:,} respondents, {first.cells} cells"
    columns = ["mechanism", *(f"epsilon {one:g}" for one in epsilons)]
    errors: list[list[Cell]] = [
        [name, *(_cell(rows, name, one, "mse") for one in epsilons)] for name in _mechanisms(rows)
    ]
    errors.append([_ZERO, *[first.mse_zero] * len(epsilons)])
    errors.append([_EVEN, *[first.mse_uniform] * len(epsilons)])
    yield Table(f"{about}; mean squared error", columns, errors)
    narrow: list[list[Cell]] = [
        [f"auto: {what}", *(_cell(rows, "auto", one, key) for one in epsilons)]
        for what, key in (
            ("raw intervals narrower than the estimate", "narrow"),
            ("raw intervals that hold the truth", "covered"),
            ("smoothed intervals narrower than the estimate", "narrow_smooth"),
            ("smoothed intervals that hold the truth", "covered_smooth"),
        )
        if any(getattr(row, key) is not None for row in rows)
    ]
    yield Table(f"{first.set}: intervals", columns, narrow)


def _mechanisms(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.mechanism for row in rows))


def _cell(rows: Sequence[Row], mechanism: str, epsilon: float, key: str) -> Cell:
    for row in rows:
        if row.mechanism == mechanism and row.epsilon == epsilon:
            found: Cell = getattr(row, key)
            return found
    return None


def _plot(rows: Sequence[Row]) -> Plot:
    epsilons, first = _epsilons(rows), rows[0]
    series = []
    for name in _mechanisms(rows):
        own = [row for row in rows if row.mechanism == name]
        series.append(
            Series(name, [row.epsilon for row in own], [max(row.mse, 1e-12) for row in own])
        )
    for label, value in ((_ZERO, first.mse_zero), (_EVEN, first.mse_uniform)):
        series.append(Series(label, epsilons, [max(value, 1e-12)] * len(epsilons)))
    return Plot(
        kind="line",
        title=first.set,
        x_label="epsilon",
        y_label="mean squared error of a frequency",
        series=series,
        log_x=True,
        log_y=True,
    )


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    for name in dict.fromkeys(row.set for row in rows):
        lost = [
            f"{one:g}"
            for one in _epsilons(rows)
            if all(
                row.loses
                for row in rows
                if row.set == name and row.epsilon == one and row.mechanism != PUBLISHED
            )
        ]
        if lost:
            yield f"{name}: at epsilon {', '.join(lost)} everything loses to knowing nothing."
    if any(row.mechanism == PUBLISHED for row in rows):
        yield (
            "published: the framework's randomised response, at equal true epsilon (half of it "
            "stated); for comparison only."
        )
