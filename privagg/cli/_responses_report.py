"""Plans and simulations of learning from bags, as reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from privagg.protocols.responses.planner import Curve, Forecast
from privagg.report import Cell, Plot, Report, Series, Table

if TYPE_CHECKING:
    from privagg.protocols.responses.simulation import Outcome

__all__ = ["plan", "simulation"]

_NAMES = {
    "bag": "bag level",
    "instance": "instance level",
    "interpolated": "interpolated, best rho",
    "easyllp": "EasyLLP",
    "bag_ridge": "bag level, best ridge",
}
_MOST = 3.0
"""Risks above this are off the pictures: guessing the mean has 1."""


def plan(found: Forecast, simulated: int, seeded: bool) -> Report:
    """Report a forecast."""
    best, one = found.best, found.row_level
    data = {
        "samples": found.samples,
        "features": found.features,
        "psi": found.psi,
        "snr": found.snr,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "bag_size": found.bag_size,
        "risk": {name: _finite(value) for name, value in found.risk.items()},
        "best": {
            "rho": best.rho,
            "ridge": best.ridge,
            "bag_size": best.size,
            "clip": _finite(best.clip),
            "risk": best.risk,
        },
        "row_level": {"ridge": one.ridge, "clip": _finite(one.clip), "risk": one.risk},
        "bagging_helps": found.bagging_helps,
        "by_size": [_curve(curve) for curve in found.by_size],
        "by_rho": [_curve(curve) for curve in found.by_rho],
        "simulated_rows": simulated,
        "insecure_seed": seeded,
    }
    sizes = found.by_size[0].at
    rows: list[list[Cell]] = [
        [f"{size:g}", *(_finite(curve.risk[at]) for curve in found.by_size)]
        for at, size in enumerate(sizes)
    ]
    privacy = "exact means" if found.epsilon is None else f"epsilon {found.epsilon:g}"
    return Report(
        title=f"Plan: {found.samples:,} responses in bags, {found.features:,} features, {privacy}",
        data=data,
        tables=[
            Table(
                "Excess risk over the signal's variance",
                ["bag size", *(_NAMES[curve.name] for curve in found.by_size)],
                rows,
            )
        ],
        plots=list(_plots(found)),
        notes=list(_notes(found)),
        verdict=(
            f"Best: bags of {best.size}, rho {best.rho:.3g}, ridge {best.ridge:.3g}"
            + ("" if math.isinf(best.clip) else f", clip ±{best.clip:.3g} r")
            + f": excess risk {best.risk:.3g}."
        ),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _curve(curve: Curve) -> dict[str, object]:
    return {
        "name": curve.name,
        "at": list(curve.at),
        "risk": [_finite(value) for value in curve.risk],
        "simulated": list(curve.simulated),
    }


def _plots(found: Forecast) -> Iterator[Plot]:
    if len(found.by_size[0].at) > 1:
        yield Plot(
            kind="line",
            title="Excess risk by bag size",
            x_label="rows of a bag",
            y_label="excess risk over the signal",
            series=[_series(_NAMES[c.name], c.at, c.risk) for c in found.by_size if _shown(c.risk)],
            log_x=True,
        )
    for curve in found.by_rho:
        series = [_series("theory", curve.at, curve.risk)]
        if curve.simulated:
            series.append(_series("Monte Carlo", curve.at, curve.simulated))
        if all(one.x for one in series):
            yield Plot(
                kind="line",
                title=f"Excess risk by interpolation, bags of {found.bag_size}, no ridge",
                x_label="rho",
                y_label="excess risk over the signal",
                series=series,
                log_x=True,
            )


def _shown(risks: tuple[float, ...]) -> bool:
    return any(risk <= _MOST for risk in risks)


def _series(name: str, at: tuple[float, ...], risks: tuple[float, ...]) -> Series:
    kept = [(x, y) for x, y in zip(at, risks, strict=True) if y <= _MOST]
    return Series(name, [x for x, _ in kept], [y for _, y in kept])


def _notes(found: Forecast) -> Iterator[str]:
    yield (
        "Closed forms, exact as samples and features grow: independent Gaussian features, random "
        "bags. Without ridge they hold for any covariance."
    )
    if found.epsilon is not None:
        yield (
            "Each risk is at its best clipping bound, in units of the signal's standard deviation "
            "r: take it from public knowledge, or pay for it out of epsilon."
        )
    if not found.bagging_helps:
        one = found.row_level
        how = "exact" if found.epsilon is None else "label differential privacy"
        yield (
            f"Bagging buys nothing here: single rows ({how}, bags of 1) with ridge "
            f"{one.ridge:.3g} have an excess risk of {one.risk:.3g}. Larger bags are a policy, not "
            "a gain."
        )
    if any(math.isinf(value) for value in found.risk.values()):
        yield "A dash is a pole: as many features as bags."


def simulation(found: Outcome) -> Report:
    """Report a simulated release and what was learnt from it."""
    data = {
        "input": found.source,
        "target": found.target,
        "task": found.task,
        "loss": found.loss,
        "model": found.model,
        "rho": found.rho,
        "ridge": found.ridge,
        "bag_size": found.bag_size,
        "bags": found.bags,
        "rows": {"train": found.train, "test": found.test},
        "features": found.features,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "clip": None if found.clip is None else list(found.clip),
        "kappa": found.kappa,
        "noise_deviation": math.sqrt(found.noise_variance),
        "test_error": found.test_error,
        "baseline_error": found.baseline_error,
        "trivial_error": found.trivial_error,
        "row_level_error": found.row_level_error,
        "seconds": found.seconds,
        "guarantee": found.guarantee,
        "insecure_seed": found.insecure,
    }
    rows: list[list[Cell]] = [
        [f"bags of {found.bag_size}, released", found.test_error],
        ["bags of 1, the same epsilon", found.row_level_error],
        ["every row's own response, no privacy", found.baseline_error],
        ["no features", found.trivial_error],
    ]
    measure = "error rate" if found.task == "classes" else "MSE over the variance"
    return Report(
        title=f"{found.source}: {found.target} learnt from {found.bags:,} bags",
        data=data,
        tables=[Table(f"Test error ({measure})", ["learnt from", "error"], rows)],
        plots=[
            Plot(
                kind="bar",
                title="Test error",
                x_label="learnt from",
                y_label=measure,
                series=[
                    Series(
                        "test error",
                        [str(row[0]) for row in rows if row[1] is not None],
                        [float(row[1]) for row in rows if isinstance(row[1], float)],
                    )
                ],
            )
        ],
        notes=list(_simulated_notes(found)),
        verdict=f"The release has {found.guarantee}.",
    )


def _simulated_notes(found: Outcome) -> Iterator[str]:
    chosen = [name for name in ("rho", "ridge") if name in found.chosen]
    if chosen:
        yield (
            f"{' and '.join(chosen)} chosen by cross-validation over bags, from what was released "
            "alone."
        )
    if found.outside:
        yield (
            f"{found.outside} released proportions lay outside [0, 1] and were moved to its ends "
            "for the cross-entropy."
        )
    yield "Features, membership and sizes of bags are public in this model."
    if found.row_level_error is not None and found.row_level_error < found.test_error:
        yield "Bags of 1 with the same guarantee do better here: bagging is a policy, not a gain."
    if found.insecure:
        yield "Seeded, so insecure: who knows the seed knows the noise."
