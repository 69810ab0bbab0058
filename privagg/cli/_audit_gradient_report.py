"""An audit of gradients as a report."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import privagg
from privagg.attacks.gradient.audit import audit
from privagg.attacks.gradient.audit_result import AttackResult, GradientAudit
from privagg.attacks.gradient.bounds import ADJACENCIES, reconstruction_bound, shift
from privagg.attacks.gradient.verdicts import Verdict
from privagg.attacks.gradient.worst_case import WorstCase
from privagg.cli import _audit_gradient_sweep as sweeping
from privagg.cli._audit_gradient_inputs import GradientInputs
from privagg.cli.common import Step
from privagg.report import Cell, Column, ImageGrid, Plot, Report, Series, Table

__all__ = ["PROOF", "picture_grid", "run"]

PROOF = (
    "That an attack fails is no proof of privacy: a better one, or more knowledge, may not. Only "
    "epsilon bounds every attack, and the worst-case test shows what one example gives away."
)

_PRIORS = (1e-4, 0.01, 0.1)
_SHOWN = 12


def run(
    made: GradientInputs,
    *,
    batch: int,
    clients: int,
    attacks: Sequence[str],
    sweeps: Sequence[str],
    fail_above: float | None,
    fail_on: str,
    settings: dict[str, Any],
    step: Step,
) -> tuple[Report, bool]:
    """Audit; return the report, and whether an attack is above the threshold."""
    setup = sweeping.Setup.of(made, batch, clients, settings)
    step("attacks", 0, 1)
    batches, others = made.batches(batch, clients)
    model, view = setup.view()
    found = audit(
        model,
        batches,
        view=view,
        attacks=attacks[0] if len(attacks) == 1 else attacks,
        loss=made.loss,
        others=others,
        iterations=settings["iterations"],
        seed=settings["sample_seed"],
    )
    step("attacks", 1, 1)
    delta = settings["delta"]
    tests = _worst_cases(found, settings)
    curves = [sweeping.sweep(setup, name, step) for name in sweeps]
    leaks = [] if fail_above is None else found.leaks(fail_above, fail_on)
    data = {
        "audit": "gradient",
        "source": made.source,
        "view": {
            "batch": found.seen.batch,
            "clients": found.seen.clients,
            "floor": found.seen.floor,
            "ledger": [list(line) for line in found.seen.ledger],
        },
        "attacks": [_attack(one) for one in found.attacks],
        "layers": [{**asdict(one), "verdict": one.verdict.value} for one in found.layers],
        "epsilon": found.epsilon(delta),
        "epsilon_replace": found.epsilon(delta, "replace"),
        "delta": delta,
        "reconstruction_bound": _bounds(found),
        "worst_case": [asdict(one) for one in tests],
        "labels": None if found.labels is None else asdict(found.labels),
        "verdict": found.verdict.value,
        "why_nothing": found.why_nothing(),
        "notes": list(found.notes),
        "sweeps": [asdict(one) for one in curves],
        "fail_above": fail_above,
        "fail_on": fail_on,
        "leak": bool(leaks),
        "leaks": [one.name for one in leaks],
        "cpu_seconds": found.cpu_seconds,
        "seed": found.seed,
        "versions": _versions(),
    }
    return (
        Report(
            title=f"Audit of gradients: {made.source}",
            data=data,
            tables=[
                _ledger(found),
                _layers(found),
                _attacks(found),
                *_limits(found),
                _privacy(found, tests, delta),
                *_labels(found),
                *[sweeping.table(one) for one in curves],
                _reproduce(found),
            ],
            plots=[
                *_grids(found),
                *_spectrum(found),
                *[plot for one in curves for plot in sweeping.plots(one)],
            ],
            notes=_notes(found),
            verdict=_verdict(found, leaks, fail_above, fail_on, delta),
        ),
        bool(leaks),
    )


def _worst_cases(found: GradientAudit, settings: dict[str, Any]) -> list[WorstCase]:
    from privagg.integrations.gradient_canary import worst_case

    noise = found.seen.noise
    return [
        worst_case(
            0.0 if noise is None else noise.multiplier,
            1.0 if noise is None else noise.clip,
            trials=settings["trials"],
            delta=settings["delta"],
            adjacency=adjacency,
            seed=settings["sample_seed"],
        )
        for adjacency in ADJACENCIES
    ]


def _attack(one: AttackResult) -> dict[str, Any]:
    pairs = one.quality
    levels = one.decibels()
    known = pairs is not None and len(pairs.psnr) and one.scaled

    def mean(values: Any) -> float | None:
        return None if values is None or not len(values) else float(np.mean(values))

    return {
        "name": one.name,
        "layer": one.layer,
        "on_inputs": one.on_inputs,
        "verified": one.verified,
        "recovered": one.recovered,
        "returned": one.returned,
        "batch": one.batch,
        "psnr_abs_mean": mean(pairs.psnr) if known and pairs is not None else None,
        "psnr_abs_min": float(pairs.psnr.min()) if known and pairs is not None else None,
        "psnr_abs_max": float(pairs.psnr.max()) if known and pairs is not None else None,
        "psnr_published": None if pairs is None else mean(pairs.psnr_published),
        "chance_psnr": None if levels is None else levels[1],
        "above_20": None if pairs is None else pairs.above(20.0),
        "above_30": None if pairs is None else pairs.above(30.0),
        "ssim": None if pairs is None else mean(pairs.ssim),
        "cosine": None if pairs is None else mean(pairs.cosine),
        "perceptual": None if pairs is None else mean(pairs.perceptual),
        "cpu_seconds": one.cpu_seconds,
        "iterations": one.iterations,
        "diagnosis": list(one.diagnosis),
    }


def _bounds(found: GradientAudit) -> list[dict[str, float | str]]:
    noise = found.seen.noise
    if noise is None:
        return []
    return [
        {
            "prior": prior,
            "adjacency": adjacency,
            "success": reconstruction_bound(
                prior, noise.multiplier, steps=noise.steps, adjacency=adjacency
            ),
        }
        for adjacency in ADJACENCIES
        for prior in _PRIORS
    ]


def _versions() -> dict[str, str]:
    found = {"privagg": privagg.__version__}
    for name in ("numpy", "torch", "opacus"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _ledger(found: GradientAudit) -> Table:
    rows: list[list[Cell]] = [[name, text] for name, text in found.seen.ledger]
    rows.append(["Examples in what it sees", found.seen.batch])
    floor = f"{found.seen.floor:.2e}" if found.seen.floor else "that of float32"
    rows.append(["Rounding of an entry", f"{floor}: exact is up to this"])
    return Table("Threat model: who sees what", ["", ""], rows)


def _layers(found: GradientAudit) -> Table:
    rows: list[list[Cell]] = [
        [
            one.name,
            f"{one.shape[0]} x {one.shape[1]}",
            one.batch,
            one.rank,
            one.visible_rank,
            one.ratio,
            one.zero_share,
            one.verdict.value,
            one.reason,
        ]
        for one in found.layers
    ]
    heads = ["layer", "shape", "inputs", "rank", "visible", "h/B", "zeros", "verdict", "reason"]
    return Table("What each linear layer's gradient shows", heads, rows)


def _attacks(found: GradientAudit) -> Table:
    rows: list[list[Cell]] = []
    for one in found.attacks:
        held = _attack(one)
        rows.append(
            [
                one.name,
                one.layer,
                one.verified,
                f"{one.recovered} of {one.batch}",
                held["psnr_abs_mean"],
                held["psnr_abs_min"],
                held["chance_psnr"],
                held["psnr_published"],
                held["ssim"],
                held["cosine"],
                one.cpu_seconds,
            ]
        )
    heads: list[Column | str] = [
        "attack",
        "layer",
        "proved",
        "recovered",
        Column("PSNR", "dB"),
        Column("least", "dB"),
        Column("chance", "dB"),
        Column("with an oracle", "dB"),
        "SSIM",
        "cosine",
        Column("CPU", "s"),
    ]
    return Table("Attacks", heads, rows)


def _limits(found: GradientAudit) -> list[Table]:
    """Return why attacks gave no more: sentences, too long for the table of figures."""
    rows: list[list[Cell]] = [
        [one.name, one.layer, one.diagnosis[0]] for one in found.attacks if one.diagnosis
    ]
    return [Table("Why not more", ["attack", "layer", "limit"], rows)] if rows else []


def _privacy(found: GradientAudit, tests: list[WorstCase], delta: float) -> Table:
    rows: list[list[Cell]] = []
    for one in tests:
        epsilon = found.epsilon(delta, one.adjacency)
        name = "one example added or removed" if one.adjacency == "add-remove" else "one replaced"
        noise = found.seen.noise
        success = None
        if noise is not None:
            success = reconstruction_bound(
                0.01, noise.multiplier, steps=noise.steps, adjacency=one.adjacency
            )
        row: list[Cell] = [
            name,
            "unbounded: no noise" if epsilon is None else epsilon,
            one.epsilon,
            one.epsilon_gaussian,
            "-" if noise is None else shift(noise.multiplier, adjacency=one.adjacency),
            1.0 if success is None else success,
        ]
        rows.append(row)
    heads = [
        "neighbours",
        f"epsilon at delta {delta:g}, at most",
        "proved, at least",
        "if Gaussian, at least",
        "shift",
        "1 % guess becomes at most",
    ]
    return Table("What is guaranteed, and what the worst case proves (95 %)", heads, rows)


def _labels(found: GradientAudit) -> list[Table]:
    leaked = found.labels
    if leaked is None:
        return []
    rows: list[list[Cell]] = [
        [place, read, true]
        for place, (read, true) in enumerate(zip(leaked.counts, leaked.true, strict=True))
        if read or true
    ]
    title = (
        f"Labels by {leaked.method}: {leaked.correct:.0%} of the examples' right "
        f"({leaked.chance:.0%} if all classes were equal)"
    )
    return [Table(title, ["label", "read", "true"], rows[:50])]


def _reproduce(found: GradientAudit) -> Table:
    rows: list[list[Cell]] = [[name, text] for name, text in _versions().items()]
    rows += [["seed", found.seed], ["CPU seconds", found.cpu_seconds]]
    return Table("To run it again", ["", ""], rows)


def _grids(found: GradientAudit) -> list[ImageGrid]:
    shown = [
        one
        for one in found.attacks
        if one.shape is not None and one.quality is not None and one.shape[0] in (1, 3)
    ]
    best = found.best
    if best not in shown:
        best = shown[0] if shown else None
    order = ([best] if best is not None else []) + [one for one in shown if one is not best]
    return [picture_grid(one) for one in order[:3]]


def picture_grid(one: AttackResult, most: int = _SHOWN) -> ImageGrid:
    """Return true and recovered pictures below each other, the best first.

    Parameters
    ----------
    one : AttackResult
        With a shape and pairs.
    most : int
        Pictures at most.
    """
    assert one.quality is not None
    assert one.shape is not None
    pairs = one.quality
    order = np.argsort(-(pairs.psnr if one.scaled else pairs.cosine))[:most]
    true = one.true[pairs.true[order]].reshape(-1, *one.shape)
    found = one.found[pairs.recovered[order]].reshape(-1, *one.shape)
    if not one.scaled:
        found = np.stack([_stretched(a, b) for a, b in zip(found, true, strict=True)])
    texts = [
        f"{pairs.psnr[i]:.1f} dB" if one.scaled else f"cos {pairs.cosine[i]:.2f}" for i in order
    ]
    chance = [f"chance {one.chance[pairs.true[i]]:.0f}" for i in order]
    return ImageGrid(
        f"{one.name}: {one.recovered} of {one.batch} recovered"
        + (", proved exact without the truth" if one.verified else ""),
        ["true", "recovered"],
        [_rgb(true), _rgb(found)],
        [chance, texts],
    )


def _stretched(found: Any, true: Any) -> Any:
    """Fit sign, scale and offset, which are arbitrary without a bias."""
    slope, offset = np.polyfit(found.ravel(), true.ravel(), 1)
    return slope * found + offset


def _rgb(pictures: Any) -> Any:
    wide = np.repeat(pictures, 3, axis=1) if pictures.shape[1] == 1 else pictures
    return np.ascontiguousarray(np.clip(wide, 0, 1).transpose(0, 2, 3, 1))


def _spectrum(found: GradientAudit) -> list[Plot]:
    series = []
    for one in found.layers[:4]:
        values = [v for v in one.singular[: one.batch + 16] if v > 1e-300]
        if len(values) > 1:
            name = f"{one.name}: {one.verdict.value}"
            series.append(Series(name, list(range(1, len(values) + 1)), values))
            if found.seen.noise is not None and one.edge > 0:
                name = f"{one.name}: noise's edge"
                series.append(Series(name, [1, len(values)], [one.edge, one.edge]))
    if not series:
        return []
    return [
        Plot(
            kind="line",
            title="Components of each layer's gradient",
            x_label="component",
            y_label="singular value",
            series=series,
            log_y=True,
        )
    ]


def _notes(found: GradientAudit) -> list[str]:
    notes = [PROOF]
    notes += found.notes
    if found.seen.noise is None:
        notes.append("No noise was added: no epsilon holds, whatever the attacks found.")
    else:
        notes.append(
            "Epsilon is of one such release, of real-valued Gaussian noise on the sum, without "
            "sampling; a training spends it in every round."
        )
    if found.seen.clients > 1 and not found.seen.single:
        notes.append(
            f"Secure aggregation hides whose example one is, among {found.seen.clients} clients; "
            f"not what it is: the sum is a gradient of {found.seen.batch} examples."
        )
    notes.append(
        "Chance: the better of another example, matched alike, and the best plain colour. "
        "With an oracle: as published, each picture rescaled, the better sign taken."
    )
    notes += [f"Why nothing was found: {text}" for text in found.why_nothing()[:6]]
    return notes


_MEANING = {
    Verdict.EXACT: "the server reads every example, and can prove it",
    Verdict.RECONSTRUCTABLE: "the server reads most examples",
    Verdict.PARTIAL: "the server reads some examples, or mixtures of them",
    Verdict.HIDDEN: "noise hides every component from these attacks",
}


def _verdict(
    found: GradientAudit,
    leaks: list[AttackResult],
    fail_above: float | None,
    how: str,
    delta: float,
) -> str:
    epsilon = found.epsilon(delta)
    text = f"{found.verdict.value}: {_MEANING[found.verdict]}. "
    text += (
        "No noise: no epsilon."
        if epsilon is None
        else f"Epsilon is at most {epsilon:.4g} at delta {delta:g}, one example added or removed."
    )
    if leaks:
        names = ", ".join(one.name for one in leaks)
        text += f" LEAK: {names} above {fail_above:g} dB ({how}) and 6 dB above chance."
    elif fail_above is not None:
        text += f" No attack is above {fail_above:g} dB ({how}) and 6 dB above chance."
    return text
