"""Bundles of items, one for each other member of a cluster: whose is whose."""

from __future__ import annotations

from collections.abc import Sequence

from privagg.errors import PeerError
from privagg.protocols.sensor.checks import one_item_each

__all__ = ["own_item", "relayed_origin"]


def own_item(items: Sequence[bytes], members: Sequence[int], origin: int, own: int) -> bytes:
    """Return the item for node `own` in a bundle of `origin`, another member with one for each."""
    if origin not in members or origin == own:
        raise PeerError(origin, "shares", "shares of a node outside the roster")
    one_item_each(items, members, origin, "shares")
    place = members.index(own)
    return items[place - (place > members.index(origin))]


def relayed_origin(position: int, members: Sequence[int], own: int, leader: int) -> int:
    """Return whose items the leader of node `own` sends on: another member's."""
    if not 0 <= position < len(members):
        raise PeerError(leader, "shares", f"an origin outside {len(members)} members")
    if members[position] == own:
        raise PeerError(leader, "shares", "this member's own items sent back to it")
    return members[position]
