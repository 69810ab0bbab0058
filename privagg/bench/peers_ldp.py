"""Local differential privacy by other means: vectorised NumPy, multi-freq-ldpy and pure-ldp.

NumPy's own contestants draw from its default generator (PCG64), which is no cryptographic one. The
libraries are loops over respondents: a sample of the work is timed, and the rows say so.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.bench.peers import Work, optional

__all__ = [
    "faked_tuples",
    "hash_decoders",
    "missing",
    "numpy_bits",
    "numpy_count_bits",
    "numpy_decode",
    "numpy_symbols",
]

_TILE = 1 << 14


def missing() -> list[str]:
    """Return what is not beside us, each with the reason."""
    names = {"multi-freq-ldpy": "multi_freq_ldpy", "pure-ldp": "pure_ldp"}
    found = [name for name, module in names.items() if optional_peer(module) is None]
    if len(found) < len(names) and not _hashes_strings():
        found.append("local hashing of both, which needs xxhash 3")
    return found


def optional_peer(module: str) -> Any | None:
    """Return a library, or None where it, or what it needs and does not declare, is missing."""
    needed = ("statsmodels", "sklearn", module) if module == "pure_ldp" else (module,)
    return optional(module) if all(optional(one) is not None for one in needed) else None


def _hashes_strings() -> bool:
    """Whether the installed xxhash takes strings, as both libraries give it; from 4 it does not."""
    xxhash = optional("xxhash")
    if xxhash is None:
        return False
    try:
        xxhash.xxh32("1", seed=0)
    except TypeError:
        return False
    return True


def numpy_symbols(codes: NDArray[np.uint32], k: int, epsilon: float) -> dict[str, Work]:
    """Return generalised randomised response in vectorised NumPy, of 64 and of 32 bits.

    Parameters
    ----------
    codes : (n,) array of unsigned integers
        Codes of the domain's values.
    k : int
        How many values there are.
    epsilon : float
        Above 0.
    """
    rng = np.random.default_rng()
    keep = np.exp(epsilon) / (np.exp(epsilon) + k - 1)

    def work(values: NDArray[Any]) -> NDArray[Any]:
        other = rng.integers(0, k - 1, values.size, dtype=values.dtype)
        other += other >= values
        return np.where(rng.random(values.size) < keep, values, other)

    usual = codes.astype(np.int64)
    return {"NumPy": lambda: work(usual), "NumPy, 32-bit integers": lambda: work(codes)}


def numpy_bits(codes: NDArray[np.uint32], k: int, epsilon: float) -> Work:
    """Return optimised unary encoding in vectorised NumPy, rows packed into bytes, in tiles.

    Parameters
    ----------
    codes : (n,) array of unsigned integers
        Codes of the domain's values.
    k : int
        How many values there are.
    epsilon : float
        Above 0.
    """
    rng = np.random.default_rng()
    q = 1 / (np.exp(epsilon) + 1)
    out = np.empty((codes.size, (k + 7) // 8), np.uint8)

    def work() -> object:
        for start in range(0, codes.size, _TILE):
            part = codes[start : start + _TILE]
            bits = rng.random((part.size, k), np.float32) < q
            bits[np.arange(part.size), part] = rng.random(part.size) < 0.5
            out[start : start + _TILE] = np.packbits(bits, axis=1, bitorder="little")
        return out

    return work


def numpy_count_bits(rows: NDArray[np.uint8], k: int) -> Work:
    """Return the column sums of packed rows of bits in vectorised NumPy, in tiles.

    Parameters
    ----------
    rows : (n, bytes) uint8 array
        Packed bits.
    k : int
        How many bits a row has.
    """

    def work() -> object:
        total = np.zeros(k, np.int64)
        for start in range(0, len(rows), _TILE):
            bits = np.unpackbits(rows[start : start + _TILE], axis=1, count=k, bitorder="little")
            total += bits.sum(axis=0, dtype=np.int64)
        return total

    return work


def numpy_decode(n: int, values: int, g: int) -> Work:
    """Return the decoding of `values` values of local hashing in NumPy, all reports at once.

    Parameters
    ----------
    n : int
        Reports.
    values : int
        Values decoded.
    g : int
        Cells of the hash.
    """
    rng = np.random.default_rng()
    a, b = (rng.integers(0, 2**32, n, dtype=np.uint64) for _ in range(2))
    cells = rng.integers(0, g, n, dtype=np.uint64)
    mask, shift, cut = np.uint64(2**32 - 1), np.uint64(32), np.uint64(g)

    def work() -> object:
        counts = np.zeros(values, np.int64)
        for value in range(values):
            hashed = (a * np.uint64(value) + b) & mask
            counts[value] = np.count_nonzero((hashed * cut) >> shift == cells)
        return counts

    return work


def hash_decoders(k: int, epsilon: float, sample: int) -> dict[str, Work]:
    """Return the libraries' decoders of `sample` reports of optimised local hashing.

    Parameters
    ----------
    k : int
        How many values there are.
    epsilon : float
        Above 0.
    sample : int
        How many reports.
    """
    if not _hashes_strings():
        return {}
    found = {
        "multi-freq-ldpy LH_Aggregator_MI": _multi_freq_decoder(k, epsilon, sample),
        "pure-ldp LHServer.aggregate": _pure_decoder(k, epsilon, sample),
    }
    return {who: work for who, work in found.items() if work is not None}


def _multi_freq_decoder(k: int, epsilon: float, sample: int) -> Work | None:
    if optional_peer("multi_freq_ldpy") is None:
        return None
    library = import_module("multi_freq_ldpy.pure_frequency_oracles.LH")
    reports = [library.LH_Client(user % k, k, epsilon) for user in range(sample)]
    return lambda: library.LH_Aggregator_MI(reports, k, epsilon)


def _pure_decoder(k: int, epsilon: float, sample: int) -> Work | None:
    if optional_peer("pure_ldp") is None:
        return None
    library = import_module("pure_ldp.frequency_oracles.local_hashing")
    client = library.LHClient(epsilon, k, use_olh=True, index_mapper=int)
    reports = [client.privatise(user % k) for user in range(sample)]

    def work() -> object:
        server = library.LHServer(epsilon, k, use_olh=True, index_mapper=int)
        for one in reports:
            server.aggregate(one)
        return server.aggregated_data

    return work


def faked_tuples(rows: list[list[int]], sizes: list[int], epsilon: float) -> dict[str, Work]:
    """Return multi-freq-ldpy's RS+FD[GRR], client and aggregator, of the given respondents.

    Parameters
    ----------
    rows : list of list of int
        Codes of one respondent in each.
    sizes : list of int
        How many values each attribute has.
    epsilon : float
        Above 0.
    """
    if optional_peer("multi_freq_ldpy") is None:
        return {}
    library = import_module("multi_freq_ldpy.mdim_freq_est.RSpFD_solution")
    client: Callable[..., Any] = library.RSpFD_GRR_Client
    d = len(sizes)

    def work() -> object:
        reports = [client(row, sizes, d, epsilon) for row in rows]
        return library.RSpFD_GRR_Aggregator_MI(reports, sizes, d, epsilon)

    return {"multi-freq-ldpy RSpFD_GRR": work}
