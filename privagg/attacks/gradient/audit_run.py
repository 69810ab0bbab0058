"""The attacks of an audit: each gets what the view lets through, and is held against the truth."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.analytic import analytic
from privagg.attacks.gradient.audit_result import AttackResult
from privagg.attacks.gradient.chance import chance_cosine, chance_psnr, chance_published
from privagg.attacks.gradient.cocktail_party import cocktail_party
from privagg.attacks.gradient.factors import Factors, factorize
from privagg.attacks.gradient.feature_inversion import invert_features
from privagg.attacks.gradient.ica import ica
from privagg.attacks.gradient.metrics import quality
from privagg.attacks.gradient.observation import LayerGradient, Observation
from privagg.attacks.gradient.optimisation import dlg, inverting_gradients
from privagg.attacks.gradient.recovery import Recovery
from privagg.attacks.gradient.relu_exact import relu_exact
from privagg.attacks.gradient.torch_models import embedding
from privagg.attacks.gradient.truth import LayerTruth
from privagg.attacks.gradient.verdicts import BAR, MARGIN, LayerVerdict, above_floor, judge
from privagg.attacks.gradient.views import Batch, Seen
from privagg.errors import UsageError

__all__ = ["ATTACKS", "FAST", "INPUTS", "STEPS", "Run", "label_array"]

FAST = ("analytic", "ica", "relu_exact")
"""Attacks that take seconds."""

_INVERSIONS = ("feature_inversion", "feature_inversion+gm")

_MATCHING = ("inverting_gradients", "dlg")

INPUTS = (*_INVERSIONS, *_MATCHING)
"""Attacks that optimise the model's own inputs."""

ATTACKS = (*FAST, "cocktail_party", *INPUTS)
"""All attacks, in the order in which they run."""

STEPS = {
    "cocktail_party": 1000,
    "feature_inversion": 300,
    "feature_inversion+gm": 300,
    "inverting_gradients": 100,
    "dlg": 8,
}
"""Steps of each attack that optimises."""

_MATCHED = 0.1
"""Weight of gradient matching in feature inversion."""

Perceptual = Callable[[Any, Any], NDArray[np.floating]]


@dataclass(kw_only=True)
class Run:
    """The attacks on one view.

    Attributes
    ----------
    model, batches, loss, others
        As for :func:`privagg.attacks.gradient.audit`.
    seen : Seen
        What the server saw.
    observed : Observation, optional
        Its linear layers, if there are any.
    shape : (channels, height, width), optional
        Of the inputs, if they are images.
    data_range, perceptual, iterations, budget, seed
        As for :func:`privagg.attacks.gradient.audit`.
    """

    model: Any = field(repr=False)
    batches: Sequence[Batch] = field(repr=False)
    loss: Callable[[Any, Any], Any] | None
    others: NDArray[Any] | None = field(repr=False)
    seen: Seen
    observed: Observation | None = field(repr=False)
    shape: tuple[int, int, int] | None
    data_range: float
    perceptual: Perceptual | None
    iterations: int | None
    budget: float
    seed: int
    embeddings: tuple[str, Recovery] | None = field(default=None, init=False, repr=False)

    def layer(
        self, place: int, layer: LayerGradient, truth: LayerTruth, chosen: Sequence[str]
    ) -> tuple[LayerVerdict, list[AttackResult]]:
        """Attack one layer and judge it."""
        observed, factors, doubt = self._limited(layer, truth)
        found = []
        for name in chosen:
            if name in INPUTS:
                continue
            recovery = self._attack(observed, name, place, truth)
            if isinstance(recovery, Recovery) and doubt:
                recovery = dataclasses.replace(recovery, diagnosis=(doubt, *recovery.diagnosis))
            if isinstance(recovery, Recovery) and not len(recovery):
                why = "; ".join(recovery.diagnosis) or "it gave nothing"
                found.append(self._nothing(name, layer.name, truth, why))
            elif isinstance(recovery, Recovery):
                found.append(self._measure(recovery, layer.name, truth, self._image(truth)))
                if place == 0 and not truth.is_input:
                    self._keep(layer.name, recovery)
            elif recovery is not None:
                found.append(self._nothing(name, layer.name, truth, recovery))
        best = max(found, key=lambda one: (one.verified, one.recovered), default=None)
        doubts = (*([doubt] if doubt else []), *factors.diagnosis)
        verdict = judge(
            layer,
            factors,
            batch=len(truth.inputs),
            distinct=_distinct(truth.inputs),
            zero_share=truth.zero_share,
            deviation=0.0 if self.seen.noise is None else self.seen.noise.deviation,
            verified=max((one.returned for one in found if one.verified), default=0),
            recovered=max((one.recovered for one in found), default=0),
            best="no attack" if best is None else best.name,
            doubts=(*doubts, *(() if best is None else best.diagnosis)),
        )
        return verdict, found

    def _limited(self, layer: LayerGradient, truth: LayerTruth) -> tuple[Observation, Factors, str]:
        """Return what is known of a layer: how many inputs can be told apart, and why no more.

        A layer that sees several positions of an example has so many times its inputs. Components
        that are not above a known encoding's rounding are rounding: equal inputs are one, as they
        are in an exact sum, where the rank says it.
        """
        assert self.observed is not None
        examples = sum(len(batch) for batch in self.batches)
        inputs = self.seen.batch * max(1, len(truth.inputs) // examples)
        observed = dataclasses.replace(self.observed, batch=inputs)
        factors = factorize(layer, inputs, self.seen.rounding)
        if not self.seen.rounding or self.seen.noise is not None:
            return observed, factors, ""
        above = above_floor(layer, factors, self.seen.rounding)
        if not 0 < above < factors.rank:
            return observed, factors, ""
        doubt = (
            f"rank {above} of a batch of {inputs} above the rounding of the fixed point: inputs "
            "that are equal, or that the model already fits, cannot be told apart"
        )
        return (
            dataclasses.replace(observed, batch=above),
            factorize(layer, above, self.seen.rounding),
            doubt,
        )

    def _image(self, truth: LayerTruth) -> tuple[int, int, int] | None:
        if truth.is_input:
            return self.shape
        return None

    def _attack(
        self, seen: Observation, name: str, place: int, truth: LayerTruth
    ) -> Recovery | str | None:
        """Run one attack; a string says why it could not be run."""
        shape = self._image(truth)
        try:
            match name:
                case "analytic":
                    return analytic(seen, layer=place)
                case "ica":
                    return ica(seen, layer=place, shape=shape, seed=self.seed)
                case "relu_exact":
                    return relu_exact(
                        seen, layer=place, shape=shape, budget=self.budget, seed=self.seed
                    )
                case "cocktail_party" if place == 0:
                    return cocktail_party(
                        seen,
                        layer=place,
                        shape=shape,
                        iterations=self.iterations or STEPS[name],
                    )
        except UsageError as error:
            return str(error)
        return None

    def _keep(self, layer: str, recovery: Recovery) -> None:
        """Keep the embeddings that a server would go on with; it has no truth to choose by."""
        held = self.embeddings
        if held is None or _preference(recovery) > _preference(held[1]):
            self.embeddings = (layer, recovery)

    def on_inputs(
        self, names: Sequence[str], known: NDArray[np.int64] | None, notes: list[str]
    ) -> list[AttackResult]:
        """Run the attacks that optimise the model's own inputs.

        Parameters
        ----------
        names : sequence of str
            Of :data:`INPUTS`.
        known : (batch,) int array, optional
            Labels that were counted.
        notes : list of str
            To be added to.
        """
        first = np.asarray(self.batches[0].inputs)
        if first.dtype.kind != "f":
            notes.append(f"Inputs are {first.dtype}: nothing to optimise.")
            return []
        flat = np.concatenate(
            [np.asarray(b.inputs, np.float64).reshape(len(b), -1) for b in self.batches]
        )
        outside = np.zeros((0, flat.shape[1]))
        if self.others is not None and len(self.others):
            outside = np.asarray(self.others[:512], np.float64).reshape(-1, flat.shape[1])
        truth = LayerTruth(flat, outside, 0.0, True)
        low = 0.0 if flat.min() >= 0 else -self.data_range / 2
        bounds = (low, low + self.data_range)
        found = []
        for name in names:
            if name in _INVERSIONS and self.embeddings is None:
                continue  # The first linear layer has the inputs themselves.
            try:
                recovery = self._optimise(name, first.shape[1:], bounds, known)
            except (UsageError, RuntimeError) as error:
                found.append(self._nothing(name, "inputs", truth, str(error)[:200]))
                continue
            found.append(self._measure(recovery, "inputs", truth, self.shape))
        return found

    def _optimise(
        self,
        name: str,
        one: tuple[int, ...],
        bounds: tuple[float, float],
        known: NDArray[np.int64] | None,
    ) -> Recovery:
        steps = self.iterations or STEPS[name]
        if name in _INVERSIONS:
            if len(one) != 3:
                raise UsageError("inputs", one, "images, (channels, height, width)")
            return self._invert((one[0], one[1], one[2]), bounds, steps, name == _INVERSIONS[1])
        attack = inverting_gradients if name == "inverting_gradients" else dlg
        return attack(
            self.model,
            self.seen.gradients,
            one,
            self.seen.batch,
            iterations=steps,
            bounds=bounds,
            labels=known,
            loss=self.loss,
            seed=self.seed,
        )

    def _invert(
        self,
        one: tuple[int, int, int],
        bounds: tuple[float, float],
        steps: int,
        matching: bool,
    ) -> Recovery:
        """Go from the embeddings at the first linear layer to images."""
        assert self.embeddings is not None
        layer, recovery = self.embeddings
        rows = recovery.inputs
        if not recovery.scaled:
            # Behind a ReLU embeddings are positive.
            rows = rows * np.where(rows.sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
        # A copy: BatchNorm in train mode would learn from the guesses.
        own = copy.deepcopy(self.model)
        more: dict[str, Any] = {}
        if matching:
            more = {"model": own, "gradients": self.seen.gradients, "matching": _MATCHED}
        found = invert_features(
            embedding(own, layer),
            rows,
            one,
            iterations=steps,
            bounds=bounds,
            loss=self.loss,
            seed=self.seed,
            **more,
        )
        notes = list(found.diagnosis)
        if not recovery.verified:
            notes.append(f"from embeddings by {recovery.method} that are not proved")
        return dataclasses.replace(found, diagnosis=tuple(notes))

    def _measure(
        self,
        recovery: Recovery,
        layer: str,
        truth: LayerTruth,
        shape: tuple[int, int, int] | None,
    ) -> AttackResult:
        """Match what was recovered with the truth."""
        spread = self.data_range
        if not truth.is_input:
            spread = float(np.ptp(truth.inputs)) or 1.0
        true = truth.inputs
        pairs = quality(
            recovery.inputs,
            true,
            shape=shape,
            data_range=spread,
            scaled=recovery.scaled,
            perceptual=None if self.perceptual is None else self._distances,
        )
        line = chance_psnr(true, truth.others, shape=shape, data_range=spread)
        if not recovery.scaled:
            line = np.maximum(line, chance_published(true, truth.others))
        if recovery.scaled:
            good = (pairs.psnr >= BAR) & (pairs.psnr >= line[pairs.true] + MARGIN)
        else:
            floor = chance_cosine(true, truth.others)[pairs.true]
            good = (pairs.cosine >= 0.9) & (pairs.cosine >= floor + 0.1)
        return AttackResult(
            name=recovery.method,
            layer=layer,
            on_inputs=truth.is_input,
            verified=recovery.verified,
            recovered=int(np.count_nonzero(good)),
            returned=len(recovery.inputs),
            batch=len(true),
            quality=pairs,
            chance=line,
            scaled=recovery.scaled,
            cpu_seconds=recovery.cpu_seconds,
            diagnosis=recovery.diagnosis,
            true=true,
            found=recovery.inputs,
            shape=shape,
            iterations=recovery.details.get("iterations"),
        )

    def _distances(self, found: Any, true: Any) -> NDArray[np.float64]:
        """Return the plug-in's distances, checked: it is the user's own code."""
        assert self.perceptual is not None
        values = np.asarray(self.perceptual(found, true))
        if values.shape != (len(true),) or values.dtype.kind not in "fiu":
            raise UsageError(
                "perceptual",
                f"{values.dtype} of shape {values.shape}",
                f"a number for each of {len(true)} pairs",
            )
        if not np.isfinite(values).all():
            raise UsageError("perceptual", "distances that are not finite", "finite numbers")
        return values.astype(np.float64)

    def _nothing(self, name: str, layer: str, truth: LayerTruth, why: str) -> AttackResult:
        return AttackResult(
            name=name,
            layer=layer,
            on_inputs=truth.is_input,
            verified=False,
            recovered=0,
            returned=0,
            batch=len(truth.inputs),
            quality=None,
            chance=np.zeros(0),
            scaled=True,
            cpu_seconds=0.0,
            diagnosis=(why,),
            true=truth.inputs,
            found=np.zeros((0, truth.inputs.shape[1])),
            shape=None,
            iterations=None,
        )


def _preference(recovery: Recovery) -> tuple[bool, int]:
    order = ("cocktail_party", "analytic", "ica", "relu_exact")
    return recovery.verified, order.index(recovery.method)


def _distinct(rows: NDArray[np.float64]) -> int:
    """Return how many rows differ by more than float32's rounding of what comes before them."""
    kept: list[NDArray[np.float64]] = []
    for row in rows:
        least = 1e-5 * float(np.linalg.norm(row))
        if not any(float(np.linalg.norm(row - other)) <= least for other in kept):
            kept.append(row)
    return len(kept)


def label_array(batches: Sequence[Batch]) -> NDArray[Any]:
    """Return all labels, flat."""
    return np.concatenate([np.asarray(batch.labels).ravel() for batch in batches])
