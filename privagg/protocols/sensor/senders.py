"""Threshold mode: whose readings go into the sum when some shares are missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["choose"]

_Bools = NDArray[np.bool_]


def choose(received: _Bools, drops: int) -> tuple[_Bools, _Bools]:
    """Choose the senders U and the holders H of clusters of one size.

    Every holder has the shares of all senders. Up to `drops` senders are left out, one after the
    other the one whose shares miss at most members (of equals the first), until there are at least
    ``m - drops`` holders.

    Parameters
    ----------
    received : (clusters, m, m) bool array
        ``[c, j, i]``: member j says that it has the share of member i, its own included. A member
        that said nothing has a row of False.
    drops : int
        d: at least ``m - d`` senders and as many holders are needed.

    Returns
    -------
    senders, holders : (clusters, m) bool arrays
        All False where it is not possible.
    """
    clusters, m, _ = received.shape
    spoke: _Bools = np.asarray(received.any(axis=2))
    senders = np.ones((clusters, m), np.bool_)
    needed = m - drops
    short: _Bools = np.zeros(clusters, np.bool_)
    lacks: _Bools = np.zeros((clusters, m), np.bool_)
    for left_out in range(drops + 1):
        lacks = np.asarray((~received & senders[:, None, :]).any(axis=2) | ~spoke)
        short = np.asarray((~lacks).sum(axis=1) < needed)
        if left_out == drops or not short.any():
            break
        misses = (~received & spoke[:, :, None]).sum(axis=1)
        worst = np.argmax(np.where(senders, misses, -1), axis=1)
        rows = np.flatnonzero(short)
        senders[rows, worst[rows]] = False
    good: _Bools = np.logical_not(short).reshape(-1, 1)
    return senders & good, ~lacks & good
