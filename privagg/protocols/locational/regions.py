"""Declared regions: which there are, and in which one a respondent is.

Regions are declared by whoever asks, never read off respondents: which places occur would be
published with no privacy at all. Locating happens on the respondent's side. What lies in no region
has the index -1 here; a survey gives it a cell of its own (OTHER) or refuses it.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, refuse_masked
from privagg.domain.columns import as_column, positions
from privagg.errors import UsageError

__all__ = [
    "MAX_REGIONS",
    "MISSING",
    "Indices",
    "Merged",
    "MultiPolygon",
    "Points",
    "RegionList",
    "Regions",
    "read_names",
]

MAX_REGIONS = 2**20

MISSING = -2
"""In place of an index: a coordinate is missing."""

Indices = NDArray[np.int64]
Outline = list[NDArray[np.float64]]
MultiPolygon = list[list[list[list[float]]]]

T = TypeVar("T")

_DIGEST_LABEL = b"privagg regions 1\0"
_LONGEST_FILE = 2**26
_MANY = 20


class Regions(ABC):
    """Declared regions, in an order that gives each an index from 0.

    Parameters
    ----------
    names : sequence of str
        Distinct and not blank.
    parents : mapping of str to str, optional
        The region one level up of each name, of all or none: state of a county, say.

    Raises
    ------
    UsageError
        If names or parents are not as described.
    """

    kind: str
    """What they are, in a word."""

    by_points = False
    """Whether :meth:`locate` takes latitudes and longitudes, and not names."""

    def __init__(self, names: Sequence[str], parents: Mapping[str, str] | None = None) -> None:
        self._names = _checked_names(names)
        self._parents = None if parents is None else _checked_parents(self._names, parents)

    @property
    def names(self) -> tuple[str, ...]:
        """The regions' names, in the order of their indices."""
        return self._names

    @property
    def parents(self) -> tuple[str, ...] | None:
        """The parent of each region; None where none are declared."""
        return self._parents

    @property
    def parent_names(self) -> tuple[str, ...]:
        """The distinct parents, in the order in which they first occur."""
        return tuple(dict.fromkeys(self._parents or ()))

    @property
    def parent_indices(self) -> Indices:
        """The index of each region's parent among :attr:`parent_names`; empty without parents."""
        at = {name: index for index, name in enumerate(self.parent_names)}
        return np.array([at[name] for name in self._parents or ()], np.int64)

    @abstractmethod
    def locate(self, *columns: Any) -> Indices:
        """Return the index of each respondent's region as a ``(n,)`` int64 array; -1 for none.

        Parameters
        ----------
        *columns : list, ndarray or column
            The names; or latitudes and longitudes in degrees, where :attr:`by_points` is true.

        Raises
        ------
        UsageError
            If a column is of another type, or latitude and longitude seem to be exchanged.
        """

    def outline(self) -> list[Outline] | None:
        """Return each region's rings as ``(m, 2)`` arrays of longitude and latitude, if known.

        Where rings overlap there is a hole.
        """
        return None

    def geometry(self) -> list[MultiPolygon] | None:
        """Return each region's polygons as coordinates of a GeoJSON MultiPolygon, if known."""
        rings = self.outline()
        if rings is None:
            return None
        return [[[[*ring.tolist(), ring[0].tolist()]] for ring in own] for own in rings]

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what all who use these regions must agree on, as strings, numbers and lists."""

    @property
    def digest(self) -> bytes:
        """32 bytes that all who hold the same regions agree on."""
        found = {**self.describe(), "parents": list(self._parents or ())}
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(_DIGEST_LABEL + text.encode()).digest()

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} regions)"


class RegionList(Regions):
    """Regions by their names.

    Parameters
    ----------
    names : sequence of str
        Distinct and not blank.
    parents : mapping of str to str, optional
        See :class:`Regions`.

    Examples
    --------
    >>> RegionList(["Ohio", "Iowa"]).locate(["Iowa", "Ohio", "Atlantis", None]).tolist()
    [1, 0, -1, -1]
    """

    kind = "list"

    def locate(self, *columns: Any) -> Indices:
        """Return the index of each name; see :meth:`Regions.locate`."""
        if len(columns) != 1:
            raise UsageError("columns", f"{len(columns)} columns", "one, of region names")
        return positions(columns[0], self.names, "string")

    def describe(self) -> dict[str, Any]:
        """Return kind and names."""
        return {"kind": self.kind, "names": list(self.names)}


class Merged(Regions):
    """The parents of declared regions, as regions: each respondent maps its own to its parent.

    Fewer and larger regions have less noise: where a state's mean is of no use, that of a division
    of states may be.

    Parameters
    ----------
    children : Regions
        Regions with parents.

    Raises
    ------
    UsageError
        If they have none.
    """

    kind = "parents"

    def __init__(self, children: Regions) -> None:
        if not isinstance(children, Regions):
            raise UsageError("children", type(children).__name__, "Regions")
        if children.parents is None:
            raise UsageError("children", "regions without parents", "a parent of every region")
        super().__init__(children.parent_names)
        self._children, self._above = children, children.parent_indices
        self.by_points = children.by_points

    @property
    def children(self) -> Regions:
        """The regions that are merged."""
        return self._children

    def locate(self, *columns: Any) -> Indices:
        """Return the index of each respondent's parent; see :meth:`Regions.locate`."""
        own = self._children.locate(*columns)
        return np.where(own >= 0, self._above[np.maximum(own, 0)], own)

    def outline(self) -> list[Outline] | None:
        """Return the rings of each one's children; see :meth:`Regions.outline`."""
        return self._joined(self._children.outline())

    def geometry(self) -> list[MultiPolygon] | None:
        """Return the polygons of each one's children; see :meth:`Regions.geometry`."""
        return self._joined(self._children.geometry())

    def _joined(self, parts: list[list[T]] | None) -> list[list[T]] | None:
        if parts is None:
            return None
        found: list[list[T]] = [[] for _ in self.names]
        for at, own in zip(self._above.tolist(), parts, strict=True):
            found[at] += own
        return found

    def describe(self) -> dict[str, Any]:
        """Return kind, names, and the digest of the regions that are merged."""
        digest = self._children.digest.hex()
        return {"kind": self.kind, "names": list(self.names), "children": digest}


class Points(Regions):
    """Regions that points lie in; what grids, H3 cells and polygons share."""

    by_points = True

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float, float, float]:
        """South, west, north and east of a box around all regions, in degrees."""

    @abstractmethod
    def _find(self, latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> Indices:
        """Return the index of each point's region, -1 for none; the points are on the globe."""

    def locate(self, *columns: Any) -> Indices:
        """Return the index of each point's region; see :meth:`Regions.locate`.

        Where a coordinate is missing it is -2. If most points are off the globe, or outside of the
        box around all regions, but inside it once latitude and longitude are exchanged, they are
        taken to be exchanged, and refused.
        """
        if len(columns) != 2:
            raise UsageError("columns", f"{len(columns)} columns", "latitudes and longitudes")
        latitude, longitude = degrees("latitude", columns[0]), degrees("longitude", columns[1])
        if latitude.size != longitude.size:
            found = f"{longitude.size} longitudes for {latitude.size} latitudes"
            raise UsageError("longitude", found, "as many of both")
        self._refuse_exchanged(latitude, longitude)
        known = (np.abs(latitude) <= 90) & (np.abs(longitude) <= 180)
        missing = np.isnan(latitude) | np.isnan(longitude)
        if not (known | missing).all():
            allowed = "latitudes from -90 to 90, longitudes from -180 to 180, in degrees"
            raise UsageError("latitude", "a point off the globe", allowed)
        at: Indices = np.where(missing, MISSING, -1).astype(np.int64)
        if known.any():
            at[known] = self._find(latitude[known], longitude[known])
        return at

    def _refuse_exchanged(
        self, latitude: NDArray[np.float64], longitude: NDArray[np.float64]
    ) -> None:
        south, west, north, east = self.bounds

        def inside(lat: NDArray[np.float64], lon: NDArray[np.float64]) -> int:
            return int(((lat >= south) & (lat <= north) & (lon >= west) & (lon <= east)).sum())

        # A box that overlaps its own mirror image tells little of a few points.
        overlaps = south <= east and west <= north
        if overlaps and latitude.size < _MANY:
            return
        right, exchanged = inside(latitude, longitude), inside(longitude, latitude)
        if 2 * exchanged > latitude.size and right < exchanged:
            raise UsageError(
                "latitude",
                "points that are in the regions once latitude and longitude are exchanged",
                "latitudes first, then longitudes",
                "Exchange the two columns.",
            )


def degrees(name: str, values: Any) -> NDArray[np.float64]:
    """Return coordinates as floats, missing ones as NaN.

    Raises
    ------
    UsageError
        If they are no numbers, or infinite. The message names none.
    """
    refuse_masked(name, values)
    column = as_column(values)
    if not isinstance(column, list | np.ndarray):
        try:
            column = column.to_numpy(zero_copy_only=False)
        except (ValueError, TypeError):
            raise UsageError(name, "a column of no numbers", "degrees, as numbers") from None
    if isinstance(column, list):
        column = [np.nan if value is None else value for value in column]
        if any(isinstance(value, bool | np.bool_ | str) for value in column):
            raise UsageError(name, "a column of no numbers", "degrees, as numbers")
    found = as_array(name, column)
    if found.size == 0:
        return np.zeros(0)
    if found.dtype.kind not in "iuf" or found.ndim != 1:
        raise UsageError(name, "a column of no numbers", "degrees, as numbers")
    numbers = found.astype(np.float64)
    if np.isinf(numbers).any():
        raise UsageError(name, "an infinite number", "degrees, finite")
    return numbers


def read_names(path: str | PathLike[str]) -> list[str]:
    """Read a declared list: a name a line; blank lines and lines that begin with # are left out.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    UsageError
        If the file cannot be read, or holds no names.
    """
    source = Path(path)
    try:
        with source.open("rb") as file:
            content = file.read(_LONGEST_FILE + 1)
        if len(content) > _LONGEST_FILE:
            raise UsageError(source.name, "a longer file", f"at most {_LONGEST_FILE:,} bytes")
        text = content.decode("utf-8-sig")
    except OSError as error:
        hint = f"{error.strerror}. It is a text file with the name of a region in each line."
        raise UsageError("regions", str(path), "a file that can be read", hint) from None
    except UnicodeDecodeError:
        raise UsageError(source.name, "no text", "a text file in UTF-8") from None
    lines = [line.strip() for line in text.splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    if not names:
        raise UsageError(source.name, "no names", "the name of a region in each line")
    return names


def _checked_names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise UsageError("names", type(names).__name__, "a list of names")
    found = tuple(names)
    if not 1 <= len(found) <= MAX_REGIONS:
        raise UsageError("names", f"{len(found)} regions", f"1 to {MAX_REGIONS}")
    for name in found:
        if not isinstance(name, str) or not name.strip():
            raise UsageError("names", repr(name), "names that are not blank")
    if len(set(found)) < len(found):
        twice = next(name for name, times in Counter(found).items() if times > 1)
        raise UsageError("names", f"{twice!r} twice", "distinct names")
    return found


def _checked_parents(names: tuple[str, ...], parents: Any) -> tuple[str, ...]:
    if not isinstance(parents, Mapping):
        raise UsageError("parents", type(parents).__name__, "a mapping of names to parents")
    for name in names:
        if name not in parents:
            raise UsageError("parents", f"no parent of {name!r}", "a parent of every region")
    known = set(names)
    unknown = next((name for name in parents if name not in known), None)
    if unknown is not None:
        raise UsageError("parents", f"a parent of {unknown!r}", "declared regions only")
    found = tuple(parents[name] for name in names)
    for parent in found:
        if not isinstance(parent, str) or not parent.strip():
            raise UsageError("parents", repr(parent), "names that are not blank")
    return found
