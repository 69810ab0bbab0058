"""The square wave: reports near the value, from which the whole distribution is estimated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Floats, Integers
from privagg.domain.base import Codes
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms._kernels.symbols import count_symbols
from privagg.mechanisms.base import Columns
from privagg.mechanisms.em import DistributionEstimate, expectation_maximisation
from privagg.mechanisms.exact import exp_lower
from privagg.mechanisms.numeric import check_range
from privagg.mechanisms.state import State
from privagg.mechanisms.window import WindowMechanism, window

__all__ = ["SquareWave"]


class SquareWave(WindowMechanism):
    """The square wave mechanism: a number e**epsilon times likelier within b of the value.

    With values scaled to 0 to 1 and E = e**epsilon, reports lie from -b to 1 + b, and b =
    (epsilon E - E + 1) / (2 E (E - 1 - epsilon)) lets them tell most about the value.
    :meth:`distribution` estimates how frequent each point of the grid is, by expectation
    maximisation, smoothed unless asked otherwise; :meth:`estimate` the mean, without bias.

    Source: Li et al., "Estimating Numerical Distributions under Local Differential Privacy",
    SIGMOD 2020, sections 4 and 5.

    Parameters
    ----------
    domain : Integers or Floats
        The declared range; its steps are also those of the estimated distribution.
    epsilon : float
        The privacy parameter of one report, 0.001 to 12; for guarantee and adjacency see
        :mod:`privagg.mechanisms.base`.

    Raises
    ------
    UsageError
        If an argument is not as described, or a report's grid would be too large.
    """

    name = "sw"

    def __init__(self, domain: Integers | Floats, epsilon: float) -> None:
        super().__init__(domain, epsilon)
        check_range(self.epsilon, 1e-3, 12, "the square wave")
        e, weight = Fraction(self.epsilon), exp_lower(self.epsilon)
        # Fractions, as the terms of both differences cancel for small epsilon.
        self._relative = float((e * weight - weight + 1) / (weight * (weight - 1 - e)))
        self._window = window(self.steps, self._relative, self.epsilon)

    @property
    def b(self) -> float:
        """How far the window reaches to either side, of the range; before rounding to cells."""
        return self._relative / 2

    @property
    def sums_size(self) -> int:
        """How many sums a state has: how often each cell was reported."""
        return self.cells

    def distribution(
        self, state: State, *, smooth: bool = True, tolerance: float = 1e-3, limit: int = 10_000
    ) -> DistributionEstimate:
        """Estimate the frequency of each point of the grid, by expectation maximisation.

        Parameters
        ----------
        state : State
            The sums over all reports.
        smooth : bool
            Mix each frequency with its neighbours after each step, (1, 2, 1) / 4: EMS. Without,
            EM goes for the likeliest distribution, which fits the noise if it is not stopped.
        tolerance : float
            Stop when a step gains less log-likelihood than this; without smoothing than e**epsilon
            times this, as in the source.
        limit : int
            The most steps.

        Raises
        ------
        UsageError
            If the state holds no report, or an argument is not as described.
        PeerError
            If the state is of another configuration.
        """
        self._is_own(state)
        if not isinstance(smooth, bool | np.bool_):
            raise UsageError("smooth", smooth, "True or False")
        real = isinstance(tolerance, int | float | np.floating) and not isinstance(tolerance, bool)
        if not real or not 0 < tolerance < np.inf:
            raise UsageError("tolerance", tolerance, "a finite number above 0")
        most = whole("limit", limit, 1, 10**9)
        if state.users == 0:
            raise UsageError("state", "no reports", "at least one report")
        stop = float(tolerance) * (1.0 if smooth else float(self.ratio))
        found = expectation_maximisation(state.sums, self._window, bool(smooth), stop, most)
        values, rounds, converged, likelihood = found
        grid = np.linspace(float(self._range.low), float(self._range.high), self.k)
        return DistributionEstimate(
            grid=grid,
            values=values,
            users=state.users,
            smooth=bool(smooth),
            rounds=rounds,
            converged=converged,
            log_likelihood=likelihood,
            mechanism=self.name,
            epsilon=self.epsilon,
            epsilon_realised=self.epsilon_realised,
            insecure=state.insecure,
        )

    def _cells(self, codes: Codes, draws: Draws) -> NDArray[Any]:
        return self._window.sample(codes, draws)

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        return count_symbols(columns[0], self.cells)

    def _powers(self, state: State) -> tuple[int, int]:
        cells = np.arange(self.cells, dtype=np.int64)
        squares = cells * cells
        high = int(state.sums @ (squares >> 20))
        return int(state.sums @ cells), (high << 20) + int(state.sums @ (squares & (2**20 - 1)))

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        # Each is at most 2**38, the most reports, before any are added up.
        if int(sums.min()) < 0 or int(sums.max()) > users or int(sums.sum()) != users:
            return f"expected counts that add up to {users}, the number of reports"
        return ""
