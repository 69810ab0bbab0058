"""Regions, values and respondents of ``privagg simulate locational``: declared, then read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privagg import datasets
from privagg.cli.common import Step
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.domain import Domain
    from privagg.protocols.locational import Chunk, Regions, Value

__all__ = ["Inputs", "Place", "on_levels", "read"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where respondents are, as given on the command line.

    Attributes
    ----------
    region : str
        ``COLUMN``, ``COLUMN:FILE``, ``grid:RxC``, ``h3:RESOLUTION``, ``h3:FILE``,
        ``polygons:FILE`` or ``polygons:FILE:PROPERTY``.
    latitude, longitude : str or None
        Columns, for regions that points lie in.
    bbox : str or None
        South, west, north and east.
    parents : str or None
        A file of children and parents, or ``census-divisions``.
    """

    region: str
    latitude: str | None
    longitude: str | None
    bbox: str | None
    parents: str | None


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a survey is about, and its respondents.

    Attributes
    ----------
    source : str
        Where respondents come from.
    regions : Regions
        The declared regions.
    value : Value
        What is declared of the values.
    chunks : callable
        Returns the respondents, chunk by chunk.
    """

    source: str
    regions: Regions
    value: Value
    chunks: Callable[[], Iterator[Chunk]]


def read(
    source: str,
    place: Place,
    value: str | None,
    items: int,
    step: Step,
    written: tuple[Path | None, ...] = (),
) -> Inputs:
    """Declare regions and values, and open the respondents' file.

    Raises
    ------
    UsageError
        If something is not declared, or there is no such file or column.
    """
    bundled = source in datasets.names()
    table = _bundled(source) if bundled else None
    if not bundled:
        _check_file(source)
    files = [place.parents, *place.region.split(":")[1:], place.region.partition(":")[2]]
    for name in [source, *files]:
        if name and Path(name).is_file():
            _check_written(Path(name), written)
    regions, columns = _regions(source, table, place)
    declared, column = _value(source, table, value)
    names = [*columns, *([column] if column else [])]
    if len(set(names)) < len(names):
        raise UsageError("--value", column, "another column than those of the region")
    if table is not None:
        missing = next((name for name in names if name not in table), None)
        if missing is not None:
            flag = "--value" if missing == column else "--region"
            raise UsageError(flag, missing, f"columns of {source}: {', '.join(table)}")
        held = table

        def whole() -> Iterator[Chunk]:
            yield _chunk({name: held[name] for name in names}, columns, column, items)

        return Inputs(source=source, regions=regions, value=declared, chunks=whole)

    def parts() -> Iterator[Chunk]:
        from privagg.protocols.collection.columns import read_chunks

        kinds, texts = _kinds(regions, columns, declared, column)
        for part in read_chunks(source, kinds, also=texts):
            step("respondents", part.done, part.total)
            yield _chunk(part.columns, columns, column, items)

    return Inputs(source=source, regions=regions, value=declared, chunks=parts)


def on_levels(inputs: Inputs, levels: str, items: int, local: bool) -> Inputs:
    """Return the survey that the regions themselves, or their parents, are asked about.

    Raises
    ------
    UsageError
        If there are no parents, or two levels are wanted of what cannot be.
    """
    from privagg.protocols.locational import Merged

    if inputs.regions.parents is None:
        raise UsageError("--levels", levels, "with --parents only")
    if levels == "parents":
        return replace(inputs, regions=Merged(inputs.regions))
    if inputs.value.groups > 1 or items > 1 or not local:
        allowed = "one item of a respondent, no ranking, the local notion"
        raise UsageError("--levels", levels, allowed, "--levels parents takes these, too.")
    return inputs


def _bundled(name: str) -> dict[str, Any]:
    table = datasets.load(name)
    return {one: table[one].combine_chunks() for one in table.column_names}


def _check_written(read: Path, written: tuple[Path | None, ...]) -> None:
    """Refuse to write over what is read."""
    for other in written:
        if other is not None and other.exists() and os.path.samefile(other, read):
            raise UsageError("--out", str(other), f"another file than {read.name}, which is read")


def _check_file(source: str) -> None:
    path = Path(source)
    if path.suffix.lower() not in (".csv", ".parquet"):
        allowed = f"a .csv or .parquet file, or a bundled table: {', '.join(datasets.names())}"
        raise UsageError("--input", source, allowed)
    if not path.is_file():
        raise UsageError("--input", source, "a file that exists, or the name of a bundled table")


def _regions(
    source: str, table: Mapping[str, Any] | None, place: Place
) -> tuple[Regions, list[str]]:
    """Return the declared regions, and the columns that say where somebody is."""
    from privagg.protocols.locational import Grid, H3Cells, Polygons, RegionList, read_names

    kind, _, rest = place.region.partition(":")
    by_points = kind in ("grid", "h3", "polygons") and bool(rest)
    if by_points:
        for flag, name in (("--latitude", place.latitude), ("--longitude", place.longitude)):
            if name is None:
                raise UsageError(flag, "nothing", f"a column, for {kind}")
        columns = [str(place.latitude), str(place.longitude)]
        if place.parents is not None:
            raise UsageError("--parents", place.parents, "none: for lists of regions")
        if kind == "polygons":
            file, _, prop = rest.partition(":")
            return Polygons.read(file, prop or None), columns
        if kind == "h3" and not (rest.isascii() and rest.isdigit()):
            return H3Cells(read_names(rest)), columns
        box = _box(source, place.bbox)
        if kind == "h3":
            return H3Cells.covering(int(rest), box), columns
        rows, _, wide = rest.partition("x")
        if not (rest.isascii() and rows.isdigit() and wide.isdigit()):
            raise UsageError("--region", place.region, "grid:ROWSxCOLUMNS, such as grid:6x6")
        return Grid(int(rows), int(wide), box), columns
    for flag, value in (
        ("--latitude", place.latitude),
        ("--longitude", place.longitude),
        ("--bbox", place.bbox),
    ):
        if value is not None:
            raise UsageError(flag, value, "none, but with grid:, h3: or polygons:")
    declared = read_names(rest) if rest else _categories(table, kind)
    if declared is None:
        hint = "Declare them: --region COLUMN:FILE, a file with a name in each line."
        raise UsageError("--region", place.region, "declared regions", hint)
    return RegionList(declared, _parents(place.parents, declared)), [kind]


def _box(source: str, text: str | None) -> tuple[float, ...]:
    from privagg.datasets.declared import BOXES

    if text is None:
        if source in BOXES:
            return BOXES[source]
        hint = "It is declared, never read off the points."
        raise UsageError("--bbox", "nothing", "SOUTH,WEST,NORTH,EAST in degrees", hint)
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError("--bbox", text, "SOUTH,WEST,NORTH,EAST in degrees") from None


def _categories(table: Mapping[str, Any] | None, name: str) -> list[str] | None:
    """Return a bundled column's declared categories."""
    column = None if table is None else table.get(name)
    if column is None or not hasattr(column, "dictionary"):
        return None
    found: list[str] = column.dictionary.to_pylist()
    return found


def _parents(text: str | None, names: list[str]) -> dict[str, str] | None:
    if text is None:
        return None
    if text == "census-divisions":
        from privagg.datasets.declared import DIVISIONS

        return {name: DIVISIONS[name] for name in names if name in DIVISIONS}
    import csv

    path = Path(text)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError("--parents", text, "a .csv file of children and parents") from error
    if any(len(row) != 2 for row in rows):
        raise UsageError("--parents", text, "two columns: a region and its parent")
    found: dict[str, str] = {}
    for child, parent in rows:
        if child.strip() in found:
            raise UsageError("--parents", f"{child.strip()!r} twice", "one parent of each region")
        found[child.strip()] = parent.strip()
    return found


def _value(
    source: str, table: Mapping[str, Any] | None, text: str | None
) -> tuple[Value, str | None]:
    from privagg.datasets.declared import RANGES
    from privagg.protocols.locational import Presence, parse_value

    if text is None:
        return Presence(), None
    name, _, kind = text.partition(":")
    if not name or not kind:
        raise UsageError("--value", text, "COLUMN:TYPE, such as income:float[0,5000]")
    declared = _categories(table, name) or RANGES.get((source, name))
    return parse_value(kind, declared), name


def _kinds(
    regions: Regions, columns: list[str], value: Value, column: str | None
) -> tuple[dict[str, Domain], list[str]]:
    """Return how the columns of a CSV file are read: their domains, and those that are text."""
    from privagg.domain import Categorical, Floats, Integers
    from privagg.protocols.locational import Boolean, Category, Number

    kinds: dict[str, Domain] = {}
    texts: list[str] = []
    if regions.by_points:
        kinds |= dict.fromkeys(columns, Floats(-1e6, 1e6))
    else:
        texts += columns
    if column is not None:
        if isinstance(value, Boolean):
            kinds[column] = Categorical([False, True])
        elif isinstance(value, Category):
            kinds[column] = value.domain
        elif isinstance(value, Number):
            kinds[column] = Integers(0, 1) if value.integer else Floats(0, 1)
        else:
            texts.append(column)
    return kinds, texts


def _chunk(table: Mapping[str, Any], columns: list[str], column: str | None, items: int) -> Chunk:
    from privagg.protocols.locational import Chunk

    places = [_plain(table[name]) for name in columns]
    values = None if column is None else _plain(table[column])
    if items == 1:
        return Chunk(places, values)
    return _several(places, values)


def _several(places: list[Any], values: Any) -> Chunk:
    """Return one row for each item: columns of lists, or of texts with ``;`` between items."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from privagg.protocols.locational import Chunk

    def lists(column: Any) -> Any:
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            return column
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return pc.split_pattern(column, ";")
        raise UsageError("--items", f"a column of {column.type}", "lists, or texts with ';'")

    columns = [lists(column) for column in (*places, *([] if values is None else [values]))]
    sizes = [pc.fill_null(pc.list_value_length(column), 0) for column in columns]
    if any(size != sizes[0] for size in sizes[1:]):
        raise UsageError("--items", "lists of different lengths", "as many values as places")
    owners = np.repeat(np.arange(len(sizes[0])), np.asarray(sizes[0]))
    flat = [pc.list_flatten(column) for column in columns]
    flat = [pc.utf8_trim_whitespace(one) if pa.types.is_string(one.type) else one for one in flat]
    rest = None if values is None else flat.pop()
    return Chunk(flat, rest, owners, len(sizes[0]))


def _plain(column: Any) -> Any:
    import pyarrow

    one = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    return one.dictionary_decode() if pyarrow.types.is_dictionary(one.type) else one
