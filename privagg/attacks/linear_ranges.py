"""What sums say of inputs that are known to be bounded, or whole numbers.

Linear algebra is only a floor there: three clients whose bits sum to 3 have told them. For each
input the least and the greatest value that fits all sums is found by linear or integer programs; if
the two are one, the input is known, whether or not its unit vector is in the row space. An input
with a range of its own is "not linearly determined", never "safe": other knowledge may narrow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.attacks.linear_log import weight_matrix
from privagg.attacks.linear_solver import Program, Solution, require_scipy
from privagg.errors import UsageError

__all__ = ["Ranges", "feasible_ranges"]

Floats = NDArray[np.float64]

_SLACK = 1e-6  # of a solver's feasibility, over the largest term


@dataclass(frozen=True)
class Ranges:
    """Values of inputs that fit all sums.

    Attributes
    ----------
    inputs : tuple of int
        Columns looked at.
    minimum, maximum : (m,) float arrays
        Least and greatest value of each; where not proved, bounds that no fitting value exceeds.
    proven : (m,) bool array
        Whether both were reached by fitting inputs, and proved extreme.
    integer : bool
        Whether inputs are whole numbers.
    """

    inputs: tuple[int, ...]
    minimum: Floats
    maximum: Floats
    proven: NDArray[np.bool_]
    integer: bool

    @property
    def unique(self) -> NDArray[np.bool_]:
        """Whether only one value fits."""
        if self.integer:
            return np.asarray(self.minimum == self.maximum)
        with np.errstate(invalid="ignore"):
            width = self.maximum - self.minimum
            scale = np.maximum(1.0, np.maximum(np.abs(self.minimum), np.abs(self.maximum)))
            return np.asarray(np.isfinite(scale) & (width <= 10 * _SLACK * scale))


def feasible_ranges(
    weights: Any,
    sums: Any,
    *,
    low: Any = 0,
    high: Any = 1,
    integer: bool = True,
    inputs: Sequence[int] | None = None,
    tolerance: float = 0.0,
    seconds: float = 60.0,
    progress: Callable[[int, int], None] | None = None,
) -> Ranges:
    """Return the range of values that each input can have, given all sums.

    Parameters
    ----------
    weights : array, shape (rounds, clients)
        Factors of the inputs in each sum.
    sums : array of float, shape (rounds,)
        The sums.
    low, high : float, or array of shape (clients,)
        Bounds that inputs are known to keep; infinite ones are allowed.
    integer : bool
        Whether inputs are whole numbers: labels, counts, meters. Integer programs take exponential
        time at worst.
    inputs : sequence of int, optional
        Columns to look at; by default all.
    tolerance : float
        By how much a sum may be off: rounding, or a bound on noise.
    seconds : float
        Time limit for each of the two programs per input.
    progress : callable, optional
        Called with the number of inputs done, and of all.

    Raises
    ------
    UsageError
        Arguments that do not fit, no inputs within the bounds that give the sums, or SciPy missing.
    """
    require_scipy()
    program = _program(weights, sums, low, high, integer, tolerance, seconds)
    n = program.matrix.shape[1]
    columns = tuple(range(n)) if inputs is None else tuple(inputs)
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise UsageError("inputs", repr(column), "columns of weights")
        if not 0 <= column < n:
            raise UsageError("inputs", column, f"columns from 0 to {n - 1}")
    start = program.minimum(np.zeros(n))
    if start.infeasible:
        raise UsageError(
            "sums",
            "no inputs within the bounds give them",
            "sums of bounded inputs",
            "Check low and high, or allow for rounding by tolerance.",
        )
    # Every point found shows values that inputs can have: often the extremes, with no program.
    seen = _Seen(n, start, integer)
    least, most = np.full(len(columns), -np.inf), np.full(len(columns), np.inf)
    proven = np.zeros(len(columns), np.bool_)
    for index, column in enumerate(columns):
        lowest, down = _extreme(program, seen, column, 1.0)
        highest, up = _extreme(program, seen, column, -1.0)
        least[index], most[index], proven[index] = lowest + 0.0, 0.0 - highest, down and up
        if progress is not None:
            progress(index + 1, len(columns))
    return Ranges(columns, least, most, proven, integer)


class _Seen:
    """Least and greatest value of each input among fitting points."""

    def __init__(self, n: int, first: Solution, integer: bool) -> None:
        self.least, self.most = np.full(n, np.inf), np.full(n, -np.inf)
        self._integer = integer
        self.note(first)

    def note(self, solution: Solution) -> None:
        if solution.point is not None:
            point = np.round(solution.point) if self._integer else solution.point
            self.least = np.minimum(self.least, point)
            self.most = np.maximum(self.most, point)


def _extreme(program: Program, seen: _Seen, column: int, sign: float) -> tuple[float, bool]:
    """Minimise ``sign`` times an input; return the value, and whether it is proved."""
    bound = program.least[column] if sign > 0 else -program.most[column]
    value = seen.least[column] if sign > 0 else -seen.most[column]
    if value == bound:
        return float(value), True
    objective = np.zeros(len(program.least))
    objective[column] = sign
    found = program.minimum(objective)
    seen.note(found)
    if found.optimal:
        return float(np.round(found.value) if program.whole[column] else found.value), True
    dual = np.ceil(found.bound - _SLACK) if program.whole[column] else found.bound
    return float(max(bound, dual)), False


def _program(
    weights: Any, sums: Any, low: Any, high: Any, integer: bool, tolerance: float, seconds: float
) -> Program:
    matrix = np.asarray(weight_matrix("weights", weights), dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise UsageError("weights", "NaN or infinity", "finite numbers")
    rounds, n = matrix.shape
    given = _vector("sums", sums, rounds, "one for each row of weights")
    if not np.isfinite(given).all():
        raise UsageError("sums", "NaN or infinity", "finite numbers")
    least = _vector("low", low, n, "one number, or one for each input", broadcast=True)
    most = _vector("high", high, n, "one number, or one for each input", broadcast=True)
    if np.isnan(least).any() or np.isnan(most).any():
        raise UsageError("low" if np.isnan(least).any() else "high", "NaN", "numbers")
    if (least > most).any():
        raise UsageError("low", "above high", "at most high")
    if not isinstance(integer, bool):
        raise UsageError("integer", repr(integer), "True or False")
    for name, value in (("tolerance", tolerance), ("seconds", seconds)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise UsageError(name, repr(value), "a number of 0 or more")
    if integer:
        least, most = np.ceil(least), np.floor(most)
    return Program(
        matrix=matrix,
        low=given - tolerance,
        high=given + tolerance,
        least=least,
        most=most,
        whole=np.full(n, integer),
        seconds=float(seconds),
    )


def _vector(name: str, value: Any, count: int, allowed: str, broadcast: bool = False) -> Floats:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(name, repr(value), allowed) from None
    if broadcast and array.ndim == 0:
        return np.full(count, float(array))
    if array.shape != (count,):
        raise UsageError(name, f"shape {array.shape}", f"shape ({count},): {allowed}")
    return array
