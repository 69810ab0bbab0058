"""Which sums of few inputs are exposed: the smallest coalition that a run does not hide.

A set of inputs is exposed if some combination of the observed sums involves them and no other, with
any factors: 1 input is a determined one, 2 are a weighted sum of two. The smallest such set is the
least weight of a code, the row space: NP-hard in general. It is exact here up to some size, and
bounded beyond.

A set is the support of a vector of the row space only if its columns of a null-space basis N are
dependent, and a smallest dependent set is such a support. Random combinations of N's rows, as many
as the set's size, keep independent sets independent but for chance ``size / p`` each. So all that
is looked at are columns of s random null vectors: dependent sets of s are found by fixing s - 2
columns, taking the others modulo them, and sorting the slopes of what is then a plane. That takes
``n**(s - 1)`` steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field
from privagg.attacks.linear_exact import ExactSpace
from privagg.entropy import OS, Entropy

__all__ = ["Coalition", "smallest_coalition"]

_FACTOR = 2**15  # largest numerator and denominator of a factor that is looked for
_TRIES = 4  # random orders of the columns, when only an upper bound is wanted

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Coalition:
    """The smallest set of inputs of which a weighted sum is exposed.

    Attributes
    ----------
    least : int
        No smaller set is exposed.
    members : tuple of int
        Columns of an exposed set: a smallest one if `exact`. Empty if no sum is exposed at all.
    factors : tuple of Fraction, or None
        Of the members in the exposed sum; None if they are no simple fractions.
    exact : bool
        Whether ``len(members) == least``.
    """

    least: int
    members: tuple[int, ...]
    factors: tuple[Fraction, ...] | None

    @property
    def exact(self) -> bool:
        """Whether the set is a smallest one."""
        return len(self.members) in (0, self.least)


def smallest_coalition(
    space: ExactSpace,
    weights: NDArray[Any],
    *,
    budget: float = 1e6,
    entropy: Entropy = OS,
) -> Coalition:
    """Find the smallest exposed set of inputs, or bounds on its size.

    Parameters
    ----------
    space : ExactSpace
        What was observed.
    weights : array, shape (rounds, columns)
        The rows themselves, for sparse ones to start from.
    budget : float
        Work on one size: s is searched if ``C(n, s - 2) * (n + 500)`` does not exceed it, and 2
        always is. The default takes about a second.
    entropy : Entropy
        Of the random combinations.
    """
    if space.rank == 0:
        return Coalition(0, (), ())
    alone = np.flatnonzero(space.determined)
    if alone.size:
        return Coalition(1, (int(alone[0]),), (Fraction(1),))
    n, elimination = space.columns, space.spaces[0]
    upper = _upper_bound(space, weights, entropy)
    size = 2
    # n - rank + 1 columns of a null space of dimension n - rank are dependent.
    null = elimination.null_space()
    while size < len(upper) and (size == 2 or math.comb(n, size - 2) * (n + 500) <= budget):
        found = _dependent(_mixed(null, size, elimination.field, entropy), size, elimination.field)
        for members in found:
            support, factors = _combination(space, members)
            if len(support) == size:
                return Coalition(size, support, factors)
        size += 1
    upper, factors = _combination(space, upper)
    return Coalition(min(size, len(upper)), upper, factors)


def _mixed(null: NDArray[Any], size: int, kind: field.Field, entropy: Entropy) -> Words:
    mixture = field.uniform(entropy, (size, len(null)), kind)
    return np.asarray(field.matmul(mixture, null, kind)).astype(np.uint64)


def _dependent(columns: Words, size: int, kind: field.Field) -> Iterator[tuple[int, ...]]:
    """Yield sets of `size` columns, of as many entries, that are dependent."""
    p = np.uint64(kind.modulus)
    for fixed in itertools.combinations(range(columns.shape[1]), size - 2):
        first = fixed[-1] + 1 if fixed else 0
        rest = columns[:, first:]
        if rest.shape[1] < 2:
            continue
        plane = _modulo(columns[:, fixed], rest, p)
        if plane is None:  # the fixed ones are dependent, and were found as a smaller set
            continue
        for pair in _parallel(plane, kind):
            yield (*fixed, *(first + index for index in pair))


def _modulo(fixed: Words, rest: Words, p: np.uint64) -> Words | None:
    """Eliminate columns from others; return what is left of these, two entries each."""
    fixed, rest = fixed.copy(), rest.copy()
    rows = list(range(len(rest)))
    for k in range(fixed.shape[1]):
        pivot = next((row for row in rows if fixed[row, k]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        inverse = np.uint64(pow(int(fixed[pivot, k]), -1, int(p)))
        for row in rows:
            factor = p - fixed[row, k] * inverse % p
            rest[row] = (rest[row] + rest[pivot] * factor) % p
            fixed[row] = (fixed[row] + fixed[pivot] * factor) % p
    return rest[rows]


def _parallel(plane: Words, kind: field.Field) -> Iterator[tuple[int, int]]:
    """Yield a pair of columns (x, y) for each direction that two have, or one that is zero."""
    x, y = plane
    zero = np.flatnonzero((x == 0) & (y == 0))
    for index in zero:
        yield (int(index), int(index) + 1 if index + 1 < len(x) else int(index) - 1)
    finite = x != 0
    slopes = np.full(len(x), kind.modulus, np.uint64)
    inverses = field.inverse(x[finite].astype(kind.dtype), kind)
    slopes[finite] = field.mul(y[finite].astype(kind.dtype), inverses, kind)
    slopes[zero] = kind.modulus + 1 + np.arange(len(zero), dtype=np.uint64)
    order = np.argsort(slopes, kind="stable")
    for at in np.flatnonzero(np.diff(slopes[order]) == 0):
        one, other = int(order[at]), int(order[at + 1])
        yield min(one, other), max(one, other)


def _combination(
    space: ExactSpace, columns: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Fraction, ...] | None]:
    """Return the support of an exposed sum within these columns, and its factors if simple."""
    first, kind = space.spaces[0], space.spaces[0].field
    kernel = field.null_space(np.ascontiguousarray(first.null_space()[:, columns]), kind)
    if not len(kernel):
        return (), None
    values = kernel[int(np.argmin((kernel != 0).sum(axis=1)))]
    filled = np.flatnonzero(values)
    support = tuple(columns[int(index)] for index in filled)
    p = kind.modulus
    scale = pow(int(values[filled[0]]), -1, p)
    factors = [_simple(int(values[index]) * scale % p, p) for index in filled]
    row = np.zeros((1, space.columns), object)
    row[0, list(support)] = factors
    if None in factors or not space.contains(row)[0]:
        return support, None
    return support, tuple(factor for factor in factors if factor is not None)


def _simple(residue: int, p: int) -> Fraction | None:
    """Return the fraction of small terms with this residue, by the extended Euclid (Wang 1981)."""
    above, below, s, t = p, residue, 0, 1
    while below > _FACTOR:
        quotient = above // below
        above, below, s, t = below, above - quotient * below, t, s - quotient * t
    return Fraction(below, t) if t and abs(t) <= _FACTOR else None


def _upper_bound(space: ExactSpace, weights: NDArray[Any], entropy: Entropy) -> tuple[int, ...]:
    """Return the support of some vector of the row space with few entries."""
    best = _sparsest(weights != 0)
    basis = space.spaces[0].basis()
    best = _smaller(best, _sparsest(basis != 0))
    if len(weights) <= 3000 and weights.dtype != object:
        best = _smaller(best, _differences(weights))
    n, kind = space.columns, space.spaces[0].field
    if len(basis) ** 2 * n <= 3e8:
        for _ in range(_TRIES):
            keys = np.frombuffer(entropy.take(8 * n), "<u8")
            order = np.argsort(keys, kind="stable")
            rows = field.row_space(np.ascontiguousarray(basis[:, order]), kind)
            found = _sparsest(rows != 0)
            best = _smaller(best, tuple(sorted(int(order[index]) for index in found)))
    return best


def _smaller(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    return other if len(other) < len(one) else one


def _sparsest(filled: NDArray[np.bool_]) -> tuple[int, ...]:
    sizes = filled.sum(axis=1)
    some = np.flatnonzero(sizes)
    if not some.size:
        return ()
    row = filled[some[np.argmin(sizes[some])]]
    return tuple(int(index) for index in np.flatnonzero(row))


def _differences(weights: NDArray[Any]) -> tuple[int, ...]:
    """Return where the two most alike rounds differ."""
    flags = (weights != 0).astype(np.float32)
    common = flags @ flags.T
    sizes = np.diag(common)
    apart = sizes[:, np.newaxis] + sizes - 2 * common
    apart[apart == 0] = np.inf  # of one cohort: looked at by the reduced rows
    if not np.isfinite(apart).any():
        return ()
    one, other = np.unravel_index(int(np.argmin(apart)), apart.shape)
    return tuple(int(index) for index in np.flatnonzero(weights[one] != weights[other]))
