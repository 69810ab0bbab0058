"""Projective geometry response: the error of subset selection, in reports of a few bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.projective import (
    Space,
    decode_all,
    decode_each,
    points_off,
    points_on,
)
from privagg.mechanisms._kernels.symbols import count_symbols
from privagg.mechanisms.base import Columns, PureOracle
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import check_epsilon
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import State
from privagg.mechanisms.subset import Inclusion, include

__all__ = ["PGR"]

_MAX_POINTS = 2**26


class PGR(PureOracle):
    """Projective geometry response.

    Values and reports are points of the projective space over a prime field of f elements, in t
    coordinates: K = (f**t - 1) / (f - 1) points, the first k of which are values. A value's own
    reports are the points orthogonal to it, a hyperplane of s = (f**(t-1) - 1) / (f - 1); a report
    is one of them with probability p = s e**epsilon / (s e**epsilon + K - s), else one of the rest,
    each equally likely. Two hyperplanes meet in i = (f**(t-2) - 1) / (f - 1) points, the same for
    all pairs, so that a report supports another value with probability
    q = p i / s + (1 - p) (s - i) / (K - s).

    Source: Feldman, Nelson, Nguyen, Talwar, "Private Frequency Estimation via Projective Geometry",
    ICML 2022. The error is nearly that of subset selection where f is nearly e**epsilon + 1; f is
    the prime below or above it with the lower variance. n Var at frequency 0 is
    q (1 - q) / (p - q)**2.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If the space would have more than 2**26 points, or 64-bit thresholds cannot realise epsilon.
    """

    name = "pgr"

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        # With more elements than values there would be reports that no value has as its own.
        wanted = min(math.exp(min(check_epsilon(epsilon), 40.0)) + 1, max(2, self.k))
        found: list[tuple[Fraction, Space, Inclusion]] = []
        for prime in _primes_around(wanted):
            space = Space(prime, self.k)
            if space.points <= _MAX_POINTS:
                inclusion = include(space.points, space.plane, self.epsilon)
                found.append((_variance_at_zero(space, inclusion), space, inclusion))
        if not found:
            allowed = f"so many that the space has at most {_MAX_POINTS} points"
            raise UsageError("domain", f"{self.k} values", allowed)
        _, self._space, self._inclusion = min(found, key=lambda one: one[0])

    @property
    def field(self) -> int:
        """How many elements the field has; a prime."""
        return self._space.field

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return self._space.dimension

    @property
    def p(self) -> Fraction:
        """Probability that a report is orthogonal to the own value."""
        return self._inclusion.p

    @property
    def q(self) -> Fraction:
        """Probability that a report is orthogonal to another value."""
        return _other(self._space, self._inclusion)

    @property
    def ratio(self) -> Fraction:
        """The ratio p (K - s) / ((1 - p) s)."""
        return self._inclusion.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, how many stay in the hyperplane, field and dimension."""
        return {
            "bits": self._inclusion.bits,
            "one": self._inclusion.one,
            "field": self._space.field,
            "dimension": self._space.dimension,
        }

    @property
    def layout(self) -> tuple[Column, ...]:
        """A point."""
        points = self._space.points
        return (Column("point", (points - 1).bit_length(), limit=points),)

    @property
    def sums_size(self) -> int:
        """How many sums a state has: the reports of each point."""
        return self._space.points

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        space = self._space
        words = draws.words(codes.size, self._inclusion.bits)
        inside = words < words.dtype.type(self._inclusion.one)
        picks = draws.below([space.plane, space.points - space.plane], codes.size)
        out = np.empty(codes.size, np.uint32)
        for part, pick, point in ((inside, 0, points_on), (~inside, 1, points_off)):
            out[part] = point(space, codes[part].astype(np.int64), picks[part, pick])
        return (out,)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.sums_size)

    def _raw(self, state: State) -> Vector:
        space = self._space
        # Value by value, or all points of the space at once: whichever is less work. A point of a
        # hyperplane has to be found first, which takes about 50 additions.
        work_of_each = 50 * self.k * space.plane
        work_of_all = space.dimension * space.field ** (space.dimension + 2)
        decode = decode_each if work_of_each <= work_of_all else decode_all
        share = decode(space, state.sums, self.k) / state.users
        other, gap, _, _ = self._rates
        return np.asarray((share - other) / gap, np.float64)

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        if int(sums.min()) < 0 or int(sums.sum()) != users:
            return f"expected counts that add up to {users}, the number of reports"
        return ""


def _other(space: Space, inclusion: Inclusion) -> Fraction:
    p, s, i = inclusion.p, space.plane, space.meet
    return p * i / s + (1 - p) * (s - i) / (space.points - s)


def _variance_at_zero(space: Space, inclusion: Inclusion) -> Fraction:
    q = _other(space, inclusion)
    return q * (1 - q) / (inclusion.p - q) ** 2


def _primes_around(wanted: float) -> list[int]:
    """Return the largest prime up to `wanted` and the smallest from it on; 2 at least."""
    below = max(2, math.floor(wanted))
    while not _is_prime(below):
        below -= 1
    above = max(2, math.ceil(wanted))
    while not _is_prime(above):
        above += 1
    return sorted({below, above})


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, math.isqrt(number) + 1))
