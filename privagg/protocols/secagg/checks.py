"""The protocol's invariants, each a function with a name and a test that breaks it.

A client calls them on what the server says. What fails is a :class:`~privagg.errors.PeerError`
against the server, or an :class:`~privagg.errors.Abort` where too few are left; in both cases the
client has revealed nothing by the message that it then does not send.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols._common.checks import (
    bitmap_covers_roster,
    cohort_is_large_enough,
    cohort_matches_set,
    index_is_ours,
    keys_are_canonical,
    keys_are_distinct,
    keys_have_full_order,
    no_ciphertext_to_self,
    own_keys_are_listed,
    parameters_are_ours,
    same_round,
    signatures_are_valid,
    signers_within_survivors,
    survivors_include_self,
    survivors_within_holders,
)
from privagg.protocols.secagg import derivations, layout, thresholds
from privagg.protocols.secagg.client_state import ClientMemory
from privagg.protocols.secagg.identity import Directory
from privagg.protocols.secagg.messages import (
    GraphChallenge,
    GraphRequest,
    KeyRoster,
    SignatureSet,
    SurvivorSet,
)
from privagg.protocols.secagg.params import Params, Policy
from privagg.protocols.secagg.thresholds import Graph

__all__ = [
    "bitmap_covers_roster",
    "index_is_ours",
    "keys_are_signed",
    "neighbours_were_told",
    "no_ciphertext_to_self",
    "own_statement",
    "parameters_are_ours",
    "signatures_are_valid",
    "signatures_are_acceptable",
    "signers_within_survivors",
    "survivors_are_acceptable",
    "threshold_exceeds_equivocation",
    "cohort_is_large_enough",
    "cohort_matches_set",
    "enough_holders",
    "keys_are_canonical",
    "keys_are_distinct",
    "keys_have_full_order",
    "own_keys_are_listed",
    "policy_is_met",
    "same_draw",
    "same_round",
    "sharer_statement",
    "survivors_include_self",
    "survivors_within_holders",
]

_SERVER = "server"


@lru_cache(maxsize=64)
def _corrupt_holders(clients: int, corrupt: int, neighbours: int, sigma: int) -> int:
    return thresholds.max_corrupt_holders(clients, corrupt, neighbours, sigma)


def policy_is_met(params: Params, policy: Policy) -> None:
    """Hold the threshold above the shares of one secret that the corrupt can have, and above 1.

    Against servers that lie it must also exceed half of the holders and the corrupt together. In
    the complete graph they hold as many as they are; in the sparse one as many as are among one
    client's neighbours but for a probability of ``2**-sigma`` over all clients.

    Raises
    ------
    UsageError
        If the parameters do not meet the policy: this client must not take part.
    """
    if policy.min_cohort > params.clients:
        raise UsageError(
            "policy.min_cohort",
            policy.min_cohort,
            f"at most the {params.clients} clients of the round",
            "Wait for a larger cohort.",
        )
    if policy.roster is not None and len(policy.roster) != params.clients:
        raise UsageError(
            "policy.roster",
            f"{len(policy.roster)} identities",
            f"one for each of the {params.clients} clients",
        )
    held = policy.max_corrupt
    if params.graph is Graph.SPARSE:
        held = _corrupt_holders(params.clients, held, params.neighbours, params.sigma)
    least = max(held + 1, 2)
    if params.signed:
        # 2t > N + corrupt: no two sets of t holders share only liars, so that a server cannot get
        # one kind of share from one set and the other kind from another.
        least = max(least, (params.holders + held) // 2 + 1)
        if policy.roster is None:
            raise UsageError(
                "policy.roster",
                "none",
                f"the clients' identities, where the threat model is {params.threat.value}",
                "Pass a Roster, or choose threat='semi-honest' knowingly.",
            )
    if params.threshold < least:
        raise UsageError(
            "params.threshold",
            params.threshold,
            f"at least {least} when {policy.max_corrupt} clients may collude",
            "Refuse the round, or ask for parameters with a higher threshold.",
        )


def same_draw(message: GraphRequest | GraphChallenge, attempts: int) -> None:
    """Require the draw of the graph that is due, where this client committed in `attempts` draws.

    A late message of an earlier draw changes nothing, as one of another round.
    """
    due = attempts if isinstance(message, GraphRequest) else attempts - 1
    if message.attempt != due:
        raise PeerError(
            _SERVER, message.round, f"draw {message.attempt} of the graph where {due} is due"
        )


def enough_holders(count: int, params: Params, round: str) -> None:
    """Require t parties that hold, or will hold, shares of this client's secrets."""
    if count < params.threshold:
        raise Abort(f"round {round}: too few hold shares", count, params.threshold)


def keys_are_signed(roster: KeyRoster, context: bytes, directory: Directory) -> None:
    """Require each member's signature over its keys, for this round and its own index."""
    signatures = roster.signatures
    if signatures is None or len(signatures) != len(roster.members):
        raise PeerError(_SERVER, roster.round, "not one signature for each member's keys")
    for member, row, signature in zip(roster.members, roster.keys, signatures, strict=True):
        cipher_key, mask_key = row[: keys.KEY_BYTES].tobytes(), row[keys.KEY_BYTES :].tobytes()
        statement = derivations.advertise_statement(context, int(member), cipher_key, mask_key)
        if not directory.verify(int(member), statement, signature.tobytes()):
            raise PeerError(
                int(member), roster.round, "keys that its identity has not signed for this round"
            )


def threshold_exceeds_equivocation(holders: int, params: Params, policy: Policy) -> None:
    """Require 2t > N + corrupt over the holders that are really there (complete graph, signed).

    Then no two sets of t answers can both be had by lying to the honest: one kind of share each.
    """
    if not params.signed or params.graph is not Graph.COMPLETE:
        return
    if 2 * params.threshold <= holders + policy.max_corrupt:
        raise PeerError(
            _SERVER,
            "masked-input",
            f"{holders} holders of shares: 2t = {2 * params.threshold} must exceed "
            f"{holders} + {policy.max_corrupt}",
        )


def survivors_are_acceptable(
    message: SurvivorSet, memory: ClientMemory, params: Params, policy: Policy
) -> None:
    """Require of a survivor set all that the functions above say of one."""
    flags = message.survivors
    cohort_is_large_enough(message.cohort, policy, params, message.round)
    bitmap_covers_roster(flags, len(memory.members), message.round)
    survivors_within_holders(flags, memory.holders, memory.members)
    own_slot = memory.own_slot
    survivors_include_self(flags, own_slot)
    named = int(flags.sum()) + (own_slot is None)
    cohort_matches_set(message.cohort, named, own_slot is not None, message.round)
    enough_holders(int(flags.sum()), params, message.round)


def own_statement(memory: ClientMemory, params: Params) -> bytes:
    """Return what this client signs of the survivor set it was shown."""
    if params.graph is Graph.SPARSE:
        view = layout.pack_view(memory.survivors, params)
        return derivations.view_statement(b"survivors", *memory.bound, memory.own_index, view)
    return derivations.survivor_statement(
        memory.context,
        memory.roster,
        memory.model,
        memory.members[memory.holders],
        memory.members[memory.survivors],
    )


def sharer_statement(memory: ClientMemory, params: Params) -> bytes:
    """Return what this client signs with its masked input: whose ciphertexts it was shown."""
    view = layout.pack_view(memory.holders, params)
    return derivations.view_statement(b"sharers", *memory.bound, memory.own_index, view)


def neighbours_were_told(
    message: SignatureSet, memory: ClientMemory, directory: Directory
) -> NDArray[np.bool_]:
    """Require that each signing neighbour was told that this client survived (sparse graph).

    With t such neighbours, 2t > k + corrupt leaves too few that were told the opposite to give away
    this client's mask key; without them this client keeps its shares to itself, and a server that
    told neighbours different stories cannot collect what it needs.

    Returns
    -------
    (members,) bool array
        The survivors that are known to have masks with this client: those that signed that it
        survived or, where they have not signed, that its ciphertext came. Only of them does it give
        shares of the self mask.
    """
    views, rest, rest_views = message.views, message.silent_signatures, message.silent_views
    silent = message.silent
    if views is None or silent is None or rest is None or rest_views is None:
        raise PeerError(_SERVER, message.round, "no views beside the signatures")
    told = _views_hold(b"survivors", message.signers, message.signatures, views, memory, directory)
    if (message.signers & ~told).any():
        neighbour = int(memory.members[int(np.argmax(message.signers & ~told))])
        raise PeerError(
            _SERVER, message.round, f"client {neighbour} was told that this client has left"
        )
    return told | _views_hold(b"sharers", silent, rest, rest_views, memory, directory)


def _views_hold(
    purpose: bytes,
    signers: NDArray[np.bool_],
    signatures: NDArray[np.uint8],
    views: NDArray[np.uint8],
    memory: ClientMemory,
    directory: Directory,
) -> NDArray[np.bool_]:
    """Return which members have signed a view with this client in it; refuse false signatures."""
    holds = np.zeros(len(memory.members), np.bool_)
    for slot, view, signature in zip(np.flatnonzero(signers), views, signatures, strict=True):
        neighbour, place = int(memory.members[slot]), int(memory.places[slot])
        statement = derivations.view_statement(purpose, *memory.bound, neighbour, view.tobytes())
        if not directory.verify(neighbour, statement, signature.tobytes()):
            raise PeerError(
                _SERVER,
                "unmasking",
                f"the signature of client {neighbour} is not over the view that is shown, or the "
                "keys or the model differ",
            )
        holds[slot] = view[place >> 3] >> (place & 7) & 1
    return holds


def signatures_are_acceptable(
    message: SignatureSet, memory: ClientMemory, params: Params, policy: Policy
) -> NDArray[np.bool_]:
    """Require of the signatures over a survivor set all that the functions above say of them.

    Returns
    -------
    (members,) bool array
        Of which survivors shares of the self mask may be given.
    """
    bitmap_covers_roster(message.signers, len(memory.members), message.round)
    signers_within_survivors(message.signers, memory.survivors, memory.members)
    enough_holders(int(message.signers.sum()), params, message.round)
    if policy.roster is None:  # refused when the client is made
        raise UsageError("policy.roster", "none", "the clients' identities")
    if params.graph is Graph.SPARSE:
        return neighbours_were_told(message, memory, policy.roster)
    statement = own_statement(memory, params)
    signatures_are_valid(message, memory.members, statement, policy.roster)
    return np.ones(len(memory.members), np.bool_)
