"""Gradients of which only signs were sent: the numbers behind them, by their low rank.

A sign says on which side of zero ``a_k x_j`` lies, for every neuron k and feature j: some hundred
signs for each unknown of ``A X``. The model is probit: the sign of a number of the low-rank matrix
plus noise of variance 1. Expectation and maximisation alternate: expected numbers given the
signs (the mean of a truncated normal), then the nearest matrix of the batch's rank.

Source: Davenport, Plan, van den Berg, Wootters, "1-Bit Matrix Completion", Information and
Inference 2014 (the model and its likelihood); the alternation is the textbook's for probit models.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.observation import LayerGradient

__all__ = ["behind_signs", "is_signs"]

_ROUNDS = 40
"""Further ones change the images by less than a decibel."""

_REACH = 1.7
"""Times the step of expectation and maximisation, which is safe below 2 and slow at 1."""

_ONE_SIDED = 0.6
"""Median size of a neuron's mean sign, from which signs say too little: pixels that are never
negative have one sign a neuron."""


def is_signs(layer: LayerGradient) -> bool:
    """Say whether each row of a gradient has one magnitude, and signs of both kinds enough."""
    sizes = np.abs(layer.weight)
    most = sizes.max(axis=1, keepdims=True)
    live = most[:, 0] > 0
    if not ((sizes > 0.999 * most) | (sizes == 0)).all() or layer.shape[1] < 2:
        return False
    means = np.abs(np.sign(layer.weight[live]).mean(axis=1))
    return bool(np.median(means) < _ONE_SIDED)


def behind_signs(layer: LayerGradient, rank: int) -> LayerGradient:
    """Return a gradient of low rank with these signs, its rows of mean size 1.

    Parameters
    ----------
    layer : LayerGradient
        Signs, each row times a size of its own: the mean size of the row's numbers. With one size
        for all, or none, the bias gradient does not fit the rows and is left out.
    rank : int
        How many inputs are in it.
    """
    live = np.any(layer.weight != 0, axis=1)
    if rank >= min(int(np.count_nonzero(live)), layer.shape[1]):
        return layer
    signs = np.sign(layer.weight[live]).astype(np.float32)
    numbers = _nearest(signs, rank)
    numbers *= np.float32(0.8) / np.abs(numbers).mean(axis=1, keepdims=True)
    for _ in range(_ROUNDS):
        pull = np.float32(_REACH) * signs * _mills(signs * numbers)
        numbers = _nearest(numbers + pull, rank)
    weight = np.zeros(layer.shape, np.float32)
    weight[live] = numbers / np.abs(numbers).mean(axis=1, keepdims=True)
    sizes = np.abs(layer.weight).max(axis=1)
    if layer.bias is None or np.ptp(sizes[live]) <= 1e-3 * sizes.max():
        return replace(layer, weight=weight, bias=None)
    bias = np.divide(layer.bias, sizes, out=np.zeros(len(sizes)), where=live)
    return replace(layer, weight=weight, bias=bias)


def _nearest(matrix: NDArray[np.float32], rank: int) -> NDArray[np.float32]:
    """Return the nearest matrix of a rank."""
    _, vectors = np.linalg.eigh((matrix @ matrix.T).astype(np.float64))
    basis = vectors[:, -rank:].astype(np.float32)
    nearest: NDArray[np.float32] = basis @ (basis.T @ matrix)
    return nearest


def _mills(z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the normal density over its distribution at z: approximately, to some percent."""
    inner = np.clip(z, -5, 6)
    below = 0.5 * (1 + np.tanh(0.7978846 * (inner + 0.044715 * inner**3)))
    near = np.exp(-0.5 * inner * inner) / (2.5066283 * below + 1e-9)
    tail = -z - 1 / np.minimum(z, -1)
    ratio: NDArray[np.float32] = np.where(z < -2.5, tail, near).astype(np.float32)
    return ratio
