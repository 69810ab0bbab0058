"""Which rows make up which bag: the public part of a release of aggregate responses.

Membership is public, so it must not depend on responses: bags that are sorted by the labels
themselves leak them, whatever noise the sums get. Random, given, or sorted by a score that was
learnt elsewhere are all right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._shuffle import MAX_SHUFFLED, shuffle
from privagg._validate import as_array, describe, refuse_masked, whole
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws

__all__ = ["Bags"]

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bags:
    """Rows in bags: every row in at least one, no bag empty. Make it with a class method.

    Attributes
    ----------
    rows : int
        How many rows there are, n.
    labels : (n, w) int32 array
        The bags of each row, by number; -1 fills up where a row is in fewer than w.
    names : tuple
        What the caller calls the bags, in the order of their numbers; empty if he does not.
    insecure : bool
        Whether a seed made the assignment. It is public, so that spoils no guarantee.

    Raises
    ------
    UsageError
        If the table is not as described, or a row is twice in a bag: guarantees count its bags.
    """

    rows: int
    labels: NDArray[np.int32]
    names: tuple[Hashable, ...] = ()
    insecure: bool = field(default=False)

    def __post_init__(self) -> None:
        table = self.labels
        if not isinstance(table, np.ndarray) or table.dtype.kind not in "iu" or table.ndim != 2:
            raise UsageError("labels", describe(table), "an (n, w) table of bag numbers")
        whole("rows", self.rows, 1, MAX_SHUFFLED)
        if table.shape[0] != self.rows or not table.size:
            raise UsageError("labels", f"shape {table.shape}", f"{self.rows} rows")
        least = -1 if table.shape[1] > 1 else 0
        alone = least == -1 and bool((table.max(axis=1) < 0).any())
        if table.min() < least or table.max() >= table.size or alone:
            raise UsageError("labels", "a row in no bag, or a bag's number", "bags from 0 on")
        if not self.sizes.all():
            raise UsageError("labels", "an empty bag", "a row in every bag")
        if self.copies > 1:
            ordered = np.sort(table, axis=1)
            if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
                raise UsageError("labels", "a row twice in a bag", "each row once")

    @classmethod
    def random(cls, rows: int, size: int, entropy: Entropy = OS, copies: int = 1) -> Bags:
        """Return bags of a uniformly random partition of the rows, or of several partitions.

        Parameters
        ----------
        rows : int
            How many rows, from 1 to 2**31.
        size : int
            Rows of a bag, from 1 to `rows`. Where it does not divide `rows`, some bags hold one
            row more.
        entropy : Entropy
            Draws the partition.
        copies : int
            How many independent partitions, from 1 to 64: each row is in as many bags, and what
            its response can move grows with it.

        Raises
        ------
        UsageError
            If an argument is not allowed.
        """
        n = whole("rows", rows, 1, MAX_SHUFFLED)
        k = whole("size", size, 1, n)
        w = whole("copies", copies, 1, 64)
        draws = Draws(entropy)
        bags = n // k
        if w * bags > MAX_SHUFFLED:
            raise UsageError("copies", w, f"at most {MAX_SHUFFLED // bags}: bags are numbered")
        labels = np.empty((w, n), np.int32)
        for copy, row in enumerate(labels):
            row[:] = _even(n, bags)
            shuffle(row, draws.words32)
            row += copy * bags
        return cls(n, labels.T, (), draws.insecure)

    @classmethod
    def given(cls, ids: Any) -> Bags:
        """Return the bags that a column names: one id for each row.

        Parameters
        ----------
        ids : (n,) array or sequence
            Numbers, strings, or whatever can be a key; equal ids are one bag. Bags are numbered in
            the order of the sorted ids, or of their appearance where they cannot be sorted.

        Raises
        ------
        UsageError
            If there is none, or one is missing (None, NaN, masked).
        """
        refuse_masked("bags", ids)
        column = as_array("bags", ids)
        if column.ndim != 1 or not column.size:
            raise UsageError("bags", f"shape {column.shape}", "one id for each row")
        if column.size > MAX_SHUFFLED:
            raise UsageError("bags", column.size, f"at most {MAX_SHUFFLED} rows")
        missing = _missing(column)
        if missing.size:
            raise UsageError(
                "bags",
                f"no bag in row {missing[0]}" + _more(missing.size),
                "a bag for every row",
                "Leave those rows out, or give them a bag of their own.",
            )
        if column.dtype == object:
            names, numbers = _numbered(column.tolist())
        else:
            unique, numbers = np.unique(column, return_inverse=True)
            names = tuple(unique.tolist())
        return cls(column.size, numbers.astype(np.int32).reshape(-1, 1), names)

    @classmethod
    def of(cls, members: Sequence[Iterable[int]], rows: int) -> Bags:
        """Return bags given as lists of rows, which may overlap.

        Parameters
        ----------
        members : sequence of iterables of int
            The rows of each bag, from 0 to ``rows - 1``; no row twice in one bag.
        rows : int
            How many rows there are; each must be in some bag.

        Raises
        ------
        UsageError
            If a bag is empty, a row is none or stands twice in a bag, or a row is in no bag.
        """
        n = whole("rows", rows, 1, MAX_SHUFFLED)
        if not isinstance(members, Iterable) or isinstance(members, str):
            raise UsageError("members", type(members).__name__, "the rows of each bag, as lists")
        bags = []
        for bag in members:
            if not isinstance(bag, Iterable):
                raise UsageError("members", type(bag).__name__, "the rows of each bag, as lists")
            bags.append(np.asarray(list(bag), object))
        if not bags:
            raise UsageError("members", "no bag", "at least one bag")
        flat = []
        for number, bag in enumerate(bags):
            if not bag.size:
                raise UsageError("members", f"bag {number} is empty", "a row in every bag")
            flat.append(np.array([whole(f"members[{number}]", row, 0, n - 1) for row in bag]))
            if np.unique(flat[-1]).size != flat[-1].size:
                raise UsageError("members", f"a row twice in bag {number}", "each row once")
        row = np.concatenate(flat)
        of = np.repeat(np.arange(len(bags)), [bag.size for bag in flat])
        return cls(n, _columns(row, of, n))

    @classmethod
    def of_pairs(cls, rows: Ints, numbers: Ints, names: tuple[Hashable, ...] = ()) -> Bags:
        """Return bags given as pairs of a row and a bag's number.

        Parameters
        ----------
        rows, numbers : (pairs,) int64 arrays
            Rows and bags are all those from 0 to the largest.
        names : tuple
            The bags' names, if they have any.

        Raises
        ------
        UsageError
            If a row or a bag is in no pair, or a pair comes twice.
        """
        n = int(rows.max()) + 1
        if not np.bincount(numbers).all():
            raise UsageError("members", "an empty bag", "a row in every bag")
        order = np.lexsort((numbers, rows))
        twice = (np.diff(rows[order]) == 0) & (np.diff(numbers[order]) == 0)
        if twice.any():
            raise UsageError("members", "a row twice in a bag", "each row once")
        return cls(n, _columns(rows, numbers, n), names)

    @cached_property
    def count(self) -> int:
        """How many bags there are, m."""
        return int(self.labels.max()) + 1

    @property
    def copies(self) -> int:
        """In how many bags a row is at most, w: what one response can move at once."""
        return int(self.labels.shape[1])

    @property
    def disjoint(self) -> bool:
        """Whether no row is in two bags."""
        return self.copies == 1

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each bag has; (m,)."""
        found = np.zeros(self.count, np.int64)
        for column in self.labels.T:
            found += np.bincount(column[column >= 0], minlength=self.count)
        return found

    def sums(self, values: Any) -> Reals:
        """Return the sums of each bag's values.

        Parameters
        ----------
        values : (n,) or (n, c) array
            Finite numbers.

        Returns
        -------
        (m,) or (m, c) float64 array

        Raises
        ------
        UsageError
            If `values` has another number of rows.
        """
        table = np.asarray(values)
        if table.ndim not in (1, 2) or table.shape[0] != self.rows:
            raise UsageError("values", f"shape {table.shape}", f"{self.rows} rows")
        if table.ndim == 1:
            return self._sums(table)
        return np.stack([self._sums(column) for column in table.T], axis=1)

    def means(self, values: Any) -> Reals:
        """Return the means of each bag's values; as :meth:`sums`."""
        sums = self.sums(values)
        found: Reals = sums / (self.sizes if sums.ndim == 1 else self.sizes[:, None])
        return found

    def spread(self, of_bags: Any) -> Reals:
        """Return for each row the mean, over its bags, of a number of each bag.

        Parameters
        ----------
        of_bags : (m,) or (m, c) array

        Returns
        -------
        (n,) or (n, c) float64 array

        Raises
        ------
        UsageError
            If there is not one number, or row of numbers, for each bag.
        """
        table = np.asarray(of_bags, np.float64)
        if table.ndim not in (1, 2) or table.shape[0] != self.count:
            raise UsageError("of_bags", f"shape {table.shape}", f"{self.count} rows")
        if self.disjoint:
            found: Reals = table[self.labels[:, 0]]
            return found
        inside = self.labels >= 0
        total = np.where(
            inside if table.ndim == 1 else inside[:, :, None], table[self.labels], 0.0
        ).sum(axis=1)
        held = inside.sum(axis=1)
        mean: Reals = total / (held if table.ndim == 1 else held[:, None])
        return mean

    def members(self) -> list[Ints]:
        """Return the rows of each bag, in ascending order."""
        row, column = np.nonzero(self.labels >= 0)
        of = self.labels[row, column]
        order = np.lexsort((row, of))
        return np.split(row[order], np.cumsum(self.sizes)[:-1])

    def _sums(self, values: NDArray[Any]) -> Reals:
        weights = np.asarray(values, np.float64)
        total = np.zeros(self.count)
        for column in self.labels.T:
            if self.disjoint:
                total += np.bincount(column, weights, minlength=self.count)
            else:
                inside = column >= 0
                total += np.bincount(column[inside], weights[inside], minlength=self.count)
        return total

    def __repr__(self) -> str:
        return f"Bags(rows={self.rows}, count={self.count}, copies={self.copies})"


def _even(rows: int, bags: int) -> NDArray[np.int32]:
    """Return a bag for each row in turn, the first ``rows % bags`` bags with one row more."""
    base, more = divmod(rows, bags)
    sizes = np.full(bags, base)
    sizes[:more] += 1
    return np.repeat(np.arange(bags, dtype=np.int32), sizes)


def _missing(column: NDArray[Any]) -> Ints:
    """Return the rows without an id."""
    if column.dtype.kind == "f":
        return np.flatnonzero(np.isnan(column))
    if column.dtype.kind in "mM":
        return np.flatnonzero(np.isnat(column))
    if column.dtype != object:
        return np.zeros(0, np.int64)
    # NaN is the one value that is not itself.
    lost = [i for i, item in enumerate(column.tolist()) if item is None or item != item]
    return np.array(lost, np.int64)


def _numbered(items: list[Any]) -> tuple[tuple[Hashable, ...], Ints]:
    try:
        names = dict.fromkeys(items)
    except TypeError:
        raise UsageError("bags", "ids without a hash", "numbers or strings") from None
    try:
        order = sorted(names)
    except TypeError:  # Mixed types have no order: theirs of appearance is as good.
        order = list(names)
    number = {name: i for i, name in enumerate(order)}
    return tuple(order), np.array([number[item] for item in items], np.int64)


def _columns(row: Ints, of: Ints, rows: int) -> NDArray[np.int32]:
    """Return the table of labels from pairs of row and bag."""
    held = np.bincount(row, minlength=rows)
    if not held.all():
        raise UsageError("members", f"row {int(np.argmin(held))} in no bag", "a bag for every row")
    order = np.argsort(row, kind="stable")
    place = np.arange(row.size) - np.repeat(np.cumsum(held) - held, held)
    labels = np.full((rows, int(held.max())), -1, np.int32)
    labels[row[order], place] = of[order]
    return labels


def _more(count: int) -> str:
    return f", and in {count - 1} more" if count > 1 else ""
