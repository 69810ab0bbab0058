"""Every exception that privagg raises.

Two families are kept apart, as an auditor needs them: what *you* did (:class:`UsageError`,
:class:`CapacityError`) and what *they* did (:class:`PeerError`). :class:`Abort` is neither: a
protocol stopped because too few parties were left, and nothing was revealed. Nor is
:class:`WorkerLost`, of a simulation whose process was ended.

Each class carries the exit code with which the command line ends.
"""

from __future__ import annotations

__all__ = ["Abort", "CapacityError", "PeerError", "PrivaggError", "UsageError", "WorkerLost"]


class PrivaggError(Exception):
    """Base of all exceptions of this package."""

    exit_code = 1


class UsageError(PrivaggError, ValueError):
    """You passed something that is not allowed.

    Parameters
    ----------
    argument : str
        Name of the argument (or of the file, column, field) at fault.
    value : object
        What was found. Only its ``repr`` is kept, cut to 80 characters: never pass a secret.
    allowed : str
        What is allowed.
    hint : str, optional
        The next step to take.
    """

    exit_code = 2

    def __init__(self, argument: str, value: object, allowed: str, hint: str = "") -> None:
        found = value if isinstance(value, str) else repr(value)
        if len(found) > 80:
            found = found[:77] + "..."
        self.argument = argument
        self.found = found
        self.allowed = allowed
        self.hint = hint
        tail = f" {hint}" if hint else ""
        super().__init__(f"{argument}: found {found}; allowed: {allowed}.{tail}")


class CapacityError(UsageError):
    """A sum could wrap around its modulus; raised before anything is sent."""


class PeerError(PrivaggError):
    """A peer misbehaved or sent something malformed.

    Parameters
    ----------
    peer : str or int
        Who: a client's index, or ``"server"``.
    round : str
        The protocol's round in which it was noticed.
    reason : str
        What was wrong, and what is allowed.
    """

    exit_code = 4

    def __init__(self, peer: str | int, round: str, reason: str) -> None:
        self.peer = peer
        self.round = round
        self.reason = reason
        who = f"client {peer}" if isinstance(peer, int) else peer
        super().__init__(f"{who}, round {round}: {reason}")


class Abort(PrivaggError):
    """Too few parties are left to go on. Nothing about any input was revealed.

    Parameters
    ----------
    reason : str
        Which set became too small, and in which round.
    alive : int
        How many are left.
    needed : int
        How many would be needed.
    """

    exit_code = 3

    def __init__(self, reason: str, alive: int, needed: int) -> None:
        self.reason = reason
        self.alive = alive
        self.needed = needed
        super().__init__(f"{reason}: {alive} left, {needed} needed")


class WorkerLost(PrivaggError):
    """A worker process ended before its work was done. Nothing was revealed; start again.

    Parameters
    ----------
    worker : str
        Which one.
    end : str
        How it ended.
    doing : str
        What it was asked to do.
    """

    def __init__(self, worker: str, end: str, doing: str) -> None:
        self.worker = worker
        self.end = end
        self.doing = doing
        super().__init__(
            f"{worker} {end} during {doing}. If the memory was short, use fewer workers or a "
            "smaller round."
        )
