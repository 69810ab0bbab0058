"""Reader of a local copy of the AdKDD'21 challenge's files.

Nothing is downloaded. Files may be compressed (``.gz``); columns are looked up by their names, in
any order, and none may be missing or unknown:

- singles: ``feature_1_value, feature_1_id, count, nb_clicks, nb_sales``; the challenge's own names
  for the last three may be ``count, click, sale`` in other copies, and both are read;
- pairs: ``feature_1_value, feature_2_value, feature_1_id, feature_2_id, count, nb_clicks,
  nb_sales``;
- labelled rows: ``hash_0, ..., hash_{f-1}, click, sale``.

Values are hashes. The most displayed ones of each feature are numbered from 0 in the order of the
hashes; one more number stands for all others, whose counts are added up. The challenge's features
have up to 441,976 values, so pairs of all of them have no table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
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
        For each feature the hashes with a number of their own, sorted; it is their place. The
        number after the last stands for other hashes.
    """

    tables: Tables
    hashes: tuple[NDArray[np.int64], ...]

    def codes(self, hashed: Any) -> NDArray[np.int32]:
        """Return the numbers of rows of hashes; (n, f).

        Parameters
        ----------
        hashed : (n, f) array of int64
            Hashes of the features.

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
    singles: str | Path,
    pairs: str | Path | None = None,
    *,
    label: str = "click",
    most: int = 500,
) -> CriteoTables:
    """Read the tables of single features, and of pairs.

    Parameters
    ----------
    singles, pairs : path
        Local files.
    label : {"click", "sale"}
        Which label the tables count.
    most : int
        How many hashes of a feature have a number of their own.

    Raises
    ------
    UsageError
        If a file cannot be read, has other columns or values that are no numbers, names a cell
        twice, a hash that the singles lack, or features that are not numbered 0 to f - 1.
    """
    if label not in _LABELS:
        raise UsageError("label", label, " or ".join(_LABELS))
    limit = whole("most", most, 1, 10**7)
    one = _read(singles, ("feature_1_value", "feature_1_id"))
    identity, value = one["feature_1_id"], one["feature_1_value"]
    features = int(identity.max(initial=-1)) + 1
    if not features or features > 1000 or set(identity.tolist()) != set(range(features)):
        raise _not(singles, "features that are not numbered from 0 without gaps")
    _refuse_twice(singles, identity, value)
    known = [np.unique(value[identity == f]) for f in range(features)]
    hashes = tuple(
        _top(value[identity == f], one["count"][identity == f], limit) for f in range(features)
    )
    layout = Layout(tuple(some.size + 1 for some in hashes), pairs=pairs is not None)
    cells = np.empty(identity.size, np.int64)
    for f in range(features):
        mine = identity == f
        cells[mine] = layout.starts[f] + _numbers(hashes[f], value[mine])
    counts, clicks = [one["count"]], [one[label]]
    if pairs is not None:
        keys = ("feature_1_value", "feature_2_value", "feature_1_id", "feature_2_id")
        both = _read(pairs, keys)
        cells = np.concatenate([cells, _pair_cells(pairs, layout, hashes, known, both)])
        counts.append(both["count"])
        clicks.append(both[label])
    displays, clicked = (
        np.bincount(cells, np.concatenate(parts), minlength=layout.cells).astype(np.float64)
        for parts in (counts, clicks)
    )
    kept = np.bincount(cells, minlength=layout.cells) > 0
    return CriteoTables(Tables(layout, displays, clicked, kept), hashes)


def read_criteo_rows(
    path: str | Path, *, label: str = "click"
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Read labelled rows; return their hashes, (n, f), and labels, (n,).

    Parameters
    ----------
    path : str or path
        The file.
    label : str
        The column of labels.

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


def _top(values: NDArray[np.int64], counts: NDArray[Any], limit: int) -> NDArray[np.int64]:
    """Return the values with the largest counts, sorted."""
    order = np.argsort(-counts, kind="stable")[:limit]
    return np.sort(values[order])


def _pair_cells(
    path: str | Path,
    layout: Layout,
    hashes: tuple[NDArray[np.int64], ...],
    known: list[NDArray[np.int64]],
    both: dict[str, NDArray[Any]],
) -> NDArray[np.int64]:
    """Return the cells of pairs, whichever feature of a pair comes first."""
    first, second = both["feature_1_id"], both["feature_2_id"]
    if first.size and (min(first.min(), second.min()) < 0 or (first == second).any()):
        raise _not(path, "a pair of one feature with itself")
    if first.size and max(first.max(), second.max()) >= len(hashes):
        raise _not(path, "a feature that the singles lack")
    one, other = both["feature_1_value"], both["feature_2_value"]
    swap = first > second
    a, b = np.where(swap, second, first), np.where(swap, first, second)
    left, right = np.where(swap, other, one), np.where(swap, one, other)
    _refuse_twice(path, a, b, left, right)
    found = np.empty(first.size, np.int64)
    for table, start in zip(layout.tables, layout.starts, strict=True):
        if len(table) != 2:
            continue
        mine = (a == table[0]) & (b == table[1])
        for f, values in zip(table, (left[mine], right[mine]), strict=True):
            if (_numbers(known[f], values) == known[f].size).any():
                raise _not(path, "a hash that the singles lack")
        place = _numbers(hashes[table[0]], left[mine]) * layout.cardinalities[table[1]]
        found[mine] = start + place + _numbers(hashes[table[1]], right[mine])
    return found


def _refuse_twice(path: str | Path, *keys: NDArray[np.int64]) -> None:
    order = np.lexsort(keys)
    same = np.ones(max(order.size - 1, 0), bool)
    for key in keys:
        same &= np.diff(key[order]) == 0
    if same.any():
        raise _not(path, "a cell twice")


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
    # What was found first: long values are cut short.
    return UsageError("path", f"{found} in {Path(path).name}", "a file of the challenge")
