"""Values by region under local differential privacy: counts, shares, means and rankings.

Each respondent turns its region and its value into one cell of a product domain, on its own side,
and sends one report; an aggregator whom nobody trusts estimates every region. The epsilon of a
report holds for region and value changed together. See :func:`run` for all of it in one process,
:class:`Respondent` and :class:`Aggregator` for your own transport, :func:`plan`, which is also
called :func:`recommend`, for which mechanism to take.

There is no ``messages``: a report is of the mechanism that was taken, and what is sent are
:class:`privagg.mechanisms.Reports`.

Source of the setting: Priyanshu, Maurya, Ganesh, Tran, "Unified Locational Differential Privacy
Framework", arXiv 2405.03903; what is done otherwise here is said where it is done.
"""

from privagg.protocols.locational.aggregator import Aggregator
from privagg.protocols.locational.cells import Cells
from privagg.protocols.locational.estimation import RegionEstimates, estimate
from privagg.protocols.locational.gaussian import OneHotGaussian
from privagg.protocols.locational.geometry import Grid, H3Cells, Polygons
from privagg.protocols.locational.params import FAMILIES, MECHANISMS, ORACLES, Params
from privagg.protocols.locational.planner import Choice, Forecast, Plan, forecast, plan, recommend
from privagg.protocols.locational.privset import PrivSet
from privagg.protocols.locational.regions import Merged, RegionList, Regions, read_names
from privagg.protocols.locational.respondent import Held, Respondent, hold, randomize
from privagg.protocols.locational.result import Result, Truth
from privagg.protocols.locational.rounds import Chunk, run
from privagg.protocols.locational.values import (
    Boolean,
    Category,
    Number,
    Presence,
    Ranking,
    Value,
    parse_value,
)

__all__ = [
    "FAMILIES",
    "MECHANISMS",
    "ORACLES",
    "Aggregator",
    "Boolean",
    "Category",
    "Cells",
    "Choice",
    "Chunk",
    "Forecast",
    "Grid",
    "H3Cells",
    "Held",
    "Merged",
    "Number",
    "OneHotGaussian",
    "Params",
    "Plan",
    "Polygons",
    "Presence",
    "PrivSet",
    "Ranking",
    "RegionEstimates",
    "RegionList",
    "Regions",
    "Respondent",
    "Result",
    "Truth",
    "Value",
    "estimate",
    "forecast",
    "hold",
    "parse_value",
    "plan",
    "randomize",
    "read_names",
    "recommend",
    "run",
]
