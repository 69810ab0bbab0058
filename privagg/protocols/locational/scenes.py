"""The four simulated sets of the unified locational framework, made anew from their description.

Terrain is squared gradient noise on a 12 x 23 grid, scaled from 0 to 1. One-hot scenes: each
respondent has one feature (a sky, a bridge, ...) at one of the cells where it is common, whose
terrain is more than a standard deviation above the mean. Boolean contagion: each marks 1 or 2 such
cells. Integers: an income that follows the terrain of the respondent's cell. Rankings: five
candidates, ordered by their terrain at the respondent's cell.

They are no copies: the framework's own noise and draws are others, and so are its respondents.
Source: Priyanshu, Maurya, Ganesh, Tran, "Unified Locational Differential Privacy Framework", arXiv
2405.03903, 2024; noise after Perlin, "Improving Noise", SIGGRAPH 2002.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.entropy import Entropy, from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws

__all__ = [
    "BOX",
    "CANDIDATES",
    "CELLS",
    "COLUMNS",
    "FEATURES",
    "MOST_INCOME",
    "ROWS",
    "SCENES",
    "USERS",
    "Scene",
    "perlin",
    "scene",
    "terrain",
]

ROWS, COLUMNS = 12, 23
CELLS = ROWS * COLUMNS
USERS = 1000
MOST_INCOME = 60_000
FEATURES = ("sky", "people", "path", "bridge", "sunset")
CANDIDATES = ("A", "B", "C", "D", "E")
BOX = (40.366759, -80.106503, 40.495857, -79.875791)
"""South, west, north and east of the grid, in degrees."""

SCENES = ("one-hot", "boolean", "integer", "ranking")
"""The names of the four sets."""

_OCTAVES = 4
_MOST_MARKED = 2
_COUNT = 10**7


@dataclass(frozen=True, eq=False)
class Scene:
    """One simulated set.

    Attributes
    ----------
    name : str
        One of :data:`SCENES`.
    cells : (n,) or (n, 2) int64 array
        The cell of each respondent, row by row; of "boolean" the marked ones, -1 for no second.
    values : (n,) or (n, 5) int64 array, or None
        "one-hot": a feature; "integer": an income in dollars, from 0 to 60,000; "ranking": the
        candidates from the first to the last. None for "boolean", where a marked cell says it all.
    terrain : (276,) or (f, 276) float64 array
        What the draws followed, from 0 to 1; of "one-hot" and "ranking" a row for each feature or
        candidate.
    seed : int
        What all of it was drawn from.
    """

    name: str
    cells: NDArray[np.int64] = field(repr=False)
    values: NDArray[np.int64] | None = field(repr=False)
    terrain: NDArray[np.float64] = field(repr=False)
    seed: int

    @property
    def users(self) -> int:
        """How many respondents there are."""
        return len(self.cells)

    def counts(self) -> NDArray[np.int64]:
        """Return how many respondents have each cell, (276,): the truth to estimate."""
        marked = self.cells.reshape(-1)
        return np.bincount(marked[marked >= 0], minlength=CELLS).astype(np.int64)


def scene(name: str, users: int = USERS, seed: int = 0, feature: str | None = None) -> Scene:
    """Return one of the four simulated sets.

    Parameters
    ----------
    name : {"one-hot", "boolean", "integer", "ranking"}
        Which.
    users : int
        Number of respondents.
    seed : int
        The same seed gives the same set, everywhere.
    feature : str, optional
        Of "one-hot" only: one of :data:`FEATURES`, which all respondents have then; so is the
        framework's own setting, one count over the cells. All five, evenly, unless given.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    if name not in SCENES:
        raise UsageError("name", name, f"one of {', '.join(SCENES)}")
    if feature is not None and (name != "one-hot" or feature not in FEATURES):
        raise UsageError("feature", feature, f"of one-hot only: {', '.join(FEATURES)}")
    count = whole("users", users, 1, _COUNT)
    number = whole("seed", seed, 0, 2**63 - 1)
    source = from_seed(number).spawn("scenes").spawn(name)
    draws = Draws(source.spawn("respondents"))
    if name == "one-hot":
        return _one_hot(count, source, draws, number, feature)
    if name == "ranking":
        lands = np.stack([terrain(source.spawn(one)) for one in CANDIDATES])
        cells = draws.below([CELLS], count)[:, 0].astype(np.int64)
        order = np.argsort(-lands, axis=0, kind="stable").T.astype(np.int64)
        return Scene(name, cells, order[cells], lands, number)
    land = terrain(source)
    if name == "integer":
        cells = draws.below([CELLS], count)[:, 0].astype(np.int64)
        incomes = np.floor(MOST_INCOME * np.sqrt(land)).astype(np.int64)
        return Scene(name, cells, incomes[cells], land, number)
    return Scene(name, _marked(count, land, draws), None, land, number)


def _one_hot(count: int, source: Entropy, draws: Draws, seed: int, feature: str | None) -> Scene:
    """Each respondent has a feature, at a cell where its terrain is high."""
    lands = np.stack([terrain(source.spawn(one)) for one in FEATURES])
    features = draws.below([len(FEATURES)], count)[:, 0].astype(np.int64)
    if feature is not None:
        features[:] = FEATURES.index(feature)
    cells = np.empty(count, np.int64)
    for number, land in enumerate(lands):
        own = np.flatnonzero(features == number)
        hot = np.flatnonzero(land > land.mean() + land.std())
        cells[own] = hot[draws.below([hot.size], own.size)[:, 0]]
    return Scene("one-hot", cells, features, lands, seed)


def _marked(count: int, land: NDArray[np.float64], draws: Draws) -> NDArray[np.int64]:
    """Each respondent marks 1 or 2 different cells where the terrain is high."""
    hot = np.flatnonzero(land > land.mean() + land.std())
    both = draws.below([_MOST_MARKED, hot.size, hot.size - 1], count).astype(np.int64)
    second = both[:, 2] + (both[:, 2] >= both[:, 1])  # another than the first
    cells = np.stack([hot[both[:, 1]], hot[second]], axis=1)
    cells[both[:, 0] == 0, 1] = -1
    return cells


def terrain(entropy: Entropy, rows: int = ROWS, columns: int = COLUMNS) -> NDArray[np.float64]:
    """Return squared gradient noise at the cells of a grid, scaled from 0 to 1, row by row.

    Parameters
    ----------
    entropy : Entropy
        Of the noise.
    rows, columns : int
        At least 2 each.
    """
    whole("rows", rows, 2, 4096)
    whole("columns", columns, 2, 4096)
    heights = perlin(np.arange(rows) / rows, np.arange(columns) / columns, _OCTAVES, entropy) ** 2
    low, high = heights.min(), heights.max()
    found: NDArray[np.float64] = ((heights - low) / (high - low)).reshape(-1)
    return found


def perlin(y: Any, x: Any, frequency: int, entropy: Entropy) -> NDArray[np.float64]:
    """Return gradient noise at the crossings of a grid.

    A lattice of ``frequency`` cells along each side of the unit square has a unit vector at each
    point, its direction one of 2**32; a point's height is mixed, smoothly, of its offsets from the
    four corners around it, each along that corner's vector. It is 0 at all lattice points.

    Parameters
    ----------
    y, x : (r,) and (c,) float arrays
        From 0 to 1.
    frequency : int
        Lattice cells along a side, 1 to 1024 (the framework calls it octaves).
    entropy : Entropy
        Of the directions.

    Returns
    -------
    (r, c) float64 array
        From about -0.71 to 0.71.

    Raises
    ------
    UsageError
        If a coordinate is out of range.
    """
    side = whole("frequency", frequency, 1, 1024)
    places = []
    for name, values in (("y", y), ("x", x)):
        found = np.asarray(values, np.float64)
        if found.ndim != 1 or not bool(((found >= 0) & (found <= 1)).all()):
            raise UsageError(name, f"shape {found.shape}", "numbers from 0 to 1")
        places.append(found * side)
    turns = Draws(entropy).words32((side + 1) ** 2).reshape(side + 1, side + 1)
    angles = turns * (2 * math.pi / 2**32)
    down, across = np.sin(angles), np.cos(angles)
    corners = [np.minimum(place.astype(np.int64), side - 1) for place in places]
    rest_y, rest_x = (place - corner for place, corner in zip(places, corners, strict=True))
    heights = np.zeros((rest_y.size, rest_x.size))
    for step_y in (0, 1):
        for step_x in (0, 1):
            at = np.ix_(corners[0] + step_y, corners[1] + step_x)
            slope = down[at] * (rest_y - step_y)[:, None] + across[at] * (rest_x - step_x)
            weight_y = _smooth(1 - np.abs(rest_y - step_y))
            weight_x = _smooth(1 - np.abs(rest_x - step_x))
            heights += slope * np.outer(weight_y, weight_x)
    return heights


def _smooth(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 6 t**5 - 15 t**4 + 10 t**3, whose first two derivatives are 0 at 0 and 1."""
    found: NDArray[np.float64] = part**3 * (part * (6 * part - 15) + 10)
    return found
