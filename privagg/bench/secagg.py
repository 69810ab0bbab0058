"""Whole rounds of secure aggregation: one client, the server, and what the planner predicted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.bench import flower
from privagg.bench.clock import Timing, cycles_per_second
from privagg.bench.rows import OURS, Case, Row, Step, report, sizes
from privagg.entropy import OS
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import calibration
from privagg.protocols.secagg.engine import Engine
from privagg.protocols.secagg.parties import engine_of
from privagg.report import Plot, Report, Series

__all__ = ["bench"]

_PREDICTED = "predicted from the calibrated costs of single operations"


class _Same(Sequence[Any]):
    """One vector for every client, so that no memory goes to inputs."""

    def __init__(self, clients: int, vector: NDArray[np.float32]) -> None:
        self._clients, self._vector = clients, vector

    def __len__(self) -> int:
        return self._clients

    def __getitem__(self, client: Any) -> Any:
        return self._vector


def bench(
    *,
    clients: Sequence[int] = (100,),
    dims: Sequence[int] = (100_000,),
    graph: str = "complete",
    dropped: float = 0.1,
    prg: str = "aes-128-ctr",
    repeats: int = 3,
    workers: int = 1,
    against_flower: bool = False,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Run whole rounds of every size and compare their CPU time with the plan.

    Values are floats in [-8, 8] on 2**22 levels. The clients that drop out do so after they have
    shared their keys, which costs the server most. The times of clients and server contain the
    encoding and decoding of every message and all checks.

    Parameters
    ----------
    clients, dims : sequence of int
        Cohorts and vector lengths; every pair of them is run.
    graph : str
        ``complete`` or ``sparse``.
    dropped : float
        Fraction of the clients that drops out.
    prg : str
        The mask stream.
    repeats : int
        Rounds of each size, whose median is shown.
    workers : int
        Processes that the clients live in, and threads that unmask.
    against_flower : bool
        Also time Flower's functions with the same clients, threshold and length.
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If a number is out of its range, or Flower is asked for and not installed.
    """
    sizes(repeats=repeats, workers=workers)
    if not clients or not dims:
        raise UsageError("clients" if not clients else "dims", "nothing", "at least one size")
    if against_flower:
        flower.require()
    cells = [
        secagg.Params.recommend(
            clients=n,
            dim=d,
            value_bits=flower.VALUE_BITS,
            clip=flower.CLIP,
            dropout=dropped,
            graph=graph,
            prg=prg,
        )
        for n in clients
        for d in dims
    ]
    hertz = cycles_per_second()
    cases: list[Case] = []
    plans: list[dict[str, object]] = []
    with engine_of(max(cells, key=lambda cell: cell.clients), workers) as engine:
        _run(secagg.Params.recommend(clients=8, dim=16, clip=1.0, prg=prg), 0, engine)
        for done, params in enumerate(cells):
            step("rounds", done, len(cells))
            gone = int(dropped * params.clients)
            found, figures = _beside_the_plan(params, gone, repeats, engine, against_flower)
            cases += found
            plans.append(figures)
    step("rounds", len(cells), len(cells))
    return report(
        "Secure aggregation rounds",
        cases,
        hertz=hertz,
        notes=[f"Graph: {graph}. Mask stream: {prg}. Workers: {workers}."],
        plots=_plots(plans),
        data={"graph": graph, "prg": prg, "workers": workers, "rounds": plans},
    )


def _beside_the_plan(
    params: secagg.Params, gone: int, repeats: int, engine: Engine, against_flower: bool
) -> tuple[list[Case], dict[str, object]]:
    """Return the cases of one size, client and server, and its figures."""
    # Calibrated before each round and after the last: a machine's speed drifts meanwhile.
    plans = [secagg.plan(params, units=calibration.measure(params))]
    runs = []
    for _ in range(repeats):
        runs.append(_run(params, gone, engine))
        plans.append(secagg.plan(params, units=calibration.measure(params)))
    seconds = {
        "client": Timing.of([run[0] for run in runs]),
        "server": Timing.of([run[1] for run in runs]),
    }
    predicted = {
        "client": mean(plan.cpu_seconds_client for plan in plans),
        "server": mean(plan.cpu_seconds_server for plan in plans),
    }
    theirs = _flower(params, gone, repeats) if against_flower else {}
    size = f"n = {params.clients}, d = {params.dim}, t = {params.threshold}"
    cases = []
    for party, name in (
        ("client", f"one client, {size}"),
        ("server", f"the server, {size}, {gone} dropped after sharing"),
    ):
        rows = [
            Row(who=f"{OURS}, a whole round", timing=seconds[party]),
            Row(who="plan", timing=Timing.of([predicted[party]]), extrapolated=_PREDICTED),
        ]
        cases.append(Case(name=name, rows=[*rows, *theirs.get(party, [])]))
    return cases, {
        "clients": params.clients,
        "dim": params.dim,
        "threshold": params.threshold,
        "neighbours": params.neighbours,
        "dropped": gone,
        **{f"{party}_seconds": seconds[party].median for party in seconds},
        **{f"{party}_seconds_planned": predicted[party] for party in predicted},
    }


def _run(params: secagg.Params, gone: int, engine: Engine) -> tuple[float, float]:
    """Return the CPU seconds of one client that stays, and of the server."""
    values = np.frombuffer(OS.take(2 * params.dim), np.int16).astype(np.float32) / np.float32(4096)
    result = secagg.run(
        params,
        _Same(params.clients, values),
        dropouts=dict.fromkeys(range(gone), "masked-input"),
        engine=engine,
    )
    if not result.exact:
        raise ArithmeticError("the sum is not the sum of the inputs")
    client = sum(
        seconds / len(result.survivors[name]) for name, seconds in result.seconds["client"].items()
    )
    return client, sum(result.seconds["server"].values())


def _flower(params: secagg.Params, gone: int, repeats: int) -> dict[str, list[Row]]:
    vector = np.frombuffer(OS.take(2 * params.dim), np.int16).astype(np.float32) / np.float32(4096)
    shared, masked = flower.client(params.clients, params.threshold, vector, repeats)
    parts = flower.server(params.clients, params.threshold, gone, params.dim, repeats)
    whole = None
    rows = []
    for name, (timing, count) in parts.items():
        many = timing.times(count)
        rows.append(
            Row(who=f"Flower {name}, {count} calls", timing=many, extrapolated="from one call")
        )
        whole = many if whole is None else whole.plus(many)
    assert whole is not None
    total = Row(
        who="Flower server, its functions added up", timing=whole, extrapolated="rows below"
    )
    return {
        "client": [
            Row(who="Flower client, both rounds", timing=shared.plus(masked)),
            Row(who="Flower _share_keys", timing=shared),
            Row(who="Flower _collect_masked_vectors", timing=masked),
        ],
        "server": [total, *rows],
    }


def _plots(plans: list[dict[str, object]]) -> list[Plot]:
    """Draw seconds over the dimension, and over the clients, where there are several of them."""
    plots = []
    for axis, other, label in (("dim", "clients", "d"), ("clients", "dim", "n")):
        if len({plan[axis] for plan in plans}) < 2:
            continue
        for party in ("client", "server"):
            series = []
            for fixed in sorted({int(str(plan[other])) for plan in plans}):
                points = [plan for plan in plans if plan[other] == fixed]
                x = [float(str(plan[axis])) for plan in points]
                for kind, suffix in (("measured", ""), ("planned", "_planned")):
                    y = [float(str(plan[f"{party}_seconds{suffix}"])) for plan in points]
                    named = "n" if other == "clients" else "d"
                    series.append(Series(f"{named} = {fixed}, {kind}", x, y))
            plots.append(
                Plot(
                    kind="line",
                    title=f"{party} over {label}",
                    x_label="coordinates" if axis == "dim" else "clients",
                    y_label="CPU time [s]",
                    series=series,
                    log_x=True,
                    log_y=True,
                )
            )
    return plots
