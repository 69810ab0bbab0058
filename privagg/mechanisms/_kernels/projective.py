"""Points of a projective space over a prime field: numbering, hyperplanes, decoding.

A point is a vector up to a factor, written with 1 as its first coordinate that is not 0. Points are
numbered by how many coordinates follow that 1, and then by these coordinates as digits: 0 is
(0, ..., 0, 1), the next f are (0, ..., 0, 1, x), and so on. Whole arrays of points are worked on at
once, coordinate by coordinate.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Space", "decode_all", "decode_each", "points_off", "points_on"]

Numbers = NDArray[np.int64]

_CHUNK = 1 << 18
_SMALL = 1 << 16
"""Points of hyperplanes that are kept from one decoding to the next: at most so many."""


class Space:
    """The projective space over `field` elements with the fewest dimensions that has k points."""

    def __init__(self, field: int, k: int) -> None:
        self.field = field
        self.dimension = 2
        while self.size(self.dimension) < k:
            self.dimension += 1
        self.points = self.size(self.dimension)
        self.plane = self.size(self.dimension - 1)
        self.meet = self.size(self.dimension - 2)
        self.inverses = np.array([0] + [pow(x, -1, field) for x in range(1, field)], np.int64)

    def size(self, dimension: int) -> int:
        """Return how many points a space of so many coordinates has."""
        return int((self.field**dimension - 1) // (self.field - 1))


def vectors(field: int, dimension: int, numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the coordinates of points, ``(dimension, n)``, and where their first 1 stands."""
    sizes = np.array([(field**m - 1) // (field - 1) for m in range(dimension + 1)], np.int64)
    free = np.searchsorted(sizes, numbers, side="right") - 1
    rest = numbers - sizes[free]
    found = np.zeros((dimension, numbers.size), np.int64)
    for m in range(dimension):
        digit = rest // field**m % field
        found[dimension - 1 - m] = np.where(m < free, digit, np.equal(free, m).astype(np.int64))
    return found, dimension - 1 - free


def numbers_of(space: Space, coordinates: Numbers) -> NDArray[np.uint32]:
    """Return the numbers of points given by any of their vectors, ``(dimension, n)``."""
    count = coordinates.shape[1]
    scale = np.zeros(count, np.int64)
    number = np.zeros(count, np.int64)
    offset = np.zeros(count, np.int64)
    for at in range(space.dimension):
        row = coordinates[at]
        first = (scale == 0) & (row != 0)
        # After the first one the digits begin; its place says how many points are numbered before.
        scaled = scale * row % space.field
        number = np.where(scale != 0, number * space.field + scaled, number)
        scale = np.where(first, space.inverses[row], scale)
        before = space.size(space.dimension - 1 - at)
        offset += np.where(first, before, 0)
    return (number + offset).astype(np.uint32)


def _solved(space: Space, values: Numbers, others: Numbers, product: int) -> NDArray[np.uint32]:
    """Return points whose product with each value is `product`, the other coordinates given.

    `others` is ``(dimension - 1, n)``: all coordinates but the one at the value's first 1.
    """
    own, pivot = vectors(space.field, space.dimension, values)
    full = np.zeros((space.dimension, values.size), np.int64)
    total = np.zeros(values.size, np.int64)
    for at in range(space.dimension):
        # Coordinates before the pivot keep their place, those after it move up by one.
        moved = others[
            np.clip(np.where(at > pivot, at - 1, at), 0, space.dimension - 2),
            np.arange(values.size),
        ]
        full[at] = np.where(at == pivot, 0, moved)
        total += full[at] * own[at]
    full[pivot, np.arange(values.size)] = (product - total) % space.field
    return numbers_of(space, full)


def points_on(space: Space, values: Numbers, picks: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the point numbered by `picks`, below ``plane``, of each value's hyperplane."""
    others, _ = vectors(space.field, space.dimension - 1, picks.astype(np.int64))
    return _solved(space, values, others, 0)


def points_off(space: Space, values: Numbers, picks: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the point numbered by `picks`, below ``points - plane``, off each hyperplane.

    Each point off it has exactly one vector whose product with the value is 1.
    """
    wide = picks.astype(np.int64)
    digits = [wide // space.field**m % space.field for m in range(space.dimension - 1)]
    return _solved(space, values, np.array(digits), 1)


def decode_each(space: Space, counts: Numbers, k: int) -> Numbers:
    """Return for each of the first k points the sum of the counts on its hyperplane."""
    if k * space.plane <= _SMALL:
        few: Numbers = counts[_planes(space.field, space.dimension, k)].sum(axis=1)
        return few
    found = np.empty(k, np.int64)
    picks = np.arange(space.plane, dtype=np.uint32)
    step = max(1, _CHUNK // space.plane)
    for start in range(0, k, step):
        values = np.arange(start, min(start + step, k))
        each = np.repeat(values, space.plane)
        at = points_on(space, each, np.tile(picks, values.size))
        found[start : start + step] = counts[at].reshape(values.size, -1).sum(axis=1)
    return found


@lru_cache(maxsize=8)
def _planes(field: int, dimension: int, k: int) -> NDArray[np.uint32]:
    """Return the points of the hyperplane of each of the first k points, ``(k, plane)``."""
    space = Space(field, (field**dimension - 1) // (field - 1))
    values = np.repeat(np.arange(k), space.plane)
    picks = np.tile(np.arange(space.plane, dtype=np.uint32), k)
    return points_on(space, values, picks).reshape(k, space.plane)


def decode_all(space: Space, counts: Numbers, k: int) -> Numbers:
    """Return the same by the dynamic program of the paper: one coordinate after the other.

    The table holds, for each vector whose first coordinates are a value's and whose last are a
    report's, and for each c, the count of reports whose product over the first coordinates is c.
    """
    field, dimension = space.field, space.dimension
    places = field ** np.arange(dimension - 1, -1, -1)
    all_points, _ = vectors(field, dimension, np.arange(space.points))
    table = np.zeros((field**dimension, field), np.int64)
    table[places @ all_points, 0] = counts
    for at in range(dimension):
        before = table.reshape(field**at, field, field ** (dimension - 1 - at), field)
        after = np.zeros_like(before)
        for own in range(field):
            for other in range(field):
                after[:, own] += np.roll(before[:, other], own * other % field, axis=-1)
        table = after
    flat = table.reshape(-1, field)
    found: Numbers = flat[places @ all_points[:, :k], 0]
    return found
