"""The same risks when responses are clipped and released with noise.

Neighbours differ in one response; features, bags and their sizes are public. A response clipped to
[-B, B] moves its bag's sum by at most 2 B, so the sum with Laplace noise of scale 2 B / epsilon is
epsilon-label-DP, and so are all disjoint bags together. To the mean response of a row the noise
adds a variance of ``c / k`` with ``c = 8 B^2 / epsilon^2``; Gaussian noise has another c.

Clipping a Gaussian response keeps a part ``kappa = 1 - 2 P(N > B / tau)`` of its dependence on
the features and leaves an uncorrelated residual (Bussgang, Stein). What it shrinks is given back by
dividing the estimate by kappa. Derived for Gaussian features and noise.

Scales are in units of r, the signal's standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privagg.accounting.gaussian import analytic_sigma
from privagg.errors import UsageError
from privagg.protocols.responses.theory import Moments, minimum, moments

__all__ = ["Clipped", "Optimum", "best", "laplace_noise", "noise_of", "private_risk"]


@dataclass(frozen=True)
class Clipped:
    """What clipping leaves of a Gaussian response with signal 1.

    Attributes
    ----------
    bound : float
        B, in units of r.
    kept : float
        kappa, the factor on the signal.
    residual : float
        The variance of what is uncorrelated with the features.
    """

    bound: float
    kept: float
    residual: float

    @classmethod
    def at(cls, bound: float, snr: float) -> Clipped:
        """Return it for a bound; infinity clips nothing.

        Parameters
        ----------
        bound : float
            Responses are clipped to its negative and itself.
        snr : float
            Signal to noise: variance of the linear part over that of the rest.
        """
        noise = 1 / snr
        if math.isinf(bound):
            return cls(bound, 1.0, noise)
        power = 1 + noise  # tau^2
        b = bound / math.sqrt(power)
        beyond = math.erfc(b / math.sqrt(2)) / 2
        density = math.exp(-b * b / 2) / math.sqrt(2 * math.pi)
        kept = 1 - 2 * beyond
        variance = power * (kept - 2 * b * density) + 2 * bound * bound * beyond
        return cls(bound, kept, variance - kept * kept)


def laplace_noise(bound: float, epsilon: float) -> float:
    """Return the variance c of Laplace noise on a bag's sum of responses within [-B, B].

    Parameters
    ----------
    bound : float
        B.
    epsilon : float
        Above 0.
    """
    return 8 * bound * bound / (epsilon * epsilon)


def noise_of(bound: float, epsilon: float, delta: float = 0.0, copies: int = 1) -> float:
    """Return the variance c of the noise on a bag's sum: Laplace at delta 0, else Gaussian.

    Parameters
    ----------
    bound : float
        B.
    epsilon, delta : float
        The guarantee for one replaced response.
    copies : int
        In how many bags each row is: the L1 sensitivity is 2 B times it, the L2 one times its
        root.
    """
    if delta == 0:
        return laplace_noise(bound, epsilon / copies)
    sigma: float = analytic_sigma(2 * bound * math.sqrt(copies), epsilon, delta)
    return sigma * sigma


def private_risk(
    found: Moments, clipped: Clipped, noise: float, size: float, debias: bool = True
) -> float:
    """Return the excess risk over r^2 after clipping and noise.

    Parameters
    ----------
    found : Moments
        The estimator's, without either.
    clipped : Clipped
    noise : float
        c of :func:`noise_of`, in units of r^2.
    size : float
        Rows of a bag.
    debias : bool
        Whether the estimate is divided by kappa.
    """
    power = found.bias - 1 + 2 * found.kept
    factor = 1.0 if debias else clipped.kept
    variance = found.variance * (clipped.residual + noise / size)
    if debias:
        variance /= clipped.kept**2
    return factor * factor * power - 2 * factor * found.kept + 1 + variance


@dataclass(frozen=True)
class Optimum:
    """The best setting found, and its risk as a multiple of r^2.

    Attributes
    ----------
    size : int
    rho, ridge : float
    clip : float
        In units of r; infinite without privacy.
    risk : float
    """

    size: int
    rho: float
    ridge: float
    clip: float
    risk: float


def best(
    psi: float,
    snr: float,
    sizes: Sequence[int],
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    ridge: bool = True,
) -> Optimum:
    """Return the bag size, rho, ridge and clipping bound with the least excess risk.

    Parameters
    ----------
    psi, snr : float
        As in :mod:`privagg.protocols.responses.theory`.
    sizes : sequence of int
        The bag sizes allowed.
    epsilon : float, optional
        The guarantee; none unless given.
    delta : float
        0 for Laplace noise.
    rho : float, optional
        Held there, if given.
    ridge : bool
        Whether a ridge is allowed; else 0, which needs `psi` below 1 where rho is above 0.

    Raises
    ------
    UsageError
        If no size is given, or an argument is out of its range.
    """
    if not sizes:
        raise UsageError("sizes", "none", "at least one bag size")
    found = [_best_at(psi, snr, int(size), epsilon, delta, rho, ridge) for size in sizes]
    return min(found, key=lambda one: one.risk)


def _best_at(
    psi: float,
    snr: float,
    size: int,
    epsilon: float | None,
    delta: float,
    rho: float | None,
    ridge: bool,
) -> Optimum:
    """Descend along one coordinate after another: clip, ridge, rho; twice is enough."""
    share = 1 / size
    now = {"rho": 0.3 if rho is None else rho, "ridge": psi / snr if ridge else 0.0}
    clip = math.inf if epsilon is None else math.sqrt(1 + 1 / snr)

    def risk(clip: float, **changed: float) -> float:
        at = now | changed
        noise = 0.0 if epsilon is None else noise_of(clip, epsilon, delta)
        return private_risk(
            moments(psi, share, at["rho"], at["ridge"]), Clipped.at(clip, snr), noise, size
        )

    def along(name: str) -> Callable[[float], float]:
        return lambda power: risk(clip, **{name: math.exp(power)})

    least = math.inf
    for _ in range(8):
        if epsilon is not None:
            power, _least = minimum(lambda p: risk(math.exp(p)), -3.0, 3.0, 17)
            clip = math.exp(power)
        if ridge:
            now["ridge"] = math.exp(minimum(along("ridge"), -12.0, 12.0, 33)[0])
        if rho is None:
            now["rho"] = math.exp(minimum(along("rho"), -12.0, 12.0, 33)[0])
        before, least = least, risk(clip)
        if before - least < 1e-9:
            break
    return Optimum(size, now["rho"], now["ridge"], clip, least)
