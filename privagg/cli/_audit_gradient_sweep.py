"""Curves of an audit of gradients: quality over what a deployment can choose."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privagg.attacks.gradient.audit import audit
from privagg.attacks.gradient.verdicts import BAR
from privagg.cli._audit_gradient_inputs import GradientInputs
from privagg.cli.common import Step
from privagg.errors import UsageError
from privagg.report import Cell, Column, Plot, Reference, SecondAxis, Series, Table

if TYPE_CHECKING:  # It needs the extra torch, which this module is imported without.
    from privagg.integrations.gradient_views import FederatedView

__all__ = ["Curve", "Setup", "plots", "sweep", "table"]

_NOISES = (1e-4, 1e-3, 3e-3, 1e-2, 0.1, 1.0)
_COMPRESSIONS = ("none", "fp16", "int8", "top-0.1", "top-0.01", "sign")
_EMBEDDINGS = ("ica", "relu_exact")
"""What feature inversion needs first."""


@dataclass(frozen=True)
class Point:
    """One setting of a sweep.

    Attributes
    ----------
    x : float or str
        The setting.
    psnr, chance : float
        Mean absolute PSNR of what the attack gave, and of the chance line of the whole batch, in
        decibels.
    recovered, batch : int
        Inputs that count as recovered, of how many.
    epsilon : float, optional
        Where there is noise.
    verdict : str
        The worst of the layers.
    """

    x: float | str
    psnr: float | None
    chance: float | None
    recovered: int
    batch: int
    epsilon: float | None
    verdict: str


@dataclass(frozen=True)
class Curve:
    """A sweep: its name, the attack that made it, and its points."""

    name: str
    attack: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Setup:
    """What is audited, with settings that a sweep replaces."""

    made: GradientInputs
    batch: int
    clients: int
    settings: dict[str, Any]

    @classmethod
    def of(cls, made: GradientInputs, batch: int, clients: int, settings: dict[str, Any]) -> Setup:
        """Fill in what goes with noise."""
        filled = dict(settings)
        if filled["dp_noise"] and filled["clip"] is None:
            filled["clip"] = 1.0
        return cls(made, batch, clients, filled)

    def view(self) -> tuple[Any, FederatedView]:
        """Return the model at its stage of training, and the view."""
        from privagg.integrations.gradient_views import FederatedView, train

        made, held = self.made, self.settings
        model = made.model
        if held["epochs"]:
            model = train(
                model,
                made.examples,
                made.labels,
                epochs=held["epochs"],
                loss=made.loss,
                seed=held["sample_seed"],
            )
        return model, FederatedView(
            model=model,
            loss=made.loss,
            secagg=held["secagg"],
            bits=held["bits"],
            noise=held["dp_noise"],
            clip=held["clip"],
            local_steps=held["local_steps"],
            local_batch=held["local_batch"],
            rate=held["rate"],
            compression=held["compression"],
            seed=held["sample_seed"],
        )

    def with_(self, name: str, value: Any) -> Setup:
        """Return the setup with one setting replaced."""
        if name in ("batch", "clients"):
            return dataclasses.replace(self, **{name: value})
        settings = {**self.settings, name: value}
        if name == "dp_noise" and settings["clip"] is None:
            settings["clip"] = 1.0
        if name == "bits":
            settings["secagg"] = True
        if name == "compression" and value == "none":
            settings["compression"] = None
        if name == "local-epochs":
            size = min(settings["local_batch"] or self.batch, self.batch)
            settings["local_steps"] = value * -(-self.batch // size)
        return dataclasses.replace(self, settings=settings)


def _values(setup: Setup, name: str) -> list[Any]:
    most = len(setup.made.examples)
    match name:
        case "batch":
            values: list[Any] = [1, 2, 4, 8, 16, 32, 64, 128]
            return [n for n in values if n * setup.clients <= most]
        case "clients":
            least = 2 if setup.settings["secagg"] else 1
            return [n for n in (1, 2, 4, 8, 16, 32) if least <= n and n * setup.batch <= most]
        case "noise":
            return list(_NOISES)
        case "clip":
            return [0.01, 0.1, 1.0, 10.0]
        case "bits":
            if setup.clients < 2:
                raise UsageError("--sweep", "bits", "2 clients or more", "--clients 4, say.")
            return [8, 12, 16, 20, 24, 32]
        case "compression":
            return list(_COMPRESSIONS)
        case "local-steps" | "local-epochs":
            return [1, 2, 5, 10, 20]
    return [0, 1, 3, 10]


_FIELDS = {"noise": "dp_noise", "local-steps": "local_steps"}


def sweep(setup: Setup, name: str, step: Step) -> Curve:
    """Audit with one attack, the chosen one, at each value of one setting.

    Parameters
    ----------
    setup : Setup
        The audit, whose other settings stay.
    name : str
        What is varied.
    step : Step
        Progress.
    """
    values = _values(setup, name)
    attack = setup.settings["sweep_attack"]
    chosen = [*(_EMBEDDINGS if attack.startswith("feature_inversion") else ()), attack]
    points = []
    for done, value in enumerate(values):
        step(f"sweep over {name}", done, len(values))
        own = setup.with_(_FIELDS.get(name, name), value)
        batches, others = own.made.batches(own.batch, own.clients)
        model, view = own.view()
        found = audit(
            model,
            batches,
            view=view,
            attacks=chosen,
            loss=own.made.loss,
            others=others,
            iterations=own.settings["iterations"],
            seed=own.settings["sample_seed"],
        )
        best = found.best_of(attack)
        levels = None if best is None else best.decibels()
        points.append(
            Point(
                x=value if isinstance(value, str) else float(value),
                psnr=None if levels is None else levels[0],
                chance=None if best is None or levels is None else float(best.chance.mean()),
                recovered=0 if best is None else best.recovered,
                batch=found.seen.batch,
                epsilon=found.epsilon(own.settings["delta"]),
                verdict=found.verdict.value,
            )
        )
    step(f"sweep over {name}", len(values), len(values))
    return Curve(name, attack, tuple(points))


def table(curve: Curve) -> Table:
    """Return the points as a table."""
    rows: list[list[Cell]] = [
        [
            one.x,
            one.psnr,
            one.chance,
            f"{one.recovered} of {one.batch}",
            one.epsilon,
            one.verdict,
        ]
        for one in curve.points
    ]
    heads: list[Column | str] = [
        curve.name,
        Column("PSNR", "dB"),
        Column("chance", "dB"),
        "recovered",
        "epsilon",
        "verdict",
    ]
    return Table(f"Over {curve.name}, by {curve.attack} alone", heads, rows)


def plots(curve: Curve) -> list[Plot]:
    """Return the curve as a plot; with noise, epsilon is a second scale of the same axis."""
    known = [one for one in curve.points if one.psnr is not None and one.chance is not None]
    if not known:
        return []
    named = any(isinstance(one.x, str) for one in known)
    xs = [one.x for one in known]
    log = curve.name not in ("bits", "epochs") and all(
        isinstance(one.x, float) and one.x > 0 for one in known
    )
    second = None
    private = [(p.x, p.epsilon) for p in known if p.epsilon and isinstance(p.x, float)]
    if curve.name == "noise" and private:
        second = SecondAxis(
            "epsilon, one example added or removed",
            [x for x, _ in private],
            [_short(epsilon) for _, epsilon in private],
        )
    return [
        Plot(
            kind="bar" if named else "line",
            title=f"Quality over {curve.name}",
            x_label=_LABELS[curve.name],
            y_label="absolute PSNR [dB]",
            series=[
                Series(curve.attack, xs, [one.psnr or 0.0 for one in known]),
                Series("chance", xs, [one.chance or 0.0 for one in known]),
            ],
            log_x=log,
            references=[Reference(BAR, "counts as recovered")],
            second_x=second,
        )
    ]


def _short(value: float) -> str:
    """Write 91.8, 5.4k, 50M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{float(f'{value / size:.2g}'):g}{letter}" if value < 1e12 else f"{value:.0e}"
    return f"{value:.3g}"


_LABELS = {
    "batch": "examples of each client",
    "clients": "clients in the sum",
    "noise": "noise multiplier",
    "clip": "bound of each example's gradient",
    "bits": "bits of a number",
    "compression": "compression of each client's gradient",
    "local-steps": "local SGD steps",
    "local-epochs": "local epochs of each client",
    "epochs": "epochs of training before",
}
