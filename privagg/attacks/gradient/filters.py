"""Linear filters of pixels, in which images are sparse and nearly independent.

Mixing commutes with any fixed linear filter of the pixels: ``(A X) F = A (X F)``. Images share
their low frequencies, so their pixels are correlated, and hardly sparse. First differences of
luminance and of two opponent colours are both.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["ImageShape", "edges", "edges_gain", "guess_shape", "raw"]

ImageShape = tuple[int, int, int]
"""Channels, height, width: the order of PyTorch's images."""


def guess_shape(inputs: int) -> ImageShape | None:
    """Return the shape of square images of one or three channels, if `inputs` numbers are such."""
    for channels in (3, 1):
        side = math.isqrt(inputs // channels)
        if side >= 4 and channels * side * side == inputs:
            return (channels, side, side)
    return None


def check_shape(shape: object, inputs: int) -> ImageShape:
    """Return a shape of images, if it has `inputs` numbers.

    Raises
    ------
    UsageError
        If not.
    """
    allowed = f"(channels, height, width) of {inputs} numbers in all"
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        raise UsageError("shape", shape, allowed)
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in shape):
        raise UsageError("shape", shape, allowed)
    channels, height, width = (int(n) for n in shape)
    if channels * height * width != inputs:
        raise UsageError("shape", shape, allowed)
    return (channels, height, width)


def _planes(images: NDArray[np.floating]) -> list[NDArray[np.floating]]:
    """Return luminance and opponent colours of three channels; other channels as they are."""
    if images.shape[1] != 3:
        return [images[:, channel] for channel in range(images.shape[1])]
    luminance = images.mean(axis=1)
    return [luminance, images[:, 0] - luminance, images[:, 2] - luminance]


def edges(
    rows: NDArray[np.floating], shape: ImageShape, most: int | None = None, seed: int = 0
) -> NDArray[np.float32]:
    """Return first differences of luminance and opponent colours.

    Parameters
    ----------
    rows : (r, d) float array
        Mixtures of images.
    shape : (channels, height, width)
        Of an image.
    most : int, optional
        Keep a random choice of that many columns, so that large images take bounded memory.
    seed : int
        Of the choice.
    """
    count = len(rows)
    channels, height, width = shape
    planes = 3 if channels == 3 else channels
    sizes = [height * (width - 1), (height - 1) * width] * planes
    total = sum(sizes)
    if most is not None and total > most:
        chosen = np.sort(np.random.default_rng(seed).choice(total, most, replace=False))
    else:
        chosen = np.arange(total)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    picks = [chosen[(chosen >= low) & (chosen < high)] - low for low, high in pairwise(starts)]
    out = np.empty((count, len(chosen)), np.float32)
    block = max(1, (1 << 22) // (channels * height * width))
    for at in range(0, count, block):
        images = rows[at : at + block].reshape(-1, channels, height, width)
        column = 0
        for number, plane in enumerate(_planes(images)):
            pair = (np.diff(plane, axis=2), np.diff(plane, axis=1))
            for direction, differences in enumerate(pair):
                pick = picks[2 * number + direction]
                flat = differences.reshape(len(images), -1)
                out[at : at + block, column : column + len(pick)] = flat[:, pick]
                column += len(pick)
    return out


def edges_gain(shape: ImageShape) -> float:
    """Return the mean variance of a feature of white noise of variance 1."""
    if shape[0] != 3:
        return 2.0
    # Luminance is a mean of three; an opponent colour is 2/3, -1/3, -1/3 of them.
    return 2 * (1 / 3 + 2 / 3 + 2 / 3) / 3


def raw(rows: NDArray[np.floating], most: int | None = None, seed: int = 0) -> NDArray[np.float32]:
    """Return the rows, centred."""
    if most is not None and rows.shape[1] > most:
        chosen = np.random.default_rng(seed).choice(rows.shape[1], most, replace=False)
        rows = rows[:, np.sort(chosen)]
    centred: NDArray[np.float32] = (rows - rows.mean(axis=1, keepdims=True)).astype(np.float32)
    return centred
