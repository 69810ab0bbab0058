"""Tables and pictures of an audit of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privagg.attacks.gradient.advice import Advice
from privagg.attacks.gradient.audit_result import AttackResult, GradientAudit
from privagg.attacks.gradient.bounds import reconstruction_bound
from privagg.attacks.gradient.malicious import KINDS, Suspicion
from privagg.attacks.gradient.worst_case import WorstCase
from privagg.report import Cell, Column, ImageGrid, Plot, Series, Table

__all__ = [
    "attack_object",
    "attacks",
    "detector_objects",
    "detectors",
    "grids",
    "labels",
    "layers",
    "ledger",
    "limits",
    "next_steps",
    "picture_grid",
    "privacy",
    "spectrum",
]

_SHOWN = 12


def attack_object(one: AttackResult) -> dict[str, Any]:
    """Return an attack's part of the JSON object."""
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


def ledger(found: GradientAudit) -> Table:
    """Return the threat model: a line each."""
    rows: list[list[Cell]] = [[name, text] for name, text in found.seen.ledger]
    rows.append(["Examples in what it sees", found.seen.batch])
    floor = f"{found.seen.floor:.2e}" if found.seen.floor else "that of float32"
    rows.append(["Rounding of an entry", f"{floor}: exact is up to this"])
    return Table("Threat model: who sees what", ["", ""], rows)


def layers(found: GradientAudit) -> list[Table]:
    """Return the verdict on each layer, and its reason."""
    if not found.layers:
        return []
    rows: list[list[Cell]] = [
        [
            one.name,
            f"{one.shape[0]} x {one.shape[1]}",
            one.batch,
            one.rank,
            one.visible_rank,
            one.ratio,
            one.zero_share,
        ]
        for one in found.layers
    ]
    heads = ["layer", "shape", "inputs", "rank", "visible", "h/B", "zeros"]
    why: list[list[Cell]] = [[one.name, one.verdict.value, one.reason] for one in found.layers]
    return [
        Table("What each linear layer's gradient shows", ["layer", "verdict", "reason"], why),
        Table("In numbers", heads, rows),
    ]


def attacks(found: GradientAudit) -> list[Table]:
    """Return what each attack recovered, and other measures of the same pairs."""
    rows: list[list[Cell]] = []
    more: list[list[Cell]] = []
    plugged = any(
        one.quality is not None and one.quality.perceptual is not None for one in found.attacks
    )
    for one in found.attacks:
        held, name = attack_object(one), _where(one)
        count = f"{one.recovered} of {one.batch}" + (", proved" if one.verified else "")
        levels = [held["psnr_abs_mean"], held["psnr_abs_min"], held["chance_psnr"]]
        rows.append([name, count, *levels])
        measures = [held["psnr_published"], held["ssim"], held["cosine"]]
        measures += [held["perceptual"]] if plugged else []
        more.append([name, *measures, one.cpu_seconds])
    decibels: list[Column | str] = [Column(name, "dB") for name in ("PSNR", "least", "chance")]
    others: list[Column | str] = ["attack, layer", Column("oracle's PSNR", "dB"), "SSIM", "cosine"]
    others += ["perceptual"] if plugged else []
    return [
        Table("Attacks", ["attack, layer", "recovered", *decibels], rows),
        Table("The same pairs by other measures", [*others, Column("CPU", "s")], more),
    ]


def _where(one: AttackResult) -> str:
    return f"{one.name}, {one.layer}"


def limits(found: GradientAudit) -> list[Table]:
    """Return why attacks gave no more: sentences, too long for the table of figures."""
    rows: list[list[Cell]] = [
        [_where(one), one.diagnosis[0]] for one in found.attacks if one.diagnosis
    ]
    return [Table("Why not more", ["attack, layer", "limit"], rows)] if rows else []


def privacy(found: GradientAudit, tests: list[WorstCase], delta: float) -> Table:
    """Return what is guaranteed beside what the worst case proves."""
    rows: list[list[Cell]] = []
    for one in tests:
        epsilon = found.epsilon(delta, one.adjacency)
        name = "one added or removed" if one.adjacency == "add-remove" else "one replaced"
        noise = found.seen.noise
        success = None
        if noise is not None:
            success = reconstruction_bound(
                0.01, noise.multiplier, steps=noise.steps, adjacency=one.adjacency
            )
        row: list[Cell] = [
            name,
            "no noise: none" if epsilon is None else epsilon,
            one.epsilon,
            one.epsilon_gaussian,
            f"{1.0 if success is None else success:.0%}",
        ]
        rows.append(row)
    heads = [
        "neighbours",
        "epsilon, at most",
        "worst case, at least",
        "if Gaussian, at least",
        "1 % guess, at most",
    ]
    return Table(
        "A failed attack proves nothing: what is guaranteed, and what the worst case shows (95 %)",
        heads,
        rows,
    )


def labels(found: GradientAudit) -> list[Table]:
    """Return the labels that leak."""
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


def detectors(found: Sequence[Suspicion]) -> Table:
    """Return what each detector of weights that are made to leak has to say."""
    rows: list[list[Cell]] = []
    for held in detector_objects(found):
        layers = held["layers"]
        rows += [[held["name"], one["layer"], one["score"], one["reason"]] for one in layers]
        if not layers:
            rows.append([held["name"], "none", None, "no layer looks made to leak; no proof"])
    return Table("Was the model made to leak?", ["weights", "layer", "score", "reason"], rows)


def detector_objects(found: Sequence[Suspicion]) -> list[dict[str, Any]]:
    """Return the detectors' part of the JSON object: every detector, with what it found."""
    return [
        {
            "name": kind,
            "found": any(one.kind == kind for one in found),
            "layers": [
                {"layer": one.layer, "score": one.score, "reason": one.reason}
                for one in found
                if one.kind == kind
            ],
        }
        for kind in KINDS
    ]


def next_steps(said: Sequence[Advice]) -> list[Table]:
    """Return what to do next, and what then holds."""
    rows: list[list[Cell]] = [[one.change, one.effect] for one in said]
    return [Table("What to do next", ["change", "then"], rows)] if rows else []


def grids(found: GradientAudit) -> list[ImageGrid]:
    """Return true and recovered pictures of up to three attacks, the best one first."""
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
        f"{pairs.psnr[i]:.{0 if pairs.psnr[i] >= 100 else 1}f} dB"
        if one.scaled
        else f"cos {pairs.cosine[i]:.2f}"
        for i in order
    ]
    chance = [f"{one.chance[pairs.true[i]]:.0f} dB" for i in order]
    return ImageGrid(
        f"{one.name}: {one.recovered} of {one.batch} recovered"
        + (", proved exact without the truth" if one.verified else ""),
        ["true; chance", "recovered"],
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


def spectrum(found: GradientAudit) -> list[Plot]:
    """Return each layer's singular values, and the edge of the noise."""
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
