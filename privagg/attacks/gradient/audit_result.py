"""What an audit of gradients found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.bounds import gaussian_epsilon, shift
from privagg.attacks.gradient.malicious import Suspicion
from privagg.attacks.gradient.metrics import Quality
from privagg.attacks.gradient.verdicts import MARGIN, LayerVerdict, Verdict, worst
from privagg.attacks.gradient.views import Seen
from privagg.errors import UsageError

__all__ = ["AttackResult", "GradientAudit", "LabelLeak"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelLeak:
    """Labels read from the last layer's gradient.

    Attributes
    ----------
    method : str
        ``ilrg`` or ``llg``.
    counts, true : tuple of int
        For each class: as read, and as it was.
    correct : float
        Share of the batch's labels that are right, as multisets.
    present : float
        Share of classes whose presence is right.
    chance : float
        `correct` of a guess that all classes are equally frequent.
    diagnosis : tuple of str
        What makes the counts doubtful.
    """

    method: str
    counts: tuple[int, ...]
    true: tuple[int, ...]
    correct: float
    present: float
    chance: float
    diagnosis: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttackResult:
    """One attack on one layer, held against the truth.

    Attributes
    ----------
    name, layer : str
        Which attack, on whose inputs.
    on_inputs : bool
        Whether these are the model's own inputs; else what a hidden layer gets.
    verified : bool
        Whether the attack proved its result without the truth.
    recovered : int
        Inputs that count as recovered (:mod:`~privagg.attacks.gradient.verdicts`).
    returned, batch : int
        How many inputs it gave, of how many.
    quality : Quality, optional
        Of matched pairs; None if it gave nothing.
    chance : (batch,) float array
        The chance line of each true input, in decibels.
    scaled : bool
        Whether signs and scales are known; else absolute PSNR says nothing.
    cpu_seconds : float
        Of the attack.
    diagnosis : tuple of str
        What limited it.
    true, found : (batch, d) and (returned, d) arrays
        For the pictures.
    shape : (channels, height, width), optional
        If they are images.
    iterations : int, optional
        Of attacks that optimise.
    """

    name: str
    layer: str
    on_inputs: bool
    verified: bool
    recovered: int
    returned: int
    batch: int
    quality: Quality | None = field(repr=False)
    chance: Floats = field(repr=False)
    scaled: bool
    cpu_seconds: float
    diagnosis: tuple[str, ...]
    true: Floats = field(repr=False)
    found: Floats = field(repr=False)
    shape: tuple[int, int, int] | None
    iterations: int | None

    def decibels(self, how: str = "mean") -> tuple[float, float] | None:
        """Return absolute PSNR, and the chance line of the same pairs; None without a scale.

        Parameters
        ----------
        how : {"mean", "max"}
            Over matched pairs; the chance line of ``max`` is that of the best pair.
        """
        if how not in ("mean", "max"):
            raise UsageError("how", how, "mean or max")
        pairs = self.quality
        if pairs is None or not len(pairs.psnr):
            return None
        # Without signs and scales the published figure, with its oracle, is all there is.
        values = pairs.psnr if self.scaled else pairs.psnr_published
        line = self.chance[pairs.true]
        if how == "mean":
            return float(values.mean()), float(line.mean())
        best = int(np.argmax(values - np.maximum(line, 0)))
        return float(values[best]), float(line[best])


@dataclass(frozen=True)
class GradientAudit:
    """What the server learned, by all attacks.

    Attributes
    ----------
    seen : Seen
        What it saw.
    layers : tuple of LayerVerdict
        A verdict on each linear layer.
    attacks : tuple of AttackResult
        Every attack that was tried.
    labels : LabelLeak, optional
        Labels that leak.
    suspicions : tuple of Suspicion
        Layers whose weights look made to leak; empty if none do.
    notes : tuple of str
        What limits the attacks or the audit.
    cpu_seconds : float
        Of it all.
    seed : int
        Of the attacks.
    """

    seen: Seen
    layers: tuple[LayerVerdict, ...]
    attacks: tuple[AttackResult, ...]
    labels: LabelLeak | None
    suspicions: tuple[Suspicion, ...]
    notes: tuple[str, ...]
    cpu_seconds: float
    seed: int

    @property
    def verdict(self) -> Verdict:
        """The worst of all layers; of attacks on the inputs alone if there are none."""
        if self.layers:
            verdict = worst(list(self.layers))
        else:
            verdict = Verdict.PARTIAL if self.seen.noise is None else Verdict.HIDDEN
        share = max((one.recovered / one.batch for one in self.attacks), default=0.0)
        order = list(Verdict)
        reached = Verdict.HIDDEN
        if share:
            reached = Verdict.RECONSTRUCTABLE if share >= 0.5 else Verdict.PARTIAL
        return min(verdict, reached, key=order.index)

    @property
    def best(self) -> AttackResult | None:
        """The attack that recovered most, of the model's own inputs if any was attacked."""
        return self.best_of()

    def best_of(self, name: str | None = None) -> AttackResult | None:
        """Return the best result of one attack, by its name; of all if none is named."""
        own = [one for one in self._targets() if name in (None, one.name)]
        return max(
            (one for one in own if one.quality is not None),
            key=lambda one: (one.verified, one.recovered, (one.decibels() or (0.0, 0.0))[0]),
            default=None,
        )

    def _targets(self) -> list[AttackResult]:
        own = [one for one in self.attacks if one.on_inputs]
        return own or list(self.attacks)

    def epsilon(self, delta: float = 1e-5, adjacency: str = "add-remove") -> float | None:
        """Return epsilon of what was seen, once; None without noise: no epsilon holds."""
        noise = self.seen.noise
        if noise is None:
            return None
        return gaussian_epsilon(
            shift(noise.multiplier, steps=noise.steps, adjacency=adjacency), delta
        )

    def leaks(self, threshold: float, how: str = "mean") -> list[AttackResult]:
        """Return the attacks above a threshold **and** 6 dB above their chance line.

        Parameters
        ----------
        threshold : float
            Absolute PSNR in decibels.
        how : {"mean", "max"}
            Over the pairs of an attack.
        """
        found = []
        for one in self._targets():
            levels = one.decibels(how)
            if levels is not None and levels[0] >= max(threshold, levels[1] + MARGIN):
                found.append(one)
        return found

    def why_nothing(self) -> list[str]:
        """Return why nothing was recovered; empty if something was."""
        if any(one.recovered for one in self.attacks):
            return []
        reasons = [f"{layer.name}: {layer.reason}" for layer in self.layers]
        for one in self.attacks:
            reasons += [f"{one.name} on {one.layer}: {text}" for text in one.diagnosis]
        return list(dict.fromkeys(reasons)) or ["no attack applies to this model"]
