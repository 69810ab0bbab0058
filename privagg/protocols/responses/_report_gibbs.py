"""One sweep of Gibbs sampling over displays' features: compiled, and in plain NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel
from privagg.protocols.responses.report_tables import Layout

__all__ = ["Geometry", "sweep", "sweep_plain"]

Reals = NDArray[np.float64]


class Geometry(NamedTuple):
    """Where cells are, for kernels.

    ``bases[j]`` is the first cell of feature j; value v of feature j and value u of feature k share
    the cell ``pairs[j, k] + v own[j, k] + u other[j, k]``.
    """

    sizes: NDArray[np.int64]
    bases: NDArray[np.int64]
    pairs: NDArray[np.int64]
    own: NDArray[np.int64]
    other: NDArray[np.int64]

    @classmethod
    def of(cls, layout: Layout) -> Geometry:
        """Return the geometry of a layout; -1 in `pairs` where there is no such table."""
        f = len(layout.cardinalities)
        sizes = np.array(layout.cardinalities, np.int64)
        bases = layout.starts[:f].copy()
        pairs = np.full((f, f), -1, np.int64)
        own, other = np.zeros((f, f), np.int64), np.zeros((f, f), np.int64)
        for table, start in zip(layout.tables, layout.starts, strict=True):
            if len(table) == 2:
                a, b = table
                pairs[a, b] = pairs[b, a] = start
                own[a, b], other[a, b] = sizes[b], 1
                own[b, a], other[b, a] = 1, sizes[b]
        return cls(sizes, bases, pairs, own, other)


def sweep(
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    plain: Reals,
    clicked: Reals,
    uniforms: Reals,
    geometry: Geometry,
) -> None:
    """Draw each feature of each display anew, given the others and the label; in place.

    Parameters
    ----------
    codes : (n, f) int32 array
    labels : (n,) int8 array
    plain, clicked : (cells,) arrays
        The cells' log weights where the label is 0, and where it is 1.
    uniforms : (n, f) array
        From 0 to below 1.
    geometry : Geometry
    """
    _sweep(codes, labels, plain, clicked, uniforms, *geometry)


@kernel
def _sweep(
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    plain: Reals,
    clicked: Reals,
    uniforms: Reals,
    sizes: NDArray[np.int64],
    bases: NDArray[np.int64],
    pairs: NDArray[np.int64],
    own: NDArray[np.int64],
    other: NDArray[np.int64],
) -> None:
    rows, features = codes.shape
    logits = np.empty(sizes.max())
    for row in range(rows):
        weights = clicked if labels[row] else plain
        for j in range(features):
            size = sizes[j]
            for v in range(size):
                logits[v] = weights[bases[j] + v]
            for k in range(features):
                if k != j and pairs[j, k] >= 0:
                    at = pairs[j, k] + codes[row, k] * other[j, k]
                    stride = own[j, k]
                    for v in range(size):
                        logits[v] += weights[at + v * stride]
            most = logits[0]
            for v in range(1, size):
                most = max(most, logits[v])
            total = 0.0
            for v in range(size):
                total += np.exp(logits[v] - most)
                logits[v] = total
            bound = uniforms[row, j] * total
            chosen = size - 1
            for v in range(size):
                if bound < logits[v]:
                    chosen = v
                    break
            codes[row, j] = chosen


def sweep_plain(
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    plain: Reals,
    clicked: Reals,
    uniforms: Reals,
    geometry: Geometry,
) -> None:
    """Do what :func:`sweep` does, a feature of all displays at a time."""
    tables = np.stack([plain, clicked])
    for j, size in enumerate(geometry.sizes.tolist()):
        values = np.arange(size)
        logits = tables[labels[:, None], geometry.bases[j] + values[None, :]]
        for k in range(codes.shape[1]):
            if k != j and geometry.pairs[j, k] >= 0:
                at = geometry.pairs[j, k] + codes[:, k].astype(np.int64) * geometry.other[j, k]
                logits = (
                    logits
                    + tables[labels[:, None], at[:, None] + values[None, :] * geometry.own[j, k]]
                )
        shares = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
        bound = uniforms[:, j] * shares[:, -1]
        codes[:, j] = np.minimum((shares <= bound[:, None]).sum(axis=1), size - 1)
