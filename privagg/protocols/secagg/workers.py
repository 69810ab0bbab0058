"""How many worker processes make a simulated round faster."""

from __future__ import annotations

import os

from privagg._validate import whole
from privagg.protocols.secagg.arguments import check_params
from privagg.protocols.secagg.params import Params

__all__ = ["available_cores", "recommended_workers"]

_PEER = 170e-6
"""CPU seconds of a client for each peer: two agreements, and what is derived and encrypted."""

_STREAMED = 0.4e-9
"""CPU seconds for each coordinate of each mask."""

_COORDINATE = 8e-9
"""CPU seconds for each coordinate of a client's vector, encoded, packed, unpacked and added."""

_WORTH = 4.0
"""CPU seconds from which on it pays: workers take one to start, and two halve the rest."""


def available_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def recommended_workers(params: Params, cores: int | None = None) -> int:
    """Return how many worker processes to give to :func:`privagg.protocols.secagg.run`.

    One where a round takes a few seconds of CPU at most, by a rough guess that measures nothing:
    starting workers would take as long as they save. Else one for each core, but no more than
    clients.

    Parameters
    ----------
    params : Params
        The round.
    cores : int, optional
        Cores to use; all that this process may use if left out.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    check_params(params)
    cores = available_cores() if cores is None else whole("cores", cores, 1, 1024)
    pairs = params.clients * params.neighbours
    seconds = pairs * (_PEER + params.length * _STREAMED) + params.clients * params.length * (
        _STREAMED + _COORDINATE
    )
    return 1 if seconds < _WORTH else min(cores, params.clients)
