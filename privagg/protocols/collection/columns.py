"""Respondents' values from Parquet and CSV files, a chunk at a time: files larger than memory.

Only the columns that are asked for are read. In a CSV file the first line names the columns, and
each is read as its domain's kind: "NA" is a string like any other where strings are declared, and
missing where numbers are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from privagg.domain import Categorical, Domain, Integers
from privagg.errors import UsageError

__all__ = ["Chunk", "read_chunks"]

_BLOCK = 1 << 20
_LONGEST_HEAD = 1 << 24
_TYPES = {"string": pa.string(), "boolean": pa.bool_(), "integer": pa.int64()}


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
        Each column's values.
    done, total : int
        How much of the file was read, in rows of Parquet and bytes of CSV, and of how much.
    """

    columns: dict[str, Any]
    done: int
    total: int

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def read_chunks(
    path: str | PathLike[str],
    attributes: Mapping[str, Domain],
    *,
    rows: int = 1 << 16,
    also: Sequence[str] = (),
) -> Iterator[Chunk]:
    """Read columns chunk by chunk.

    Parameters
    ----------
    path : path
        A ``.parquet`` or ``.csv`` file.
    attributes : mapping of str to Domain
        The columns to read, and what is declared of each.
    rows : int
        Rows of a chunk at most.
    also : sequence of str
        More columns: of a CSV file as strings.

    Raises
    ------
    UsageError
        Naming the file, if it is no such file, has no rows, or lacks a column. The message tells
        no value.
    """
    source = Path(path)
    wanted = [*attributes, *also]
    if len(set(wanted)) < len(wanted):
        raise UsageError("also", ", ".join(also), "columns beside the attributes'")
    if source.suffix.lower() not in (".parquet", ".csv"):
        raise UsageError(source.name, f"a name ending in {source.suffix!r}", ".parquet or .csv")
    kinds = {**{name: _type(one) for name, one in attributes.items()}}
    kinds.update((name, pa.string()) for name in also)
    whole = _parquet if source.suffix.lower() == ".parquet" else _csv
    found = False
    try:
        for chunk in whole(source, kinds, rows):
            if len(chunk):
                found = True
                yield chunk
    except OSError as error:
        reason = error.strerror or "not readable"
        raise UsageError(source.name, reason, f"a {source.suffix} file") from None
    except pa.ArrowException:
        # Arrow's own message quotes the value that it could not read.
        asked = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        allowed = f"a whole {source.suffix} file with columns of these types: {asked}"
        raise UsageError(source.name, "not readable as that", allowed) from None
    if not found:
        raise UsageError(source.name, "no rows", "a row for each respondent")


def _type(domain: Domain) -> pa.DataType:
    """Return what a column of a CSV file is read as."""
    if isinstance(domain, Categorical):
        return _TYPES[domain.kind]
    return pa.int64() if isinstance(domain, Integers) else pa.float64()


def _parquet(path: Path, kinds: Mapping[str, pa.DataType], rows: int) -> Iterator[Chunk]:
    if path.stat().st_size == 0:
        return
    with parquet.ParquetFile(path) as file:
        _check_names(path, file.schema_arrow.names, kinds)
        total, done = file.metadata.num_rows, 0
        for batch in file.iter_batches(batch_size=rows, columns=list(kinds), use_threads=False):
            done += batch.num_rows
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield Chunk({name: columns[name] for name in kinds}, done, total)


def _csv(path: Path, kinds: Mapping[str, pa.DataType], rows: int) -> Iterator[Chunk]:
    total = path.stat().st_size
    if total == 0:
        return
    _check_names(path, _head(path), kinds)
    _refuse_blank_lines(path)
    options = {
        # One block after the other: no more is read ahead than is asked for.
        "read_options": arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        "parse_options": arrow_csv.ParseOptions(ignore_empty_lines=False),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=dict(kinds), include_columns=list(kinds), strings_can_be_null=False
        ),
    }
    with pa.OSFile(str(path)) as file, arrow_csv.open_csv(file, **options) as reader:
        for batch in reader:
            # Read ahead: the last byte is left for the end.
            done = min(file.tell(), total - 1) if not file.closed else total - 1
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                yield Chunk(dict(zip(part.schema.names, part.columns, strict=True)), done, total)


def _head(path: Path) -> list[str]:
    """Return the names in the first line of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.readline(_LONGEST_HEAD)
    except UnicodeDecodeError:
        raise UsageError(path.name, "no text", "a text file in UTF-8") from None
    return next(csv.reader([text]), [])


def _refuse_blank_lines(path: Path) -> None:
    """Refuse a blank line: it may be a respondent whose values are missing, or none at all."""
    before, suspect = b"", False
    with path.open("rb") as file:
        while not suspect and (block := file.read(_BLOCK)):
            joined = before + block
            suspect = any(two in joined for two in (b"\n\n", b"\n\r\n", b"\r\r"))
            before = joined[-2:]
    if not suspect:
        return
    # Within quotes it is part of a value; every byte is a character of Latin-1.
    quoted = False
    with path.open(encoding="latin-1", newline=None) as lines:
        for number, line in enumerate(lines, 1):
            if not quoted and line == "\n":
                hint = "Take it out, or give the respondent its values."
                where = f"{path.name}, line {number}"
                raise UsageError(where, "a blank line", "a row for each respondent", hint)
            quoted ^= line.count('"') % 2 == 1


def _check_names(path: Path, names: Sequence[str], kinds: Mapping[str, pa.DataType]) -> None:
    for name in kinds:
        if name not in names:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise UsageError(
                path.name, f"no column {name!r}", f"all of: {', '.join(kinds)}", f"It has: {shown}."
            )
        if list(names).count(name) > 1:
            raise UsageError(path.name, f"two columns {name!r}", "columns with distinct names")
