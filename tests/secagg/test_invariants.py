"""Each invariant that a client holds the server to, broken by a message from a real round.

After it the client has given up: it remembers no secret, and answers nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from parties import BOTH, Play, due, is_empty_handed, respond

from privagg import keys
from privagg.errors import Abort, PeerError
from privagg.protocols import secagg
from privagg.protocols.secagg import checks, messages
from privagg.protocols.secagg.states import Phase

CLIENTS = 7
WHO = 3
ABSENT = 5
"""Where a case needs one, the client that leaves before it shares its keys."""
SHARE, MASK, UNMASK = Phase.SHARE_KEYS, Phase.MASKED_INPUT, Phase.UNMASKING
ALL, COMPLETE, SPARSE = ("complete", "sparse"), ("complete",), ("sparse",)


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
    members = message.members[kept]
    cohort = len(members) if message.universe else len(members) + 1 + more_than
    return replace(message, cohort=cohort, members=members, keys=message.keys[kept])


def without_me(message):
    kept = message.members != WHO
    members = message.members[kept]
    return replace(message, cohort=len(members), members=members, keys=message.keys[kept])


def me_as_neighbour(message):
    members = message.members.copy()
    members[peer_at(message)] = WHO
    order = np.argsort(members)
    return replace(message, members=members[order], keys=message.keys[order])


def fewer_present(message, count):
    """Return a bundle with the first `count` ciphertexts, and a cohort to match."""
    present = message.present.copy()
    present[np.flatnonzero(present)[count:]] = False
    return replace(
        message, present=present, ciphertexts=message.ciphertexts[:count], cohort=count + 1
    )


def set_flags(message, flags, cohort=None):
    stated = message.cohort if cohort is None else cohort
    return replace(message, survivors=np.asarray(flags, np.bool_), cohort=stated)


def few_survivors(message, count, own_slot):
    """Return a survivor set of `count` clients in view, the client itself among them."""
    flags = np.zeros(len(message.survivors), np.bool_)
    flags[:count] = True
    if own_slot is not None:
        flags[:count] = False
        flags[[own_slot, *(at for at in range(len(flags)) if at != own_slot)][:count]] = True
    return set_flags(message, flags, count + (own_slot is None))


@dataclass(frozen=True)
class Case:
    """One way to break `check` in `phase`."""

    check: str
    phase: Phase
    change: Callable
    error: type
    graphs: tuple = ALL
    policy: dict | None = None
    options: dict | None = None
    someone_is_gone: bool = False


def own_slot(play):
    return play.clients[WHO]._own_slot


ROSTER_CASES = {
    "roster below min_cohort": Case(
        "cohort_is_large_enough",
        SHARE,
        lambda m, p: keep(m, 4),
        Abort,
        policy={"min_cohort": CLIENTS, "max_corrupt": 0},
    ),
    "cohort of one": Case(
        "cohort_is_large_enough", SHARE, lambda m, p: keep(m, 0), Abort, graphs=ALL
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

BUNDLE_CASES = {
    "U2 below min_cohort": Case(
        "cohort_is_large_enough",
        MASK,
        lambda m, p: replace(m, cohort=CLIENTS - 1),
        Abort,
        policy={"min_cohort": CLIENTS, "max_corrupt": 0},
    ),
    "more in U2 than were invited": Case(
        "cohort_is_large_enough", MASK, lambda m, p: replace(m, cohort=CLIENTS + 1), PeerError
    ),
    "U2 larger than its ciphertexts": Case(
        "cohort_matches_set",
        MASK,
        lambda m, p: replace(fewer_present(m, 3), cohort=CLIENTS),
        PeerError,
        COMPLETE,
    ),
    "U2 smaller than its ciphertexts": Case(
        "cohort_matches_set", MASK, lambda m, p: replace(m, cohort=3), PeerError
    ),
    "U2 with too few holders": Case(
        "enough_holders",
        MASK,
        lambda m, p: fewer_present(m, 2),
        Abort,
        options={"threshold": 4},
    ),
    "U2 over fewer members": Case(
        "bitmap_covers_roster",
        MASK,
        lambda m, p: replace(m, present=m.present[:-1], ciphertexts=m.ciphertexts[:-1]),
        PeerError,
    ),
    "U2 over more members": Case(
        "bitmap_covers_roster",
        MASK,
        lambda m, p: replace(m, present=np.append(m.present, False)),
        PeerError,
        someone_is_gone=True,
    ),
}

SURVIVOR_CASES = {
    "U3 below min_cohort": Case(
        "cohort_is_large_enough",
        UNMASK,
        lambda m, p: few_survivors(m, 3, own_slot(p)),
        Abort,
        policy={"min_cohort": CLIENTS, "max_corrupt": 0},
    ),
    "more in U3 than were invited": Case(
        "cohort_is_large_enough", UNMASK, lambda m, p: replace(m, cohort=2**32 - 1), PeerError
    ),
    "U3 called larger than it is": Case(
        "cohort_matches_set",
        UNMASK,
        lambda m, p: replace(few_survivors(m, 3, own_slot(p)), cohort=CLIENTS),
        PeerError,
        COMPLETE,
        policy={"min_cohort": 5, "max_corrupt": 0},
    ),
    "U3 called smaller than it is": Case(
        "cohort_matches_set", UNMASK, lambda m, p: replace(m, cohort=3), PeerError
    ),
    "U3 with too few to answer": Case(
        "enough_holders",
        UNMASK,
        lambda m, p: replace(few_survivors(m, 3, own_slot(p))),
        Abort,
        options={"threshold": 4},
    ),
    "U3 over fewer members": Case(
        "bitmap_covers_roster",
        UNMASK,
        lambda m, p: set_flags(m, m.survivors[:-1], m.cohort - 1),
        PeerError,
    ),
    "U3 over more members": Case(
        "bitmap_covers_roster",
        UNMASK,
        lambda m, p: set_flags(m, np.append(m.survivors, True), m.cohort + 1),
        PeerError,
        someone_is_gone=True,
    ),
    "a survivor outside U2": Case(
        "survivors_within_holders",
        UNMASK,
        lambda m, p: set_flags(m, np.ones_like(m.survivors), m.cohort + 1),
        PeerError,
        someone_is_gone=True,
    ),
    "we are not in the sum": Case(
        "survivors_include_self",
        UNMASK,
        lambda m, p: set_flags(m, np.arange(len(m.survivors)) != own_slot(p), m.cohort - 1),
        PeerError,
        COMPLETE,
    ),
}

CASES = ROSTER_CASES | BUNDLE_CASES | SURVIVOR_CASES


def own_key(play, name):
    advertised = play.up[Phase.ADVERTISE_KEYS, WHO]
    message = messages.decode(advertised, play.params, peer=WHO)
    return np.frombuffer(getattr(message, name), np.uint8)


def started(case, graph):
    """Play until the server has the message of `case` for `WHO`."""
    options = {"min_cohort": 2} | (case.options or {})
    if graph == "sparse" and (case.options or {}).get("threshold"):
        options["neighbours"] = 4
    params = BOTH[graph](CLIENTS, 3, **options)
    policy = secagg.Policy(**case.policy) if case.policy else None
    play = Play(params, policy=policy)
    if case.someone_is_gone:
        # Gone before the keys if the roster must be short, after them if U2 must be.
        neighbours = set(map(int, play.server._topology.row(WHO)))
        gone = ABSENT if ABSENT in neighbours else min(neighbours)
        play.leaves = {gone: 1 if case.check == "survivors_within_holders" else 0}
    return play.until(case.phase)


@pytest.mark.parametrize(
    ("case", "graph"),
    [
        pytest.param(case, graph, id=f"{name}-{graph}")
        for name, case in CASES.items()
        for graph in case.graphs
    ],
)
def test_a_broken_invariant_ends_the_round_for_the_client(case, graph, monkeypatch):
    play = started(case, graph)
    client, good = play.clients[WHO], due(play, WHO)
    fired = []
    original = getattr(checks, case.check)

    def watched(*args):
        try:
            return original(*args)
        except (PeerError, Abort):
            fired.append(case.check)
            raise

    monkeypatch.setattr(checks, case.check, watched)
    bad = messages.decode(case.change(good, play).encode(), play.params, peer="server")
    with pytest.raises(case.error) as caught:
        respond(client, bad, play.vectors[WHO])
    assert fired == [case.check]
    assert bad.round in str(caught.value)
    assert is_empty_handed(client)
    for message in (bad, good):
        with pytest.raises(PeerError, match="the round is over for this client"):
            respond(client, message, play.vectors[WHO])
    assert is_empty_handed(client)


@pytest.mark.parametrize("graph", BOTH)
def test_the_unbroken_messages_of_these_rounds_are_answered(graph):
    """Otherwise the test above would prove nothing."""
    for case in CASES.values():
        if graph in case.graphs:
            play = started(case, graph)
            respond(play.clients[WHO], due(play, WHO), play.vectors[WHO])


def test_every_invariant_has_a_test_that_breaks_it():
    elsewhere = {"policy_is_met", "same_round"}  # in test_policy.py and test_states.py
    assert {case.check for case in CASES.values()} | elsewhere == set(checks.__all__)
