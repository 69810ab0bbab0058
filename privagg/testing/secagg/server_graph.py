"""A server that lies while the sparse graph is drawn: to choose the victim's neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.errors import Abort
from privagg.protocols.secagg import Graph, Phase, Threat
from privagg.protocols.secagg.client_graph import MAX_ATTEMPTS
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    GraphChallenge,
    GraphRequest,
)
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    Cohort,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import attackers_keys, replace_row, signed_as

__all__ = ()

_SPARSE = (Graph.SPARSE,)
_SM = (Threat.SEMI_MALICIOUS,)
_SOURCE = "pitfall 22; CCS 2020, section 4"


@behaviour(
    invariant="keys and graph are fixed",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="The client is not among those whose keys are fixed: others would never share with it.",
)
def _left_out_of_the_keys(arena: Arena) -> None:
    arena.until(Phase.COMMIT_GRAPH)
    request = arena.due()
    present = request.present.copy()
    present[arena.victim] = False
    arena.deliver(replace(request, present=present))


@behaviour(
    invariant="cohort_is_large_enough",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 4",
    errors=(Abort,),
    cohort=Cohort.ALL,
    text="Fewer clients' keys are fixed than the client wants to hide among.",
)
def _keys_below_minimum(arena: Arena) -> None:
    arena.until(Phase.COMMIT_GRAPH)
    request = arena.due()
    present = request.present.copy()
    present[arena.bystanders[0]] = False
    arena.deliver(replace(request, present=present))


def _second_draw(arena: Arena) -> GraphRequest:
    """Play until the victim has revealed, and return the request for a second draw."""
    arena.until(Phase.COMMIT_GRAPH)
    request = arena.due()
    arena.until(Phase.SHARE_KEYS)
    assert isinstance(request, GraphRequest)
    return replace(request, attempt=1)


@behaviour(
    invariant="keys and graph are fixed",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="Having seen one graph, the server draws again over other keys than those first fixed.",
)
def _keys_change_between_draws(arena: Arena) -> None:
    request = _second_draw(arena)
    arena.deliver(replace(request, key_root=keys.digest(b"other keys")))


@behaviour(
    invariant="keys and graph are fixed",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="In a second draw someone takes part that had no keys when they were fixed.",
)
def _cohort_grows_between_draws(arena: Arena) -> None:
    late = arena.bystanders[0]
    arena.gone.add(late)
    request = _second_draw(arena)
    present = request.present.copy()
    present[late] = True
    arena.deliver(replace(request, present=present))


@behaviour(
    invariant="draws of the graph are limited",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text=(
        "The server claims again and again that someone did not reveal, until a graph puts its "
        "own clients around the victim; each draw is another chance."
    ),
)
def _too_many_draws(arena: Arena) -> None:
    arena.until(Phase.COMMIT_GRAPH)
    request = arena.due()
    arena.step()
    challenge = arena.due()
    arena.say(challenge)
    for attempt in range(1, MAX_ATTEMPTS):
        arena.say(replace(request, attempt=attempt))
        arena.say(replace(challenge, attempt=attempt))
    arena.deliver(replace(request, attempt=MAX_ATTEMPTS))


@behaviour(
    invariant="same_draw",
    round="commit-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    ends_round=False,
    text="A draw is asked for that is not the next, so that clients lose count of the draws.",
)
def _draw_out_of_turn(arena: Arena) -> None:
    arena.until(Phase.COMMIT_GRAPH)
    arena.deliver(replace(arena.due(), attempt=2))


@behaviour(
    invariant="keys and graph are fixed",
    round="reveal-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="The client's commitment is left out: the graph would owe nothing to its randomness.",
)
def _commitment_left_out(arena: Arena) -> None:
    arena.until(Phase.REVEAL_GRAPH)
    challenge = arena.due()
    present = challenge.present.copy()
    present[arena.victim] = False
    arena.deliver(replace(challenge, present=present))


@behaviour(
    invariant="keys and graph are fixed",
    round="reveal-graph",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="A commitment is counted of someone whose keys were never fixed.",
)
def _commitment_without_keys(arena: Arena) -> None:
    late = arena.bystanders[0]
    arena.gone.add(late)
    arena.until(Phase.REVEAL_GRAPH)
    challenge = arena.due()
    present = challenge.present.copy()
    present[late] = True
    arena.deliver(replace(challenge, present=present))


@behaviour(
    invariant="cohort_is_large_enough",
    round="reveal-graph",
    threats=_SM,
    graphs=_SPARSE,
    source="pitfall 4",
    errors=(Abort,),
    cohort=Cohort.ALL,
    text="Fewer commitments are counted than clients that the victim wants to hide among.",
)
def _commitments_below_minimum(arena: Arena) -> None:
    arena.until(Phase.REVEAL_GRAPH)
    challenge = arena.due()
    assert isinstance(challenge, GraphChallenge)
    present = challenge.present.copy()
    present[arena.bystanders[0]] = False
    arena.deliver(replace(challenge, present=present))


def _changed_opening(arena: Arena, client: int) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    openings = roster.proof.openings.copy()
    openings[client] ^= 1
    arena.deliver(replace(roster, proof=replace(roster.proof, openings=openings)))


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    liar=Liar.COALITION,
    source=_SOURCE,
    text=(
        "When all have revealed, a colluder opens its commitment to other bytes: the last to "
        "speak would choose the graph."
    ),
)
def _changed_opening_of_a_colluder(arena: Arena) -> None:
    _changed_opening(arena, arena.colluders[0])


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="The server shows another opening in the place of the client's own.",
)
def _changed_opening_of_yours(arena: Arena) -> None:
    _changed_opening(arena, arena.victim)


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="One opening is missing: of several subsets the server would choose the graph it likes.",
)
def _openings_left_out(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    openings = np.delete(roster.proof.openings, arena.colluders[0], axis=0)
    arena.deliver(replace(roster, proof=replace(roster.proof, openings=openings)))


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="The roster states another cohort than committed to the graph.",
)
def _cohort_overstated(arena: Arena) -> None:
    arena.gone.add(arena.bystanders[0])
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    arena.deliver(replace(roster, cohort=roster.cohort + 1))


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    liar=Liar.COALITION,
    source=_SOURCE,
    text=(
        "The client is shown other neighbours than the graph's, with their true keys, "
        "signatures and proofs: the server puts colluders around it, who then hold all its "
        "shares."
    ),
)
def _surrounded_victim(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    others = set(range(arena.params.clients)) - {arena.victim} - set(map(int, roster.members))
    if not others:
        raise Inapplicable("everyone is everyone's neighbour")
    honest = arena.peer_of_victim(roster, arena.bystanders)
    chosen = min(others & set(arena.colluders) or others)
    members = roster.members.copy()
    members[honest] = chosen
    arena.deliver(arena.server.roster_of(np.sort(members)))


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    source=_SOURCE,
    text="An honest neighbour is left out, so that colluders are more of the rest.",
)
def _neighbour_left_out(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    if len(roster.members) <= arena.params.threshold:
        raise Inapplicable("no neighbour can be spared")
    honest = arena.peer_of_victim(roster, arena.bystanders)
    arena.deliver(arena.server.roster_of(np.delete(roster.members, honest)))


@behaviour(
    invariant="neighbours are those committed to",
    round="share-keys",
    threats=_SM,
    graphs=_SPARSE,
    liar=Liar.COALITION,
    source=_SOURCE,
    text=(
        "Once the graph is known a colluder signs other keys than those that were fixed before "
        "it: whoever turned out to be the victim's neighbour gets the attacker's keys."
    ),
)
def _keys_change_after_the_graph(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    place = arena.peer_of_victim(roster)
    member = int(roster.members[place])
    pair = attackers_keys(b"after the graph")
    message = AdvertiseKeys(tag=roster.tag, cipher_key=pair[0], mask_key=pair[1])
    signature = signed_as(arena, message, member, member, pair).signature
    arena.deliver(replace_row(roster, place, pair, signature))
