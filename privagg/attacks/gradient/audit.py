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
from privagg.attacks.gradient.audit_result import AttackResult, GradientAudit, LabelLeak
from privagg.attacks.gradient.audit_run import ATTACKS, FAST, INPUTS, Run, label_array
from privagg.attacks.gradient.filters import check_shape, guess_shape
from privagg.attacks.gradient.labels import labels as count_labels
from privagg.attacks.gradient.malicious import detect
from privagg.attacks.gradient.observation import Observation
from privagg.attacks.gradient.truth import layer_truths
from privagg.attacks.gradient.verdicts import LayerVerdict
from privagg.attacks.gradient.views import Batch, Seen, View
from privagg.errors import UsageError

__all__ = ["ATTACKS", "FAST", "audit"]


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
        Of two arrays of images (m, channels, height, width), recovered and true, to a distance for
        each: LPIPS, for example.
    iterations : int, optional
        Of each attack that optimises, instead of :data:`~privagg.attacks.gradient.audit_run.STEPS`.
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
    run = Run(
        model=model,
        batches=batches,
        loss=loss,
        others=others,
        seen=seen,
        observed=observed,
        shape=_shape(batches, shape),
        data_range=data_range,
        perceptual=perceptual,
        iterations=iterations,
        budget=budget,
        seed=seed,
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
    slow = [name for name in chosen if name in INPUTS]
    if slow:
        known = None
        if leaked is not None and not leaked.diagnosis:
            known = np.repeat(np.arange(len(leaked.counts)), leaked.counts)
        results += run.on_inputs(slow, known, notes)
    return GradientAudit(
        seen=seen,
        layers=tuple(layers),
        attacks=tuple(results),
        labels=leaked,
        suspicions=tuple(detect(model)),
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
    true = label_array(batches)
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
