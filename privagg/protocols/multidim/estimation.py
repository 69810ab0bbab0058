"""From sums over reports to frequencies of each attribute, with variance and interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms.base import check_frequencies
from privagg.mechanisms.estimate import Estimate, Vector, interval_factor
from privagg.mechanisms.postprocess import base_cut, clip_renormalise, norm_cut, norm_sub
from privagg.mechanisms.state import MAX_REPORTS, State
from privagg.protocols.multidim.params import Params, Protocol

__all__ = ["POSTS", "estimate", "mse_theory", "raw_estimates", "sums_size", "variance"]

POSTS = ("norm-sub", "clip", "base-cut", "norm-cut")
"""The post-processing methods; see :data:`privagg.mechanisms.METHODS`."""


def sums_size(params: Params) -> int:
    """Return how many sums the aggregator keeps; of ``smp`` also each attribute's reports."""
    if params.protocol.faked:
        return sum(params.sizes)
    counts = params.d if params.protocol is Protocol.SMP else 0
    return sum(one.sums_size for one in params.mechanisms) + counts


def parts_of(params: Params, sums: NDArray[np.int64], users: int) -> list[tuple[NDArray[Any], int]]:
    """Return each attribute's sums, and over how many reports they are."""
    sizes = params.sizes if params.protocol.faked else [m.sums_size for m in params.mechanisms]
    ends = np.cumsum(sizes)
    parts = np.split(sums[: ends[-1]], ends[:-1])
    counted = [users] * params.d
    if params.protocol is Protocol.SMP:
        counted = [int(count) for count in sums[ends[-1] :]]
    return list(zip(parts, counted, strict=True))


def raw_estimates(params: Params, state: State) -> list[Vector]:
    """Return the unbiased estimates of each attribute.

    Raises
    ------
    UsageError
        If nobody reported an attribute.
    """
    found = []
    for number, (sums, users) in enumerate(parts_of(params, state.sums, state.users)):
        if users == 0:
            what = f"no report of {params.names[number]!r}"
            raise UsageError("state", what, "at least one report of each attribute")
        if params.protocol.faked:
            found.append(params.fields[number].raw(sums, users, params.d))
        else:
            one = params.mechanisms[number]
            found.append(one._raw(State(one.digest, users, sums)))
    return found


def variance(
    params: Params,
    attribute: int,
    n: int,
    frequencies: Any = 0.0,
    *,
    population: bool = False,
    reports: int | None = None,
) -> Vector:
    """Return the variance of an attribute's raw estimates, in closed form.

    Parameters
    ----------
    params : Params
        The survey.
    attribute : int
        Which one, from 0.
    n : int
        Number of respondents.
    frequencies : float or (k,) array
        The values' frequencies, from 0 to 1.
    population : bool
        Count the respondents as a sample of a large population: adds f (1 - f) / n.
    reports : int, optional
        With ``smp``: how many respondents reported this attribute. Unless given, the expectation
        over the drawing is returned, to the second order in 1/n.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """
    _check_params(params)
    at = whole("attribute", attribute, 0, params.d - 1)
    users = whole("n", n, 1, MAX_REPORTS)
    given = check_frequencies(frequencies)
    if given.shape not in ((), (params.sizes[at],)):
        allowed = f"one number, or {params.sizes[at]} of them"
        raise UsageError("frequencies", f"an array of shape {given.shape}", allowed)
    if reports is not None:
        whole("reports", reports, 1, MAX_REPORTS)
    f: Vector = np.broadcast_to(given, (params.sizes[at],)).astype(np.float64)
    sampling = f * (1 - f)
    more = sampling / users if population else np.zeros_like(f)
    if params.protocol.faked:
        return np.asarray(params.fields[at].variance(f, params.d) / users + more)
    # The mechanisms answer for one report; their variances fall with the number of reports.
    one = np.asarray(params.mechanisms[at]._variances(1, f, False), np.float64)
    if params.protocol is Protocol.SPL:
        return np.asarray(one / users + more)
    share = users / params.d
    inverse = (1 + (1 - 1 / params.d) / share) / share if reports is None else 1 / reports
    # Who reports this attribute is a sample of the respondents without replacement.
    drawn = sampling * max(inverse - 1 / users, 0.0)
    return np.asarray(one * inverse + drawn + more)


def mse_theory(params: Params, n: int, frequencies: list[Vector]) -> float:
    """Return the expected MSE of the raw estimates: the mean over attributes of the values' mean.

    Parameters
    ----------
    params : Params
        The survey.
    n : int
        Number of respondents.
    frequencies : list of (k,) float arrays
        Each attribute's true frequencies.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    _check_params(params)
    if not isinstance(frequencies, list | tuple) or len(frequencies) != params.d:
        found = len(frequencies) if isinstance(frequencies, list | tuple) else type(frequencies)
        raise UsageError("frequencies", str(found), f"a list of {params.d} arrays")
    parts = [float(variance(params, number, n, f).mean()) for number, f in enumerate(frequencies)]
    return sum(parts) / len(parts)


def estimate(
    params: Params,
    state: State,
    *,
    confidence: float = 0.95,
    post: str | None = "norm-sub",
    population: bool = False,
) -> dict[str, Estimate]:
    """Estimate the frequencies of every attribute's values.

    Parameters
    ----------
    params : Params
        The survey.
    state : State
        The sums over all reports.
    confidence : float
        Probability with which each interval alone holds the true frequency.
    post : str or None
        One of :data:`POSTS`; None publishes the raw estimates. They are kept in any case.
    population : bool
        See :func:`variance`.

    Raises
    ------
    UsageError
        If an attribute has no report, or an argument is not as described.
    """
    if post is not None and (not isinstance(post, str) or post not in POSTS):
        raise UsageError("post", post, f"{', '.join(POSTS)} or None")
    factor = interval_factor(confidence)
    state.check_size(sums_size(params))
    if state.users == 0:
        raise UsageError("state", "no reports", "at least one report")
    adjacent = params.epsilon_tuple
    if params.calibration.value == "attribute":
        adjacent = params.epsilon_attribute
    counted = [users for _, users in parts_of(params, state.sums, state.users)]
    found = {}
    for number, (name, raw) in enumerate(
        zip(params.names, raw_estimates(params, state), strict=True)
    ):
        held = counted[number] if params.protocol is Protocol.SMP else None

        def spread(frequencies: Any, number: int = number, held: int | None = held) -> Vector:
            users = state.users
            return variance(params, number, users, frequencies, population=population, reports=held)

        spreads = spread(np.clip(raw, 0.0, 1.0))
        reach = factor * np.sqrt(spreads)
        found[name] = Estimate(
            params.domains[number].labels,
            raw,
            _post_processed(post, raw, spread),
            spreads,
            raw - reach,
            raw + reach,
            users=state.users,
            confidence=float(confidence),
            population=bool(population),
            post=post,
            mechanism=f"{params.protocol.value}[{params.oracles[number]}]",
            epsilon=params.epsilon,
            epsilon_realised=adjacent,
            insecure=state.insecure,
        )
    return found


def _check_params(params: object) -> None:
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params")


def _post_processed(post: str | None, raw: Vector, spread: Any) -> Vector:
    if post is None:
        return raw
    if post == "base-cut":
        return base_cut(raw, np.sqrt(spread(0.0)))
    methods = {"norm-sub": norm_sub, "clip": clip_renormalise, "norm-cut": norm_cut}
    return methods[post](raw)
