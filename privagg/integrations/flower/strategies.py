"""Which strategies can do with a mean: those that need single updates are refused, saying why."""

from __future__ import annotations

from privagg.errors import UsageError
from privagg.integrations.flower.ranges import Ranges

__all__ = ["ALLOWED", "REFUSED", "check_strategy"]

ALLOWED = ("FedAvg", "FedProx", "FedAvgM", "FedOpt", "FedAdagrad", "FedAdam", "FedYogi")
"""They use the weighted mean of the updates only."""

_DISTANCES = "it compares the updates of single nodes with each other"
_ORDER = "it sorts the values of single nodes, coordinate by coordinate"
_NOISE = "it counts replies, one per node, to set the noise: with one mean it would add too little"
_CLIPS = "it clips the update of each node on the server"
_TREES = "it collects the trees of single nodes, which have no mean"

REFUSED = {
    "Krum": _DISTANCES,
    "MultiKrum": _DISTANCES,
    "Bulyan": _DISTANCES,
    "FedMedian": _ORDER,
    "FedTrimmedAvg": _ORDER,
    "QFedAvg": "it weighs each node's update by that node's loss",
    "FedXgbBagging": _TREES,
    "FedXgbCyclic": _TREES,
    "FedXgbNnAvg": _TREES,
    "DifferentialPrivacyServerSideFixedClipping": _CLIPS,
    "DifferentialPrivacyServerSideAdaptiveClipping": _CLIPS,
    "DifferentialPrivacyClientSideFixedClipping": _NOISE,
    "DifferentialPrivacyClientSideAdaptiveClipping": _NOISE,
    "DPFedAvgFixed": _NOISE,
    "DPFedAvgAdaptive": _NOISE,
    "FaultTolerantFedAvg": "it counts replies, one per node, and there is one for all",
}
"""Why each of these cannot work on a mean."""


def check_strategy(strategy: object, ranges: Ranges | None = None) -> None:
    """Require a strategy, of either of Flower's models, that needs the weighted mean only.

    Your own subclass of an allowed one is allowed: all it is ever given is one reply with the mean.

    Parameters
    ----------
    strategy : Strategy
        Of ``flwr.serverapp.strategy`` or ``flwr.server.strategy``.
    ranges : Ranges, optional
        Must have the strategy's weight, and evaluation metrics if it evaluates.

    Raises
    ------
    UsageError
        If it is another, saying why.
    """
    names = [
        cls.__name__ for cls in type(strategy).__mro__ if cls.__module__.split(".")[0] == "flwr"
    ]
    for name in names:
        if name in REFUSED:
            raise UsageError(
                "strategy",
                type(strategy).__name__,
                f"one that needs the mean only ({', '.join(ALLOWED)})",
                f"{name} cannot work under secure aggregation: {REFUSED[name]}.",
            )
    # A class of Flower's own that is in neither list may look at single replies.
    unknown = [name for name in names if name not in ALLOWED and name != "Strategy"]
    if unknown or not any(name in ALLOWED for name in names):
        raise UsageError(
            "strategy",
            type(strategy).__name__,
            f"one of {', '.join(ALLOWED)} or a subclass of yours",
            "It is not known to need the mean only.",
        )
    if ranges is None:
        return
    key = getattr(strategy, "weighted_by_key", ranges.weight_key)
    if key != ranges.weight_key:
        raise UsageError(
            "weight_key", ranges.weight_key, f"{key!r}, the strategy's weighted_by_key"
        )
    if getattr(strategy, "fraction_evaluate", 0.0) > 0 and not ranges.evaluate_metrics:
        raise UsageError(
            "evaluate_metrics",
            "none",
            "the metrics that clients evaluate, where the strategy's fraction_evaluate is above 0",
            "Declare them in Ranges, or set fraction_evaluate=0.0.",
        )
