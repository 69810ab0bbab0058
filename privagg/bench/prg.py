"""Mask streams: how fast seeds become sums of long vectors."""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from privagg import prg
from privagg.bench import flower, peers
from privagg.bench.clock import cycles_per_second, race
from privagg.bench.peers import Work
from privagg.bench.rows import OURS, Case, Row, Step, report, sizes
from privagg.entropy import OS
from privagg.prg import Suite
from privagg.report import Report

__all__ = ["bench"]

_BUFFER_BYTES = 1 << 22

_FORCE = "PRIVAGG_PRG"

_AES_BLOCKS = {"vaes": 2, "aesni": 1}
"""Blocks that one AES instruction takes through a round."""

_CHACHA_VECTORS = {"vector512": (16, 2), "vector256": (8, 3)}
"""Words in a vector, and vector instructions in a cycle."""

_CHACHA_OPERATIONS = 976
"""Per block: 80 quarter rounds of 4 additions, 4 xors and 4 rotations, and 16 additions."""


def bench(
    *,
    length: int = _BUFFER_BYTES // 4,
    short: int = 1000,
    neighbours: int = 100,
    repeats: int = 9,
    against_flower: bool = False,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time the mask streams of both suites: one long stream, and many short ones.

    Parameters
    ----------
    length : int
        32-bit words of the long case; by default a buffer of 4 MiB.
    short, neighbours : int
        Words and seeds of the case of short vectors.
    repeats : int
        Repetitions, whose median is shown.
    against_flower : bool
        Also time Flower's mask generator.
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If a number is not an integer from 1, or Flower is asked for and not installed.
    """
    sizes(length=length, short=short, neighbours=neighbours, repeats=repeats)
    if against_flower:
        flower.require()
    hertz = cycles_per_second()
    cases = []
    for done, suite in enumerate(Suite):
        step("mask streams", 2 * done, 2 * len(Suite))
        long = _contestants(suite, 1, length, against_flower)
        seed = OS.take(prg.seed_bytes(suite))
        long |= peers.key_streams(suite, seed, 4 * length)
        words = np.zeros(length, np.uint32)
        ready = np.ones(length, np.uint32)
        addition = "NumPy's addition of a vector that is there already"
        long[addition] = partial(np.add, words, ready, out=words)
        timed = race(long, repeats=repeats)
        floors = {addition: timed.pop(addition).best} | _floors(suite, 4 * length, hertz)
        cases.append(
            Case(
                name=f"{suite.value}: one stream of {length} words added to a vector",
                rows=[Row(who=who, timing=timing) for who, timing in timed.items()],
                amount=4 * length,
                unit="B",
                floors=floors,
            )
        )
        step("mask streams", 2 * done + 1, 2 * len(Suite))
        timed = race(_contestants(suite, neighbours, short, against_flower), repeats=repeats)
        cases.append(
            Case(
                name=f"{suite.value}: {neighbours} streams of {short} words each, set-up included",
                rows=[Row(who=who, timing=timing) for who, timing in timed.items()],
                amount=4 * short * neighbours,
                unit="B",
                floors=_floors(suite, 4 * short * neighbours, hertz),
            )
        )
    step("mask streams", 2 * len(Suite), 2 * len(Suite))
    return report("Mask streams", cases, hertz=hertz)


def _contestants(suite: Suite, count: int, length: int, against_flower: bool) -> dict[str, Work]:
    """Return adders of `count` streams of `length` words, ours by every path first."""
    size = prg.seed_bytes(suite)
    seeds = np.frombuffer(OS.take(count * size), np.uint8).reshape(count, size)
    signs = np.ones(count, np.int8)
    accumulator = np.zeros(length, np.uint32)

    def forced(path: str) -> Work:
        def work() -> None:
            before = os.environ.get(_FORCE)
            os.environ[_FORCE] = path
            try:
                prg.accumulate(accumulator, seeds, signs, suite=suite)
            finally:
                os.environ.pop(_FORCE)
                if before is not None:
                    os.environ[_FORCE] = before

        return work

    found = {f"{OURS}, path {path}": forced(path) for path in prg.paths(suite)}
    found |= peers.streams(suite, seeds, accumulator)
    if against_flower:
        found["Flower pseudo_rand_gen, then its addition"] = flower.masks(count, length)
    return found


def _floors(suite: Suite, size: int, hertz: float | None) -> dict[str, float]:
    """Return the seconds that the instructions alone take, for each compiled path there is."""
    if hertz is None:
        return {}
    floors = {}
    for path in prg.paths(suite):
        if path in _AES_BLOCKS:
            cycles = 10 * size / 16 / _AES_BLOCKS[path] / 2
            floors[f"{path}: ten AES instructions a block, two a cycle"] = cycles / hertz
        elif path in _CHACHA_VECTORS:
            lanes, each_cycle = _CHACHA_VECTORS[path]
            cycles = _CHACHA_OPERATIONS * size / 64 / lanes / each_cycle
            floors[f"{path}: {_CHACHA_OPERATIONS} operations a block, {each_cycle} a cycle"] = (
                cycles / hertz
            )
    return floors
