"""Mechanisms of geo-indistinguishability: planar Laplace on a grid, exponential over regions."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from typing import Any

import numpy as np

from privagg._validate import whole
from privagg.domain import Domain
from privagg.errors import UsageError
from privagg.mechanisms.channel_oracle import ChannelOracle
from privagg.mechanisms.exact import check_epsilon, log_upper
from privagg.mechanisms.geo import (
    MAX_CELLS,
    Table,
    check_distances,
    check_whole_epsilon,
    flat_distances,
    largest_factor,
    metric_channel,
)

__all__ = ["GeoMechanism", "PlanarLaplace", "RegionExponential"]

_REACH = 40.0
"""How far the noise is summed up, in units of 1 / epsilon: what lies beyond is e**-40."""

_MOST_OFFSETS = 2**24


class GeoMechanism(ChannelOracle):
    """A report of a cell, from a table that satisfies the bound of :mod:`privagg.mechanisms.geo`.

    As a :class:`privagg.mechanisms.Mechanism` its `epsilon` is the one over the whole area:
    per metre, times the largest distance. It is none of
    :data:`privagg.mechanisms.MECHANISMS`, as it is not built from that epsilon.

    Parameters
    ----------
    domain : Domain
        The cells.
    epsilon : float
        Per metre, above 0.
    distances : (k, k) float array
        Between the cells' centres, in metres.
    """

    def __init__(self, domain: Domain, epsilon: float, distances: Table) -> None:
        self._per_metre = check_epsilon(epsilon)
        self._distances = check_distances(distances)
        super().__init__(domain, check_whole_epsilon(self._per_metre, self._distances))
        if self.k != len(self._distances):
            hint = "A cell for unknown places has no distance: refuse or clamp them before."
            raise UsageError("domain", f"{self.k} values", f"{len(self._distances)} cells", hint)
        self._channel = metric_channel(self._rows, self._per_metre, self._distances)

    @abstractmethod
    def _rows(self, epsilon: float) -> Table:
        """Return the (k, k) probabilities for an epsilon per metre."""

    @property
    def per_metre(self) -> float:
        """Epsilon per metre."""
        return self._per_metre

    @property
    def distances(self) -> Table:
        """Between the cells' centres, (k, k) in metres; a copy."""
        return self._distances.copy()

    @property
    def guarantee(self) -> str:
        """What one report promises, in words."""
        far = float(self._distances.max())
        return (
            f"{self._per_metre:.6g} d-geo-indistinguishability of one report, d in metres between "
            f"the centres of any two of {self.k} cells (local differential privacy of at most "
            f"{log_upper(self.ratio):.4g} over the whole area, {far:.4g} m wide); adjacency: one "
            "respondent's cell replaced by another at distance d"
        )

    @property
    def thresholds(self) -> dict[str, int]:
        """SHA-256 of the counts, which are many."""
        table = self._channel.counts.astype("<u8").tobytes()
        return {"counts_sha256": int.from_bytes(hashlib.sha256(table).digest())}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.k} cells, {self._per_metre!r} per metre)"


class PlanarLaplace(GeoMechanism):
    """Planar Laplace noise on the lattice of a grid's cells, cut off at the grid's border.

    The noise moves a cell by a whole number of rows and columns, with probability proportional to
    e**(-epsilon distance) over the infinite lattice, the same for all cells; so all rows add up to
    the same, and the bound holds with the full epsilon, without the factor 2 of the exponential
    mechanism. A cell beyond the border is reported as the nearest on it, row and column each: a
    function of the noisy cell alone, which costs no privacy. The mean distance moved is nearly
    2 / epsilon where the cells are small beside that, less than one cell where they are large.

    Parameters
    ----------
    domain : Domain
        The cells, row by row: ``rows * columns`` values, at most 1024.
    rows, columns : int
        Of the grid.
    height, width : float
        Of a cell, in metres.
    epsilon : float
        Per metre.

    Raises
    ------
    UsageError
        If an argument is not as described, or cells are so small beside 1 / epsilon that the
        noise has more than 2**24 offsets.
    """

    name = "planar-laplace"

    def __init__(
        self,
        domain: Domain,
        rows: int,
        columns: int,
        height: float,
        width: float,
        epsilon: float,
    ) -> None:
        self._shape = (whole("rows", rows, 1, MAX_CELLS), whole("columns", columns, 1, MAX_CELLS))
        self._cell = (check_epsilon(height, "height"), check_epsilon(width, "width"))
        down, across = np.indices(self._shape).reshape(2, -1)
        if not 2 <= down.size <= MAX_CELLS:
            raise UsageError("rows", f"{down.size} cells", f"2 to {MAX_CELLS} cells in all")
        places = flat_distances(across * self._cell[1], down * self._cell[0])
        super().__init__(domain, epsilon, places)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments beside the domain."""
        shape = {"rows": self._shape[0], "columns": self._shape[1]}
        cell = {"height": self._cell[0], "width": self._cell[1]}
        return {**shape, **cell, "per_metre": self._per_metre}

    def _rows(self, epsilon: float) -> Table:
        reach = [
            size + math.ceil(_REACH / (epsilon * side))
            for size, side in zip(self._shape, self._cell, strict=True)
        ]
        if (reach[0] + 1) * (reach[1] + 1) > _MOST_OFFSETS:
            hint = "The noise goes far beyond such cells."
            allowed = f"larger ones, for {epsilon:g} per metre"
            raise UsageError("cells", f"{min(self._cell):g} m", allowed, hint)
        down, across = (
            np.arange(size + 1) * side for size, side in zip(reach, self._cell, strict=True)
        )
        # The weight of each offset, in one quadrant.
        weights = np.exp(-epsilon * np.hypot(down[:, None], across))
        row_inner, row_edge = _variants(weights, self._shape[0])
        chosen = []
        for rows in (row_inner, row_edge):
            inner, edge = (one.T for one in _variants(rows.T, self._shape[1]))
            chosen.append((inner, edge))
        (plain, right), (bottom, corner) = chosen
        r, c = np.indices(self._shape).reshape(2, -1)
        steps, jumps = np.abs(r[:, None] - r), np.abs(c[:, None] - c)
        on_row = (r == 0) | (r == self._shape[0] - 1)
        on_column = (c == 0) | (c == self._shape[1] - 1)
        table = np.where(
            on_row,
            np.where(on_column, corner[steps, jumps], bottom[steps, jumps]),
            np.where(on_column, right[steps, jumps], plain[steps, jumps]),
        )
        found: Table = table / table.sum(axis=1, keepdims=True)
        return found


def _variants(weights: Table, size: int) -> tuple[Table, Table]:
    """Return the weights of the first `size` offsets along axis 0, and those with all beyond."""
    tails = np.cumsum(weights[::-1], axis=0)[::-1]
    if size == 1:  # both borders at once: all offsets, to either side
        return weights[:1], tails[:1] + tails[1:2]
    return weights[:size], tails[:size]


class RegionExponential(GeoMechanism):
    """The exponential mechanism over regions: the nearer a region, the likelier its report.

    P(y | x) is proportional to e**(-s epsilon d(x, y)) with the largest s for which the bound
    holds: 1/2 always does, and s is nearly 1 where every region has about as many others around it.

    Source: McSherry, Talwar, "Mechanism Design via Differential Privacy", FOCS 2007, with distance
    as utility; its factor 1/2 is not taken where it is not needed.

    Parameters
    ----------
    domain : Domain
        The regions, at most 1024.
    distances : (k, k) float array
        Between their centres, in metres; a metric. See
        :func:`privagg.mechanisms.geo.great_circle_distances`.
    epsilon : float
        Per metre.

    Raises
    ------
    UsageError
        If an argument is not as described, or the distances are no metric.
    """

    name = "region-exponential"

    def __init__(self, domain: Domain, distances: Any, epsilon: float) -> None:
        metric = check_distances(distances)
        self._factor = largest_factor(check_epsilon(epsilon), metric)
        super().__init__(domain, epsilon, metric)

    @property
    def factor(self) -> float:
        """The part s of epsilon that the weights use."""
        return self._factor

    @property
    def options(self) -> dict[str, Any]:
        """Epsilon per metre, and SHA-256 of the distances."""
        digest = hashlib.sha256(self._distances.astype("<f8").tobytes()).hexdigest()
        return {"per_metre": self._per_metre, "distances_sha256": digest}

    def _rows(self, epsilon: float) -> Table:
        weights = np.exp(-self._factor * epsilon * self._distances)
        found: Table = weights / weights.sum(axis=1, keepdims=True)
        return found
