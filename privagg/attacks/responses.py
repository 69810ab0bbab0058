"""What released bags say about single labels: the exact posterior, and its advantage.

An attacker knows features, and from them for each row the probability that its label is 1. The
count of ones in a bag, exact or with noise, changes that to a posterior, which is computed exactly
(Poisson-binomial). What the release adds is the attacker's advantage: how much better he guesses
with it than from the features alone.

Source of the two advantages: Busa-Fekete, Dick, Gentile, Munoz Medina, Smith, Swanberg, "Auditing
Privacy Mechanisms via Label Inference Attacks", NeurIPS 2024 (arXiv 2406.02797). An advantage of 0
is no proof of privacy for other priors; a guarantee comes from the release's epsilon alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, describe
from privagg.errors import UsageError

__all__ = [
    "Inference",
    "count_distribution",
    "expected_advantage",
    "infer",
    "posterior",
    "response_advantage",
    "response_epsilon",
    "revealed_probability",
]

Reals = NDArray[np.float64]

_MAX_BAG = 5000


@dataclass(frozen=True, eq=False)
class Inference:
    """What an attacker learns from the counts of some bags.

    Attributes
    ----------
    posterior : (n,) array
        P(label = 1 | features, release) of each row.
    prior : (n,) array
        P(label = 1 | features).
    additive : float
        The mean probability of guessing right with the release, less without.
    multiplicative : float
        The largest change of a row's log odds; infinite where a label is certain and was not.
    revealed : float
        The share of bags all of whose labels are certain.
    certain : int
        How many rows have a certain label that the features did not give away.
    """

    posterior: Reals
    prior: Reals
    additive: float
    multiplicative: float
    revealed: float
    certain: int


def count_distribution(priors: Any) -> Reals:
    """Return P(count = s) for s = 0..k of independent labels; (k + 1,), exact but for rounding.

    Parameters
    ----------
    priors : (k,) array of floats
        Probability of label 1, one for each row of a bag.

    Raises
    ------
    UsageError
        If a prior is no probability, or there are more than 5,000.
    """
    table = np.ones(1)
    for p in _priors(priors):
        table = _with(table, p)
    return table


def posterior(priors: Any, likelihood: Any) -> Reals:
    """Return P(label = 1) of each row of a bag, given what was released about its count.

    ``P(y_i = 1 | r) = p_i sum_s P(S_-i = s - 1) L(s) / sum_s P(S = s) L(s)``, where ``S_-i`` is the
    count of the others and L(s) = P(r | S = s): 0 and 1 for an exact count.

    Parameters
    ----------
    priors : (k,) array
        P(label = 1 | features), independent.
    likelihood : (k + 1,) array
        L, up to a factor.

    Returns
    -------
    (k,) float64 array

    Raises
    ------
    UsageError
        If an argument is not as described, or the release is impossible under the priors.
    """
    p = _priors(priors)
    weights = _table("likelihood", likelihood)
    good = weights.shape == (p.size + 1,) and bool((weights >= 0).all()) and bool(weights.any())
    if not good or not np.isfinite(weights).all():
        raise UsageError("likelihood", f"shape {weights.shape}", f"{p.size + 1} weights")
    weights = weights / weights.max()
    # A count's weight is carried backwards over the rows: no division, so nothing is lost.
    after = [weights]
    for one in p[:0:-1]:
        table = after[-1]
        after.append((1 - one) * table[:-1] + one * table[1:])
    before = np.ones(1)
    found = np.empty(p.size)
    for i, one in enumerate(p):
        rest = after[p.size - 1 - i]
        # `rest[s]`: the weight of what was released if the labels up to row i add up to s.
        chosen = one * float(before @ rest[1 : before.size + 1])
        other = (1 - one) * float(before @ rest[: before.size])
        if chosen + other == 0:
            raise UsageError(
                "likelihood", "a release that the priors exclude", "one they allow", "Check them."
            )
        found[i] = chosen / (chosen + other)
        before = _with(before, one)
    return found


def infer(priors: Any, labels: Any, likelihoods: Any) -> Inference:
    """Return what the counts of disjoint bags say about each row.

    Parameters
    ----------
    priors : (n,) array
        P(label = 1 | features) of each row.
    labels : (n,) integer array
        The bag of each row, from 0.
    likelihoods : sequence of (k + 1,) arrays
        For each bag what was released; see :func:`posterior`.

    Raises
    ------
    UsageError
        As for :func:`posterior`.
    """
    prior = _priors(priors, most=None)
    of = as_array("labels", labels)
    if of.shape != prior.shape or of.dtype.kind not in "iu":
        raise UsageError("labels", f"shape {of.shape}", "a bag for each prior")
    if of.min() < 0 or not isinstance(likelihoods, Sequence) or of.max() >= len(likelihoods):
        raise UsageError("likelihoods", describe(likelihoods), "one for each bag")
    found = np.empty(prior.size)
    revealed = 0
    order = np.argsort(of, kind="stable")
    cuts = np.flatnonzero(np.diff(of[order])) + 1
    groups = np.split(order, cuts)
    for rows in groups:
        found[rows] = posterior(prior[rows], likelihoods[int(of[rows[0]])])
        revealed += bool(_certain(found[rows]).all())
    gain = np.maximum(found, 1 - found).mean() - np.maximum(prior, 1 - prior).mean()
    open_before = ~_certain(prior)
    shift = np.abs(_log_odds(found[open_before]) - _log_odds(prior[open_before]))
    return Inference(
        found,
        prior,
        float(gain),
        float(shift.max(initial=0.0)),
        revealed / len(groups),
        int((_certain(found) & open_before).sum()),
    )


def expected_advantage(priors: Any, noise: Any = None) -> float:
    """Return the expected additive advantage from a bag's count, over counts and noise.

    Parameters
    ----------
    priors : (k,) array
    noise : (k + 1, r) array, optional
        P(release = r | count = s); the count itself unless given.

    Raises
    ------
    UsageError
        As for :func:`posterior`.
    """
    p = _priors(priors)
    channel = np.eye(p.size + 1) if noise is None else _table("noise", noise)
    if channel.ndim != 2 or channel.shape[0] != p.size + 1 or not (channel >= 0).all():
        raise UsageError("noise", f"shape {channel.shape}", f"{p.size + 1} rows")
    total = 0.0
    probability = count_distribution(p) @ channel
    for column, chance in zip(channel.T, probability, strict=True):
        if chance > 0:
            seen = posterior(p, column)
            total += float(chance) * float(np.maximum(seen, 1 - seen).mean())
    return total - float(np.maximum(p, 1 - p).mean())


def revealed_probability(priors: Any) -> float:
    """Return the probability that an exact count reveals all labels of a bag: all 0 or all 1.

    Parameters
    ----------
    priors : (k,) array of floats
        Probability of label 1, one for each row of a bag.
    """
    p = _priors(priors)
    return float(np.prod(p) + np.prod(1 - p)) if p.size > 1 else 1.0


def response_advantage(prior: float, epsilon: float) -> float:
    """Return the additive advantage from one label under randomised response.

    With ``t = e^epsilon / (1 + e^epsilon)`` the best guess is right with probability
    ``max(p t, (1 - p)(1 - t)) + max(p (1 - t), (1 - p) t)``.

    Parameters
    ----------
    prior : float
        Probability of label 1, strictly between 0 and 1.
    epsilon : float
        Above 0.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    real = isinstance(epsilon, Real) and not isinstance(epsilon, bool)
    if not real or not epsilon >= 0:
        raise UsageError("epsilon", epsilon, "a number from 0")
    truth = 1 / (1 + math.exp(-epsilon))
    p = float(_priors([prior])[0])
    right = max(p * truth, (1 - p) * (1 - truth)) + max(p * (1 - truth), (1 - p) * truth)
    return right - max(p, 1 - p)


def response_epsilon(prior: float, advantage: float) -> float:
    """Return the epsilon of randomised response with that additive advantage; may be infinite.

    For comparison only: a release of counts with that advantage has no such guarantee.

    Parameters
    ----------
    prior : float
        Probability of label 1, strictly between 0 and 1.
    advantage : float
        From 0 to the most that knowing the label gives.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    for name, value in (("prior", prior), ("advantage", advantage)):
        if isinstance(value, bool) or not isinstance(value, Real) or not value <= 1:
            raise UsageError(name, value, "a number up to 1")
    if advantage <= 0:
        return 0.0
    if advantage >= min(prior, 1 - prior):
        return math.inf
    low, high = 0.0, 1.0
    while response_advantage(prior, high) < advantage:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if response_advantage(prior, middle) < advantage else (low, middle)
        )
    return high


def _with(table: Reals, one: float) -> Reals:
    """Return the distribution of a count with one more label in it."""
    grown = np.empty(table.size + 1)
    grown[:-1] = (1 - one) * table
    grown[-1] = 0.0
    grown[1:] += one * table
    return grown


def _table(name: str, values: Any) -> Reals:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise UsageError(name, "no numbers", "an array of numbers") from None


def _certain(probability: Reals) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (probability == 0) | (probability == 1)
    return found


def _log_odds(probability: Reals) -> Reals:
    with np.errstate(divide="ignore"):
        found: Reals = np.log(probability) - np.log1p(-probability)
    return found


def _priors(priors: Any, most: int | None = _MAX_BAG) -> Reals:
    try:
        p = np.asarray(priors, np.float64)
    except (TypeError, ValueError):
        raise UsageError("priors", "no numbers", "probabilities") from None
    if p.ndim != 1 or not p.size or not ((p >= 0) & (p <= 1)).all():
        raise UsageError("priors", f"shape {p.shape}", "probabilities from 0 to 1")
    if most is not None and p.size > most:
        raise UsageError("priors", f"{p.size} rows in a bag", f"at most {most}")
    return p
