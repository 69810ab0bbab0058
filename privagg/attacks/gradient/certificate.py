"""Is it exact? A check that needs no ground truth.

Three things must hold of *all* recovered inputs: the zeros of each column are the neurons that the
layer's ReLU turns off on that input, those zeros leave no other column, with many neurons that say
so, and the gradient simulated again with those patterns is the one that was seen, up to its noise.
The noise is what the recovered inputs leave unexplained, or a known encoding's rounding if that is
more.

Noise moves a recovered input, and with it outputs that are next to zero to the other side. There
either pattern is right: such outputs are left out of the simulated gradient, not of the agreement,
so that no more than its few neurons can be.

Any one alone can be faked. A mixture of two columns vanishes on all neurons that are off for both,
a quarter of them; a vertex of the L1 ball picks up a few zeros more and fakes the rank.
That a recovery can be certified at all is due to "VGIA: Verifiable Gradient Inversion", 2026.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.columns import ColumnSearch
from privagg.attacks.gradient.factors import Factors
from privagg.attacks.gradient.observation import LayerGradient
from privagg.attacks.gradient.recovery import Floats, Verification

__all__ = ["AGREEMENT", "verify"]

AGREEMENT = 0.985
"""Share of neurons that must agree, for every input."""

_SLACK = 10.0
"""Times the noise that the re-simulated gradient may differ by."""

_BAND = 6.0
"""Standard deviations of an output, by the noise in its input, that count as next to zero."""


def verify(
    layer: LayerGradient,
    factors: Factors,
    directions: Floats,
    found: NDArray[np.bool_],
    outputs: Floats,
    unmixing: Floats,
) -> Verification:
    """Check recovered columns and inputs against each other.

    Parameters
    ----------
    layer : LayerGradient
        What was seen, and the weights.
    factors : Factors
        Its leading singular vectors.
    directions : (r, r) float array
        Columns c, scaled so that they sum to the bias gradient: A is ``U C``.
    found : (r,) bool array
        Which columns were found by their zeros.
    outputs : (r, h) float array
        The layer's outputs on the recovered inputs.
    unmixing : (r, r) float array
        Rows that give the inputs: what noise they take over.
    """
    search = ColumnSearch(factors)
    columns = factors.left @ directions
    lengths = np.linalg.norm(directions, axis=0)
    bounds = np.array(
        [search.tolerance(c / n) * n for c, n in zip(directions.T, lengths, strict=True)]
    )
    zeros = np.abs(columns) <= bounds
    on = outputs.T > 0
    agreement = np.mean(zeros == ~on, axis=0)
    unique = np.zeros(len(found), np.bool_)
    for index in np.flatnonzero(found):
        column = search.settle(directions[:, index])
        unique[index] = column is not None and column.unique
    residual, floor = _residual(layer, factors, columns, directions, outputs, unmixing)
    exact = bool(
        found.all()
        and unique.all()
        and (agreement >= AGREEMENT).all()
        and residual <= _SLACK * floor
    )
    return Verification(agreement, unique, residual, floor, exact)


def _residual(
    layer: LayerGradient,
    factors: Factors,
    columns: Floats,
    directions: Floats,
    outputs: Floats,
    taken: Floats,
) -> tuple[float, float]:
    """Return the relative residual of the re-simulated gradient, and the noise's share."""
    assert layer.weights is not None
    # Where an output is zero up to rounding, either pattern is right.
    scale = np.sqrt(np.mean(outputs**2, axis=1))
    reach = np.linalg.norm(layer.weights.astype(np.float64, copy=False), axis=1)
    moved = _BAND * factors.noise * np.outer(np.linalg.norm(taken, axis=1), reach)
    near = np.abs(outputs) < np.maximum(1e-5 * scale[:, None], moved)
    masked = np.where((outputs > 0) | near, columns.T, 0.0).T
    removed = columns - masked
    unmixing = np.linalg.inv(directions)
    size = float(np.linalg.norm(layer.weight.astype(np.float64, copy=False)))
    # Within the span of the rows: || (A - masked) X || with X = C^-1 S Q and Q orthonormal.
    inside = float(np.linalg.norm(removed @ unmixing * factors.singular[: factors.rank]))
    h, d = layer.shape
    outside = factors.noise * np.sqrt(max(1, (h - factors.rank) * (d - factors.rank)))
    noise = factors.noise * np.sqrt(h * d)
    return float(np.hypot(inside, outside)) / size, max(noise / size, 1e-9)
