"""``privagg bench locational``: adding up and estimating reports over many cells.

Randomising is the respondents' work and is timed apart.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np

from privagg.bench.clock import cycles_per_second, race
from privagg.bench.rows import OURS, Case, Row, Step, report, sizes
from privagg.errors import UsageError
from privagg.protocols.locational import (
    ORACLES,
    Aggregator,
    Held,
    Params,
    RegionList,
    randomize,
)
from privagg.report import Report

__all__ = ["FASTEST", "bench"]

FASTEST = ("pgr", "hr")
"""The mechanisms that are timed unless others are named."""

_BATCH = 1 << 16


def bench(
    *,
    mechanisms: Sequence[str] = FASTEST,
    users: int = 1_000_000,
    cells: int = 10_000,
    epsilon: float = 1.0,
    repeats: int = 3,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time the aggregator of a survey by region.

    Parameters
    ----------
    mechanisms : sequence of str
        Of :data:`privagg.protocols.locational.ORACLES`.
    users : int
        Reports.
    cells : int
        Regions; each is one cell.
    epsilon : float
        Of each report.
    repeats : int
        Repetitions, whose median is shown.
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """
    sizes(users=users, cells=cells, repeats=repeats)
    if cells < 2:
        raise UsageError("cells", cells, "at least 2")
    for name in mechanisms:
        if name not in ORACLES or name == "privset":
            allowed = ", ".join(one for one in ORACLES if one != "privset")
            raise UsageError("mechanism", name, allowed)
    regions = RegionList([str(at) for at in range(cells)])
    codes = np.random.default_rng(1).integers(0, cells, (users, 1))
    hertz = cycles_per_second()
    cases: list[Case] = []
    figures: dict[str, Any] = {}
    for done, name in enumerate(mechanisms):
        step("by region", done, len(mechanisms))
        params = Params(regions=regions, epsilon=epsilon, mechanism=name)
        more, found = _one(params, codes, repeats)
        cases += more
        figures[name] = found
    step("by region", len(mechanisms), len(mechanisms))
    notes = [
        f"{name}: {one['bytes_per_report']:.4g} bytes per report, expected MSE {one['mse']:.4g}, "
        f"most memory of an aggregator fed in batches {one['peak_bytes']:,} bytes."
        for name, one in figures.items()
    ]
    title = f"{users:,} reports over {cells:,} cells, epsilon {epsilon:g}"
    notes.append("Adding up and estimating does not count randomising, which is a row of its own.")
    return report(title, cases, hertz=hertz, notes=notes, data={"figures": figures})


def _one(params: Params, codes: Any, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    users = len(codes)
    batches = [_batch(params, codes[at : at + _BATCH]) for at in range(0, users, _BATCH)]

    def collect() -> Any:
        aggregator = Aggregator(params)
        for reports in batches:
            aggregator.receive(reports)
        return aggregator.estimate()

    def respond() -> None:
        for at in range(0, users, _BATCH):
            _batch(params, codes[at : at + _BATCH])

    name = f"{params.oracle}, {params.report_bytes:.4g} bytes per report"
    found = race({OURS: collect}, repeats=repeats)
    cases = [
        Case(
            name=f"{name}: add up and estimate",
            rows=[Row(who=who, timing=timing) for who, timing in found.items()],
            amount=users,
            unit="report",
        ),
        Case(
            name=f"{name}: randomise, all respondents",
            rows=[
                Row(who=who, timing=timing)
                for who, timing in race({OURS: respond}, repeats=min(repeats, 2)).items()
            ],
            amount=users,
            unit="report",
        ),
    ]
    tracemalloc.start()
    try:
        collect()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    oracle = params.oracles[0]
    return cases, {
        "bytes_per_report": params.report_bytes,
        "mse": float(oracle.variance(users, 1 / oracle.k)),
        "peak_bytes": peak,
    }


def _batch(params: Params, codes: Any) -> Any:
    return randomize(params, Held(codes, np.ones(codes.shape), 0, 0))
