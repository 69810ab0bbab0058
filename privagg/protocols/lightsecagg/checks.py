"""The protocol's invariants, each a function with a name and a test that breaks it.

A client calls them on what the server says. What fails is a :class:`~privagg.errors.PeerError`
against the server, or an :class:`~privagg.errors.Abort` where too few are left; in both cases the
client has revealed nothing by the message that it then does not send. Those that other protocols
hold, too, are in :mod:`privagg.protocols._common.checks`.
"""

from __future__ import annotations

import numpy as np

from privagg.errors import Abort, PeerError, UsageError
from privagg.protocols._common.checks import (
    bitmap_covers_roster,
    cohort_is_large_enough,
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
from privagg.protocols.lightsecagg import derivations
from privagg.protocols.lightsecagg.client_state import ClientMemory
from privagg.protocols.lightsecagg.messages import KeyRoster, SignatureSet, SurvivorSet
from privagg.protocols.lightsecagg.params import Params, Policy, least_threshold
from privagg.protocols.secagg.identity import Directory

__all__ = [
    "bitmap_covers_roster",
    "check_params",
    "cohort_is_large_enough",
    "enough_can_answer",
    "index_is_ours",
    "inputs_are_signed",
    "keys_are_canonical",
    "keys_are_distinct",
    "keys_are_signed",
    "keys_have_full_order",
    "no_ciphertext_to_self",
    "own_keys_are_listed",
    "own_statement",
    "parameters_are_ours",
    "policy_is_met",
    "same_round",
    "shares_are_held",
    "signatures_are_acceptable",
    "signatures_are_valid",
    "signers_within_survivors",
    "survivors_are_acceptable",
    "survivors_include_self",
    "survivors_within_holders",
]

_SERVER = "server"


def check_params(params: object) -> None:
    """Require parameters of this protocol."""
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "lightsecagg.Params")


def policy_is_met(params: Params, policy: Policy) -> None:
    """Hold T at or above the corrupt clients, and against servers that lie 2 U above N + T.

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
    if policy.max_corrupt > params.privacy:
        raise UsageError(
            "params.corrupt",
            params.corrupt,
            f"at least {policy.max_corrupt}, as so many clients may collude",
            "Refuse the round, or ask for parameters with more noise.",
        )
    if policy.roster is not None and len(policy.roster) != params.clients:
        raise UsageError(
            "policy.roster",
            f"{len(policy.roster)} identities",
            f"one for each of the {params.clients} clients",
        )
    if params.signed and policy.roster is None:
        raise UsageError(
            "policy.roster",
            "none",
            f"the clients' identities, where the threat model is {params.threat.value}",
            "Pass a Roster, or choose threat='semi-honest' knowingly.",
        )
    least = least_threshold(params.clients, max(policy.max_corrupt, params.corrupt), params.threat)
    if params.threshold < least:
        raise UsageError(
            "params.threshold",
            params.threshold,
            f"at least {least} when {policy.max_corrupt} clients may collude",
            "Refuse the round, or ask for parameters with a higher threshold.",
        )


def enough_can_answer(count: int, params: Params, round: str) -> None:
    """Require U clients of whom coded sums can come: else the sum is lost and nothing is gained."""
    if count < params.threshold:
        raise Abort(f"round {round}: too few could answer", count, params.threshold)


def keys_are_signed(roster: KeyRoster, context: bytes, directory: Directory) -> None:
    """Require each member's signature over its key, for this round and its own index."""
    signatures = roster.signatures
    if signatures is None or len(signatures) != len(roster.members):
        raise PeerError(_SERVER, roster.round, "not one signature for each member's keys")
    for member, key, signature in zip(roster.members, roster.keys, signatures, strict=True):
        statement = derivations.advertise_statement(context, int(member), key.tobytes())
        if not directory.verify(int(member), statement, signature.tobytes()):
            raise PeerError(
                int(member), roster.round, "keys that its identity has not signed for this round"
            )


def survivors_are_acceptable(
    message: SurvivorSet, memory: ClientMemory, params: Params, policy: Policy
) -> None:
    """Require of a survivor set all that the functions here say of one."""
    flags = message.survivors
    bitmap_covers_roster(flags, len(memory.members), message.round)
    cohort_is_large_enough(int(flags.sum()), policy, params, message.round)
    survivors_within_holders(flags, memory.holders, memory.members)
    survivors_include_self(flags, memory.own_slot)
    enough_can_answer(int(flags.sum()), params, message.round)
    if params.signed and policy.roster is not None:
        inputs_are_signed(message, memory, policy.roster)


def inputs_are_signed(message: SurvivorSet, memory: ClientMemory, directory: Directory) -> None:
    """Require each survivor's signature that it takes part, with the model this client was given.

    So a server cannot give one client another model than the rest and read its input off the sum.
    """
    survivors, rows = memory.members[message.survivors], message.signatures
    if rows is None or len(rows) != len(survivors):
        raise PeerError(_SERVER, message.round, "not one signature for each survivor's input")
    for survivor, row in zip(survivors, rows, strict=True):
        statement = derivations.input_statement(
            memory.context, memory.roster, memory.model, int(survivor)
        )
        if not directory.verify(int(survivor), statement, row.tobytes()):
            raise PeerError(
                _SERVER,
                message.round,
                f"client {int(survivor)} has not signed that it takes part with this client's "
                "keys and model",
            )


def own_statement(memory: ClientMemory) -> bytes:
    """Return what this client signs of the survivor set it was shown."""
    return derivations.survivor_statement(
        memory.context,
        memory.roster,
        memory.model,
        memory.members[memory.holders],
        memory.members[memory.survivors],
    )


def signatures_are_acceptable(
    message: SignatureSet, memory: ClientMemory, params: Params, policy: Policy
) -> None:
    """Require U survivors to have signed the very set (and model) that this client signed.

    As 2 U > N + T, two sets with U signatures each would have an honest signer in common, and an
    honest client signs one.
    """
    bitmap_covers_roster(message.signers, len(memory.members), message.round)
    signers_within_survivors(message.signers, memory.survivors, memory.members)
    enough_can_answer(int(message.signers.sum()), params, message.round)
    if policy.roster is None:  # refused when the client is made
        raise UsageError("policy.roster", "none", "the clients' identities")
    signatures_are_valid(message, memory.members, own_statement(memory), policy.roster)


def shares_are_held(memory: ClientMemory) -> None:
    """Require that this client holds a coded share of every survivor's mask.

    It has told the server whose did not open; a sum without them would be a wrong one.
    """
    lacking = memory.survivors & ~memory.opened
    if lacking.any():
        culprit = int(memory.members[int(np.argmax(lacking))])
        raise PeerError(
            _SERVER,
            "unmasking",
            f"a sum is asked for with client {culprit}'s share, reported missing",
        )
