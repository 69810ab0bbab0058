"""Keys from a pool: the scheme of Eschenauer and Gligor (CCS 2002), and who else has a link's key.

Each node carries a ring of k keys drawn from a pool of K. Two nodes use a key that both have. So
does everyone else whose ring holds it: one given third node with probability k/K, and *somebody*
among n neighbours with probability ``1 - (1 - k/K)**n``, which for a dense network is not small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.entropy import Entropy
from privagg.errors import CapacityError, UsageError
from privagg.protocols.sensor.formation import Formation

__all__ = [
    "POOL",
    "RING",
    "Rings",
    "connects",
    "draw",
    "overheard_by_any",
    "overhears",
    "statistics",
]

POOL = 10_000
"""Keys in the pool."""

RING = 200
"""Keys of each node."""

_MOST_NODES = 50_000
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rings:
    """The keys' numbers that each node carries.

    Attributes
    ----------
    has : (nodes, pool / 8) uint8 array
        A bit for each key of the pool.
    secret : bytes
        From which the pool's keys are derived.
    """

    has: NDArray[np.uint8]
    secret: bytes

    def __repr__(self) -> str:
        return f"Rings({len(self.has)} nodes)"

    def shared(self, a: int, b: int) -> int:
        """Return the lowest number of a key that both nodes have, or -1."""
        both = np.flatnonzero(np.unpackbits(self.has[a] & self.has[b]))
        return int(both[0]) if len(both) else -1

    def holders(self, key: int, nodes: _Ints) -> NDArray[np.bool_]:
        """Say which of `nodes` have a key."""
        octets = self.has[nodes, key >> 3]
        return np.asarray(octets >> np.uint8(7 - (key & 7)) & np.uint8(1), np.bool_)


def connects(pool: int, ring: int) -> float:
    """Return the probability that two rings share a key: ``1 - C(K-k, k) / C(K, k)``.

    Raises
    ------
    UsageError
        If the ring is larger than the pool.
    """
    whole("pool", pool, 1, 2**31)
    whole("ring", ring, 1, 2**31)
    if ring > pool:
        raise UsageError("ring", ring, f"at most {pool}, the pool's size")
    if 2 * ring > pool:
        return 1.0
    log = 2 * math.lgamma(pool - ring + 1) - math.lgamma(pool - 2 * ring + 1)
    return -math.expm1(log - math.lgamma(pool + 1))


def overhears(pool: int, ring: int) -> float:
    """Return the probability that one given third node has a link's key: k/K."""
    connects(pool, ring)
    return ring / pool


def overheard_by_any(pool: int, ring: int, others: int) -> float:
    """Return the probability that at least one of `others` nodes has a link's key."""
    return -math.expm1(whole("others", others, 0, 2**31) * math.log1p(-overhears(pool, ring)))


def draw(nodes: int, source: Entropy, pool: int = POOL, ring: int = RING) -> Rings:
    """Draw a ring for each node, without repetition within a ring.

    Raises
    ------
    CapacityError
        If there are more nodes than this model is made for.
    """
    if nodes > _MOST_NODES:
        raise CapacityError("nodes", nodes, f"at most {_MOST_NODES} with keys from a pool")
    connects(pool, ring)
    own = source.spawn("rings")
    random = np.random.Generator(np.random.PCG64(int.from_bytes(own.take(16), "little")))
    has = np.zeros((nodes, (pool + 7) // 8), np.uint8)
    for node in range(nodes):
        flags = np.zeros(pool, np.bool_)
        flags[random.choice(pool, ring, replace=False, shuffle=False)] = True
        has[node] = np.packbits(flags)
    return Rings(has, own.take(16))


def statistics(rings: Rings, formation: Formation) -> dict[str, float]:
    """Return what of the links within clusters is shared and overheard, in this very network.

    Returns
    -------
    dict
        ``linked``: pairs that share a key. Of those, ``overheard_by_one``: chance that a given
        other node has it, and ``overheard_in_range``: links whose key some node in range of the
        sender, outside the pair, has as well.
    """
    group, pair, network = formation.grouping, formation.pair, formation.network
    linked, heard, single, total = 0, 0, 0.0, 0
    for origin, target in zip(group.node[pair.origin], group.node[pair.target], strict=True):
        if origin > target:
            continue
        total += 1
        key = rings.shared(int(origin), int(target))
        if key < 0:
            continue
        linked += 1
        near = network.of(int(origin))
        near = near[(near != target) & (near != network.base_station)]
        has = rings.holders(key, near)
        heard += bool(has.any())
        single += float(has.mean()) if len(near) else 0.0
    return {
        "linked": linked / max(total, 1),
        "overheard_by_one": single / max(linked, 1),
        "overheard_in_range": heard / max(linked, 1),
    }
