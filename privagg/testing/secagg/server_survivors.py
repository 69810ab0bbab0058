"""A server that lies about whose inputs are in the sum (U3), or shows different models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.errors import Abort, PrivaggError
from privagg.protocols.secagg import Graph, Phase, Threat
from privagg.protocols.secagg.messages import (
    SurvivorSet,
)
from privagg.testing.secagg.arena import Accused, Arena, Caught
from privagg.testing.secagg.behaviour import (
    SURVIVOR_SET,
    Cohort,
    Expect,
    behaviour,
)
from privagg.testing.secagg.forgery import (
    members_of,
    other_set,
    others,
    peers,
    some_signers,
    survivor_set,
    without,
)

__all__ = ()

_COMPLETE = (Graph.COMPLETE,)
_FIGURE_4 = "CCS 2017, figure 4"


@behaviour(
    invariant="cohort_is_large_enough",
    round=SURVIVOR_SET,
    source="pitfall 4",
    errors=(Abort,),
    cohort=Cohort.ALL,
    text="One input less is said to be in the sum than the client insists on.",
)
def _survivors_below_minimum(arena: Arena) -> None:
    message = survivor_set(arena)
    arena.deliver(without(message, peers(arena, message)[:1], message.cohort - 1))


@behaviour(
    invariant="enough_holders",
    round=SURVIVOR_SET,
    source=_FIGURE_4,
    errors=(Abort,),
    cohort=Cohort.TWO,
    text="Fewer than t clients are said to survive: the sum could not be unmasked honestly.",
)
def _survivors_below_threshold(arena: Arena) -> None:
    message = survivor_set(arena)
    complete = arena.params.graph is Graph.COMPLETE
    keep = arena.params.threshold - 1 - complete
    cohort = keep + 1 if complete else message.cohort
    arena.deliver(without(message, peers(arena, message)[keep:], cohort))


@behaviour(
    invariant="cohort_matches_set",
    round=SURVIVOR_SET,
    graphs=_COMPLETE,
    source="pitfall 4",
    cohort=Cohort.ALL,
    text="A full cohort is stated beside a smaller set.",
)
def _survivors_overstated(arena: Arena) -> None:
    message = survivor_set(arena)
    arena.deliver(without(message, peers(arena, message)[:1], message.cohort))


@behaviour(
    invariant="cohort_matches_set",
    round=SURVIVOR_SET,
    source="pitfall 4",
    cohort=Cohort.TWO,
    text="A smaller cohort is stated than there are survivors among the client's peers.",
)
def _survivors_understated(arena: Arena) -> None:
    message = survivor_set(arena)
    arena.deliver(replace(message, cohort=len(peers(arena, message))))


@behaviour(
    invariant="cohort_is_large_enough",
    round=SURVIVOR_SET,
    source="pitfall 3",
    text="More inputs are said to be in the sum than clients were invited.",
)
def _more_survivors_than_invited(arena: Arena) -> None:
    arena.deliver(replace(survivor_set(arena), cohort=2**32 - 1))


@behaviour(
    invariant="bitmap_covers_roster",
    round=SURVIVOR_SET,
    source="pitfall 2",
    text=(
        "The set has a bit less than the roster: a survivor's bit would be read as a neighbour's."
    ),
)
def _survivors_of_another_roster(arena: Arena) -> None:
    message = survivor_set(arena)
    flags = message.survivors[:-1]
    cohort = message.cohort - int(message.survivors[-1])
    arena.deliver(replace(message, survivors=flags, cohort=cohort))


@behaviour(
    invariant="survivors_within_holders",
    round=SURVIVOR_SET,
    source=_FIGURE_4,
    text=(
        "Someone is called a survivor who never shared its keys: the server made up its input, "
        "to take it off the sum again."
    ),
)
def _survivor_who_never_shared(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    arena.gone.add(int(roster.members[arena.peer_of_victim(roster, arena.bystanders)]))
    message = survivor_set(arena)
    flags = message.survivors | (members_of(arena) != arena.victim)
    arena.deliver(replace(message, survivors=flags, cohort=message.cohort + 1))


@behaviour(
    invariant="survivors_include_self",
    round=SURVIVOR_SET,
    graphs=_COMPLETE,
    source="pitfall 2",
    text=(
        "The client itself is called gone: it would give shares of its own mask key, with which "
        "its masked input opens."
    ),
)
def _left_out_of_the_sum(arena: Arena) -> None:
    message = survivor_set(arena)
    own = np.flatnonzero(members_of(arena) == arena.victim)
    arena.deliver(without(message, own, message.cohort - 1))


@behaviour(
    invariant="one answer per round",
    round=SURVIVOR_SET,
    source="pitfall 2",
    cohort=Cohort.TWO,
    ends_round=False,
    text=(
        "After a first survivor set a second is shown, in which one peer is gone: with a share "
        "of its self mask from the first and one of its mask key from the second its input "
        "opens."
    ),
)
def _both_kinds_of_share(arena: Arena) -> None:
    message = survivor_set(arena)
    arena.say(message)
    arena.deliver(other_set(arena, message))


@behaviour(
    invariant="one answer per round",
    round="unmasking",
    source="pitfall 2",
    cohort=Cohort.TWO,
    ends_round=False,
    text=(
        "When the client has answered unmasking, and its answer was delivered, it is asked "
        "again, with other survivors or signers."
    ),
)
def _unmasking_twice(arena: Arena) -> None:
    arena.until(Phase.UNMASKING)
    message = arena.due()
    arena.say(message)
    getattr(arena.client(arena.victim), "delivered", lambda: None)()
    if isinstance(message, SurvivorSet):
        arena.deliver(other_set(arena, message))
        return
    flags = message.signers.copy()
    flags[others(arena, members_of(arena), flags)[0]] = False
    arena.deliver(some_signers(message, flags))


@behaviour(
    invariant="masks are bound to the model",
    round="masked-input",
    threats=(Threat.SEMI_HONEST,),
    source="pitfall 1; Pasquini et al., CCS 2022",
    expect=Expect.CONTAINED,
    text=(
        "Everyone but the victim is given a model whose gradients vanish, so that the sum would "
        "be the victim's gradient. Its masks are bound to another model than theirs: they do "
        "not cancel, and the server is left with noise."
    ),
)
def _gradient_suppression(arena: Arena) -> str | None:
    arena.everyone_is_under_test()
    arena.models[arena.victim] = keys.digest(b"a model made for you")
    arena.suppressed = set(range(arena.params.clients)) - {arena.victim}
    noise = "the server is left with noise"
    try:
        arena.until(Phase.DONE)
    except Accused as accused:
        raise Caught(accused.error, accused.round) from accused
    except PrivaggError:
        return noise
    encoding = arena.params.encoding
    alone = arena.inputs.vector(arena.victim) * arena.inputs.weight(arena.victim)
    off = np.abs(arena.server.result().total - alone)
    bound = encoding.rounding_bound(arena.params.clients)
    return None if 2 * int((off <= bound).sum()) >= len(off) else noise
