"""Inputs by one division: the bias trick.

A neuron that a single input switches on has ``dL/dW_k = a x`` and ``dL/db_k = a``: the quotient is
the input, exactly. It works for a batch of one, and for every neuron of a batch that only one input
reaches. Two neurons with the same quotient are the evidence, without the truth.

Source: Phong, Aono, Hayashi, Wang, Moriai, "Privacy-Preserving Deep Learning via Additively
Homomorphic Encryption", IEEE TIFS 2018, section 3.
"""

from __future__ import annotations

import time

import numpy as np

from privagg.attacks.gradient.observation import Observation
from privagg.attacks.gradient.recovery import Recovery
from privagg.errors import UsageError

__all__ = ["analytic"]

_SAME = 1e-4
"""Relative distance within which two quotients are one input."""

_USABLE = 1e-6
"""Of the largest bias gradient: below it, a quotient is rounding."""


def analytic(observation: Observation, *, layer: int | str = 0) -> Recovery:
    """Divide rows of the weight gradient by the bias gradient.

    Parameters
    ----------
    observation : Observation
        What the server saw.
    layer : int or str
        Which of its layers.

    Returns
    -------
    Recovery
        For a batch of one: the input. Otherwise inputs that at least two neurons give alike;
        `verified` only if they are as many as the batch is known to have and explain every usable
        neuron. (Neurons that weight all inputs alike agree on their mean.)

    Raises
    ------
    UsageError
        If the layer has no bias gradient, or it is zero.
    """
    began = time.process_time()
    chosen = observation.layer(layer)
    if chosen.bias is None:
        raise UsageError("observation", f"the layer {chosen.name} without bias", "one with a bias")
    bias = chosen.bias.astype(np.float64)
    size = np.abs(bias)
    usable = np.flatnonzero(size > _USABLE * size.max())
    if not usable.size:
        raise UsageError("bias", "zero throughout", "a gradient", "No input reaches the layer.")
    usable = usable[np.argsort(-size[usable])]
    rows = chosen.weight[usable].astype(np.float64) / bias[usable, None]
    if observation.batch == 1:
        # The sum over neurons, weighted by the bias gradient, has the least noise.
        weights = bias[usable] ** 2
        best = weights @ rows / weights.sum()
        spread = np.linalg.norm(rows - best, axis=1) * np.abs(bias[usable])
        scale = np.linalg.norm(best) * np.linalg.norm(bias[usable])
        apart = float(np.linalg.norm(spread)) / max(float(scale), 1e-300)
        several = apart >= _SAME
        doubts = (f"neurons differ by {apart:.1e}: more than one input",) if several else ()
        return Recovery(
            best[None],
            "analytic",
            verified=apart < _SAME and len(usable) > 1,
            cpu_seconds=time.process_time() - began,
            rank=1,
            batch=1,
            diagnosis=doubts,
            details={"neurons": len(usable), "spread": apart},
        )
    groups = _alike(rows)
    kept = [group for group in groups if len(group) > 1]
    inputs = np.stack([rows[group[0]] for group in kept]) if kept else np.zeros((0, rows.shape[1]))
    explained = sum(len(group) for group in kept)
    notes: tuple[str, ...] = ()
    if not kept:
        notes = ("no two neurons give the same quotient: every neuron is hit by several inputs",)
    elif explained < len(usable):
        notes = (f"{len(usable) - explained} of {len(usable)} neurons mix inputs",)
    elif len(kept) != observation.batch:
        notes = (
            f"{len(kept)} different quotients, batch {observation.batch or 'not given'}: some may "
            "be means of several inputs",
        )
    return Recovery(
        inputs,
        "analytic",
        verified=bool(kept) and explained == len(usable) and len(kept) == observation.batch,
        cpu_seconds=time.process_time() - began,
        rank=len(kept),
        batch=observation.batch,
        diagnosis=notes,
        details={"neurons": len(usable), "explained": explained},
    )


def _alike(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[list[int]]:
    """Group rows that differ by rounding; the first of a group is its cleanest."""
    norms = np.linalg.norm(rows, axis=1)
    squares = norms**2
    products = rows @ rows.T
    distances = squares[:, None] + squares[None, :] - 2 * products
    # The product's own rounding is far below the square of what counts as the same.
    near = distances <= (_SAME * np.maximum(norms[:, None], norms[None, :])) ** 2
    groups: list[list[int]] = []
    taken = np.zeros(len(rows), np.bool_)
    for index in range(len(rows)):
        if taken[index]:
            continue
        members = np.flatnonzero(near[index] & ~taken)
        taken[members] = True
        groups.append([index, *(int(m) for m in members if m != index)])
    return groups
