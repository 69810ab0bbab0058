"""``privagg bench ldp``: randomisers and aggregators beside NumPy and the libraries.

Our own contestants draw from AES-128-CTR keyed by the operating system, make every probability
exactly, and check what they decode.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import datasets
from privagg.bench import peers_ldp
from privagg.bench.clock import Timing, cycles_per_second, race
from privagg.bench.peers import Work
from privagg.bench.rows import OURS, Case, Row, Step, check_parts, report, sizes
from privagg.domain import Categorical, Domain
from privagg.domain.base import Codes
from privagg.entropy import OS
from privagg.errors import UsageError
from privagg.mechanisms import GRR, OLH, OUE
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.distributed import KINDS
from privagg.mechanisms.integer_noise import integer_noise
from privagg.protocols.multidim import Aggregator, Params, Protocol, randomize_codes
from privagg.report import Report

__all__ = ["PARTS", "bench"]

PARTS = ("grr", "oue", "olh", "rs+fd", "noise")

_EPSILON = 1.0
_GRR_VALUES = 100
_OUE_VALUES = 128
_NUMPY_VALUES = 16
_BATCH = 1 << 16
_SIGMAS = (7.0, 40.0, 200.0)
"""Standard deviations of integer noise: what 16 bits leave 10,000, 1000 and 100 clients."""
_LOOPS = 300_000
"""Steps of the libraries' loops that are timed."""


def bench(
    *,
    parts: Sequence[str] = PARTS,
    users: int = 1_000_000,
    grr_users: int = 10_000_000,
    values: int = 1024,
    repeats: int = 5,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Time mechanisms of local differential privacy.

    Parameters
    ----------
    parts : sequence of str
        What is timed, of :data:`PARTS`.
    users : int
        Reports of OUE, OLH and RS+FD[OUE-z].
    grr_users : int
        Reports of generalised randomised response.
    values : int
        Values of local hashing's domain.
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
        If a number is out of its range, or a part is none.
    """
    sizes(users=users, grr_users=grr_users, values=values, repeats=repeats)
    if values < 2:
        raise UsageError("values", values, "at least 2")
    check_parts(parts, PARTS)
    hertz = cycles_per_second()
    works: dict[str, Callable[[], tuple[list[Case], dict[str, Any]]]] = {
        "grr": lambda: _grr(grr_users, repeats),
        "oue": lambda: _oue(users, repeats),
        "olh": lambda: _olh(users, values, repeats),
        "rs+fd": lambda: _faked(users, repeats),
        "noise": lambda: _noise(users, repeats),
    }
    chosen = [part for part in PARTS if part in parts]
    cases: list[Case] = []
    figures: dict[str, Any] = {}
    for done, part in enumerate(chosen):
        step("local differential privacy", done, len(chosen))
        more, found = works[part]()
        cases += more
        figures |= found
    step("local differential privacy", len(chosen), len(chosen))
    absent = peers_ldp.missing()
    notes = [f"Epsilon: {_EPSILON:g}. NumPy draws from PCG64, we from AES-128-CTR."]
    notes += [f"{name.replace('_', ' ')}: {value:,.6g}" for name, value in figures.items()]
    notes += [f"Not installed, so not beside us: {', '.join(absent)}."] if absent else []
    return report(
        "Local differential privacy", cases, hertz=hertz, notes=notes, data={"figures": figures}
    )


def _domain(k: int) -> Domain:
    return Categorical(range(k))


def _codes(n: int, k: int) -> Codes:
    return np.random.default_rng(1).integers(0, k, n, dtype=np.uint32)


def _rows(timings: dict[str, Timing]) -> list[Row]:
    return [Row(who=who, timing=timing) for who, timing in timings.items()]


def _case(name: str, works: dict[str, Work], amount: float, unit: str, repeats: int) -> Case:
    return Case(name=name, rows=_rows(race(works, repeats=repeats)), amount=amount, unit=unit)


def _grr(n: int, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    oracle = GRR(_domain(_GRR_VALUES), _EPSILON)
    codes = _codes(n, _GRR_VALUES)
    reports = oracle.randomize_codes(codes)
    symbols = reports.columns[0]
    name = f"GRR, {n:,} respondents, k = {_GRR_VALUES}"
    return [
        _case(
            f"{name}: randomise",
            {
                OURS: lambda: oracle.randomize_codes(codes),
                **peers_ldp.numpy_symbols(codes, _GRR_VALUES, _EPSILON),
            },
            n,
            "report",
            repeats,
        ),
        _case(
            f"{name}: aggregate",
            {
                OURS: lambda: oracle.aggregate(reports),
                "NumPy bincount": lambda: np.bincount(symbols, minlength=_GRR_VALUES),
            },
            n,
            "report",
            repeats,
        ),
    ], {"grr_bytes_per_report": len(reports.encode()) / n}


def _oue(n: int, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    oracle = OUE(_domain(_OUE_VALUES), _EPSILON)
    codes = _codes(n, _OUE_VALUES)
    reports = oracle.randomize_codes(codes)
    packed = _bytes_of(reports.columns[0], _OUE_VALUES)
    name = f"OUE, {n:,} respondents, k = {_OUE_VALUES}"
    return [
        _case(
            f"{name}: randomise",
            {
                OURS: lambda: oracle.randomize_codes(codes),
                "NumPy, packbits": peers_ldp.numpy_bits(codes, _OUE_VALUES, _EPSILON),
            },
            n,
            "report",
            repeats,
        ),
        _case(
            f"{name}: aggregate",
            {
                OURS: lambda: oracle.aggregate(reports),
                "NumPy, unpackbits": peers_ldp.numpy_count_bits(packed, _OUE_VALUES),
            },
            n,
            "report",
            repeats,
        ),
    ], {"oue_bytes_per_report": len(reports.encode()) / n}


def _bytes_of(rows: NDArray[np.uint64], k: int) -> NDArray[np.uint8]:
    octets = rows.astype("<u8", copy=False).view(np.uint8)
    return np.ascontiguousarray(octets[:, : (k + 7) // 8])


def _olh(n: int, k: int, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    oracle = OLH(_domain(k), _EPSILON)
    reports = oracle.randomize_codes(_codes(n, k))
    sample, few = max(1, _LOOPS // k), min(k, _NUMPY_VALUES)
    timed = race({OURS: lambda: oracle.aggregate(reports)}, repeats=repeats)
    slow = {"NumPy, a value at a time": peers_ldp.numpy_decode(n, few, oracle.g)}
    parts = race(slow, repeats=min(repeats, 3))
    loops = race(peers_ldp.hash_decoders(k, _EPSILON, sample), repeats=min(repeats, 3))
    rows = _rows(timed)
    rows += [
        Row(who=who, timing=t.times(k / few), extrapolated=f"{few} of {k:,} values" * (few < k))
        for who, t in parts.items()
    ]
    rows += [
        Row(
            who=who,
            timing=t.times(n / sample),
            extrapolated=f"{sample:,} of {n:,} reports" * (sample < n),
        )
        for who, t in loops.items()
    ]
    name = f"OLH, {n:,} reports, k = {k:,}: aggregate"
    case = Case(name=name, rows=rows, amount=n * k, unit="hash")
    return [case], {"olh_bytes_per_report": len(reports.encode()) / n}


def _noise(n: int, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    """Time the exact integer noise of a client of a secure sum."""
    cases = []
    for sigma in _SIGMAS:
        draws, generator = Draws(OS), np.random.default_rng(1)
        works: dict[str, Work] = {
            f"{OURS}, {kind}": partial(integer_noise(kind, sigma * sigma).sample, n, draws)
            for kind in KINDS
        }

        def gaussian(generator: Any = generator, sigma: float = sigma) -> Any:
            return np.rint(generator.normal(0.0, sigma, n))

        def poissons(generator: Any = generator, rate: float = sigma * sigma / 2) -> Any:
            return generator.poisson(rate, n) - generator.poisson(rate, n)

        works |= {"NumPy normal, rounded": gaussian, "NumPy poisson - poisson": poissons}
        cases.append(_case(f"noise, {n:,} integers, sigma {sigma:g}", works, n, "draw", repeats))
    return cases, {}


def _adult() -> tuple[dict[str, Domain], list[Codes]]:
    """Return the categorical attributes of the bundled table, and everybody's codes."""
    table = datasets.load("adult")
    attributes: dict[str, Domain] = {}
    codes = []
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if hasattr(column, "dictionary"):
            attributes[name] = Categorical(column.dictionary.to_pylist())
            codes.append(np.asarray(column.indices).astype(np.uint32))
    return attributes, codes


def _survey(params: Params, codes: Sequence[Codes]) -> Aggregator:
    """Randomise and count, a batch after the other."""
    aggregator = Aggregator(params)
    for start in range(0, codes[0].size, _BATCH):
        part = [column[start : start + _BATCH] for column in codes]
        aggregator.receive(randomize_codes(params, part))
    return aggregator


def _faked(n: int, repeats: int) -> tuple[list[Case], dict[str, Any]]:
    attributes, codes = _adult()
    people, d = codes[0].size, len(codes)
    counts = [domain.size for domain in attributes.values()]
    symbols, bits = (
        Params(attributes=attributes, epsilon=_EPSILON, protocol=Protocol.RSFD, oracle=oracle)
        for oracle in ("grr", "oue-z")
    )
    sample = min(people, _LOOPS // 100)
    rows = np.stack(codes, axis=1)[:sample].tolist()
    ours = race({OURS: lambda: _survey(symbols, codes).estimate()}, repeats=repeats)
    loops = race(peers_ldp.faked_tuples(rows, counts, _EPSILON), repeats=min(repeats, 3))
    first = Case(
        name=f"RS+FD[GRR], Adult, {people:,} respondents, {d} attributes: randomise and estimate",
        rows=[
            *_rows(ours),
            *(
                Row(
                    who=who,
                    timing=t.times(people / sample),
                    extrapolated=f"{sample:,} of {people:,} respondents",
                )
                for who, t in loops.items()
            ),
        ],
        amount=people,
        unit="report",
    )
    many = [np.resize(column, n) for column in codes]
    second = _case(
        f"RS+FD[OUE-z], {n:,} respondents with the attributes of Adult: randomise and aggregate",
        {OURS: lambda: _survey(bits, many)},
        n,
        "report",
        min(repeats, 3),
    )
    tracemalloc.start()
    try:
        _survey(bits, many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    batch = randomize_codes(bits, [column[:_BATCH] for column in many])
    return [first, second], {
        "rsfd_oue_z_bytes_per_report": len(batch.encode()) / len(batch),
        "rsfd_oue_z_peak_bytes": peak,
    }
