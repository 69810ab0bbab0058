"""Mixed-integer programs by HiGHS, through SciPy, which is an extra."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError

__all__ = ["Program", "Solution", "require_scipy"]

Floats = NDArray[np.float64]

_OPTIMAL, _STOPPED, _INFEASIBLE, _UNBOUNDED = 0, 1, 2, 3


def require_scipy() -> None:
    """Raise :class:`UsageError` unless SciPy, of the extra ``audit``, is installed.

    Raises
    ------
    UsageError
        If it is not.
    """
    if importlib.util.find_spec("scipy") is None:
        raise UsageError(
            "scipy",
            "not installed",
            "the optional package that solves linear and integer programs",
            "Install it: pip install 'privagg[audit]'",
        )


@dataclass(frozen=True)
class Solution:
    """How a program ended.

    Attributes
    ----------
    point : (n,) float array, or None
        The best point found.
    value : float
        The objective there; NaN without a point.
    bound : float
        No feasible point is better.
    optimal, infeasible : bool
        What was proved.
    """

    point: Floats | None
    value: float
    bound: float
    optimal: bool
    infeasible: bool


@dataclass(frozen=True)
class Program:
    """Constraints of a mixed-integer linear program.

    Attributes
    ----------
    matrix : (m, n) float array
        Of the constraints ``low <= matrix @ x <= high``.
    low, high : (m,) float arrays
        Their bounds.
    least, most : (n,) float arrays
        Bounds of x.
    whole : (n,) bool array
        Which entries of x are integers.
    seconds : float
        Time limit of one solution.
    """

    matrix: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats
    whole: NDArray[np.bool_]
    seconds: float

    def minimum(self, objective: Floats) -> Solution:
        """Minimise ``objective @ x``.

        Parameters
        ----------
        objective : (n,) float array
            Its coefficients.

        Returns
        -------
        Solution
        """
        require_scipy()
        from scipy.optimize import Bounds, LinearConstraint, milp

        found = milp(
            objective,
            integrality=self.whole.astype(np.uint8),
            bounds=Bounds(self.least, self.most),
            constraints=[LinearConstraint(self.matrix, self.low, self.high)]
            if len(self.matrix)
            else None,
            options={"time_limit": self.seconds},
        )
        point = None if found.x is None else np.asarray(found.x, np.float64)
        dual = getattr(found, "mip_dual_bound", None)
        if found.status == _OPTIMAL:
            bound = float(found.fun)
        elif found.status == _UNBOUNDED or dual is None or not np.isfinite(dual):
            bound = -np.inf
        else:
            bound = float(dual)
        return Solution(
            point=point,
            value=float("nan") if point is None else float(found.fun),
            bound=bound,
            optimal=found.status == _OPTIMAL,
            infeasible=found.status == _INFEASIBLE,
        )
