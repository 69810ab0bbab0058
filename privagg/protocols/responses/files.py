"""Least squares from a Parquet file, read once and in pieces.

Where the rows lie sorted by bag, a bag ends where the next begins, and memory is O(p^2) beside one
piece. Where they do not, the bags' sums are kept until the end: O(bags p), and the result says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.protocols.responses.statistics import Statistics

__all__ = ["FromFile", "read_statistics"]

Reals = NDArray[np.float64]

_ROWS = 1 << 14
"""Rows of a piece."""


@dataclass(frozen=True, eq=False)
class FromFile:
    """What was read.

    Attributes
    ----------
    statistics : Statistics
        Over all bags.
    folds : list of Statistics
        The same, bag number i in piece ``i % len(folds)``: for cross-validation.
    features : tuple of str
    grouped : bool
        Whether rows lay sorted by bag; else memory was O(bags p).
    """

    statistics: Statistics
    folds: list[Statistics]
    features: tuple[str, ...]
    grouped: bool


def read_statistics(
    path: str | Path,
    *,
    bag: str,
    response: str,
    features: Sequence[str] | None = None,
    aggregate: str = "mean",
    folds: int = 5,
) -> FromFile:
    """Return the statistics of a file with one line for each row.

    Parameters
    ----------
    path : path
        A Parquet file.
    bag : str
        The column with the bags' ids: whole numbers or strings.
    response : str
        The column with the response of the row's bag, the same in all its rows.
    features : sequence of str, optional
        All other columns unless given; numbers.
    aggregate : {"mean", "sum"}
        What the responses are.
    folds : int
        Into how many parts bags are dealt in turn; at random, if the bags are.

    Raises
    ------
    UsageError
        If there is no such file or column, a value is missing or not finite, or a bag has two
        responses.
    """
    file = _open(path)
    names = file.schema_arrow.names
    for column in (bag, response, *(features or ())):
        if column not in names:
            raise UsageError("columns", repr(column), f"one of {', '.join(names)}")
    others = [name for name in names if name not in (bag, response)]
    chosen = tuple(others if features is None else features)
    if not chosen:
        raise UsageError("features", "none", "at least one column")
    pieces = _pieces(file, bag, response, chosen)
    sums = _Sums(len(chosen), folds, aggregate)
    for ids, values, x in pieces:
        if not sums.add(ids, values, x):
            return _ungrouped(_open(path), bag, response, chosen, folds, aggregate)
    return sums.result(chosen)


class _Sums:
    """Adds up sorted pieces; the last bag of each waits for the next."""

    def __init__(self, features: int, folds: int, aggregate: str) -> None:
        self._parts = [_empty(features) for _ in range(folds)]
        self._count = 0
        self._aggregate = aggregate
        self._held: tuple[Any, Reals, Reals] | None = None

    def add(self, ids: NDArray[Any], responses: Reals, x: Reals) -> bool:
        """Add a piece; False if it is not sorted by bag."""
        if self._held is not None:
            ids = np.concatenate([self._held[0], ids])
            responses = np.concatenate([self._held[1], responses])
            x = np.concatenate([self._held[2], x])
        if (ids[1:] < ids[:-1]).any():
            return False
        last = int(np.searchsorted(ids, ids[-1], side="left"))
        self._held = ids[last:], responses[last:], x[last:]
        self._finish(ids[:last], responses[:last], x[:last])
        return True

    def result(self, features: tuple[str, ...]) -> FromFile:
        """Return what was added up."""
        if self._held is None:
            raise UsageError("path", "no rows", "at least one row")
        self._finish(*self._held)
        parts = self._parts
        return FromFile(sum(parts[1:], parts[0]), parts, features, True)

    def _finish(self, ids: NDArray[Any], responses: Reals, x: Reals) -> None:
        if not ids.size:
            return
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        sizes = np.diff(np.append(starts, ids.size))
        _one_response(ids, responses, starts, sizes)
        totals = responses[starts] * (1 if self._aggregate == "sum" else sizes)
        sums = np.add.reduceat(x, starts, axis=0)
        fold = (self._count + np.arange(starts.size)) % len(self._parts)
        self._count += starts.size
        of_rows = np.repeat(fold, sizes)
        for number in range(len(self._parts)):
            inside = fold == number
            if inside.any():
                rows = x[of_rows == number]
                self._parts[number] += Statistics.of(
                    rows.T @ rows, sums[inside], sizes[inside], totals[inside, None]
                )


def _empty(p: int) -> Statistics:
    return Statistics(
        0,
        0,
        np.zeros(p),
        np.zeros(p),
        0.0,
        np.zeros(1),
        np.zeros((p, p)),
        np.zeros((p, p)),
        np.zeros((p, 1)),
        np.zeros(1),
    )


def _ungrouped(
    file: Any, bag: str, response: str, features: tuple[str, ...], folds: int, aggregate: str
) -> FromFile:
    """Add up the bags' sums by id, and the rows' products by fold, in two passes."""
    ids = file.read(columns=[bag]).column(0).to_numpy()
    names, number = np.unique(ids, return_inverse=True)
    sizes = np.bincount(number)
    sums = np.zeros((names.size, len(features)))
    given = np.full(names.size, np.nan)
    gram = np.zeros((folds, len(features), len(features)))
    at = 0
    for part, responses, x in _pieces(file, bag, response, features):
        of = number[at : at + part.size]
        at += part.size
        fresh = np.isnan(given[of])
        given[of[fresh]] = responses[fresh]
        if (given[of] != responses).any():
            raise _two(part[np.flatnonzero(given[of] != responses)[0]])
        order = np.argsort(of, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(of[order]) != 0]))
        sums[of[order][starts]] += np.add.reduceat(x[order], starts, axis=0)
        for fold in range(folds):
            rows = x[of % folds == fold]
            gram[fold] += rows.T @ rows
    totals = given * (1 if aggregate == "sum" else sizes)
    parts = []
    for fold in range(folds):
        inside = np.arange(names.size) % folds == fold
        parts.append(
            Statistics.of(gram[fold], sums[inside], sizes[inside], totals[inside, None])
            if inside.any()
            else _empty(len(features))
        )
    return FromFile(sum(parts[1:], parts[0]), parts, features, False)


def _one_response(
    ids: NDArray[Any], responses: Reals, starts: NDArray[Any], sizes: NDArray[Any]
) -> None:
    odd = responses != np.repeat(responses[starts], sizes)
    if odd.any():
        raise _two(ids[np.flatnonzero(odd)[0]])


def _two(name: Any) -> UsageError:
    return UsageError("response", f"two different ones for bag {name!r}", "one for each bag")


def _pieces(
    file: Any, bag: str, response: str, features: tuple[str, ...]
) -> Iterator[tuple[NDArray[Any], Reals, Reals]]:
    for batch in file.iter_batches(
        batch_size=_ROWS, columns=[bag, response, *features], use_threads=False
    ):
        if batch.num_rows == 0:
            continue
        for name in (bag, response, *features):
            if batch.column(name).null_count:
                raise UsageError(name, "a missing value", "a value in every row")
        ids = batch.column(bag).to_numpy(zero_copy_only=False)
        if ids.dtype.kind == "O":
            ids = ids.astype(str)
        if ids.dtype.kind not in "iuU":
            raise UsageError(bag, f"{ids.dtype}", "whole numbers or strings")
        x = np.empty((batch.num_rows, len(features)))
        for column, name in enumerate(features):
            x[:, column] = _numbers(batch, name)
        yield ids, _numbers(batch, response), x


def _numbers(batch: Any, name: str) -> Reals:
    values = batch.column(name).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise UsageError(name, f"{values.dtype}", "numbers", "Leave the column out by features=.")
    found: Reals = values.astype(np.float64)
    if not np.isfinite(found).all():
        raise UsageError(name, "a value that is not finite", "finite numbers")
    return found


def _open(path: str | Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=False, pre_buffer=False)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError("path", str(path), f"a Parquet file ({type(error).__name__})") from None
