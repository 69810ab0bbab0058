"""An audit of released bags: what an attacker with features learns of single labels.

Of disjoint bags the posterior of each label is exact. Where bags overlap, in one release or in
several, it is exact for rows that up to :data:`JOINT_ROWS` rows are connected with, by going
through all their labels; for others it is that from the smallest of their bags alone, a floor.
Labels that exact counts determine are found by :mod:`privagg.attacks.responses_ranges`.

Threat model: the attacker knows features, memberships, the mechanism and every released number,
not the noise, and believes labels independent given the features. Labels that depend on each other
may leak more.

Source: the advantage is that of "Auditing Privacy Mechanisms via Label Inference Attacks", NeurIPS
2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.responses import expected_advantage, posterior
from privagg.attacks.responses_ranges import Determined, determine
from privagg.errors import UsageError
from privagg.protocols.responses.result import Released

__all__ = ["Audit", "JOINT_ROWS", "audit", "likelihood", "read_prior"]

Reals = NDArray[np.float64]

JOINT_ROWS = 14
_SAMPLED = 50
"""Bags whose expected advantage is computed."""

_MOST_WORK = 200_000


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found.

    Attributes
    ----------
    rows, bags, releases : int
    prior, posterior : (n,) arrays
        P(label = 1), by the features, and by the release too.
    prior_source : str
        ``given``, or ``released`` for the mean of all that was released.
    additive : float
        How much more often the best guess is right with the release than without: what the
        attacker expects, having seen it.
    expected_additive : float or None
        The same before the release: over the counts and the noise that might have been. Of up to
        50 bags, each by itself; None for large bags of unequal priors.
    multiplicative : float
        The largest change of a row's log odds; infinite where a label is certain.
    certain : int
        Labels that are certain, and were not by the features.
    revealed : float
        The share of bags all of whose labels are certain.
    exact_rows : int
        Rows whose posterior is exact; of the others it is a floor.
    determined : Determined or None
        From the exact releases together; None if there is none.
    response_epsilon : float
        Epsilon of randomised response with the same additive advantage: for comparison only.
    epsilon : float or None
        The sum over releases; None where one has no guarantee.
    delta : float
    insecure : bool
        Whether a seed made some noise: whoever knows it takes the noise off.
    """

    rows: int
    bags: int
    releases: int
    prior: Reals
    posterior: Reals
    prior_source: str
    additive: float
    expected_additive: float | None
    multiplicative: float
    certain: int
    revealed: float
    exact_rows: int
    determined: Determined | None
    response_epsilon: float
    epsilon: float | None
    delta: float
    insecure: bool


def audit(
    releases: Sequence[Released],
    prior: Any = None,
    *,
    examine: int = 200,
    seconds: float = 5.0,
) -> Audit:
    """Attack one release, or several of the same rows.

    Parameters
    ----------
    releases : sequence of Released
        Of labels 0 and 1 (``classes=2``).
    prior : float or (n,) array, optional
        P(label = 1 | features); the mean of what was released unless given.
    examine, seconds
        As for :func:`~privagg.attacks.responses_ranges.determine`.

    Raises
    ------
    UsageError
        If releases are of other responses, or of different rows, or contradict each other.
    """
    if not releases or not all(isinstance(one, Released) for one in releases):
        raise UsageError("releases", "none, or something else", "at least one Released")
    rows = releases[0].bags.rows
    for one in releases:
        if one.classes != 2:
            raise UsageError(
                "releases", f"{one.classes or 'no'} classes", "labels 0 and 1: Release(classes=2)"
            )
        if one.bags.rows != rows:
            raise UsageError("releases", f"{rows} and {one.bags.rows} rows", "the same rows")
    believed = _prior(releases, prior)
    members = [bag for one in releases for bag in one.bags.members()]
    tables = [table for one in releases for table in _likelihoods(one)]
    exact = [(one.bags, _counts(one)) for one in releases if one.noise_variance == 0]
    determined = determine(exact, examine=examine, seconds=seconds) if exact else None
    start = believed
    if determined is not None:
        start = np.where(determined.labels >= 0, determined.labels, believed)
        if ((start != believed) & ((believed == 0) | (believed == 1))).any():
            raise UsageError("prior", "one that excludes the release", "one that allows it")
    found, sure = _posteriors(start, members, tables)
    certain = (found == 0) | (found == 1)
    open_ = (believed > 0) & (believed < 1)
    gain = np.maximum(found, 1 - found).mean() - np.maximum(believed, 1 - believed).mean()
    with np.errstate(divide="ignore"):
        shift = np.abs(_odds(found[open_]) - _odds(believed[open_]))
    guaranteed = all(one.epsilon is not None and not one.insecure for one in releases)
    return Audit(
        rows=rows,
        bags=len(members),
        releases=len(releases),
        prior=believed,
        posterior=found,
        prior_source="released" if prior is None else "given",
        additive=max(0.0, float(gain)),
        expected_additive=_expected(releases, believed),
        multiplicative=float(shift.max(initial=0.0)),
        certain=int((certain & open_).sum()),
        revealed=sum(bool(certain[bag].all()) for bag in members) / len(members),
        exact_rows=int(sure.sum()),
        determined=determined,
        response_epsilon=_response_epsilon(believed, float(gain)),
        epsilon=sum(one.epsilon or 0.0 for one in releases) if guaranteed else None,
        delta=sum(one.delta for one in releases) if guaranteed else 0.0,
        insecure=any(one.insecure for one in releases),
    )


def read_prior(path: str | Path, rows: int) -> Reals | None:
    """Return the priors in a file of ``Released.write``, or None if it has none.

    Parameters
    ----------
    path : str or path
        The file.
    rows : int
        How many there must be.

    Raises
    ------
    UsageError
        If they are no probabilities, or a row has two.
    """
    import pyarrow.parquet as pq

    if "prior" not in pq.read_schema(path).names:
        return None
    table = pq.read_table(path, columns=["row", "prior"])
    row, values = (np.asarray(table.column(name).to_numpy()) for name in ("row", "prior"))
    good = values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1)).all())
    if not row.size or row.min() < 0 or row.max() >= rows:
        raise UsageError("path", f"{path}: other rows", f"the {rows} rows of the first file")
    found = np.full(rows, -1.0)
    if good:
        found[row] = values
    if not good or (found[row] != values).any():
        raise UsageError("path", f"{path}: priors", "one probability for each row")
    return found


def likelihood(size: int, count: float, variance: float, law: str) -> Reals:
    """Return P(released | s ones) up to a factor, for s = 0 to `size`.

    Parameters
    ----------
    size : int
    count : float
        What was released, as a count.
    variance : float
        Of the noise; 0 for an exact count.
    law : {"laplace", "gaussian"}
        Discrete Laplace, or anything that is as good as Gaussian.
    """
    ones = np.arange(size + 1)
    if variance == 0:
        exact: Reals = (ones == round(count)).astype(np.float64)
        return exact
    apart: Reals = np.abs(ones - count)
    # The variance of discrete Laplace noise of decay s is 1 / (cosh s - 1).
    decay = math.acosh(1 + 1 / variance)
    loss = decay * apart if law == "laplace" else apart**2 / (2 * variance)
    found: Reals = np.exp(loss.min() - loss)
    return found


def _counts(one: Released) -> NDArray[np.int64]:
    return np.rint(one.means * one.bags.sizes).astype(np.int64)


def _likelihoods(one: Released) -> list[Reals]:
    law = "laplace" if one.mechanism == "laplace" else "gaussian"
    counts = np.rint(one.means * one.bags.sizes)
    if one.noise_variance == 0 and ((counts < 0) | (counts > one.bags.sizes)).any():
        raise UsageError("releases", "a count beyond the bag", "0 to the bag's size")
    if (
        one.mechanism != "secure-aggregation"
        and (np.abs(one.means * one.bags.sizes - counts) > 1e-6 * (1 + np.abs(counts))).any()
    ):
        raise UsageError("releases", "no whole counts", "counts of labels, and whole noise")
    sizes = one.bags.sizes.tolist()
    return [
        likelihood(size, count, one.noise_variance, law)
        for size, count in zip(sizes, counts.tolist(), strict=True)
    ]


def _prior(releases: Sequence[Released], prior: Any) -> Reals:
    rows = releases[0].bags.rows
    if prior is None:
        one = releases[0]
        held = float(one.bags.sizes.sum())
        total = min(max(float((one.means * one.bags.sizes).sum()), 0.0), held)
        return np.full(rows, (total + 1) / (held + 2))
    try:
        found = np.asarray(prior, np.float64)
    except (TypeError, ValueError):
        raise UsageError("prior", "no numbers", "probabilities") from None
    if found.ndim == 0:
        found = np.full(rows, float(found))
    if found.shape != (rows,) or not ((found >= 0) & (found <= 1)).all():
        raise UsageError("prior", f"shape {found.shape}", f"{rows} probabilities, or one for all")
    return found


def _posteriors(
    prior: Reals, members: list[NDArray[np.int64]], tables: list[Reals]
) -> tuple[Reals, NDArray[np.bool_]]:
    """Return the posteriors, and which are exact."""
    found, sure = prior.copy(), np.zeros(prior.size, bool)
    held = np.bincount(np.concatenate(members), minlength=prior.size)
    done = np.zeros(prior.size, bool)
    # The smallest bag first: which one tells most must not be chosen by what it told.
    for b in sorted(range(len(members)), key=lambda b: members[b].size):
        bag = members[b]
        fresh = ~done[bag]
        if fresh.any():
            found[bag[fresh]] = _posterior(prior[bag], tables[b])[fresh]
            sure[bag] |= (held[bag] == 1).all()
            done[bag] = True
    for rows, bags in _small_groups(prior.size, members, held):
        found[rows] = _joint(prior[rows], rows, [(members[b], tables[b]) for b in bags])
        sure[rows] = True
    return found, sure


def _small_groups(
    rows: int, members: list[NDArray[np.int64]], held: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], list[int]]]:
    """Return connected rows that are in overlapping bags, where they are few, and their bags."""
    if held.max() == 1:
        return []
    label = np.arange(rows)
    changed = True
    while changed:
        changed = False
        for bag in members:
            least = label[bag].min()
            if (label[bag] != least).any():
                label[bag] = least
                changed = True
    of: dict[int, list[int]] = {}
    for b, bag in enumerate(members):
        of.setdefault(int(label[bag[0]]), []).append(b)
    found = []
    order = np.argsort(label, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
        bags = of[int(label[group[0]])]
        if len(bags) > 1 and group.size <= JOINT_ROWS:
            found.append((group, bags))
    return found


def _joint(
    prior: Reals, rows: NDArray[np.int64], bags: list[tuple[NDArray[np.int64], Reals]]
) -> Reals:
    """Return the posteriors of connected rows, over all of their labels."""
    n = rows.size
    labels = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    weights = np.where(labels == 1, prior, 1 - prior).prod(axis=1)
    for bag, table in bags:
        weights = weights * table[labels[:, np.isin(rows, bag)].sum(axis=1)]
    total = weights.sum()
    if total == 0:
        raise UsageError("prior", "one that excludes the release", "one that allows it")
    found: Reals = (weights @ labels) / total
    # Sums in another order may miss 1 by a rounding.
    none = (weights[:, None] * (labels == 0)).sum(axis=0) == 0
    return np.where(none, 1.0, found)


def _posterior(prior: Reals, table: Reals) -> Reals:
    """Return the posteriors of a bag; of equal priors they are equal, and quick to find."""
    if not 0 < prior[0] < 1 or (prior != prior[0]).any():
        return posterior(prior, table)
    k = prior.size
    with np.errstate(divide="ignore"):
        log = _log_binomial(k, float(prior[0])) + np.log(table)
    weights = np.exp(log - log.max())
    return np.full(k, float(weights @ np.arange(k + 1)) / (k * float(weights.sum())))


@lru_cache(maxsize=64)
def _log_binomial(k: int, p: float) -> Reals:
    """Return the logarithms of P(s of k), s = 0 to k; 0 < p < 1."""
    ones = np.arange(k + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, k + 1)))])
    chosen = factorials[k] - factorials - factorials[::-1]
    found: Reals = chosen + ones * math.log(p) + (k - ones) * math.log1p(-p)
    return found


def _expected(releases: Sequence[Released], prior: Reals) -> float | None:
    """Return the expected advantage of bags, each by itself; None where it would take long."""
    gain = weight = 0.0
    for one in releases:
        members = one.bags.members()
        some = members[:: max(1, len(members) // _SAMPLED)][:_SAMPLED]
        equal = all((prior[bag] == prior[bag[0]]).all() for bag in some)
        if not equal:
            widest = max(bag.size for bag in some)
            work = widest * (widest + 40 * math.sqrt(one.noise_variance))
            if work > _MOST_WORK:
                return None
            some = some[: max(1, int(_MOST_WORK / (4 * work)))]
        known: dict[tuple[float, ...], float] = {}
        for bag in some:
            key = (bag.size, prior[bag[0]]) if equal else tuple(prior[bag].tolist())
            if key not in known:
                channel = _channel(bag.size, one)
                make = _equal_advantage if equal else expected_advantage
                known[key] = make(prior[bag], channel)
            gain += known[key] * bag.size
            weight += bag.size
    return gain / weight


def _equal_advantage(prior: Reals, channel: Reals | None) -> float:
    """Return the expected advantage of a bag of equal priors."""
    k, p = prior.size, float(prior[0])
    if not 0 < p < 1:
        return 0.0
    chance = np.exp(_log_binomial(k, p))
    ones = np.arange(k + 1) / k
    if channel is None:
        right = float(chance @ np.maximum(ones, 1 - ones))
    else:
        yes, no = (chance * ones) @ channel, (chance * (1 - ones)) @ channel
        right = float(np.maximum(yes, no).sum())
    return max(0.0, right - max(p, 1 - p))


def _channel(size: int, one: Released) -> Reals | None:
    """Return P(released | count); None if exact."""
    if one.noise_variance == 0:
        return None
    law = "laplace" if one.mechanism == "laplace" else "gaussian"
    # What is cut off has a probability below 1e-12.
    reach = math.ceil((20 if law == "laplace" else 8) * math.sqrt(one.noise_variance)) + 1
    noise = likelihood(2 * reach, reach, one.noise_variance, law)
    noise /= noise.sum()
    channel = np.zeros((size + 1, size + 2 * reach + 1))
    for ones in range(size + 1):
        channel[ones, ones : ones + 2 * reach + 1] = noise
    return channel


def _response_epsilon(prior: Reals, gain: float) -> float:
    """Return epsilon of randomised response with that mean advantage over these priors."""
    values, counts = np.unique(prior, return_counts=True)
    share = counts / counts.sum()

    def advantage(epsilon: float) -> float:
        truth = 1 / (1 + math.exp(-epsilon))
        right = np.maximum(values * truth, (1 - values) * (1 - truth))
        right = right + np.maximum(values * (1 - truth), (1 - values) * truth)
        return float(share @ (right - np.maximum(values, 1 - values)))

    if gain <= 0:
        return 0.0
    if gain >= float(share @ np.minimum(values, 1 - values)) * (1 - 1e-12):
        return math.inf
    low, high = 0.0, 1.0
    while advantage(high) < gain and high < 700:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if advantage(middle) < gain else (low, middle)
    return high


def _odds(probability: Reals) -> Reals:
    found: Reals = np.log(probability) - np.log1p(-probability)
    return found
