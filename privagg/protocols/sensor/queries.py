"""What is asked: queries as numbers that nodes add, and as what is made of their sums.

Readings become signed fixed-point integers, ``round(reading * scale)``; a query turns each into one
or more numbers to add. The exact sums then give the answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import refuse_masked, whole
from privagg.errors import UsageError
from privagg.protocols.sensor.params import choice, real

__all__ = ["Query", "QueryKind", "fixed_point", "power_maximum"]

_Ints = NDArray[np.int64]

_MOST = 2**53


class QueryKind(StrEnum):
    """What can be asked."""

    SUM = "sum"
    COUNT = "count"
    MEAN = "mean"
    VARIANCE = "variance"
    HISTOGRAM = "histogram"
    MAX = "max"
    MIN = "min"


def fixed_point(readings: Any, scale: int, bound: int | None) -> tuple[_Ints, int]:
    """Turn readings into fixed-point integers.

    Parameters
    ----------
    readings : array of real numbers
        Any shape.
    scale : int
        Steps per unit: 100 keeps two decimals. What lies between two steps is rounded to the
        nearest, ties to even.
    bound : int, optional
        Largest absolute value allowed, in steps; the largest there is if not given.

    Returns
    -------
    steps : int64 array
        Of the same shape.
    bound : int
        As given or found.

    Raises
    ------
    UsageError
        If a reading is not a finite number or is beyond the bound: nothing is clipped.
    """
    whole("scale", scale, 1, 10**12)
    refuse_masked("readings", readings)
    try:
        array = np.asarray(readings)
    except ValueError:
        raise UsageError("readings", "ragged lists", "an array of numbers") from None
    if array.dtype.kind not in "iuf":
        raise UsageError("readings", f"{array.dtype} values", "real numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        at = int(np.argmin(np.isfinite(array).reshape(-1)))
        raise UsageError("readings", f"a number that is not finite, at {at}", "finite numbers")
    scaled = np.rint(array.astype(np.float64) * scale)
    if array.size and float(np.abs(scaled).max()) >= _MOST:
        raise UsageError("readings", "too large for the scale", f"below 2**53 / {scale}")
    steps = scaled.astype(np.int64) if array.dtype.kind == "f" else array.astype(np.int64) * scale
    largest = int(np.abs(steps).max()) if steps.size else 0
    if bound is None:
        return steps, largest
    whole("bound", bound, 0, _MOST)
    if largest > bound:
        at = int(np.argmax(np.abs(steps).reshape(-1)))
        raise UsageError(
            "readings",
            f"a reading beyond the bound, at {at}",
            f"within {bound / scale:g} either way",
            "Raise the bound, or leave it out; nothing is clipped.",
        )
    return steps, bound


@dataclass(frozen=True)
class Query:
    """A query over fixed-point readings.

    Parameters
    ----------
    kind : QueryKind
        What is asked. ``count`` counts the readings that are at least `at_least`, or all.
        ``max`` and ``min`` are found by bisection: one count of readings at or above a threshold in
        each of about ``log2(2 * bound + 1)`` epochs, which tells each cluster's leader these counts
        of its cluster. A node that is missed in one of them may shift the result; a count that
        cannot be decoded leaves none.
    at_least : float, optional
        Threshold of ``count``.
    edges : sequence of float, optional
        Edges of the bins of ``histogram``, ascending: bin i holds readings from edge i to below
        edge i + 1, the last one its upper edge too.

    Raises
    ------
    UsageError
        If the kind is none, or lacks its edges or has superfluous ones.
    """

    kind: QueryKind = QueryKind.SUM
    at_least: float | None = None
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", choice("query", self.kind, QueryKind))
        if self.at_least is not None:
            low = -float(_MOST)
            object.__setattr__(self, "at_least", real("at_least", self.at_least, low, -low))
        if self.at_least is not None and self.kind is not QueryKind.COUNT:
            raise UsageError("at_least", self.at_least, "a threshold of the query 'count' only")
        if (self.edges is not None) != (self.kind is QueryKind.HISTOGRAM):
            allowed = "edges with the query 'histogram', and only there"
            raise UsageError("edges", self.edges, allowed)
        if self.edges is not None:
            try:
                edges = tuple(float(edge) for edge in self.edges)
            except (TypeError, ValueError):
                raise UsageError("edges", self.edges, "numbers, ascending") from None
            rising = all(a < b for a, b in itertools.pairwise(edges))
            if len(edges) < 2 or not rising or not all(map(math.isfinite, edges)):
                raise UsageError("edges", self.edges, "two or more finite numbers, ascending")
            object.__setattr__(self, "edges", edges)

    @property
    def bisects(self) -> bool:
        """Whether it takes several epochs of counting."""
        return self.kind in (QueryKind.MAX, QueryKind.MIN)

    @property
    def width(self) -> int:
        """How many numbers each node adds."""
        if self.edges is not None:
            return len(self.edges) - 1
        return 2 if self.kind is QueryKind.VARIANCE else 1

    def number_bound(self, bound: int) -> int:
        """Return the largest absolute number to add, of readings up to `bound` steps."""
        if self.kind in (QueryKind.COUNT, QueryKind.HISTOGRAM) or self.bisects:
            return 1
        return max(bound, bound * bound) if self.kind is QueryKind.VARIANCE else bound

    def numbers(self, steps: _Ints, scale: int) -> _Ints:
        """Return what each node adds, shape ``(*steps.shape, width)``.

        Parameters
        ----------
        steps : (...) integer array
            Readings in steps of the scale.
        scale : int
            Steps in one unit.

        Raises
        ------
        UsageError
            If a reading lies in no bin of the histogram.
        """
        match self.kind:
            case QueryKind.COUNT if self.at_least is not None:
                return np.asarray(steps >= self.at_least * scale, np.int64)[..., None]
            case QueryKind.COUNT:
                return np.ones((*steps.shape, 1), np.int64)
            case QueryKind.VARIANCE:
                return np.stack([steps, steps * steps], axis=-1)
            case QueryKind.HISTOGRAM:
                return self._bins(steps, scale)
        return steps[..., None]

    def _bins(self, steps: _Ints, scale: int) -> _Ints:
        edges = np.array(self.edges) * scale
        place = np.searchsorted(edges, steps, side="right") - 1
        place = np.where(steps == edges[-1], len(edges) - 2, place)
        outside = (place < 0) | (place > len(edges) - 2)
        if outside.any():
            at = int(np.argmax(outside.reshape(-1)))
            raise UsageError(
                "readings",
                f"a reading in no bin, at {at}",
                f"from {edges[0] / scale:g} to {edges[-1] / scale:g}",
                "Let the outermost bins reach further: no reading is dropped silently.",
            )
        return np.asarray(place[..., None] == np.arange(len(edges) - 1), np.int64)

    def answer(self, totals: Sequence[int | float], count: int, scale: int) -> Any:
        """Return the answer from the sums over `count` readings; None where none came in.

        Parameters
        ----------
        totals : sequence of numbers
            Sums, as many as a node adds.
        count : int
            How many readings are in them.
        scale : int
            Steps in one unit.
        """
        if not count:
            return None
        match self.kind:
            case QueryKind.COUNT:
                return round(totals[0])
            case QueryKind.MEAN:
                return totals[0] / (scale * count)
            case QueryKind.VARIANCE:
                # Exact integers to the last step: no cancellation of large floats.
                spread = count * totals[1] - totals[0] * totals[0]
                return spread / (count * count * scale * scale)
            case QueryKind.HISTOGRAM:
                return [round(total) for total in totals]
        return totals[0] / scale


def power_maximum(
    readings: Any, exponents: Sequence[int], *, minimum: bool = False
) -> list[tuple[int, float, float]]:
    """Show what ``MAX = lim (sum d_i**k)**(1/k)`` gives for finite k: a demonstration, not a query.

    The papers on additive aggregation offer it for MAX, and with -k for MIN. With n readings near
    the maximum it is too large by a factor of up to ``n**(1/k)`` (and as much too small for the
    minimum), and ``d**k`` soon has more digits than a mote adds: bisection on counts is exact.

    Parameters
    ----------
    readings : array of numbers
        The readings: of 0 or more and not all 0 for the maximum, above 0 for the minimum.
    exponents : sequence of int
        The k to try.
    minimum : bool
        Whether to approximate the minimum.

    Returns
    -------
    list of (k, estimate, relative error)
        In double precision, scaled by the extreme reading so that nothing overflows.

    Raises
    ------
    UsageError
        If a reading is negative (or zero for the minimum, or all are), or the exponents are no
        sequence of whole numbers.
    """
    refuse_masked("readings", readings)
    try:
        array = np.asarray(readings, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise UsageError("readings", type(readings).__name__, "positive numbers") from None
    if not isinstance(exponents, Sequence) or isinstance(exponents, str | bytes):
        raise UsageError("exponents", exponents, "a sequence of whole numbers")
    hint = "Powers of other numbers have no limit that is the extreme; bisection takes any."
    if not array.size or not np.isfinite(array).all() or array.min() < 0 or array.max() == 0:
        raise UsageError("readings", "a number below 0, or none above it", "positive numbers", hint)
    if minimum and array.min() == 0:
        raise UsageError("readings", "a zero, whose power -k is infinite", "positive numbers", hint)
    extreme = float(array.min() if minimum else array.max())
    parts = extreme / array if minimum else array / extreme
    rows = []
    for k in exponents:
        whole("exponents", k, 1, 10_000)
        root = float((parts**k).sum()) ** (1 / k)
        estimate = extreme / root if minimum else extreme * root
        rows.append((int(k), estimate, estimate / extreme - 1))
    return rows
