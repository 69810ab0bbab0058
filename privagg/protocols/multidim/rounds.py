"""A survey with all its respondents in one process, as often as wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector
from privagg.protocols.multidim.aggregator import Aggregator
from privagg.protocols.multidim.estimation import POSTS, mse_theory
from privagg.protocols.multidim.messages import report_bytes
from privagg.protocols.multidim.params import Params
from privagg.protocols.multidim.respondent import encode, randomize_codes
from privagg.protocols.multidim.result import Result, Truth

__all__ = ["run"]

MAX_RUNS = 10**6


def run(
    params: Params,
    columns: Mapping[str, Any],
    *,
    runs: int = 1,
    post: str | None = "norm-sub",
    confidence: float = 0.95,
    seed: int | None = None,
    batch: int = 1 << 18,
    progress: Callable[[str, int, int], None] = lambda _phase, _done, _total: None,
) -> Result:
    """Let every respondent report, aggregate, estimate, and compare with the truth.

    Parameters
    ----------
    params : Params
        The survey.
    columns : mapping of str to list, ndarray or column
        For each attribute the respondents' values.
    runs : int
        How often. The values are the same in all runs, so what varies is the noise.
    post : str or None
        Post-processing of the published estimates.
    confidence : float
        Of the intervals.
    seed : int, optional
        Makes the runs repeatable, and insecure.
    batch : int
        Respondents whose reports are held at once. It changes speed and memory, and which words a
        seeded run draws: repeat such a run with the same batch.
    progress : callable
        Called with a phase, how much of it is done, and of how much.

    Returns
    -------
    Result

    Raises
    ------
    UsageError
        If an argument is not as described, or a value is outside its domain.
    """
    wanted = whole("runs", runs, 1, MAX_RUNS)
    at_once = whole("batch", batch, 1, 2**32)
    if post is not None and (not isinstance(post, str) or post not in POSTS):
        raise UsageError("post", post, f"{', '.join(POSTS)} or None")
    if not callable(progress):
        raise UsageError("progress", type(progress).__name__, "a function of three arguments")
    codes = encode(params, columns)
    users = codes[0].size
    if users == 0:
        raise UsageError("columns", "no respondents", "at least one")
    truth = Truth(
        {
            name: np.bincount(column, minlength=k) / users
            for name, column, k in zip(params.names, codes, params.sizes, strict=True)
        },
        {name: domain.unknown_count(columns[name]) for name, domain in params.attributes.items()},
    )
    source = entropies.from_seed(seed).spawn("multidim")
    first = None
    published, raw, covered = np.zeros(wanted), np.zeros(wanted), np.zeros(wanted)
    seconds = {"respondents": 0.0, "aggregator": 0.0}
    for number in range(wanted):
        own = source.spawn(f"run {number}")
        aggregator = Aggregator(params)
        for start in range(0, users, at_once):
            began = time.process_time()
            part = [column[start : start + at_once] for column in codes]
            reports = randomize_codes(params, part, own.spawn(f"batch {start}"))
            between = time.process_time()
            aggregator.receive(reports)
            seconds["respondents"] += between - began
            seconds["aggregator"] += time.process_time() - between
        began = time.process_time()
        found = aggregator.estimate(confidence, post)
        seconds["aggregator"] += time.process_time() - began
        first = found if first is None else first
        pairs = [(found[name], truth.frequencies[name]) for name in params.names]
        published[number] = _mse([(one.values, right) for one, right in pairs])
        raw[number] = _mse([(one.raw, right) for one, right in pairs])
        inside = [(one.low <= right) & (right <= one.high) for one, right in pairs]
        covered[number] = np.concatenate(inside).mean()
        progress("runs", number + 1, wanted)
    assert first is not None
    return Result(
        params=params,
        users=users,
        runs=wanted,
        estimates=first,
        post=post,
        mse=float(published.mean()),
        mse_error=_standard_error(published),
        mse_raw=float(raw.mean()),
        mse_raw_error=_standard_error(raw),
        mse_theory=mse_theory(params, users, list(truth.frequencies.values())),
        covered=float(covered.mean()),
        bytes_per_report=report_bytes(params),
        seconds={name: total / wanted for name, total in seconds.items()},
        truth=truth,
        insecure_seed=seed is not None,
    )


def _mse(pairs: list[tuple[Vector, Vector]]) -> float:
    return float(np.mean([np.square(found - right).mean() for found, right in pairs]))


def _standard_error(values: Vector) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0
