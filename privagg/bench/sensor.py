"""``privagg bench sensor``: sensor networks at work, and audits of who took part in which rounds.

Nothing else is timed beside the networks. Beside the audit stands NumPy's singular value
decomposition, which decides with a tolerance and does not say after which round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks import linear
from privagg.bench.clock import Timing, cpu_seconds, cycles_per_second
from privagg.bench.rows import OURS, Case, Row, Step, check_parts, report, sizes
from privagg.protocols.sensor import Deployment, Radio, Result, simulate
from privagg.report import Report

__all__ = ["PARTS", "bench"]

PARTS = ("epochs", "parties", "large", "participation")

_RANGE = 50.0
_AREA_OF_NODE = 400.0**2 / 600
"""Square metres for a node, as in the figures of the literature: 26 neighbours."""

_DECOMPOSED = 1500
"""Up to this size gains are computed and the decomposition is run."""


def bench(
    *,
    parts: Sequence[str] = PARTS,
    nodes: int = 600,
    epochs: int = 1000,
    large: int = 600_000,
    logs: Sequence[tuple[int, int]] = ((1000, 1000), (5000, 2000)),
    repeats: int = 3,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time sensor networks and participation audits.

    Parameters
    ----------
    parts : sequence of str
        What is timed, of :data:`PARTS`.
    nodes : int
        Of the network whose epochs are timed, and of the one whose nodes are parties.
    epochs : int
        Epochs of ``cpda-field``, computed as arrays.
    large : int
        Nodes of one large network, for one epoch.
    logs : sequence of (clients, rounds)
        Of the participation logs; a tenth of the clients is in a round.
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
        If a number is out of its range, or a part is none.
    """
    sizes(nodes=nodes, epochs=epochs, large=large, repeats=repeats)
    for clients, rounds in logs:
        sizes(clients=clients, rounds=rounds)
    check_parts(parts, PARTS)
    works: list[Callable[[], Case]] = []
    if "epochs" in parts:
        works.append(lambda: _epochs(nodes, epochs, repeats))
    if "parties" in parts:
        works.append(lambda: _parties(nodes, repeats))
    if "large" in parts:
        works.append(lambda: _large(large, repeats))
    if "participation" in parts:
        works += [_audit(clients, rounds, repeats) for clients, rounds in logs]
    hertz = cycles_per_second()
    cases = []
    for done, work in enumerate(works):
        step("sensor networks", done, len(works))
        cases.append(work())
    step("sensor networks", len(works), len(works))
    notes = [
        f"Networks: {_AREA_OF_NODE:.0f} m² for a node, a range of {_RANGE:g} m, p_c = 0.3. Frames "
        "and energy are counted in all of them. Nothing else is timed beside them.",
    ]
    return report("Sensor networks", cases, hertz=hertz, notes=notes)


def _field(nodes: int) -> Deployment:
    return Deployment(nodes=nodes, area=(_AREA_OF_NODE * nodes) ** 0.5, range=_RANGE, seed=1)


def _timed(works: dict[str, Callable[[], object]], repeats: int) -> list[Row]:
    """Time long work in turns: once for each repetition, as a network of a size is run once."""
    seconds: dict[str, list[float]] = {who: [] for who in works}
    for _ in range(repeats):
        for who, work in works.items():
            seconds[who].append(cpu_seconds(work))
    return [Row(who=who, timing=Timing.of(found, 1)) for who, found in seconds.items()]


def _case(name: str, work: Callable[[], object], amount: float, unit: str, repeats: int) -> Case:
    return Case(name=name, rows=_timed({OURS: work}, repeats), amount=amount, unit=unit)


def _epochs(nodes: int, epochs: int, repeats: int) -> Case:
    simulate(_field(30))  # what is compiled is ready
    deployment = _field(nodes)

    def work() -> Result:
        return simulate(deployment, epochs=epochs)

    name = f"cpda-field, {nodes:,} nodes, {epochs:,} epochs as arrays"
    return _case(name, work, nodes * epochs, "reading", repeats)


def _parties(nodes: int, repeats: int) -> Case:
    simulate(_field(30), engine="parties")  # what is compiled is ready
    deployment, radio = _field(nodes), Radio(loss=0.05, retries=3)

    def work() -> Result:
        return simulate(deployment, radio=radio, engine="parties")

    name = f"cpda-field, {nodes:,} nodes, one epoch: keys, encryption, every message; 5% loss"
    return _case(name, work, nodes, "node", repeats)


def _large(nodes: int, repeats: int) -> Case:
    deployment, radio = _field(nodes), Radio(loss=0.05, retries=3)

    def work() -> Result:
        return simulate(deployment, radio=radio)

    name = f"cpda-field, {nodes:,} nodes, one epoch as arrays; 5% loss"
    return _case(name, work, nodes, "node", repeats)


def _log(clients: int, rounds: int) -> NDArray[np.int64]:
    random = np.random.default_rng(1)
    weights = np.zeros((rounds, clients), np.int64)
    cohort = max(1, clients // 10)
    for row in weights:
        row[random.choice(clients, cohort, replace=False)] = 1
    return weights


def _audit(clients: int, rounds: int, repeats: int) -> Callable[[], Case]:
    def case() -> Case:
        weights = _log(clients, rounds)
        log = linear.Log.of_matrix(weights)
        works: dict[str, Callable[[], Any]] = {
            OURS: lambda: linear.audit(log).first_exposed,
        }
        if max(clients, rounds) <= _DECOMPOSED:
            floats = weights.astype(np.float64)
            works[f"{OURS}, and noise gains"] = lambda: linear.audit(log).gains
            works["NumPy svd: who, not when"] = lambda: _by_decomposition(floats)
        linear.audit(linear.Log.of_matrix(_log(10, 4)))  # the kernels are ready
        return Case(
            name=f"participation log, {clients:,} clients, {rounds:,} rounds: first exposures",
            rows=_timed(works, repeats),
            amount=clients * rounds,
            unit="entry",
        )

    return case


def _by_decomposition(weights: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the columns that singular vectors say are determined, by a tolerance."""
    _, singular, right = np.linalg.svd(weights, full_matrices=False)
    rank = int((singular > singular[0] * 1e-10).sum())
    inside = (right[:rank] ** 2).sum(axis=0)
    return np.flatnonzero(inside > 1 - 1e-8)
