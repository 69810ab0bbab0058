"""The worst case: a server that knows everything but whether one example is there.

Images cannot be reconstructed through noise that is far too small to protect anybody. This test is
the other end: the server knows the model, the other examples and the example itself, and only asks
whether it was in the sum. Its best statistic is the **matched filter**: the seen gradient along the
direction of the example's own. What it tells apart proves a **lower** bound of epsilon, for this
pair of inputs; for an example whose clipped gradient has the full norm C no test does better.

The bounds are confidence bounds (Clopper and Pearson) of the error rates of one threshold, which is
chosen on trials that are not counted: ``epsilon >= ln((TPR - delta) / FPR)``, and the same of the
complements. Nothing is assumed of the mechanism. Assuming that its noise is Gaussian, the error
rates give the shift mu itself, and from it a larger epsilon (Nasr et al., "Tight Auditing of
Differentially Private Machine Learning", USENIX Security 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.gradient.bounds import gaussian_epsilon
from privagg.attacks.ldp_binomial import lower_bound, upper_bound
from privagg.errors import UsageError

__all__ = ["WorstCase", "distinguish", "epsilon_bound", "matched_filter"]

_THRESHOLDS = 64


@dataclass(frozen=True)
class WorstCase:
    """What the distinguisher proves.

    Attributes
    ----------
    epsilon : float
        Lower bound at `delta`, nothing assumed; at most about ln(trials / 8).
    epsilon_gaussian : float
        Lower bound at `delta` if the noise is Gaussian.
    shift : float
        Lower bound of the shift mu in standard deviations, if the noise is Gaussian.
    true_positive, false_positive : float
        Rates of the threshold, as counted.
    delta : float
        Of both epsilons.
    trials : int
        Of each of the two inputs that were counted.
    confidence : float
        With which the bounds hold.
    adjacency : str
        How the pair differs.
    """

    epsilon: float
    epsilon_gaussian: float
    shift: float
    true_positive: float
    false_positive: float
    delta: float
    trials: int
    confidence: float
    adjacency: str

    @property
    def ceiling(self) -> float:
        """What `epsilon` would be if the two inputs were told apart in every trial."""
        alpha = (1 - self.confidence) / 2
        low = lower_bound(self.trials, self.trials, alpha)
        return max(
            0.0, math.log(max(1e-300, low - self.delta) / upper_bound(0, self.trials, alpha))
        )


def matched_filter(seen: NDArray[np.floating], direction: NDArray[np.floating]) -> float:
    """Return the seen gradient along a direction, both flat."""
    x, u = np.asarray(seen, np.float64).ravel(), np.asarray(direction, np.float64).ravel()
    if x.shape != u.shape:
        raise UsageError("direction", u.shape, f"as what was seen, {x.shape}")
    norm = float(np.linalg.norm(u))
    if not norm > 0:
        raise UsageError("direction", "zero", "the gradient of the example", "It moves nothing.")
    return float(x @ u) / norm


def distinguish(
    present: Callable[[int], NDArray[Any]],
    absent: Callable[[int], NDArray[Any]],
    direction: NDArray[np.floating],
    *,
    trials: int = 2000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    adjacency: str = "add-remove",
) -> WorstCase:
    """Run the mechanism on both inputs and bound epsilon from below.

    Parameters
    ----------
    present, absent : callables
        From the number of a trial to what the server sees, with fresh noise: with the example in
        the sum, and without it (or with another in its place).
    direction : array
        The example's clipped gradient (less the other's, if it is replaced).
    trials : int
        Runs of each; half of them choose the threshold.
    delta : float
        From 0, below 1.
    confidence : float
        Of each bound.
    adjacency : str
        For the report.
    """
    count = whole("trials", trials, 4, 10**8)
    scores = [
        np.array([matched_filter(run(trial), direction) for trial in range(count)])
        for run in (present, absent)
    ]
    return epsilon_bound(
        scores[0], scores[1], delta=delta, confidence=confidence, adjacency=adjacency
    )


def epsilon_bound(
    present: NDArray[np.float64],
    absent: NDArray[np.float64],
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    adjacency: str = "add-remove",
) -> WorstCase:
    """Bound epsilon from below by scores of two inputs, larger where the example is present.

    Parameters
    ----------
    present, absent : (n,) float arrays
        The scores; the first halves choose the threshold.
    delta, confidence, adjacency
        As for :func:`distinguish`.
    """
    for name, value, high in (("delta", delta, 1), ("confidence", confidence, 1)):
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not 0 <= value < high or (name == "confidence" and value == 0):
            raise UsageError(name, value, "a number from 0, below 1")
    if present.shape != absent.shape or present.ndim != 1 or len(present) < 4:
        raise UsageError("present", present.shape, "as many scores as of absent, at least 4")
    if not (np.isfinite(present).all() and np.isfinite(absent).all()):
        raise UsageError("present", "scores not finite", "finite scores")
    half, alpha = len(present) // 2, (1 - confidence) / 2
    levels = np.unique(np.quantile(np.concatenate([present[:half], absent[:half]]), _grid()))
    chosen = levels[
        int(np.argmax([_ratio(present[:half], absent[:half], t, delta, alpha) for t in levels]))
    ]
    middle = (float(present[:half].mean()) + float(absent[:half].mean())) / 2
    first, second = present[half:], absent[half:]
    move = _move(first, second, middle, alpha)
    gaussian = gaussian_epsilon(move, delta) if move > 0 and delta > 0 else 0.0
    return WorstCase(
        epsilon=max(0.0, _ratio(first, second, float(chosen), delta, alpha)),
        epsilon_gaussian=gaussian,
        shift=max(0.0, move),
        true_positive=float(np.mean(first >= chosen)),
        false_positive=float(np.mean(second >= chosen)),
        delta=float(delta),
        trials=len(first),
        confidence=float(confidence),
        adjacency=adjacency,
    )


def _grid() -> NDArray[np.float64]:
    return np.linspace(0, 1, _THRESHOLDS)


def _ratio(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    level: float,
    delta: float,
    alpha: float,
) -> float:
    """Return the larger of the two logarithms of ratios that the error rates prove."""
    hits, false = int((first >= level).sum()), int((second >= level).sum())
    n, m = len(first), len(second)
    best = -math.inf
    for low, high in (
        (lower_bound(hits, n, alpha), upper_bound(false, m, alpha)),
        (lower_bound(m - false, m, alpha), upper_bound(n - hits, n, alpha)),
    ):
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


def _move(
    first: NDArray[np.float64], second: NDArray[np.float64], level: float, alpha: float
) -> float:
    """Return a lower bound of the distance of two Gaussians of variance 1 by their error rates."""
    normal = NormalDist()
    low = lower_bound(int((first >= level).sum()), len(first), alpha)
    high = upper_bound(int((second >= level).sum()), len(second), alpha)
    if not (0 < low < 1 and 0 < high < 1):
        return 0.0
    return normal.inv_cdf(low) - normal.inv_cdf(high)
