"""Surveys of several attributes under local differential privacy: SPL, SMP, RS+FD and RS+RFD.

Each respondent holds a tuple of values and sends one report; an aggregator whom nobody trusts
estimates how frequent each value of each attribute is. See :func:`run` for all of them in one
process, :class:`Respondent` and :class:`Aggregator` for your own transport, :func:`plan` for which
protocol to take.

How private a report is, is exact here and stated for both adjacencies: see :class:`Params` and
:mod:`privagg.protocols.multidim.exact_epsilon`.
"""

from privagg.protocols.multidim.aggregator import Aggregator
from privagg.protocols.multidim.calibration import Calibration, PrivacyWarning
from privagg.protocols.multidim.estimation import mse_theory, variance
from privagg.protocols.multidim.messages import TupleReports, report_bytes
from privagg.protocols.multidim.params import ORACLES, Params, Protocol, oracles_of
from privagg.protocols.multidim.planner import (
    Forecast,
    Plan,
    forecast,
    plan,
    users_needed,
)
from privagg.protocols.multidim.priors import Priors
from privagg.protocols.multidim.respondent import Respondent, randomize, randomize_codes
from privagg.protocols.multidim.result import Result, Truth
from privagg.protocols.multidim.rounds import run

__all__ = [
    "ORACLES",
    "Aggregator",
    "Calibration",
    "Forecast",
    "Params",
    "Plan",
    "Priors",
    "PrivacyWarning",
    "Protocol",
    "Respondent",
    "Result",
    "Truth",
    "TupleReports",
    "forecast",
    "mse_theory",
    "oracles_of",
    "plan",
    "randomize",
    "randomize_codes",
    "report_bytes",
    "run",
    "users_needed",
    "variance",
]
