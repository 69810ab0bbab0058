"""What a simulation needs of this machine, and plans without a calibration."""

from __future__ import annotations

from dataclasses import fields

from privagg.cli._reading import memory_here
from privagg.cli.common import warn
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import Params, Plan, calibration
from privagg.report import Column, Table

__all__ = ["bytes_only", "check_memory", "memory_here", "memory_needed"]

_CLIENT_EDGE_BYTES = 256
"""Held by a simulated client for each peer: keys, agreed secrets, one ciphertext, one share."""

_CLIENT_BYTES = 8192

_PROCESS_BYTES = 120 << 20
"""A worker process with the libraries it needs, before it has clients."""


def bytes_only(params: Params) -> Plan:
    """Return the plan of a round with its seconds left at zero: nothing is measured."""
    nothing = {field.name: 0.0 for field in fields(calibration.Units)}
    return secagg.plan(params, units=calibration.Units(**nothing))


def memory_needed(params: Params, workers: int, *, payloads: bool) -> float:
    """Estimate the bytes that a simulation holds at most.

    The server's part is the plan's. Beside it: the plain sum, a few vectors per worker, what each
    client keeps for each peer, the processes themselves, and the transcript's payloads.
    """
    plan = bytes_only(params)
    vectors = 8 * params.length * (4 + 4 * workers)
    clients = params.clients * (_CLIENT_BYTES + params.neighbours * _CLIENT_EDGE_BYTES)
    processes = 0 if workers == 1 else workers * _PROCESS_BYTES
    sent = plan.bytes_server if payloads else 0
    return plan.memory_server + vectors + clients + processes + sent


def check_memory(params: Params, workers: int, *, payloads: bool) -> None:
    """Refuse what this machine's memory cannot hold at all; warn of what it may not hold now."""
    needed = memory_needed(params, workers, payloads=payloads)
    available, total = memory_here()

    def size(count: float) -> str:
        return Table("", [Column("", "B")], [[count]]).texts()[0][0]

    if total is not None and needed > total:
        raise UsageError(
            "clients, dim",
            f"{params.clients} and {params.dim}, which need about {size(needed)} of memory",
            f"what fits this machine's {size(total)}",
            "Lower --dim, --clients or --workers"
            + (", choose --graph sparse" if params.graph.value == "complete" else "")
            + ", stream with --streamed"
            + (", or leave out --transcript-payloads." if payloads else "."),
        )
    if available is not None and needed > available:
        warn(f"this needs about {size(needed)} of memory; {size(available)} are available now.")
