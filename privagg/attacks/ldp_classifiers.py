"""Classifiers that learn to tell the true attribute of a report from fakes: baselines of an attack.

None of them can do better than the posterior of :mod:`privagg.attacks.ldp_attribute`; they show
what an attacker reaches who knows no formula.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector
from privagg.protocols.multidim import Params, TupleReports
from privagg.protocols.multidim.kernels import codes_of
from privagg.protocols.multidim.layout import row_layout

__all__ = ["boosted", "features", "logistic", "unpacked"]

_MOST = 10_000
"""Reports to train the logistic regression on: more do not move it."""

_TURNS = 80


def unpacked(rows: NDArray[np.uint64], offset: int, width: int) -> Vector:
    """Return bits of each row as numbers, ``(n, width)``.

    Parameters
    ----------
    rows : (n, words) uint64 array
        Reports as rows of bits.
    offset : int
        The first bit.
    width : int
        How many bits.
    """
    octets = rows.astype("<u8", copy=False).view(np.uint8)
    every = np.unpackbits(octets, axis=1, bitorder="little")
    return np.asarray(every[:, offset : offset + width], np.float64)


def features(params: Params, reports: TupleReports) -> Vector:
    """Return what a classifier sees of reports with fakes: a number for each value, 0 or 1."""
    rows, layout = reports.groups[0][0], row_layout(params)
    parts = []
    for offset, field in zip(layout.offsets, params.fields, strict=True):
        if field.split is None:
            parts.append(unpacked(rows, offset, field.width))
        else:
            parts.append(np.eye(field.k)[codes_of(rows, offset, field.width)])
    return np.concatenate(parts, axis=1)


def logistic(
    known: Vector, labels: NDArray[np.uint32], unknown: Vector, classes: int, seed: int
) -> NDArray[np.int64]:
    """Fit a multinomial logistic regression, and return its guess of each unknown report.

    Trained by accelerated gradient descent (Nesterov) on the mean cross-entropy, with a small ridge
    penalty.

    Parameters
    ----------
    known, unknown : (n, f) float64 array
        Features.
    labels : (n,) integer array
        Classes of the known ones, from 0.
    classes, seed : int
        How many classes; the seed is not used, as nothing is random.

    Returns
    -------
    (m,) int64 array
    """
    x = np.column_stack([known[:_MOST], np.ones(min(len(known), _MOST))])
    target = np.eye(classes)[labels[:_MOST]]
    # The loss's curvature is at most half the largest eigenvalue of the features' second moment.
    step = 2.0 / np.linalg.eigvalsh(x.T @ x / len(x))[-1]
    weights = ahead = np.zeros((x.shape[1], classes))
    for turn in range(_TURNS):
        scores = x @ ahead
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        moved = ahead - step * (x.T @ (chances - target) / len(x) + 1e-4 * ahead)
        ahead = moved + turn / (turn + 3) * (moved - weights)
        weights = moved
    return np.asarray((unknown @ weights[:-1] + weights[-1]).argmax(axis=1), np.int64)


def boosted(
    known: Vector, labels: NDArray[np.uint32], unknown: Vector, classes: int, seed: int
) -> NDArray[np.int64]:
    """Fit gradient-boosted trees of scikit-learn; arguments as for :func:`logistic`.

    Raises
    ------
    UsageError
        If scikit-learn is not installed.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        hint = "Install scikit-learn, or take logistic."
        raise UsageError("classifier", "boosted", "logistic without scikit-learn", hint) from None
    model = HistGradientBoostingClassifier(random_state=seed % 2**32)
    model.fit(known, labels)
    return np.asarray(model.predict(unknown), np.int64)
