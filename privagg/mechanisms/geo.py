"""Geo-indistinguishability: privacy that fades with distance, exactly, on declared cells.

A report of cell y under cell x satisfies P(y | x) <= e**(epsilon d(x, x')) P(y | x') for **all**
cells x, x' and all reports y, with d the distance between their centres and epsilon per metre. So
near places cannot be told apart and far ones can: within r metres this is local differential
privacy of epsilon r, and over the whole area only of epsilon times its diameter. It is a weaker
promise than local differential privacy, and whoever knows that somebody is in one of two far
places learns which.

Source: Andres, Bordenabe, Chatzikokolakis, Palamidessi, "Geo-Indistinguishability: Differential
Privacy for Location-Based Systems", CCS 2013.

What is drawn is a look-up in a table of integer counts (:class:`privagg.mechanisms.Channel`), never
a float, so that no low digits of coordinates or of noise can leak, and the bound above is proved of
the very counts that are drawn from when the table is built. It is between the cells' centres: a
respondent anywhere in a cell reports as from its centre, and two points of one cell are treated
alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.errors import UsageError
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.exact import check_epsilon

__all__ = [
    "EARTH_RADIUS",
    "Table",
    "bounded",
    "flat_distances",
    "great_circle_distances",
    "metric_channel",
]

EARTH_RADIUS = 6_371_008.8
"""The mean radius of the earth, in metres (IUGG)."""

MAX_CELLS = 1024
"""The most cells: the proof of the bound compares all pairs for every report."""

Table = NDArray[np.float64]

_LOSSES = (0.0, *(2.0**power for power in (-44, -40, -36, -32, -28, -24, -20, -16, -12)))
"""How much of the mean row is mixed in, and which part of epsilon given up, until it is enough."""

_WHOLE = 2.0**64
_SLACK = 2.0**-42
"""More than the rounding of e**x and of products, as a part of them."""


def flat_distances(x: Any, y: Any) -> Table:
    """Return the distances between points of a plane, (k, k) in the unit of the coordinates.

    Parameters
    ----------
    x, y : (k,) float arrays
        Coordinates, in metres.

    Raises
    ------
    UsageError
        If they are not finite, or of different lengths.
    """
    across, up = _coordinates("x", x), _coordinates("y", y)
    if across.shape != up.shape:
        raise UsageError("y", f"{up.size} numbers", f"{across.size}, as many as x")
    found: Table = np.hypot(across[:, None] - across, up[:, None] - up)
    return found


def great_circle_distances(latitude: Any, longitude: Any) -> Table:
    """Return the distances between points of the earth taken as a sphere, (k, k) in metres.

    Parameters
    ----------
    latitude, longitude : (k,) float arrays
        In degrees, -90 to 90 and -180 to 180.

    Raises
    ------
    UsageError
        If they are out of range, or of different lengths.
    """
    north, east = _coordinates("latitude", latitude), _coordinates("longitude", longitude)
    if north.shape != east.shape:
        raise UsageError("longitude", f"{east.size} numbers", f"{north.size}, as many as latitudes")
    for name, angles, most in (("latitude", north, 90), ("longitude", east, 180)):
        if (np.abs(angles) > most).any():
            hint = "Were latitude and longitude swapped?" if most == 90 else ""
            raise UsageError(name, "an angle out of range", f"-{most} to {most} degrees", hint)
    phi, lam = np.radians(north), np.radians(east)
    half = np.sin((phi[:, None] - phi) / 2) ** 2
    half += np.outer(np.cos(phi), np.cos(phi)) * np.sin((lam[:, None] - lam) / 2) ** 2
    found: Table = 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
    return found


def check_distances(distances: Any) -> Table:
    """Return a (k, k) table of distances: symmetric, 0 on the diagonal only.

    Raises
    ------
    UsageError
        If it is none, or there are too many cells.
    """
    found = as_array("distances", distances)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or found.dtype.kind not in "iuf":
        raise UsageError("distances", f"{found.dtype} of shape {found.shape}", "a (k, k) table")
    if not 2 <= len(found) <= MAX_CELLS:
        raise UsageError("distances", f"{len(found)} cells", f"2 to {MAX_CELLS} cells")
    found = found.astype(np.float64)
    off = ~np.eye(len(found), dtype=bool)
    if not np.isfinite(found).all() or (found[off] <= 0).any() or np.diag(found).any():
        allowed = "finite distances in metres, above 0 between different cells"
        raise UsageError("distances", "two cells at one place, or no distance", allowed)
    if not np.allclose(found, found.T, rtol=1e-12, atol=0):
        raise UsageError("distances", "a table that is not symmetric", "d(x, y) = d(y, x)")
    # The smaller of the two, so that the bound holds for either.
    return np.asarray(np.minimum(found, found.T))


def bounded(channel: Channel, epsilon: float, distances: Table) -> bool:
    """Whether P(y | x) <= e**(epsilon d(x, x')) P(y | x') for all x, x' and y.

    Counts are whole numbers, and compared with more slack than rounding takes: True is a proof.

    Parameters
    ----------
    channel : Channel
        Of k values.
    epsilon : float
        Per metre.
    distances : (k, k) float array
        In metres.
    """
    counts = channel.counts.astype(np.float64)
    limits = np.exp(np.minimum(epsilon * distances, 100.0)) * (1 - _SLACK)
    np.fill_diagonal(limits, 1)
    for value in range(channel.inputs):
        if (counts[value] > limits[value][:, None] * counts).any():
            return False
    return True


def metric_channel(rows: Any, epsilon: float, distances: Any) -> Channel:
    """Return the exact channel nearest to a table that satisfies the bound.

    Where rounding to counts would break it, a little of the mean row is mixed into every row, which
    brings all ratios nearer to 1.

    Parameters
    ----------
    rows : callable or (k, m) array
        The table of probabilities; or a function that returns it for an epsilon, which is then
        asked for a little less than `epsilon` where that is needed.
    epsilon : float
        Per metre.
    distances : (k, k) float array
        In metres.

    Raises
    ------
    UsageError
        If an argument is not as described, or the table breaks the bound by more than rounding.
    """
    metric = check_distances(distances)
    stated = check_epsilon(epsilon)
    for loss in _LOSSES:
        table = rows(stated * (1 - loss)) if callable(rows) else as_array("rows", rows)
        table = np.asarray(table, np.float64)
        if table.ndim != 2 or len(table) != len(metric) or table.shape[1] < 2:
            raise UsageError("rows", f"shape {table.shape}", f"({len(metric)}, m) probabilities")
        mixed = (1 - loss) * table + loss * table.mean(axis=0)
        made = _channel(mixed)
        if made is not None and bounded(made, stated, metric):
            return made
    hint = "Check that the distances are a metric, or take larger cells or a larger epsilon."
    raise UsageError("rows", f"ratios above e**({stated:g} d)", "ratios within the bound", hint)


def _channel(table: Table) -> Channel | None:
    """Return counts; what rounding leaves over goes to each row's likeliest report."""
    if not np.isfinite(table).all() or (table <= 0).any():
        return None
    rows = []
    for row in (table / table.sum(axis=1, keepdims=True)).tolist():
        counts = [int(probability * _WHOLE) for probability in row]
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest] += 2**64 - sum(counts)
        if min(counts) < 1:
            return None
        rows.append(counts)
    return Channel(np.array(rows, np.uint64))


def largest_factor(epsilon: float, distances: Table) -> float:
    """Return the largest s for which weights e**(-s epsilon d(x, y)) satisfy the bound.

    With Z(x) the sum of a row's weights, the ratio of two rows is at most
    e**(s epsilon d(x, x')) Z(x') / Z(x), and attained at y = x. So s is large where all rows add up
    to nearly the same, and never below 1/2, for which Z(x') / Z(x) <= e**(epsilon d / 2).
    """

    def holds(factor: float) -> bool:
        sums = np.log(np.exp(-factor * epsilon * distances).sum(axis=1))
        gap = np.abs(sums[:, None] - sums)
        return bool((gap <= (1 - factor) * epsilon * distances).all())

    low, high = 0.5, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _coordinates(name: str, values: Any) -> Table:
    found = as_array(name, values)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iuf":
        raise UsageError(name, f"{found.dtype} array of shape {found.shape}", "(k,) numbers")
    if not np.isfinite(found).all():
        raise UsageError(name, "a number that is not finite", "finite numbers")
    return found.astype(np.float64)


def check_whole_epsilon(epsilon: float, distances: Table) -> float:
    """Return epsilon over the whole area: per metre, times the largest distance, rounded up."""
    found = math.nextafter(epsilon * float(distances.max()), math.inf)
    if found > 1000:
        hint = "Far cells are then told apart anyway: take a smaller area, or a smaller epsilon."
        raise UsageError("epsilon", f"{found:.4g} over the whole area", "up to 1000", hint)
    return found
