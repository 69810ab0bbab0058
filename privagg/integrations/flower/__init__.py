"""Secure aggregation in Flower, by this package's protocol, in both of its programming models.

The server side wraps what the strategy talks to (:class:`SecAggGrid` in the Message API,
:class:`SecAggWorkflow` in the legacy one); the client side is one mod for both,
:func:`secagg_mod`.
Both sides hold the same :class:`Ranges`; what a client insists on stays with the client.

Guarantee: that of :class:`privagg.protocols.secagg.Client`. Of one node's update, example count
and metrics the server learns nothing but the weighted mean over at least ``min_cohort`` nodes,
and the sum of the weights.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privagg.errors import UsageError
from privagg.protocols.secagg import Policy, Roster

if TYPE_CHECKING:
    from privagg.integrations.flower.client import SecAggMod, secagg_mod
    from privagg.integrations.flower.grid import SecAggGrid
    from privagg.integrations.flower.ranges import Ranges
    from privagg.integrations.flower.settings import RoundReport, Settings
    from privagg.integrations.flower.strategies import check_strategy
    from privagg.integrations.flower.workflow import SecAggWorkflow

__all__ = [
    "Policy",
    "Ranges",
    "Roster",
    "RoundReport",
    "SecAggGrid",
    "SecAggMod",
    "SecAggWorkflow",
    "Settings",
    "check_strategy",
    "secagg_mod",
]

_HOMES = {
    "Ranges": "ranges",
    "RoundReport": "settings",
    "SecAggGrid": "grid",
    "SecAggMod": "client",
    "SecAggWorkflow": "workflow",
    "Settings": "settings",
    "check_strategy": "strategies",
    "secagg_mod": "client",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: only then is Flower needed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        raise UsageError(
            "flwr", "not installed", "the package flwr", "pip install 'privagg[flower]'"
        ) from None
