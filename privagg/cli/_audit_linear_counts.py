"""A log nobody kept, from the vectors that the rounds summed to and known counts, in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.linear import Log, participation_from_counts
from privagg.cli import _audit_linear_log, _input_files, _input_npy
from privagg.cli._audit_linear_report import Rebuilt
from privagg.cli.common import Step
from privagg.errors import Abort, UsageError

__all__ = ["rebuild"]


def rebuild(
    counts: Path,
    sums: Path,
    interval: int,
    *,
    noisy: bool,
    seconds: float,
    client: str,
    round: str,
    header: bool | None,
    step: Step,
) -> tuple[Log, str, Rebuilt]:
    """Find a log again.

    Parameters
    ----------
    counts : Path
        ``.csv`` or ``.parquet``: a row for each client, a column with their names, and one for each
        interval, in their order.
    sums : Path
        The rounds' vectors: ``.npy``, or a table with a row for each round, a column for each
        coordinate and maybe one with the rounds' names.
    interval : int
        Rounds in an interval; the last may be shorter.
    noisy : bool
        Whether inputs change.
    seconds : float
        Time limit of one program.
    client, round : str
        Names of the columns with names.
    header : bool, optional
        Whether the first line of a ``.csv`` with the rounds' vectors names its columns.
    step : callable
        Progress.

    Returns
    -------
    Log, str, Rebuilt
        The log, how it came about, and what was found.

    Raises
    ------
    UsageError
        If a file is no such table, or they do not fit one another.
    Abort
        If the column of some client was not found: then no sum's inputs are all known.
    """
    names, given = _counts(counts, client)
    vectors, labels = _vectors(sums, round, header)
    _distinct(counts, client, names)
    _distinct(sums, round, labels or [])
    found = participation_from_counts(
        vectors,
        given,
        interval,
        noisy=noisy,
        seconds=seconds,
        progress=lambda done, of: step("clients", done, of),
    )
    if not found.found.all():
        first = names[int(np.argmin(found.found))]
        hint = (
            "give --seconds more" if noisy else "give --seconds more, or --noisy if inputs change"
        )
        raise Abort(
            f"no column fits client {first!r}, so the log is not known ({hint}): columns",
            int(found.found.sum()),
            len(names),
        )
    log = Log.of_matrix(found.participation, names, labels)
    said = (
        f"found again from {len(vectors):,} sums of {vectors.shape[1]:,} coordinates and counts of "
        f"{len(names):,} clients in intervals of {interval:,}"
    )
    return log, said, Rebuilt(found, interval, noisy)


def _distinct(path: Path, column: str, names: list[Any]) -> None:
    """Refuse a name twice before the work, not after it."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise UsageError(f"{path.name}, column {column!r}", f"{name!r} twice", "each name once")
        seen.add(name)


def _counts(path: Path, client: str) -> tuple[list[Any], NDArray[np.int64]]:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("--counts", path.name, "a file ending in .csv or .parquet")
    table = _input_files.read_table(path, None, "a row for each client")
    if client not in table:
        raise UsageError("--client-column", client, f"a column of {path.name}: {', '.join(table)}")
    columns = {name: column for name, column in table.items() if name != client}
    if not columns:
        raise UsageError(path.name, "no column of counts", "one for each interval of rounds")
    hint = f"A column for each interval, beside {client!r}; name that with --client-column."
    arrays = {}
    for name, column in columns.items():
        array = _input_files.numbers(path.name, name, column, hint)
        if array.dtype.kind not in "iu":
            raise UsageError(
                f"{path.name}, column {name!r}", "no whole numbers", "counts of rounds"
            )
        arrays[name] = array.astype(np.int64)
    if path.suffix.lower() == ".csv":
        _input_files.check_integers(path, arrays, None)
    return _audit_linear_log.name_column(path, client, table[client]), np.stack(
        list(arrays.values()), axis=1
    )


def _vectors(
    path: Path, round: str, header: bool | None
) -> tuple[NDArray[np.float64], list[Any] | None]:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        if header is not None:
            raise UsageError("--header", path.name, "a .csv file beside --header or --no-header")
        arrays = _input_npy.open_npy(path)
        shape, dtype = arrays.shapes[""], arrays.dtypes[""]
        if dtype.kind not in "biuf" or len(shape) != 2 or 0 in shape:
            found = f"{dtype} of shape {shape}"
            raise UsageError(path.name, found, "a matrix of numbers: rounds x coordinates")
        return np.asarray(arrays.whole(""), np.float64), None
    if suffix not in (".csv", ".parquet"):
        raise UsageError("--sums", path.name, "a file ending in .npy, .csv or .parquet")
    table = _input_files.read_table(path, header, "a row for each round")
    columns = [name for name in table if name != round]
    if not columns:
        raise UsageError(path.name, "no column of a coordinate", "one for each")
    vectors = [
        _input_files.numbers(path.name, name, table[name], "A row is a round's vector.")
        for name in columns
    ]
    labels = _audit_linear_log.name_column(path, round, table[round]) if round in table else None
    return np.stack([one.astype(np.float64) for one in vectors], axis=1), labels
