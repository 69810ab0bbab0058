"""Reader of a local copy of the AdKDD'21 challenge's files.

Nothing is downloaded. Files may be compressed (``.gz``); columns are looked up by their names, in
any order, and none may be missing or unknown:

- singles: ``feature_1_value, feature_1_id, count, nb_clicks, nb_sales``; the challenge's own names
  for the last three may be ``count, click, sale`` in other copies, and both are read;
- pairs: ``feature_1_value, feature_2_value, feature_1_id, feature_2_id, count, nb_clicks,
  nb_sales``;
- labelled rows: ``hash_0, ..., hash_{f-1}, click, sale``.

Values are hashes; they are numbered from 0 in the order of the hashes in the table of singles, and
one more number stands for all hashes that it lacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.protocols.responses.report_tables import Layout, Tables

__all__ = ["CriteoTables", "read_criteo", "read_criteo_rows"]

_COUNTS = {"count": "count", "nb_clicks": "click", "click": "click"}
_COUNTS |= {"nb_sales": "sale", "sale": "sale"}
_LABELS = ("click", "sale")


@dataclass(frozen=True, eq=False)
class CriteoTables:
    """Tables of a file, and what hashes their values are.

    Attributes
    ----------
    tables : Tables
    hashes : tuple of (values,) int64 arrays
        For each feature its hashes, sorted; a value's number is its place. The number after the
        last stands for other hashes.
    """

    tables: Tables
    hashes: tuple[NDArray[np.int64], ...]

    def codes(self, hashed: Any) -> NDArray[np.int32]:
        """Return the numbers of rows of hashes; (n, f).

        Raises
        ------
        UsageError
            If there is not one column for each feature.
        """
        rows = np.asarray(hashed)
        if rows.ndim != 2 or rows.shape[1] != len(self.hashes) or rows.dtype.kind not in "iu":
            wanted = f"{len(self.hashes)} columns of whole numbers"
            raise UsageError("hashed", f"{rows.dtype} {rows.shape}", wanted)
        found = np.empty(rows.shape, np.int32)
        for f, known in enumerate(self.hashes):
            found[:, f] = _numbers(known, rows[:, f].astype(np.int64))
        return found


def read_criteo(
    singles: str | Path, pairs: str | Path | None = None, *, label: str = "click"
) -> CriteoTables:
    """Read the tables of single features, and of pairs.

    Parameters
    ----------
    singles, pairs : path
        Local files.
    label : {"click", "sale"}
        Which label the tables count.

    Raises
    ------
    UsageError
        If a file cannot be read, has other columns or values that are no numbers, names a cell
        twice, a hash that the singles lack, or features that are not numbered 0 to f - 1.
    """
    if label not in _LABELS:
        raise UsageError("label", label, " or ".join(_LABELS))
    one = _read(singles, ("feature_1_value", "feature_1_id"))
    identity = one["feature_1_id"].astype(np.int64)
    features = int(identity.max(initial=-1)) + 1
    if not features or features > 1000 or set(identity.tolist()) != set(range(features)):
        raise _not(singles, "features that are not numbered from 0 without gaps")
    value = one["feature_1_value"].astype(np.int64)
    hashes = tuple(np.unique(value[identity == f]) for f in range(features))
    # One more value of each feature, for hashes that the table lacks: no cell of it is kept.
    layout = Layout(tuple(known.size + 1 for known in hashes), pairs=pairs is not None)
    cells = np.empty(identity.size, np.int64)
    for f in range(features):
        mine = identity == f
        cells[mine] = layout.starts[f] + np.searchsorted(hashes[f], value[mine])
    counts, clicks = [one["count"]], [one[label]]
    if pairs is not None:
        both = _read(pairs, ("feature_1_value", "feature_2_value", "feature_1_id", "feature_2_id"))
        cells = np.concatenate([cells, _pair_cells(pairs, layout, hashes, both)])
        counts.append(both["count"])
        clicks.append(both[label])
    if np.unique(cells).size != cells.size:
        raise _not(singles if pairs is None else pairs, "a cell twice")
    displays, clicked = np.zeros(layout.cells), np.zeros(layout.cells)
    kept = np.zeros(layout.cells, bool)
    displays[cells], clicked[cells] = np.concatenate(counts), np.concatenate(clicks)
    kept[cells] = True
    return CriteoTables(Tables(layout, displays, clicked, kept), hashes)


def read_criteo_rows(
    path: str | Path, *, label: str = "click"
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Read labelled rows; return their hashes, (n, f), and labels, (n,).

    Raises
    ------
    UsageError
        If the file cannot be read, has other columns, or labels other than 0 and 1.
    """
    if label not in _LABELS:
        raise UsageError("label", label, " or ".join(_LABELS))
    table = _csv(path)
    names = [name for name in table if re.fullmatch(r"hash_\d+", name)]
    wanted = {f"hash_{f}" for f in range(len(names))}
    if not names or set(table) != wanted | set(_LABELS):
        raise _not(path, f"columns {', '.join(sorted(table)[:8])}")
    labels = table[label]
    if not np.isin(labels, (0, 1)).all():
        raise _not(path, f"{label} that is neither 0 nor 1")
    hashed = np.stack([_whole(path, f"hash_{f}", table[f"hash_{f}"]) for f in range(len(names))], 1)
    return hashed, labels.astype(np.int8)


def _pair_cells(
    path: str | Path,
    layout: Layout,
    hashes: tuple[NDArray[np.int64], ...],
    both: dict[str, NDArray[Any]],
) -> NDArray[np.int64]:
    """Return the cells of pairs, whichever feature of a pair comes first."""
    first, second = (both[f"feature_{i}_id"].astype(np.int64) for i in (1, 2))
    if first.size and (min(first.min(), second.min()) < 0 or (first == second).any()):
        raise _not(path, "a pair of one feature with itself")
    if first.size and max(first.max(), second.max()) >= len(hashes):
        raise _not(path, "a feature that the singles lack")
    values = [both[f"feature_{i}_value"].astype(np.int64) for i in (1, 2)]
    swap = first > second
    a, b = np.where(swap, second, first), np.where(swap, first, second)
    values = [np.where(swap, values[1], values[0]), np.where(swap, values[0], values[1])]
    found = np.empty(first.size, np.int64)
    for table, start in zip(layout.tables, layout.starts, strict=True):
        if len(table) == 2:
            mine = (a == table[0]) & (b == table[1])
            left, right = (
                _numbers(hashes[f], value[mine]) for f, value in zip(table, values, strict=True)
            )
            if (left == hashes[table[0]].size).any() or (right == hashes[table[1]].size).any():
                raise _not(path, "a hash that the singles lack")
            found[mine] = start + left * layout.cardinalities[table[1]] + right
    return found


def _numbers(known: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.minimum(np.searchsorted(known, values), known.size - 1)
    return np.where(known[at] == values, at, known.size)


def _read(path: str | Path, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the columns of a table of counts, by the names used here."""
    table = _csv(path)
    found: dict[str, NDArray[Any]] = {}
    for name, column in table.items():
        plain = name if name in keys else _COUNTS.get(name)
        if plain is None or plain in found:
            raise _not(path, f"a column {name!r}")
        found[plain] = _whole(path, name, column) if name in keys else column.astype(np.float64)
    missing = {*keys, "count", *_LABELS} - set(found)
    if missing:
        raise _not(path, f"no column {min(missing)!r}")
    return found


def _csv(path: str | Path) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise _not(path, type(error).__name__) from None
    if len(set(table.column_names)) != table.num_columns:
        raise _not(path, "two columns of one name")
    found: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        column = table.column(name)
        values = column.to_numpy()
        if column.null_count or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
            raise _not(path, f"column {name!r} with gaps, or no numbers")
        found[name] = values
    return found


def _whole(path: str | Path, name: str, values: NDArray[Any]) -> NDArray[np.int64]:
    if values.dtype.kind not in "iu":
        raise _not(path, f"column {name!r} that is not of whole numbers")
    return values.astype(np.int64)


def _not(path: str | Path, found: str) -> UsageError:
    return UsageError("path", f"{path}: {found}", "a file of the challenge, as described there")
