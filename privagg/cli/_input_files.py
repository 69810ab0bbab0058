"""The file formats behind :mod:`privagg.cli.inputs`: headers first, numbers when asked for."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["Arrays", "numbers", "open_npy", "open_npz", "open_safetensors", "read_table"]

_SAFETENSORS = {
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
    **{f"{kind}{8 * size}": f"{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
}


@dataclass(frozen=True)
class Arrays:
    """Named arrays of a file: what they are is known, the numbers are read when asked for.

    Attributes
    ----------
    name : str
        The file's name, for messages.
    shapes, dtypes : dict
        Of each array, in the file's order.
    whole : callable
        Returns an array by its name.
    row : callable
        Returns an array's row by the array's name and an index.
    """

    name: str
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype[Any]]
    whole: Callable[[str], NDArray[Any]]
    row: Callable[[str, int], Any]


def _not_empty(path: Path) -> None:
    if path.stat().st_size == 0:
        raise UsageError(path.name, "an empty file", "a file with an input for each client")


def open_npy(path: Path) -> Arrays:
    """Map a file of one array into memory; its name is the empty string."""
    _not_empty(path)
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:
        raise UsageError(path.name, f"not readable ({error})", "an .npy file of numbers") from error
    return Arrays(
        path.name,
        {"": array.shape},
        {"": array.dtype},
        lambda _: array,
        lambda _, index: array[index],
    )


def open_npz(path: Path) -> Arrays:
    """Open a zip archive of arrays; each is read whole, and kept if it is read by rows."""
    _not_empty(path)
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, np.dtype[Any]] = {}
    try:
        archive = zipfile.ZipFile(path)
        for member in archive.namelist():
            name = member.removesuffix(".npy")
            with archive.open(member) as file:
                major, _ = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_2_0
                if major == 1:
                    read = np.lib.format.read_array_header_1_0
                shapes[name], _, dtypes[name] = read(file)
    except (ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UsageError(path.name, f"not readable ({error})", "an .npz file of numbers") from error

    def whole(name: str) -> NDArray[Any]:
        try:
            with archive.open(f"{name}.npy") as file:
                array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            where = f"{path.name}, array {name!r}"
            raise UsageError(where, f"not readable ({error})", "an array of numbers") from error
        return array

    kept: dict[str, NDArray[Any]] = {}

    def row(name: str, index: int) -> Any:
        if name not in kept:
            kept[name] = whole(name)
        return kept[name][index]

    return Arrays(path.name, shapes, dtypes, whole, row)


def open_safetensors(path: Path) -> Arrays:
    """Open a safetensors file; rows and arrays are read from the map, one at a time."""
    from safetensors import SafetensorError, safe_open

    _not_empty(path)
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, np.dtype[Any]] = {}
    try:
        file: Any = safe_open(str(path), framework="numpy")
        for name in file.keys():  # noqa: SIM118 - the file is no mapping
            part = file.get_slice(name)
            kind = part.get_dtype()
            if kind not in _SAFETENSORS:
                raise UsageError(
                    f"{path.name}, array {name!r}",
                    f"dtype {kind}",
                    ", ".join(_SAFETENSORS),
                    "Convert it, for example to float32.",
                )
            shapes[name] = tuple(part.get_shape())
            dtypes[name] = np.dtype(_SAFETENSORS[kind])
    except SafetensorError as error:
        raise UsageError(path.name, f"not readable ({error})", "a safetensors file") from error

    def row(name: str, index: int) -> Any:
        return file.get_slice(name)[index : index + 1][0]

    return Arrays(path.name, shapes, dtypes, file.get_tensor, row)


def read_table(path: Path) -> dict[str, Any]:
    """Read a table as pyarrow columns by name.

    A CSV file whose first line holds nothing but numbers has no names: its columns are then called
    ``f0``, ``f1``, ...
    """
    import pyarrow
    from pyarrow import csv, parquet

    _not_empty(path)
    try:
        if path.suffix.lower() == ".parquet":
            table = parquet.read_table(path)
        else:
            # One thread: its messages name the row.
            settings = {"use_threads": False}
            table = csv.read_csv(path, read_options=csv.ReadOptions(**settings))
            if all(_is_number(name) for name in table.column_names):
                settings["autogenerate_column_names"] = True
                table = csv.read_csv(path, read_options=csv.ReadOptions(**settings))
    except (pyarrow.ArrowException, OSError) as error:
        text = str(error).strip().splitlines()[0] if str(error).strip() else "unknown"
        ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
        if ragged:
            line, expected, got = ragged.groups()
            raise UsageError(
                f"{path.name}, line {line}", f"{got} values", f"{expected}, as in the first line"
            ) from error
        raise UsageError(path.name, f"not readable ({text})", f"a {path.suffix} table") from error
    names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(path.name, f"two columns {twice!r}", "columns with distinct names")
    if table.num_rows == 0:
        raise UsageError(path.name, "no rows", "a row for each client")
    return dict(zip(names, table.columns, strict=True))


def numbers(source: str, name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array; refuse what is no number and what is missing."""
    import pyarrow

    kind, where = column.type, f"{source}, column {name!r}"
    if column.null_count:
        at = next(i for i, value in enumerate(column) if not value.is_valid)
        raise UsageError(
            where, f"no number in data row {at + 1}", "a number in every row", "Fill it or drop it."
        )
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        array: NDArray[Any] = column.to_numpy()
        return array
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        values = [value.as_py() for value in column]
        at = next((i for i, value in enumerate(values) if not _is_number(value)), 0)
        found = f"text {values[at]!r} in data row {at + 1}"
    else:
        found = f"a column of type {kind}"
    raise UsageError(
        where, found, "numbers, separated by commas", "Name the columns to sum with --column."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
