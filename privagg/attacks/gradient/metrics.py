"""How good is a recovery? Measures that need the truth, for the auditor.

``psnr`` is absolute: no oracle chooses sign or scale, and the range of the data is fixed. Beside it
stands the published one, which rescales each image to its own range and takes the better sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.gradient.matching import match
from privagg.attacks.gradient.recovery import Floats
from privagg.errors import UsageError

__all__ = ["Quality", "cosine", "psnr", "psnr_published", "quality", "ssim"]

_MOST = 200.0
"""Decibels of equality: what float64 can still tell apart."""


def _pairs(recovered: NDArray[np.floating], true: NDArray[np.floating]) -> tuple[Floats, Floats]:
    first, second = np.asarray(recovered, np.float64), np.asarray(true, np.float64)
    if first.shape != second.shape or first.ndim < 2:
        raise UsageError("recovered", first.shape, f"rows as the true ones, {second.shape}")
    return first.reshape(len(first), -1), second.reshape(len(second), -1)


def psnr(
    recovered: NDArray[np.floating], true: NDArray[np.floating], data_range: float = 1.0
) -> Floats:
    """Return the peak signal-to-noise ratio of each row in decibels, at most 200.

    Parameters
    ----------
    recovered, true : (m, ...) float arrays
        Matched rows, in the same units.
    data_range : float
        Largest value minus smallest that the data can have.
    """
    first, second = _pairs(recovered, true)
    error = np.mean(np.square(first - second), axis=1) / data_range**2
    decibels: Floats = -10 * np.log10(np.maximum(error, 10 ** (-_MOST / 10)))
    return decibels


def psnr_published(recovered: NDArray[np.floating], true: NDArray[np.floating]) -> Floats:
    """Return PSNR as the Cocktail Party paper's evaluation does: with an oracle.

    Each row of `recovered` is rescaled to its own smallest and largest value, and of the row and
    its negative the one is taken that is nearer to that of `true`. Both are (n, d) float arrays.
    """
    first, second = _pairs(recovered, true)
    low, high = first.min(1, keepdims=True), first.max(1, keepdims=True)
    unit = (first - low) / np.maximum(high - low, np.finfo(np.float64).tiny)
    best: Floats = np.maximum(psnr(unit, second), psnr(1 - unit, second))
    return best


def cosine(recovered: NDArray[np.floating], true: NDArray[np.floating]) -> Floats:
    """Return the size of the cosine of each pair of rows, centred.

    Parameters
    ----------
    recovered, true : (n, d) float arrays
        Row i of one belongs to row i of the other.
    """
    first, second = _pairs(recovered, true)
    first = first - first.mean(axis=1, keepdims=True)
    second = second - second.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    tiny = np.finfo(np.float64).tiny
    size: Floats = np.abs(np.einsum("ij,ij->i", first, second)) / np.maximum(norms, tiny)
    return size


def ssim(
    recovered: NDArray[np.floating], true: NDArray[np.floating], data_range: float = 1.0
) -> Floats:
    """Return structural similarity of images, mean over channels.

    Parameters
    ----------
    recovered, true : (m, channels, height, width) float arrays
        Images of at least 7 x 7.
    data_range : float
        Largest value minus smallest.

    Raises
    ------
    UsageError
        If the shapes differ, or an image is smaller.

    Notes
    -----
    Wang, Bovik, Sheikh, Simoncelli, "Image Quality Assessment: From Error Visibility to Structural
    Similarity", IEEE TIP 2004, with a uniform 7 x 7 window and sample covariances.
    """
    x, y = np.asarray(recovered, np.float64), np.asarray(true, np.float64)
    if x.shape != y.shape or x.ndim != 4 or min(x.shape[2:]) < 7:
        raise UsageError("recovered", x.shape, "(m, channels, height, width), from 7 x 7, twice")
    size = 49.0

    def window(values: Floats) -> Floats:
        sums = np.pad(values, ((0, 0), (0, 0), (1, 0), (1, 0))).cumsum(2).cumsum(3)
        block: Floats = (
            sums[:, :, 7:, 7:] - sums[:, :, :-7, 7:] - sums[:, :, 7:, :-7] + sums[:, :, :-7, :-7]
        )
        return block / size

    mean_x, mean_y = window(x), window(y)
    sample = size / (size - 1)
    var_x = sample * (window(x * x) - mean_x**2)
    var_y = sample * (window(y * y) - mean_y**2)
    both = sample * (window(x * y) - mean_x * mean_y)
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    value = ((2 * mean_x * mean_y + c1) * (2 * both + c2)) / (
        (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    )
    means: Floats = value.mean(axis=(1, 2, 3))
    return means


@dataclass(frozen=True)
class Quality:
    """Measures of matched pairs.

    Attributes
    ----------
    recovered, true : (m,) int arrays
        Which recovered row is which true one.
    psnr, psnr_published, cosine : (m,) float arrays
        Of each pair; absolute PSNR, and the published one with its oracle.
    ssim : (m,) float array, optional
        For images.
    perceptual : (m,) float array, optional
        Of a plug-in such as LPIPS.
    """

    recovered: NDArray[np.intp]
    true: NDArray[np.intp]
    psnr: Floats
    psnr_published: Floats
    cosine: Floats
    ssim: Floats | None = None
    perceptual: Floats | None = None

    def above(self, decibels: float) -> int:
        """Return how many pairs have an absolute PSNR of at least `decibels`."""
        return int(np.count_nonzero(self.psnr >= decibels))


def quality(
    recovered: NDArray[np.floating],
    true: NDArray[np.floating],
    *,
    shape: tuple[int, int, int] | None = None,
    data_range: float = 1.0,
    scaled: bool = True,
    perceptual: Callable[[Floats, Floats], NDArray[np.floating]] | None = None,
) -> Quality:
    """Match recovered rows with true ones, each at most once, and measure the pairs.

    Parameters
    ----------
    recovered : (m, d) float array
        In any order.
    true : (n, d) float array
        The batch.
    shape : (channels, height, width), optional
        Of images, for SSIM and the plug-in.
    data_range : float
        Largest value minus smallest.
    scaled : bool
        Match by squared error; by cosine where sign and scale are arbitrary.
    perceptual : callable, optional
        Of two arrays of images, to a distance for each: LPIPS, for example.

    Returns
    -------
    Quality
        A number of each kind for each pair.
    """
    first = np.asarray(recovered, np.float64).reshape(len(recovered), -1)
    second = np.asarray(true, np.float64).reshape(len(true), -1)
    rows, columns = match(first, second, scaled=scaled)
    a, b = first[rows], second[columns]
    images = None if shape is None else (a.reshape(-1, *shape), b.reshape(-1, *shape))
    return Quality(
        rows,
        columns,
        psnr(a, b, data_range),
        psnr_published(a, b),
        cosine(a, b),
        None if images is None or min(images[0].shape[2:]) < 7 else ssim(*images, data_range),
        None
        if perceptual is None or images is None
        else np.asarray(perceptual(*images), np.float64),
    )
