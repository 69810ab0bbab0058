"""Eavesdropping with keys from a shared pool."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import field as fields
from privagg.attacks.sensor_arithmetic import Trial
from privagg.attacks.sensor_guessing import best_guess_of_sum
from privagg.attacks.sensor_views import Setting, Subject, observe
from privagg.protocols.sensor import keypool
from privagg.protocols.sensor.params import Keys, Protocol

__all__ = [
    "NEIGHBOURS",
    "disclosure",
    "disclosure_of_slices",
    "exact_of_three",
    "pool_eavesdropping",
]

NEIGHBOURS = 26
"""Nodes in range that pool their rings: the mean degree of 600 nodes in 400 m x 400 m, 50 m."""


def disclosure(q: float, sizes: dict[int, float]) -> float:
    """Return the papers' P(q): the probability that somebody in a cluster is exposed.

    ``sum over k of P(m = k) (1 - (1 - q**(k - 1))**k)``, as described in He et al. (2007), with q
    the probability that a link is broken. It takes members for independent although each link has
    two of them, and so overstates: for three members the exact value is :func:`exact_of_three`.

    Parameters
    ----------
    q : float
        Probability that a link's key is known.
    sizes : dict of int to float
        Probability of each cluster size.
    """
    return sum(share * (1 - (1 - q ** (k - 1)) ** k) for k, share in sizes.items())


def exact_of_three(q: float) -> float:
    """Return the same for a cluster of three, exactly: two of its three links or all of them.

    Parameters
    ----------
    q : float
        Probability that a link's key is the attacker's, from 0 to 1.
    """
    return 3 * q**2 - 2 * q**3


def disclosure_of_slices(q: float, slices: int, indegrees: dict[int, float]) -> float:
    """Return the papers' P(q) of ``smart``: the probability that a node's reading is exposed.

    ``q**(J - 1) sum over k of P(indegree = k) q**k``, as described in He et al. (2007): the links
    of all slices that the node gave and of all k that it was given are broken. Its report to its
    parent is taken for known.

    Parameters
    ----------
    q : float
        Probability that a link's key is known.
    slices : int
        J.
    indegrees : dict of int to float
        Probability of each number of slices that a node is given.
    """
    return float(q ** (slices - 1) * sum(share * q**k for k, share in indegrees.items()))


def pool_eavesdropping(subject: Subject, setting: Setting) -> Trial | None:
    """Let all other nodes in range pool their rings and open what they can.

    A member whose keys with all others are known is exposed: its shares for them, theirs for it,
    and its answer give its polynomial. Clusters of three are attacked, the most exposed ones.

    Returns
    -------
    Trial or None
        What the attacker learned; None where no pool is used.
    """
    if subject.protocol is not Protocol.CPDA_FIELD or subject.drops:
        return None
    m = 3
    small = Setting(
        entropy=setting.entropy, runs=setting.party_runs, members=m, bound=setting.bound
    )
    view = observe(subject, small)
    totals = view.values.sum(axis=1)
    mode, _ = best_guess_of_sum(1, setting.bound)
    hits = exposed = 0
    for row in range(len(totals)):
        victim = m - 1
        found = mode
        if subject.keys is Keys.POOL:
            rings = keypool.draw(m + NEIGHBOURS, setting.entropy.spawn(f"pool {row}"))
            spies = np.arange(m, m + NEIGHBOURS)
            links = [rings.shared(victim, other) for other in range(m) if other != victim]
            known = all(key >= 0 and bool(rings.holders(key, spies).any()) for key in links)
            if known:
                exposed += 1
                found = _rebuild(view.sent[row], victim, m, view.field)
        hits += found == int(view.values[row, victim])
    note = f"{NEIGHBOURS} nodes in range pool their rings; exposed in {exposed} runs."
    if subject.keys is not Keys.POOL:
        note = "Nobody else has a key of the cluster."
    return Trial(len(totals), hits, 1 / (setting.bound + 1), note)


def _rebuild(sent: NDArray[Any], victim: int, m: int, field: fields.Field | None) -> int:
    """Compute a reading from the victim's answer and all that it sent and received."""
    assert field is not None
    p = field.modulus
    answer = sum(int(sent[origin, victim]) for origin in range(m)) % p
    incoming = sum(int(sent[origin, victim]) for origin in range(m) if origin != victim)
    values = [int(sent[victim, place]) for place in range(m)]
    values[victim] = (answer - incoming) % p
    points = fields.elements(np.arange(1, m + 1), field)
    weights = fields.lagrange_weights_at_zero(points, field)
    return int(fields.dot(weights, fields.elements(values, field), field))
