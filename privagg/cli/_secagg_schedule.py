"""Who leaves a simulated round, and when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privagg.cli._reading import read_text, reading
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import ROUNDS

__all__ = ["draw", "read"]

_MAX_BYTES = 1 << 26
"""More than the indices of the largest cohort take."""


def draw(clients: int, count: int, before: str, entropy: Entropy) -> dict[int, str]:
    """Choose `count` of the clients, each set as likely, to leave before one round."""
    keys = np.frombuffer(entropy.take(8 * clients), np.uint64)
    return {int(client): before for client in np.sort(np.argsort(keys, kind="stable")[:count])}


def read(path: Path, clients: int, rounds: Sequence[str] = ROUNDS) -> dict[int, str]:
    """Read a schedule: a JSON object of round name to the list of clients that leave before it.

    Raises
    ------
    UsageError
        If the file is no such object, or a client is unknown or leaves twice.
    """
    text = read_text(path, _MAX_BYTES)
    try:
        with reading(path.name, "a JSON object", found="no JSON"):
            schedule = json.loads(text, object_pairs_hook=_once)
    except _Twice as error:
        raise UsageError(path.name, f"{error.name!r} twice", "each round once") from None
    if not isinstance(schedule, dict):
        shape = 'an object such as {"masked-input": [3, 5]}'
        raise UsageError(path.name, type(schedule).__name__, shape)
    leaves: dict[int, str] = {}
    for name, indices in schedule.items():
        where = f"{path.name}, {name!r}"
        if name not in rounds:
            raise UsageError(path.name, f"round {name!r}", ", ".join(rounds))
        if not isinstance(indices, list):
            raise UsageError(where, type(indices).__name__, "a list of clients' indices")
        for index in indices:
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < clients:
                raise UsageError(where, index, f"clients from 0 to {clients - 1}")
            if index in leaves:
                raise UsageError(where, f"client {index} again", "each client once: it leaves once")
            leaves[index] = name
    return leaves


class _Twice(Exception):
    """A name that an object has twice."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(name)
        found[name] = value
    return found
