"""Who must be in the sum, and when a round must stop, for every schedule of dropouts.

Written from the protocol's definition, sharing no code with the server. A secret can be rebuilt if
at least t of the clients that hold its shares answer at the end; the sum needs the self mask of
every client in it, and the mask key of every client that shared its keys, sent no input, and has a
neighbour in the sum.
"""

from __future__ import annotations

from privagg import entropy
from privagg.protocols import secagg

ROUNDS = (
    "advertise-keys",
    "commit-graph",
    "reveal-graph",
    "share-keys",
    "masked-input",
    "consistency-check",
    "unmasking",
)
ADVERTISE, COMMIT, REVEAL, SHARE, MASK, CHECK, UNMASK, STAYS = range(8)
SKIPPED = {
    "semi-honest": (COMMIT, REVEAL, CHECK),
    "active": (COMMIT, REVEAL),
    "semi-malicious": (),
}
"""Per threat model the rounds without messages: who leaves there is gone in the next."""
SEED = 3


def moments(params):
    """Return when a client can leave: before each round with messages, or never."""
    return [at for at in range(8) if at not in SKIPPED[params.threat.value]]


def graph_of(params, server=None):
    """Return everyone's neighbours: as a run with `SEED` draws them, or as `server` has them."""
    if params.graph is secagg.Graph.COMPLETE:
        everyone = set(range(params.clients))
        return [everyone - {client} for client in everyone]
    if server is None:
        server = secagg.Server(params, entropy=entropy.from_seed(SEED).spawn("server"))
    return [set(map(int, server._topology.row(client))) for client in range(params.clients)]


def oracle(params, neighbours, leaves):
    """Return (who must be in the sum, None) or (None, the round in which it must stop)."""
    alive = [{c for c, round in enumerate(leaves) if round > at} for at in range(7)]
    shared, summed = alive[SHARE], alive[MASK]
    own_share_counts = params.graph is secagg.Graph.COMPLETE
    graph_known = REVEAL if params.threat is secagg.Threat.SEMI_MALICIOUS else ADVERTISE

    def rebuildable(client, answering):
        holders = neighbours[client] | ({client} if own_share_counts else set())
        return len(holders & answering) >= params.threshold

    for at in moments(params)[:-1]:
        here = alive[at]
        if len(here) < params.threshold or (at <= MASK and len(here) < params.min_cohort):
            return None, ROUNDS[at]
        if at < graph_known or (at == CHECK and own_share_counts):
            continue
        if at < MASK or at == CHECK:
            needed = here  # to share secrets among those alive, or to be told by them that it is in
        else:
            left = {client for client in shared - summed if neighbours[client] & summed}
            needed = summed | left
        if not all(rebuildable(client, here) for client in needed):
            return None, ROUNDS[at]
    return summed, None
