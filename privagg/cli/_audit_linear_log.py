"""Participation logs and sums in files: tables of rounds and clients, lists of who came when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.linear import Log
from privagg.cli import _input_files
from privagg.errors import UsageError

__all__ = ["name_column", "read_log", "read_sums"]

_HINT = (
    "A list of who took part when has columns client and round: see --layout and --client-column."
)


def read_log(
    path: Path,
    *,
    layout: str = "auto",
    client: str = "client",
    round: str = "round",
    weight: str = "weight",
    header: bool | None = None,
) -> tuple[Log, str]:
    """Read a participation log.

    Parameters
    ----------
    path : Path
        ``.csv`` or ``.parquet``.
    layout : {"auto", "matrix", "list"}
        A ``matrix`` has a row for each round and a column for each client, and may have a column
        with the rounds' names. A ``list`` has a row for each client in a round. ``auto`` takes it
        for a list if it has the columns `client` and `round`.
    client, round, weight : str
        Names of the columns of a list; a matrix has `round` only. `weight` may be missing.
    header : bool, optional
        As for :func:`privagg.cli._input_files.read_table`.

    Returns
    -------
    Log
        The log.
    str
        How it was read.

    Raises
    ------
    UsageError
        If the file cannot be read so; it names the file and the column, row, client or round.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("--participation", path.name, "a file ending in .csv or .parquet")
    table = _input_files.read_table(path, header, "a row for each round, or each client in one")
    if layout == "auto":
        layout = "list" if client in table and round in table else "matrix"
    if layout == "list":
        return _listed(path, table, client, round, weight, header)
    return _matrix(path, table, round, header)


def _listed(
    path: Path, table: dict[str, Any], client: str, round: str, weight: str, header: bool | None
) -> tuple[Log, str]:
    for flag, name in (("--client-column", client), ("--round-column", round)):
        if name not in table:
            raise UsageError(flag, name, f"a column of {path.name}: {', '.join(table)}")
    weights: Any = [1] * len(table[client])
    if weight in table:
        found = _weights(path, {weight: table[weight]}, header)[weight]
        weights = found.tolist()
    others = [name for name in table if name not in (client, round, weight)]
    names, when = (name_column(path, name, table[name]) for name in (client, round))
    log = _of(path, lambda: Log.of_triples(list(zip(names, when, weights, strict=True))))
    used = f", weights from {weight!r}" if weight in table else ""
    ignored = f"; columns not used: {', '.join(others)}" if others else ""
    return log, f"a list of {len(names):,} participations{used}{ignored}"


def _matrix(path: Path, table: dict[str, Any], round: str, header: bool | None) -> tuple[Log, str]:
    columns = {name: column for name, column in table.items() if name != round}
    if not columns:
        raise UsageError(path.name, "no column of a client", "a column for each client")
    arrays = _weights(path, columns, header)
    labels = name_column(path, round, table[round]) if round in table else None
    names: list[Any] = list(columns)
    if header is False:
        names = list(range(len(names)))
    floats = any(array.dtype.kind == "f" for array in arrays.values())
    matrix = np.stack(list(arrays.values()), axis=1) if not floats else _side_by_side(path, arrays)
    log = _of(path, lambda: Log.of_matrix(matrix, names, labels))
    return log, f"a matrix of {len(log.rounds):,} rounds and {len(log.clients):,} clients"


def _side_by_side(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    for name, array in arrays.items():
        if array.dtype.kind != "f" and array.size and int(np.abs(array).max()) > 2**53:
            raise UsageError(
                f"{path.name}, column {name!r}",
                "an integer above 2**53",
                "integers up to 2**53 beside floats",
            )
    return np.stack([array.astype(np.float64) for array in arrays.values()], axis=1)


def _weights(path: Path, columns: dict[str, Any], header: bool | None) -> dict[str, NDArray[Any]]:
    """Return columns of numbers; truth values are 0 and 1."""
    import pyarrow

    arrays: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        if pyarrow.types.is_boolean(column.type) and not column.null_count:
            arrays[name] = np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)
        else:
            arrays[name] = _input_files.numbers(path.name, name, column, _HINT)
        if arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
            at = int(np.argmin(np.isfinite(arrays[name])))
            raise UsageError(
                f"{path.name}, column {name!r}",
                f"{arrays[name][at]} in data row {at + 1}",
                "finite numbers",
                "Write 0 where a client took no part.",
            )
    plain = {n: a for n, a in arrays.items() if a.size and columns[n].type != pyarrow.bool_()}
    _input_files.check_integers(path, plain, header)
    return arrays


def name_column(path: Path, name: str, column: Any) -> list[str | int]:
    """Return a column of names: text, integers, or times as text."""
    import pyarrow

    if column.null_count:
        at = next(i for i, value in enumerate(column) if not value.is_valid)
        raise UsageError(
            f"{path.name}, column {name!r}", f"no name in data row {at + 1}", "a name in every row"
        )
    kind = column.type
    if pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind):
        raise UsageError(f"{path.name}, column {name!r}", f"names of type {kind}", "text, integers")
    values = column.to_pylist()
    return [value if isinstance(value, int) else str(value) for value in values]


def _of(path: Path, make: Any) -> Log:
    """Say in which file it was, if the log is refused."""
    try:
        log: Log = make()
    except UsageError as error:
        raise UsageError(
            f"{path.name}, {error.argument}", error.found, error.allowed, error.hint
        ) from error
    return log


def read_sums(path: Path, log: Log, round: str = "round") -> NDArray[np.float64]:
    """Read the sum of each round of a log: a column of rounds and a column of numbers.

    Raises
    ------
    UsageError
        If the file cannot be read so, or lacks a round of the log.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("--sums", path.name, "a file ending in .csv or .parquet")
    table = _input_files.read_table(path, None, "a row for each round")
    if round not in table or len(table) != 2:
        raise UsageError(
            path.name, f"columns {', '.join(table)}", f"a column {round!r} and one of sums"
        )
    (name,) = (name for name in table if name != round)
    numbers = _weights(path, {name: table[name]}, None)[name]
    found: dict[str, float] = {}
    for label, value in zip(name_column(path, round, table[round]), numbers.tolist(), strict=True):
        if str(label) in found:
            raise UsageError(path.name, f"round {label!r} twice", "one sum for each round")
        found[str(label)] = float(value)
    missing = [label for label in log.rounds if label not in found]
    if missing:
        raise UsageError(path.name, f"no sum of round {missing[0]!r}", "one for each round")
    return np.array([found[label] for label in log.rounds])
