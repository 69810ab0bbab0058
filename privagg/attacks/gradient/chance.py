"""The chance line: what one gets without any attack.

A figure in decibels says nothing alone. Crops of one photograph resemble each other, a plain colour
is near any image of little contrast, and a matching that takes the best of many finds good pairs.
So recovered images are held against *other* examples, matched in the same way, and against the best
constant for each image: the better of the two is the line.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.matching import assign
from privagg.attacks.gradient.metrics import psnr, psnr_published

__all__ = ["chance_cosine", "chance_psnr", "chance_published"]

Floats = NDArray[np.float64]


def chance_psnr(
    true: Floats,
    others: Floats,
    *,
    shape: tuple[int, int, int] | None = None,
    data_range: float = 1.0,
) -> Floats:
    """Return the absolute PSNR that each true input gets by chance.

    Parameters
    ----------
    true : (n, d) float array
        The batch.
    others : (m, d) float array
        Examples that are not in it. If there are none, the batch's own, each for another one.
    shape : (channels, height, width), optional
        Of images: the constant is a colour.
    data_range : float
        Largest value minus smallest.
    """
    line = psnr(_constants(true, shape), true, data_range)
    pool, same = (others, False) if len(others) else (true, True)
    if same and len(true) < 2:
        return line
    errors = np.empty((len(true), len(pool)))
    for index, row in enumerate(true):
        errors[index] = np.mean(np.square(pool - row), axis=1)
    if same:
        # Itself and its duplicates: never chosen while anything else is left.
        errors[errors <= 1e-12 * data_range**2] = 1e6 * data_range**2
    rows, columns = assign(np.log(np.maximum(errors, 1e-20)))
    matched = errors[rows, columns] / data_range**2
    found = line.copy()
    found[rows] = np.maximum(line[rows], -10 * np.log10(np.maximum(matched, 1e-20)))
    return found


def chance_cosine(true: Floats, others: Floats) -> Floats:
    """Return the size of the cosine that each true input gets from another example."""
    size, rows, columns = _alike(true, others)
    found = np.zeros(len(true))
    found[rows] = size[rows, columns]
    return found


def chance_published(true: Floats, others: Floats) -> Floats:
    """Return the published PSNR that each true input gets from another example.

    With the oracle of :func:`~privagg.attacks.gradient.metrics.psnr_published`, which helps chance
    as it helps an attack. An input without a partner has minus infinity.
    """
    _, rows, columns = _alike(true, others)
    pool = others if len(others) else true
    found = np.full(len(true), -np.inf)
    found[rows] = psnr_published(pool[columns], true[rows])
    if not len(others):
        # Itself or its duplicate, where nothing else was left.
        same = np.array(
            [np.array_equal(pool[c], true[r]) for r, c in zip(rows, columns, strict=True)]
        )
        found[rows[same]] = -np.inf
    return found


def _alike(true: Floats, others: Floats) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Return sizes of cosines with other examples, and the best assignment."""
    pool, same = (others, False) if len(others) else (true, True)
    a, b = _unit(true), _unit(pool)
    size = np.abs(a @ b.T)
    if same:
        size[size > 1 - 1e-9] = 0.0
    rows, columns = assign(-size)
    return size, rows, columns


def _unit(rows: Floats) -> Floats:
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    unit: Floats = centred / np.maximum(norms, np.finfo(np.float64).tiny)
    return unit


def _constants(true: Floats, shape: tuple[int, int, int] | None) -> Floats:
    if shape is None:
        means: Floats = np.broadcast_to(true.mean(axis=1, keepdims=True), true.shape)
        return means
    planes = true.reshape(len(true), shape[0], -1)
    colours: Floats = np.broadcast_to(planes.mean(axis=2, keepdims=True), planes.shape)
    return colours.reshape(true.shape)
