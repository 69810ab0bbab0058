"""Labels that exact counts of overlapping bags determine.

Labels are 0 or 1. Three tests, from weak to strong:

- linear: the row's unit vector is in the row space of memberships; a floor, which knows no bounds;
- propagation: a bag whose open labels must all be 0, or all 1;
- integer programs: the least and the greatest number of ones that fits all counts.

Rows that are in the same bags are exchangeable, so one variable stands for all of them: they are
known if that number must be 0, or all. Where solving is cut short, labels count as open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.linear_exact import ExactSpace
from privagg.attacks.linear_ranges import feasible_ranges
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags

__all__ = ["Determined", "determine"]

Ints = NDArray[np.int64]

_MAX_TYPES = 4000


@dataclass(frozen=True, eq=False)
class Determined:
    """What exact counts determine.

    Attributes
    ----------
    labels : (n,) int8 array
        0 or 1 where only that fits, else -1.
    linear : (n,) bool array
        Whether linear algebra alone finds it.
    propagated : int
        How many labels propagation finds.
    examined, skipped : int
        Rows that integer programs were asked about, and rows left open unasked.
    """

    labels: NDArray[np.int8]
    linear: NDArray[np.bool_]
    propagated: int
    examined: int
    skipped: int


def determine(
    releases: Sequence[tuple[Bags, Ints]], *, examine: int = 200, seconds: float = 5.0
) -> Determined:
    """Return the labels that fit in only one way.

    Parameters
    ----------
    releases : sequence of (Bags, (m,) int64 array)
        Bags over the same rows, and the exact count of ones in each.
    examine : int
        Groups of exchangeable rows that integer programs are asked about, at most.
    seconds : float
        Time limit of each program.

    Raises
    ------
    UsageError
        If no labels fit, or SciPy is needed and missing.
    """
    members = [bag for bags, _ in releases for bag in bags.members()]
    counts = np.concatenate([count for _, count in releases]).astype(np.int64)
    rows = releases[0][0].rows
    kind, sizes, inside = _kinds(members, rows)
    component = _components(inside, sizes.size)
    linear = _linear(inside, sizes, component)
    total = _propagate(inside, sizes, counts)
    known = total >= 0
    propagated = int(sizes[known].sum())
    examined = skipped = 0
    for asked, bags in _open_parts(inside, known, component):
        if len(bags) == 1:  # Between none and all of its labels are 1: none is known.
            examined += int(sizes[asked].sum())
            continue
        if examine <= 0 or asked.size > _MAX_TYPES:
            skipped += int(sizes[asked].sum())
            continue
        place = np.full(sizes.size, -1)
        place[asked] = np.arange(asked.size)
        weights = np.zeros((len(bags), asked.size))
        rest = np.empty(len(bags))
        for at, b in enumerate(bags):
            mine = inside[b]
            weights[at, place[mine[~known[mine]]]] = 1
            rest[at] = counts[b] - total[mine[known[mine]]].sum()
        chosen = asked[:examine]
        found = feasible_ranges(
            weights,
            rest,
            low=0,
            high=sizes[asked].astype(np.float64),
            inputs=list(range(chosen.size)),
            seconds=seconds,
        )
        examine -= chosen.size
        examined += int(sizes[chosen].sum())
        skipped += int(sizes[asked[chosen.size :]].sum())
        total[chosen[found.maximum == 0]] = 0
        full = found.minimum == sizes[chosen]
        total[chosen[full]] = sizes[chosen[full]]
    # Propagation only fixes all or none of a group, and so does what is written above.
    of_kind = np.where(total < 0, -1, (total > 0).astype(np.int64))
    return Determined(of_kind[kind].astype(np.int8), linear[kind], propagated, examined, skipped)


def _kinds(members: list[Ints], rows: int) -> tuple[Ints, Ints, list[Ints]]:
    """Return the group of each row, the groups' sizes, and the groups in each bag."""
    of = np.concatenate([np.full(bag.size, b) for b, bag in enumerate(members)])
    row = np.concatenate(members)
    order = np.lexsort((of, row))
    held = np.bincount(row, minlength=rows)
    cuts = np.cumsum(held)[:-1]
    groups: dict[tuple[int, ...], int] = {}
    kind = np.empty(rows, np.int64)
    for r, bags in enumerate(np.split(of[order], cuts)):
        kind[r] = groups.setdefault(tuple(bags.tolist()), len(groups))
    inside: list[list[int]] = [[] for _ in members]
    for numbers, group in groups.items():
        for b in numbers:
            inside[b].append(group)
    return kind, np.bincount(kind), [np.array(some, np.int64) for some in inside]


def _components(inside: list[Ints], kinds: int) -> Ints:
    """Return a number for each group: equal where bags connect them."""
    parent = list(range(kinds))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    for bag in inside:
        first, *others = bag.tolist()
        for one in others:
            parent[root(one)] = root(first)
    return np.array([root(one) for one in range(kinds)], np.int64)


def _open_parts(
    inside: list[Ints], known: NDArray[np.bool_], component: Ints
) -> list[tuple[Ints, list[int]]]:
    """Return, for each component with open groups, these and the bags that hold some."""
    bags: dict[int, list[int]] = {}
    for b, kinds in enumerate(inside):
        if not known[kinds].all():
            bags.setdefault(int(component[kinds[0]]), []).append(b)
    open_ = np.flatnonzero(~known)
    order = open_[np.argsort(component[open_], kind="stable")]
    cuts = np.flatnonzero(np.diff(component[order])) + 1
    parts = np.split(order, cuts) if order.size else []
    return [(part, bags[int(component[part[0]])]) for part in parts]


def _linear(inside: list[Ints], sizes: Ints, component: Ints) -> NDArray[np.bool_]:
    """Return which groups are single rows that linear algebra determines."""
    found = np.zeros(sizes.size, bool)
    by: dict[int, list[int]] = {}
    for b, kinds in enumerate(inside):
        by.setdefault(int(component[kinds[0]]), []).append(b)
    for bags in by.values():
        columns = np.unique(np.concatenate([inside[b] for b in bags]))
        if columns.size > _MAX_TYPES or not (sizes[columns] == 1).any():
            continue
        if len(bags) == 1:
            found[columns] = columns.size == 1 and sizes[columns[0]] == 1
            continue
        matrix = np.zeros((len(bags), columns.size), np.int64)
        for at, b in enumerate(bags):
            matrix[at, np.searchsorted(columns, inside[b])] = 1
        space = ExactSpace(columns.size)
        space.extend(matrix)
        found[columns] = space.determined & (sizes[columns] == 1)
    return found


def _propagate(inside: list[Ints], sizes: Ints, counts: Ints) -> Ints:
    """Return the number of ones of each group, -1 where propagation leaves it open."""
    total = np.full(sizes.size, -1, np.int64)
    holding: list[list[int]] = [[] for _ in range(sizes.size)]
    for b, kinds in enumerate(inside):
        for one in kinds.tolist():
            holding[one].append(b)
    todo = set(range(len(inside)))
    while todo:
        b = todo.pop()
        kinds = inside[b]
        open_ = kinds[total[kinds] < 0]
        rest = int(counts[b] - total[kinds[total[kinds] >= 0]].sum())
        space = int(sizes[open_].sum())
        if not 0 <= rest <= space:
            raise UsageError(
                "releases", f"bag {b} with {int(counts[b])} ones", "counts that some labels fit"
            )
        if open_.size and rest in (0, space):
            total[open_] = 0 if rest == 0 else sizes[open_]
            todo.update(other for one in open_.tolist() for other in holding[one] if other != b)
    return total
