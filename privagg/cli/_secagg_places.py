"""Where the clients of ``simulate secagg`` live: here, in processes, or in a Ray cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager

from privagg.cli.common import Options, note
from privagg.protocols import secagg as protocol
from privagg.protocols.secagg import Params
from privagg.protocols.secagg.engine import Engine
from privagg.protocols.secagg.parties import engine_of
from privagg.protocols.secagg.workers import available_cores

__all__ = ["elsewhere", "engine", "workers"]


def elsewhere(place: str) -> str | None:
    """Return the place if it is not this machine's own, for checks of what goes with it."""
    return None if place == "local" else place


def workers(
    params: Params, given: int | None, place: str, address: str | None, options: Options
) -> int:
    """Return how many workers to use, and say so where nobody asked for several.

    In a cluster: one for each of its CPUs, which only the cluster knows; what is returned then is
    how many there may be.
    """
    if given is not None:
        return min(given, params.clients)
    if place == "ray":
        return min(params.clients, 1024 if address is not None else available_cores())
    chosen = protocol.recommended_workers(params)
    if chosen > 1:
        note(options, f"--workers {chosen}: one for each core.")
    return chosen


def engine(
    params: Params, count: int, given: int | None, place: str, address: str | None
) -> AbstractContextManager[Engine]:
    """Return the engine, to be closed after the round."""
    if place == "local":
        return engine_of(params, count)
    from privagg.integrations.ray import RayEngine

    return RayEngine(None if given is None else count, address=address, at_most=count)
