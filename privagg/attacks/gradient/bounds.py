"""What noise guarantees: epsilon, and how often any attack can succeed.

These are upper bounds, for Gaussian noise on a sum of clipped gradients. They come from a proof, so
they hold against every attack; an attack that fails gives none. Adjacency decides the shift that
noise must hide, in standard deviations of the noise:

* ``add-remove``: one example more or less moves the sum by at most C: a shift of 1 / sigma;
* ``replace``: one example for another moves it by at most 2 C: a shift of 2 / sigma.

T steps with shifts m are one step with ``m sqrt(T)`` (Dong, Roth, Su, "Gaussian Differential
Privacy", JRSS-B 2022, corollary 3.3). Sampling is not made use of: the batch is taken to be known.

The formulas are evaluated by :mod:`privagg.accounting` and not by Opacus, whose accountants have no
answer for the small noise that audits sweep through: one raises below sigma 0.1, one at 0.01.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from privagg._validate import whole
from privagg.accounting.gaussian import analytic_epsilon
from privagg.errors import UsageError

__all__ = ["ADJACENCIES", "gaussian_epsilon", "reconstruction_bound", "shift"]

ADJACENCIES = ("add-remove", "replace")

_NORMAL = NormalDist()


def shift(multiplier: float, *, steps: int = 1, adjacency: str = "add-remove") -> float:
    """Return by how many standard deviations one example can move what is seen.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise on the sum, over the clip.
    steps : int
        How many such sums are seen.
    adjacency : {"add-remove", "replace"}
        Whether an example is added, or replaced by another.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if adjacency not in ADJACENCIES:
        raise UsageError("adjacency", adjacency, " or ".join(ADJACENCIES))
    sigma = _number("multiplier", multiplier, 0, math.inf)
    count = whole("steps", steps, 1, 1 << 40)
    return (1.0 if adjacency == "add-remove" else 2.0) * math.sqrt(count) / sigma


def _number(name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
        raise UsageError(name, value, f"a number above {low:g} and below {high:g}")
    return float(value)


def gaussian_epsilon(move: float, delta: float) -> float:
    """Return the least epsilon at `delta`, rounded up.

    As :func:`privagg.accounting.gaussian.analytic_epsilon` has it.

    Parameters
    ----------
    move : float
        From :func:`shift`.
    delta : float
        Strictly between 0 and 1.
    """
    return analytic_epsilon(_number("move", move, 0, math.inf), _number("delta", delta, 0, 1))


def reconstruction_bound(
    prior: float, multiplier: float, *, steps: int = 1, adjacency: str = "add-remove"
) -> float:
    """Return an upper bound of how often any attacker reconstructs an example.

    The attacker knows all other examples and a prior under which a guess without the gradient
    succeeds with probability `prior`, whatever "succeeds" means (an error below some bound). Let P
    be the distribution of what is seen with the example x and Q that of a reference without it, or
    with another: P and Q are Gaussians apart by at most the shift m. Fix what is seen. The output
    of the attack under Q does not depend on x, so it succeeds with probability at most `prior`,
    over x from the prior. An event of probability at most kappa under Q has at most
    ``Phi(Phi^-1(kappa) + m)`` under P (Neyman and Pearson: the best event is a half space), and
    this is concave in kappa, so it holds for the mean over x.

    Source: Hayes, Mahloujifar, Balle, "Bounding Training Data Reconstruction in DP-SGD", NeurIPS
    2023, theorem 2, with the blow-up function of one Gaussian step.

    Parameters
    ----------
    prior : float
        Strictly between 0 and 1.
    multiplier, steps, adjacency
        As for :func:`shift`.
    """
    kappa = _number("prior", prior, 0, 1)
    move = shift(multiplier, steps=steps, adjacency=adjacency)
    return _phi(_NORMAL.inv_cdf(kappa) + move)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
