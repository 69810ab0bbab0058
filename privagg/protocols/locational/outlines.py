"""Map outlines: the polygon of each region, drawn or computed here, none from the network.

An outline is in the plane, y upwards, in units that only matter relative to one another. For tiles
and grids it says where a region roughly is, not how large it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from privagg._validate import whole
from privagg.errors import UsageError

__all__ = ["STATES", "Outline", "geojson", "grid", "h3_cells", "read_geojson", "us_states"]

Point = tuple[float, float]
Ring = tuple[Point, ...]

_TABLE = """
AK . . . . . . . . . ME
. . . . . . . . . VT NH
WA ID MT ND MN IL WI MI NY RI MA
OR NV WY SD IA IN OH PA NJ CT .
CA UT CO NE MO KY WV VA MD DE .
. AZ NM KS AR TN NC SC DC . .
. . . OK LA MS AL GA . . .
HI . . TX . . . . FL . PR
"""
"""A tile for each state, the District of Columbia and Puerto Rico, north above."""

STATES: Mapping[str, tuple[int, int]] = {
    code: (row, column)
    for row, line in enumerate(_TABLE.split("\n")[1:-1])
    for column, code in enumerate(line.split())
    if code != "."
}
"""Row and column of each state's tile, by postal code; row 0 is the north."""

_EARTH_LIMIT = 85.0


@dataclass(frozen=True)
class Outline:
    """What a region looks like on a map.

    Attributes
    ----------
    region : str
        Its label.
    rings : tuple of rings
        Closed lines of points (x, y), without the first repeated at the end; where they overlap an
        even number of times there is a hole.
    label : str
        What is written on it, if there is room.
    """

    region: str
    rings: tuple[Ring, ...]
    label: str = ""


def us_states(
    kind: Literal["hex", "tile"] = "hex", regions: Sequence[str] | None = None
) -> list[Outline]:
    """Return a tile of equal size for each state, near where it is.

    Parameters
    ----------
    kind : {"hex", "tile"}
        Hexagons, every other row shifted by half a tile, or squares.
    regions : sequence of str, optional
        Postal codes, in the order wanted; upper or lower case. All 52 unless given.

    Raises
    ------
    UsageError
        If a code is none of a state, the District of Columbia or Puerto Rico.
    """
    if kind not in ("hex", "tile"):
        raise UsageError("kind", kind, "'hex' or 'tile'")
    found = []
    for region in STATES if regions is None else regions:
        code = region.upper() if isinstance(region, str) else region
        if code not in STATES:
            allowed = "the postal code of a state, DC or PR"
            raise UsageError("region", region, allowed, "Give outlines as GeoJSON otherwise.")
        row, column = STATES[code]
        if kind == "tile":
            ring = _box(column + 0.03, -row - 0.97, column + 0.97, -row - 0.03)
        else:
            ring = _hexagon(column + 0.5 * (row % 2), -row * math.sqrt(3) / 2, 0.56)
        found.append(Outline(region, (ring,), code))
    return found


def grid(
    rows: int,
    columns: int,
    *,
    south: float = 0.0,
    west: float = 0.0,
    north: float | None = None,
    east: float | None = None,
    regions: Sequence[str] | None = None,
) -> list[Outline]:
    """Return the cells of a grid, row by row from the south.

    Parameters
    ----------
    rows, columns : int
        1 to 4096.
    south, west, north, east : float
        The box, in degrees where it is on the earth: then the map keeps its proportions at the
        middle latitude. Cells are squares unless `north` and `east` are given.
    regions : sequence of str, optional
        The labels; ``"row,column"`` unless given.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    down, across = whole("rows", rows, 1, 4096), whole("columns", columns, 1, 4096)
    top = south + down if north is None else north
    right = west + across if east is None else east
    for name, low, high in (("north", south, top), ("east", west, right)):
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(name, high, f"a number above {low:g}")
    names = [f"{r},{c}" for r in range(down) for c in range(across)] if regions is None else regions
    if len(names) != down * across:
        raise UsageError("regions", f"{len(names)} labels", f"{down * across}, one for each cell")
    middle = (south + top) / 2
    on_earth = north is not None and east is not None and abs(middle) <= _EARTH_LIMIT
    squeeze = math.cos(math.radians(middle)) if on_earth else 1.0
    height, width = (top - south) / down, (right - west) / across * squeeze
    cells = [(r, c) for r in range(down) for c in range(across)]
    return [
        Outline(name, (_box(c * width, r * height, (c + 1) * width, (r + 1) * height),))
        for name, (r, c) in zip(names, cells, strict=True)
    ]


def h3_cells(cells: Sequence[str]) -> list[Outline]:
    """Return the polygons of H3 cells.

    Parameters
    ----------
    cells : sequence of str
        Their addresses, such as ``"872830828ffffff"``.

    Raises
    ------
    UsageError
        If one is none, or the extra ``locational`` is not installed.
    """
    try:
        import h3
    except ImportError:
        hint = "Install it: pip install 'privagg[locational]'"
        raise UsageError("h3", "not installed", "the package h3", hint) from None
    boundaries = []
    for cell in cells:
        if not isinstance(cell, str) or not h3.is_valid_cell(cell):
            raise UsageError("cell", cell, "the address of an H3 cell")
        boundaries.append([(float(lat), float(lon)) for lat, lon in h3.cell_to_boundary(cell)])
    if not boundaries:
        raise UsageError("cells", "none", "at least one")
    # Cells across the 180th meridian stay in one piece.
    first = boundaries[0][0][1]
    shifted = [
        [(lat, lon - 360 * round((lon - first) / 360)) for lat, lon in one] for one in boundaries
    ]
    squeeze = _squeeze([lat for one in shifted for lat, _ in one])
    return [
        Outline(cell, (tuple((lon * squeeze, lat) for lat, lon in one),))
        for cell, one in zip(cells, shifted, strict=True)
    ]


def read_geojson(path: str | Path, key: str | None = None) -> list[Outline]:
    """Return the polygons of a GeoJSON file; see :func:`geojson`.

    Raises
    ------
    UsageError
        Also if the file cannot be read or is no JSON.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError("path", str(path), "a GeoJSON file in UTF-8 that can be read") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("path", str(path), "a file of JSON") from None
    return geojson(found, key)


def geojson(collection: Any, key: str | None = None) -> list[Outline]:
    """Return the polygons of a GeoJSON feature collection.

    Parameters
    ----------
    collection : dict
        A FeatureCollection of Polygons and MultiPolygons in degrees, longitude first.
    key : str, optional
        The property with the region's label; the feature's ``id`` unless given.

    Raises
    ------
    UsageError
        If it is none, a label is missing or twice there, or an angle is out of range.
    """
    features = collection.get("features") if isinstance(collection, dict) else None
    if not isinstance(features, list) or not features:
        raise UsageError("GeoJSON", type(collection).__name__, "a FeatureCollection with features")
    shapes: dict[str, list[list[Point]]] = {}
    for index, feature in enumerate(features):
        where = f"features[{index}]"
        if not isinstance(feature, dict):
            raise UsageError(where, type(feature).__name__, "a feature")
        properties = feature.get("properties")
        named = properties if isinstance(properties, dict) else {}
        label = feature.get("id") if key is None else named.get(key)
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise UsageError(where, label, f"a label in {'id' if key is None else repr(key)}")
        if str(label) in shapes:
            raise UsageError(where, str(label), "each label once")
        shapes[str(label)] = _rings(where, feature.get("geometry"))
    squeeze = _squeeze([y for rings in shapes.values() for ring in rings for _, y in ring])
    return [
        Outline(label, tuple(tuple((x * squeeze, y) for x, y in ring) for ring in rings))
        for label, rings in shapes.items()
    ]


def _rings(where: str, geometry: Any) -> list[list[Point]]:
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind not in ("Polygon", "MultiPolygon"):
        raise UsageError(where, kind, "a Polygon or a MultiPolygon")
    coordinates = geometry.get("coordinates")
    polygons = [coordinates] if kind == "Polygon" else coordinates
    if not isinstance(polygons, list) or not polygons:
        raise UsageError(where, "no coordinates", "polygons")
    found = []
    for polygon in polygons:
        if not isinstance(polygon, list) or not polygon:
            raise UsageError(where, "a polygon without rings", "at least one ring")
        for ring in polygon:
            found.append(_ring(where, ring))
    return found


def _ring(where: str, ring: Any) -> list[Point]:
    if not isinstance(ring, list) or len(ring) < 4:
        raise UsageError(where, "a ring of fewer than 4 points", "a closed ring")
    points = []
    for point in ring:
        good = isinstance(point, list) and len(point) >= 2
        if not good or any(
            isinstance(v, bool) or not isinstance(v, int | float) for v in point[:2]
        ):
            raise UsageError(where, "a point that is no pair of numbers", "[longitude, latitude]")
        x, y = float(point[0]), float(point[1])
        if not (abs(x) <= 180 and abs(y) <= 90):
            hint = "GeoJSON has the longitude first, in degrees."
            raise UsageError(where, f"[{x:g}, {y:g}]", "-180 to 180 and -90 to 90", hint)
        points.append((x, y))
    return points[:-1] if points[0] == points[-1] else points


def _squeeze(latitudes: Sequence[float]) -> float:
    """Return how much shorter a degree of longitude is than one of latitude, at the middle."""
    middle = (min(latitudes) + max(latitudes)) / 2
    return math.cos(math.radians(min(abs(middle), _EARTH_LIMIT)))


def _box(left: float, bottom: float, right: float, top: float) -> Ring:
    return ((left, bottom), (right, bottom), (right, top), (left, top))


def _hexagon(x: float, y: float, radius: float) -> Ring:
    """Return a regular hexagon that stands on a corner."""
    turns = [math.radians(60 * k + 30) for k in range(6)]
    return tuple((x + radius * math.cos(t), y + radius * math.sin(t)) for t in turns)
