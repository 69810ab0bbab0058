"""What the server and a coalition of clients know of the inputs of one round, exactly.

The server alone knows the masked inputs, the shares that were sent to it, and whatever was
encrypted to keys that it put in place of others. A client that joins it brings the shares it holds
and the masks it has with its neighbours. Then

- a client's secret is known by t of its shares; with the seed of its mask key go all its pairwise
  masks, with that of its self mask the other one;
- a mask between two clients that both stay secret keeps the two inputs together: what can be
  learned are the sums over the components of the graph of such masks, each where all its self
  masks are known and no mask is left over that nothing cancels;
- a component of one client is that client's input.

This is what the protocol's algebra gives; that nothing more can be learned rests on its
cryptography (Bonawitz et al., CCS 2017, section 6; Bell et al., CCS 2020, section 3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT, kernel
from privagg.attacks.secagg_compare import Comparison
from privagg.attacks.secagg_replay import Record
from privagg.protocols.secagg.messages import (
    KeyRoster,
    MaskedInput,
    ShareBundle,
    ShareKeys,
    UnmaskShares,
)

__all__ = ["DANGLING", "KNOWN", "SHARED", "Knowledge", "Outcomes", "evaluate", "evaluate_plain"]

DANGLING, SHARED, KNOWN = 0, 1, 2
"""A pairwise mask in a client's input: nothing cancels it, the peer's input does, or the server
knows it from the start."""

Flags = NDArray[np.bool_]
Ids = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """Shares and masks of a round, as rows of edges per client.

    Attributes
    ----------
    threshold : int
        t.
    inputs : (n,) bool array
        Whose masked input was sent.
    share_start : (n + 1,) int32 array
        The shares of client v are rows ``share_start[v]`` to ``share_start[v + 1]``.
    holder : (s,) int32 array
        Per share who holds it.
    gives_self, gives_mask : (s,) bool arrays
        Whether its holder can still tell the server a share of the self mask's or of the mask key's
        seed: it holds one, and the server has none from it yet.
    self_known, mask_known : (n,) int32 arrays
        Shares of each kind that the server has anyway.
    mask_start, peer, state : arrays
        Likewise for the pairwise masks in each input, with :data:`DANGLING`, :data:`SHARED` or
        :data:`KNOWN`.
    """

    threshold: int
    inputs: Flags
    share_start: Ids
    holder: Ids
    gives_self: Flags
    gives_mask: Flags
    self_known: Ids
    mask_known: Ids
    mask_start: Ids
    peer: Ids
    state: NDArray[np.uint8]

    @property
    def clients(self) -> int:
        """Number of clients, n."""
        return len(self.inputs)

    @property
    def work(self) -> int:
        """Steps of one evaluation, for budgets."""
        return len(self.holder) + len(self.peer) + 4 * self.clients

    @classmethod
    def of(cls, record: Record, comparison: Comparison) -> Knowledge:
        """Read shares and masks out of a transcript."""
        clients = record.rules.params.clients
        inputs = np.zeros(clients, np.bool_)
        inputs[list(record.have_said(MaskedInput))] = True
        shares = _shares(record, comparison)
        masks = _masks(record, comparison)
        share_start, holder = _rows(clients, shares)
        mask_start, peer = _rows(clients, masks)
        flags = np.array([shares[pair] for pair in sorted(shares)], np.uint8).reshape(-1)
        owner = np.repeat(np.arange(clients), np.diff(share_start))
        has_self = (flags & (_STOLEN | _SELF)) > 0
        has_mask = (flags & (_STOLEN | _MASK)) > 0
        held = (flags & _HELD) > 0
        return cls(
            threshold=record.rules.params.threshold,
            inputs=inputs,
            share_start=share_start,
            holder=holder,
            gives_self=held & ~has_self,
            gives_mask=held & ~has_mask,
            self_known=np.bincount(owner[has_self], minlength=clients).astype(np.int32),
            mask_known=np.bincount(owner[has_mask], minlength=clients).astype(np.int32),
            mask_start=mask_start,
            peer=peer,
            state=np.array([masks[pair] for pair in sorted(masks)], np.uint8).reshape(-1),
        )


_HELD, _STOLEN, _SELF, _MASK = 1, 2, 4, 8
"""Of a share: its holder has it, the server could read it, the server was told the one of the self
mask's seed, or that of the mask key's."""


def _rows(clients: int, pairs: Iterable[tuple[int, int]]) -> tuple[Ids, Ids]:
    ordered = np.array(sorted(pairs), np.int32).reshape(-1, 2)
    start = np.searchsorted(ordered[:, 0], np.arange(clients + 1)).astype(np.int32)
    return start, np.ascontiguousarray(ordered[:, 1])


def _shares(record: Record, comparison: Comparison) -> dict[tuple[int, int], int]:
    """Return per (owner, holder) what became of the share."""
    found: dict[tuple[int, int], int] = {}
    for owner, shadow in record.shadows.items():
        if ShareKeys not in shadow.said:
            continue
        # Whether a ciphertext was relayed does not matter: the server has it, and can give it to
        # whoever colludes.
        replaced = comparison.keys_replaced(shadow)[:, 0]
        for member, stolen in zip(map(int, shadow.memory.members), replaced, strict=True):
            found[owner, member] = _STOLEN if stolen and member != owner else _HELD
    for holder, shadow in record.shadows.items():
        memory = shadow.memory
        answer = shadow.has_said(UnmaskShares)
        if answer is None or len(answer.missing) != int(memory.holders.sum()):
            continue
        alive = memory.survivors[memory.holders]
        owners = memory.members[memory.holders]
        for row, owner in enumerate(map(int, owners)):
            if not answer.missing[row]:
                told = _SELF if alive[row] else _MASK
                found[owner, holder] = found.get((owner, holder), 0) | told
    return found


def _masks(record: Record, comparison: Comparison) -> dict[tuple[int, int], int]:
    """Return per (client, peer) the state of the mask in the client's input."""
    with_input = set(record.have_said(MaskedInput))
    own: dict[int, dict[int, bool]] = {}
    for client in with_input:
        shadow = record.shadows[client]
        bundle, roster = shadow.was_shown(ShareBundle), shadow.was_shown(KeyRoster)
        if bundle is None or roster is None or len(bundle.present) != len(roster.members):
            continue
        replaced = comparison.keys_replaced(shadow)[:, 1]
        own[client] = {
            int(member): bool(stolen)
            for member, stolen in zip(
                roster.members[bundle.present], replaced[bundle.present], strict=True
            )
        }
    found = {}
    for client, peers in own.items():
        for peer, stolen in peers.items():
            state = KNOWN if stolen else DANGLING
            same = peer in own and not own[peer].get(client, True)
            if not stolen and same and _derive_alike(record, client, peer):
                state = SHARED
            found[client, peer] = state
    return found


def _derive_alike(record: Record, one: int, other: int) -> bool:
    first, second = record.shadows[one].memory, record.shadows[other].memory
    return (first.context, first.roster) == (second.context, second.roster)


@dataclass(frozen=True)
class Outcomes:
    """What coalitions learn, one row per coalition.

    Attributes
    ----------
    exposed : (m,) int32 array
        Honest clients whose input is known.
    smallest : (m,) int32 array
        Honest inputs in the smallest sum that is known; 0 where none is.
    victim : (m,) int32 array
        The first client exposed; -1 where there is none.
    """

    exposed: Ids
    smallest: Ids
    victim: Ids


def evaluate(knowledge: Knowledge, coalitions: Flags) -> Outcomes:
    """Return what each coalition, together with the server, learns.

    Parameters
    ----------
    knowledge : Knowledge
        The round.
    coalitions : (m, n) bool array
        One coalition per row.
    """
    if not JIT:
        return evaluate_plain(knowledge, coalitions)
    rows = len(coalitions)
    found = Outcomes(*(np.zeros(rows, np.int32) for _ in range(3)))
    known = knowledge
    _evaluate(
        np.ascontiguousarray(coalitions),
        known.threshold,
        known.inputs,
        known.share_start,
        known.holder,
        known.gives_self,
        known.gives_mask,
        known.self_known,
        known.mask_known,
        known.mask_start,
        known.peer,
        known.state,
        found.exposed,
        found.smallest,
        found.victim,
    )
    return found


def evaluate_plain(knowledge: Knowledge, coalitions: Flags) -> Outcomes:
    """As :func:`evaluate`, with whole matrices: slow and obvious."""
    n, t = knowledge.clients, knowledge.threshold
    owner = np.repeat(np.arange(n), np.diff(knowledge.share_start))
    client = np.repeat(np.arange(n), np.diff(knowledge.mask_start))
    gives = np.zeros((2, n, n), np.int64)
    gives[0, owner, knowledge.holder] = knowledge.gives_self
    gives[1, owner, knowledge.holder] = knowledge.gives_mask
    dangling, shared = np.zeros((2, n, n), np.bool_)
    dangling[client, knowledge.peer] = knowledge.state == DANGLING
    shared[client, knowledge.peer] = knowledge.state == SHARED
    found = Outcomes(*(np.zeros(len(coalitions), np.int32) for _ in range(3)))
    for row, corrupt in enumerate(coalitions):
        opens = knowledge.self_known + gives[0] @ corrupt >= t
        loose = corrupt | (knowledge.mask_known + gives[1] @ corrupt >= t)
        secret = ~loose[:, np.newaxis] & ~loose
        honest = knowledge.inputs & ~corrupt
        reach = (shared & secret) | np.eye(n, dtype=np.bool_)
        for _ in range(n.bit_length()):
            reach = reach @ reach
        good = opens & ~(dangling & secret).any(axis=1)
        sums = honest & ~(reach & ~good & honest).any(axis=1)
        sizes = (reach & honest).sum(axis=1)
        alone = np.flatnonzero(sums & (sizes == 1))
        found.exposed[row] = len(alone)
        found.smallest[row] = sizes[sums].min(initial=n + 1) % (n + 1)
        found.victim[row] = alone[0] if len(alone) else -1
    return found


@kernel
def _root(parent: Ids, client: int) -> int:
    while parent[client] != client:
        parent[client] = parent[parent[client]]
        client = parent[client]
    return client


@kernel
def _evaluate(
    coalitions: Flags,
    threshold: int,
    inputs: Flags,
    share_start: Ids,
    holder: Ids,
    gives_self: Flags,
    gives_mask: Flags,
    self_known: Ids,
    mask_known: Ids,
    mask_start: Ids,
    peer: Ids,
    state: NDArray[np.uint8],
    exposed: Ids,
    smallest: Ids,
    victim: Ids,
) -> None:
    n = inputs.size
    parent, size = np.empty(n, np.int32), np.empty(n, np.int32)
    good, loose = np.empty(n, np.bool_), np.empty(n, np.bool_)
    for row in range(coalitions.shape[0]):
        corrupt = coalitions[row]
        for v in range(n):
            own, mask = self_known[v], mask_known[v]
            for at in range(share_start[v], share_start[v + 1]):
                if corrupt[holder[at]]:
                    own += gives_self[at]
                    mask += gives_mask[at]
            good[v] = own >= threshold
            loose[v] = corrupt[v] or mask >= threshold
            parent[v] = v
            size[v] = 0
        for u in range(n):
            if loose[u] or not inputs[u]:
                continue
            for at in range(mask_start[u], mask_start[u + 1]):
                w = peer[at]
                if state[at] == 2 or loose[w]:
                    continue
                if state[at] == 1:
                    parent[_root(parent, u)] = _root(parent, w)
                else:
                    good[u] = False
        for u in range(n):
            if inputs[u] and not corrupt[u]:
                size[_root(parent, u)] += 1
        for u in range(n):
            if inputs[u] and not corrupt[u] and not good[u]:
                size[_root(parent, u)] = -1
        count, least, first = 0, 0, -1
        for u in range(n):
            if not inputs[u] or corrupt[u]:
                continue
            whole = size[_root(parent, u)]
            if whole > 0 and (least == 0 or whole < least):
                least = whole
            if whole == 1:
                count += 1
                if first < 0:
                    first = u
        exposed[row], smallest[row], victim[row] = count, least, first
