"""Pairs of rounds that isolate one client: their sums differ by nothing but its input.

Two rounds isolate client i if their rows are equal but at i. With random 64-bit marks m_j, the row
of round t is hashed to the sum of ``w_tj * m_j``; without the term of i, the hashes of such a pair
are equal. So for each client the hashes without it are sorted, in time rounds * clients *
log(rounds), and what falls together is compared entry by entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.entropy import OS, Entropy

__all__ = ["Pairs", "isolating_pairs"]

_BLOCK = 2**22  # hashes sorted at once


@dataclass(frozen=True)
class Pairs:
    """Pairs of rounds whose difference is one client's input.

    Attributes
    ----------
    count : int
        How many there are, all clients together.
    per_client : (clients,) int array
        How many isolate each client.
    first : (n, 3) int array
        Some of them: earlier round, later round, client; in the order of the later round, and as
        many as were asked for.
    """

    count: int
    per_client: NDArray[np.int64]
    first: NDArray[np.int64]


def isolating_pairs(weights: NDArray[Any], most: int = 1000, entropy: Entropy = OS) -> Pairs:
    """Find the pairs of rounds that isolate one client.

    Parameters
    ----------
    weights : array, shape (rounds, clients)
        int64, float64 or objects.
    most : int
        How many to name; all are counted.
    entropy : Entropy
        Of the marks: hashes only tell what to compare.
    """
    rows, owner, copies = _distinct(weights)
    n = rows.shape[1]
    codes = _codes(rows)
    marks = np.frombuffer(entropy.take(8 * n), "<u8").astype(np.uint64)
    marks |= np.uint64(1)  # no term vanishes but with its weight
    hashes = (codes * marks).sum(axis=1, dtype=np.uint64)
    per_client = np.zeros(n, np.int64)
    members: list[list[int]] = [[] for _ in range(len(rows))]
    for round, row in enumerate(owner):
        members[row].append(round)
    named: list[tuple[int, int, int]] = []
    width = max(1, _BLOCK // max(1, len(rows)))
    for start in range(0, n, width):
        part = slice(start, start + width)
        without = hashes[:, np.newaxis] - codes[:, part] * marks[part]
        ordered = np.sort(without, axis=0)
        for offset in np.flatnonzero((ordered[1:] == ordered[:-1]).any(axis=0)):
            client = start + int(offset)
            for group in _equal(without[:, offset], rows, client):
                sizes = copies[group]
                total = int(sizes.sum())
                per_client[client] += (total * total - int((sizes * sizes).sum())) // 2
                named += _earliest(group, members, client, most)
            if len(named) > 8 * most:
                named = sorted(named, key=_when)[:most]
    named = sorted(named, key=_when)[:most]
    first = np.array(named, np.int64).reshape(-1, 3)
    return Pairs(int(per_client.sum()), per_client, first)


def _when(pair: tuple[int, int, int]) -> tuple[int, int, int]:
    return pair[1], pair[0], pair[2]


def _distinct(weights: NDArray[Any]) -> tuple[NDArray[Any], list[int], NDArray[np.int64]]:
    """Return distinct rows in their order, the row of each round, and how many rounds each has."""
    place: dict[Any, int] = {}
    owner = []
    for row in weights:
        # 0.0 and -0.0 are equal, with unlike bytes.
        key = tuple(row.tolist()) if row.dtype == object else (row + 0).tobytes()
        owner.append(place.setdefault(key, len(place)))
    _, first = np.unique(owner, return_index=True)
    return weights[first], owner, np.bincount(owner).astype(np.int64)


def _codes(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return words that are equal where weights are, 0 for a weight of 0."""
    if rows.dtype == np.int64:
        return rows.astype(np.uint64)
    if rows.dtype == np.float64:
        return (rows + 0.0).view(np.uint64)
    codes = np.array([hash(value) % 2**64 for value in rows.flat], np.uint64)
    return codes.reshape(rows.shape)


def _equal(hashes: NDArray[np.uint64], rows: NDArray[Any], client: int) -> list[NDArray[np.intp]]:
    """Return groups of distinct rows that are equal but at the client."""
    order = np.argsort(hashes, kind="stable")
    bounds = np.flatnonzero(np.diff(hashes[order])) + 1
    groups = []
    for group in np.split(order, bounds):
        while len(group) > 1:
            others = np.delete(rows[group], client, axis=1)
            same = (others == others[0]).all(axis=1)
            if same.sum() > 1:
                groups.append(np.sort(group[same]))
            group = group[~same]  # unequal rows of one hash: next to never
    return groups


def _earliest(
    group: NDArray[np.intp], members: list[list[int]], client: int, most: int
) -> list[tuple[int, int, int]]:
    """Return pairs of rounds from unlike rows of the group, the earliest `most` of them."""
    rounds = sorted((round, int(row)) for row in group for round in members[row])
    pairs: list[tuple[int, int, int]] = []
    for later, (one, row) in enumerate(rounds):
        for other, before in rounds[:later]:
            if len(pairs) >= most:
                return pairs
            if row != before:
                pairs.append((other, one, client))
    return pairs
