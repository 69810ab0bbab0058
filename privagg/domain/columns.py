"""Columns of any kind as positions in a list of labels; -1 where a value is not among them.

Missing values (None, NaN, a null of Arrow or pandas) are not among them either. A column of another
type than the labels is a mistake and refused as a whole: "1" is not 1, and neither is True.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privagg._validate import refuse_masked
from privagg.errors import UsageError

__all__ = ["KINDS", "as_column", "is_missing", "positions"]

KINDS: Mapping[str, type] = {"string": str, "boolean": bool, "integer": int}
"""The kinds of labels, and the type of each."""

_COLUMNS = "a list, tuple, 1-D NumPy array, or column of pyarrow, pandas or Polars"

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool, np.bool_),
    "integer": (int, np.integer),
}

_MISSING_NAMES = {"NoneType", "NAType", "NaTType"}


def is_missing(value: object) -> bool:
    """Say whether a value of a list stands for none: None, NaN, pandas' NA."""
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return type(value).__name__ in _MISSING_NAMES


def as_column(values: Any) -> list[Any] | NDArray[Any] | pa.Array:
    """Return values as a list, a 1-D NumPy array, or one array of Arrow.

    Raises
    ------
    UsageError
        If they are none of the columns that are read.
    """
    refuse_masked("values", values)
    if isinstance(values, list | tuple):
        return list(values)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise UsageError("values", f"array of shape {values.shape}", _COLUMNS)
        return values.tolist() if values.dtype.kind in "OT" else values
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _one_array(values)
    found: Any = None
    try:
        # Polars' series know themselves how to become Arrow's; pandas' are known to pyarrow.
        if hasattr(values, "to_arrow"):
            found = values.to_arrow()
        elif hasattr(values, "to_numpy") and getattr(values, "ndim", 0) == 1:
            found = pa.array(values, from_pandas=True)
        elif hasattr(values, "__arrow_c_stream__"):
            found = pa.chunked_array(values)
    except (pa.ArrowException, AttributeError, TypeError, ValueError):
        found = None
    if not isinstance(found, pa.Array | pa.ChunkedArray):
        raise UsageError("values", f"a {type(values).__name__}", _COLUMNS)
    return _one_array(found)


def positions(values: Any, labels: Sequence[Any], kind: str) -> NDArray[np.int64]:
    """Return where each value stands among `labels`, or -1.

    Parameters
    ----------
    values : list, tuple, ndarray or column
        What :func:`as_column` reads.
    labels : sequence of str, bool or int
        Distinct labels of one kind.
    kind : {"string", "boolean", "integer"}
        What the labels are.

    Raises
    ------
    UsageError
        If the column is of another type than the labels.
    """
    column = as_column(values)
    if isinstance(column, list):
        return _of_list(column, labels, kind)
    if isinstance(column, pa.Array):
        return _of_arrow(column, labels, kind)
    return _of_numpy(column, labels, kind)


def _one_array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # of no chunk, or of too many bytes for one
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return values


def _refuse_type(found: str, kind: str) -> UsageError:
    hint = "Convert the column; numbers with missing values need a nullable type, not floats."
    return UsageError("values", f"a column of {found}", f"{kind} values", hint)


def _of_list(values: list[Any], labels: Sequence[Any], kind: str) -> NDArray[np.int64]:
    allowed = _TYPES[kind]
    for found in set(map(type, values)):
        fits = issubclass(found, allowed) and (kind == "boolean" or not issubclass(found, bool))
        gap = found.__name__ in _MISSING_NAMES or (
            issubclass(found, float | np.floating) and _all_missing(values, found)
        )
        if not (fits or gap):
            raise _refuse_type(found.__name__, kind)
    table = {label: code for code, label in enumerate(labels)}
    # A NaN is equal to nothing, so that it finds nothing either.
    codes = (table.get(value, -1) for value in values)
    return np.fromiter(codes, np.int64, len(values))


def _all_missing(values: list[Any], found: type) -> bool:
    return all(is_missing(value) for value in values if type(value) is found)


def _of_numpy(values: NDArray[Any], labels: Sequence[Any], kind: str) -> NDArray[np.int64]:
    letter = values.dtype.kind
    if kind == "string" and letter == "U":
        try:
            return _of_arrow(pa.array(values), labels, kind)
        except UnicodeError:  # half a surrogate pair: no label, and nothing that Arrow reads
            return _of_list(values.tolist(), labels, kind)
    if kind == "boolean" and letter == "b":
        table: NDArray[np.int64] = np.full(2, -1, np.int64)
        table[[int(label) for label in labels]] = np.arange(len(labels))
        codes: NDArray[np.int64] = table[values.astype(np.intp)]
        return codes
    if kind == "integer" and letter in "iu":
        return _of_integers(values, labels)
    raise _refuse_type(str(values.dtype), kind)


def _of_integers(values: NDArray[Any], labels: Sequence[int]) -> NDArray[np.int64]:
    # Labels are far below 2**63, so that what does not fit is no label.
    large = values > np.uint64(2**63 - 1) if values.dtype == np.uint64 else None
    numbers = values.astype(np.int64)
    codes: NDArray[np.int64]
    low = labels[0]
    if labels[-1] - low == len(labels) - 1 and all(
        label == low + at for at, label in enumerate(labels)
    ):
        inside = (numbers >= low) & (numbers <= labels[-1])
        codes = np.where(inside, numbers - np.int64(low), -1)
    else:
        ordered = np.array(labels, np.int64)
        order = np.argsort(ordered)
        at = np.searchsorted(ordered[order], numbers)
        at = np.minimum(at, len(labels) - 1)
        found = order[at]
        codes = np.where(ordered[found] == numbers, found, -1)
    if large is not None:
        codes[large] = -1
    return codes


def _of_arrow(values: pa.Array, labels: Sequence[Any], kind: str) -> NDArray[np.int64]:
    if pa.types.is_dictionary(values.type):
        of_word = _of_arrow(values.dictionary, labels, kind)
        # One more place, for the nulls.
        table: NDArray[np.int64] = np.append(of_word, -1)
        at = pc.fill_null(values.indices.cast(pa.int64()), len(of_word))
        of_rows: NDArray[np.int64] = table[at.to_numpy(zero_copy_only=False)]
        return of_rows
    if pa.types.is_null(values.type):
        return np.full(len(values), -1, np.int64)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    codes: NDArray[np.int64]
    if kind == "string" and _is_text(values.type):
        text = values.cast(pa.large_string())
        found = pc.index_in(text, value_set=pa.array(labels, pa.large_string()))
        codes = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    elif kind == "boolean" and pa.types.is_boolean(values.type):
        plain = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
        codes = _of_numpy(plain.astype(np.bool_), labels, kind)
    elif kind == "integer" and pa.types.is_integer(values.type):
        plain = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
        codes = _of_integers(plain, labels)
    else:
        raise _refuse_type(str(values.type), kind)
    codes[missing] = -1
    return codes


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
