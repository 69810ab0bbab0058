"""Learning from aggregate responses: bags' sums or means, released once with label privacy.

Rows are put in bags; a :class:`Curator`, or secure aggregation with nobody who sees a response,
releases the bags' responses, and models are learnt from those. See :func:`run` for a release,
:class:`AggregateRegressor` and :class:`AggregateClassifier` for learning, :func:`plan` for what can
be learnt, :mod:`privagg.protocols.responses.reports` for private ad reports.

Three things have a name of their own beside that of every protocol: ``Params`` is
:class:`Release`, ``Result`` is :class:`Released`, ``plan`` is :func:`forecast`. There is no
``messages``: what is sent is a :class:`Released`, whose file form is in ``result``; the rounds
without a curator have the messages of :mod:`privagg.protocols.secagg`.

Importing this needs no scikit-learn; what learns is imported when it is asked for.

Source: Javanmard, Chen, Mirrokni, Badanidiyuru and Fu, "Learning from Aggregate Responses: Instance
Level versus Bag Level Loss Functions", ICLR 2024 (arXiv 2401.11081).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.clipping import PaidRange
from privagg.protocols.responses.curator import Curator
from privagg.protocols.responses.params import Params, Release
from privagg.protocols.responses.planner import Curve, Forecast, Plan, forecast, plan
from privagg.protocols.responses.result import Released, Result
from privagg.protocols.responses.rounds import release_securely, run

if TYPE_CHECKING:
    from privagg.protocols.responses.estimators import AggregateClassifier, AggregateRegressor
    from privagg.protocols.responses.graphs import Graph, GraphClassifier
    from privagg.protocols.responses.selection import AggregateCV

__all__ = [
    "AggregateCV",
    "AggregateClassifier",
    "AggregateRegressor",
    "Bags",
    "Curator",
    "Curve",
    "Forecast",
    "Graph",
    "GraphClassifier",
    "PaidRange",
    "Params",
    "Plan",
    "Release",
    "Released",
    "Result",
    "forecast",
    "plan",
    "release_securely",
    "run",
]

_HOMES = {
    "AggregateCV": "selection",
    "AggregateClassifier": "estimators",
    "AggregateRegressor": "estimators",
    "Graph": "graphs",
    "GraphClassifier": "graphs",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: only then is scikit-learn needed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
