"""Who leaves a simulated round, and when."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import ROUNDS

__all__ = ["draw", "read"]


def draw(clients: int, count: int, before: str, entropy: Entropy) -> dict[int, str]:
    """Choose `count` of the clients, each set as likely, to leave before one round."""
    keys = np.frombuffer(entropy.take(8 * clients), np.uint64)
    return {int(client): before for client in np.sort(np.argsort(keys, kind="stable")[:count])}


def read(path: Path, clients: int) -> dict[int, str]:
    """Read a schedule: a JSON object of round name to the list of clients that leave before it.

    Raises
    ------
    UsageError
        If the file is no such object, or a client is unknown or leaves twice.
    """
    try:
        schedule = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except UsageError as error:
        raise UsageError(path.name, error.found, error.allowed) from None
    except ValueError as error:
        raise UsageError(path.name, f"no JSON ({error})", "a JSON object") from error
    if not isinstance(schedule, dict):
        shape = 'an object such as {"masked-input": [3, 5]}'
        raise UsageError(path.name, type(schedule).__name__, shape)
    leaves: dict[int, str] = {}
    for name, indices in schedule.items():
        where = f"{path.name}, {name!r}"
        if name not in ROUNDS:
            raise UsageError(path.name, f"round {name!r}", ", ".join(ROUNDS))
        if not isinstance(indices, list):
            raise UsageError(where, type(indices).__name__, "a list of clients' indices")
        for index in indices:
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < clients:
                raise UsageError(where, index, f"clients from 0 to {clients - 1}")
            if index in leaves:
                raise UsageError(where, f"client {index} again", "each client once: it leaves once")
            leaves[index] = name
    return leaves


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError("schedule", f"{name!r} twice", "each round once")
    return dict(pairs)
