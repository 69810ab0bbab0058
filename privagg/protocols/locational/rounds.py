"""The whole survey in one process: respondents report, an aggregator estimates, the truth is known.

Respondents come in chunks: no more than one is held, so that files larger than memory do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector
from privagg.protocols.locational.aggregator import Aggregator
from privagg.protocols.locational.estimation import RegionEstimates, cell_variances
from privagg.protocols.locational.params import Params
from privagg.protocols.locational.respondent import Held, hold, randomize
from privagg.protocols.locational.result import Result, Truth

__all__ = ["Chunk", "run"]

MAX_RUNS = 10**6


@dataclass(frozen=True)
class Chunk:
    """Some respondents' regions and values; see :func:`privagg.protocols.locational.hold`.

    Attributes
    ----------
    places : sequence of columns
        Region names, or latitudes and longitudes.
    values : column or None
        The values.
    owners : (t,) array or None
        Of respondents with several items.
    users : int or None
        How many respondents `owners` counts.
    """

    places: Sequence[Any]
    values: Any = None
    owners: Any = None
    users: int | None = None


class _Known:
    """The truth, added up over chunks."""

    def __init__(self, params: Params) -> None:
        shape = (params.groups, params.cells.size)
        self.params = params
        self.users = np.zeros(params.groups, np.int64)
        self.cells = np.zeros(shape)
        self.numbers = np.zeros((params.groups, len(params.regions)))
        self.rounding = 0.0
        self.unknown = self.clamped = 0

    def add(self, held: Held, group: int) -> None:
        params = self.params
        flat, exact = held.codes.reshape(-1), held.exact.reshape(-1)
        there = flat >= 0
        self.users[group] += len(held)
        self.cells[group] += np.bincount(flat[there], minlength=params.cells.size)
        known = there & (flat < params.cells.known)
        region = flat[known] // params.value.k
        self.numbers[group] += np.bincount(region, exact[known], len(params.regions))
        if params.value.numeric and group == 0:
            # Each is rounded to one of two ends: (1 - t**2) / 4 is the variance of either cell.
            self.rounding += float((1 - exact[known] ** 2).sum()) / 4
        self.unknown += held.unknown
        self.clamped += held.clamped

    def tables(self) -> tuple[Vector, Vector, Vector]:
        """Return frequencies of cells, estimates and counts as they truly are."""
        params = self.params
        shape = (params.groups, len(params.regions), params.value.k)
        cells = self.cells[:, : params.cells.known].reshape(shape)
        count = cells.sum(axis=(0, 2))
        if not params.value.numeric:
            return cells[0] / self.users[0], cells[0], count
        each = cells.sum(axis=2)
        with np.errstate(invalid="ignore"):
            mean = np.where(each > 0, self.numbers / np.where(each > 0, each, 1), np.nan)
        bottom, top = params.value.range
        found = (bottom + top) / 2 + (top - bottom) / 2 * mean.T
        # What rounding gives on average, in the first group.
        high = (each[0] + self.numbers[0]) / 2
        ends = np.stack([each[0] - high, high], axis=1)
        return ends / self.users[0], found, count


def run(
    params: Params,
    chunks: Iterable[Chunk] | Callable[[], Iterable[Chunk]],
    *,
    runs: int = 1,
    confidence: float = 0.95,
    post: str | None = "norm-sub",
    seed: int | None = None,
    batch: int = 1 << 16,
    progress: Callable[[str, int, int], None] = lambda _phase, _done, _total: None,
) -> Result:
    """Let every respondent report, aggregate, estimate, and compare with the truth.

    Parameters
    ----------
    params : Params
        The survey.
    chunks : iterable of Chunk, or callable that returns one
        The respondents; more than one run takes a callable or a list. Of a ranking, respondents are
        in groups by turns.
    runs : int
        How often. Regions and values are the same in all runs, so what varies is the noise.
    confidence, post
        See :func:`privagg.protocols.locational.estimation.estimate`.
    seed : int, optional
        Makes the runs repeatable, and insecure.
    batch : int
        Respondents whose reports are held at once; it changes which words a seeded run draws.
    progress : callable
        Called with a phase, how much of it is done, and of how much.

    Raises
    ------
    UsageError
        If an argument is not as described, a region or a value is refused, or there is nobody.
    """
    if not isinstance(params, Params):
        raise UsageError("params", type(params).__name__, "Params")
    wanted = whole("runs", runs, 1, MAX_RUNS)
    at_once = whole("batch", batch, 1, 2**32)
    source = entropies.from_seed(seed).spawn("locational")
    if callable(chunks):
        again = chunks
    elif wanted == 1 or isinstance(chunks, Sequence):
        again = lambda: chunks  # noqa: E731
    else:
        raise UsageError("chunks", type(chunks).__name__, "a list or a callable, for several runs")
    found: list[RegionEstimates] = []
    seconds = {"respondents": 0.0, "aggregator": 0.0}
    tally = _Tally()
    known = _Known(params)
    for number in range(wanted):
        own = source.spawn(f"run {number}")
        known = _Known(params)
        aggregator = Aggregator(params)
        _collect(params, again(), own, at_once, known, aggregator, seconds)
        if not known.users.all():
            which = "" if params.groups == 1 else f": fewer than {params.groups}, one for each item"
            raise UsageError("chunks", f"no respondents{which}", "at least one in each group")
        began = time.process_time()
        made = aggregator.estimate(confidence, post)
        seconds["aggregator"] += time.process_time() - began
        tally.add(made, *known.tables())
        found = found or [made]
        progress("runs", number + 1, wanted)
    (first,) = found
    frequencies, truth, count = known.tables()
    users = int(known.users.sum())
    return Result(
        params=params,
        users=users,
        runs=wanted,
        estimates=first,
        mse_theory=_theory(params, known),
        covered=tally.share("raw"),
        intervals=tally.total["raw"],
        covered_all=tally.share("all"),
        covered_counts=tally.share("counts") or 0.0,
        covered_smooth=tally.share("smooth"),
        bytes_per_report=params.report_bytes,
        seconds={name: total / wanted for name, total in seconds.items()},
        truth=Truth(
            frequencies=frequencies,
            estimates=truth,
            count=count,
            unknown=known.unknown,
            clamped=known.clamped,
            mse=tally.mse / wanted,
            mse_raw=tally.mse_raw / wanted,
            mse_zero=float(np.square(frequencies).mean()),
            mse_uniform=float(np.square(frequencies - _even(params, frequencies)).mean()),
            mse_estimates=_mean_square(first.estimate, truth),
        ),
        insecure_seed=seed is not None,
    )


def _collect(
    params: Params,
    chunks: Iterable[Chunk],
    own: entropies.Entropy,
    at_once: int,
    known: _Known,
    aggregator: Aggregator,
    seconds: dict[str, float],
) -> None:
    turn = 0
    for number, chunk in enumerate(chunks):
        if not isinstance(chunk, Chunk):
            raise UsageError("chunks", type(chunk).__name__, "Chunks")
        mine = own.spawn(f"chunk {number}")
        rows = len(chunk.places[0])
        for group in range(params.groups):
            part = _every(chunk, (group - turn) % params.groups, params.groups)
            held = hold(
                params,
                part.places,
                part.values,
                owners=part.owners,
                users=part.users,
                group=group,
                entropy=mine.spawn(f"rounding {group}"),
            )
            known.add(held, group)
            for start in range(0, len(held), at_once):
                began = time.process_time()
                stop = start + at_once
                some = Held(held.codes[start:stop], held.exact[start:stop], 0, 0)
                words = mine.spawn(f"group {group}, batch {start}")
                reports = randomize(params, some, words, group=group)
                between = time.process_time()
                aggregator.receive(reports, group=group)
                seconds["respondents"] += between - began
                seconds["aggregator"] += time.process_time() - between
        turn = (turn + rows) % params.groups


def _every(chunk: Chunk, first: int, step: int) -> Chunk:
    """Return every `step`-th respondent of a chunk."""
    if step == 1:
        return chunk
    part = slice(first, None, step)

    def some(column: Any) -> Any:
        if hasattr(column, "take") and not isinstance(column, np.ndarray):
            return column.take(np.arange(len(column))[part])
        return column[part]

    return Chunk([some(column) for column in chunk.places], some(chunk.values))


class _Tally:
    """Errors and intervals, over the runs."""

    def __init__(self) -> None:
        self.mse = self.mse_raw = 0.0
        self.held = {"raw": 0, "all": 0, "counts": 0, "smooth": 0}
        self.total = {"raw": 0, "all": 0, "counts": 0, "smooth": 0}

    def add(self, made: RegionEstimates, frequencies: Vector, truth: Vector, count: Vector) -> None:
        first = made.cells[0]
        self.mse += _mean_square(first.values, frequencies)
        self.mse_raw += _mean_square(first.raw, frequencies)
        self._count("raw", made.low, made.high, truth)
        low = np.where(made.withheld, -np.inf, made.low)
        self._count("all", low, np.where(made.withheld, np.inf, made.high), truth)
        self._count("counts", made.count_low, made.count_high, count)
        if made.smooth_low is not None and made.smooth_high is not None:
            self._count("smooth", made.smooth_low, made.smooth_high, truth)

    def _count(self, name: str, low: Vector, high: Vector, truth: Vector) -> None:
        there: NDArray[np.bool_] = ~(np.isnan(low) | np.isnan(truth))
        slack = 1e-9 * np.maximum(1.0, np.abs(truth))
        with np.errstate(invalid="ignore"):
            inside = (low - slack <= truth) & (truth <= high + slack) & there
        self.held[name] += int(inside.sum())
        self.total[name] += int(there.sum())

    def share(self, name: str) -> float | None:
        return self.held[name] / self.total[name] if self.total[name] else None


def _mean_square(found: Vector, right: Vector) -> float:
    gap = np.square(found - right)
    there = ~np.isnan(gap)
    return float(gap[there].mean()) if there.any() else float("nan")


def _even(params: Params, frequencies: Vector) -> float:
    """Return the frequency of a cell if every respondent's items were spread over all evenly."""
    return params.items / frequencies.size if params.items == 1 else float(frequencies.mean())


def _theory(params: Params, known: _Known) -> float:
    """Return the expected squared error of raw frequencies, at the true ones."""
    users = int(known.users[0])
    each = known.cells[0] / users / params.scale
    padding = params.cells.padding
    if padding is not None:
        each[padding] = max(0.0, 1 - float(each[:padding].sum()))
    spread = cell_variances(params, params.oracles[0], users, each)
    # Of each region both cells move together.
    rounding = known.rounding * 2 / params.cells.known / users**2
    return float(spread[: params.cells.known].mean()) + rounding
