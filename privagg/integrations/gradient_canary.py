"""A canary in Opacus' DP-SGD step: what the worst-case test runs. Needs the extra ``torch``.

The canary is an example whose gradient, of full clipped norm, is all in one direction that no other
example touches: the most that one example can do, and what a server that crafts inputs could make.
Each run is Opacus' own clipping and noise on its gradient of single examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privagg.attacks.gradient.worst_case import WorstCase, distinguish
from privagg.errors import UsageError

__all__ = ["canary_runs", "worst_case"]

_OTHERS = 7
_WIDTH = 8

Run = Callable[[int], NDArray[np.float32]]


def canary_runs(
    noise: float, clip: float, *, adjacency: str = "add-remove", seed: int = 0
) -> tuple[Run, Run, NDArray[np.float32]]:
    """Return runs with the canary and without it, and its direction.

    Parameters
    ----------
    noise, clip : float
        Noise multiplier on the sum, and bound of the norm: as for Opacus.
    adjacency : {"add-remove", "replace"}
        Without the canary, or with one of the opposite gradient in its place.
    seed : int
        Of the noise.

    Raises
    ------
    UsageError
        If Opacus is not installed.
    """
    rng = np.random.default_rng(seed)
    direction = np.zeros(_WIDTH, np.float32)
    direction[0] = 1.0
    others = rng.normal(size=(_OTHERS, _WIDTH)).astype(np.float32)
    others[:, 0] = 0.0
    present = np.concatenate([others, 100 * clip * direction[None]])
    absent = others
    if adjacency == "replace":
        absent = np.concatenate([others, -100 * clip * direction[None]])
    return (
        _runs(present, noise, clip, 2 * seed + 1),
        _runs(absent, noise, clip, 2 * seed + 2),
        direction,
    )


def _runs(gradients: NDArray[np.float32], noise: float, clip: float, seed: int) -> Run:
    """Return a step of Opacus' optimiser on given gradients of single examples."""
    try:
        from opacus.optimizers.optimizer import DPOptimizer
    except ImportError:
        hint = "Install it: pip install 'privagg[torch]'"
        raise UsageError("opacus", "not installed", "Opacus", hint) from None
    parameter: Any = torch.nn.Parameter(torch.zeros(_WIDTH))
    held = torch.as_tensor(gradients)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parameter.grad_sample = held.clone()
        optimizer = DPOptimizer(
            torch.optim.SGD([parameter], lr=1.0),
            noise_multiplier=float(noise),
            max_grad_norm=float(clip),
            expected_batch_size=1,
            loss_reduction="sum",
            generator=torch.Generator().manual_seed(seed),
        )

    def run(_trial: int) -> NDArray[np.float32]:
        parameter.grad_sample = held.clone()
        parameter.summed_grad = None
        optimizer.clip_and_accumulate()
        optimizer.add_noise()
        seen: NDArray[np.float32] = parameter.grad.detach().numpy().copy()
        return seen

    return run


def worst_case(
    noise: float,
    clip: float,
    *,
    trials: int = 2000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    adjacency: str = "add-remove",
    seed: int = 0,
) -> WorstCase:
    """Bound epsilon of one step from below, by the canary.

    Parameters
    ----------
    noise, clip, adjacency, seed
        As for :func:`canary_runs`; without noise the two are told apart in every trial.
    trials, delta, confidence
        As for :func:`~privagg.attacks.gradient.worst_case.distinguish`.
    """
    present, absent, direction = canary_runs(noise, clip, adjacency=adjacency, seed=seed)
    return distinguish(
        present,
        absent,
        direction,
        trials=trials,
        delta=delta,
        confidence=confidence,
        adjacency=adjacency,
    )
