"""Count mean sketches: values hashed into short vectors, for large domains and long streams."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field
from privagg._validate import whole
from privagg.domain import Domain
from privagg.domain.base import Codes
from privagg.entropy import from_seed
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.bits import count_bits, noise_rows, set_bits
from privagg.mechanisms._kernels.symbols import count_symbols, replace_symbols
from privagg.mechanisms.base import Columns, FrequencyOracle, check_frequencies
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import bit_pair, split
from privagg.mechanisms.hadamard import parities, walsh_hadamard
from privagg.mechanisms.reports import Column
from privagg.mechanisms.state import MAX_REPORTS, State

__all__ = ["CMS", "HCMS", "HashFamily"]

_FIELD_BITS = 61
_CHUNK = 1 << 18


class HashFamily:
    """Public hash functions into `width` cells: random quadratic polynomials over GF(2**61 - 1).

    The cell is the top bits of the polynomial's value, so that over the choice of the polynomials
    any three values fall into cells independently, and two of them into one with probability
    `collision`: exact, 1 / width to within 2**-60.

    Parameters
    ----------
    count : int
        How many functions.
    width : int
        How many cells: a power of two.
    seed : int
        Which functions; all parties must use the same, and it is no secret.
    """

    def __init__(self, count: int, width: int, seed: int) -> None:
        self.count, self.width = count, width
        self._coefficients = field.uniform(from_seed(seed).spawn("count mean sketch"), (3, count))
        self._shift = np.uint64(_FIELD_BITS - (width.bit_length() - 1))
        # All cells have the same share of the field but the last, which lacks one element.
        part = 2**_FIELD_BITS // width
        squares = (width - 1) * part**2 + (part - 1) ** 2
        self.collision = Fraction(squares, (2**_FIELD_BITS - 1) ** 2)

    def cells(self, functions: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.uint32]:
        """Return the cell of each code under each function; arrays of one shape."""
        c0, c1, c2 = (row[functions.reshape(-1)] for row in self._coefficients)
        x = codes.reshape(-1).astype(np.uint64)
        found = field.add(c0, field.mul(x, field.add(c1, field.mul(c2, x))))
        return (found >> self._shift).astype(np.uint32).reshape(codes.shape)


class _Sketch(FrequencyOracle):
    """What both sketches share: hash functions, their collisions, and the estimate."""

    def __init__(
        self, domain: Domain, epsilon: float, hashes: int = 256, width: int = 1024, seed: int = 0
    ) -> None:
        super().__init__(domain, epsilon)
        self._hashes = whole("hashes", hashes, 1, 2**20)
        self._width = whole("width", width, 2, 2**20)
        if self._width & (self._width - 1):
            raise UsageError("width", self._width, "a power of two")
        if self._hashes * self._width > 2**26:
            allowed = f"hashes * width up to {2**26}"
            raise UsageError("hashes", self._hashes, allowed)
        self._seed = whole("seed", seed, 0, 2**64 - 1)
        self._family = HashFamily(self._hashes, self._width, self._seed)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments `hashes`, `width` and `seed`."""
        return {"hashes": self._hashes, "width": self._width, "seed": self._seed}

    @property
    def sums_size(self) -> int:
        """How many sums a state has: one for each cell of each function."""
        return self._hashes * self._width

    def variance(self, n: int, frequency: Any = 0.0, *, population: bool = False) -> Any:
        """Return the variance of the raw estimate, the rest spread evenly over the other values.

        It is over the mechanism's randomness and the choice of the hash functions; the part that
        comes from collisions does not shrink with n. Parameters, returns and errors as for the base
        class.
        """
        users = whole("n", n, 1, MAX_REPORTS)
        frequencies = check_frequencies(frequency)
        others = (1 - frequencies) ** 2 / (self.k - 1)
        found = self._total(users, frequencies, others, population)
        return float(found) if np.ndim(frequency) == 0 else found

    def _variances(self, users: int, frequencies: Vector, population: bool) -> Vector:
        others = float((frequencies**2).sum()) - frequencies**2
        return self._total(users, frequencies, others, population)

    def _total(self, users: int, frequencies: Vector, others: Vector, population: bool) -> Vector:
        """Return the variance where the other values' squared frequencies add up to `others`."""
        c = float(self._family.collision)
        found = self._variance(frequencies) / users
        # Two reports of one other value under one function collide with v together or not at all.
        pairs = np.maximum(others - (1 - frequencies) / users, 0.0)
        found = found + c / (1 - c) / self._hashes * pairs
        return found + frequencies * (1 - frequencies) / users if population else found

    def _raw(self, state: State) -> Vector:
        """Return the mean of what each report says of each value, less the collisions."""
        table = self._means(state)
        functions = np.arange(self._hashes)
        found = np.empty(self.k)
        step = max(1, _CHUNK // self._hashes)
        for start in range(0, self.k, step):
            codes = np.arange(start, min(start + step, self.k))
            every, each = np.broadcast_arrays(functions[:, None], codes[None, :])
            cells = self._family.cells(np.ascontiguousarray(every), np.ascontiguousarray(each))
            found[start : start + step] = table[every, cells].sum(axis=0)
        c = float(self._family.collision)
        return np.asarray((found + self._offset - c) / (1 - c), np.float64)

    @abstractmethod
    def _means(self, state: State) -> Vector:
        """Return for each function and cell its part of the mean, ``(hashes, width)``."""

    _offset = 0.0
    """What is added to the sum over functions."""


class CMS(_Sketch):
    """Count mean sketch: one of `hashes` functions hashes the value, and `width` bits are sent.

    The cell's bits are symmetric unary encoding (:class:`privagg.mechanisms.SUE`) over the cells;
    which function was drawn says nothing of the value. The estimate of a value is the mean over
    reports of the debiased bit in the value's cell, less the share of collisions. It is unbiased
    over the choice of the hash functions, which are public and fixed by `seed`; for given functions
    collisions shift it, by nothing that more reports would mend: more functions do.

    Source: Apple's Differential Privacy Team, "Learning with Privacy at Scale", 2017. With p, q of
    the bits, c the probability of a collision and s = c p + (1 - c) q, the variance is
    (f p (1 - p) + (1 - f) s (1 - s)) / (n (p - q)**2 (1 - c)**2), and for collisions
    c / (hashes (1 - c)) times the sum of the other values' squared frequencies.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.
    hashes : int
        How many hash functions.
    width : int
        How many cells; a power of two.
    seed : int
        Which hash functions: public, and the same for all.

    Raises
    ------
    UsageError
        If an argument is out of range, or 64-bit thresholds cannot realise epsilon.
    """

    name = "cms"

    def __init__(
        self, domain: Domain, epsilon: float, hashes: int = 256, width: int = 1024, seed: int = 0
    ) -> None:
        super().__init__(domain, epsilon, hashes, width, seed)
        self._pair = bit_pair(self.epsilon, None)
        self._offset = -float(self._pair.q / (self._pair.p - self._pair.q))

    @property
    def ratio(self) -> Fraction:
        """That of the bits."""
        return self._pair.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, and how many set the cell's bit and any other."""
        return {"bits": self._pair.bits, "one": self._pair.one, "zero": self._pair.zero}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The number of the function, and the bits."""
        bits = max(1, (self._hashes - 1).bit_length())
        function = Column("function", bits, limit=self._hashes)
        return (function, Column("bits", self._width, bitmap=True))

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        functions = draws.below([self._hashes], codes.size).reshape(-1)
        cells = self._family.cells(functions, codes)
        pair = self._pair
        rows = noise_rows(codes.size, self._width, pair.zero, pair.bits, draws)
        set_bits(rows, cells, pair.one, pair.bits, draws)
        return (functions, rows)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        functions, rows = columns
        order = np.argsort(functions, kind="stable")
        ends = np.cumsum(np.bincount(functions, minlength=self._hashes))
        found = np.zeros((self._hashes, self._width), np.int64)
        for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > start:
                found[number] = count_bits(rows[order[start:end]], self._width)
        return found.reshape(-1)

    def _means(self, state: State) -> Vector:
        scale = state.users * float(self._pair.p - self._pair.q)
        return np.asarray(state.sums.reshape(self._hashes, self._width) / scale, np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        c, p, q = self._family.collision, self._pair.p, self._pair.q
        s = c * p + (1 - c) * q
        scale = (p - q) ** 2 * (1 - c) ** 2
        own, other = float(p * (1 - p) / scale), float(s * (1 - s) / scale)
        return frequencies * own + (1 - frequencies) * other


class HCMS(_Sketch):
    """Hadamard count mean sketch: one bit of the hashed value's Hadamard transform.

    Each respondent draws one of `hashes` functions and one of `width` columns l of the Hadamard
    matrix, and reports the entry at the cell's row, (-1)**popcount(l & cell), as it is with
    probability e**epsilon / (e**epsilon + 1), else negated. Estimate and bias as for :class:`CMS`;
    with g = (e**epsilon + 1) / (e**epsilon - 1) the variance is
    (f (g**2 - 1) + (1 - f) (g**2 - c**2)) / (n (1 - c)**2), and for collisions as for CMS.

    Source: Apple's Differential Privacy Team, "Learning with Privacy at Scale", 2017.

    Parameters and errors as for :class:`CMS`.

    Parameters
    ----------
    domain : Domain
        The declared domain.
    epsilon : float
        The privacy parameter of one report; see :mod:`privagg.mechanisms.base`.
    hashes : int
        Hash functions, of which each respondent uses one.
    width : int
        Cells of the sketch, a power of two.
    seed : int
        Chooses the hash functions; it is public.
    """

    name = "hcms"

    def __init__(
        self, domain: Domain, epsilon: float, hashes: int = 256, width: int = 1024, seed: int = 0
    ) -> None:
        super().__init__(domain, epsilon, hashes, width, seed)
        self._split = split(2, self.epsilon)

    @property
    def ratio(self) -> Fraction:
        """That of the one bit."""
        return self._split.ratio

    @property
    def thresholds(self) -> dict[str, int]:
        """Bits of the words, and how many negate the bit."""
        return {"bits": self._split.bits, "other": self._split.other}

    @property
    def layout(self) -> tuple[Column, ...]:
        """The numbers of the function and of the column, and whether the entry is -1."""
        return (
            Column("function", max(1, (self._hashes - 1).bit_length()), limit=self._hashes),
            Column("column", (self._width - 1).bit_length(), limit=self._width),
            Column("negative", 1),
        )

    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        picks = draws.below([self._hashes, self._width], codes.size)
        functions, columns = np.ascontiguousarray(picks.T)
        entries = parities(columns & self._family.cells(functions, codes))
        return (functions, columns, replace_symbols(entries, self._split, draws))

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        function, column, negative = columns
        place = (function * np.uint32(self._width) + column) * np.uint32(2) + negative
        counts = count_symbols(place, 2 * self.sums_size).reshape(-1, 2)
        return counts[:, 0] - counts[:, 1]

    def _means(self, state: State) -> Vector:
        signed = walsh_hadamard(state.sums.reshape(self._hashes, self._width))
        gap = float(self._split.p - self._split.q)
        return np.asarray(signed / (state.users * gap), np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        c = float(self._family.collision)
        square = float(1 / (self._split.p - self._split.q) ** 2)
        own, other = (square - 1) / (1 - c) ** 2, (square - c * c) / (1 - c) ** 2
        return frequencies * own + (1 - frequencies) * other

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        # Python's integers: sums of a forged state may be anything.
        if int(sums.min()) < -users or int(sums.max()) > users:
            return f"expected sums from {-users} to {users}"
        if int(np.abs(sums).sum()) > users:
            return f"expected sums that together are at most {users}"
        return ""
