"""Secure aggregation in Flower, by this package's protocol, in both of its programming models.

The server side wraps what the strategy talks to (:class:`SecAggGrid` in the Message API,
:class:`SecAggWorkflow` in the legacy one); the client side is one mod for both,
:func:`secagg_mod`.
Both sides hold the same :class:`Ranges`; what a client insists on stays with the client.

Guarantee: that of :class:`privagg.protocols.secagg.Client`. Of one node's update, example count
and metrics the server learns nothing but the weighted mean over at least ``min_cohort`` nodes,
and the sum of the weights.
"""

from importlib.util import find_spec

from privagg.errors import UsageError

if find_spec("flwr") is None:
    raise UsageError("flwr", "not installed", "the package flwr", "pip install 'privagg[flower]'")

from privagg.integrations.flower.client import SecAggMod, secagg_mod
from privagg.integrations.flower.grid import SecAggGrid
from privagg.integrations.flower.ranges import Ranges
from privagg.integrations.flower.settings import RoundReport, Settings
from privagg.integrations.flower.strategies import check_strategy
from privagg.integrations.flower.workflow import SecAggWorkflow
from privagg.protocols.secagg import Policy, Roster

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
