"""The gradient's row space, its noise, and how many inputs can be in it.

``G = A X`` has the rank of A, at most B. Its leading singular vectors hold everything an attack can
use: ``G ~ U Y`` with U (h x r) orthonormal and Y (r x d). What is left is noise: rounding of
float32, quantisation, or what was added for privacy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.observation import LayerGradient
from privagg.attacks.gradient.recovery import Floats
from privagg.errors import UsageError

__all__ = ["Factors", "factorize", "weigh_rows"]

_GAP = 30.0
"""A singular value this many times the next one ends the signal of an exact gradient."""

_ROUNDING = 1e-5
"""Singular values below this share of the largest can be float32's rounding."""

_UNEVEN = 0.2
"""Spread of the logarithm of the rows' noise, from which rows are weighted."""

_FREE = 0.2
"""Of a row's direction, what components must leave so that its noise can be read."""

_EDGE = 1.05
"""Of noise alone, the largest singular value over ``sigma (sqrt h + sqrt d)``, and some."""


@dataclass(frozen=True)
class Factors:
    """Leading singular vectors of a weight gradient.

    Attributes
    ----------
    left : (h, r) float array
        Orthonormal columns that span those of the mixing matrix.
    rows : (r, d) float array
        ``left.T @ G``: rows that span the inputs.
    singular : (k,) float array
        All singular values, largest first.
    anchor : (r,) float array, optional
        ``left.T @ dL/db``: an unmixing row w that gives an input has ``w @ anchor == 1``.
    noise : float
        Standard deviation of an entry of the gradient that is not explained by r inputs.
    visible : int
        Components above the edge of the noise: what an attack can hope for.
    diagnosis : tuple of str
        What a reader must know about rank, batch and noise.
    """

    left: Floats
    rows: Floats
    singular: Floats
    anchor: Floats | None
    noise: float
    visible: int
    diagnosis: tuple[str, ...]

    @property
    def rank(self) -> int:
        """How many components are kept."""
        return len(self.rows)


def factorize(layer: LayerGradient, batch: int | None = None, floor: float = 0.0) -> Factors:
    """Split a layer's gradient into signal and noise.

    Parameters
    ----------
    layer : LayerGradient
        The gradients.
    batch : int, optional
        How many inputs are in them: the rank is at most that. If left out, the rank is read from
        the singular values: a gap in those of an exact gradient, else the edge of the noise
        (Marchenko and Pastur: ``sigma (sqrt h + sqrt d)``).
    floor : float
        Standard deviation of a known encoding's rounding in an entry: the noise is at least that.

    Returns
    -------
    Factors
        The leading singular vectors, and what they leave.

    Raises
    ------
    UsageError
        If the gradient is zero, or its squares are not finite numbers.

    Notes
    -----
    Singular vectors come from the smaller of the two Gram matrices, in float64: its eigenvalues are
    squares, so components below 1e-7 of the largest are lost, which is where float32 ends too.
    """
    gradient = layer.weight
    h, d = gradient.shape
    small = h <= d
    # Its squares must be finite numbers, too: float64 holds those of float32's, not its own.
    largest = float(np.abs(gradient).max())
    if not 1e-140 < largest < 1e140:
        raise UsageError(
            "weight",
            f"entries up to {largest:.1e}",
            "a gradient of ordinary size",
            "The training diverged: look at the learning rate and at the inputs' scale.",
        )
    values, vectors = _spectrum(gradient if small else gradient.T)
    singular = np.sqrt(np.maximum(values[::-1], 0.0))
    # Rows and columns without a gradient carry no rounding either.
    live = (
        int(np.count_nonzero(np.any(gradient != 0, axis=1))),
        int(np.count_nonzero(np.any(gradient != 0, axis=0))),
    )
    active = min(live)
    rank, noise = _split(singular[:active], *live, batch)
    noise = max(noise, floor)
    edge = _EDGE * noise * (np.sqrt(h) + np.sqrt(d))
    visible = max(1, int(np.count_nonzero(singular[:rank] > edge)))
    leading = np.ascontiguousarray(vectors[:, ::-1][:, :rank])
    if small:
        left = leading
        rows = _product(left.T, gradient)
    else:
        rows = leading.T * singular[:rank, None]
        left = _product(gradient, leading) / singular[:rank]
    anchor = None if layer.bias is None else left.T @ layer.bias.astype(np.float64)
    return Factors(
        left, rows, singular, anchor, noise, visible, _diagnose(layer, batch, rank, visible, active)
    )


def weigh_rows(layer: LayerGradient, factors: Factors, batch: int | None = None) -> Factors:
    """Return factors of the gradient with each row divided by its own noise, where that differs.

    Quantisers that scale each neuron by itself leave noise in proportion to it, and so do signs.
    A row's scale is no matter of the mixture: ``D G = (D A) X`` and ``D dL/db = (D A) 1``. Singular
    vectors are the best only where noise is even, so rows are divided by what the inputs leave
    unexplained of them, and factored again.

    Parameters
    ----------
    layer : LayerGradient
        The gradients.
    factors : Factors
        Theirs.
    batch : int, optional
        As for :func:`factorize`.

    Notes
    -----
    An exact gradient, whose noise is rounding, and even noise, as of differential privacy, are
    given back as they are.
    """
    if factors.noise * np.sqrt(layer.weight.size) < _ROUNDING * factors.singular[0]:
        return factors
    scales = np.ones(layer.shape[0])
    weighted = factors
    for _ in range(3):
        noise = _row_noise(layer.weight, scales, weighted)
        live = noise > 0
        if np.count_nonzero(live) <= weighted.rank:
            return factors
        own = noise / scales
        if weighted is factors and float(np.std(np.log(own[live]))) < _UNEVEN:
            return factors
        middle = float(np.median(own[live]))
        own = np.maximum(own, 0.1 * middle)  # No row counts without bound.
        scales = np.where(live, middle / own, 1.0)
        rows = (layer.weight * scales[:, None]).astype(layer.weight.dtype)
        bias = None if layer.bias is None else layer.bias * scales
        weighted = factorize(replace(layer, weight=rows, bias=bias), batch)
    return weighted


def _row_noise(gradient: NDArray[np.floating], scales: Floats, factors: Factors) -> Floats:
    """Return the root mean square of what factors leave of each weighted row."""
    squares = np.einsum("ij,ij->i", gradient, gradient, dtype=np.float64) * scales**2
    kept = np.square(factors.left * factors.singular[: factors.rank]).sum(axis=1)
    rest = np.maximum(squares - kept, 1e-9 * squares) / gradient.shape[1]
    # A component that follows a row takes its noise along; where it takes all, nothing is known.
    free = 1 - np.square(factors.left).sum(axis=1)
    known = (free > _FREE) & (rest > 0)
    noise: Floats = np.sqrt(rest / np.maximum(free, _FREE))
    if known.any():
        middle = float(np.median(noise[known] / scales[known]))
        noise = np.where((rest > 0) & ~known, middle * scales, noise)
    return noise


_BLOCK = 1 << 24
"""Entries converted to float64 at a time."""


_KEPT = 1024
"""Rows of the largest matrix whose spectrum is kept."""

_last: tuple[tuple[object, ...], Floats, Floats] | None = None
"""The spectrum found last: several attacks, one after another, factor the same gradient."""


def _spectrum(matrix: NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of the Gram matrix, read-only, smallest first."""
    global _last
    # By content, as arrays can change: a digest costs a hundredth of a factorization.
    content = hashlib.sha256(np.ascontiguousarray(matrix).data).digest()
    key = (matrix.shape, matrix.dtype.str, content)
    known = _last
    if known is not None and known[0] == key:
        return known[1], known[2]
    values, vectors = np.linalg.eigh(_gram(matrix))
    values.flags.writeable = vectors.flags.writeable = False
    if len(matrix) <= _KEPT:
        _last = key, values, vectors
    return values, vectors


def _gram(matrix: NDArray[np.floating]) -> Floats:
    """Return ``matrix @ matrix.T`` in float64 without a float64 copy of a large matrix."""
    rows, columns = matrix.shape
    step = max(1, _BLOCK // rows)
    gram = np.zeros((rows, rows))
    for start in range(0, columns, step):
        block = np.ascontiguousarray(matrix[:, start : start + step], np.float64)
        gram += block @ block.T
    return gram


def _product(first: NDArray[np.floating], second: NDArray[np.floating]) -> Floats:
    """Return the product in float64, in blocks of the long axis that is kept."""
    out = np.empty((first.shape[0], second.shape[1]))
    if second.shape[1] >= first.shape[0]:
        step = max(1, _BLOCK // second.shape[0])
        for start in range(0, second.shape[1], step):
            block = second[:, start : start + step].astype(np.float64)
            out[:, start : start + step] = first @ block
    else:
        step = max(1, _BLOCK // first.shape[1])
        for start in range(0, first.shape[0], step):
            out[start : start + step] = first[start : start + step].astype(np.float64) @ second
    return out


def _split(singular: Floats, h: int, d: int, batch: int | None) -> tuple[int, float]:
    """Return the numerical rank and the noise's standard deviation."""
    count = len(singular)
    most = count if batch is None else min(count, batch)
    floor = singular[0] * 1e-8  # What squaring leaves of float64.
    padded = np.append(np.maximum(singular, floor), floor)
    ratios = padded[:-1] / padded[1:]
    ends = np.flatnonzero((ratios[:most] > _GAP) & (padded[1 : most + 1] < _ROUNDING * singular[0]))
    if ends.size and (batch is None or count > most or padded[most - 1] <= floor):
        # The last gap in reach: what follows is rounding.
        rank = int(ends[-1]) + 1
        return rank, _remainder(singular, rank, h, d, floor)
    if batch is None:
        noise = float(np.sqrt(np.median(singular**2) / max(h, d)))
        edge = _EDGE * noise * (np.sqrt(h) + np.sqrt(d))
        rank = max(1, int(np.count_nonzero(singular > edge)))
        return rank, _remainder(singular, rank, h, d, floor)
    rank = max(1, min(most, int(np.count_nonzero(singular > 4 * floor))))
    return rank, _remainder(singular, rank, h, d, floor)


def _remainder(singular: Floats, rank: int, h: int, d: int, floor: float) -> float:
    """Return the root mean square of what `rank` components leave of the gradient's entries."""
    rest = singular[rank:]
    least = floor * 1e-2 / (np.sqrt(h) + np.sqrt(d))
    if not rest.size:
        return float(least)
    freedom = max(1, (h - rank) * (d - rank))
    return float(max(least, np.sqrt((rest**2).sum() / freedom)))


def _diagnose(
    layer: LayerGradient, batch: int | None, rank: int, visible: int, active: int
) -> tuple[str, ...]:
    h, d = layer.shape
    said = []
    if layer.bias is None:
        said.append("no bias gradient: signs and scales are arbitrary")
    if active < min(h, d):
        said.append(f"{min(h, d) - active} of {min(h, d)} units or inputs got no gradient")
    if batch is None:
        said.append(f"batch size not given: {rank} inputs by the singular values")
    elif batch > active:
        said.append(
            f"batch of {batch} exceeds the {active} active units: inputs cannot be told apart"
        )
    elif rank < batch:
        said.append(
            f"rank {rank} of a batch of {batch}: inputs that are equal, or that the model already "
            "fits (no gradient), cannot be told apart"
        )
    if visible < rank:
        said.append(f"only {visible} of {rank} components are above the noise")
    return tuple(said)
