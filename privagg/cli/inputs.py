"""Clients' inputs from a file: what each client holds, one client at a time.

Two readings of a file of arrays: *rows*, where every array has a row for each client (its first
axis), and *arrays*, where each array belongs to one client. Tables have a row for each client.
Nothing is unpickled, and nothing is put right silently: a value that cannot be summed is an error
that says where it stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.cli import _input_files, _input_npy
from privagg.cli._input_npy import Arrays
from privagg.errors import UsageError
from privagg.protocols.secagg import tiles

__all__ = ["LAYOUTS", "ClientInputs", "Extremes", "Lazy", "extremes", "leaves", "read_inputs"]

LAYOUTS = ("auto", "rows", "arrays")
_ROOM = 2


class Lazy(Sequence[Any]):
    """A sequence of `count` items, each made when it is asked for.

    Parameters
    ----------
    count : int
        Its length.
    make : callable
        Returns the item of an index from 0 to ``count - 1``; the same item each time.
    """

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._make(i) for i in range(self._count)[index]]
        return self._make(range(self._count)[index])


@dataclass(frozen=True, kw_only=True)
class ClientInputs:
    """What the clients of a round hold.

    Attributes
    ----------
    source : str
        Where it comes from, for messages.
    reading : str
        How the source was read, for people.
    vectors : sequence
        An array, or a dict of named arrays, for each client; made when asked for.
    weights : list of int, optional
        One for each client.
    dim : int
        Numbers in each client's item.
    floats : bool
        Whether any of them is a float.
    labels : tuple of str, optional
        Names of the coordinates of a table's row.
    """

    source: str
    reading: str
    vectors: Sequence[Any]
    weights: list[int] | None = None
    dim: int
    floats: bool
    labels: tuple[str, ...] | None = None

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.vectors)

    def place(self, client: int, name: str, index: tuple[int, ...]) -> str:
        """Say where a number stands."""
        if self.labels is not None:
            return f"client {client} (data row {client + 1}), column {self.labels[index[0]]!r}"
        array = f", array {name!r}" if name else ""
        at = f", index {', '.join(map(str, index))}" if index else ""
        return f"client {client}{array}{at}"


@dataclass(frozen=True, kw_only=True)
class Extremes:
    """The smallest and the largest number of all clients, and where they stand."""

    low: int | float
    low_at: str
    high: int | float
    high_at: str

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return float(max(abs(self.low), abs(self.high)))


def read_inputs(
    path: Path,
    *,
    weights: str | None = None,
    layout: str = "auto",
    columns: Sequence[str] = (),
    header: bool | None = None,
) -> ClientInputs:
    """Read the clients' inputs from a file.

    Parameters
    ----------
    path : Path
        ``.npy`` (memory-mapped), ``.npz``, ``.safetensors``, ``.csv`` or ``.parquet``.
    weights : str, optional
        The column or the array that holds the clients' weights; it is taken out of the inputs.
    layout : {"auto", "rows", "arrays"}
        For files of arrays, see the module. ``auto`` reads one array, and several of different
        shapes, as rows, and several of one shape as an array for each client.
    columns : sequence of str
        Of a table: only these columns.
    header : bool, optional
        Whether the first line of a CSV file names its columns. Without it, a first line of nothing
        but numbers is refused: it could be either.

    Returns
    -------
    ClientInputs

    Raises
    ------
    UsageError
        If the file cannot be read so, naming the file and the array, the row or the column. NaN and
        infinity are found by :func:`extremes`.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".parquet"):
        if layout == "arrays":
            raise UsageError("--layout", layout, "rows or auto for a table")
        return _table(path, weights, columns, header)
    if header is not None:
        raise UsageError("--header" if header else "--no-header", path.name, "a .csv file")
    if columns:
        raise UsageError("--column", ", ".join(columns), "columns of a .csv or .parquet file")
    if suffix == ".npy":
        if weights is not None:
            hint = "Store vectors and weights as named arrays of an .npz file."
            raise UsageError("--weights", weights, "nothing for an .npy file", hint)
        if layout == "arrays":
            raise UsageError(
                "--layout", layout, "rows or auto for an .npy file, which is one array"
            )
        return _rows(_input_npy.open_npy(path), "rows")
    if suffix == ".npz":
        return _rows(_input_npy.open_npz(path), layout, weights)
    if suffix == ".safetensors":
        return _rows(_input_files.open_safetensors(path), layout, weights)
    raise UsageError(
        "--input", path.name, "a file ending in .npy, .npz, .csv, .parquet or .safetensors"
    )


def extremes(inputs: ClientInputs) -> Extremes:
    """Look at every number once, one client at a time.

    Raises
    ------
    UsageError
        If a number is NaN or infinite; it says where.
    """
    low: int | float = math.inf
    high: int | float = -math.inf
    low_at = high_at = ""
    for client in range(inputs.clients):
        for name, array in leaves(inputs.vectors[client]):
            numbers = array.reshape(-1)

            def place(
                flags: NDArray[np.bool_], first: int, shape: tuple[int, ...] = array.shape
            ) -> tuple[int, ...]:
                at = first + int(np.argmax(flags))
                return tuple(int(i) for i in np.unravel_index(at, shape))

            for first, end in tiles.spans(numbers.size):  # a memory map may be longer than memory
                part = numbers[first:end]
                least, most = part.min().item(), part.max().item()
                if not (math.isfinite(least) and math.isfinite(most)):
                    index = place(~np.isfinite(part), first)
                    raise UsageError(
                        inputs.source,
                        f"{array[index].item()} for {inputs.place(client, name, index)}",
                        "finite numbers",
                    )
                if least < low:
                    low, low_at = least, inputs.place(client, name, place(part == least, first))
                if most > high:
                    high, high_at = most, inputs.place(client, name, place(part == most, first))
                tiles.release(part)
    return Extremes(low=low, low_at=low_at, high=high, high_at=high_at)


def leaves(item: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield what one client holds: each array and its name, empty where there is one only."""
    if isinstance(item, dict):
        for name, array in item.items():
            yield name, np.asarray(array)
    else:
        yield "", np.asarray(item)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort client_2 before client_10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def _rows(file: Arrays, layout: str, weights: str | None = None) -> ClientInputs:
    """Read a file of arrays, as rows or as an array for each client."""
    names = list(file.shapes)
    if weights is not None:
        if weights not in names:
            raise UsageError("--weights", weights, f"an array of {file.name}: {_some(names)}")
        names.remove(weights)
    if not names:
        raise UsageError(file.name, "no arrays", "an array for each client, or arrays of rows")
    for name in names:
        _check_numbers(file, name)
    if layout == "auto":
        same = len({(file.shapes[name], file.dtypes[name]) for name in names}) == 1
        layout = "arrays" if len(names) > 1 and same else "rows"
    if layout == "arrays":
        return _client_arrays(file, sorted(names, key=_natural), weights)
    first = names[0]
    for name in names:
        shape = file.shapes[name]
        if shape == ():
            raise UsageError(f"{file.name}, array {name!r}", "a single number", "a row per client")
        if shape[0] != file.shapes[first][0]:
            raise UsageError(
                f"{file.name}, array {name!r}",
                f"shape {shape} beside {file.shapes[first]} of {first!r}",
                "arrays of one shape and dtype (one for each client), or arrays of as many rows",
            )
    clients = file.shapes[first][0]
    _enough(file.name, clients, "rows")
    if len(names) == 1:

        def one(client: int) -> Any:
            return file.row(first, client)

        make, what = one, f"one array of shape {file.shapes[first]}"
    else:

        def named(client: int) -> Any:
            return {name: file.row(name, client) for name in names}

        make, what = named, f"the {len(names)} arrays {_some(names)}"
    return ClientInputs(
        source=file.name,
        reading=f"{clients} clients, each with a row of {what}" + _weighted(weights),
        vectors=Lazy(clients, make),
        weights=_array_weights(file, weights, clients),
        dim=sum(math.prod(file.shapes[name][1:]) for name in names),
        floats=any(file.dtypes[name].kind == "f" for name in names),
    )


def _client_arrays(file: Arrays, names: list[str], weights: str | None) -> ClientInputs:
    first = names[0]
    shape, dtype = file.shapes[first], file.dtypes[first]
    for name in names:
        if (file.shapes[name], file.dtypes[name]) != (shape, dtype):
            raise UsageError(
                f"{file.name}, array {name!r}",
                f"{file.dtypes[name]} of shape {file.shapes[name]}",
                f"{dtype} of shape {shape}, as {first!r}, for an array per client",
                "If each array has a row for each client: --layout rows.",
            )
    _enough(file.name, len(names), "arrays")
    return ClientInputs(
        source=file.name,
        reading=f"{len(names)} clients, each with one of the arrays {_some(names)} "
        f"of shape {shape}" + _weighted(weights),
        vectors=Lazy(len(names), lambda client: file.whole(names[client])),
        weights=_array_weights(file, weights, len(names)),
        dim=math.prod(shape),
        floats=dtype.kind == "f",
    )


def _check_numbers(file: Arrays, name: str) -> None:
    dtype, shape = file.dtypes[name], file.shapes[name]
    where = f"{file.name}, array {name!r}" if name else file.name
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        hint = "Convert it, for example with .astype('int64')." if dtype.kind == "b" else ""
        raise UsageError(where, f"dtype {dtype}", "integers and floats of at most 64 bits", hint)
    if 0 in shape:
        raise UsageError(where, f"no numbers: shape {shape}", "at least one number per client")


def _array_weights(file: Arrays, name: str | None, clients: int) -> list[int] | None:
    if name is None:
        return None
    where = f"{file.name}, array {name!r}"
    if file.shapes[name] != (clients,):
        raise UsageError(
            where,
            f"weights of shape {file.shapes[name]}",
            f"shape ({clients},), one weight for each client",
            "Arrays of one shape are read as one for each client: see --layout.",
        )
    return _whole_weights(where, file.whole(name))


def _whole_weights(where: str, values: NDArray[Any]) -> list[int]:
    if values.dtype.kind not in "iu":
        hint = "Weights are counts, such as a client's number of examples."
        raise UsageError(where, f"weights of dtype {values.dtype}", "integers from 0", hint)
    if values.min() < 0:
        at = int(np.argmax(values < 0))
        raise UsageError(where, f"{values[at]} for client {at}", "integers from 0")
    return [int(value) for value in values]


def _table(
    path: Path, weights: str | None, columns: Sequence[str], header: bool | None
) -> ClientInputs:
    table = _input_files.read_table(path, header)
    for flag, name in [("--column", c) for c in columns] + [("--weights", weights)]:
        if name is not None and name not in table:
            raise UsageError(flag, name, f"a column of {path.name}: {_some(list(table))}")
    names = [n for n in (dict.fromkeys(columns) or table) if n != weights]
    if not names:
        raise UsageError(path.name, "no columns to sum", "at least one numeric column")
    arrays = {n: _input_files.numbers(path.name, n, table[n]) for n in names}
    _input_files.check_integers(path, arrays, header)
    clients = len(arrays[names[0]])
    _enough(path.name, clients, "rows")
    matrix = _stack(path.name, arrays)
    counts = None
    if weights is not None:
        where = f"{path.name}, column {weights!r}"
        counts = _whole_weights(where, _input_files.numbers(path.name, weights, table[weights]))
    return ClientInputs(
        source=path.name,
        reading=f"{clients} clients, a row each; {len(names)} columns: {_some(names)}"
        + _weighted(weights),
        vectors=Lazy(clients, lambda client: matrix[client]),
        weights=counts,
        dim=len(names),
        floats=matrix.dtype.kind == "f",
        labels=tuple(names),
    )


def _stack(source: str, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Put columns side by side: int64 if all are integers, else float64; exactly, or not at all."""
    floats = any(array.dtype.kind == "f" for array in arrays.values())
    limit = 2**53 if floats else 2**63 - 1
    for name, array in arrays.items():
        if array.dtype.kind != "f" and max(abs(int(array.min())), int(array.max())) > limit:
            at = int(np.argmax([abs(int(value)) for value in array]))
            raise UsageError(
                source,
                f"{array[at]} in data row {at + 1}, column {name!r}",
                "integers up to 2**53 beside floats" if floats else "integers below 2**63",
            )
    dtype = np.float64 if floats else np.int64
    return np.stack([array.astype(dtype) for array in arrays.values()], axis=1)


def _enough(source: str, clients: int, what: str) -> None:
    if clients < _ROOM:
        raise UsageError(
            source,
            f"{clients} client{'s' if clients != 1 else ''}",
            f"at least {_ROOM} clients: {what}",
            "One client's sum is its input.",
        )


def _some(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 6 else [*names[:4], "…", names[-1]]
    return ", ".join(shown) or "none"


def _weighted(weights: str | None) -> str:
    return "" if weights is None else f"; weights from {weights!r}"
