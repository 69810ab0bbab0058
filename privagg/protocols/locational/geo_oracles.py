"""Geo-indistinguishable reports of regions: the mechanisms of a survey whose notion is ``geo``.

Epsilon is per metre: two regions at distance d can be told apart by epsilon d at most. It protects
where one is within a wide area, and hardly which of two far regions: see the epsilon over the whole
area, which every result states beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.errors import UsageError
from privagg.mechanisms.geo import MAX_CELLS, great_circle_distances
from privagg.mechanisms.geo_mechanisms import GeoMechanism, PlanarLaplace, RegionExponential
from privagg.protocols.locational.geometry import Grid
from privagg.protocols.locational.regions import Regions

__all__ = ["GEO", "centres", "make_geo"]

GEO = ("planar-laplace", "region-exponential")
"""The mechanisms: planar Laplace for grids, the exponential mechanism for any regions."""

_METRES = 111_195.0
"""Of a degree of latitude, the earth taken as a sphere."""


def make_geo(name: str, domain: Domain, regions: Regions, epsilon: float) -> GeoMechanism:
    """Return a mechanism by its name.

    Parameters
    ----------
    name : str
        One of :data:`GEO`.
    domain : Domain
        A cell for each region.
    regions : Regions
        Of known outlines; for planar Laplace a grid.
    epsilon : float
        Per metre.

    Raises
    ------
    UsageError
        If the mechanism does not fit the regions, or epsilon them.
    """
    if name == "planar-laplace":
        if not isinstance(regions, Grid):
            raise UsageError("mechanism", name, "region-exponential, where regions are no grid")
        south, west, north, east = regions.bounds
        rows, columns = regions.shape
        height = (north - south) / rows * _METRES
        squeeze = math.cos(math.radians((south + north) / 2))
        width = (east - west) / columns * _METRES * squeeze
        if 2 <= rows * columns <= MAX_CELLS:
            shrink = _shrink(regions, height, width)
            height, width = height * shrink, width * shrink
        return PlanarLaplace(domain, rows, columns, height, width, epsilon)
    latitude, longitude = centres(regions)
    return RegionExponential(domain, great_circle_distances(latitude, longitude), epsilon)


def centres(regions: Regions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return latitude and longitude of the middle of each region's box.

    Raises
    ------
    UsageError
        If outlines are not known.
    """
    outlines = regions.outline()
    if outlines is None:
        allowed = "a grid, H3 cells or polygons, with the notion geo"
        raise UsageError("regions", f"a {regions.kind} of names", allowed)
    corners = [np.concatenate(rings) for rings in outlines]
    middle = np.array([(ring.min(axis=0) + ring.max(axis=0)) / 2 for ring in corners])
    # An outline may go beyond the line at 180 degrees.
    return middle[:, 1].copy(), (middle[:, 0] + 180) % 360 - 180


def _shrink(grid: Grid, height: float, width: float) -> float:
    """Return what distances on the lattice are multiplied with, so that none is above the globe's.

    The bound is per metre on the globe. Parallels are shorter towards the poles than in the middle
    of the box, and longer than great circles: a lattice as large as the middle would promise more
    than holds.
    """
    latitude, longitude = centres(grid)
    globe = great_circle_distances(latitude, longitude)
    down, across = np.indices(grid.shape).reshape(2, -1)
    flat = np.hypot((down[:, None] - down) * height, (across[:, None] - across) * width)
    apart = flat > 0
    return min(1.0, float((globe[apart] / flat[apart]).min()) * (1 - 1e-9))
