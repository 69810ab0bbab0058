"""A server that lies about who shared its keys (U2), and about ciphertexts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import Graph, Phase
from privagg.protocols.secagg.messages import (
    ShareKeys,
    UnmaskShares,
)
from privagg.testing.secagg.arena import Arena
from privagg.testing.secagg.behaviour import (
    Cohort,
    Expect,
    behaviour,
)
from privagg.testing.secagg.forgery import bundle, fewer, members_of, others

__all__ = ()

_COMPLETE = (Graph.COMPLETE,)
_FIGURE_4 = "CCS 2017, figure 4"
_TOO_FEW_OPEN = (Abort, PeerError)
"""A client that is left with no peer's share may call that either."""


@behaviour(
    invariant="cohort_is_large_enough",
    round="masked-input",
    source="pitfall 4",
    errors=(Abort,),
    cohort=Cohort.ALL,
    text="One client less has shared its keys than the victim insists on having in the sum.",
)
def _sharers_below_minimum(arena: Arena) -> None:
    message = bundle(arena)
    place = others(arena, members_of(arena), message.present)[:1]
    arena.deliver(fewer(message, place, message.cohort - 1))


@behaviour(
    invariant="enough_holders",
    round="masked-input",
    source=_FIGURE_4,
    errors=(Abort,),
    cohort=Cohort.TWO,
    text=(
        "Fewer than t clients hold shares: the masks could never be taken off by honest clients."
    ),
)
def _sharers_below_threshold(arena: Arena) -> None:
    message = bundle(arena)
    complete = arena.params.graph is Graph.COMPLETE
    keep = arena.params.threshold - 1 - complete
    places = others(arena, members_of(arena), message.present)[keep:]
    arena.deliver(fewer(message, places, keep + 1 if complete else message.cohort))


@behaviour(
    invariant="cohort_matches_set",
    round="masked-input",
    graphs=_COMPLETE,
    source="pitfall 4",
    text=(
        "A full cohort is stated beside fewer ciphertexts, so that a minimum would mean nothing."
    ),
)
def _sharers_overstated(arena: Arena) -> None:
    message = bundle(arena)
    place = others(arena, members_of(arena), message.present)[:1]
    arena.deliver(fewer(message, place, message.cohort))


@behaviour(
    invariant="cohort_matches_set",
    round="masked-input",
    source="pitfall 4",
    cohort=Cohort.TWO,
    text="A smaller cohort is stated than there are ciphertexts: one of the two is a lie.",
)
def _sharers_understated(arena: Arena) -> None:
    message = bundle(arena)
    arena.deliver(replace(message, cohort=int(message.present.sum())))


@behaviour(
    invariant="cohort_is_large_enough",
    round="masked-input",
    source="pitfall 3",
    text="More clients are said to have shared their keys than were invited.",
)
def _more_sharers_than_invited(arena: Arena) -> None:
    message = bundle(arena)
    arena.deliver(replace(message, cohort=arena.params.clients + 1))


@behaviour(
    invariant="bitmap_covers_roster",
    round="masked-input",
    source="pitfall 2",
    text=(
        "The set has a bit less than the roster that the client was shown: bits would be read "
        "as those of other clients."
    ),
)
def _sharers_of_another_roster(arena: Arena) -> None:
    message = bundle(arena)
    last = int(message.present[-1])
    arena.deliver(
        replace(
            message,
            present=message.present[:-1],
            ciphertexts=message.ciphertexts[: len(message.ciphertexts) - last],
            cohort=message.cohort - last,
        )
    )


@behaviour(
    invariant="no_ciphertext_to_self",
    round="masked-input",
    graphs=_COMPLETE,
    source="pitfall 24",
    text="A ciphertext is said to come from the client itself, so that it would take part twice.",
)
def _ciphertext_to_itself(arena: Arena) -> None:
    message = bundle(arena)
    place = others(arena, members_of(arena), message.present)[:1]
    message = fewer(message, place, message.cohort)
    own = int(np.flatnonzero(members_of(arena) == arena.victim)[0])
    present = message.present.copy()
    present[own] = True
    columns = np.insert(message.ciphertexts, int(present[:own].sum()), 0, axis=0)
    arena.deliver(
        replace(message, present=present, ciphertexts=columns, cohort=int(present.sum()) + 1)
    )


@behaviour(
    invariant="ciphertexts are bound to their parties",
    round="masked-input",
    source="pitfall 12",
    errors=_TOO_FEW_OPEN,
    text=(
        "Each ciphertext is called another sender's, so that shares would be taken for those of "
        "other secrets."
    ),
)
def _ciphertexts_swapped_between_senders(arena: Arena) -> None:
    message = bundle(arena)
    arena.deliver(replace(message, ciphertexts=np.roll(message.ciphertexts, 1, axis=0)))


@behaviour(
    invariant="ciphertexts are bound to their parties",
    round="masked-input",
    source="pitfall 12",
    errors=_TOO_FEW_OPEN,
    text="The ciphertexts are those that were meant for another client.",
)
def _ciphertexts_of_another_receiver(arena: Arena) -> None:
    message = bundle(arena)
    roster = arena.server.roster_of(arena.rosters[arena.victim].members)
    place = arena.peer_of_victim(roster, arena.bystanders)
    foreign = arena.server.message_for(int(roster.members[place])).ciphertexts
    arena.deliver(replace(message, ciphertexts=np.resize(foreign, message.ciphertexts.shape)))


@behaviour(
    invariant="ciphertexts are bound to their round",
    round="masked-input",
    source="pitfall 12",
    errors=_TOO_FEW_OPEN,
    text="The ciphertexts of the round before, from the same senders.",
)
def _ciphertexts_of_last_round(arena: Arena) -> None:
    last = arena.last_round()
    old = bundle(last).ciphertexts
    message = bundle(arena)
    arena.deliver(replace(message, ciphertexts=np.resize(old, message.ciphertexts.shape)))


@behaviour(
    invariant="ciphertexts are bound to their direction",
    round="masked-input",
    source="pitfall 12",
    errors=_TOO_FEW_OPEN,
    text="The client gets back what it sent to its peers, as if they had sent it.",
)
def _own_ciphertexts_returned(arena: Arena) -> None:
    message = bundle(arena)
    own = next(reply for reply in arena.said if isinstance(reply, ShareKeys))
    arena.deliver(replace(message, ciphertexts=own.ciphertexts))


@behaviour(
    invariant="a share that does not open is not made up",
    round="masked-input",
    source="pitfall 11",
    expect=Expect.CONTAINED,
    errors=_TOO_FEW_OPEN,
    text=(
        "One ciphertext is replaced by random bytes. The client may go on, but must report that "
        "sender's share as missing and send none for it."
    ),
)
def _one_ciphertext_replaced(arena: Arena) -> str | None:
    message = bundle(arena)
    columns = message.ciphertexts.copy()
    columns[0] = np.resize(np.frombuffer(keys.digest(b"random"), np.uint8), columns.shape[1])
    reply = arena.deliver(replace(message, ciphertexts=columns))
    arena.server.receive(arena.victim, reply)
    members = arena.rosters[arena.victim].members
    spoiled = int(members[np.flatnonzero(message.present)[0]])
    for index in arena.present():
        if index != arena.victim:
            arena.exchange(index)
    arena.server.close()
    arena.until(Phase.UNMASKING)
    answer = arena.say(arena.due())
    assert isinstance(answer, UnmaskShares)
    at = int(np.flatnonzero(members == spoiled)[0])
    if answer.missing[at] and not answer.shares[at].any() and answer.missing.sum() == 1:
        return "reported missing, and no share sent"
    return None
