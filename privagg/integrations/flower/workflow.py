"""The legacy model's workflow: Flower's own, over a grid that gives back the mean."""

from __future__ import annotations

from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid

from privagg.errors import UsageError
from privagg.integrations.flower.grid import SecAggGrid
from privagg.integrations.flower.settings import RoundReport, Settings

__all__ = ["SecAggWorkflow"]


class SecAggWorkflow:
    """Fit and evaluation of Flower's legacy model under secure aggregation.

    For ``DefaultWorkflow(fit_workflow=workflow, evaluate_workflow=workflow.evaluate)``. The
    strategy must bring its ``initial_parameters``: asking a node for its own, in the clear, is
    refused by :func:`secagg_mod`.

    Parameters
    ----------
    settings : Settings
        The server's choices. The loss of evaluation is declared as the metric ``loss``.

    Attributes
    ----------
    reports : list of RoundReport
        One per Flower round, in order.
    """

    def __init__(self, settings: Settings) -> None:
        if not isinstance(settings, Settings):
            raise UsageError("settings", type(settings).__name__, "Settings")
        if settings.ranges.evaluate_metrics and "loss" not in settings.ranges.evaluate_metrics:
            raise UsageError(
                "evaluate_metrics",
                ", ".join(settings.ranges.evaluate_metrics),
                "'loss' among them, in the legacy model",
            )
        self._settings = settings
        self._wrapped: tuple[Grid, SecAggGrid] | None = None
        self.reports: list[RoundReport] = []

    def __call__(self, grid: Grid, context: Context) -> None:
        """Execute one round of fit."""
        from flwr.server.workflow.default_workflows import default_fit_workflow

        default_fit_workflow(self._over(grid, context), context)

    def evaluate(self, grid: Grid, context: Context) -> None:
        """Execute one round of evaluation."""
        from flwr.server.workflow.default_workflows import default_evaluate_workflow

        default_evaluate_workflow(self._over(grid, context), context)

    def _over(self, grid: Grid, context: Context) -> SecAggGrid:
        """Return the one wrapped grid: who the nodes are is asked once."""
        legacy: Any = context
        if self._wrapped is None or self._wrapped[0] is not grid:
            if not hasattr(legacy, "strategy"):
                raise UsageError(
                    "context", type(context).__name__, "a LegacyContext, of a legacy workflow"
                )
            wrapped = SecAggGrid(grid, legacy.strategy, self._settings)
            wrapped.reports = self.reports
            self._wrapped = grid, wrapped
        return self._wrapped[1]
