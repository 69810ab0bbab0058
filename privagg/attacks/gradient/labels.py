"""Which labels a batch has, and how many of each, from the gradient of the last layer.

With cross-entropy, row k of the last layer's bias gradient is the mean of ``p_k - [label = k]``: a
class that is there pulls its own entry down by its share of the batch.

* ``llg``: signs and sizes of the weight gradient's row sums; needs non-negative features and the
  batch's size. Wainakh et al., "User-Level Label Leakage from Gradients in Federated Learning",
  PoPETs 2022 (the variant without auxiliary data).
* ``ilrg``: class-wise mean features from the quotient of weight and bias gradient, their predicted
  probabilities, and a pseudo-inverse. Ma, Sun, Cui, Li, Liu, "Instance-wise Batch Label Restoration
  via Gradients in Federated Learning", ICLR 2023. A batch may have more inputs than classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.observation import LayerGradient, Observation
from privagg.attacks.gradient.recovery import Floats
from privagg.errors import UsageError

__all__ = ["METHODS", "LabelCounts", "labels"]

METHODS = ("ilrg", "llg")

_DOUBT = 0.35
"""Distance of a count from the nearest integer, from which it is doubted."""


@dataclass(frozen=True)
class LabelCounts:
    """Labels read from a gradient.

    Attributes
    ----------
    counts : (classes,) int array
        How many inputs of each class, as many as the batch in all.
    present : (classes,) bool array
        Which classes are there: the sign of the last layer's gradient says so where it is negative.
    raw : (classes,) float array
        The counts before rounding.
    method : str
        Which attack.
    diagnosis : tuple of str
        What makes the counts doubtful.
    """

    counts: NDArray[np.int64]
    present: NDArray[np.bool_]
    raw: Floats
    method: str
    diagnosis: tuple[str, ...] = ()

    def correct(self, truth: NDArray[np.integer]) -> float:
        """Return the share of labels in `truth` (batch,) that are right, as multisets."""
        true = np.bincount(np.asarray(truth), minlength=len(self.counts))
        return float(np.minimum(true, self.counts).sum() / max(1, true.sum()))


def labels(observation: Observation, *, method: str = "ilrg") -> LabelCounts:
    """Count the labels of a batch.

    Parameters
    ----------
    observation : Observation
        Its head is the layer that gives the logits; without one, its only layer is.
    method : {"ilrg", "llg"}
        ``ilrg`` needs the head's bias gradient and weights.

    Raises
    ------
    UsageError
        If the batch's size is not known or a needed gradient is missing.
    """
    if method not in METHODS:
        raise UsageError("method", method, " or ".join(METHODS))
    if observation.batch is None:
        raise UsageError("batch", "not given", "the number of inputs", "Counts must add up to it.")
    head = observation.layers[-1] if observation.head is None else observation.head
    if head.shape[0] < 2:
        raise UsageError("head", f"{head.shape[0]} logit", "a layer with a logit for each class")
    if method == "llg":
        return _llg(head, observation.batch)
    return _ilrg(head, observation.batch)


def _llg(head: LayerGradient, batch: int) -> LabelCounts:
    """Count by signs and sizes of row sums."""
    sums = head.weight.sum(axis=1, dtype=np.float64)
    classes = len(sums)
    present = sums < 0
    notes = []
    if not present.any():
        notes.append("no row sum is negative: features have both signs, or labels are not classes")
    impact = float(sums[present].sum()) / batch * (1 + 1 / classes) if present.any() else -1.0
    counts = present.astype(np.int64)
    if counts.sum() > batch:
        notes.append("more classes than inputs have a negative row sum: features have both signs")
        keep = np.argsort(sums)[:batch]
        counts[:] = 0
        counts[keep] = 1
    rest = sums - counts * impact
    for _ in range(batch - int(counts.sum())):
        # The class that is still pulled down most has one input more.
        lowest = int(np.argmin(rest))
        counts[lowest] += 1
        rest[lowest] -= impact
    raw = np.where(sums < 0, sums / impact, 0.0)
    return LabelCounts(counts, present, raw, "llg", tuple(notes))


def _ilrg(head: LayerGradient, batch: int) -> LabelCounts:
    """Count by class-wise mean features and a pseudo-inverse."""
    if head.bias is None or head.weights is None or head.biases is None:
        raise UsageError(
            "head", "no bias gradient, or weights not known", "both", "llg needs neither."
        )
    pulls = head.bias.astype(np.float64)
    classes = len(pulls)
    notes = []
    size = float(np.abs(pulls).max())
    if abs(float(pulls.sum())) > 1e-3 * classes * size:
        notes.append("bias gradients do not add up to zero: the loss is not cross-entropy")
    present = pulls < -1e-6 * size
    gradient = head.weight.astype(np.float64)
    total = gradient[present].sum(axis=0) / min(-1e-300, float(pulls[present].sum()))
    features = np.tile(total, (classes, 1))
    features[present] = gradient[present] / pulls[present, None]
    logits = features @ head.weights.astype(np.float64).T + head.biases.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    shares /= shares.sum(axis=1, keepdims=True)
    system = np.vstack([shares.T - np.eye(classes), np.ones((1, classes))])
    raw, *_ = np.linalg.lstsq(system, np.append(batch * pulls, batch), rcond=None)
    counts = _rounded(raw, batch)
    doubt = float(np.abs(raw - np.round(raw)).max())
    if raw.min() < -0.5 or doubt > _DOUBT:
        notes.append(
            f"counts are not whole ({doubt:.2f} off, least {raw.min():.1f}): another loss scale, "
            "reduction or batch size than assumed, or several local steps"
        )
    return LabelCounts(counts, present | (counts > 0), raw, "ilrg", tuple(notes))


def _rounded(raw: Floats, batch: int) -> NDArray[np.int64]:
    """Round to whole numbers from 0 that add up to the batch: largest remainders first."""
    positive = np.maximum(raw, 0)
    total = float(positive.sum())
    scaled = positive * (batch / total) if total > 0 else np.full(len(raw), batch / len(raw))
    counts = np.floor(scaled).astype(np.int64)
    missing = batch - int(counts.sum())
    order = np.argsort(-(scaled - counts), kind="stable")
    counts[order[:missing]] += 1
    return counts
