"""What a member insists on, each a function with a name and a test that breaks it.

What fails is a :class:`~privagg.errors.PeerError` against who is to blame, and the member then
sends nothing of its reading: a leader that lies gets silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privagg.errors import Abort, PeerError
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.messages import Roster
from privagg.protocols.sensor.params import Params

__all__ = [
    "cluster_is_large_enough",
    "echo_agrees",
    "elements_are_canonical",
    "epoch_is_new",
    "everyone_has_a_key",
    "first_share_of_origin",
    "holds_all_shares",
    "one_item_each",
    "opens",
    "quorum_is_reached",
    "roster_is_sorted",
    "roster_lists",
    "senders_are_enough",
]


def roster_is_sorted(roster: Roster, leader: int) -> None:
    """Require ids in ascending order: each once, and one position for each.

    Positions are the seeds. They start at 1 and are below the modulus, so that none is zero or
    equal to another modulo p.
    """
    pairs = zip(roster.members, roster.members[1:], strict=False)
    if not all(a < b for a, b in pairs):
        raise PeerError(leader, roster.round, "ids that are not ascending and distinct")


def cluster_is_large_enough(roster: Roster, leader: int, params: Params) -> None:
    """Require the minimum size: with fewer, the colluders allowed for learn too much."""
    found = len(roster.members)
    if found < params.min_cluster:
        allowed = f"at least {params.min_cluster}"
        raise PeerError(leader, roster.round, f"a cluster of {found}; allowed: {allowed}")
    if found >= params.field.modulus:
        raise PeerError(leader, roster.round, f"{found} members, as many as the field has points")


def roster_lists(roster: Roster, node: int, leader: int) -> None:
    """Require this node and the leader in the roster."""
    for who in (node, leader):
        if who not in roster.members:
            raise PeerError(leader, roster.round, f"a roster without node {who}")


def everyone_has_a_key(roster: Roster, leader: int, keyring: Keyring) -> None:
    """Require a key with every other member: who has none may not exist."""
    for node in roster.members:
        if node != keyring.node and keyring.key(node) is None:
            raise PeerError(leader, roster.round, f"node {node}, with which there is no key")


def epoch_is_new(roster: Roster, leader: int, last: int) -> None:
    """Require an epoch that was not begun before: a reading is shared once, under one roster.

    A second roster without one member would give the difference: that member's reading.
    """
    if roster.epoch <= last:
        raise PeerError(
            leader, roster.round, f"epoch {roster.epoch} again, or an older one; {last} was begun"
        )


def first_share_of_origin(held: Mapping[int, object], origin: int) -> None:
    """Require one share from each member."""
    if origin in held:
        raise PeerError(origin, "shares", "a second share in one epoch")


def opens(plaintext: bytes | None, origin: int, round: str) -> bytes:
    """Require a ciphertext that was made for this receiver, epoch, leader and roster."""
    if plaintext is None:
        raise PeerError(
            origin, round, "a tag that does not verify: damaged, replayed, or of another roster"
        )
    return plaintext


def one_item_each(items: Sequence[bytes], members: Sequence[int], origin: int, round: str) -> None:
    """Require an item for each other member of the roster."""
    if len(items) != len(members) - 1:
        raise PeerError(origin, round, f"{len(items)} items for {len(members) - 1} other members")


def elements_are_canonical(numbers: Sequence[int], origin: int, params: Params, round: str) -> None:
    """Require elements below the modulus."""
    if any(number >= params.field.modulus for number in numbers):
        raise PeerError(origin, round, "a number that is not below the field's modulus")


def senders_are_enough(senders: Sequence[bool], leader: int, params: Params) -> None:
    """Require at least t senders: a smaller set says more of each."""
    needed = params.threshold(len(senders))
    if sum(senders) < needed:
        raise PeerError(
            leader, "senders", f"a set of {sum(senders)} senders; allowed: at least {needed}"
        )


def holds_all_shares(
    senders: Sequence[bool], members: Sequence[int], held: Mapping[int, object]
) -> None:
    """Require the share of every sender; without it this member cannot answer, and says nothing."""
    missing = [n for n, sends in zip(members, senders, strict=True) if sends and n not in held]
    if missing:
        needed = sum(senders)
        raise Abort(f"shares of {len(missing)} members never came", needed - len(missing), needed)


def echo_agrees(tag_verifies: bool, origin: int, leader: int) -> None:
    """Require that another member was told the same set: else the leader told two stories."""
    if not tag_verifies:
        raise PeerError(
            leader, "echo", f"member {origin} echoes another set of senders, or the echo is damaged"
        )


def quorum_is_reached(agreeing: int, members: int, params: Params) -> None:
    """Require t members, this one included, that were told the same set of senders."""
    needed = params.threshold(members)
    if agreeing < needed:
        raise Abort("too few echo the set of senders", agreeing, needed)
