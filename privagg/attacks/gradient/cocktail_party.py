"""The Cocktail Party Attack: unmix by gradient ascent on a contrast with priors of images.

Kariyappa, Guo, Maeng, Xiong, Suh, Qureshi, Lee, "Cocktail Party Attack: Breaking Aggregation-Based
Privacy in Federated Learning using Independent Component Analysis", ICML 2023. The unmixing matrix
V has unit rows and starts at the identity; with the whitened rows s_i = v_i G_w it maximises

    mean_i [n J(s_i) - t TV(s_i) - p N(s_i) - l |s_i|_1] - m mean_(i != j) exp(T |cos(v_i, v_j)|)

where J is the negentropy's approximation ``(E[log cosh s] - E[log cosh g])^2`` with g Gaussian, TV
the mean absolute first difference of images, and for embeddings N the smaller norm of the positive
and the negative part and L1 their sparsity. Every term's gradient is written out; Adam does the
rest. A local update of several SGD steps is attacked in the same way.

It is here to be compared with: :func:`~privagg.attacks.gradient.ica.ica` is better and faster.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient import filters
from privagg.attacks.gradient.factors import factorize
from privagg.attacks.gradient.ica import scale
from privagg.attacks.gradient.observation import Observation
from privagg.attacks.gradient.recovery import Floats, Recovery
from privagg.attacks.gradient.unmixing import whiten
from privagg.errors import UsageError

__all__ = ["EMBEDDINGS", "IMAGES", "PUBLISHED", "Objective", "cocktail_party"]

_GAUSSIAN = 0.37457
"""``E[log cosh g]`` of a standard Gaussian."""


@dataclass(frozen=True)
class Objective:
    """Weights of the terms.

    Attributes
    ----------
    negentropy, total_variation, independence : float
        n, t and m above.
    temperature : float
        T of the independence term.
    sign, sparsity : float
        p and l above, for embeddings behind a ReLU.

    Raises
    ------
    UsageError
        If a weight is not a number from 0.
    """

    negentropy: float = 1.0
    total_variation: float = 0.0
    independence: float = 1.47
    temperature: float = 12.4
    sign: float = 0.0
    sparsity: float = 0.0

    def __post_init__(self) -> None:
        """Check the weights."""
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            real = isinstance(value, int | float) and not isinstance(value, bool)
            if not real or not 0 <= value < 1e6:
                raise UsageError(name, value, "a number from 0")


IMAGES = Objective(total_variation=3.1)
"""The paper's terms with its published weights for images."""

PUBLISHED = Objective(negentropy=0.0, total_variation=3.1)
"""The same without negentropy, which the published program computes and does not use."""

EMBEDDINGS = Objective(negentropy=1.0, independence=5.3, temperature=7.7, sign=0.13, sparsity=5.0)
"""The paper's terms with its published weights for embeddings of a convolutional network."""


def cocktail_party(
    observation: Observation,
    *,
    layer: int | str = 0,
    shape: tuple[int, int, int] | None = None,
    objective: Objective | None = None,
    iterations: int = 5000,
    rate: float = 1e-3,
    seconds: float | None = None,
) -> Recovery:
    """Run the attack on one linear layer.

    Parameters
    ----------
    observation : Observation
        What the server saw: a gradient, or a local update.
    layer : int or str
        Which of its layers.
    shape : (channels, height, width), optional
        Of images, for the total variation; guessed for square ones.
    objective : Objective, optional
        :data:`IMAGES` if there is a shape, else :data:`EMBEDDINGS`.
    iterations : int
        Steps of Adam; the paper takes 25,000.
    rate : float
        Its learning rate.
    seconds : float, optional
        CPU time after which it stops, and says so.

    Returns
    -------
    Recovery
        With signs and scales from the bias gradient if there is one (the paper has none of that).

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    began = time.process_time()
    steps = whole("iterations", iterations, 1, 10**7)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 10:
        raise UsageError("rate", rate, "a number above 0")
    chosen = observation.layer(layer)
    factors = factorize(chosen, observation.batch)
    width = factors.rows.shape[1]
    image = filters.guess_shape(width) if shape is None else filters.check_shape(shape, width)
    terms = objective or (IMAGES if image is not None else EMBEDDINGS)
    if terms.total_variation and image is None:
        raise UsageError("shape", "none", "a shape of images, for the total variation")
    rows = factors.rows[: factors.visible]
    means = rows.mean(axis=1, keepdims=True)
    matrix, white = whiten(rows - means)
    offsets = (matrix @ means).astype(np.float32)
    deadline = np.inf if seconds is None else began + seconds
    unmixing, value, done = _ascend(white, offsets, terms, image, steps, float(rate), deadline)
    notes = list(factors.diagnosis)
    if done < steps:
        notes.append(f"stopped after {done} of {steps} steps: its limit is {seconds:g} CPU seconds")
    anchor = None if factors.anchor is None else factors.anchor[: len(rows)]
    final = scale(unmixing @ matrix, anchor)
    return Recovery(
        inputs=final @ rows,
        method="cocktail_party",
        scaled=anchor is not None,
        cpu_seconds=time.process_time() - began,
        rank=factors.rank,
        batch=observation.batch,
        diagnosis=tuple(notes),
        details={"iterations": done, "objective": value},
    )


def _ascend(
    white: NDArray[np.float32],
    offsets: NDArray[np.float32],
    terms: Objective,
    shape: filters.ImageShape | None,
    steps: int,
    rate: float,
    deadline: float,
) -> tuple[Floats, float, int]:
    """Maximise the objective by Adam; return the unmixing matrix, the last value, the steps."""
    count = len(white)
    raw = np.eye(count)
    first, second = np.zeros_like(raw), np.zeros_like(raw)
    value, done = 0.0, 0
    for step in range(1, steps + 1):
        if time.process_time() > deadline:
            break
        done = step
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        unit = raw / norms
        value, slope = value_and_gradient(unit, white, offsets, terms, shape)
        # Through the normalisation: only what turns a row counts.
        slope = (slope - unit * np.einsum("ij,ij->i", slope, unit)[:, None]) / norms
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        moved = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        raw = raw + rate * moved
        raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    return raw, value, done


def value_and_gradient(
    unit: Floats,
    white: NDArray[np.float32],
    offsets: NDArray[np.float32],
    terms: Objective,
    shape: filters.ImageShape | None,
) -> tuple[float, Floats]:
    """Return the objective at a matrix with unit rows, and its gradient.

    Parameters
    ----------
    unit : (r, r) float array
        The unmixing matrix.
    white : (r, d) float32 array
        Whitened rows, centred.
    offsets : (r, 1) float32 array
        What centring took from them, for the terms of sign and sparsity.
    terms, shape
        The weights, and the images' shape.
    """
    count, width = white.shape
    narrow = unit.astype(np.float32)
    sources = narrow @ white
    slope = np.zeros_like(sources)
    value = 0.0
    if terms.negentropy:
        size = np.abs(sources)
        # log cosh s = |s| + log(1 + exp(-2 |s|)) - log 2, which does not overflow.
        contrast = (size + np.log1p(np.exp(-2 * size))).mean(axis=1) - np.log(2.0)
        above = contrast - _GAUSSIAN
        value += terms.negentropy * float(np.mean(above**2))
        factor = (terms.negentropy * 2 / (count * width)) * above[:, None]
        slope += factor.astype(np.float32) * np.tanh(sources)
    if terms.total_variation and shape is not None:
        part, gradient = _variation(sources.reshape(count, *shape))
        value -= terms.total_variation * part
        slope -= np.float32(terms.total_variation) * gradient.reshape(count, width)
    total = slope @ white.T
    if terms.sign or terms.sparsity:
        whole_sources = sources + narrow @ offsets
        part, gradient = _embedding(whole_sources, terms)
        value -= part
        total = total - (gradient @ white.T + gradient.sum(1, keepdims=True) @ offsets.T)
    cosines = unit @ unit.T
    others = ~np.eye(count, dtype=bool)
    growth = np.exp(terms.temperature * np.abs(cosines)) * others
    pairs = max(1, count * (count - 1))
    value -= terms.independence * float(growth.sum()) / pairs
    pull = terms.temperature * growth * np.sign(cosines)
    return value, total.astype(np.float64) - (2 * terms.independence / pairs) * (pull @ unit)


def _variation(images: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
    """Return mean |dx| + mean |dy|, averaged over images, and its gradient."""
    gradient = np.zeros_like(images)
    value = 0.0
    across, down = np.diff(images, axis=3), np.diff(images, axis=2)
    if across.size:
        value += float(np.abs(across).mean())
        signs = np.sign(across) / np.float32(across.size)
        gradient[:, :, :, 1:] += signs
        gradient[:, :, :, :-1] -= signs
    if down.size:
        value += float(np.abs(down).mean())
        signs = np.sign(down) / np.float32(down.size)
        gradient[:, :, 1:] += signs
        gradient[:, :, :-1] -= signs
    return value, gradient


def _embedding(sources: NDArray[np.float32], terms: Objective) -> tuple[float, NDArray[np.float32]]:
    """Return the penalties of both signs in one row, and of many entries; and their gradient."""
    count, width = sources.shape
    positive, negative = np.maximum(sources, 0), np.minimum(sources, 0)
    up, down = np.linalg.norm(positive, axis=1), np.linalg.norm(negative, axis=1)
    smaller = np.where(up < down, up, down)
    part = np.where((up < down)[:, None], positive, negative)
    value = terms.sign * float(smaller.mean())
    value += terms.sparsity * float(np.abs(sources).mean())
    gradient = np.float32(terms.sign / count) * part / np.maximum(smaller, 1e-12)[:, None]
    gradient += np.float32(terms.sparsity / (count * width)) * np.sign(sources)
    return value, gradient
