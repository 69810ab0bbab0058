"""Four verdicts on a layer, with numbers in their definitions.

========================  ==================================================================
``EXACT``                 an attack recovered every distinct input and proved it without the
                          truth, up to the floor (float32, fixed point, compression)
``RECONSTRUCTABLE``       some attack recovered at least half of the inputs
``PARTIAL``               some attack recovered an input, or a component is above the noise
``HIDDEN``                no attack recovered an input, and no component is above the noise
========================  ==================================================================

An input counts as *recovered* if its absolute PSNR is at least 20 dB **and** at least 6 dB above
its chance line; where signs and scales are arbitrary (no bias), if its cosine is at least 0.9 and
at least 0.1 above what other examples give.

A component is *visible* if its singular value in the seen gradient exceeds the largest that noise
alone would have: ``s (sqrt d + sqrt h)`` with s the noise's standard deviation in an entry, which
is ``sigma C`` over the number of examples for DP-SGD; times ``1 + 2 min(h, d)^(-2/3)`` for its
fluctuation (Tracy and Widom). Without added noise, s is what rounding leaves.

``HIDDEN`` says what these attacks cannot do, and the noise explains it. Only epsilon is a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from privagg.attacks.gradient.factors import Factors
from privagg.attacks.gradient.observation import LayerGradient

__all__ = [
    "BAR",
    "MARGIN",
    "LayerVerdict",
    "Verdict",
    "above_floor",
    "judge",
    "noise_edge",
    "visible_rank",
    "worst",
]

BAR = 20.0
"""Decibels from which an input counts as recovered."""

MARGIN = 6.0
"""Decibels that it must be above its chance line."""


class Verdict(StrEnum):
    """What a server learns of a layer's inputs, the worst first."""

    EXACT = "EXACT"
    RECONSTRUCTABLE = "RECONSTRUCTABLE"
    PARTIAL = "PARTIAL"
    HIDDEN = "HIDDEN"


@dataclass(frozen=True)
class LayerVerdict:
    """A verdict and the reason.

    Attributes
    ----------
    name : str
        The layer.
    shape : (h, d)
        Outputs and inputs.
    batch : int
        Inputs of the layer in the gradient, over all clients.
    rank, visible_rank : int
        Numerical rank of the gradient; components above the noise.
    ratio : float
        Outputs over inputs in the gradient, h / B: below 1 they cannot be separated, from about 5
        to 8 they are exact behind a ReLU.
    zero_share : float
        Share of exact zeros in the gradient of the outputs: half with a fresh ReLU.
    edge : float
        What a singular value must exceed to be visible.
    singular : tuple of float
        The largest singular values.
    verdict : Verdict
        One of the four.
    reason : str
        Why, with numbers.
    """

    name: str
    shape: tuple[int, int]
    batch: int
    rank: int
    visible_rank: int
    ratio: float
    zero_share: float
    edge: float
    singular: tuple[float, ...]
    verdict: Verdict
    reason: str


def noise_edge(shape: tuple[int, int], deviation: float) -> float:
    """Return the largest singular value that noise alone has.

    ``s (sqrt h + sqrt d)``, times ``1 + 2 min(h, d)^(-2/3)`` for its fluctuation.

    Parameters
    ----------
    shape : (h, d)
        Of the gradient.
    deviation : float
        Standard deviation s of the noise in an entry.
    """
    h, d = shape
    return deviation * (math.sqrt(h) + math.sqrt(d)) * (1 + 2 * math.pow(min(h, d), -2 / 3))


def above_floor(layer: LayerGradient, factors: Factors, floor: float) -> int:
    """Return how many components are above a known encoding's rounding.

    Parameters
    ----------
    layer, factors
        The layer as it is seen.
    floor : float
        Standard deviation of the rounding in an entry.
    """
    live = (
        int(np.count_nonzero(np.any(layer.weight != 0, axis=1))),
        int(np.count_nonzero(np.any(layer.weight != 0, axis=0))),
    )
    values = factors.singular[: factors.rank]
    return int(np.count_nonzero(values > noise_edge(live, floor)))


def visible_rank(layer: LayerGradient, factors: Factors, deviation: float) -> tuple[int, float]:
    """Return how many components are above the noise, and the edge in singular values.

    Parameters
    ----------
    layer : LayerGradient
        As the server sees it.
    factors : Factors
        Its singular values and rank.
    deviation : float
        Known standard deviation of noise in an entry; 0 if none was added.
    """
    h, d = layer.shape
    added = noise_edge(layer.shape, deviation)
    rounding = factors.noise * (math.sqrt(h) + math.sqrt(d)) * 1.05
    edge = max(added, rounding if not deviation else 0.0, float(factors.singular[0]) * 1e-8)
    values = factors.singular[: factors.rank]
    return int(np.count_nonzero(values > edge)), edge


def judge(
    layer: LayerGradient,
    factors: Factors,
    *,
    batch: int,
    distinct: int,
    zero_share: float,
    deviation: float,
    verified: int,
    recovered: int,
    best: str,
    doubts: tuple[str, ...] = (),
) -> LayerVerdict:
    """Give a layer its verdict.

    Parameters
    ----------
    layer, factors, deviation
        As for :func:`visible_rank`.
    batch, distinct : int
        The layer's inputs, and how many of them differ.
    zero_share : float
        As in :class:`LayerVerdict`.
    verified : int
        Inputs of an attack that proved all it recovered; 0 if none did.
    recovered : int
        Most inputs that count as recovered.
    best : str
        By which attack.
    doubts : tuple of str
        What limits the attacks on this layer.
    """
    h, _ = layer.shape
    seen, edge = visible_rank(layer, factors, deviation)
    ratio = h / batch
    noisy = f"{seen} of {factors.rank} components above the noise's edge"
    if verified >= distinct:
        verdict = Verdict.EXACT
        same = "" if distinct == batch else f" ({batch - distinct} are duplicates)"
        reason = (
            f"all {distinct} distinct inputs{same} proved without the truth by {best}: "
            f"h/B {ratio:.3g}, {zero_share:.0%} zeros"
        )
    elif recovered and 2 * recovered >= distinct:
        verdict = Verdict.RECONSTRUCTABLE
        proof = f"{verified} proved" if verified else "none proved"
        reason = f"{recovered} of {batch} inputs by {best}, {proof}: {_limits(batch, h, noisy)}"
    elif recovered or seen:
        verdict = Verdict.PARTIAL
        what = f"{recovered} of {batch} inputs by {best}" if recovered else "no single input"
        reason = f"{what}; sums and mixtures are visible: {_limits(batch, h, noisy)}"
    else:
        verdict = Verdict.HIDDEN
        reason = (
            f"no component above the noise: the largest singular value is "
            f"{factors.singular[0] / max(edge, 1e-300):.2g} of the edge"
        )
    if doubts and verdict is not Verdict.EXACT:
        reason += f" ({doubts[0]})"
    return LayerVerdict(
        name=layer.name,
        shape=layer.shape,
        batch=batch,
        rank=factors.rank,
        visible_rank=seen,
        ratio=ratio,
        zero_share=zero_share,
        edge=edge,
        singular=tuple(float(v) for v in factors.singular[: max(64, factors.rank)]),
        verdict=verdict,
        reason=reason,
    )


def _limits(batch: int, h: int, noisy: str) -> str:
    if batch > h:
        return f"{batch} inputs for {h} outputs, too many to separate"
    return f"h/B {h / batch:.3g}, {noisy}"


def worst(verdicts: list[LayerVerdict]) -> Verdict:
    """Return the worst verdict of several layers."""
    order = list(Verdict)
    return min((one.verdict for one in verdicts), key=order.index, default=Verdict.HIDDEN)
