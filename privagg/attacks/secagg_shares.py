"""The shares of the last round: whether each secret comes back, and whose share is wrong.

The server sees this too, as it rebuilds the secrets; an observer can check all of them.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from privagg import correction, sharing
from privagg.attacks.secagg_compare import Comparison
from privagg.attacks.secagg_findings import Finding
from privagg.attacks.secagg_replay import Record
from privagg.protocols.secagg import derivations
from privagg.protocols.secagg.messages import AdvertiseKeys, ShareKeys, UnmaskShares

__all__ = ["check_shares"]

_Share = tuple[int, NDArray[np.uint64]]
_Secret = tuple[int, bool]
"""A client, and whether it is its self mask's seed (else its mask key's)."""


def check_shares(record: Record, comparison: Comparison) -> list[Finding]:
    """Return missing and wrong shares, and secrets that do not come back."""
    shares: dict[_Secret, list[_Share]] = defaultdict(list)
    missing: dict[int, list[int]] = defaultdict(list)
    for holder, shadow in sorted(record.shadows.items()):
        answer = shadow.has_said(UnmaskShares)
        memory = shadow.memory
        if answer is None or len(answer.missing) != int(memory.holders.sum()):
            continue
        dealers = map(int, memory.members[memory.holders])
        alive = memory.survivors[memory.holders]
        for row, dealer in enumerate(dealers):
            if not answer.missing[row]:
                shares[dealer, bool(alive[row])].append((holder, answer.shares[row]))
            elif _came_whole(record, comparison, dealer, holder):
                missing[dealer].append(holder)
    findings = [
        _blame("unopened-ciphertext", dealer, holders, record)
        for dealer, holders in sorted(missing.items())
    ]
    for secret, held in sorted(shares.items(), key=lambda item: item[0]):
        if len(held) >= record.rules.params.threshold:
            findings += _rebuild(record, secret, held)
    return findings


def _came_whole(record: Record, comparison: Comparison, dealer: int, holder: int) -> bool:
    """Say whether only dealer or holder can be why a ciphertext did not open."""
    ends = record.shadows.get(dealer), record.shadows[holder]
    if ends[0] is None or (dealer, holder) in comparison.spoiled:
        return False
    if ends[0].memory.roster != ends[1].memory.roster:
        return False
    for one, other in ((ends[0], holder), (ends[1], dealer)):
        replaced = comparison.keys_replaced(one)[one.memory.members == other, 0]
        if replaced.any():
            return False
    return True


def _rebuild(record: Record, secret: _Secret, held: list[_Share]) -> list[Finding]:
    dealer, is_self_mask = secret
    t = record.rules.params.threshold
    points = np.array([holder + 1 for holder, _ in held], np.uint64)
    rows = np.stack([share for _, share in held])
    guess, wrong = None, np.zeros(len(held), np.bool_)
    found = correction.secrets_of(rows, points, t) if len(held) > t else None
    if found is not None:
        guess, wrong = found
    elif len(held) == t:
        guess = sharing.combine(rows[:, np.newaxis], points)[0][0].tobytes()
    if guess is None or not _is_right(record, dealer, is_self_mask, guess):
        return [_blame("unrebuildable", dealer, [holder for holder, _ in held], record)]
    if not wrong.any():
        return []
    holders = [holder for (holder, _), bad in zip(held, wrong, strict=True) if bad]
    return [_blame("wrong-share", dealer, holders, record)]


def _is_right(record: Record, dealer: int, is_self_mask: bool, secret: bytes) -> bool:
    shadow = record.shadows.get(dealer)
    if shadow is None:
        return False
    if is_self_mask:
        sent = shadow.has_said(ShareKeys)
        found = derivations.commitment(secret, shadow.memory.context, dealer)
        return sent is not None and sent.commitment == found
    advertised = shadow.has_said(AdvertiseKeys)
    public = derivations.key_pair(secret, b"mask", shadow.memory.context, dealer)[1]
    return advertised is not None and advertised.mask_key == public


def _blame(kind: str, dealer: int, holders: list[int], record: Record) -> Finding:
    many = len(holders) > 1
    shown = ", ".join(map(str, holders[:8])) + (", ..." if len(holders) > 8 else "")
    who = f"client {dealer}'s secret, held by client{'s' if many else ''} {shown}"
    return Finding(
        kind=kind,
        peer="dealer or holder",
        round=UnmaskShares.round,
        detail=who,
        clients=tuple(sorted({dealer, *holders})),
        seen_by="server",
        caught=True,  # a rebuilt secret is checked: nothing is unmasked with a wrong one
        messages=tuple(sorted(record.shadows[h].at[UnmaskShares] for h in holders)),
    )
