"""Clusters: who leads, who joins whom, and what becomes of clusters that are too small.

He et al. (INFOCOM 2007), as described there: on HELLO a node becomes a leader with probability p_c,
else it joins one of the leaders it hears, at random. Clusters under the minimum are then dissolved,
all at once: their nodes join, at random, one of the remaining leaders that they hear. Who hears
none stays outside: a reading is left out rather than given away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg.protocols.sensor.flood import Spread, spread
from privagg.protocols.sensor.network import Network
from privagg.protocols.sensor.params import Flood

__all__ = ["Clusters", "form"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Who belongs to whom.

    Attributes
    ----------
    flood : Spread
        How the query spread.
    elected : (nodes + 1,) bool array
        Who became a leader at first.
    joined : (nodes + 1,) int64 array
        Each node's first leader, its own index for leaders, -1 for none.
    leader : (nodes + 1,) int64 array
        The same after small clusters were dissolved; those left outside have -1.
    sent_hello : (nodes + 1,) bool array
        Who forwarded the query.
    """

    flood: Spread
    elected: _Bools
    joined: _Ints
    leader: _Ints
    sent_hello: _Bools

    def sizes(self, *, before: bool = False) -> _Ints:
        """Return the sizes of all clusters, at first or after merging."""
        of = self.joined if before else self.leader
        counts = np.bincount(of[of >= 0], minlength=1)
        return counts[counts > 0]


def form(
    network: Network,
    *,
    probability: float,
    flood: Flood,
    minimum: int,
    alive: _Bools,
    listens: _Bools,
    loss: float,
    joins: float,
    random: np.random.Generator,
) -> Clusters:
    """Flood the query, elect leaders, join, and dissolve what is too small.

    Parameters
    ----------
    network : Network
        Who hears whom.
    probability : float
        p_c.
    flood : Flood
        Who forwards the query.
    minimum : int
        Smallest cluster.
    alive : (nodes + 1,) bool array
        Who is there when the query is flooded.
    listens : (nodes + 1,) bool array
        Who is still there to join.
    loss : float
        Probability that a copy of HELLO is lost.
    joins : float
        Probability that a JOIN, with all its tries, is lost.
    random : numpy.random.Generator
        None of its draws is a secret.
    """
    count = network.nodes + 1
    wishes = random.random(count) < probability
    wishes[network.base_station] = False
    heard = None
    if loss:
        heard = random.random(len(network.neighbours)) >= loss
    forwards = wishes.copy() if flood is Flood.LEADERS else np.ones(count, np.bool_)
    forwards[network.base_station] = True
    query = spread(network, forwards, alive, heard)
    elected = wishes & query.reached & alive
    followers = query.reached & listens & ~elected
    followers[network.base_station] = False
    joined = _join(network, elected, followers, heard, joins, random)
    sizes = np.bincount(joined[joined >= 0], minlength=count)
    stays = elected & (sizes >= minimum)
    moved = (joined >= 0) & ~stays[joined]
    leader = np.where(moved, -1, joined)
    leader[moved] = _join(network, stays, moved, heard, joins, random)[moved]
    leader[~listens] = -1
    gone = stays & ~listens
    leader[(leader >= 0) & gone[leader]] = -1
    sent = query.reached & alive & forwards
    return Clusters(query, elected, joined, leader, sent)


def _join(
    network: Network,
    leaders: _Bools,
    who: _Bools,
    heard: _Bools | None,
    lost: float,
    random: np.random.Generator,
) -> _Ints:
    """Return for each of `who` one of the `leaders` it hears, at random; leaders keep themselves.

    Every link from a leader gets a random number, and each node takes the leader of the smallest.
    """
    count = network.nodes + 1
    result = np.full(count, -1, np.int64)
    result[leaders] = np.flatnonzero(leaders)
    senders = np.flatnonzero(leaders)
    counts = network.start[senders + 1] - network.start[senders]
    first = np.repeat(network.start[senders] - np.cumsum(counts) + counts, counts)
    links = first + np.arange(counts.sum())
    receivers, origin = network.neighbours[links], np.repeat(senders, counts)
    keep = who[receivers]
    if heard is not None:
        keep &= heard[links]
    receivers, origin = receivers[keep], origin[keep]
    order = random.permutation(len(receivers))
    result[receivers[order]] = origin[order]
    if lost:
        fails = who & (result >= 0)
        fails &= random.random(count) < lost
        result[fails] = -1
    return result
