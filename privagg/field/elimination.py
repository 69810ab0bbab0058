"""Gaussian elimination that takes rows one by one, and says when a coordinate became determined.

The rows taken so far are kept in reduced row echelon form: row i is 1 in its pivot column and 0 in
every other row's. Pivot columns need no storage, so a matrix over the free columns is all there is.
New rows are reduced by it and held back in a block; a full block is eliminated from the kept rows
by one matrix product, which is where the time goes.

A unit vector lies in the row space if and only if its column is a pivot and that row has no other
entry. Exposure is looked for once a block; which row of the block brought it is then read off the
coefficients with which the block's rows make the unit vector: the last one that is not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import whole
from privagg.errors import UsageError
from privagg.field.backends import backend
from privagg.field.checks import Elements, check_field, element_array, elements, integers
from privagg.field.params import M61, Field

__all__ = ["Elimination"]

_BLOCK = 64  # rows held back
_FULL = 4  # the kernel reads rows of the block by fours
_PROBE = 64  # columns looked at first when searching for rows of zeros

_Update = Callable[[Elements, Elements, Elements], None]


def _update(field: Field) -> _Update:
    """Return what computes ``target -= left @ right`` in place."""
    if JIT and field.dtype == np.uint32:
        from privagg.field.word_updates import subtract_product

        def in_words(target: Elements, left: Elements, right: Elements) -> None:
            subtract_product(target, left, right, field.modulus)

        return in_words
    code = backend(field)

    def by_backend(target: Elements, left: Elements, right: Elements) -> None:
        target[...] = code.sub(target, code.matmul(left, right))

    return by_backend


def _filled(rows: Elements) -> NDArray[np.bool_]:
    """Return which rows have an entry that is not zero."""
    return np.asarray(rows.any(axis=tuple(range(1, rows.ndim))))


class Elimination:
    """The row space of a matrix whose rows come one by one or in batches.

    Memory is the rank times the number of columns that are no pivots. A row takes as many
    multiplications, twice if it adds to the rank; batches are faster than single rows.

    Parameters
    ----------
    columns : int
        Entries of a row.
    field : Field
        What the entries are elements of.

    Raises
    ------
    UsageError
        `columns` is no whole number, or `field` no field.

    Examples
    --------
    >>> import numpy as np
    >>> from privagg import field
    >>> seen = field.Elimination(3, field.M31)
    >>> seen.add(np.array([1, 1, 0], np.uint32))
    True
    >>> seen.extend(np.array([[2, 2, 0], [0, 1, 0]], np.uint32)).tolist()
    [False, True]
    >>> seen.first_exposed.tolist()
    [2, 2, -1]
    """

    def __init__(self, columns: int, field: Field = M61) -> None:
        check_field(field)
        self.columns = whole("columns", columns, 0, 2**62)
        self.field = field
        self._code = backend(field)
        self._subtract = _update(field)
        self._limbs = (field.limbs,) if field.limbs > 1 else ()
        self._seen = 0
        # The reduced rows over the free columns, and the columns of their ones.
        self._kept = self._zeros(0, self.columns)
        self._pivots = np.zeros(0, np.intp)
        self._free = np.arange(self.columns)
        self._exposed = np.full(self.columns, -1, np.int64)
        # The block: reduced by the kept rows and by earlier rows of the block only. `_ones` are the
        # positions of their pivots among the free columns, `_solver` the inverse of the square
        # matrix of the block's entries there, which is unit upper triangular.
        self._block = self._empty_block()
        self._solver = self._zeros(_BLOCK, _BLOCK)
        self._ones = np.zeros(_BLOCK, np.int64)
        self._times = np.zeros(_BLOCK, np.int64)
        self._held = 0
        self._compiled = JIT and field.dtype == np.uint32 and 2 < field.modulus < 2**31

    @property
    def rank(self) -> int:
        """Dimension of the row space so far."""
        return len(self._pivots) + self._held

    @property
    def rows_seen(self) -> int:
        """How many rows were added, dependent ones among them."""
        return self._seen

    @property
    def pivots(self) -> NDArray[np.intp]:
        """Pivot columns of the reduced row echelon form, ascending, shape (rank,)."""
        self._merge()
        return np.sort(self._pivots)

    @property
    def first_exposed(self) -> NDArray[np.int64]:
        """When each unit vector came into the row space, shape (columns,).

        The number, from 0, of the row that brought it in; -1 where none did.
        """
        self._merge()
        return self._exposed.copy()

    def add(self, row: Elements) -> bool:
        """Take one row.

        Parameters
        ----------
        row : ndarray of field.dtype, shape (columns,)
            Canonical elements.

        Returns
        -------
        bool
            Whether the rank grew.

        Raises
        ------
        UsageError
            Wrong dtype or length, or an element out of range.
        """
        checked = element_array("row", row, self.field, ndim=1)
        self._check_width("row", checked.shape[0])
        return bool(self._take(checked[np.newaxis])[0])

    def extend(self, rows: Elements) -> NDArray[np.bool_]:
        """Take rows in order.

        Parameters
        ----------
        rows : ndarray of field.dtype, shape (m, columns)
            Canonical elements.

        Returns
        -------
        ndarray of bool, shape (m,)
            At which rows the rank grew.

        Raises
        ------
        UsageError
            Wrong dtype or shape, or an element out of range.
        """
        checked = element_array("rows", rows, self.field, ndim=2)
        self._check_width("rows", checked.shape[1])
        return self._take(checked)

    def contains(self, vectors: Elements) -> NDArray[np.bool_]:
        """Tell which vectors lie in the row space.

        Parameters
        ----------
        vectors : ndarray of field.dtype, shape (columns,) or (m, columns)
            Canonical elements.

        Returns
        -------
        ndarray of bool, shape () or (m,)
            The answer for each.

        Raises
        ------
        UsageError
            Wrong dtype or shape, or an element out of range.
        """
        checked = element_array("vectors", vectors, self.field)
        axes = checked.ndim - len(self._limbs)
        if axes not in (1, 2):
            raise UsageError("vectors", f"{axes} axes", "a vector, or a matrix of them in rows")
        self._check_width("vectors", checked.shape[axes - 1])
        self._merge()
        rest = self._reduced(checked if axes == 2 else checked[np.newaxis])
        inside = ~_filled(rest)
        return np.asarray(inside if axes == 2 else inside[0])

    def basis(self) -> Elements:
        """Return the reduced row echelon form without its zero rows, shape (rank, columns)."""
        self._merge()
        order = np.argsort(self._pivots)
        rows = self._zeros(len(order), self.columns)
        rows[:, self._free] = self._kept[order]
        rows[np.arange(len(order)), self._pivots[order]] = elements(1, self.field)
        return rows

    def null_space(self) -> Elements:
        """Return a basis of the vectors orthogonal to all rows, shape (columns - rank, columns).

        Row j is 1 in the j-th free column and 0 in the others.
        """
        self._merge()
        count = len(self._free)
        rows = self._zeros(count, self.columns)
        kept = np.swapaxes(self._kept, 0, 1)
        rows[:, self._pivots] = self._code.sub(np.zeros_like(kept), kept)
        rows[np.arange(count), self._free] = elements(1, self.field)
        return rows

    def _zeros(self, rows: int, columns: int) -> Elements:
        return np.zeros((rows, columns, *self._limbs), self.field.dtype)

    def _empty_block(self) -> Elements:
        return self._zeros(_BLOCK + -_BLOCK % _FULL, self._free.size)

    def _nonzero(self, values: Elements) -> NDArray[np.bool_]:
        return np.asarray(values.any(axis=-1) if self._limbs else values != 0)

    def _check_width(self, name: str, width: int) -> None:
        if width != self.columns:
            raise UsageError(name, f"{width} columns", f"{self.columns} columns")

    def _reduced(self, rows: Elements) -> Elements:
        """Return rows over the free columns, less the kept rows' parts."""
        rest = np.ascontiguousarray(rows[:, self._free])
        self._subtract(rest, rows[:, self._pivots], self._kept)
        return rest

    def _take(self, rows: Elements) -> NDArray[np.bool_]:
        grew = np.zeros(len(rows), np.bool_)
        start = 0
        while start < len(rows) and self._free.size:
            part = self._reduced(rows[start : start + _BLOCK - self._held])
            fresh = self._hold(part)
            grew[start : start + len(part)] = fresh
            times = np.flatnonzero(fresh) + self._seen + start
            self._times[self._held : self._held + len(times)] = times
            self._held += len(times)
            start += len(part)
            if 2 * self._held >= _BLOCK or self._held == self._free.size:
                self._merge()
        self._seen += len(rows)
        return grew

    def _hold(self, rows: Elements) -> NDArray[np.bool_]:
        """Reduce rows by the block's, in order; put those there of which something is left."""
        if self._compiled:
            from privagg.field.word_updates import hold_rows

            state = (self._block, self._solver, self._ones, self._held)
            return hold_rows(rows, *state, self.field.modulus)
        grew = np.zeros(len(rows), np.bool_)
        count = self._held
        for index, row in enumerate(rows):
            grew[index] = self._hold_one(row, count)
            count += int(grew[index])
        return grew

    def _hold_one(self, row: Elements, count: int) -> bool:
        """Do so with one row, when `count` are there; slow and obvious."""
        if count:
            # What multiples of the block's rows cancel the row's entries at their pivots.
            factors = self._zeros(1, count)
            solver = self._solver[:count, :count]
            self._subtract(factors, row[self._ones[:count]][np.newaxis], solver)
            factors = self._code.sub(np.zeros_like(factors), factors)
            self._subtract(row[np.newaxis], factors, self._block[:count])
        filled = self._nonzero(row)
        pivot = int(np.argmax(filled)) if filled.size else 0
        if not filled.size or not filled[pivot]:
            return False
        value = int(integers(row[pivot : pivot + 1], self.field)[0])
        factor = elements(pow(value, -1, self.field.modulus), self.field)
        self._block[count] = self._code.mul(row, np.broadcast_to(factor, row.shape))
        if count:
            column = self._zeros(count, 1)
            above = np.ascontiguousarray(self._block[:count, pivot])[:, np.newaxis]
            self._subtract(column, self._solver[:count, :count], above)
            self._solver[:count, count] = column[:, 0]
        self._solver[count, : count + 1] = 0
        self._solver[count, count] = elements(1, self.field)
        self._ones[count] = pivot
        return True

    def _merge(self) -> None:
        """Eliminate the block from the kept rows, and keep its rows too."""
        count = self._held
        if not count:
            return
        ones = self._ones[:count].copy()
        negative, size = self._zeros(count, self._free.size), len(self._pivots)
        solver = np.ascontiguousarray(self._solver[:count, :count])
        self._subtract(negative, solver, self._block[:count])
        fresh = self._code.sub(np.zeros_like(negative), negative)
        factors = self._kept[:, ones]
        left = np.delete(np.arange(self._free.size), ones)
        kept = self._zeros(size + count, left.size)
        # Runs of columns between pivots are copied, much faster than picking columns.
        edges = np.flatnonzero(np.diff(left, prepend=-2) != 1).tolist()
        for first, last in pairwise([*edges, left.size]):
            run = slice(int(left[first]), int(left[last - 1]) + 1)
            kept[:size, first:last] = self._kept[:, run]
            kept[size:, first:last] = fresh[:, run]
        self._subtract(kept[:size], factors, kept[size:])
        self._kept = kept
        self._pivots = np.concatenate([self._pivots, self._free[ones]])
        self._free = self._free[left]
        self._note_exposed(factors, solver)
        self._held = 0
        self._block = self._empty_block()

    def _note_exposed(self, factors: Elements, solver: Elements) -> None:
        """Set the time at which unit vectors came in, of those that did with this block.

        A kept row was its unit vector and a rest that now vanished: a combination of the block's
        rows, in which `factors` are its entries at their pivots. A row of the block is now a unit
        vector itself.
        """
        size, count = len(factors), len(solver)
        waiting = np.flatnonzero(self._exposed[self._pivots] < 0)
        waiting = waiting[~_filled(self._kept[waiting, :_PROBE])]
        alone = waiting[~_filled(self._kept[waiting])]
        if not alone.size:
            return
        combinations = self._zeros(len(alone), count)
        old = alone < size
        part = self._zeros(int(old.sum()), count)
        self._subtract(part, factors[alone[old]], solver)  # its sign does not matter
        combinations[old] = part
        combinations[~old] = solver[alone[~old] - size]
        used = self._nonzero(combinations)
        last = count - 1 - np.argmax(used[:, ::-1], axis=1)
        self._exposed[self._pivots[alone]] = self._times[last]
