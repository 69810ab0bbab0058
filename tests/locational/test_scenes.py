"""The four simulated sets: as described, the same everywhere, and noise that is noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.protocols.locational.scenes import (
    CELLS,
    FEATURES,
    MOST_INCOME,
    SCENES,
    perlin,
    scene,
    terrain,
)


def test_noise_is_smooth_and_nothing_at_lattice_points():
    knots = np.arange(5) / 4
    assert np.abs(perlin(knots, knots, 4, from_seed(1))).max() < 1e-12
    fine = perlin(np.linspace(0, 1, 801), np.linspace(0, 1, 801), 4, from_seed(1))
    assert 0.3 < fine.max() <= math.sqrt(0.5)
    assert -math.sqrt(0.5) <= fine.min() < -0.3
    # Steps of 1/200 of a lattice cell: no jump anywhere, nor in the slope.
    for axis in (0, 1):
        assert np.abs(np.diff(fine, axis=axis)).max() < 0.015
        assert np.abs(np.diff(fine, 2, axis=axis)).max() < 5e-4


def test_noise_along_a_lattice_line_is_that_of_two_corners():
    # On a lattice line only the two ends' slopes along it count.
    heights = perlin([0.0], np.linspace(0, 1, 11), 1, from_seed(3))[0]
    step = 1e-6
    start, end = perlin([0.0], [step, 1 - step], 1, from_seed(3))[0]
    left, right = start / step, -end / step
    t = np.linspace(0, 1, 11)
    fade = 6 * t**5 - 15 * t**4 + 10 * t**3
    expected = (1 - fade) * left * t + fade * right * (t - 1)
    np.testing.assert_allclose(heights, expected, atol=1e-5)


def test_terrain_is_scaled():
    land = terrain(from_seed(0))
    assert land.shape == (CELLS,)
    assert (land.min(), land.max()) == (0.0, 1.0)
    assert not np.array_equal(land, terrain(from_seed(1)))
    for arguments in ((1, 5), (5, 1)):
        with pytest.raises(UsageError):
            terrain(from_seed(0), *arguments)


@pytest.mark.parametrize("name", SCENES)
def test_sets_are_as_described(name):
    found = scene(name, seed=4)
    assert found.users == 1000
    assert found.counts().shape == (CELLS,)
    again = scene(name, seed=4)
    np.testing.assert_array_equal(found.cells, again.cells)
    assert not np.array_equal(found.cells, scene(name, seed=5).cells)
    if name == "one-hot":
        for feature in range(len(FEATURES)):
            land = found.terrain[feature]
            own = found.cells[found.values == feature]
            assert own.size > 100
            assert (land[own] > land.mean() + land.std()).all()
    elif name == "boolean":
        first, second = found.cells.T
        assert first.min() >= 0
        assert 400 < (second >= 0).sum() < 600
        assert (first != second).all()
        assert found.values is None
        assert found.counts().sum() == 1000 + (second >= 0).sum()
    elif name == "integer":
        expected = (MOST_INCOME * np.sqrt(found.terrain[found.cells])).astype(int)
        np.testing.assert_array_equal(found.values, expected)
        assert 0 <= found.values.min() < found.values.max() <= MOST_INCOME
        assert found.counts().max() < 20
    else:
        assert (np.sort(found.values, axis=1) == np.arange(5)).all()
        heights = found.terrain[found.values.T, found.cells]
        assert (np.diff(heights, axis=0) <= 0).all()


def test_a_hot_cell_is_one_of_some_dozens():
    counts = scene("one-hot", users=20_000, feature="sky").counts()
    assert 25 < (counts > 0).sum() < 70
    assert (scene("one-hot", feature="bridge").values == 3).all()


@pytest.mark.parametrize(
    "arguments",
    [
        ("hot",),
        ("boolean", 0),
        ("boolean", 10, -1),
        ("boolean", 10, 0, "sky"),
        ("one-hot", 10, 0, "sea"),
    ],
)
def test_refused(arguments):
    with pytest.raises(UsageError):
        scene(*arguments)


def test_coordinates_out_of_range():
    for y in ([1.5], [[0.5]], [float("nan")]):
        with pytest.raises(UsageError):
            perlin(y, [0.5], 4, from_seed(0))
