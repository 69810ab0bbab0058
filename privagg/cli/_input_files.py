"""The file formats behind :mod:`privagg.cli.inputs`: headers first, numbers when asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.cli._input_npy import Arrays, not_empty
from privagg.cli._reading import fits_memory, reading
from privagg.errors import UsageError

__all__ = ["check_integers", "numbers", "open_safetensors", "read_table"]

_SAFETENSORS = {
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
    **{f"{kind}{8 * size}": f"{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
}
_MISSING = ("", "na", "n/a", "#n/a", "null", "none", "-")
_LONG_INTEGER = r"^\s*([+-]?[0-9]{16,}|0[xX][0-9a-fA-F]{16,})\s*$"
_MOST_DIGITS = 40


def open_safetensors(path: Path) -> Arrays:
    """Open a safetensors file; rows and arrays are read from the map, one at a time.

    Raises
    ------
    UsageError
        If it is no such file, or holds a type that NumPy lacks.
    """
    from safetensors import SafetensorError, safe_open

    not_empty(path)
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, np.dtype[Any]] = {}
    with reading(path.name, "a safetensors file", SafetensorError):
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

    def whole(name: str) -> NDArray[Any]:
        with reading(f"{path.name}, array {name!r}", "an array of numbers", SafetensorError):
            array: NDArray[Any] = file.get_tensor(name)
        return array

    def row(name: str, index: int) -> Any:
        with reading(f"{path.name}, array {name!r}", "an array of numbers", SafetensorError):
            return file.get_slice(name)[index : index + 1][0]

    return Arrays(path.name, shapes, dtypes, whole, row)


def read_table(
    path: Path, header: bool | None = None, row: str = "a row for each client"
) -> dict[str, Any]:
    """Read a table as pyarrow columns by name.

    Parameters
    ----------
    path : Path
        ``.csv`` (UTF-8, separated by commas) or ``.parquet``.
    header : bool, optional
        Whether the first line of a CSV file names the columns; without names they are called
        ``f0``, ``f1``, ... By default it does, unless it could be a row of numbers.
    row : str
        What a row is, for the messages.

    Raises
    ------
    UsageError
        If it is no such table, a line is blank, or nobody said whether a first line of nothing but
        numbers is a row.
    """
    import pyarrow
    from pyarrow import parquet

    not_empty(path)
    with reading(path.name, f"a {path.suffix} table", pyarrow.ArrowException):
        if path.suffix.lower() == ".parquet":
            if header is not None:
                flag = "--header" if header else "--no-header"
                raise UsageError(flag, path.name, "a .csv file: a .parquet file has names")
            size = parquet.read_metadata(path)
            fits_memory(path.name, 8 * size.num_rows * size.num_columns)
            table = parquet.read_table(path, use_threads=False)
        else:
            _no_blank_line(path, row)
            table = _csv(path, header)
            if header is None and _may_be_a_row(table.column_names):
                raise UsageError(
                    f"{path.name}, line 1",
                    ",".join(table.column_names),
                    "names, or the option that says what it is",
                    "--no-header if it is a client's numbers, --header if it names the columns.",
                )
        names = table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(path.name, f"two columns {twice!r}", "columns with distinct names")
    if table.num_rows == 0:
        raise UsageError(path.name, "no rows", row)
    return dict(zip(names, table.columns, strict=True))


def check_integers(path: Path, arrays: Mapping[str, NDArray[Any]], header: bool | None) -> None:
    """Refuse integers in a CSV file that are not what was read: rounded to floats, or wrapped.

    Parameters
    ----------
    path : Path
        The file.
    arrays : mapping of str to array
        What its columns were read as. Only floats may be rounded, and only what is negative may
        have been a hexadecimal number that wrapped around: others are not looked at again.
    header : bool, optional
        As it was read.

    Raises
    ------
    UsageError
        It names the row and the column.
    """
    import pyarrow
    from pyarrow import compute

    names = [n for n, array in arrays.items() if array.dtype.kind == "f" or array.min() < 0]
    if not names or path.suffix.lower() != ".csv":
        return
    with reading(path.name, "a .csv table", pyarrow.ArrowException):
        table = _csv(path, header, dict.fromkeys(names, pyarrow.string()))
        for name in names:
            limit = 2**53 if arrays[name].dtype.kind == "f" else 2**63 - 1
            whole = compute.match_substring_regex(table[name], _LONG_INTEGER)
            for at in compute.indices_nonzero(whole).to_pylist():
                text = table[name][at].as_py().strip()
                # So many digits that Python would not read them are too many as well.
                if len(text) > _MOST_DIGITS or abs(_whole(text)) > limit:
                    raise UsageError(
                        path.name,
                        f"data row {at + 1}, column {name!r}: {text}",
                        "integers below 2**63, and up to 2**53 beside floats",
                        "With a decimal point it is a float, and may be rounded.",
                    )


def _whole(text: str) -> int:
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def _csv(path: Path, header: bool | None, types: dict[str, Any] | None = None) -> Any:
    """Read a CSV file as it is; with `types`, their columns only."""
    import pyarrow
    from pyarrow import csv

    try:
        return csv.read_csv(
            path,
            # One thread: its messages name the row.
            read_options=csv.ReadOptions(
                use_threads=False, autogenerate_column_names=header is False
            ),
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=None if types is None else list(types)
            ),
        )
    except pyarrow.ArrowInvalid as error:
        ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
        if ragged is None:
            raise
        line, expected, got = ragged.groups()
        raise UsageError(
            f"{path.name}, line {line}", f"{got} values", f"{expected}, as in the first line"
        ) from error


def _no_blank_line(path: Path, row: str) -> None:
    """Refuse a blank line: it may be a client whose number is missing, so it is never skipped."""
    quoted = False
    # Every byte is a character of Latin-1; only line ends, blanks and quotes matter here.
    with path.open(encoding="latin-1", newline=None) as file:
        for number, line in enumerate(file, 1):
            if not quoted and not line.strip():
                raise UsageError(
                    f"{path.name}, line {number}",
                    "a blank line",
                    row,
                    "Take it out, or fill it.",
                )
            quoted ^= line.count('"') % 2 == 1


def _may_be_a_row(names: Sequence[str]) -> bool:
    """Whether a first line could be numbers, some of them missing."""
    return all(_is_number(n) or n.strip().lower() in _MISSING for n in names)


def numbers(
    source: str, name: str, column: Any, hint: str = "Name the columns to sum with --column."
) -> NDArray[Any]:
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
    raise UsageError(where, found, "numbers, separated by commas", hint)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
