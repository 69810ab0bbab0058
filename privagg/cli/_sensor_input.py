"""Readings and places of real nodes from a table; deaths from options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privagg import entropy
from privagg._validate import proportion
from privagg.cli import _input_files
from privagg.errors import UsageError

__all__ = ["Placed", "deaths", "read"]


_FAR = 1e11  # metres


@dataclass(frozen=True)
class Placed:
    """Nodes with a place and a reading.

    Attributes
    ----------
    values : (nodes,) array
        Readings.
    positions : (nodes, 2) float array
        Metres, moved so that the smallest coordinate on either axis is 0.
    side : float
        Of the smallest square that holds them.
    """

    values: NDArray[np.float64] | NDArray[np.int64]
    positions: NDArray[np.float64]
    side: float


def read(path: Path, x: str, y: str, value: str) -> Placed:
    """Read a table with a row for each node.

    Raises
    ------
    UsageError
        If it is no such table, lacks a column, or a cell is missing or no finite number.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("--input", path.name, "a .csv or .parquet table")
    table = _input_files.read_table(path, None, "a row for each node")
    flags = {"--x-column": x, "--y-column": y, "--value-column": value}
    for flag, name in flags.items():
        if name not in table:
            raise UsageError(flag, name, f"one of {', '.join(table)}")
    hint = f"Name other columns with {', '.join(flags)}."
    arrays = {
        name: _input_files.numbers(path.name, name, table[name], hint) for name in {x, y, value}
    }
    if path.suffix.lower() == ".csv":
        _input_files.check_integers(path, arrays, None)
    places = np.stack([arrays[x].astype(np.float64), arrays[y].astype(np.float64)], axis=1)
    good = (np.abs(places) <= _FAR).all(axis=1)
    if not good.all():
        row = int(np.argmin(good)) + 1
        found = "a place that is no number, or too far"
        raise UsageError(f"{path.name}, data row {row}", found, "metres, up to 1e11 either way")
    places = places - places.min(axis=0)
    return Placed(arrays[value], places, max(float(places.max()), 1e-9))


def deaths(
    named: Sequence[str], rate: float, nodes: int, epochs: int, seed: int | None
) -> dict[int, tuple[int, str]]:
    """Return who dies when, of ``NODE:STEP`` words and a rate.

    Raises
    ------
    UsageError
        If a word is none, or names a node twice, or the rate is no fraction.
    """
    from privagg.protocols.sensor import STEPS

    plan: dict[int, tuple[int, str]] = {}
    for word in named:
        node, _, step = word.partition(":")
        if not node.isascii() or not node.isdigit() or step not in STEPS:
            raise UsageError("--die", word, f"NODE:STEP, with a step of {', '.join(STEPS)}")
        if int(node) in plan:
            raise UsageError("--die", word, "each node once")
        plan[int(node)] = (0, step)
    rate = proportion("--death-rate", rate)
    source = entropy.from_seed(seed).spawn("deaths")
    random = np.random.Generator(np.random.PCG64(int.from_bytes(source.take(16), "little")))
    for node in random.choice(nodes, round(rate * nodes), replace=False).tolist():
        if node not in plan:
            plan[node] = (int(random.integers(epochs)), STEPS[int(random.integers(len(STEPS)))])
    return plan
