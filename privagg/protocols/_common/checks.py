"""Invariants that clients of several protocols hold, each a function with a name.

What fails is a :class:`~privagg.errors.PeerError` against the server, or an
:class:`~privagg.errors.Abort` where too few are left.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.errors import Abort, PeerError

__all__ = [
    "bitmap_covers_roster",
    "cohort_is_large_enough",
    "cohort_matches_set",
    "index_is_ours",
    "keys_are_canonical",
    "keys_are_distinct",
    "keys_have_full_order",
    "no_ciphertext_to_self",
    "own_keys_are_listed",
    "parameters_are_ours",
    "same_round",
    "signatures_are_valid",
    "signers_within_survivors",
    "survivors_include_self",
    "survivors_within_holders",
]

_SERVER = "server"


class _Tagged(Protocol):
    @property
    def tag(self) -> bytes: ...
    @property
    def round(self) -> str: ...


class _Opening(_Tagged, Protocol):
    @property
    def client(self) -> int: ...
    @property
    def params_digest(self) -> bytes: ...


class _Listing(_Tagged, Protocol):
    @property
    def members(self) -> NDArray[np.uint32]: ...
    @property
    def keys(self) -> NDArray[np.uint8]: ...
    @property
    def universe(self) -> int: ...


class _Signatures(_Tagged, Protocol):
    @property
    def signers(self) -> NDArray[np.bool_]: ...
    @property
    def signatures(self) -> NDArray[np.uint8]: ...


class _Directory(Protocol):
    def verify(self, client: int, message: bytes, signature: bytes) -> bool: ...


class _Cohort(Protocol):
    @property
    def clients(self) -> int: ...
    def digest(self) -> bytes: ...


class _Insisting(Protocol):
    @property
    def min_cohort(self) -> int: ...


def same_round(message: _Tagged, tag: bytes) -> None:
    """Require this session's, round's and configuration's tag on the message."""
    if message.tag != tag:
        raise PeerError(
            _SERVER, message.round, "the message is of another session, round or configuration"
        )


def parameters_are_ours(start: _Opening, params: _Cohort) -> None:
    """Require the server's parameters to be this client's, and an index within the cohort."""
    if start.params_digest != params.digest():
        raise PeerError(_SERVER, start.round, "the server's parameters differ from ours")
    if start.client >= params.clients:
        raise PeerError(
            _SERVER, start.round, f"index {start.client} where there are {params.clients} clients"
        )


def index_is_ours(directory: _Directory, index: int, statement: bytes, signature: bytes) -> None:
    """Require that the roster has this client's identity at the index that the server gave it."""
    if not directory.verify(index, statement, signature):
        raise PeerError(
            _SERVER, "advertise-keys", f"index {index} is another identity's in the roster"
        )


def cohort_is_large_enough(count: int, policy: _Insisting, params: _Cohort, round: str) -> None:
    """Require the policy's minimum in a survivor set, and no more than were invited."""
    if count > params.clients:
        raise PeerError(_SERVER, round, f"a cohort of {count} where {params.clients} were invited")
    if count < policy.min_cohort:
        raise Abort(f"round {round}: the cohort is below min_cohort", count, policy.min_cohort)


def cohort_matches_set(count: int, named: int, complete: bool, round: str) -> None:
    """Require a stated cohort to be the set itself, or a set that these neighbours fit into.

    Else a server could state a large cohort beside a small set, and ``min_cohort`` would be void.
    `named` counts the members of the set, this client included.
    """
    if count != named if complete else count < named:
        raise PeerError(_SERVER, round, f"a cohort of {count} with {named} clients named")


def keys_are_distinct(roster: _Listing, own: tuple[bytes, ...]) -> None:
    """Require that no public key appears twice: across clients, as both keys of one, or our own."""
    rows = roster.keys.reshape(-1, keys.KEY_BYTES)
    seen = {row.tobytes() for row in rows}
    expected = len(rows)
    if roster.universe == 0:  # the sparse graph's roster does not contain the receiver
        seen.update(own)
        expected += len(own)
    if len(seen) != expected:
        raise PeerError(_SERVER, roster.round, "a public key appears twice in the roster")


def keys_are_canonical(roster: _Listing) -> None:
    """Require the one encoding of each field element: else distinct keys could be one point."""
    members = len(roster.members)
    good = keys.canonical_points(roster.keys.reshape(-1, keys.KEY_BYTES)).reshape(members, -1)
    if not good.all():
        culprit = int(roster.members[int(np.argmin(good.all(axis=1)))])
        raise PeerError(culprit, roster.round, "a public key that is not canonically encoded")


def keys_have_full_order(roster: _Listing) -> None:
    """Require public keys of full order: with the others every agreement is known to everyone."""
    rows = roster.keys.reshape(len(roster.members), -1, keys.KEY_BYTES)
    for member, row in zip(roster.members, rows, strict=True):
        if any(key.tobytes() in keys.LOW_ORDER_POINTS for key in row):
            raise PeerError(int(member), roster.round, "a public key that is a point of low order")


def own_keys_are_listed(roster: _Listing, index: int, own: tuple[bytes, ...]) -> None:
    """Require this client's own keys in a complete roster, itself absent from a sparse one."""
    at = np.flatnonzero(roster.members == index)
    if roster.universe == 0:
        if len(at):
            raise PeerError(_SERVER, roster.round, "this client is listed as its own neighbour")
        return
    if not len(at):
        raise PeerError(_SERVER, roster.round, "this client is not in the roster")
    if roster.keys[at[0]].tobytes() != b"".join(own):
        raise PeerError(_SERVER, roster.round, "the roster lists other keys for this client")


def bitmap_covers_roster(flags: NDArray[np.bool_], members: int, round: str) -> None:
    """Require a set of peers over the roster this client was shown, neither more nor fewer."""
    if len(flags) != members:
        raise PeerError(
            _SERVER, round, f"a bitmap over {len(flags)} members; the roster had {members}"
        )


def no_ciphertext_to_self(present: NDArray[np.bool_], own_slot: int) -> None:
    """Require that no ciphertext claims to come from this client itself."""
    if present[own_slot]:
        raise PeerError(_SERVER, "masked-input", "a ciphertext from this client to itself")


def survivors_within_holders(
    survivors: NDArray[np.bool_], holders: NDArray[np.bool_], members: NDArray[np.uint32]
) -> None:
    """Require that U3 is a subset of U2: nobody survives who never shared its keys."""
    outside = survivors & ~holders
    if outside.any():
        culprit = int(members[int(np.argmax(outside))])
        raise PeerError(
            _SERVER, "unmasking", f"client {culprit} is called a survivor but never shared its keys"
        )


def survivors_include_self(survivors: NDArray[np.bool_], own_slot: int | None) -> None:
    """Require that a client which is asked for shares is a survivor itself."""
    if own_slot is not None and not survivors[own_slot]:
        raise PeerError(_SERVER, "unmasking", "this client is asked to unmask a sum it is not in")


def signers_within_survivors(
    signers: NDArray[np.bool_], survivors: NDArray[np.bool_], members: NDArray[np.uint32]
) -> None:
    """Require that U4 is a subset of U3."""
    outside = signers & ~survivors
    if outside.any():
        culprit = int(members[int(np.argmax(outside))])
        raise PeerError(_SERVER, "unmasking", f"client {culprit} signed but is no survivor")


def signatures_are_valid(
    message: _Signatures, members: NDArray[np.uint32], statement: bytes, directory: _Directory
) -> None:
    """Require every signature to be over the very sets (and model) that this client signed."""
    signers: NDArray[Any] = members[message.signers]
    for signer, signature in zip(signers, message.signatures, strict=True):
        if not directory.verify(int(signer), statement, signature.tobytes()):
            raise PeerError(
                _SERVER,
                message.round,
                f"the signature of client {int(signer)} is not over what this client was shown: "
                "the survivor set, the sharers, the keys or the model differ",
            )
