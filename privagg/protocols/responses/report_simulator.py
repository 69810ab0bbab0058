"""Made-up ad displays: categorical features that depend on each other, and clicks.

A display has a hidden class; features are Zipf-distributed, in an order that depends on the class,
with their cardinalities spread evenly on a logarithmic scale. The click's log odds add effects of
single values and of pairs of values. Nothing of it is fitted to any real log.

Source of the setting: the AdKDD'21 challenge of Criteo, 2021; no number is taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole

__all__ = ["Displays", "simulate"]


@dataclass(frozen=True, eq=False)
class Displays:
    """Displays with their labels.

    Attributes
    ----------
    codes : (n, f) int32 array
    labels : (n,) int8 array
    probability : (n,) float64 array
        The true probability of a click.
    cardinalities : tuple of int
    """

    codes: NDArray[np.int32]
    labels: NDArray[np.int8]
    probability: NDArray[np.float64]
    cardinalities: tuple[int, ...]

    def __getitem__(self, rows: Any) -> Displays:
        """Return some of them."""
        return Displays(
            self.codes[rows], self.labels[rows], self.probability[rows], self.cardinalities
        )


def simulate(
    rows: int,
    *,
    features: int = 8,
    smallest: int = 6,
    largest: int = 600,
    seed: int = 0,
) -> Displays:
    """Return made-up displays; about a sixth of them are clicked.

    The generator is a seeded one: nothing here is secret.

    Parameters
    ----------
    rows : int
    features : int
        How many, from 2 to 64.
    smallest, largest : int
        The least and the greatest number of values of a feature.
    seed : int
        The world and the displays in it follow from it.

    Raises
    ------
    UsageError
        If an argument is not allowed.
    """
    n = whole("rows", rows, 1, 10**9)
    f = whole("features", features, 2, 64)
    low = whole("smallest", smallest, 2, 10**6)
    high = whole("largest", largest, low, 10**6)
    generator = np.random.default_rng(whole("seed", seed, 0, 2**63))
    sizes = tuple(np.geomspace(low, high, f).round().astype(int).tolist())
    classes = 6
    hidden = generator.integers(0, classes, n)
    codes = np.empty((n, f), np.int32)
    for column, size in enumerate(sizes):
        weights = 1 / np.arange(1, size + 1) ** 1.1
        rank = np.searchsorted(np.cumsum(weights / weights.sum()), generator.random(n))
        rank = np.minimum(rank, size - 1)
        base = generator.permutation(size)
        orders = np.stack([np.roll(base, generator.integers(0, size)) for _ in range(classes)])
        mixed = np.where(generator.random(n) < 0.5, hidden, 0)
        codes[:, column] = orders[mixed, rank]
    logit = np.full(n, -2.3)
    for column, size in enumerate(sizes):
        logit += generator.normal(0, 0.45, size)[codes[:, column]]
    for a in range(f):
        for b in range(a + 1, f):
            effects = generator.normal(0, 0.18, (sizes[a], sizes[b]))
            logit += effects[codes[:, a], codes[:, b]]
    probability = 1 / (1 + np.exp(-logit))
    labels = (generator.random(n) < probability).astype(np.int8)
    return Displays(codes, labels, probability, sizes)
