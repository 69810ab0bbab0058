"""Modulus, scale and noise of distributed noise, from what is to be guaranteed.

The scale is the largest for which the sum stays within the modulus: with k standard deviations of a
rotated coordinate of the sum on either side,
2**b = 2 k sqrt(c**2 n**2 / d + (g**2 / 4 + v) n) / g, where g = 1 / s is what an integer stands for
and v the variance of one client's noise (Kairouz, Liu, Steinke, ICML 2021, section 4.2 and appendix
on the choice of parameters). The noise is the least whose proven epsilon is not above the stated.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

from privagg._validate import whole
from privagg.accounting.gaussian import analytic_sigma
from privagg.accounting.rdp import positive
from privagg.errors import UsageError
from privagg.mechanisms.distributed import KINDS, DistributedNoise
from privagg.mechanisms.guarantees import Target
from privagg.mechanisms.integer_noise import MAX_SIGMA
from privagg.mechanisms.rotation import padded

__all__ = ["MAX_EXCESS", "WRAP", "calibrate", "central_deviation", "scale_for"]

WRAP = 1e-4
"""The probability that a coordinate wraps: 3.89 standard deviations."""

MAX_EXCESS = 1.02
"""Bits are chosen such that rounding costs no more than this factor in variance."""

_LEAST_WRAP = 1e-200
_MOST_BITS = 32
_TURNS = 50
_SMALLEST = 2.0**-8
_LARGEST_CLIP = 2.0**28


def scale_for(
    *, bits: int, clients: int, dim: int, clip: float, local: float, wrap: float = WRAP
) -> float:
    """Return the scale s = sqrt(2**(2 b) - n k**2) / (2 k sqrt(c**2 n**2 / d + n v)).

    Parameters
    ----------
    bits, clients, dim : int
        b, n and d, after padding.
    clip, local : float
        c, and the standard deviation sqrt(v) of one client's noise, in the vector's units.
    wrap : float
        The probability that a coordinate wraps; k is the normal quantile of it, both sides.

    Raises
    ------
    UsageError
        If the modulus is too small for the rounding of so many clients.
    """
    if positive("wrap", wrap, 1.0) < _LEAST_WRAP:
        raise UsageError("wrap", wrap, f"{_LEAST_WRAP:g} or more")
    k = -NormalDist().inv_cdf(wrap / 2)
    room = 4.0**bits - clients * k * k
    if room <= 0:
        least = math.ceil(math.log2(clients * k * k) / 2 + 1e-9)
        raise UsageError("bits", bits, f"{least} or more for {clients} clients")
    spread = math.sqrt(clip * clip * clients * clients / dim + clients * local * local)
    return math.sqrt(room) / (2 * k * spread)


def central_deviation(clip: float, epsilon: float, target: Target) -> float:
    """Return the standard deviation of central Gaussian noise for the same guarantee; exact."""
    sigma = analytic_sigma(1.0, epsilon, target.delta)
    if target.rounds > 1:  # T rounds are one of sqrt(T) times the sensitivity
        sigma *= math.sqrt(target.rounds)
    return clip * target.factor * sigma


def calibrate(
    kind: str = "discrete-gaussian",
    *,
    dim: int,
    clients: int,
    honest: int | None = None,
    clip: float = 1.0,
    epsilon: float | None = None,
    multiplier: float | None = None,
    bits: int | None = None,
    delta: float = 1e-6,
    rounds: int = 1,
    sampling_rate: float = 1.0,
    adjacency: str = "zero-out",
    wrap: float = WRAP,
) -> Any:
    """Return a mechanism that guarantees epsilon whoever drops out, as long as `honest` stay.

    Parameters
    ----------
    kind : {"discrete-gaussian", "skellam", "poisson-binomial"}
        The noise.
    dim, clients : int
        Coordinates, and clients that may be in the sum.
    honest : int, optional
        The least number of honest contributors in a sum; `clients` if left out.
    clip : float
        The L2 norm of a vector.
    epsilon : float, optional
        What all rounds together may spend at `delta`. Or give `multiplier`.
    multiplier : float, optional
        Standard deviation of the sum's noise over the clip at the worst case (not for
        ``poisson-binomial``).
    bits : int, optional
        Of the modulus; if left out, the least that make rounding cost less than 2 % of variance.
    delta, rounds, sampling_rate, adjacency
        See :class:`~privagg.mechanisms.guarantees.Target`.
    wrap : float
        The probability that a coordinate of the sum wraps; see :class:`DistributedNoise`.

    Returns
    -------
    DistributedNoise or PoissonBinomial

    Raises
    ------
    UsageError
        If the arguments leave no mechanism; the nearest that works is named.
    """
    target = Target(delta=delta, rounds=rounds, sampling_rate=sampling_rate, adjacency=adjacency)
    clients = whole("clients", clients, 1, 2**20)
    least = clients if honest is None else whole("honest", honest, 1, clients)
    clip = positive("clip", clip)
    positive("wrap", wrap, 1.0)
    if (epsilon is None) == (multiplier is None):
        raise UsageError("epsilon", epsilon, "either epsilon or a noise multiplier")
    if kind == "poisson-binomial":
        from privagg.mechanisms.poisson_binomial import calibrate_poisson_binomial

        if epsilon is None:
            raise UsageError("multiplier", multiplier, "epsilon for poisson-binomial noise")
        return calibrate_poisson_binomial(
            dim=dim,
            clients=clients,
            honest=least,
            clip=clip,
            epsilon=positive("epsilon", epsilon),
            bits=bits,
            target=target,
        )
    if kind not in KINDS:
        raise UsageError("kind", kind, " or ".join((*KINDS, "poisson-binomial")))
    if epsilon is not None:
        positive("epsilon", epsilon)
    if multiplier is not None:
        positive("multiplier", multiplier)
    start = DistributedNoise(
        kind=kind,
        dim=dim,
        clients=clients,
        honest=least,
        clip=clip,
        bits=_MOST_BITS if bits is None else bits,
        scale=1.0 / clip,
        variance=1.0,
        wrap=wrap,
        target=target,
    )
    if bits is not None:
        return _fit(start, epsilon, multiplier)
    ideal = _fit(start, epsilon, multiplier)
    deviation = math.sqrt(least * ideal.variance) / ideal.scale
    for chosen in range(4, _MOST_BITS):
        try:
            made = _scaled(replace(start, bits=chosen), deviation)
            if made.inflation**2 * (1 + 0.25 / made.variance) <= MAX_EXCESS:
                return _fit(made, epsilon, multiplier)
        except UsageError:  # too few bits
            continue
    return ideal


def _fit(
    start: DistributedNoise, epsilon: float | None, multiplier: float | None
) -> DistributedNoise:
    """Return scale and variance for given bits: each follows from the other, so in turns."""
    if multiplier is not None:
        return _scaled(start, multiplier * start.clip)
    stated = positive("epsilon", epsilon or 0.0)
    made = _scaled(start, central_deviation(start.clip, stated, start.target), checked=False)
    for _ in range(_TURNS):
        variance = _checked(start, _least_variance(made, stated))
        if abs(made.variance - variance) <= 1e-5 * variance:
            return replace(made, variance=variance)
        deviation = math.sqrt(start.honest * variance) / made.scale
        made = _scaled(start, deviation, checked=False)
    # More noise takes a smaller scale, which makes rounding need more noise still: no end.
    found = f"{start.bits}, where the noise that rounding needs does not fit"
    if start.bits == _MOST_BITS:
        raise UsageError(
            "epsilon",
            stated,
            f"an epsilon that noise of {_MOST_BITS} bits proves",
            "Raise epsilon, or take fewer rounds.",
        )
    raise UsageError("bits", found, "more bits", "Or a larger epsilon, or fewer rounds.")


def _scaled(start: DistributedNoise, deviation: float, checked: bool = True) -> DistributedNoise:
    """Return the largest scale at which the sum has this deviation, in the vector's units."""
    local = deviation / math.sqrt(start.honest)
    scale = scale_for(
        bits=start.bits,
        clients=start.clients,
        dim=padded(start.dim),
        clip=start.clip,
        local=local,
        wrap=start.wrap,
    )
    scale = min(scale, 0.9 * MAX_SIGMA / local, _LARGEST_CLIP / start.clip)
    variance = (local * scale) ** 2
    return replace(start, scale=scale, variance=_checked(start, variance) if checked else variance)


def _least_variance(made: DistributedNoise, epsilon: float) -> float:
    """Return the least variance, to 1 in 10**8, whose proven epsilon is not above the stated."""

    def enough(variance: float) -> bool:
        return made.epsilon_with(made.honest, variance)[0] <= epsilon

    low, high, step = made.variance, made.variance, 1.02
    while enough(low) and low > _SMALLEST:
        low, high, step = low / step, low, step * step
    while not enough(high):
        if high > MAX_SIGMA**2:
            return math.inf
        low, high, step = high, high * step, step * step
    while high > low * (1 + 1e-8):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _checked(start: DistributedNoise, variance: float) -> float:
    if not variance <= MAX_SIGMA**2:
        raise UsageError(
            "epsilon and bits",
            f"noise of {start.bits} bits' scale",
            "an epsilon that some noise proves",
            "Raise epsilon or bits, or take fewer rounds.",
        )
    if variance < 0.25:
        raise UsageError(
            "bits",
            start.bits,
            "a modulus whose scale leaves each client noise of variance 1/4 or more",
            "Raise bits.",
        )
    return variance
