"""When a round must stop: too few are left for the sum, or for a secret that the sum needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privagg.errors import Abort
from privagg.protocols.secagg.params import Params
from privagg.protocols.secagg.states import Phase
from privagg.protocols.secagg.thresholds import Graph
from privagg.protocols.secagg.topology import Topology

__all__ = ["enough_are_left"]


def enough_are_left(
    params: Params,
    phase: Phase,
    here: dict[Phase, NDArray[np.bool_]],
    topology: Topology | None,
) -> None:
    """Abort unless enough answered `phase`: the cohort, and t holders for each secret that matters.

    In the sparse graph a secret matters if the sum needs it: the self mask of each survivor, and
    the mask key of each client that left after sharing and has a neighbour in the sum.

    Parameters
    ----------
    params : Params
        The round.
    phase : Phase
        The round that is being closed.
    here : dict of Phase to (clients,) bool array
        Who answered each round.
    topology : Topology, optional
        The graph, once it is drawn.

    Raises
    ------
    Abort
        Saying which set is too small.
    """
    answered = here[phase]
    alive, name = int(answered.sum()), phase.title
    floor = max(params.min_cohort, params.threshold)
    if phase in (Phase.CONSISTENCY_CHECK, Phase.UNMASKING):
        floor = params.threshold  # the cohort of the sum was fixed in the round before
    if alive < floor:
        raise Abort(f"round {name}: too few clients answered", alive, floor)
    if params.graph is Graph.COMPLETE or topology is None:
        return
    holders = topology.count(answered)
    needed = answered.copy()
    if phase in (Phase.MASKED_INPUT, Phase.UNMASKING):
        in_sum, shared = here[Phase.MASKED_INPUT], here[Phase.SHARE_KEYS]
        needed = in_sum | (shared & (topology.count(in_sum) > 0))
    short = needed & (holders < params.threshold)
    if short.any():
        worst = int(np.flatnonzero(short)[np.argmin(holders[short])])
        raise Abort(
            f"round {name}: too few neighbours of client {worst} answered",
            int(holders[worst]),
            params.threshold,
        )
