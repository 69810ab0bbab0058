"""People's values from a bundled table or a file, and the attributes' domains: for simulations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privagg import datasets
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.domain import Domain

__all__ = ["MOST_VALUES", "SurveyInputs", "parse_names", "read_columns", "read_survey"]

MOST_VALUES = 4096
"""More distinct values than this in a column are not read off the input: declare the domain."""


@dataclass(frozen=True, kw_only=True)
class SurveyInputs:
    """What the respondents of a simulated survey hold.

    Attributes
    ----------
    source : str
        Where it comes from.
    reading : str
        Where the domains come from, for people.
    columns : dict of str to column
        For each attribute everybody's values.
    attributes : dict of str to Domain
        The domains.
    users : int
        How many people.
    """

    source: str
    reading: str
    columns: dict[str, Any]
    attributes: dict[str, Domain]
    users: int


def parse_names(flag: str, text: str | None) -> tuple[str, ...]:
    """Return the names in a list separated by commas; refuse blank ones and twice the same."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(flag, text, "distinct names, separated by commas")
    return names


def read_survey(
    source: str,
    columns: tuple[str, ...],
    declared: Path | None,
    unknown: str,
    written: tuple[Path | None, ...] = (),
) -> SurveyInputs:
    """Read a bundled table or a file.

    Parameters
    ----------
    source : str
        Name of a bundled table, or a ``.csv`` or ``.parquet`` file.
    columns : tuple of str
        Which columns; unless given, those declared, else all columns of categories (text, booleans,
        of a file also integers).
    declared : Path, optional
        The survey's attributes, in TOML.
    unknown : str
        ``"refuse"`` or ``"other"``: of domains that are read off the input.
    written : tuple of Path or None
        What the command will write: refused as a source.

    Raises
    ------
    UsageError
        If there is no such input, or a column has no domain.
    """
    from privagg.domain import read_attributes

    table, bundled = _table(source, written)
    known = {} if declared is None else read_attributes(declared)
    wanted = columns or tuple(known) or tuple(n for n, c in table.items() if _usual(c, bundled))
    if not wanted:
        hint = "Declare the domains with --attributes."
        raise UsageError("--input", source, "columns of text, booleans or integers", hint)
    for name in wanted:
        if name not in table:
            raise UsageError("--columns", name, f"columns of {source}: {', '.join(table)}")
    attributes = {
        name: known[name] if name in known else _domain(name, table[name], unknown)
        for name in wanted
    }
    return SurveyInputs(
        source=source,
        reading="declared domains" if set(wanted) <= set(known) else "domains read off the input",
        columns={name: _values(table[name]) for name in wanted},
        attributes=attributes,
        users=len(table[wanted[0]]),
    )


def read_columns(source: str, written: tuple[Path | None, ...] = ()) -> dict[str, Any]:
    """Return the columns of a bundled table or a file by name, as arrow arrays.

    Raises
    ------
    UsageError
        If there is no such input.
    """
    return {name: _values(column) for name, column in _table(source, written)[0].items()}


def _table(source: str, written: tuple[Path | None, ...]) -> tuple[Mapping[str, Any], bool]:
    """Return a table's columns by name, and whether it is a bundled one."""
    if source in datasets.names():
        table = datasets.load(source)
        return dict(zip(table.column_names, table.columns, strict=True)), True
    path = Path(source)
    if path.suffix.lower() not in (".csv", ".parquet"):
        allowed = f"a .csv or .parquet file, or a bundled table: {', '.join(datasets.names())}"
        raise UsageError("--input", source, allowed)
    if not path.is_file():
        raise UsageError("--input", source, "a file that exists, or the name of a bundled table")
    for other in written:
        if other is not None and other.exists() and os.path.samefile(other, path):
            raise UsageError("--out", str(other), "another file than --input's")
    from privagg.cli import _input_files

    return _input_files.read_table(path), False


def _usual(column: Any, bundled: bool) -> bool:
    import pyarrow

    kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
    if pyarrow.types.is_boolean(kind) or _is_text(kind):
        return True
    return bool(pyarrow.types.is_integer(kind)) and not bundled


def _is_text(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def _values(column: Any) -> Any:
    import pyarrow

    plain = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    return plain.dictionary_decode() if pyarrow.types.is_dictionary(plain.type) else plain


def _domain(name: str, column: Any, unknown: str) -> Domain:
    """Return the domain of what a column holds: right in a simulation only."""
    import pyarrow

    from privagg.domain import Categorical

    kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
    hint = "Declare its domain with --attributes."
    if pyarrow.types.is_boolean(kind):
        return Categorical([False, True], unknown=unknown)
    if not _is_text(kind) and not pyarrow.types.is_integer(kind):
        allowed = "text, booleans or integers where no domain is declared"
        raise UsageError(f"--columns {name}", f"a column of type {kind}", allowed, hint)
    if pyarrow.types.is_dictionary(column.type):
        found = column.combine_chunks().dictionary.to_pylist()
    else:
        found = sorted(value for value in column.unique().to_pylist() if value is not None)
    if len(found) > MOST_VALUES:
        allowed = f"at most {MOST_VALUES} distinct values where no domain is declared"
        raise UsageError(f"--columns {name}", f"{len(found)} values", allowed, hint)
    return Categorical(found, unknown=unknown)
