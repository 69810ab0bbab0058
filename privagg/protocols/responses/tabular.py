"""Columns of a table as features and as a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["MOST_VALUES", "design", "target_of"]

MOST_VALUES = 1000
"""More distinct texts in a column are no categories."""


def design(columns: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return features: numbers as they are, text and booleans as one indicator for each value.

    Of a column's values the first has no indicator: an intercept stands for it.

    Parameters
    ----------
    columns : mapping of str to column
        Arrow columns or arrays.

    Returns
    -------
    (n, p) float64 array

    Raises
    ------
    UsageError
        If there is none, or one has missing values, too many texts, or neither text nor numbers.
    """
    parts: list[NDArray[np.float64]] = []
    for name, column in columns.items():
        values = _values(name, column)
        if values.dtype.kind in "fiu":
            parts.append(values.astype(np.float64)[:, None])
            continue
        found, numbers = np.unique(values, return_inverse=True)
        if found.size > MOST_VALUES:
            raise UsageError(name, f"{found.size} texts", f"at most {MOST_VALUES}")
        parts.append((numbers[:, None] == np.arange(1, found.size)).astype(np.float64))
    if not parts or not sum(part.shape[1] for part in parts):
        raise UsageError("columns", "none to learn from", "columns beside the target")
    return np.hstack(parts)


def target_of(columns: Mapping[str, Any], name: str) -> tuple[NDArray[Any], int]:
    """Return the target, and its number of classes: 0 for numbers.

    Text, booleans, and numbers of which there are two are classes, numbered in sorted order.

    Parameters
    ----------
    columns : mapping of str to column
        The table.
    name : str
        Of the target.

    Raises
    ------
    UsageError
        If there is no such column, or it has one value only or values missing.
    """
    if name not in columns:
        raise UsageError("target", name, f"one of {', '.join(columns)}")
    values = _values(name, columns[name])
    found, numbers = np.unique(values, return_inverse=True)
    if found.size < 2:
        raise UsageError("target", f"{name}: one value", "at least two")
    if values.dtype.kind in "fiu" and found.size > 2:
        return values.astype(np.float64), 0
    if found.size > 4096:
        raise UsageError("target", f"{name}: {found.size} classes", "at most 4096")
    return numbers.astype(np.int64), int(found.size)


def _values(name: str, column: Any) -> NDArray[Any]:
    if hasattr(column, "null_count"):
        if column.null_count:
            raise UsageError(name, "missing values", "a value in every row")
        column = column.to_numpy() if hasattr(column, "num_chunks") else np.asarray(column)
    values = np.asarray(column)
    if values.dtype.kind == "O":
        if not all(issubclass(kind, str | bool) for kind in set(map(type, values.tolist()))):
            raise UsageError(name, "values of other types", "numbers, text or booleans")
        values = values.astype(str)
    if values.ndim != 1 or values.dtype.kind not in "fiubU":
        raise UsageError(name, f"{values.dtype} of shape {values.shape}", "numbers or text")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise UsageError(name, "numbers that are not finite", "finite numbers")
    return values
