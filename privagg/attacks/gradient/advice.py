"""What would change a verdict: how much noise, how many clients, and what that guarantees.

Noise hides a component if its size in the sum is below ``s (h d)^(1/4)``, with s the noise's
standard deviation in an entry: below it the leading singular vectors of signal and noise together
do not point at the signal (Benaych-Georges, Nadakuditi, "The singular values and vectors of low
rank perturbations of large rectangular random matrices", J. Multivariate Analysis 2012). A mean of
clipped gradients has no component above the clip, so a noise multiplier of
``B / (sqrt K (h d)^(1/4))`` on the sum of each of K clients hides all of B examples, whatever they
are. That hides them from separation; only epsilon hides them from everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privagg.attacks.gradient.audit_result import GradientAudit
from privagg.attacks.gradient.bounds import gaussian_epsilon, reconstruction_bound, shift
from privagg.attacks.gradient.verdicts import Verdict
from privagg.errors import UsageError

__all__ = ["TARGETS", "Advice", "advise", "hiding_multiplier", "multiplier_for"]

TARGETS = (8.0, 1.0)
"""Epsilons of one release that are advised: hardly a guarantee, and a good one."""


@dataclass(frozen=True)
class Advice:
    """One change and what follows from it.

    Attributes
    ----------
    change : str
        What to do.
    effect : str
        What then holds, and what does not.
    noise : float, optional
        Noise multiplier, if the change is one.
    clients : int, optional
        Cohort, if the change is one.
    """

    change: str
    effect: str
    noise: float | None = None
    clients: int | None = None


def hiding_multiplier(shape: tuple[int, int], batch: int, clients: int = 1) -> float:
    """Return the noise multiplier that leaves no component of a layer visible.

    Parameters
    ----------
    shape : (h, d)
        Of the layer.
    batch : int
        Examples in the sum, over all clients.
    clients : int
        Each adds noise of its own to its sum.
    """
    h, d = shape
    return batch / (math.sqrt(clients) * math.pow(h * d, 0.25))


def multiplier_for(epsilon: float, delta: float, *, steps: int = 1) -> float:
    """Return the least noise multiplier with which an added example costs at most `epsilon`.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        Strictly between 0 and 1.
    steps : int
        Releases.

    Raises
    ------
    UsageError
        If no multiplier below 1e9 is enough.
    """
    low, high = 1e-6, 1e9

    def cost(multiplier: float) -> float:
        return gaussian_epsilon(shift(multiplier, steps=steps), delta)

    if not epsilon > 0 or cost(high) > epsilon:
        raise UsageError("epsilon", epsilon, "an epsilon that some noise has")
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) > epsilon else (low, middle)
    return high


def advise(found: GradientAudit, delta: float = 1e-5) -> tuple[Advice, ...]:
    """Return what to do next, the most urgent first.

    Parameters
    ----------
    found : GradientAudit
        The audit.
    delta : float
        Of every epsilon.
    """
    seen = found.seen
    said = [
        Advice(
            f"do not train on this model: look at layer {one.layer}",
            f"{one.kind} weights copy single inputs into the gradient: {one.reason}",
        )
        for one in found.suspicions
    ]
    steps = 1 if seen.noise is None else seen.noise.steps
    held = found.epsilon(delta)
    least = math.inf if held is None else held
    if any(one.visible_rank for one in found.layers):
        need = _up(
            max(hiding_multiplier(one.shape, seen.batch, seen.clients) for one in found.layers)
        )
        least = gaussian_epsilon(shift(need, steps=steps), delta)
        said.append(
            Advice(
                f"noise of {need:.3g} x clip on each client's sum (DP-SGD)",
                "no linear layer's gradient has a visible component, whatever the inputs (for "
                f"these, less may do); epsilon is then {least:.3g}",
                noise=need,
            )
        )
    for target in TARGETS:
        if least <= target:
            continue
        need = _up(multiplier_for(target, delta, steps=steps))
        bound = reconstruction_bound(0.01, need, steps=steps)
        said.append(
            Advice(
                f"noise of {need:.3g} x clip on each client's sum",
                f"epsilon {target:g} at delta {delta:g} for one release: a guess that succeeds "
                f"in 1 % of cases succeeds in at most {bound:.0%} with what is seen",
                noise=need,
            )
        )
    said += _cohort(found)
    if seen.clients > 1 and seen.single:
        said.append(
            Advice(
                "secure aggregation of the clients' gradients",
                "the server no longer learns whose example one is; what it reads stays the same",
            )
        )
    return tuple(said)


def _cohort(found: GradientAudit) -> list[Advice]:
    """Return how many clients it takes until inputs outnumber the outputs of every open layer."""
    seen = found.seen
    open_layers = [
        one
        for one in found.layers
        if one.verdict in (Verdict.EXACT, Verdict.RECONSTRUCTABLE) and one.batch <= one.shape[0]
    ]
    if not open_layers:
        return []
    most = max(open_layers, key=lambda one: one.shape[0] / one.batch)
    need = math.floor(most.shape[0] / most.batch * seen.clients) + 1
    return [
        Advice(
            f"{need:,} clients in the sum instead of {seen.clients:,}, with batches as they are",
            f"more inputs than the {most.shape[0]:,} outputs of layer {most.name}: most can no "
            "longer be separated, but sums and mixtures stay visible and nothing is guaranteed",
            clients=need,
        )
    ]


def _up(value: float) -> float:
    """Round up to three digits: what is advised is enough."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / unit - 1e-9) * unit
