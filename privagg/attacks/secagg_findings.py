"""What an audit of a transcript can find, by name."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEVIATIONS", "NOTICES", "Finding", "merge"]

DEVIATIONS = {
    "garbage": "bytes that are no message of this round's parameters",
    "unknown-client": "a message of, or to, a client that the parameters do not have",
    "out-of-order": "a message that is not due",
    "other-round": "a message of another session, round or configuration",
    "second-different": "the same message a second time, with other content",
    "different-starts": "clients were told different sessions, rounds or parameters",
    "different-graphs": "clients were told different keys or commitments of the graph",
    "different-rosters": "clients were shown different rosters",
    "different-sharers": "clients were told different sets of who shared keys",
    "different-survivors": "clients were told different survivor sets",
    "both-kinds": "both kinds of share of one client were asked for",
    "one-sided-edge": "a neighbour relation that only one of the two was told",
    "cohort-inflated": "a cohort larger than the messages that were sent",
    "bad-set": "a set of clients that contradicts what came before",
    "cohort-too-small": "a set below the minimum cohort or the threshold was acted upon",
    "different-signatures": "clients were shown different sets of signatures",
    "altered-keys": "keys were shown that are not those the client advertised",
    "invented-client": "a client was named that sent nothing",
    "altered-ciphertext": "a ciphertext was relayed that is not the one sent",
    "altered-signature": "a signature over the survivors was passed on that is not the one sent",
    "own-keys": "a client's own keys were left out or replaced",
    "key-repeated": "a public key that appears twice",
    "key-malformed": "a public key of low order or not canonically encoded",
    "bad-signature": "a signature that the identity did not make over this content",
    "bad-graph": "neighbours that are not those of the committed graph",
    "bad-opening": "an opening that is not what was committed to",
    "wrong-count": "not one item for each peer",
    "wrong-share": "a share that is not on its secret's polynomial",
    "unopened-ciphertext": "a ciphertext that the holder reports as not opening",
    "unrebuildable": "a secret that its shares do not give",
}
"""Each kind of deviation and what it is."""

NOTICES = {
    "left-out": "an input that was sent is not in the sum",
}
"""What is no one's fault, yet worth knowing."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that one peer did in one round.

    Attributes
    ----------
    kind : str
        A key of :data:`DEVIATIONS` or :data:`NOTICES`.
    peer : int or str
        Who: a client's index, ``"server"``, or ``"dealer or holder"`` where it cannot be told.
    round : str
        Where.
    detail : str
        What was seen.
    clients : tuple of int
        Whom it concerns.
    seen_by : str
        Who can see it in the round itself: ``"client"`` (those in `clients`), ``"server"``, or
        ``"observer"``: only who sees all traffic, or clients that compare notes.
    caught : bool or None
        Where a client can see it: whether every client that could answered no more. Where the
        server can: whether the round went on without the message. None where nobody could tell.
    messages : tuple of int
        The transcript's messages, from 1.
    """

    kind: str
    peer: int | str
    round: str
    detail: str
    clients: tuple[int, ...] = ()
    seen_by: str = "observer"
    caught: bool | None = None
    messages: tuple[int, ...] = ()

    @property
    def is_deviation(self) -> bool:
        """Whether a peer left the protocol."""
        return self.kind in DEVIATIONS


def merge(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings with those alike put together: one for all clients it concerns.

    A server that sends the same wrong message to a hundred clients did one thing.

    Parameters
    ----------
    findings : list of Finding
        In any order.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        key = (one.kind, one.peer, one.round, one.detail, one.seen_by)
        groups.setdefault(key, []).append(one)
    merged = []
    for same in groups.values():
        first = same[0]
        known = [one.caught for one in same if one.caught is not None]
        merged.append(
            Finding(
                kind=first.kind,
                peer=first.peer,
                round=first.round,
                detail=first.detail,
                clients=tuple(sorted({client for one in same for client in one.clients})),
                seen_by=first.seen_by,
                caught=all(known) if known else None,
                messages=tuple(sorted({number for one in same for number in one.messages})),
            )
        )
    return tuple(merged)
