"""Clients that lie to an honest server before they share keys: with keys and openings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from privagg.errors import Abort
from privagg.protocols.secagg import Graph, Phase, Threat
from privagg.protocols.secagg.client_graph import MAX_ATTEMPTS
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
    GraphReveal,
    Message,
)
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    SIGNED,
    Expect,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import Sent, lie_in, signed_as

__all__ = ()

_SPARSE = (Graph.SPARSE,)
_SM = (Threat.SEMI_MALICIOUS,)
_CLIENTS = Liar.CLIENTS


def _with_keys(
    arena: Arena, change: Callable[[AdvertiseKeys], AdvertiseKeys], *, last: bool = False
) -> None:
    def lie(index: int, reply: AdvertiseKeys) -> Sent:
        changed = change(reply)
        pair = changed.cipher_key, changed.mask_key
        return [signed_as(arena, reply, index, index, pair)]

    lie_in(arena, Phase.ADVERTISE_KEYS, lie, last=last)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="keys of full order",
    round="advertise-keys",
    source="RFC 7748, section 6.1",
    text="A client advertises a key of low order, so that all others leave when they see it.",
)
def _client_with_a_low_order_key(arena: Arena) -> None:
    _with_keys(arena, lambda reply: replace(reply, mask_key=bytes(32)))


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="canonical keys",
    round="advertise-keys",
    source="RFC 7748, section 5",
    text="A client advertises a second encoding of a point, so that all others leave.",
)
def _client_with_a_non_canonical_key(arena: Arena) -> None:
    second = (2**255 - 19 + 9).to_bytes(32, "little")
    _with_keys(arena, lambda reply: replace(reply, cipher_key=second))


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="distinct keys",
    round="advertise-keys",
    source="pitfall 10",
    text="A client advertises one key twice, so that all others leave.",
)
def _client_with_one_key_for_both_uses(arena: Arena) -> None:
    _with_keys(arena, lambda reply: replace(reply, mask_key=reply.cipher_key))


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    invariant="distinct keys",
    round="advertise-keys",
    source="pitfall 5",
    text="A client advertises an honest client's keys as its own.",
)
def _client_with_the_keys_of_another(arena: Arena) -> None:
    first = arena.bystanders[0]
    taken = arena.reply(first, arena.ask(first))
    assert isinstance(taken, AdvertiseKeys)
    pair = taken.cipher_key, taken.mask_key
    _with_keys(arena, lambda own: replace(own, cipher_key=pair[0], mask_key=pair[1]), last=True)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    threats=SIGNED,
    invariant="signed keys",
    round="advertise-keys",
    source="pitfall 5",
    text="A client's keys come without its identity's signature.",
)
def _client_without_a_signature(arena: Arena) -> None:
    lie_in(arena, Phase.ADVERTISE_KEYS, lambda index, reply: [replace(reply, signature=bytes(64))])


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    threats=SIGNED,
    invariant="signed keys",
    round="advertise-keys",
    source="pitfalls 5 and 12",
    text="A client sends the keys and the signature of the round before again, as this round's.",
)
def _client_with_the_keys_of_last_round(arena: Arena) -> None:
    last = arena.last_round()

    def lie(index: int, reply: AdvertiseKeys) -> Sent:
        old = last.reply(index, last.ask(index))
        return [replace(old, tag=reply.tag)]

    lie_in(arena, Phase.ADVERTISE_KEYS, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.REFUSED,
    threats=_SM,
    graphs=_SPARSE,
    invariant="openings are those committed to",
    round="reveal-graph",
    source="pitfall 22",
    text=(
        "A client opens its commitment to other bytes, having waited for the openings of all "
        "others. The graph is drawn again, without it."
    ),
)
def _client_with_another_opening(arena: Arena) -> None:
    def lie(index: int, reply: GraphReveal) -> Sent:
        return [replace(reply, opening=bytes(len(reply.opening)))]

    lie_in(arena, Phase.REVEAL_GRAPH, lie)


@behaviour(
    liar=_CLIENTS,
    expect=Expect.ENDED,
    errors=(Abort,),
    threats=_SM,
    graphs=_SPARSE,
    invariant="draws of the graph are limited",
    round="reveal-graph",
    source="pitfall 22",
    text="In each draw another client commits and does not reveal, if it dislikes the graph.",
)
def _clients_that_never_reveal(arena: Arena) -> None:
    params = arena.params
    spare = params.clients - max(params.threshold, params.min_cohort)
    liars = list((*arena.colluders, *arena.bystanders))[:MAX_ATTEMPTS]
    if spare < MAX_ATTEMPTS:
        raise Inapplicable("the cohort is too small by then")
    arena.liars = set(liars)
    turns = iter(liars)
    current = [next(turns)]

    def tamper(phase: Phase, index: int, reply: Message) -> Sent:
        if phase is not Phase.REVEAL_GRAPH or index != current[0]:
            return [reply]
        current[0] = next(turns, -1)
        late.add(index)
        return []

    late: set[int] = set()
    arena.play(tamper)
