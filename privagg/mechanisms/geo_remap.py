"""Remapping of geo-indistinguishable reports: where its sender probably is, given a public prior.

It is a function of the report and of the prior alone, and costs no privacy as long as the prior
does not come from the respondents' own places. Source: Chatzikokolakis, ElSalamouny, Palamidessi,
"Efficient Utility Improvement for Location Privacy", PoPETs 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array
from privagg.errors import UsageError
from privagg.mechanisms.channel import Channel
from privagg.mechanisms.geo import Table

__all__ = ["expected_loss", "posterior", "remap"]


def posterior(channel: Channel, prior: Any) -> Table:
    """Return P(cell | report), a row for each report.

    Parameters
    ----------
    channel : Channel
        P(report | cell), of k cells and m reports.
    prior : (k,) float array
        How likely each cell is, before any report; positive numbers are scaled to add up to 1.

    Returns
    -------
    (m, k) float64 array

    Raises
    ------
    UsageError
        If `prior` is none.
    """
    joint = channel.probabilities * _prior(channel, prior)[:, None]
    found: Table = (joint / joint.sum(axis=0)).T
    return found


def remap(channel: Channel, prior: Any, losses: Any) -> NDArray[np.int64]:
    """Return, for each report, the cell that loses least on average over the posterior.

    Parameters
    ----------
    channel, prior
        See :func:`posterior`.
    losses : (k, c) float array
        What it costs to say the c-th cell of a sender in the k-th: distances, or their squares.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    costs = posterior(channel, prior) @ _losses(channel, losses)
    return np.asarray(np.argmin(costs, axis=1), np.int64)


def expected_loss(channel: Channel, prior: Any, losses: Any, mapping: Any = None) -> float:
    """Return the mean loss of a report, over the prior and the mechanism's randomness.

    Parameters
    ----------
    channel, prior, losses
        See :func:`remap`.
    mapping : (m,) int array, optional
        The cell that each report is taken for; as it says unless given.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    weights, costs = _prior(channel, prior), _losses(channel, losses)
    cells = np.arange(channel.outputs) if mapping is None else as_array("mapping", mapping)
    if cells.shape != (channel.outputs,) or cells.dtype.kind not in "iu":
        raise UsageError("mapping", f"shape {cells.shape}", f"({channel.outputs},) cells")
    if int(cells.min()) < 0 or int(cells.max()) >= costs.shape[1]:
        raise UsageError("mapping", "a cell that is none", f"0 to {costs.shape[1] - 1}")
    return float(weights @ (channel.probabilities * costs[:, cells]).sum(axis=1))


def _prior(channel: Channel, prior: Any) -> NDArray[np.float64]:
    found = as_array("prior", prior)
    if found.shape != (channel.inputs,) or found.dtype.kind not in "iuf":
        raise UsageError("prior", f"shape {found.shape}", f"({channel.inputs},) numbers")
    if not (np.isfinite(found) & (found >= 0)).all() or not found.sum() > 0:
        raise UsageError("prior", "no distribution", "numbers from 0, not all 0")
    return np.asarray(found / found.sum(), np.float64)


def _losses(channel: Channel, losses: Any) -> Table:
    found = as_array("losses", losses)
    if found.ndim != 2 or len(found) != channel.inputs or found.dtype.kind not in "iuf":
        raise UsageError("losses", f"shape {found.shape}", f"({channel.inputs}, c) numbers")
    if not np.isfinite(found).all():
        raise UsageError("losses", "a number that is not finite", "finite losses")
    return found.astype(np.float64)
