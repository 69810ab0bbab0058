"""The fields and the mask streams on a CUDA device, beside one core of the processor.

All times are of the clock on the wall, a device being no part of the process' CPU time; what is
timed on the device ends when the device is done. Two floors stand beside each figure: the bytes
that the work has to move, at the rate at which this device copies an array in the same run, and the
operations that it cannot do without, at what NVIDIA's table of throughputs says for the device's
compute capability (CUDA C++ Programming Guide, "Arithmetic Instructions") and its highest clock.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from privagg import __version__, field, prg
from privagg._cuda import arrays
from privagg._cuda.state import Device, require
from privagg._validate import whole
from privagg.bench.clock import Timing
from privagg.bench.rows import Step, sizes
from privagg.entropy import OS
from privagg.errors import UsageError
from privagg.field import F128, GOLDILOCKS, M31, M61, Field
from privagg.prg import Suite
from privagg.report import Column, Report, Table

__all__ = ["bench"]

_LANES = {"8": 64, "9": 64}
"""Integer operations a cycle and multiprocessor, by the major compute capability."""

_LOOK_UPS = 32
"""Words that shared memory returns a cycle and multiprocessor: one a bank."""

_PIECES, _INNER = 20, 70
"""The decoding of LightSecAgg: 20 pieces from the answers of 70 survivors."""

_PRODUCTS = {M31: 1, M61: 4, GOLDILOCKS: 4, F128: 16}
"""Products of 32 bits in a product of two elements."""

_CHACHA_OPERATIONS = 992
"""Of a block of 64 bytes: 80 quarter rounds of 12, 16 additions of the state, 16 to the sum."""

_AES_LOOK_UPS = 160
"""Of a block of 16 bytes: ten rounds, sixteen bytes."""


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One piece of work on both machines.

    `elements` are what a rate counts. `counted` are the bytes of the rate in GB/s, `moved` those
    that have to cross the device's memory. `operations` are those that `unit` names, of which a
    multiprocessor does `rate` a cycle. The processor does one part in `parts`.
    """

    name: str
    elements: int
    counted: int
    moved: int
    operations: int
    unit: str
    rate: int | None
    device: Callable[[], object]
    cpu: Callable[[], object]
    parts: float = 1.0


def bench(
    *,
    length: int = 1 << 24,
    columns: int = 200_000,
    transform: int = 1 << 20,
    words: int = 1 << 20,
    seeds: int = 1000,
    repeats: int = 9,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time the functions that take CUDA arrays, on the device and on one core.

    Parameters
    ----------
    length : int
        Elements of the vectors that are multiplied.
    columns : int
        Columns of the matrices: 20 x 70 times 70 x `columns`, as a server of LightSecAgg decodes
        20 times as many coordinates.
    transform : int
        Length of the number-theoretic transforms, a power of two from 4.
    words : int
        32-bit words of the vector that the mask streams are added to.
    seeds : int
        Streams that are added; the processor adds up to 20 of them, and its time is extrapolated.
    repeats : int
        Repetitions, whose median is shown.
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If there is no CUDA device (`device` is named), or a number is out of its range.
    """
    device = require("device")
    sizes(length=length, columns=columns, words=words, seeds=seeds, repeats=repeats)
    whole("transform", transform, 4, 2**32)
    if transform & (transform - 1):
        raise UsageError("transform", transform, "a power of two")
    copied = _copy_rate(max(length, 1 << 10), repeats)
    makers: list[Callable[[], _Work]] = [
        *(partial(_multiply, kind, length, device) for kind in _PRODUCTS),
        *(partial(_decode, kind, columns, device) for kind in (M31, M61)),
        partial(_transform, transform, device),
        *(partial(_stream, suite, words, seeds, device) for suite in Suite),
    ]
    rows: list[dict[str, Any]] = []
    for done, make in enumerate(makers):
        step("device and processor", done, len(makers))
        rows.append(_row(make(), device, copied, repeats))
    step("device and processor", len(makers), len(makers))
    return _report(device, copied, rows)


def _multiply(kind: Field, length: int, device: Device) -> _Work:
    left, right = field.uniform(OS, length, kind), field.uniform(OS, length, kind)
    x, y = arrays.upload(left), arrays.upload(right)
    part = min(length, 1 << 20)
    a, b = left[:part], right[:part]
    return _Work(
        name=f"{length} products in {kind.name}",
        elements=length,
        counted=3 * left.nbytes,
        moved=3 * left.nbytes,
        operations=_PRODUCTS[kind] * length,
        unit="products of 32 bits",
        rate=_lanes(device),
        device=lambda: field.mul(x, y, kind),
        cpu=lambda: field.mul(a, b, kind),
        parts=length / part,
    )


def _decode(kind: Field, columns: int, device: Device) -> _Work:
    weights = field.uniform(OS, (_PIECES, _INNER), kind)
    part = min(columns, 5000)
    shares = field.uniform(OS, (_INNER, part), kind)
    tiled = np.resize(shares, (_INNER, columns))
    x, y = arrays.upload(weights), arrays.upload(tiled)
    moved = tiled.nbytes + _PIECES * columns * kind.dtype.itemsize
    return _Work(
        name=f"{_PIECES} x {_INNER} by {_INNER} x {columns} matrices in {kind.name}",
        elements=_PIECES * columns,
        counted=moved,
        moved=moved,
        operations=_PRODUCTS[kind] * _PIECES * _INNER * columns,
        unit="products of 32 bits",
        rate=_lanes(device),
        device=lambda: field.matmul(x, y, kind),
        cpu=lambda: field.matmul(weights, shares, kind),
        parts=columns / part,
    )


def _transform(length: int, device: Device) -> _Work:
    a = field.uniform(OS, length, GOLDILOCKS)
    x = arrays.upload(a)
    butterflies = length // 2 * (length.bit_length() - 1)
    return _Work(
        name=f"a transform of {length} in {GOLDILOCKS.name}",
        elements=length,
        counted=2 * a.nbytes,
        moved=2 * a.nbytes,
        operations=_PRODUCTS[GOLDILOCKS] * butterflies,
        unit="products of 32 bits",
        rate=_lanes(device),
        device=lambda: field.ntt(x, GOLDILOCKS),
        cpu=lambda: field.ntt(a, GOLDILOCKS),
    )


def _stream(suite: Suite, words: int, seeds: int, device: Device) -> _Work:
    size = prg.seed_bytes(suite)
    rows = np.frombuffer(OS.take(seeds * size), np.uint8).reshape(seeds, size)
    signs = np.ones(seeds, np.int8)
    host, there = np.zeros(words, np.uint32), arrays.upload(np.zeros(words, np.uint32))
    few = min(seeds, 20)
    made = 4 * words * seeds
    chacha = suite is Suite.CHACHA20
    return _Work(
        name=f"{seeds} streams of {suite.value} added to {words} words",
        elements=words * seeds,
        counted=made,
        moved=8 * words + rows.nbytes,
        operations=made // 64 * _CHACHA_OPERATIONS if chacha else made // 16 * _AES_LOOK_UPS,
        unit="operations on words" if chacha else "look-ups in shared memory",
        rate=_lanes(device) if chacha else _LOOK_UPS,
        device=lambda: prg.accumulate(there, rows, signs, suite=suite),
        cpu=lambda: prg.accumulate(host, rows[:few], signs[:few], suite=suite),
        parts=seeds / few,
    )


def _lanes(device: Device) -> int | None:
    return _LANES.get(device.capability.split(".")[0])


def _copy_rate(length: int, repeats: int) -> float:
    """Return the bytes that a copy of 64-bit words reads and writes a second, at best."""
    source = arrays.upload(np.zeros(length, np.uint64))
    target = arrays.empty(length, np.uint64)
    timing = _wall(lambda: target.copy_to_device(source), repeats)
    return 16 * length / timing.best


def _wall(work: Callable[[], object], repeats: int) -> Timing:
    """Time work that may go on on the device after it returns; it is done once before."""
    cuda = arrays.module("device")
    seconds = []
    for _ in range(repeats + 1):
        cuda.synchronize()
        began = time.perf_counter()
        work()
        cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return Timing.of(seconds[1:])


def _row(work: _Work, device: Device, copied: float, repeats: int) -> dict[str, Any]:
    there = _wall(work.device, repeats)
    here = _wall(work.cpu, repeats).times(work.parts)
    floors = {f"{work.moved} bytes moved": work.moved / copied}
    if work.rate and device.multiprocessors and device.hertz:
        a_second = work.rate * device.multiprocessors * device.hertz
        floors[f"{work.operations} {work.unit}"] = work.operations / a_second
    bound = max(floors, key=lambda reason: floors[reason])
    return {
        "name": work.name,
        "device_seconds": asdict(there),
        "core_seconds": asdict(here),
        "core_extrapolated": work.parts > 1,
        "elements_per_second": work.elements / there.median,
        "bytes_per_second": work.counted / there.median,
        "core_elements_per_second": work.elements / here.median,
        "floors": [{"reason": k, "seconds": v} for k, v in floors.items()],
        "bound": bound,
        "of_bound": floors[bound] / there.median,
        "times_a_core": here.median / there.median,
    }


def _report(device: Device, copied: float, rows: list[dict[str, Any]]) -> Report:
    columns: list[Column | str] = [
        "work",
        Column("device", "s"),
        Column("from", "s"),
        Column("to", "s"),
        Column("rate", "GB/s"),
        Column("rate", "M elements/s"),
        Column("bytes' floor", "s"),
        Column("operations' floor", "s"),
        "share of the higher",
        Column("one core", "s"),
        "times a core",
    ]
    cells = []
    for row in rows:
        there, floors = row["device_seconds"], [floor["seconds"] for floor in row["floors"]]
        cells.append(
            [
                row["name"],
                *(there[key] for key in ("median", "low", "high")),
                row["bytes_per_second"] / 1e9,
                row["elements_per_second"] / 1e6,
                *[*floors, None][:2],
                row["of_bound"],
                row["core_seconds"]["median"],
                row["times_a_core"],
            ]
        )
    notes = [
        "Times of the clock on the wall; medians, with the quartiles; checks of the arguments and "
        "the launch are in them, copies between host and device of seeds only.",
        f"A copy of an array on the device moved {copied / 1e9:.1f} GB/s in this run: the bytes' "
        "floor. Streams count their key stream as GB/s, all else what it moves.",
        "Operations' floor: products of 32 bits, operations of ChaCha20 or look-ups of AES, at "
        "what the device's multiprocessors do a cycle and its highest clock.",
        "One core: the same function on NumPy arrays, on a part of the work where that is long.",
    ]
    if arrays.SIMULATED:
        notes.append("The device is Numba's simulator: these figures say nothing about any device.")
    return Report(
        title="Fields on a CUDA device",
        data={
            "benchmark": "Fields on a CUDA device",
            "clock": "seconds on the wall",
            "device": asdict(device),
            "copy_bytes_per_second": copied,
            "python": platform.python_version(),
            "versions": {"privagg": __version__, "numba": _version("numba")}
            | {"numba-cuda": _version("numba-cuda")},
            "simulated": arrays.SIMULATED,
            "cases": rows,
        },
        tables=[Table(f"{device.name}, compute capability {device.capability}", columns, cells)],
        notes=notes,
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
