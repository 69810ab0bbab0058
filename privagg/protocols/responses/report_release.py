"""The release of all tables of an ad report at once: noise, thresholds, and what they cost.

Adjacency: one display added or removed. With its features and its click it is in one cell of each
table, so it moves ``tables x statistics`` counts by 1: L1 norm q s, L2 norm sqrt(q s). All tables
come out of one budget.

What voids a guarantee: cells that are left out because their true count is small, or 0. Whether a
cell is there then says something for certain of single displays, whatever noise its count has. The
private way is to declare all cells beforehand, add noise to every one, and leave out those whose
*noisy* count is small: that is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.protocols.responses.report_noise import (
    check_noise,
    noise,
    noise_epsilon,
    noise_variance,
)
from privagg.protocols.responses.report_tables import Layout, Tables

__all__ = ["PRESETS", "Report", "ReportParams", "THRESHOLDS", "preset", "release"]

THRESHOLDS = ("none", "noisy", "true")
STATISTICS = 2
"""Counts of a cell: displays, and clicks."""

CHROME_BUDGET = 1 << 16


@dataclass(frozen=True, kw_only=True)
class ReportParams:
    """How tables are released.

    Parameters
    ----------
    layout : Layout
        The tables, with all their cells.
    noise : {"discrete-gaussian", "discrete-laplace", "none"}
    scale : float
        The noise's parameter, in units of ``1 / unit`` counts; see
        :func:`privagg.protocols.responses.report_noise.noise`.
    unit : int
        What a display adds to a count before noise; the result is divided by it. Above 1 it makes
        the grid of the noise finer.
    threshold : {"none", "noisy", "true"}
        Which count decides whether a cell is left out.
    least : float
        Cells of pairs whose count of displays is not above it are left out; cells of single
        features not above 0 with ``true``, not above `least` with ``noisy``.
    preset : str
        The name of the preset that made it.

    Raises
    ------
    UsageError
        If a field is not allowed.
    """

    layout: Layout
    noise: str = "discrete-gaussian"
    scale: float = 17.0
    unit: int = 1
    threshold: str = "noisy"
    least: float = 10.0
    preset: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise UsageError("layout", type(self.layout).__name__, "a Layout")
        check_noise(self.noise, self.scale)
        if type(self.unit) is not int or not 1 <= self.unit <= CHROME_BUDGET:
            raise UsageError("unit", self.unit, f"1 to {CHROME_BUDGET}")
        if self.threshold not in THRESHOLDS:
            raise UsageError("threshold", self.threshold, " or ".join(THRESHOLDS))
        real = isinstance(self.least, int | float) and not isinstance(self.least, bool)
        if not real or not math.isfinite(self.least):
            raise UsageError("least", self.least, "a number of displays")

    @property
    def moved(self) -> int:
        """How many counts one display moves, at most: tables times statistics."""
        return len(self.layout.tables) * STATISTICS

    @property
    def l1(self) -> float:
        """The L1 norm of what one display moves, in counts."""
        return float(self.moved)

    @property
    def l2(self) -> float:
        """The L2 norm of the same."""
        return math.sqrt(self.moved)

    @property
    def noise_sd(self) -> float:
        """The standard deviation of the noise on each count, in counts."""
        return math.sqrt(noise_variance(self.noise, self.scale)) / self.unit

    @property
    def void(self) -> str:
        """Why there is no guarantee; empty where there is one."""
        if self.noise == "none":
            return "counts are exact"
        if self.threshold == "true":
            return "cells are left out by their true counts"
        return ""

    def noise_epsilon(self, delta: float = 0.0) -> float:
        """Return what epsilon the noise would have if no cell were left out by its true count.

        Parameters
        ----------
        delta : float
            From 0 to below 1.
        """
        return noise_epsilon(self.noise, self.scale, self.moved, self.unit, delta)

    def epsilon(self, delta: float = 0.0) -> float:
        """Return epsilon of all tables together, one display added or removed; may be infinite.

        Parameters
        ----------
        delta : float
            Above 0 for Gaussian noise; nothing changes for Laplace noise.

        Raises
        ------
        UsageError
            If `delta` is not allowed.
        """
        return math.inf if self.void else self.noise_epsilon(delta)

    def guarantee(self, delta: float = 0.0) -> str:
        """Return the guarantee in words.

        Parameters
        ----------
        delta : float
            From 0 to below 1.
        """
        if self.void:
            return f"no differential privacy: {self.void}"
        amount = f"{self.epsilon(delta):.4g}"
        if self.noise == "discrete-gaussian":
            amount = f"({amount}, {delta:g})"
        return f"{amount}-differential privacy: one display added or removed"


@dataclass(frozen=True, eq=False)
class Report:
    """Released tables.

    Attributes
    ----------
    tables : Tables
        The noisy counts; 0 where a cell was left out.
    params : ReportParams
    insecure : bool
        Whether a seed made the noise: then it is known, and there is no guarantee.
    """

    tables: Tables
    params: ReportParams
    insecure: bool

    def epsilon(self, delta: float = 0.0) -> float:
        """Return epsilon of the release, infinite where a seed made its noise.

        Parameters
        ----------
        delta : float
            From 0 to below 1.
        """
        return math.inf if self.insecure else self.params.epsilon(delta)

    def __repr__(self) -> str:
        kept = int(self.tables.kept.sum())
        return f"Report({kept} of {self.tables.layout.cells} cells, {self.params.noise})"


def release(params: ReportParams, codes: Any, labels: Any, entropy: Entropy = OS) -> Report:
    """Count displays and clicks, add noise, and leave cells out. Once: noise averages out.

    Parameters
    ----------
    params : ReportParams
    codes : (n, f) integer array
        The displays' features.
    labels : (n,) array of 0 and 1
    entropy : Entropy
        Where the noise comes from.

    Raises
    ------
    UsageError
        If a value was not declared, or a label is not 0 or 1.
    """
    if not isinstance(params, ReportParams):
        raise UsageError("params", type(params).__name__, "ReportParams")
    draws = Draws(entropy)
    exact = Tables.count(params.layout, codes, labels)
    cells, unit = params.layout.cells, params.unit
    counts = []
    for values in (exact.displays, exact.clicks):
        added = noise(params.noise, params.scale, cells, draws)
        counts.append((np.rint(values).astype(np.int64) * unit + added) / unit)
    single = np.arange(cells) < sum(params.layout.sizes[: len(exact.singles())])
    if params.threshold == "none":
        kept = np.ones(cells, bool)
    elif params.threshold == "noisy":
        kept = counts[0] > params.least
    else:
        kept = np.where(single, exact.displays > 0, exact.displays > params.least)
    displays, clicks = (np.where(kept, values, 0.0) for values in counts)
    return Report(Tables(params.layout, displays, clicks, kept), params, draws.insecure)


PRESETS = ("adkdd21", "w3c-attribution", "attribution-reporting")


def preset(name: str, layout: Layout, epsilon: float | None = None) -> ReportParams:
    """Return the noise and the thresholds of a published system.

    Parameters
    ----------
    name : str
        ``w3c-attribution``: the draft W3C standard. Histograms with discrete Laplace noise of scale
        ``2 maxValue / epsilon`` per bucket; a display's value is spread over its counts, so
        maxValue is their number, and epsilon (1 unless given) is what a conversion that may fall
        into either of two epochs is charged; adding one display is charged half.

        ``attribution-reporting``: **legacy**, Chrome's API that is being removed. A display spends
        its L1 budget of 65,536 in equal parts on its counts; noise of scale ``65536 / epsilon``
        (10 unless given). Null reports, and the limit of 20 contributions a report, are not there.

        ``adkdd21``: the challenge of 2021. Gaussian noise of standard deviation 17, and cells left
        out by their true counts: no guarantee at all.
    layout : Layout
        The tables.
    epsilon : float, optional
        Not for ``adkdd21``.

    Raises
    ------
    UsageError
        If there is no such preset, or its noise would be too large or too small.
    """
    if name not in PRESETS:
        raise UsageError("preset", name, " or ".join(PRESETS))
    if not isinstance(layout, Layout):
        raise UsageError("layout", type(layout).__name__, "a Layout")
    if name == "adkdd21":
        if epsilon is not None:
            raise UsageError("epsilon", epsilon, "none for adkdd21: it has no guarantee")
        return ReportParams(layout=layout, scale=17.0, threshold="true", preset=name)
    moved = len(layout.tables) * STATISTICS
    unit, budget = 1, 2 * moved
    if name == "attribution-reporting":
        unit, budget = CHROME_BUDGET // moved, CHROME_BUDGET
        if not unit:
            raise UsageError("layout", f"{moved} counts a display", f"up to {CHROME_BUDGET}")
    chosen = (10.0 if unit > 1 else 1.0) if epsilon is None else epsilon
    real = isinstance(chosen, int | float) and not isinstance(chosen, bool)
    if not real or not 0 < chosen <= 4294:
        raise UsageError("epsilon", epsilon, "above 0 and at most 4294")
    return ReportParams(
        layout=layout,
        noise="discrete-laplace",
        scale=budget / chosen,
        unit=unit,
        threshold="none",
        preset=name,
    )
