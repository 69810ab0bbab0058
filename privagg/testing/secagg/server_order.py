"""A server that replays, reorders, repeats and mangles messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privagg.errors import PeerError, UsageError
from privagg.protocols.secagg import Graph, Phase, Threat
from privagg.protocols.secagg.messages import (
    Message,
    SurvivorSet,
)
from privagg.protocols.secagg.states import SEQUENCES
from privagg.testing.secagg.arena import Arena
from privagg.testing.secagg.behaviour import (
    SIGNED,
    SURVIVOR_SET,
    Cohort,
    behaviour,
)
from privagg.testing.secagg.forgery import bundle, survivor_set

__all__ = ()

_SPARSE = (Graph.SPARSE,)
_SM = (Threat.SEMI_MALICIOUS,)


def _replay(arena: Arena, phase: Phase) -> None:
    last = arena.last_round()
    last.until(phase)
    old = last.due()
    arena.until(phase)
    arena.due()
    arena.deliver(old)


@behaviour(
    invariant="same_round",
    round="advertise-keys",
    source="pitfall 8",
    ends_round=False,
    text="The invitation to this round has the tag of the round before.",
)
def _invitation_with_the_tag_of_last_round(arena: Arena) -> None:
    old = arena.last_round().due()
    arena.deliver(replace(arena.due(), tag=old.tag))


@behaviour(
    invariant="same_round",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 12",
    ends_round=False,
    text="The request for commitments is that of the round before.",
)
def _graph_request_of_last_round(arena: Arena) -> None:
    _replay(arena, Phase.COMMIT_GRAPH)


@behaviour(
    invariant="same_round",
    round="reveal-graph",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 12",
    ends_round=False,
    text="The request for openings is that of the round before.",
)
def _graph_challenge_of_last_round(arena: Arena) -> None:
    _replay(arena, Phase.REVEAL_GRAPH)


@behaviour(
    invariant="same_round",
    round="share-keys",
    source="pitfall 12",
    ends_round=False,
    text="The roster is that of the round before, whose keys the server has had time for.",
)
def _roster_of_last_round(arena: Arena) -> None:
    _replay(arena, Phase.SHARE_KEYS)


@behaviour(
    invariant="keys are of this round",
    round="share-keys",
    threats=SIGNED,
    source="pitfall 12",
    text="As roster-of-last-round, with a tag that says it is this round's.",
)
def _roster_of_last_round_with_the_tag_of_this(arena: Arena) -> None:
    last = arena.last_round()
    last.until(Phase.SHARE_KEYS)
    old = last.due()
    arena.until(Phase.SHARE_KEYS)
    arena.deliver(replace(old, tag=arena.due().tag))


@behaviour(
    invariant="same_round",
    round="masked-input",
    source="pitfall 12",
    ends_round=False,
    text="The ciphertexts, with their set, are those of the round before.",
)
def _bundle_of_last_round(arena: Arena) -> None:
    _replay(arena, Phase.MASKED_INPUT)


@behaviour(
    invariant="same_round",
    round=SURVIVOR_SET,
    source="pitfall 12",
    ends_round=False,
    text="The survivor set is that of the round before.",
)
def _survivors_of_last_round(arena: Arena) -> None:
    _replay(arena, Phase.CONSISTENCY_CHECK if arena.params.signed else Phase.UNMASKING)


@behaviour(
    invariant="same_round",
    round="unmasking",
    threats=SIGNED,
    source="pitfall 12",
    ends_round=False,
    text="Signatures and signers are those of the round before.",
)
def _signature_set_of_last_round(arena: Arena) -> None:
    _replay(arena, Phase.UNMASKING)


def _a_survivor_set(arena: Arena, message: Message) -> SurvivorSet:
    members = arena.rosters[arena.victim].members
    return SurvivorSet(
        tag=message.tag, cohort=arena.params.clients, survivors=np.ones(len(members), np.bool_)
    )


@behaviour(
    invariant="order",
    round=SURVIVOR_SET,
    source="pitfall 2",
    ends_round=False,
    text="A survivor set comes before the client has sent its masked input.",
)
def _survivors_before_inputs(arena: Arena) -> None:
    message = bundle(arena)
    arena.deliver(_a_survivor_set(arena, message))


@behaviour(
    invariant="order",
    round="masked-input",
    source="pitfall 2",
    ends_round=False,
    text="Ciphertexts come before the client has seen any keys.",
)
def _ciphertexts_before_keys(arena: Arena) -> None:
    last = arena.last_round()
    old = bundle(last)
    arena.until(Phase.SHARE_KEYS)
    arena.deliver(replace(old, tag=arena.due().tag))


@behaviour(
    invariant="order",
    round="unmasking",
    threats=SIGNED,
    source="CCS 2017, figure 4, round 3",
    ends_round=False,
    text="Shares are asked for although the client has signed no survivor set.",
)
def _unmasking_without_consistency_check(arena: Arena) -> None:
    last = arena.last_round()
    last.until(Phase.UNMASKING)
    signatures = last.due()
    message = survivor_set(arena)
    arena.must_refuse(replace(signatures, tag=message.tag))
    arena.deliver(replace(signatures, tag=message.tag))


@behaviour(
    invariant="order",
    round="unmasking",
    threats=SIGNED,
    source="CCS 2017, figure 4, round 3",
    errors=(PeerError, UsageError),
    ends_round=False,
    text=(
        "Shares are asked for with a survivor set alone, as in a round without a consistency check."
    ),
)
def _survivors_without_signatures(arena: Arena) -> None:
    arena.deliver(survivor_set(arena), method="unmasking")


@behaviour(
    invariant="one answer per round",
    round="share-keys",
    source="pitfall 8",
    ends_round=False,
    text=(
        "After the client has shared its secrets it is shown a smaller roster, to share them again."
    ),
)
def _second_roster(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    arena.say(roster)
    place = arena.peer_of_victim(roster, arena.bystanders)
    members = np.delete(roster.members, place)
    smaller = arena.server.roster_of(members)
    cohort = len(members) if roster.universe else roster.cohort
    arena.deliver(replace(smaller, universe=roster.universe, cohort=cohort))


@behaviour(
    invariant="one answer per round",
    round="masked-input",
    source="pitfall 8",
    cohort=Cohort.TWO,
    ends_round=False,
    text=(
        "After the masked input the client is shown another set of sharers: the difference of "
        "two masked inputs is the difference of their masks."
    ),
)
def _second_bundle(arena: Arena) -> None:
    message = bundle(arena)
    arena.say(message)
    present = message.present.copy()
    first = int(np.flatnonzero(present)[0])
    present[first] = False
    arena.deliver(
        replace(
            message,
            present=present,
            ciphertexts=message.ciphertexts[1:],
            cohort=message.cohort - 1,
        )
    )


def _mangled(arena: Arena, mangle: Callable[[bytes], bytes]) -> None:
    """Mangle each message of the round before it is said rightly."""
    caught = None
    for phase in SEQUENCES[arena.params.threat]:
        arena.until(phase)
        caught = arena.must_refuse(mangle(arena.due().encode()))
        if not isinstance(caught.error, PeerError):
            raise caught
        arena.lied.clear()
    assert caught is not None
    raise caught


@behaviour(
    invariant="canonical messages",
    round="unmasking",
    source="malformed input",
    ends_round=False,
    text="Every message of the round lacks its last byte.",
)
def _truncated_messages(arena: Arena) -> None:
    _mangled(arena, lambda data: data[:-1])


@behaviour(
    invariant="canonical messages",
    round="unmasking",
    source="malformed input",
    ends_round=False,
    text="Every message of the round has a byte too many.",
)
def _oversized_messages(arena: Arena) -> None:
    _mangled(arena, lambda data: data + b"\0")


@behaviour(
    invariant="canonical messages",
    round="unmasking",
    source="malformed input",
    ends_round=False,
    text="Every message of the round is replaced by its header.",
)
def _empty_messages(arena: Arena) -> None:
    _mangled(arena, lambda data: data[:10])


@behaviour(
    invariant="protocol version",
    round="unmasking",
    source="pitfall 10",
    ends_round=False,
    text="Every message of the round says a version of the protocol that there is not.",
)
def _unknown_version(arena: Arena) -> None:
    _mangled(arena, lambda data: b"\xff" + data[1:])


@behaviour(
    invariant="canonical messages",
    round="unmasking",
    source="pitfall 10",
    ends_round=False,
    text="Every message of the round says a kind that there is not.",
)
def _unknown_kind(arena: Arena) -> None:
    _mangled(arena, lambda data: data[:1] + b"\xff" + data[2:])


@behaviour(
    invariant="canonical messages",
    round=SURVIVOR_SET,
    source="malformed input",
    ends_round=False,
    text="A survivor set says that it has a bit for each of 2**32 - 1 members.",
)
def _survivor_set_of_four_thousand_million(arena: Arena) -> None:
    data = survivor_set(arena).encode()
    arena.honest = arena.due()
    arena.deliver(data[:14] + b"\xff" * 4 + data[18:])
