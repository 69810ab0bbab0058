"""Honest rounds: nobody may be accused. Else a client that refuses everything would pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.protocols.secagg import Graph, Phase, Threat
from privagg.protocols.secagg.messages import ShareKeys
from privagg.testing.secagg.arena import Accused, Arena
from privagg.testing.secagg.behaviour import Expect, Liar, behaviour

__all__ = ()

_SOURCE = "control"


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    source=_SOURCE,
    expect=Expect.HONEST,
    text="Everyone stays to the end.",
)
def _honest_round(arena: Arena) -> None:
    arena.until(Phase.DONE)


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    source=_SOURCE,
    expect=Expect.HONEST,
    text="All clients are of the kind under test.",
)
def _honest_round_among_themselves(arena: Arena) -> None:
    arena.everyone_is_under_test()
    arena.until(Phase.DONE)


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    source="control; pitfall 21",
    expect=Expect.HONEST,
    text="One client leaves after sharing its keys, and one after sending its input.",
)
def _honest_round_with_dropouts(arena: Arena) -> None:
    arena.until(Phase.MASKED_INPUT)
    arena.gone.add(arena.bystanders[0])
    arena.step()
    arena.gone.add(arena.bystanders[-1])
    arena.until(Phase.DONE)


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    source="control; pitfall 21",
    expect=Expect.HONEST,
    text="One client never comes, and one leaves before it shares its keys.",
)
def _honest_round_with_early_dropouts(arena: Arena) -> None:
    arena.gone.add(arena.bystanders[0])
    arena.until(Phase.SHARE_KEYS)
    arena.gone.add(arena.bystanders[-1])
    arena.until(Phase.DONE)


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    source=_SOURCE,
    expect=Expect.HONEST,
    text="Every message reaches the client twice; the second time it must get the same answer.",
)
def _honest_round_with_every_message_twice(arena: Arena) -> None:
    while arena.phase is not Phase.DONE:
        message = arena.due()
        if arena.say(message).encode() != arena.say(message).encode():
            error = ValueError("a repeated message got another answer")
            raise Accused(error, arena.round_of(message))
        arena.step()


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    threats=(Threat.SEMI_MALICIOUS,),
    graphs=(Graph.SPARSE,),
    source=_SOURCE,
    expect=Expect.HONEST,
    text="A client commits to its part of the graph and is then gone: the graph is drawn again.",
)
def _honest_second_draw(arena: Arena) -> None:
    arena.until(Phase.REVEAL_GRAPH)
    arena.gone.add(arena.bystanders[0])
    arena.until(Phase.DONE)


@behaviour(
    liar=Liar.NOBODY,
    invariant="",
    round="unmasking",
    source="control; pitfall 11",
    expect=Expect.HONEST,
    text=(
        "The server is honest; one client sends random bytes as its ciphertexts. No other may "
        "leave for it: else one client ends the round for all."
    ),
)
def _garbage_from_one_client(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    dealer = arena.colluders[0]
    for index in arena.present():
        if index != dealer:
            arena.exchange(index)
    reply = arena.reply(dealer, arena.ask(dealer))
    assert isinstance(reply, ShareKeys)
    columns = reply.ciphertexts.copy()
    columns[0] = np.resize(np.frombuffer(keys.digest(b"garbage"), np.uint8), columns.shape[1])
    members = arena.rosters[dealer].members
    victims = np.flatnonzero(members[members != dealer] == arena.victim)
    columns[victims] = columns[0]
    arena.server.receive(dealer, replace(reply, ciphertexts=columns))
    arena.server.close()
    arena.until(Phase.DONE)
