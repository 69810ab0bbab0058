"""Time: CPU seconds, taken in turns, and how many cycles a second has.

Wall-clock time says how busy a machine is; CPU time says what the work costs. A core's clock
varies too, so cycles are counted against a chain of multiplications, each of which waits for the
one before: such a chain runs at its latency, whatever else the core could do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from privagg._jit import JIT, kernel

__all__ = ["MULTIPLY_CYCLES", "Timing", "cycles_per_second", "race", "cpu_seconds"]

MULTIPLY_CYCLES = 3
"""Latency of a 64-bit multiplication that is assumed: that of x86-64 cores since 2008."""

_CHAIN = 1 << 21


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call, from several repetitions.

    Attributes
    ----------
    best, median : float
        Least and middle.
    low, high : float
        The quartiles.
    repeats : int
        Repetitions; each has `calls` calls.
    calls : int
        Calls in a repetition, whose time is divided by them.
    """

    best: float
    median: float
    low: float
    high: float
    repeats: int
    calls: int = 1

    @classmethod
    def of(cls, seconds: list[float], calls: int = 1) -> Timing:
        """Return the summary of repetitions of `calls` calls each, `seconds` in all per call."""
        low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75])
        return cls(min(seconds), float(median), float(low), float(high), len(seconds), calls)

    def times(self, factor: float) -> Timing:
        """Return the timing of `factor` times the work."""
        return Timing(
            factor * self.best,
            factor * self.median,
            factor * self.low,
            factor * self.high,
            self.repeats,
            self.calls,
        )

    def plus(self, other: Timing) -> Timing:
        """Return the timing of one thing after the other; spreads are added, which widens them."""
        return Timing(
            self.best + other.best,
            self.median + other.median,
            self.low + other.low,
            self.high + other.high,
            min(self.repeats, other.repeats),
        )


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds, of all threads, that one call of `work` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def race(
    contestants: Mapping[str, Callable[[], object]], *, repeats: int = 9, least: float = 0.01
) -> dict[str, Timing]:
    """Time several pieces of work in turns.

    Parameters
    ----------
    contestants : mapping of str to callable
        What is called, without arguments. Each is called once before anything is timed.
    repeats : int
        Rounds; in each, every contestant has one repetition.
    least : float
        Seconds that one repetition takes at least; short work is called several times in it.

    Returns
    -------
    dict of str to Timing
        Per contestant the CPU seconds of one call.
    """
    calls = {}
    for name, work in contestants.items():
        work()
        once = min(cpu_seconds(work) for _ in range(2))
        calls[name] = max(1, min(10_000, round(least / max(once, 1e-7))))
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, work in contestants.items():
            began = time.process_time()
            for _ in range(calls[name]):
                work()
            seconds[name].append((time.process_time() - began) / calls[name])
    return {name: Timing.of(values, calls[name]) for name, values in seconds.items()}


@kernel
def _chain(count: int) -> np.uint64:
    """Square a number `count` times: each multiplication waits for the last."""
    value = np.uint64(0x9E3779B97F4A7C15)
    for _ in range(count):
        value = value * value
    return value


def cycles_per_second() -> float | None:
    """Return the core's clock as its multiplications show it; None where nothing is compiled.

    It assumes :data:`MULTIPLY_CYCLES` cycles for each multiplication of a dependent chain, and is
    the best of a few short chains.
    """
    if not JIT:
        return None
    _chain(1)
    best = min(cpu_seconds(lambda: _chain(_CHAIN)) for _ in range(9))
    return MULTIPLY_CYCLES * _CHAIN / best
