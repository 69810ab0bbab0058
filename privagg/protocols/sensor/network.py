"""Who hears whom: nodes in a square, a radio range, and the lists of neighbours.

Neighbours are found cell by cell: the area is cut into cells of one radio range, so that a node's
neighbours lie in its own cell or in one of the eight around it. Time and memory are linear in the
number of links. The base station is the last node, index ``nodes``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg.errors import CapacityError
from privagg.protocols.sensor.params import Deployment

__all__ = ["Network", "build", "neighbours_plain"]

_MOST_LINKS = 2**28  # 2 GiB of neighbours
_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Network:
    """Positions and neighbours.

    Attributes
    ----------
    positions : (nodes + 1, 2) float array
        Metres; the last row is the base station.
    range : float
        Radio range, metres.
    start : (nodes + 2,) int64 array
        The neighbours of node i are ``neighbours[start[i]:start[i + 1]]``.
    neighbours : int64 array
        Ascending for each node; a node is not its own neighbour.
    """

    positions: _Floats
    range: float
    start: _Ints
    neighbours: _Ints

    @property
    def nodes(self) -> int:
        """Sensors, without the base station."""
        return len(self.positions) - 1

    @property
    def base_station(self) -> int:
        """Index of the base station."""
        return len(self.positions) - 1

    @property
    def degree(self) -> _Ints:
        """Number of neighbours of each node and of the base station."""
        return np.diff(self.start)

    @property
    def mean_degree(self) -> float:
        """Mean number of sensors that a sensor hears, the base station not counted."""
        sensors = self.degree[: self.nodes].sum() - self.degree[self.base_station]
        return float(sensors / self.nodes)

    def hears(self, a: _Ints, b: _Ints) -> NDArray[np.bool_]:
        """Say which pairs are within range; arrays of node indices of one shape."""
        gap = self.positions[a] - self.positions[b]
        result: NDArray[np.bool_] = (gap * gap).sum(axis=-1) <= self.range * self.range
        return result

    def of(self, node: int) -> _Ints:
        """Return the neighbours of one node."""
        return self.neighbours[self.start[node] : self.start[node + 1]]

    def around(self, nodes: _Ints) -> tuple[_Ints, _Ints]:
        """Return all links from `nodes`: arrays of senders and of receivers, in order."""
        counts = self.start[nodes + 1] - self.start[nodes]
        senders = np.repeat(nodes, counts)
        first = np.repeat(self.start[nodes] - np.cumsum(counts) + counts, counts)
        return senders, self.neighbours[first + np.arange(counts.sum())]


def build(deployment: Deployment, random: np.random.Generator) -> Network:
    """Place the nodes and find who hears whom.

    Parameters
    ----------
    deployment : Deployment
        Where.
    random : numpy.random.Generator
        Draws the positions, unless the deployment has them. They are no secret.

    Raises
    ------
    CapacityError
        If there are more than 2**28 links.
    """
    sensors = deployment.positions
    if sensors is None:
        sensors = random.random((deployment.nodes, 2)) * deployment.area
    station = deployment.base_station or (deployment.area / 2, deployment.area / 2)
    positions = np.vstack([sensors, np.array([station])])
    find = _neighbours_fast if JIT else neighbours_plain
    start, neighbours = find(positions, deployment.range)
    return Network(positions, deployment.range, start, neighbours)


def neighbours_plain(positions: _Floats, radius: float) -> tuple[_Ints, _Ints]:
    """Compare all pairs: the oracle, and what runs without the compiler."""
    found = []
    for x in positions:
        gap = positions - x
        found.append(np.flatnonzero((gap * gap).sum(axis=1) <= radius * radius))
    found = [near[near != node] for node, near in enumerate(found)]
    start = np.concatenate([[0], np.cumsum([len(near) for near in found])])
    return start.astype(np.int64), np.concatenate(found).astype(np.int64)


def _neighbours_fast(positions: _Floats, radius: float) -> tuple[_Ints, _Ints]:
    low = positions.min(axis=0)
    span = positions.max(axis=0) - low
    # Never more cells than a few for each node, however small the range is.
    side = max(radius, float(np.sqrt(max(span[0] * span[1], 0.0) / (4 * len(positions)))))
    side = max(side, float(span.max()) / 2**20)
    columns = int(span[0] // side) + 1
    rows = int(span[1] // side) + 1
    cell = np.minimum(((positions - low) // side).astype(np.int64), [columns - 1, rows - 1])
    key = cell[:, 1] * columns + cell[:, 0]
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], np.arange(columns * rows + 1))
    if side == radius:
        # Who shares a quarter of a cell is within range: so many links there are at least.
        crowd = np.diff(first).astype(np.float64)
        _few_enough((crowd * (crowd / 4 - 1)).sum())
    counts = np.zeros(len(positions) + 1, np.int64)
    empty = np.zeros(0, np.int64)
    _scan(positions, cell, order, first, columns, rows, radius, counts, empty, False)
    start = np.cumsum(counts)
    _few_enough(start[-1])
    out = np.empty(start[-1], np.int64)
    _scan(positions, cell, order, first, columns, rows, radius, start, out, True)
    return start, out


def _few_enough(links: float) -> None:
    if links > _MOST_LINKS:
        raise CapacityError(
            "range",
            f"{int(links):,} links or more",
            f"at most {_MOST_LINKS:,}",
            "Use a shorter range, a larger area or fewer nodes.",
        )


@kernel
def _scan(
    positions: _Floats,
    cell: _Ints,
    order: _Ints,
    first: _Ints,
    columns: int,
    rows: int,
    radius: float,
    start: _Ints,
    out: _Ints,
    write: bool,
) -> None:
    """Count the neighbours of node i in ``start[i + 1]``, or write them from ``start[i]`` on."""
    for node in range(len(positions)):
        x, y = positions[node, 0], positions[node, 1]
        at = start[node]
        count = 0
        for row in range(max(cell[node, 1] - 1, 0), min(cell[node, 1] + 2, rows)):
            for column in range(max(cell[node, 0] - 1, 0), min(cell[node, 0] + 2, columns)):
                key = row * columns + column
                for k in range(first[key], first[key + 1]):
                    other = order[k]
                    dx, dy = positions[other, 0] - x, positions[other, 1] - y
                    if other != node and dx * dx + dy * dy <= radius * radius:
                        if write:
                            out[at + count] = other
                        count += 1
        if write:
            out[at : at + count].sort()
        else:
            start[node + 1] = count
