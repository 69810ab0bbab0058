"""Inputs for aggregation: the rows of a table dealt to clients, each with its own histogram."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, overload

from privagg.datasets.catalog import closest, info
from privagg.datasets.loading import load
from privagg.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MAX_CATEGORIES", "Category", "HistogramInputs", "histogram_inputs"]

MAX_CATEGORIES = 1000
"""Most distinct values that a numeric column may have to be counted value by value."""

Category = str | int | bool | None
"""A value of the column; ``None`` stands for the rows where the value is missing."""


class HistogramInputs(Sequence["NDArray[np.int64]"]):
    """One histogram per client, counted when it is asked for.

    Client ``i`` of ``c`` holds the rows from ``i * n // c`` up to ``(i + 1) * n // c`` of the
    table's ``n``, in file order. Indexing gives one client's vector, of shape ``(k,)`` and dtype
    int64; it sums to that client's number of rows. The vectors of all clients are never held at
    once: memory is O(n + k).

    Built by :func:`histogram_inputs`.

    Parameters
    ----------
    name : str
        Of the table.
    column : str
        Of the table.
    categories : sequence of str or int
        What is counted, in the order of the vector.
    codes : (rows,) int32 array
        The category of each row.
    clients : int
        How many clients.

    Attributes
    ----------
    name, column : str
        The table and the column counted.
    categories : list of str, int, bool or None
        The ``k`` values counted, in the order of the vectors' entries: as the table declares
        them, or ascending for numbers. ``None``, last, counts missing values; it is there only
        if the column has any.
    """

    def __init__(
        self,
        name: str,
        column: str,
        categories: Sequence[Category],
        codes: NDArray[np.int32],
        clients: int,
    ) -> None:
        self.name = name
        self.column = column
        self.categories: list[Category] = list(categories)
        self._codes = codes
        self._clients = clients

    def __repr__(self) -> str:
        return (
            f"HistogramInputs(name={self.name!r}, column={self.column!r}, "
            f"clients={self._clients}, categories={len(self.categories)})"
        )

    def __len__(self) -> int:
        return self._clients

    @overload
    def __getitem__(self, index: int) -> NDArray[np.int64]: ...

    @overload
    def __getitem__(self, index: slice) -> list[NDArray[np.int64]]: ...

    def __getitem__(self, index: int | slice) -> NDArray[np.int64] | list[NDArray[np.int64]]:
        if isinstance(index, slice):
            return [self._count(client) for client in range(self._clients)[index]]
        # range() brings the usual meaning of negative and of too large an index.
        return self._count(range(self._clients)[index])

    def rows_of(self, client: int) -> range:
        """Which rows of the table a client holds.

        Parameters
        ----------
        client : int
            Its index.

        Returns
        -------
        range
            Numbers of rows.
        """
        client = range(self._clients)[client]
        rows = len(self._codes)
        return range(client * rows // self._clients, (client + 1) * rows // self._clients)

    def _count(self, client: int) -> NDArray[np.int64]:
        import numpy as np

        rows = self.rows_of(client)
        counts = np.bincount(self._codes[rows.start : rows.stop], minlength=len(self.categories))
        return counts.astype(np.int64)


def histogram_inputs(name: str, column: str, clients: int) -> HistogramInputs:
    """Deal the rows of a bundled table to clients and count one column at each.

    Parameters
    ----------
    name : str
        One of :func:`privagg.datasets.names`.
    column : str
        A column of categories, booleans, or integers of at most :data:`MAX_CATEGORIES` distinct
        values.
    clients : int
        Number of clients, from 1 to the number of rows; each gets a contiguous part, and the
        parts differ by one row at most.

    Returns
    -------
    HistogramInputs
        A sequence of ``clients`` int64 vectors of shape ``(k,)`` that sum to the whole table's
        histogram, with ``.categories``, the ``k`` values.

    Raises
    ------
    UsageError
        If the table or column is unknown, the column cannot be counted value by value, or the
        number of clients is out of range.
    """
    table = info(name)
    if not isinstance(column, str) or column not in table.columns:
        raise UsageError("column", column, ", ".join(table.columns), closest(column, table.columns))
    if isinstance(clients, bool) or not isinstance(clients, Integral):
        raise UsageError("clients", clients, f"an integer from 1 to {table.rows}")
    if not 1 <= clients <= table.rows:
        raise UsageError(
            "clients",
            int(clients),
            f"1 to {table.rows}: the table {name} has {table.rows} rows, and a client needs one",
        )
    data = load(name)
    encoded = _encode(data[column])
    if encoded is None:
        usable = [other for other in table.columns if _encode(data[other]) is not None]
        raise UsageError(
            "column",
            f"{column} ({data[column].type})",
            f"a column to count value by value: {', '.join(usable)}",
        )
    categories, codes = encoded
    return HistogramInputs(name, column, categories, codes, int(clients))


def _encode(values: Any) -> tuple[list[Category], NDArray[np.int32]] | None:
    """Turn a pyarrow column into categories and one index per row.

    Returns None if the column is neither categorical, boolean nor integer of few distinct values.
    """
    import numpy as np
    import pyarrow
    import pyarrow.compute

    kind = values.type
    array = values.combine_chunks()
    if pyarrow.types.is_dictionary(kind):
        categories: list[Category] = array.dictionary.to_pylist()
        indices = array.indices
    elif pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind):
        categories = sorted(array.drop_null().unique().to_pylist())
        if len(categories) > MAX_CATEGORIES:
            return None
        lookup = pyarrow.array(categories, type=kind)
        indices = pyarrow.compute.index_in(array, value_set=lookup)
    else:
        return None
    missing = len(categories)
    if indices.null_count:
        categories.append(None)
    codes = indices.cast(pyarrow.int32()).fill_null(missing)
    return categories, codes.to_numpy(zero_copy_only=False).astype(np.int32)
