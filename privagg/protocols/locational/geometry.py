"""Regions that points lie in: grids over a box, H3 cells, polygons of a GeoJSON file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.protocols.locational.regions import (
    MAX_REGIONS,
    Indices,
    MultiPolygon,
    Outline,
    Points,
)

__all__ = ["Box", "Grid", "H3Cells", "Polygons", "check_box"]

Box = tuple[float, float, float, float]
"""South, west, north, east, in degrees."""

_LONGEST_FILE = 2**28
_WIDEST = 90.0
"""Degrees of longitude that H3 covers at once."""


class Grid(Points):
    """Equal cells over a box of latitudes and longitudes.

    Cells are named ``row,column``, rows counted from the south and columns from the west. A point
    on a line between two cells is in the one to the north or east; the box's own northern and
    eastern edges belong to its last cells.

    Parameters
    ----------
    rows, columns : int
        How many, 1 or more.
    box : (south, west, north, east)
        In degrees; it may not cross the line at 180 degrees. Declared, not read off the points.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    kind = "grid"

    def __init__(self, rows: int, columns: int, box: Sequence[float]) -> None:
        self._rows = whole("rows", rows, 1, MAX_REGIONS)
        self._columns = whole("columns", columns, 1, MAX_REGIONS // self._rows)
        self._box = check_box(box)
        super().__init__([f"{row},{column}" for row in range(rows) for column in range(columns)])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._rows, self._columns

    @property
    def bounds(self) -> Box:
        """The box."""
        return self._box

    def _find(self, latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> Indices:
        south, west, north, east = self._box
        inside = (
            (latitude >= south) & (latitude <= north) & (longitude >= west) & (longitude <= east)
        )
        with np.errstate(over="ignore"):
            row = np.floor((latitude - south) / (north - south) * self._rows)
            column = np.floor((longitude - west) / (east - west) * self._columns)
        row = np.clip(row, 0, self._rows - 1)
        column = np.clip(column, 0, self._columns - 1)
        return np.where(inside, row * self._columns + column, -1).astype(np.int64)

    def outline(self) -> list[Outline]:
        """Return each cell's ring; see :meth:`Regions.outline`."""
        south, west, north, east = self._box
        ys = np.linspace(south, north, self._rows + 1)
        xs = np.linspace(west, east, self._columns + 1)
        return [
            [
                np.array(
                    [
                        [xs[c], ys[r]],
                        [xs[c + 1], ys[r]],
                        [xs[c + 1], ys[r + 1]],
                        [xs[c], ys[r + 1]],
                    ]
                )
            ]
            for r in range(self._rows)
            for c in range(self._columns)
        ]

    def describe(self) -> dict[str, Any]:
        """Return kind, rows, columns and box."""
        return {
            "kind": self.kind,
            "rows": self._rows,
            "columns": self._columns,
            "box": list(self._box),
        }


class H3Cells(Points):
    """Cells of H3, a hexagonal grid of the globe; named by their hexadecimal index.

    Needs the extra ``locational``. Cells of one resolution are not exactly nested in those of the
    next coarser: a parent is that of the index, not of the geometry.

    Parameters
    ----------
    cells : sequence of str
        Cells of one resolution.
    parent_resolution : int, optional
        Declares the parents: those of this coarser resolution.

    Raises
    ------
    UsageError
        If a cell is none, they are of several resolutions, or `h3` is not installed.
    """

    kind = "h3"

    def __init__(self, cells: Sequence[str], *, parent_resolution: int | None = None) -> None:
        h3 = _extra("h3")
        if isinstance(cells, str) or not isinstance(cells, Sequence) or not cells:
            raise UsageError("cells", type(cells).__name__, "a list of H3 cells")
        for cell in cells:
            if not isinstance(cell, str) or not h3.is_valid_cell(cell):
                raise UsageError("cells", repr(cell), "hexadecimal indices of H3 cells")
        resolutions = {h3.get_resolution(cell) for cell in cells}
        if len(resolutions) > 1:
            raise UsageError("cells", "cells of several resolutions", "cells of one resolution")
        (self._resolution,) = resolutions
        parents = None
        if parent_resolution is not None:
            coarser = whole("parent_resolution", parent_resolution, 0, self._resolution - 1)
            parents = {cell: h3.cell_to_parent(cell, coarser) for cell in cells}
        super().__init__(cells, parents)
        self._at = {h3.str_to_int(cell): at for at, cell in enumerate(cells)}
        self._h3 = h3
        corners = np.array([corner for cell in cells for corner in h3.cell_to_boundary(cell)])
        (south, west), (north, east) = corners.min(axis=0), corners.max(axis=0)
        self._bounds = float(south), float(west), float(north), float(east)

    @classmethod
    def covering(
        cls, resolution: int, box: Sequence[float], *, parent_resolution: int | None = None
    ) -> H3Cells:
        """Return the cells that touch a box of latitudes and longitudes.

        Parameters
        ----------
        resolution : int
            0 to 15.
        box : (south, west, north, east)
            In degrees.
        parent_resolution : int, optional
            Resolution of the regions that cells are grouped in, coarser than the cells'.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        h3 = _extra("h3")
        south, west, north, east = check_box(box)
        level = whole("resolution", resolution, 0, 15)
        middle = math.cos(math.radians((south + north) / 2))
        area = (north - south) * (east - west) * middle * 111.32**2
        about = area / h3.average_hexagon_area(level, unit="km^2")
        if about > MAX_REGIONS:
            many = f"about {about:.3g} cells"
            raise UsageError("resolution", many, f"up to {MAX_REGIONS}", "Take a coarser one.")
        # A polygon of more than half the globe would be taken for what it leaves out.
        slices = max(1, math.ceil((east - west) / _WIDEST))
        edges = np.linspace(west, east, slices + 1).tolist()
        found: set[str] = set()
        for left, right in itertools.pairwise(edges):
            ring = [(south, left), (south, right), (north, right), (north, left)]
            shape = h3.LatLngPoly(ring)
            found.update(h3.polygon_to_cells_experimental(shape, level, contain="overlap"))
        return cls(sorted(found), parent_resolution=parent_resolution)

    @property
    def resolution(self) -> int:
        """Of the cells, 0 (coarsest) to 15."""
        return int(self._resolution)

    @property
    def bounds(self) -> Box:
        """A box around all cells."""
        return self._bounds

    def _find(self, latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> Indices:
        integers = importlib.import_module("h3.api.basic_int")
        cell, level, at = integers.latlng_to_cell, self._resolution, self._at
        points = zip(latitude.tolist(), longitude.tolist(), strict=True)
        return np.fromiter((at.get(cell(*p, level), -1) for p in points), np.int64, latitude.size)

    def outline(self) -> list[Outline]:
        """Return each cell's ring; see :meth:`Regions.outline`."""
        rings = [np.array(self._h3.cell_to_boundary(cell))[:, ::-1].copy() for cell in self.names]
        for ring in rings:
            if np.ptp(ring[:, 0]) > 180:  # it crosses that line: in one piece, to the east of it
                ring[ring[:, 0] < 0, 0] += 360
        return [[ring] for ring in rings]

    def describe(self) -> dict[str, Any]:
        """Return kind and cells."""
        return {"kind": self.kind, "names": list(self.names)}


class Polygons(Points):
    """Polygons of a GeoJSON file. A point on a common edge is in the first that has it.

    Needs the extra ``locational``. Coordinates are longitude and latitude, as GeoJSON says.

    Parameters
    ----------
    shapes : mapping of str to geometry
        Names, and ``Polygon`` or ``MultiPolygon`` objects of GeoJSON.

    Raises
    ------
    UsageError
        If a geometry is none, invalid, or `shapely` is not installed.
    """

    kind = "polygons"

    def __init__(self, shapes: Mapping[str, Any]) -> None:
        shapely = _extra("shapely")
        geometry = _extra("shapely.geometry")
        if not isinstance(shapes, Mapping) or not shapes:
            raise UsageError("shapes", type(shapes).__name__, "a mapping of names to polygons")
        super().__init__(list(shapes))
        self._shapely = shapely
        self._shapes = []
        for name, found in shapes.items():
            kind = found.get("type") if isinstance(found, Mapping) else None
            if kind not in ("Polygon", "MultiPolygon"):
                raise UsageError(f"shapes[{name!r}]", kind, "a Polygon or a MultiPolygon")
            try:
                with np.errstate(invalid="ignore"):  # a NaN is no valid polygon: refused below
                    made = geometry.shape(found)
            except (ValueError, TypeError, KeyError, AttributeError, shapely.GEOSException):
                raise UsageError(f"shapes[{name!r}]", "unreadable", "a polygon") from None
            if made.is_empty or not made.is_valid:
                hint = "" if made.is_empty else f"{shapely.is_valid_reason(made)}."
                raise UsageError(f"shapes[{name!r}]", "an invalid polygon", "a valid one", hint)
            self._shapes.append(made)
        west, south, east, north = shapely.total_bounds(self._shapes)
        self._bounds = check_box([float(south), float(west), float(north), float(east)])
        self._tree = shapely.STRtree(self._shapes)

    @classmethod
    def read(cls, path: str | PathLike[str], name: str | None = None) -> Polygons:
        """Read a ``FeatureCollection``.

        Parameters
        ----------
        path : path
            A ``.geojson`` or ``.json`` file.
        name : str, optional
            The property that names the regions; unless given ``name``, else the feature's ``id``.

        Raises
        ------
        UsageError
            If the file is none, or a name is missing.
        """
        source = Path(path)
        try:
            if source.stat().st_size > _LONGEST_FILE:
                raise UsageError(source.name, "a longer file", f"up to {_LONGEST_FILE:,} bytes")
            table = json.loads(source.read_text(encoding="utf-8-sig"))
        except OSError as error:
            hint = f"{error.strerror}."
            raise UsageError("polygons", str(path), "a file that can be read", hint) from None
        except (ValueError, RecursionError):
            raise UsageError(source.name, "no JSON", "a file of GeoJSON") from None
        features = table.get("features") if isinstance(table, dict) else None
        if not isinstance(features, list) or not features:
            raise UsageError(source.name, "no features", "a FeatureCollection of GeoJSON")
        shapes: dict[str, Any] = {}
        for number, feature in enumerate(features):
            label = _label(feature, name)
            if label is None or label in shapes:
                found = "no name" if label is None else f"{label!r} twice"
                hint = "Say which property names the regions."
                where = f"{source.name}, feature {number}"
                raise UsageError(where, found, "a distinct name", hint)
            shapes[label] = feature.get("geometry")
        return cls(shapes)

    @property
    def bounds(self) -> Box:
        """A box around all polygons."""
        return self._bounds

    def _find(self, latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> Indices:
        points = self._shapely.points(longitude, latitude)
        at, region = self._tree.query(points, predicate="intersects")
        found = np.full(latitude.size, len(self), np.int64)
        np.minimum.at(found, at, region)
        found[found == len(self)] = -1
        return found

    def outline(self) -> list[Outline]:
        """Return each region's rings, those of holes too; see :meth:`Regions.outline`."""
        return [
            [
                np.array(ring.coords)[:, :2]
                for part in getattr(shape, "geoms", [shape])
                for ring in (part.exterior, *part.interiors)
            ]
            for shape in self._shapes
        ]

    def geometry(self) -> list[MultiPolygon]:
        """Return each region's polygons; see :meth:`Regions.geometry`."""
        return [
            [
                [
                    [list(point[:2]) for point in ring.coords]
                    for ring in (one.exterior, *one.interiors)
                ]
                for one in getattr(shape, "geoms", [shape])
            ]
            for shape in self._shapes
        ]

    def describe(self) -> dict[str, Any]:
        """Return kind, names, and SHA-256 of the polygons."""
        content = b"".join(self._shapely.to_wkb(shape) for shape in self._shapes)
        return {
            "kind": self.kind,
            "names": list(self.names),
            "sha256": hashlib.sha256(content).hexdigest(),
        }


def check_box(box: Any) -> Box:
    """Return a box as floats, if it is south, west, north and east in degrees.

    Raises
    ------
    UsageError
        If it is not; in particular if latitudes and longitudes seem to be exchanged.
    """
    allowed = "south, west, north, east in degrees: south below north, west below east"
    if isinstance(box, str) or not isinstance(box, Sequence) or len(box) != 4:
        raise UsageError("box", box, allowed)
    for number in box:
        if isinstance(number, bool) or not isinstance(number, int | float | np.number):
            raise UsageError("box", box, allowed)
    south, west, north, east = (float(number) for number in box)
    fits = -90 <= south < north <= 90 and -180 <= west < east <= 180
    if not fits:
        exchanged = -90 <= west < east <= 90 and -180 <= south < north <= 180
        hint = "Latitude comes first: exchange them." if exchanged else ""
        raise UsageError("box", f"{south}, {west}, {north}, {east}", allowed, hint)
    return south, west, north, east


def _label(feature: Any, name: str | None) -> str | None:
    if not isinstance(feature, dict):
        return None
    table = feature.get("properties")
    properties = table if isinstance(table, dict) else {}
    found = properties.get(name) if name is not None else properties.get("name", feature.get("id"))
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found)


def _extra(module: str) -> Any:
    """Import a module of the extra ``locational``."""
    if importlib.util.find_spec(module.split(".")[0]) is None:
        raise UsageError(
            module,
            "not installed",
            "the optional packages for regions",
            "Install them: pip install 'privagg[locational]'",
        )
    return importlib.import_module(module)
