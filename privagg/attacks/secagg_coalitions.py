"""Which coalitions of c clients learn an input: all of them where they are few, else the likeliest.

Where the round was completed, the smallest coalition that learns *some* client's input is known
exactly at any size. A coalition that learns an input either has t shares of a secret, or all the
neighbours that a client has masks with; a coalition that gets at a neighbour's masks instead of the
neighbour has t shares of that neighbour's secret, and so has its input. The cheaper of the two,
over all clients, is the smallest coalition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.secagg_exposure import DANGLING, KNOWN, SHARED, Flags, Knowledge, evaluate

__all__ = ["Search", "Size", "Smallest"]

EXHAUSTIVE = 200_000
"""Coalitions of one size that are all tried, within the budget."""

BUDGET = 5 * 10**7
"""Steps spent on the coalitions of one size."""

_SAMPLES = 1000
_STARTS = 16
_CHUNK = 2048
_FAR = 2**30


@dataclass(frozen=True, kw_only=True)
class Size:
    """What coalitions of one size learn, together with the server.

    Attributes
    ----------
    size : int
        Clients in the coalition, c; those outside of the roster are there anyway.
    total : int
        How many such coalitions there are.
    tried : int
        How many were tried.
    method : str
        ``"exhaustive"``; ``"symmetry"`` where all are alike; ``"greedy and sampled"``: then the
        worst is a lower bound.
    exposed : int
        Most honest clients whose input one of them learns.
    smallest : int or None
        Fewest honest inputs in a sum that one of them learns; None where no sum is known.
    fraction : float or None
        Of the coalitions (where sampled: of the random ones) that expose more clients than allowed;
        None where only representatives were tried.
    smallest_drawn : int or None
        As `smallest`, over the random ones where sampled.
    coalition : tuple of int
        One that exposes most.
    victim : int or None
        A client that it exposes.
    """

    size: int
    total: int
    tried: int
    method: str
    exposed: int
    smallest: int | None
    fraction: float | None
    smallest_drawn: int | None
    coalition: tuple[int, ...]
    victim: int | None


@dataclass(frozen=True, kw_only=True)
class Smallest:
    """The smallest coalition that learns one client's input.

    Attributes
    ----------
    coalition : tuple of int
        Who; empty if the server needs nobody.
    victim : int
        Whose input.
    by : str
        ``"shares"``: it holds t shares of the client's secrets; ``"neighbours"``: it is all that
        the client has secret masks with.
    exact : bool
        Whether no smaller coalition learns any client's input; else it is the smallest found.
    """

    coalition: tuple[int, ...]
    victim: int
    by: str
    exact: bool


class Search:
    """The coalitions of a round.

    Parameters
    ----------
    knowledge : Knowledge
        Shares and masks.
    cohort : tuple of int
        Clients that a coalition may be made of.
    outside : tuple of int
        Clients that are the server's anyway.
    allowed : int
        Clients that may be exposed; for :attr:`Size.fraction`.
    seed : int
        Of the random coalitions: an audit can be repeated.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        cohort: tuple[int, ...],
        outside: tuple[int, ...] = (),
        *,
        allowed: int = 0,
        seed: int = 0,
    ) -> None:
        self._known = knowledge
        self._base = np.zeros(knowledge.clients, np.bool_)
        self._base[list(outside)] = True
        self._pool = np.array(sorted(set(cohort) - set(outside)), np.int32)
        self._allowed = allowed
        self._random = np.random.default_rng(seed)
        n = knowledge.clients
        self._owner = np.repeat(np.arange(n), np.diff(knowledge.share_start))
        self._client = np.repeat(np.arange(n), np.diff(knowledge.mask_start))
        self._honest = knowledge.inputs & ~self._base
        self._gives = np.zeros(n, np.bool_)
        passed_on = knowledge.gives_mask & (knowledge.holder != self._owner)
        self._gives[knowledge.holder[passed_on & self._honest[self._owner]]] = True
        self._alike = self._all_alike()
        self._orders: list[list[int]] | None = None

    @property
    def most(self) -> int:
        """The largest coalition that leaves a client out."""
        return max(len(self._pool) - 1, 0)

    def smallest(self) -> Smallest | None:
        """Return the smallest coalition that learns a client's input, if one does."""
        found = self._cheapest(self._base, new=False)
        if found is None:
            return None
        members, victim, by = found
        coalition = self._base.copy()
        coalition[members] = True
        result = evaluate(self._known, coalition[np.newaxis])
        if not result.exposed[0]:
            return None
        return Smallest(
            coalition=tuple(sorted(members)), victim=victim, by=by, exact=self._is_settled()
        )

    def of_size(self, size: int) -> Size:
        """Return what coalitions of `size` clients learn at worst, and mostly."""
        total = math.comb(len(self._pool), size)
        if self._alike:
            rows, method = self._representatives(size), "symmetry"
            return self._summary(size, total, method, [rows], drawn=None)
        if total <= EXHAUSTIVE and total * self._known.work <= BUDGET:
            return self._summary(size, total, "exhaustive", self._every(size), drawn=None)
        chosen = self._greedy(size)
        drawn = self._drawn(size)
        return self._summary(size, total, "greedy and sampled", [chosen], drawn=drawn)

    def _summary(
        self,
        size: int,
        total: int,
        method: str,
        parts: Iterator[Flags] | list[Flags],
        drawn: Iterator[Flags] | None,
    ) -> Size:
        tried = most = over = counted = 0
        least = least_drawn = 0
        example: tuple[int, ...] = ()
        victim: int | None = None
        for rows, is_drawn in itertools.chain(
            ((part, False) for part in parts), ((part, True) for part in drawn or ())
        ):
            found = evaluate(self._known, rows)
            tried += len(rows)
            worst = int(np.argmax(found.exposed))
            if found.exposed[worst] > most:
                most = int(found.exposed[worst])
                example = tuple(map(int, np.flatnonzero(rows[worst] & ~self._base)))
                victim = int(found.victim[worst])
            sums = found.smallest[found.smallest > 0]
            fewest = int(sums.min()) if len(sums) else 0
            least = min(least or fewest, fewest or least)
            if is_drawn or drawn is None:
                over += int((found.exposed > self._allowed).sum())
                counted += len(rows)
                least_drawn = min(least_drawn or fewest, fewest or least_drawn)
        return Size(
            size=size,
            total=total,
            tried=tried,
            method=method,
            exposed=most,
            smallest=least or None,
            fraction=None if method == "symmetry" else over / max(counted, 1),
            smallest_drawn=least_drawn or None,
            coalition=example,
            victim=victim,
        )

    def _every(self, size: int) -> Iterator[Flags]:
        combinations = itertools.combinations(self._pool.tolist(), size)
        while batch := list(itertools.islice(combinations, _CHUNK)):
            yield self._rows(np.array(batch, np.intp).reshape(len(batch), size))

    def _drawn(self, size: int) -> Iterator[Flags]:
        left = max(64, min(_SAMPLES, BUDGET // self._known.work))
        while left:
            count = min(left, 128)
            keys = self._random.random((count, len(self._pool)))
            yield self._rows(self._pool[np.argsort(keys, axis=1)[:, :size]])
            left -= count

    def _rows(self, members: NDArray[np.integer]) -> Flags:
        rows = np.repeat(self._base[np.newaxis], len(members), axis=0)
        np.put_along_axis(rows, members.astype(np.intp), True, axis=1)
        return rows

    def _all_alike(self) -> bool:
        """Say whether only the number of corrupt inputs and of other corrupt holders matters.

        So it is in a completed round of the complete graph without deviations: every client with an
        input has a mask with every other, and every holder could give a share of each mask key.
        """
        known, honest = self._known, self._honest
        shared = np.bincount(self._client, known.state == SHARED, minlength=known.clients)
        if (known.state == KNOWN).any() or not self._is_settled():
            return False
        if known.mask_known[honest].any() or not honest.any():
            return False
        givers = self._gives.copy()
        others = known.gives_mask & (known.holder != self._owner)
        given = np.bincount(self._owner, others, minlength=known.clients)
        return bool(
            (shared[honest] == known.inputs.sum() - 1).all()
            and (given[honest] == givers.sum() - givers[honest]).all()
        )

    def _representatives(self, size: int) -> Flags:
        """Return two coalitions, one of which is a worst one, where all are alike.

        Corrupt inputs make the sum of the others smaller; corrupt holders without an input give
        shares just as well and leave more inputs to be exposed.
        """
        with_input = self._pool[self._honest[self._pool]]
        rest = self._pool[~self._honest[self._pool]]
        holders, idle = rest[self._gives[rest]], rest[~self._gives[rest]]
        have = int((self._base & self._gives).sum()) + len(holders)
        needed = max(self._known.threshold - have, 0)
        first = np.concatenate([with_input, rest])
        last = np.concatenate([holders, with_input[:needed], idle, with_input[needed:]])
        return self._rows(np.stack([first[:size], last[:size]]))

    def _is_settled(self) -> bool:
        """Say whether the server has all self masks, and the masks of all that left."""
        known = self._known
        if not (known.self_known[known.inputs] >= known.threshold).all():
            return False
        loose = self._base | (known.mask_known >= known.threshold)
        left_over = (known.state == DANGLING) & ~loose[known.peer] & ~loose[self._client]
        return not left_over.any()

    def _counts(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count a client's share edges that are flagged."""
        return np.bincount(self._owner[flags], minlength=self._known.clients)

    def _cheapest(self, corrupt: Flags, *, new: bool) -> tuple[list[int], int, str] | None:
        """Return whom to add to a coalition so that one more client is exposed, and which.

        Unless it is to be a `new` one, that may be nobody.
        """
        known, t = self._known, self._known.threshold
        usable = np.zeros(known.clients, np.bool_)
        usable[self._pool] = True
        usable &= ~corrupt
        in_it, can = corrupt[known.holder], usable[known.holder]
        can &= known.holder != self._owner
        lacks_self = np.maximum(t - known.self_known - self._counts(in_it & known.gives_self), 0)
        lacks_mask = np.maximum(t - known.mask_known - self._counts(in_it & known.gives_mask), 0)
        both = can & known.gives_self & known.gives_mask
        only_self, only_mask = can & known.gives_self & ~both, can & known.gives_mask & ~both
        x = np.minimum(self._counts(both), np.maximum(lacks_self, lacks_mask))
        y, z = np.maximum(lacks_mask - x, 0), np.maximum(lacks_self - x, 0)
        reachable = (y <= self._counts(only_mask)) & (z <= self._counts(only_self))
        by_shares = np.where(reachable, x + y + z, _FAR)
        loose = corrupt | (lacks_mask == 0)
        secret = (known.state != KNOWN) & ~loose[known.peer] & ~loose[self._client]
        neighbours = np.bincount(self._client[secret], minlength=known.clients)
        by_neighbours = np.where(lacks_self == 0, neighbours, _FAR)
        honest = known.inputs & ~corrupt
        cost = np.where(honest, np.minimum(by_shares, by_neighbours), _FAR)
        if new:
            cost[cost == 0] = _FAR
        victim = int(np.argmin(cost))
        if cost[victim] >= _FAR:
            return None
        if by_neighbours[victim] <= by_shares[victim]:
            return known.peer[secret & (self._client == victim)].tolist(), victim, "neighbours"
        own = self._owner == victim
        members = [
            *known.holder[both & own][: x[victim]],
            *known.holder[only_mask & own][: y[victim]],
            *known.holder[only_self & own][: z[victim]],
        ]
        return [int(member) for member in members], victim, "shares"

    def _greedy(self, size: int) -> Flags:
        """Return coalitions that expose a client as cheaply as can be, then the next, and so on."""
        if self._orders is None:
            self._orders = list(self._make_orders())
        rows = np.array([order[:size] for order in self._orders], np.intp)
        return self._rows(rows.reshape(len(self._orders), size))

    def _make_orders(self) -> Iterator[list[int]]:
        """Order the clients as they join: from the cheapest victim on, and from some others."""
        starts: list[list[int]] = [[]]
        starts += [[int(client)] for client in self._random.permutation(self._pool)[:_STARTS]]
        limit = max(1, min(256, BUDGET // (8 * _STARTS * self._known.work)))
        for start in starts:
            corrupt, order = self._base.copy(), list(start)
            corrupt[order] = True
            for _ in range(limit):
                found = self._cheapest(corrupt, new=True)
                if found is None:
                    break
                order += [member for member in found[0] if not corrupt[member]]
                corrupt[found[0]] = True
            rest = self._random.permutation(self._pool[~corrupt[self._pool]])
            yield [*order, *map(int, rest)]
