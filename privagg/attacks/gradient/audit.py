"""Attack what a server sees of a training round, and say what it learns of whom.

    >>> from privagg.attacks.gradient.audit import audit          # doctest: +SKIP
    >>> found = audit(model, batches, view=FederatedView(model=model, secagg=True))
    >>> found.verdict, [layer.reason for layer in found.layers]

The auditor has the clients' batches and plays the round; the attacks get only what the view lets
through. A failed attack is no proof of privacy: what noise guarantees is in
:mod:`~privagg.attacks.gradient.bounds`, what a server with all side information could tell in
:mod:`~privagg.attacks.gradient.worst_case`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient.analytic import analytic
from privagg.attacks.gradient.audit_result import AttackResult, GradientAudit, LabelLeak
from privagg.attacks.gradient.chance import chance_cosine, chance_psnr
from privagg.attacks.gradient.cocktail_party import cocktail_party
from privagg.attacks.gradient.factors import Factors, factorize
from privagg.attacks.gradient.filters import check_shape, guess_shape
from privagg.attacks.gradient.ica import ica
from privagg.attacks.gradient.labels import labels as count_labels
from privagg.attacks.gradient.metrics import quality
from privagg.attacks.gradient.observation import LayerGradient, Observation
from privagg.attacks.gradient.optimisation import dlg, inverting_gradients
from privagg.attacks.gradient.recovery import Recovery
from privagg.attacks.gradient.relu_exact import relu_exact
from privagg.attacks.gradient.truth import LayerTruth, layer_truths
from privagg.attacks.gradient.verdicts import BAR, MARGIN, LayerVerdict, judge
from privagg.attacks.gradient.views import Batch, Seen, View
from privagg.errors import UsageError

__all__ = ["ATTACKS", "FAST", "audit"]

FAST = ("analytic", "ica", "relu_exact")
"""Attacks that take seconds."""

ATTACKS = (*FAST, "cocktail_party", "inverting_gradients", "dlg")
"""All attacks, in the order in which they run."""

_STEPS = {"cocktail_party": 1000, "inverting_gradients": 100, "dlg": 8}


def audit(
    model: Any,
    batches: Sequence[Batch],
    *,
    view: View,
    attacks: str | Sequence[str] = "all",
    loss: Callable[[Any, Any], Any] | None = None,
    shape: tuple[int, int, int] | None = None,
    data_range: float = 1.0,
    others: NDArray[Any] | None = None,
    perceptual: Callable[[Any, Any], NDArray[np.floating]] | None = None,
    iterations: int | None = None,
    budget: float = 30.0,
    seed: int = 0,
) -> GradientAudit:
    """Attack one round.

    Parameters
    ----------
    model : torch.nn.Module
        The shared model: the server knows it.
    batches : sequence of Batch
        One for each client.
    view : callable
        From batches to what the server sees.
    attacks : "all", "fast", or a sequence of :data:`ATTACKS`
        Which to run.
    loss : callable, optional
        Of outputs and labels, a mean; cross-entropy if left out.
    shape : (channels, height, width), optional
        Of the inputs, if they are images; taken from the inputs, or guessed, if left out.
    data_range : float
        Largest value minus smallest that inputs can have.
    others : (n, ...) array, optional
        Examples that are not in the batches, for the chance line.
    perceptual : callable, optional
        Of two arrays of images (m, channels, height, width), true and recovered, to a distance for
        each: LPIPS, for example.
    iterations : int, optional
        Of each attack that optimises, instead of 1000, 100 and 8.
    budget : float
        CPU seconds for `relu_exact` on each layer.
    seed : int
        Of the attacks.

    Returns
    -------
    GradientAudit

    Raises
    ------
    UsageError
        If an argument is not as described, the model does not take the batches, or what the server
        sees is not finite.
    """
    began = time.process_time()
    chosen = _chosen(attacks)
    if not batches or not all(isinstance(batch, Batch) for batch in batches):
        raise UsageError("batches", type(batches).__name__, "a sequence of Batch, one a client")
    if iterations is not None:
        whole("iterations", iterations, 1, 10**7)
    seen = view(batches)
    if not isinstance(seen, Seen):
        raise UsageError("view", type(seen).__name__, "a callable that returns a Seen")
    notes: list[str] = []
    try:
        observed = Observation.from_module(
            model, _cleaned(seen), batch=seen.batch, floor=seen.rounding
        )
        notes += observed.notes
    except UsageError as error:
        if error.argument != "module":
            raise
        observed = None
        notes.append(f"{str(error.found).capitalize()}: separation has nothing to attack.")
    truths = layer_truths(model, batches, others, loss)
    run = _Run(
        seen, observed, _shape(batches, shape), data_range, perceptual, iterations, budget, seed
    )
    layers: list[LayerVerdict] = []
    results: list[AttackResult] = []
    for place, layer in enumerate(observed.layers if observed is not None else ()):
        if layer.name not in truths:
            notes.append(f"{layer.name} was not run on the batches: not attacked.")
            continue
        verdict, found = run.layer(place, layer, truths[layer.name], chosen)
        layers.append(verdict)
        results += found
    leaked = _labels(observed, batches, notes)
    slow = [name for name in chosen if name in ("inverting_gradients", "dlg")]
    if slow:
        results += run.optimise(model, batches, others, loss, slow, leaked, notes)
    return GradientAudit(
        seen=seen,
        layers=tuple(layers),
        attacks=tuple(results),
        labels=leaked,
        notes=tuple(notes),
        cpu_seconds=time.process_time() - began,
        seed=seed,
    )


def _cleaned(seen: Seen) -> dict[str, NDArray[Any]]:
    """Return the gradients with rows that are rounding alone set to zero: dead units.

    The server knows the encoding's step, and so the floor; a unit that no input switches on has
    nothing but rounding, and its zeros help to find the others'.
    """
    if not seen.rounding or seen.noise is not None:
        return dict(seen.gradients)
    cleaned: dict[str, NDArray[Any]] = {}
    for name, gradient in seen.gradients.items():
        if gradient.ndim == 2:
            size = np.sqrt(np.mean(np.square(gradient, dtype=np.float64), axis=1))
            gradient = np.where(
                (size > 2 * seen.rounding)[:, None], gradient, gradient.dtype.type(0)
            )
        cleaned[name] = gradient
    for name, gradient in cleaned.items():
        bias = name.removesuffix("weight") + "bias"
        if gradient.ndim == 2 and name.endswith("weight") and bias in cleaned:
            live = gradient.any(axis=1)
            cleaned[bias] = np.where(live, cleaned[bias], cleaned[bias].dtype.type(0))
    return cleaned


def _chosen(attacks: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(attacks, str):
        attacks = {"all": ATTACKS, "fast": FAST}.get(attacks, (attacks,))
    unknown = [name for name in attacks if name not in ATTACKS]
    if unknown or not attacks:
        raise UsageError(
            "attacks", unknown[0] if unknown else "none", f"all, fast, or {', '.join(ATTACKS)}"
        )
    return tuple(name for name in ATTACKS if name in attacks)


def _shape(
    batches: Sequence[Batch], shape: tuple[int, int, int] | None
) -> tuple[int, int, int] | None:
    one = np.asarray(batches[0].inputs).shape[1:]
    width = int(np.prod(one))
    if shape is not None:
        return check_shape(shape, width)
    if len(one) == 3:
        return (int(one[0]), int(one[1]), int(one[2]))
    return guess_shape(width)


def _labels(
    observed: Observation | None, batches: Sequence[Batch], notes: list[str]
) -> LabelLeak | None:
    true = np.concatenate([np.asarray(batch.labels).ravel() for batch in batches])
    if observed is None or true.dtype.kind not in "iu":
        return None
    for method in ("ilrg", "llg"):
        try:
            found = count_labels(observed, method=method)
        except UsageError as error:
            notes.append(f"Labels by {method}: {error}")
            continue
        if true.max() >= len(found.counts) or true.min() < 0:
            notes.append(f"Labels go beyond the {len(found.counts)} outputs of the last layer.")
            return None
        counts = np.bincount(true, minlength=len(found.counts))
        classes = counts > 0
        return LabelLeak(
            method=found.method,
            counts=tuple(int(n) for n in found.counts),
            true=tuple(int(n) for n in counts),
            correct=found.correct(true),
            present=float(np.mean(found.present == classes)),
            chance=float(np.minimum(counts, len(true) / len(counts)).sum() / len(true)),
            diagnosis=found.diagnosis,
        )
    return None


class _Run:
    """The attacks on one view."""

    def __init__(
        self,
        seen: Seen,
        observed: Observation | None,
        shape: tuple[int, int, int] | None,
        data_range: float,
        perceptual: Callable[[Any, Any], NDArray[np.floating]] | None,
        iterations: int | None,
        budget: float,
        seed: int,
    ) -> None:
        self.seen, self.observed, self.shape = seen, observed, shape
        self.data_range, self.perceptual = data_range, perceptual
        self.iterations, self.budget, self.seed = iterations, budget, seed

    def layer(
        self, place: int, layer: LayerGradient, truth: LayerTruth, chosen: tuple[str, ...]
    ) -> tuple[LayerVerdict, list[AttackResult]]:
        """Attack one layer and judge it."""
        factors = factorize(layer, self.seen.batch, self.seen.rounding)
        found = []
        for name in chosen:
            recovery = self._attack(name, place, truth)
            if isinstance(recovery, Recovery) and not len(recovery):
                why = "; ".join(recovery.diagnosis) or "it gave nothing"
                found.append(self._nothing(name, layer.name, truth, why))
            elif isinstance(recovery, Recovery):
                found.append(self._measure(recovery, layer.name, truth, self._image(truth)))
            elif recovery is not None:
                found.append(self._nothing(name, layer.name, truth, recovery))
        distinct = len(np.unique(truth.inputs, axis=0))
        best = max(found, key=lambda one: (one.verified, one.recovered), default=None)
        proved = max((one.returned for one in found if one.verified), default=0)
        verdict = judge(
            layer,
            factors,
            batch=len(truth.inputs),
            distinct=distinct,
            zero_share=truth.zero_share,
            deviation=0.0 if self.seen.noise is None else self.seen.noise.deviation,
            verified=proved,
            recovered=max((one.recovered for one in found), default=0),
            best="no attack" if best is None else best.name,
            doubts=_doubts(factors, best),
        )
        return verdict, found

    def _image(self, truth: LayerTruth) -> tuple[int, int, int] | None:
        if truth.is_input:
            return self.shape
        return None

    def _attack(self, name: str, place: int, truth: LayerTruth) -> Recovery | str | None:
        """Run one attack; a string says why it could not be run."""
        assert self.observed is not None
        seen, shape = self.observed, self._image(truth)
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
                        iterations=self.iterations or _STEPS[name],
                    )
        except UsageError as error:
            return str(error)
        return None

    def optimise(
        self,
        model: Any,
        batches: Sequence[Batch],
        others: NDArray[Any] | None,
        loss: Callable[[Any, Any], Any] | None,
        names: list[str],
        leaked: LabelLeak | None,
        notes: list[str],
    ) -> list[AttackResult]:
        """Run the attacks that optimise the model's own inputs."""
        first = np.asarray(batches[0].inputs)
        if first.dtype.kind != "f":
            notes.append(f"Inputs are {first.dtype}: nothing to optimise.")
            return []
        flat = np.concatenate(
            [np.asarray(b.inputs, np.float64).reshape(len(b), -1) for b in batches]
        )
        outside = np.zeros((0, flat.shape[1]))
        if others is not None and len(others):
            outside = np.asarray(others[:512], np.float64).reshape(-1, flat.shape[1])
        truth = LayerTruth(flat, outside, 0.0, True)
        known = None
        if leaked is not None and not leaked.diagnosis:
            known = np.repeat(np.arange(len(leaked.counts)), leaked.counts)
        found = []
        low = 0.0 if flat.min() >= 0 else -self.data_range / 2
        for name in names:
            attack = inverting_gradients if name == "inverting_gradients" else dlg
            try:
                recovery = attack(
                    model,
                    self.seen.gradients,
                    first.shape[1:],
                    self.seen.batch,
                    iterations=self.iterations or _STEPS[name],
                    bounds=(low, low + self.data_range),
                    labels=known,
                    loss=loss,
                    seed=self.seed,
                )
            except (UsageError, RuntimeError) as error:
                found.append(self._nothing(name, "inputs", truth, str(error)[:200]))
                continue
            found.append(self._measure(recovery, "inputs", truth, self.shape))
        return found

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
            perceptual=self.perceptual,
        )
        line = chance_psnr(true, truth.others, shape=shape, data_range=spread)
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


def _doubts(factors: Factors, best: AttackResult | None) -> tuple[str, ...]:
    return (*factors.diagnosis, *(() if best is None else best.diagnosis))
