"""Ranges of numbers: integers, and floats on a declared grid."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain.base import MAX_SIZE, Codes, Domain
from privagg.domain.columns import as_column, is_missing
from privagg.entropy import Entropy
from privagg.errors import UsageError

__all__ = ["Floats", "Integers"]

_POLICIES = ("refuse", "clip")
_MAX_INTEGER = 2**53
"""Integers up to here are exact as floats."""

_MAX_FLOAT = sys.float_info.max


class _Range(Domain):
    """A range of numbers with equal steps; what :class:`Integers` and :class:`Floats` share."""

    _integers: bool

    def __init__(self, low: float, high: float, steps: int, unknown: str) -> None:
        if not isinstance(unknown, str) or unknown not in _POLICIES:
            raise UsageError("unknown", unknown, '"refuse" or "clip"')
        self._low, self._high, self._steps, self._unknown = low, high, steps, unknown

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self._steps + 1

    @property
    def steps(self) -> int:
        """How many steps lie between the smallest and the largest value."""
        return self._steps

    @property
    def low(self) -> float:
        """The smallest value."""
        return self._low

    @property
    def high(self) -> float:
        """The largest value."""
        return self._high

    @property
    def unknown(self) -> str:
        """What happens to numbers out of range: ``"refuse"`` or ``"clip"``."""
        return self._unknown

    def encode(
        self, values: Any, unknown: str | None = None, *, entropy: Entropy | None = None
    ) -> Codes:
        """Return the code of each number as a ``(n,)`` uint32 array; see :meth:`Domain.encode`.

        Parameters
        ----------
        values : list, tuple, ndarray or column
            Finite numbers; missing ones are refused under either policy.
        unknown : {"refuse", "clip"}, optional
            What happens to numbers out of range. Clipped ones are not counted: the count would
            leave the respondent.
        entropy : Entropy, optional
            Given, a number between two points of the grid goes to either with the probability
            that makes its code right on average (32 random bits a number); otherwise to the
            nearer one, and at half to the even code. Privacy does not rest on this step: each
            code is as private as any other.

        Raises
        ------
        UsageError
            If a number is missing, not finite, or out of range under ``"refuse"``, or the values
            are no numbers.
        """
        policy = self._unknown if unknown is None else unknown
        if not isinstance(policy, str) or policy not in _POLICIES:
            raise UsageError("unknown", policy, '"refuse" or "clip"')
        numbers, missing = _numbers(values, self._integers)
        if missing.any():
            raise UsageError("values", "a missing value", "finite numbers")
        outside = (numbers < self._low) | (numbers > self._high)
        if policy == "refuse" and outside.any():
            allowed = f"{self._low} to {self._high}"
            raise UsageError("values", "a number out of range", allowed, 'Or use unknown="clip".')
        # min and max before the division: what is clipped lands exactly on an end.
        inside = np.clip(numbers, self._low, self._high)
        at = (inside - self._low) / (self._high - self._low) * self._steps
        if entropy is None:
            codes = np.rint(at)
        else:
            words = np.frombuffer(entropy.take(4 * at.size), "<u4")
            floor = np.floor(at)
            codes = floor + (words < (at - floor) * 2.0**32)
        return np.minimum(codes, self._steps).astype(np.uint32)

    def unknown_count(self, values: Any) -> int:
        """Return how many numbers are missing or out of range, exactly: for simulations only."""
        numbers, missing = _numbers(values, self._integers)
        return int((missing | (numbers < self._low) | (numbers > self._high)).sum())

    def __repr__(self) -> str:
        name = type(self).__name__
        steps = "" if self._integers else f", steps={self._steps}"
        return f"{name}({self._low!r}, {self._high!r}{steps}, unknown={self._unknown!r})"


class Integers(_Range):
    """The integers from `low` to `high`, both included.

    Parameters
    ----------
    low, high : int
        The ends, within ``2**53``; at most ``2**24`` integers.
    unknown : {"refuse", "clip"}
        What happens to numbers out of range, on the respondent's side: ``"refuse"`` raises,
        before anything is reported; ``"clip"`` takes the nearer end.

    Raises
    ------
    UsageError
        If the range is empty, of one integer, or too large.
    """

    _integers = True

    def __init__(self, low: int, high: int, *, unknown: str = "refuse") -> None:
        first = whole("low", low, -_MAX_INTEGER, _MAX_INTEGER)
        last = whole("high", high, -_MAX_INTEGER, _MAX_INTEGER)
        if not 1 <= last - first < MAX_SIZE:
            allowed = f"low + 1 to low + {MAX_SIZE - 1}, with low = {first}"
            raise UsageError("high", last, allowed)
        super().__init__(first, last, last - first, unknown)

    @property
    def labels(self) -> Sequence[int]:
        """The integers themselves."""
        return range(int(self._low), int(self._high) + 1)

    def describe(self) -> dict[str, Any]:
        """Return the domain as a dict: kind, low, high, unknown."""
        return {
            "kind": "integer",
            "low": int(self._low),
            "high": int(self._high),
            "unknown": self._unknown,
        }


class Floats(_Range):
    """Numbers from `low` to `high` on a grid of equal steps.

    Parameters
    ----------
    low, high : float
        The ends, finite.
    steps : int
        How many steps the grid has: it has ``steps + 1`` points.
    unknown : {"refuse", "clip"}
        What happens to numbers out of range, on the respondent's side: ``"refuse"`` raises,
        before anything is reported; ``"clip"`` takes the nearer end.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """

    _integers = False

    def __init__(
        self, low: float, high: float, *, steps: int = 256, unknown: str = "refuse"
    ) -> None:
        for name, value in (("low", low), ("high", high)):
            real = isinstance(value, int | float | np.integer | np.floating)
            # An integer of any size compares with a float; a NaN does not.
            if isinstance(value, bool) or not real or not -_MAX_FLOAT <= value <= _MAX_FLOAT:
                raise UsageError(name, value, "a finite number")
        first, last = float(low) + 0.0, float(high) + 0.0  # -0.0 becomes 0.0
        if not first < last or not math.isfinite(last - first):
            raise UsageError("high", last, f"a number above low = {first}, a finite way off")
        super().__init__(first, last, whole("steps", steps, 1, MAX_SIZE - 1), unknown)

    @property
    def labels(self) -> Sequence[float]:
        """The points of the grid."""
        return [float(point) for point in self.grid]

    @property
    def grid(self) -> NDArray[np.float64]:
        """The points of the grid, ``(steps + 1,)``, `low` first and `high` last."""
        return np.linspace(self._low, self._high, self._steps + 1)

    def describe(self) -> dict[str, Any]:
        """Return the domain as a dict: kind, low, high, steps, unknown."""
        return {
            "kind": "float",
            "low": self._low,
            "high": self._high,
            "steps": self._steps,
            "unknown": self._unknown,
        }


def _numbers(values: Any, integers: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values as floats, and which are missing; infinities count as out of range."""
    column = as_column(values)
    what = "integers" if integers else "numbers"
    if isinstance(column, list):
        allowed = (int, np.integer) if integers else (int, float, np.integer, np.floating)
        for value in column:
            if isinstance(value, bool) or not (isinstance(value, allowed) or is_missing(value)):
                raise UsageError("values", f"a {type(value).__name__}", what)
        gone = np.fromiter(map(is_missing, column), np.bool_, len(column))
        pairs = zip(column, gone, strict=True)
        try:
            numbers = np.fromiter(
                (0.0 if no else float(v) for v, no in pairs), np.float64, gone.size
            )
        except OverflowError:
            raise UsageError("values", "an integer too large for a float", what) from None
        return numbers, gone
    if isinstance(column, pa.Array):
        kind = column.type
        floats = pa.types.is_floating(kind) and not integers
        if not (pa.types.is_integer(kind) or floats or pa.types.is_null(kind)):
            raise UsageError("values", f"a column of {kind}", what)
        gone = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        plain = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0)
        return plain.to_numpy(zero_copy_only=False), gone
    if column.dtype.kind not in ("iu" if integers else "iuf"):
        raise UsageError("values", f"an array of {column.dtype}", what)
    numbers = column.astype(np.float64)
    return numbers, np.isnan(numbers)
