"""Ways to break each invariant that a client holds the server to, in a message of a real round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from privagg import keys
from privagg.errors import Abort, PeerError
from privagg.protocols.secagg import messages
from privagg.protocols.secagg.states import Phase

CLIENTS = 7
WHO = 3
START, SHARE, MASK = Phase.ADVERTISE_KEYS, Phase.SHARE_KEYS, Phase.MASKED_INPUT
SURVIVE, UNMASK = Phase.CONSISTENCY_CHECK, Phase.UNMASKING
"""SURVIVE is where a survivor set is shown: unmasking, if there is no consistency check."""
ACTIVE, DRAWN = ("active",), ("semi-malicious",)
COMPLETE, SPARSE = ("complete", *ACTIVE), ("sparse", *DRAWN)
SIGNED, ALL = ACTIVE + DRAWN, COMPLETE + SPARSE


def point(number: int) -> np.ndarray:
    return np.frombuffer(number.to_bytes(32, "little"), np.uint8)


def with_key(message, at, half, key):
    """Return the roster with another key: `half` 0 is the c key, 1 the s key."""
    rows = message.keys.copy()
    rows[at, 32 * half : 32 * half + 32] = key
    return replace(message, keys=rows)


def peer_at(message):
    """Return the position of some peer of `WHO` in a roster."""
    return next(at for at, member in enumerate(message.members) if member != WHO)


def key_of(message, at, half):
    return message.keys[at, 32 * half : 32 * half + 32]


def keep(message, count, more_than=0):
    """Return a roster of the first `count` members, with the cohort it states."""
    kept = np.arange(len(message.members)) < count
    if message.universe:
        kept[message.members == WHO] = True
    message = select(message, kept)
    count = len(message.members)
    return replace(message, cohort=count if message.universe else count + 1 + more_than)


def select(message, rows):
    """Return the roster of some rows, with all that belongs to them."""
    signatures, proof = message.signatures, message.proof
    return replace(
        message,
        members=message.members[rows],
        keys=message.keys[rows],
        signatures=None if signatures is None else signatures[rows],
        proof=None if proof is None else replace(proof, paths=proof.paths[rows]),
    )


def without_me(message):
    message = select(message, message.members != WHO)
    return replace(message, cohort=len(message.members))


def me_as_neighbour(message):
    members = message.members.copy()
    members[peer_at(message)] = WHO
    return select(replace(message, members=members), np.argsort(members))


def with_signature(message, at, signature):
    rows = message.signatures.copy()
    rows[at] = signature
    return replace(message, signatures=rows)


def fewer_clients(message, count):
    """Return a message of the graph's drawing in which only so many take part."""
    present = np.zeros_like(message.present)
    present[[WHO, *(at for at in range(CLIENTS) if at != WHO)][:count]] = True
    return replace(message, present=present)


@dataclass(frozen=True)
class Case:
    """One way to break `check` in `phase`."""

    check: str
    phase: Phase
    change: Callable
    error: type
    kinds: tuple = ALL
    policy: dict | None = None
    options: dict | None = None
    gone_at: Phase | None = None
    """Where a client that `WHO` should know is gone: the one that `gone` finds."""


def own_slot(play):
    return play.clients[WHO]._memory.own_slot


def gone(play):
    """Return the position in the roster of the client that is gone."""
    return list(play.clients[WHO]._memory.members).index(play.absent)


START_CASES = {
    "other parameters": Case(
        "parameters_are_ours", START, lambda m, p: replace(m, params_digest=bytes(32)), PeerError
    ),
    "an index that there is not": Case(
        "parameters_are_ours", START, lambda m, p: replace(m, client=CLIENTS), PeerError
    ),
    "another's index": Case(
        "index_is_ours", START, lambda m, p: replace(m, client=WHO + 1), PeerError, SIGNED
    ),
    "a small cohort before the graph is drawn": Case(
        "cohort_is_large_enough",
        Phase.COMMIT_GRAPH,
        lambda m, p: fewer_clients(m, 4),
        Abort,
        DRAWN,
        policy={"min_cohort": 5, "max_corrupt": 0},
    ),
    "few commitments": Case(
        "cohort_is_large_enough",
        Phase.REVEAL_GRAPH,
        lambda m, p: fewer_clients(m, 4),
        Abort,
        DRAWN,
        policy={"min_cohort": 5, "max_corrupt": 0},
    ),
}


ROSTER_CASES = {
    "roster below min_cohort": Case(
        "cohort_is_large_enough",
        SHARE,
        lambda m, p: keep(m, 4),
        Abort,
        policy={"min_cohort": CLIENTS, "max_corrupt": 0},
    ),
    "cohort of one": Case(
        "cohort_is_large_enough", SHARE, lambda m, p: keep(m, 0), Abort, kinds=ALL
    ),
    "too few holders": Case(
        "enough_holders",
        SHARE,
        lambda m, p: keep(m, 2, more_than=3),
        Abort,
        options={"threshold": 4},
    ),
    "own keys left out": Case(
        "own_keys_are_listed", SHARE, lambda m, p: without_me(m), PeerError, COMPLETE
    ),
    "other keys as ours": Case(
        "own_keys_are_listed",
        SHARE,
        lambda m, p: with_key(m, list(m.members).index(WHO), 1, point(9)),
        PeerError,
        COMPLETE,
    ),
    "we are our own neighbour": Case(
        "own_keys_are_listed", SHARE, lambda m, p: me_as_neighbour(m), PeerError, SPARSE
    ),
    "one key for two clients": Case(
        "keys_are_distinct",
        SHARE,
        lambda m, p: with_key(m, peer_at(m), 0, key_of(m, -1, 0)),
        PeerError,
    ),
    "one client's c key as another's s key": Case(
        "keys_are_distinct",
        SHARE,
        lambda m, p: with_key(m, peer_at(m), 1, key_of(m, -1, 0)),
        PeerError,
    ),
    "c and s alike": Case(
        "keys_are_distinct",
        SHARE,
        lambda m, p: with_key(m, peer_at(m), 1, key_of(m, peer_at(m), 0)),
        PeerError,
    ),
    "a peer's signature missing": Case(
        "keys_are_signed",
        SHARE,
        lambda m, p: with_signature(m, peer_at(m), 0),
        PeerError,
        SIGNED,
    ),
    "a peer's signature flipped": Case(
        "keys_are_signed",
        SHARE,
        lambda m, p: with_signature(m, peer_at(m), m.signatures[peer_at(m)] ^ 1),
        PeerError,
        SIGNED,
    ),
    "signatures swapped": Case(
        "keys_are_signed",
        SHARE,
        lambda m, p: replace(m, signatures=m.signatures[::-1]),
        PeerError,
        SIGNED,
    ),
    "our own c key at a peer": Case(
        "keys_are_distinct",
        SHARE,
        lambda m, p: with_key(m, peer_at(m), 0, own_key(p, "cipher_key")),
        PeerError,
    ),
    "our own s key at a peer": Case(
        "keys_are_distinct",
        SHARE,
        lambda m, p: with_key(m, peer_at(m), 1, own_key(p, "mask_key")),
        PeerError,
    ),
} | {
    f"{name} as {'cs'[half]} key": Case(
        check,
        SHARE,
        lambda m, p, number=number, half=half: with_key(m, peer_at(m), half, point(number)),
        PeerError,
    )
    for half in (0, 1)
    for check, name, number in (
        ("keys_are_canonical", "p", 2**255 - 19),
        ("keys_are_canonical", "p + 9", 2**255 - 10),
        ("keys_are_canonical", "a top bit", 2**255 + 9),
        ("keys_have_full_order", "zero", 0),
        ("keys_have_full_order", "one", 1),
        ("keys_have_full_order", "p - 1", 2**255 - 20),
        *(
            ("keys_have_full_order", f"order 8 ({at})", int.from_bytes(key, "little"))
            for at, key in enumerate(sorted(keys.LOW_ORDER_POINTS))
            if key[3] not in (0, 255)
        ),
    )
}


def own_key(play, name):
    advertised = play.up[Phase.ADVERTISE_KEYS, WHO]
    message = messages.decode(advertised, play.params, peer=WHO)
    return np.frombuffer(getattr(message, name), np.uint8)
