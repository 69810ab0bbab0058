"""What a benchmark gives: rows of measured figures, as a report for people and for programs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import TypeAlias

from privagg import __version__
from privagg.bench.clock import MULTIPLY_CYCLES, Timing
from privagg.errors import UsageError
from privagg.report import Cell, Column, Plot, Report, Table

__all__ = ["CLOCK", "OURS", "Case", "Row", "Step", "report", "sizes"]

OURS = "privagg"
"""How the names of our own contestants begin."""

CLOCK = "CPU seconds, of all threads together"

Step: TypeAlias = Callable[[str, int, int], None]
"""Progress: the phase, how much of it is done, and of how much."""

_LIBRARIES = (
    *("numpy", "numba", "llvmlite", "cryptography", "pycryptodome", "pynacl"),
    *("python-flint", "galois", "gmpy2", "flwr", "multi-freq-ldpy", "pure-ldp", "xxhash"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contestant on one case.

    Attributes
    ----------
    who : str
        The contestant; our own begin with :data:`OURS`.
    timing : Timing
        CPU seconds for the case's work.
    extrapolated : str
        Empty for what was measured; else from which smaller measurement it was computed, and how.
    """

    who: str
    timing: Timing
    extrapolated: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Contestants on the same work.

    Attributes
    ----------
    name : str
        The work.
    rows : sequence of Row
        The contestants.
    amount, unit : float, str
        How much work it is and in which unit; rates and cycles are per unit.
    floors : dict of str to float
        Seconds below which the work cannot be done for a stated reason, by that reason.
    """

    name: str
    rows: Sequence[Row]
    amount: float = 1.0
    unit: str = ""
    floors: dict[str, float] = field(default_factory=dict)

    def best_of_ours(self) -> float | None:
        """Return the least median of our contestants."""
        ours = [row.timing.median for row in self.rows if row.who.startswith(OURS)]
        return min(ours, default=None)

    def ratio(self, row: Row) -> float | None:
        """Return how many times as long `row` takes as the fastest of ours, by medians."""
        ours = self.best_of_ours()
        return None if ours is None or ours == 0 else row.timing.median / ours


def sizes(**values: int) -> None:
    """Require integers from 1.

    Parameters
    ----------
    **values : int
        Numbers by the name of their argument.

    Raises
    ------
    UsageError
        Naming the first that is not.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(name, value, "an integer from 1")


def check_parts(parts: Sequence[str], known: Sequence[str]) -> None:
    """Require at least one part, and no unknown one.

    Parameters
    ----------
    parts : sequence of str
        What is to be timed.
    known : sequence of str
        What can be.

    Raises
    ------
    UsageError
        Naming the first that is unknown.
    """
    wrong = sorted(set(parts) - set(known), key=str)
    if wrong or not parts:
        raise UsageError("parts", wrong[0] if wrong else "none", " or ".join(known))


def report(
    title: str,
    cases: Sequence[Case],
    *,
    hertz: float | None,
    notes: Sequence[str] = (),
    plots: Sequence[Plot] = (),
    data: dict[str, object] | None = None,
) -> Report:
    """Return the report of a benchmark.

    Parameters
    ----------
    title : str
        What was measured.
    cases : sequence of Case
        The figures.
    hertz : float, optional
        The calibrated clock: with it, cycles are shown.
    notes : sequence of str
        What a reader must know besides.
    plots : sequence of Plot
        Pictures.
    data : dict, optional
        More for programs.
    """
    basis = (
        "Nothing is compiled here (PRIVAGG_JIT=0): the clock was not calibrated, no cycles shown."
        if hertz is None
        else f"Cycles: a chain of multiplications of {MULTIPLY_CYCLES} cycles each ran at "
        f"{hertz / 1e9:.2f} GHz."
    )
    first = (
        f"Times: {CLOCK}, contestants in turns; the median, with the quartiles as the spread.",
        basis,
    )
    return Report(
        title=title,
        data={
            "benchmark": title,
            "clock": CLOCK,
            "hertz": hertz,
            "hertz_basis": basis,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "versions": {"privagg": __version__} | _versions(),
            "cases": [_case(case, hertz) for case in cases],
            **(data or {}),
        },
        tables=[_table(case, hertz) for case in cases],
        plots=plots,
        notes=[*first, *notes],
    )


def _case(case: Case, hertz: float | None) -> dict[str, object]:
    return {
        "name": case.name,
        "amount": case.amount,
        "unit": case.unit,
        "floors": [{"reason": k, "seconds": v} for k, v in case.floors.items()],
        "rows": [
            {
                "who": row.who,
                "seconds": asdict(row.timing),
                "rate_per_second": _rate(case, row),
                "cycles_per_unit": _cycles(case, row, hertz),
                "ratio_to_ours": case.ratio(row),
                "extrapolated": row.extrapolated or None,
            }
            for row in case.rows
        ],
    }


def _rate(case: Case, row: Row) -> float | None:
    return case.amount / row.timing.median if row.timing.median else None


def _cycles(case: Case, row: Row, hertz: float | None) -> float | None:
    return None if hertz is None else row.timing.median * hertz / case.amount


def _table(case: Case, hertz: float | None) -> Table:
    columns: list[Column | str] = [
        "contestant",
        Column("median", "s"),
        Column("from", "s"),
        Column("to", "s"),
    ]
    if case.unit:
        columns += [Column("rate", f"M{case.unit}/s"), Column("cycles", f"1/{case.unit}")]
    columns += ["times ours", "how"]
    rows: list[list[Cell]] = []
    for row in case.rows:
        cells: list[Cell] = [row.who, row.timing.median, row.timing.low, row.timing.high]
        if case.unit:
            rate = _rate(case, row)
            cells += [None if rate is None else rate / 1e6, _cycles(case, row, hertz)]
        how = f"extrapolated: {row.extrapolated}" if row.extrapolated else "measured"
        rows.append([*cells, case.ratio(row), how])
    for reason, seconds in case.floors.items():
        cells = ["(floor)", seconds, None, None]
        if case.unit:
            per_unit = None if hertz is None else seconds * hertz / case.amount
            cells += [case.amount / seconds / 1e6, per_unit]
        ours = case.best_of_ours()
        rows.append([*cells, seconds / ours if ours else None, reason])
    return Table(case.name, columns, rows)


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
