"""Which tokens a transformer was trained on: a test of the span of a gradient.

The first linear layer of attention (the query's projection, say) gets as inputs the embeddings of
the tokens at their positions. Its weight gradient is ``A X``: its row space is the span of those
inputs, as long as there are fewer of them than the layer is wide. So the server goes through all
tokens and positions, and asks whether the embedding lies in that space. No optimisation, no image:
the answer is yes or no up to a tolerance.

Source: Petrov, Dimitrov, Baader, Müller, Vechev, "DAGER: Exact Gradient Inversion for Large
Language Models", NeurIPS 2024, section 4 (the token filter).

**Tolerance.** Distances are relative to the embedding's norm. Exact float32 gradients give 1e-6 to
1e-4 for tokens that are there and 0.1 to 1 for others; :data:`TOLERANCE` lies between. Noise moves
both together: the report says the gap, and where there is none the test says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.factors import factorize
from privagg.attacks.gradient.observation import LayerGradient
from privagg.errors import UsageError

__all__ = ["TOLERANCE", "SpanTest", "span_test"]

TOLERANCE = 1e-2
"""Relative distance from the span, up to which a candidate is in it."""


@dataclass(frozen=True)
class SpanTest:
    """What the test says of each candidate.

    Attributes
    ----------
    distances : (positions, vocabulary) float array
        From the span, relative to the candidate's norm.
    inside : (positions, vocabulary) bool array
        At most the tolerance.
    rank : int
        Of the gradient: so many different inputs at most.
    tolerance : float
        That was used.
    gap : float
        Least distance outside over the largest inside: near 1 the test says nothing.
    diagnosis : tuple of str
        What makes it doubtful.
    """

    distances: NDArray[np.float64] = field(repr=False)
    inside: NDArray[np.bool_] = field(repr=False)
    rank: int
    tolerance: float
    gap: float
    diagnosis: tuple[str, ...] = ()

    def tokens(self) -> list[tuple[int, int]]:
        """Return (position, token) of all candidates inside."""
        return [(int(p), int(t)) for p, t in np.argwhere(self.inside)]


def span_test(
    layer: LayerGradient,
    candidates: NDArray[np.floating],
    *,
    inputs: int | None = None,
    tolerance: float = TOLERANCE,
) -> SpanTest:
    """Test every token at every position.

    Parameters
    ----------
    layer : LayerGradient
        Of a projection of the first attention layer.
    candidates : (positions, vocabulary, d) float array
        What the layer would get: token plus position embedding, normalised as the model does.
    inputs : int, optional
        How many tokens the batch has in all, if the server knows.
    tolerance : float
        Strictly between 0 and 1.

    Raises
    ------
    UsageError
        If shapes do not fit.
    """
    h, d = layer.shape
    table = np.asarray(candidates, np.float64)
    if table.ndim != 3 or table.shape[2] != d or not np.isfinite(table).all():
        raise UsageError("candidates", table.shape, f"finite, (positions, vocabulary, {d})")
    if isinstance(tolerance, bool) or not 0 < tolerance < 1:
        raise UsageError("tolerance", tolerance, "a number between 0 and 1")
    factors = factorize(layer, inputs)
    basis, _ = np.linalg.qr(factors.rows.T)
    norms = np.maximum(np.linalg.norm(table, axis=2), 1e-300)
    residual = table - (table @ basis) @ basis.T
    distances = np.linalg.norm(residual, axis=2) / norms
    inside = distances <= tolerance
    notes = list(factors.diagnosis)
    if factors.rank >= min(h, d):
        notes.append(f"rank {factors.rank} is the layer's width: everything is in the span")
    gap = 1.0
    if inside.any() and not inside.all():
        gap = float(distances[~inside].min() / max(float(distances[inside].max()), 1e-12))
    if not inside.any():
        notes.append("no candidate is in the span: noise, or other embeddings than assumed")
    elif gap < 3:
        notes.append(f"no gap around the tolerance (factor {gap:.2g}): the answer is doubtful")
    return SpanTest(distances, inside, factors.rank, float(tolerance), gap, tuple(notes))
