"""A server, alone or with clients, that shows other keys, or keys that should not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from privagg import keys
from privagg.protocols.secagg import Graph, Phase, derivations
from privagg.protocols.secagg.messages import (
    AdvertiseKeys,
)
from privagg.testing.secagg.arena import Arena, Inapplicable
from privagg.testing.secagg.behaviour import (
    SIGNED,
    Liar,
    behaviour,
)
from privagg.testing.secagg.forgery import (
    Pair,
    attackers_keys,
    open_with_keys,
    replace_row,
    signed_as,
)

__all__ = ()

_COMPLETE = (Graph.COMPLETE,)
_MITM = "pitfall 5; CCS 2017, section 6.2"
_RFC_7748 = "RFC 7748, section 6.1"


def _replace_keys(arena: Arena, signature: Callable[[AdvertiseKeys, int, Pair], bytes]) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    place = arena.peer_of_victim(roster, arena.bystanders)
    member = int(roster.members[place])
    pair = attackers_keys(b"between them")
    message = AdvertiseKeys(tag=roster.tag, cipher_key=pair[0], mask_key=pair[1])
    arena.deliver(replace_row(roster, place, pair, signature(message, member, pair)))


@behaviour(
    invariant="keys_are_signed",
    round="share-keys",
    threats=SIGNED,
    source=_MITM,
    text=(
        "The server puts its own keys in the place of an honest peer's, with that peer's "
        "signature over the true ones: the man in the middle reads the shares and takes the "
        "pair's mask off."
    ),
)
def _keys_replaced(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    place = arena.peer_of_victim(roster, arena.bystanders)
    arena.deliver(replace_row(roster, place, attackers_keys(b"between them")))


@behaviour(
    invariant="keys_are_signed",
    round="share-keys",
    threats=SIGNED,
    source=_MITM,
    text="As keys-replaced, with an empty signature.",
)
def _keys_unsigned(arena: Arena) -> None:
    _replace_keys(arena, lambda message, member, pair: bytes(64))


@behaviour(
    invariant="keys_are_signed",
    round="share-keys",
    threats=SIGNED,
    source=_MITM,
    text="As keys-replaced, signed anew by an identity that is not in the roster.",
)
def _keys_signed_by_a_stranger(arena: Arena) -> None:
    stranger = keys.Identity(keys.digest(b"a stranger"))

    def sign(message: AdvertiseKeys, member: int, pair: Pair) -> bytes:
        statement = derivations.advertise_statement(arena.context, member, *pair)
        return stranger.sign(statement)

    _replace_keys(arena, sign)


@behaviour(
    invariant="keys_are_signed",
    round="share-keys",
    threats=SIGNED,
    liar=Liar.COALITION,
    source=_MITM,
    text=(
        "As keys-replaced, signed by a client of the roster that colludes, but is not that peer."
    ),
)
def _keys_signed_by_a_colluder(arena: Arena) -> None:
    def sign(message: AdvertiseKeys, member: int, pair: Pair) -> bytes:
        return signed_as(arena, message, arena.colluders[0], member, pair).signature

    _replace_keys(arena, sign)


@behaviour(
    invariant="keys_are_signed",
    round="share-keys",
    threats=SIGNED,
    source="pitfalls 5 and 8",
    text=(
        "A peer's keys of the round before, with its true signature of then: who learned that "
        "round's secrets would know this one's masks."
    ),
)
def _keys_of_last_round(arena: Arena) -> None:
    last = arena.last_round()
    last.until(Phase.SHARE_KEYS)
    arena.until(Phase.SHARE_KEYS)
    roster, old = arena.due(), last.server
    place = arena.peer_of_victim(roster, arena.bystanders)
    roster_then = old.roster_of(roster.members[place : place + 1])
    row = roster_then.keys[0].tobytes()
    signature = roster_then.signatures[0].tobytes()
    pair = row[: keys.KEY_BYTES], row[keys.KEY_BYTES :]
    arena.deliver(replace_row(roster, place, pair, signature))


@behaviour(
    invariant="signatures on the wire",
    round="share-keys",
    threats=SIGNED,
    source=_MITM,
    ends_round=False,
    text="The roster comes without any signatures, as in a round without identities.",
)
def _signatures_left_out(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    arena.deliver(replace(arena.due(), signatures=None))


@behaviour(
    invariant="own_keys_are_listed",
    round="share-keys",
    graphs=_COMPLETE,
    source="CCS 2017, fig. 4",
    text=(
        "The roster lists other keys for the client itself: everyone else would agree with the "
        "server in its place."
    ),
)
def _own_keys_replaced(arena: Arena) -> None:
    arena.until(Phase.SHARE_KEYS)
    roster = arena.due()
    place = list(roster.members).index(arena.victim)
    arena.deliver(replace_row(roster, place, attackers_keys(b"in your place")))


@behaviour(
    invariant="keys_are_distinct",
    round="share-keys",
    liar=Liar.COALITION,
    source="pitfall 5",
    text=(
        "All colluders advertise the same two keys, each with its own signature: one party that "
        "counts as many."
    ),
)
def _sybils_with_one_key(arena: Arena) -> None:
    pair = attackers_keys(b"Sybil")
    roster = open_with_keys(arena, lambda place, own, victims: pair)
    if int(np.isin(roster.members, arena.colluders).sum()) < 2:
        raise Inapplicable("fewer than two colluders are neighbours of the victim")
    arena.deliver(roster)


@behaviour(
    invariant="keys_are_distinct",
    round="share-keys",
    liar=Liar.COALITION,
    source="pitfall 10",
    text=(
        "A colluder advertises one key for encryption and for masks, so that what one use gives "
        "away opens the other."
    ),
)
def _one_key_for_both_uses(arena: Arena) -> None:
    arena.deliver(open_with_keys(arena, lambda place, own, victims: (own[0], own[0])))


@behaviour(
    invariant="keys_are_distinct",
    round="share-keys",
    liar=Liar.COALITION,
    source="pitfall 5",
    text=(
        "A colluder advertises the client's own keys as its own: the pair's secrets would be "
        "those of the client with itself."
    ),
)
def _your_own_keys(arena: Arena) -> None:
    arena.deliver(open_with_keys(arena, lambda place, own, victims: victims))


def _bad_key(arena: Arena, number: int, *, half: int) -> None:
    bad = number.to_bytes(keys.KEY_BYTES, "little")

    def forge(place: int, own: Pair, victims: Pair) -> Pair:
        if place:
            return own
        return (bad, own[1]) if half == 0 else (own[0], bad)

    roster = open_with_keys(arena, forge)
    arena.peer_of_victim(roster, arena.colluders[:1])
    arena.deliver(roster)


@behaviour(
    invariant="keys_have_full_order",
    round="share-keys",
    liar=Liar.COALITION,
    source=_RFC_7748,
    text=(
        "A colluder's encryption key is the point 1 of low order: everyone knows what it agrees "
        "on, so that anyone opens the client's ciphertext."
    ),
)
def _low_order_cipher_key(arena: Arena) -> None:
    _bad_key(arena, 1, half=0)


@behaviour(
    invariant="keys_have_full_order",
    round="share-keys",
    liar=Liar.COALITION,
    source=_RFC_7748,
    text=(
        "A colluder's mask key is the point 0 of low order: the pair's mask is known to everyone."
    ),
)
def _low_order_mask_key(arena: Arena) -> None:
    _bad_key(arena, 0, half=1)


@behaviour(
    invariant="keys_are_canonical",
    round="share-keys",
    liar=Liar.COALITION,
    source=_RFC_7748,
    text=(
        "A colluder's key is p + 9, a second encoding of the point 9: keys that look distinct "
        "and are not."
    ),
)
def _non_canonical_key(arena: Arena) -> None:
    _bad_key(arena, 2**255 - 19 + 9, half=1)
