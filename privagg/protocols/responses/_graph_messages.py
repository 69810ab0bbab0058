"""Messages of belief propagation over labels of 0 and 1: along edges, and from bags' counts.

A message is a log odds. An edge of coupling J has the factor ``exp(-J (x_i - x_j)**2)``, and a bag
with the released count Y has ``exp(-w (sum x - Y)**2)``. A bag is one factor on its count: its
message to a row needs the law of the other rows' count, which is computed exactly (a
Poisson-binomial law, carried forwards and backwards over the rows without a division): O(k^2) time
for a bag of k rows, where a factor for each pair of its rows would take as many messages and be
exact for two rows only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg._jit import kernel

__all__ = ["LIMIT", "bag_messages", "bag_messages_plain", "edge_messages"]

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

LIMIT = 30.0
"""Messages are kept between -LIMIT and LIMIT: 1e-13 from certainty."""

_LEAST = -600.0


def edge_messages(cavity: Reals, coupling: Reals) -> Reals:
    """Return what each directed edge says to its head.

    Parameters
    ----------
    cavity : (e,) array
        The tail's log odds without what the head said to it.
    coupling : (e,) array
        J, not below 0.
    """
    found: Reals = np.logaddexp(-coupling, cavity) - np.logaddexp(0.0, cavity - coupling)
    return found


@kernel
def bag_messages(cavity: Reals, starts: Ints, counts: Reals, weights: Reals, out: Reals) -> None:
    """Write what each bag says to each of its rows.

    Parameters
    ----------
    cavity : (pairs,) array
        For each row in each bag, bags in turn: its log odds without what the bag said to it.
    starts : (m + 1,) int64 array
        Where each bag's rows begin.
    counts, weights : (m,) arrays
        Y and w; a bag of weight 0 says nothing.
    out : (pairs,) array
        Overwritten.
    """
    largest = 0
    for b in range(starts.size - 1):
        largest = max(largest, starts[b + 1] - starts[b])
    after = np.empty((largest + 1, largest + 1))
    before = np.empty(largest + 2)
    chance = np.empty(largest)
    for b in range(starts.size - 1):
        first = starts[b]
        k = starts[b + 1] - first
        if weights[b] == 0.0:
            for i in range(k):
                out[first + i] = 0.0
            continue
        most = -np.inf
        for s in range(k + 1):
            apart = s - counts[b]
            after[k, s] = -weights[b] * apart * apart
            most = max(most, after[k, s])
        for s in range(k + 1):
            after[k, s] = np.exp(max(after[k, s] - most, -600.0))
        for i in range(k):
            chance[i] = 1.0 / (1.0 + np.exp(-cavity[first + i]))
        # after[i, s]: the weight of a count of s among the first i rows.
        for i in range(k - 1, 0, -1):
            p = chance[i]
            most = 0.0
            for s in range(i + 1):
                after[i, s] = (1 - p) * after[i + 1, s] + p * after[i + 1, s + 1]
                most = max(most, after[i, s])
            for s in range(i + 1):
                after[i, s] /= most
        before[0] = 1.0
        for i in range(k):
            one = 0.0
            none = 0.0
            for s in range(i + 1):
                none += before[s] * after[i + 1, s]
                one += before[s] * after[i + 1, s + 1]
            message = np.log(max(one, 1e-300)) - np.log(max(none, 1e-300))
            out[first + i] = min(max(message, -30.0), 30.0)
            p = chance[i]
            before[i + 1] = 0.0
            for s in range(i + 1, 0, -1):
                before[s] = (1 - p) * before[s] + p * before[s - 1]
            before[0] *= 1 - p


def bag_messages_plain(
    cavity: Reals, starts: Ints, counts: Reals, weights: Reals, out: Reals
) -> None:
    """Do what :func:`bag_messages` does, row by row from the others' count."""
    for b, (first, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        if weights[b] == 0:
            out[first:end] = 0
            continue
        log = -weights[b] * (np.arange(end - first + 1) - counts[b]) ** 2
        factor = np.exp(np.maximum(log - log.max(), _LEAST))
        chance = 1 / (1 + np.exp(-cavity[first:end]))
        for i in range(end - first):
            others = np.ones(1)
            for p in np.delete(chance, i):
                others = np.convolve(others, [1 - p, p])
            one, none = float(others @ factor[1:]), float(others @ factor[:-1])
            message = np.log(max(one, 1e-300)) - np.log(max(none, 1e-300))
            out[first + i] = min(max(message, -LIMIT), LIMIT)
