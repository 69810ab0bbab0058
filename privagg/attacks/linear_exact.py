"""Which inputs do observed sums determine? Exact answers by elimination over random primes.

An input is determined by linear functionals if its unit vector is a combination of them. Over the
rationals that is decided without rounding: rows are cleared of denominators and eliminated modulo
random primes between 2**30 and 2**31. Every finite float is a fraction, so floats are exact too.

Error bound. Let r be the rank, and H the product of the norms of the r rows at which it grew: by
Hadamard's inequality no minor that decides anything exceeds H, so at most ``log2(H) / 30`` of the N
primes in the range divide one. A prime that divides none of them answers rightly. The minor of
those r rows decides all ranks, and for each input one more decides whether it came in too early.
A prime under which the rank did not grow at a row where it grew under another is wrong for sure,
and dropped. What is left is an error where all primes are bad for the same input, of probability at
most ``columns * (2 * log2(H) / (30 * N)) ** primes``, whoever made the rows: the primes come from
the given entropy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.attacks.linear_log import as_fraction, weight_matrix
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.field import Elimination, Field, prime_field, ring, uniform

__all__ = ["PRIMES_IN_RANGE", "ExactSpace", "random_primes"]

PRIMES_IN_RANGE = 50_697_537
"""Primes between 2**30 and 2**31."""

_CHUNK = 256  # rows converted at once


def random_primes(count: int, entropy: Entropy = OS) -> tuple[Field, ...]:
    """Return fields of distinct primes, uniform among those between 2**30 and 2**31.

    Parameters
    ----------
    count : int
        How many.
    entropy : Entropy
        Where randomness comes from: the operating system, unless it is to be repeatable.
    """
    found: list[Field] = []
    while len(found) < count:
        number = 2**30 + int(uniform(entropy, 1, ring(30))[0])
        try:
            field = prime_field(number)
        except UsageError:
            continue  # not a prime
        if field not in found:
            found.append(field)
    return tuple(found)


class ExactSpace:
    """The span of rational rows that come one by one or in batches.

    Parameters
    ----------
    columns : int
        Inputs, one to a column.
    entropy : Entropy
        Where the primes come from. With a seeded one, whoever knows the seed can make rows for
        which the answer is wrong.
    primes : int
        How many; each squares, roughly, the error bound of a single one.

    Raises
    ------
    UsageError
        Not a whole number of columns, or of primes from 1 to 8.
    """

    def __init__(self, columns: int, entropy: Entropy = OS, primes: int = 2) -> None:
        self.columns = whole("columns", columns, 1, 2**40)
        self.primes = random_primes(whole("primes", primes, 1, 8), entropy)
        self._spaces = [Elimination(columns, field) for field in self.primes]
        self._bits = 0.0

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return max(space.rank for space in self._spaces)

    @property
    def rows_seen(self) -> int:
        """How many rows were added."""
        return self._spaces[0].rows_seen

    @property
    def first_exposed(self) -> NDArray[np.int64]:
        """Number, from 0, of the row with which each input became determined; -1 if it is not."""
        found = np.stack([space.first_exposed for space in self._spaces])
        times: NDArray[np.int64] = np.where((found < 0).any(axis=0), -1, found.max(axis=0))
        return times

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Which inputs the rows determine."""
        return np.asarray(self.first_exposed >= 0)

    @property
    def error_bound(self) -> float:
        """Bound on the probability that any answer is wrong; see the module."""
        bad = 2 * self._bits / 30 / PRIMES_IN_RANGE
        return float(min(1.0, self.columns * min(bad, 1.0) ** len(self._spaces)))

    @property
    def spaces(self) -> tuple[Elimination, ...]:
        """The eliminations, one for each prime that was not found bad."""
        return tuple(self._spaces)

    def add(self, row: Any) -> bool:
        """Take one row; return whether the rank grew. As :meth:`extend` of one row."""
        try:
            matrix = np.asarray(row)[np.newaxis]
        except ValueError:
            raise UsageError("row", "sequences of unequal length", "a row of numbers") from None
        return bool(self.extend(matrix)[0])

    def extend(self, rows: Any) -> NDArray[np.bool_]:
        """Take rows in order.

        Parameters
        ----------
        rows : array, shape (m, columns)
            Integers below 2**63, finite floats or Fractions.

        Returns
        -------
        ndarray of bool, shape (m,)
            At which rows the rank grew.

        Raises
        ------
        UsageError
            Another shape or type, or a number that is not finite.
        """
        matrix = self._checked("rows", rows)
        grew = np.zeros(len(matrix), np.bool_)
        for start in range(0, len(matrix), _CHUNK):
            part = matrix[start : start + _CHUNK]
            residues, bits = _residues(part, [space.field for space in self._spaces])
            results = [
                space.extend(rest) for space, rest in zip(self._spaces, residues, strict=True)
            ]
            best = results[0].copy()
            for other in results[1:]:
                best |= other
            # Where a rank fell behind, the prime divides a minor that is not zero.
            agree = [bool(np.array_equal(found, best)) for found in results]
            if any(agree):
                self._spaces = [s for s, good in zip(self._spaces, agree, strict=True) if good]
            grew[start : start + len(part)] = best
            self._bits += float(bits[best].sum())
        return grew

    def contains(self, vectors: Any) -> NDArray[np.bool_]:
        """Tell which vectors, shape (m, columns), the rows determine: sums of inputs, say.

        Parameters
        ----------
        vectors : (m, columns) array of integers
            Coefficients, a row for each.
        """
        matrix = self._checked("vectors", vectors)
        residues, _ = _residues(matrix, [space.field for space in self._spaces])
        answers = [space.contains(rest) for space, rest in zip(self._spaces, residues, strict=True)]
        return np.asarray(np.all(answers, axis=0))

    def _checked(self, name: str, rows: Any) -> NDArray[Any]:
        matrix = weight_matrix(name, rows)
        if matrix.shape[1] != self.columns:
            raise UsageError(name, f"{matrix.shape[1]} columns", f"{self.columns} columns")
        if matrix.dtype == np.float64 and not np.isfinite(matrix).all():
            raise UsageError(name, "NaN or infinity", "finite numbers")
        if matrix.dtype == object and any(
            isinstance(v, float) and not math.isfinite(v) for v in matrix.flat
        ):
            raise UsageError(name, "NaN or infinity", "finite numbers")
        return matrix


def _residues(
    matrix: NDArray[Any], fields: list[Field]
) -> tuple[list[NDArray[np.uint32]], NDArray[np.float64]]:
    """Return rows, times what makes them whole, modulo each prime, and the bits of their norms."""
    if matrix.dtype == np.int64:
        norms = np.linalg.norm(matrix.astype(np.float64), axis=1)
        found = [
            np.asarray(matrix % field.modulus).astype(np.uint32)
            if matrix.size and (matrix.min() < 0 or matrix.max() >= 2**30)
            else matrix.astype(np.uint32)
            for field in fields
        ]
        return found, np.log2(np.maximum(norms, 1))
    if matrix.dtype == np.float64:
        return _float_residues(matrix, fields)
    integers = [_integers(row) for row in matrix]
    bits = [0.5 * math.log2(max(1, sum(x * x for x in row))) for row in integers]
    shape = matrix.shape
    reduced = [
        np.array([[x % field.modulus for x in row] for row in integers], np.uint32).reshape(shape)
        for field in fields
    ]
    return reduced, np.array(bits)


def _integers(row: NDArray[Any]) -> list[int]:
    fractions = [as_fraction(value) for value in row]
    scale = math.lcm(*(value.denominator for value in fractions))
    return [int(value * scale) for value in fractions]


def _float_residues(
    matrix: NDArray[np.float64], fields: list[Field]
) -> tuple[list[NDArray[np.uint32]], NDArray[np.float64]]:
    """Write each float as an odd integer times a power of two, the row's least power taken out."""
    mantissa, exponent = np.frexp(matrix)
    odd = (mantissa * 2.0**53).astype(np.int64)
    lowest = odd & -odd  # the lowest bit that is set
    shift = np.frexp(lowest.astype(np.float64))[1] - 1
    some = odd != 0
    odd >>= np.where(some, shift, 0)
    power = exponent.astype(np.int64) + np.where(some, shift, 0)
    least = np.where(some, power, 2**20).min(axis=1, keepdims=True)
    power = np.where(some, power - least, 0)
    # The norm's bits, of numbers that may exceed all floats: through the largest one's.
    top = (np.where(some, np.log2(np.maximum(np.abs(odd), 1)) + power, 0)).max(axis=1)
    bits = np.maximum(top + 0.5 * math.log2(max(matrix.shape[1], 1)), 0)
    found = []
    for field in fields:
        p = field.modulus
        exponents, index = np.unique(power, return_inverse=True)
        powers = np.array([pow(2, int(e), p) for e in exponents], np.uint64)[
            index.reshape(power.shape)
        ]
        found.append(((odd % p).astype(np.uint64) * powers % np.uint64(p)).astype(np.uint32))
    return found, np.asarray(bits)
