"""Invariants, each a function with a name and a test that breaks it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.errors import Abort, PeerError
from privagg.protocols.additive.messages import Message
from privagg.protocols.additive.params import Params

__all__ = [
    "cohort_is_large_enough",
    "cohort_within_holders",
    "includes_this_client",
    "one_set_only",
    "same_session",
]


def same_session(message: Message, tag: bytes, peer: str | int) -> None:
    """Require this session's and configuration's tag."""
    if message.tag != tag:
        raise PeerError(peer, message.round, "a message of another session or configuration")


def cohort_is_large_enough(members: NDArray[np.bool_], params: Params, round: str) -> None:
    """Require ``min_cohort`` members: a sum of fewer is never helped with."""
    found = int(members.sum())
    if found < params.min_cohort:
        raise Abort(f"round {round}: the cohort is below min_cohort", found, params.min_cohort)


def cohort_within_holders(members: NDArray[np.bool_], holders: NDArray[np.bool_]) -> None:
    """Require a seed of everyone in the sum: else masks would stay in it."""
    outside = members & ~holders
    if outside.any():
        who = int(np.argmax(outside))
        raise PeerError("leader", "sum-masks", f"client {who} is in the sum, and sent no seed")


def includes_this_client(members: NDArray[np.bool_], index: int) -> None:
    """Require that a client that is asked for its vector is in the set that it is shown."""
    if not members[index]:
        raise PeerError("leader", "masked-input", "a set without the client that it is sent to")


def one_set_only(first: bytes, again: bytes, round: str) -> None:
    """Require the set of the first time: two sets would differ by the inputs of few."""
    if first != again:
        raise PeerError("leader", round, "a second set that differs from the first")
