"""A server that lies in its invitation: about parameters, index and cohort."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.errors import Abort, UsageError
from privagg.protocols.secagg import Graph, Phase, Policy, Threat
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    SIGNED,
    Cohort,
    behaviour,
)
from privagg.testing.secagg.forgery import keep

__all__ = ()

_COMPLETE = (Graph.COMPLETE,)
_SPARSE = (Graph.SPARSE,)
_HONEST_COLLECTION = (Threat.SEMI_HONEST, Threat.ACTIVE)
"""Where the roster's size is not fixed by an earlier round."""


def _refused_at_once(arena: Arena, policy: Policy) -> None:
    arena.lie_by_policy(policy)


@behaviour(
    invariant="policy_is_met",
    round="advertise-keys",
    source="pitfall 4; CCS 2017, section 6.2",
    errors=(UsageError,),
    text=(
        "The round's parameters have a threshold that the coalition which the client fears "
        "reaches by itself: its members' shares alone would rebuild every secret."
    ),
)
def _threshold_below_policy(arena: Arena) -> None:
    params = arena.params
    feared = params.clients - 2  # a policy leaves two honest ones
    if params.graph is Graph.COMPLETE:
        if params.threshold > feared:
            raise Inapplicable("nearly all shares are needed")
        feared = params.threshold
    floor = feared + 2
    _refused_at_once(arena, Policy(min_cohort=floor, max_corrupt=feared, roster=arena.roster))


@behaviour(
    invariant="policy_is_met",
    round="advertise-keys",
    source="pitfall 4",
    errors=(UsageError,),
    text="Fewer clients are invited than the client wants to hide among.",
)
def _cohort_below_policy(arena: Arena) -> None:
    floor = arena.params.clients + 1
    _refused_at_once(arena, Policy(min_cohort=floor, max_corrupt=0, roster=arena.roster))


@behaviour(
    invariant="policy_is_met",
    round="advertise-keys",
    threats=SIGNED,
    source="pitfall 5",
    errors=(UsageError,),
    text=(
        "A round with signatures is announced, but nobody's identity is pinned: whoever signs "
        "would be believed. There is no silent way back to unsigned keys."
    ),
)
def _no_identities(arena: Arena) -> None:
    params = arena.params
    floor = params.corrupt + 2
    _refused_at_once(arena, Policy(min_cohort=floor, max_corrupt=params.corrupt, roster=None))


@behaviour(
    invariant="parameters_are_ours",
    round="advertise-keys",
    source="pitfall 4",
    text=(
        "The server runs the round under other parameters than the client's, for example with a "
        "threshold so small that a share is as good as the secret."
    ),
)
def _other_parameters(arena: Arena) -> None:
    other = keys.digest(b"parameters with a tiny threshold")
    arena.deliver(replace(arena.due(), params_digest=other))


@behaviour(
    invariant="parameters_are_ours",
    round="advertise-keys",
    source="CCS 2017, figure 4",
    text=(
        "The client is given an index beyond the cohort, where no share would ever be evaluated."
    ),
)
def _index_outside_the_cohort(arena: Arena) -> None:
    arena.deliver(replace(arena.due(), client=arena.params.clients))


@behaviour(
    invariant="index_is_ours",
    round="advertise-keys",
    threats=SIGNED,
    source="Boenisch et al., EuroS&P 2023",
    text=(
        "The client is given the index of another identity, whose place the server wants to take."
    ),
)
def _index_of_another_client(arena: Arena) -> None:
    arena.deliver(replace(arena.due(), client=arena.colluders[0]))


@behaviour(
    invariant="cohort_is_large_enough",
    round="share-keys",
    threats=_HONEST_COLLECTION,
    source="pitfall 4",
    errors=(Abort,),
    text="The roster holds the client alone: the sum would be its input.",
)
def _cohort_of_one(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    arena.deliver(keep(roster, roster.members == arena.victim))


@behaviour(
    invariant="cohort_is_large_enough",
    round="share-keys",
    threats=_HONEST_COLLECTION,
    source="pitfall 4",
    errors=(Abort,),
    cohort=Cohort.ALL,
    text="One honest client less in the roster than the client insists on.",
)
def _roster_below_minimum(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    place = arena.peer_of_victim(roster, arena.bystanders)
    kept = np.arange(len(roster.members)) != place
    arena.deliver(keep(roster, kept, arena.params.clients - 1))


@behaviour(
    invariant="enough_holders",
    round="share-keys",
    source="CCS 2017, figure 4",
    errors=(Abort,),
    cohort=Cohort.TWO,
    text=(
        "Fewer members than the threshold, so that no t clients could ever answer for the client."
    ),
)
def _roster_below_threshold(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    room = arena.params.threshold - 1 - (roster.universe > 0)
    kept = np.cumsum(roster.members != arena.victim) <= room
    kept |= roster.members == arena.victim
    cohort = None if roster.universe else roster.cohort
    arena.deliver(keep(roster, kept, cohort))


@behaviour(
    invariant="strictly ascending members",
    round="share-keys",
    graphs=_SPARSE,
    source="pitfall 3",
    ends_round=False,
    text=(
        "One neighbour is listed twice, so that its shares would count twice toward the threshold."
    ),
)
def _padded_roster(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    members, rows = roster.members.copy(), roster.keys.copy()
    members[1], rows[1] = members[0], rows[0]
    arena.deliver(replace(roster, members=members, keys=rows))


@behaviour(
    invariant="own_keys_are_listed",
    round="share-keys",
    graphs=_COMPLETE,
    source="CCS 2017, fig. 4",
    text="The roster does not list the client itself: it would mask for a sum that it is not in.",
)
def _left_out_of_the_roster(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    arena.deliver(keep(roster, roster.members != arena.victim))


@behaviour(
    invariant="own_keys_are_listed",
    round="share-keys",
    graphs=_SPARSE,
    source="CCS 2020, section 3",
    text="The client is listed as its own neighbour, in the place of one that could hold shares.",
)
def _own_neighbour(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    members = roster.members.copy()
    members[arena.peer_of_victim(roster, range(arena.params.clients))] = arena.victim
    arena.deliver(arena.server.roster_of(np.sort(members)))
