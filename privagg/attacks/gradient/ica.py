"""Inputs of any linear layer by blind source separation, in a fraction of a second.

No oracle anywhere: the unmixing row that gives an input also gives 1 on the bias gradient, which
fixes its sign and scale (SPEAR has this step: Dimitrov, Baader, Müller, Vechev, "SPEAR: Exact
Gradient Inversion of Batches in Federated Learning", NeurIPS 2024). That gradients of linear layers
are a problem of source separation is due to Kariyappa et al., "Cocktail Party Attack", ICML 2023.

The result depends only on the span of the inputs: with exact gradients it is the same for every
activation, width and loss, as long as A has full rank. Only the batch's size and the noise matter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient import filters
from privagg.attacks.gradient.factors import Factors, factorize, weigh_rows
from privagg.attacks.gradient.observation import Observation
from privagg.attacks.gradient.recovery import Floats, Recovery
from privagg.attacks.gradient.signs import behind_signs, is_signs
from privagg.attacks.gradient.unmixing import FREEDOM, fast_ica, likelihood_ica, whiten
from privagg.errors import UsageError

__all__ = ["FILTERS", "Separation", "ica", "separate"]

FILTERS = ("auto", "edges", "raw")

_COLUMNS = 1 << 15
"""Features that are looked at: more add time and memory, hardly quality."""

_CLEAR = 0.1
"""Signal over noise of the median filtered component, from which edges are better than pixels."""

_SHARP, _BLURRED = 100.0, 3.0
"""Below this ratio sources carry noise: their density then has this many degrees of freedom."""


@dataclass(frozen=True)
class Separation:
    """Unmixed components of a gradient.

    Attributes
    ----------
    unmixing : (r, r) float array
        ``unmixing @ factors.rows`` are the recovered inputs, of signed scale where there is a bias.
    features : (r, m) float32 array
        Filtered rows, in which the sources are nearly independent.
    filter : str
        Which filter was chosen.
    snr : float
        Power of the median filtered component over that of its noise.
    iterations : int
        Of both steps.
    """

    unmixing: Floats
    features: NDArray[np.float32] = field(repr=False)
    filter: str
    snr: float
    iterations: int


def ica(
    observation: Observation,
    *,
    layer: int | str = 0,
    shape: tuple[int, int, int] | None = None,
    filter: str = "auto",
    seed: int = 0,
) -> Recovery:
    """Recover a batch of a linear layer's inputs.

    Parameters
    ----------
    observation : Observation
        What the server saw.
    layer : int or str
        Which of its layers.
    shape : (channels, height, width), optional
        Of the inputs, if they are images or feature maps; guessed for square ones.
    filter : {"auto", "edges", "raw"}
        Features for the separation; by the signal-to-noise ratio if ``auto``.
    seed : int
        Of the first rotation.

    Returns
    -------
    Recovery
        Approximate inputs: `verified` is never set.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    began = time.process_time()
    chosen = observation.layer(layer)
    factors = factorize(chosen, observation.batch)
    signs = is_signs(chosen)
    if signs:
        chosen = behind_signs(chosen, factors.rank)
        factors = factorize(chosen, factors.rank)
    else:
        factors = weigh_rows(chosen, factors, observation.batch)
    found = separate(factors, shape=shape, filter=filter, seed=seed)
    inputs = found.unmixing @ factors.rows[: len(found.unmixing)]
    notes = list(factors.diagnosis)
    if signs:
        notes.append("only signs were sent: the numbers behind them come from their low rank")
        if chosen.bias is None and observation.layer(layer).bias is not None:
            notes.append("the signs have one size for all neurons: the bias gradient fits no row")
    if found.filter == "raw" and filter == "auto" and factors.rank > 1:
        notes.append("pixels and not edges were unmixed: noise, or no image shape")
    return Recovery(
        inputs=np.asarray(inputs, np.float64),
        method="ica",
        scaled=factors.anchor is not None,
        cpu_seconds=time.process_time() - began,
        rank=factors.rank,
        batch=observation.batch,
        diagnosis=tuple(notes),
        details={"filter": found.filter, "snr": found.snr, "iterations": found.iterations},
    )


def separate(
    factors: Factors,
    *,
    shape: tuple[int, int, int] | None = None,
    filter: str = "auto",
    seed: int = 0,
) -> Separation:
    """Unmix the visible components of factors.

    Parameters
    ----------
    factors : Factors
        The gradient's leading singular vectors.
    shape, filter, seed
        As for :func:`ica`.
    """
    if filter not in FILTERS:
        raise UsageError("filter", filter, " or ".join(FILTERS))
    start = whole("seed", seed, 0, 2**63 - 1)
    width = factors.rows.shape[1]
    image = filters.guess_shape(width) if shape is None else filters.check_shape(shape, width)
    if filter == "edges" and image is None:
        raise UsageError("shape", "none", "a shape of images, for the filter edges")
    rows = factors.rows[: factors.visible]
    name, features, snr = _features(factors, rows, image, filter)
    matrix, white = whiten(features)
    first = fast_ica(white, seed=start)
    freedom = FREEDOM if snr >= _SHARP else _BLURRED
    second = likelihood_ica(white, first.matrix, freedom=freedom)
    unmixing = second.matrix @ matrix
    anchor = factors.anchor
    scaled = scale(unmixing, None if anchor is None else anchor[: len(rows)])
    return Separation(scaled, features, name, snr, first.iterations + second.iterations)


def _features(
    factors: Factors, rows: Floats, shape: filters.ImageShape | None, wanted: str
) -> tuple[str, NDArray[np.float32], float]:
    """Return the filter's name, the features, and their signal-to-noise ratio."""
    noise = max(factors.noise**2, np.finfo(np.float64).tiny)
    if shape is not None and min(shape[1:]) > 1 and wanted != "raw":
        features = filters.edges(rows, shape, _COLUMNS)
        snr = _ratio(features, noise * filters.edges_gain(shape))
        if wanted == "edges" or snr >= _CLEAR:
            return "edges", features, snr
    features = filters.raw(rows, _COLUMNS)
    return "raw", features, _ratio(features, noise)


def _ratio(features: NDArray[np.float32], noise: float) -> float:
    second = (features @ features.T).astype(np.float64) / features.shape[1]
    values = np.linalg.eigvalsh(second)
    return float(max(0.0, np.median(values) / noise - 1))


def scale(unmixing: Floats, anchor: Floats | None) -> Floats:
    """Return rows of signed scale: 1 on the bias gradient; of unit norm where there is none."""
    norms = np.linalg.norm(unmixing, axis=1, keepdims=True)
    unit = unmixing / np.maximum(norms, np.finfo(np.float64).tiny)
    if anchor is None:
        return np.asarray(unit, np.float64)
    ones = unit @ anchor
    # A row whose value on the bias gradient is lost in rounding has no scale: it stays a unit.
    lost = np.abs(ones) < 1e-9 * np.linalg.norm(anchor)
    scaled: Floats = unit / np.where(lost, 1.0, ones)[:, None]
    return scaled
