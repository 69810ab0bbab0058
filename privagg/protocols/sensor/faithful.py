"""CPDA as described in the papers, and Sen's two changes to it: faithful, and **insecure**.

Over integers a share is congruent to its owner's reading modulo the receiver's seed, and over the
reals a small seed gives the reading away: no size of seed or coefficient helps. These functions are
for attacks and for comparison. :mod:`privagg.attacks.sensor` has the attacks.

- ``cpda``: W. He et al., "PDA", INFOCOM 2007, section on cluster-based aggregation: polynomials
  over the reals or integers, seeds that the members choose and announce, sums in clear.
- ``cpda-sen-efficient``: J. Sen and S. Maitra, NordSec 2011: the leader's seed is so large that it
  reads the digits of its own sum alone. It reads every member's digits, too.
- ``cpda-sen-checked``: the same authors' repair for three members: all seeds, and all values that a
  member holds, must satisfy the triangle inequalities. That all triples of larger clusters must
  do so is our extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.sensor.params import Arithmetic, Params, Protocol

__all__ = [
    "MAX_TRIES",
    "Record",
    "Shared",
    "below",
    "draw_seeds",
    "efficient_seed",
    "lagrange_sum",
    "run",
    "share",
    "share_bytes",
    "triangles",
]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Objects = NDArray[Any]

MAX_TRIES = 20
"""``cpda-sen-checked`` gives up after so many draws of a cluster's seeds, or of its shares."""


def below(entropy: Entropy, bound: int, shape: tuple[int, ...]) -> _Objects:
    """Return uniform integers from 0 to ``bound - 1``, as Python integers in an array."""
    count = int(np.prod(shape))
    words = max(1, -(-bound.bit_length() // 64))
    result = np.zeros(count, object)
    open_ = np.arange(count)
    while len(open_):
        raw = np.frombuffer(entropy.take(8 * words * len(open_)), "<u8").reshape(-1, words)
        excess = 64 * words - (bound - 1).bit_length()
        drawn = np.zeros(len(open_), object)
        for word in range(words):
            drawn = drawn + (raw[:, word].astype(object) << (64 * word))
        drawn = drawn >> excess
        good = drawn < bound
        result[open_[good]] = drawn[good]
        open_ = open_[~good.astype(np.bool_)]
    return result.reshape(shape)


def efficient_seed(params: Params, members: int) -> int:
    """Return the leader's seed of ``cpda-sen-efficient``: a power of two above all digits' sums."""
    return 1 << (members * max(2 * params.bound + 1, params.coefficient_max + 1)).bit_length()


def share_bytes(params: Params, sizes: _Ints) -> tuple[_Ints, _Ints]:
    """Return the bytes of a share for a member, and of an answer to the leader, for each cluster.

    Tags are included where a message is encrypted; the papers' sums to the leader are in clear.
    """
    width, tag = params.width, params.tag_bytes
    number = 4 if params.field.bits <= 32 else 8
    if params.protocol in (Protocol.CPDA_FIELD, Protocol.MASK_CLUSTER):
        both = np.full(len(sizes), number * width + tag, np.int64)
        return both, both
    if params.protocol is Protocol.CPDA and params.arithmetic is Arithmetic.REAL:
        real = np.full(len(sizes), params.real_bytes * width, np.int64)
        return real + tag, real
    item = np.zeros(len(sizes), np.int64)
    answer = np.zeros(len(sizes), np.int64)
    for m in np.unique(sizes):
        efficient = params.protocol is Protocol.CPDA_SEN_EFFICIENT
        seed = efficient_seed(params, int(m)) if efficient else params.seed_max
        top = params.bound + params.coefficient_max * sum(seed**k for k in range(1, int(m)))
        octets = -(-(top.bit_length() + 1) // 8)
        total = -(-((int(m) * top).bit_length() + 1) // 8)
        item[sizes == m] = octets * width + tag
        answer[sizes == m] = octets * width + tag if efficient else total * width
    return item, answer


def draw_seeds(entropy: Entropy, seed_max: int, clusters: int, members: int) -> _Objects:
    """Return distinct seeds from 1 to `seed_max`, shape (clusters, members)."""
    if members > seed_max:
        raise UsageError(
            "seed_max", seed_max, f"at least {members}: a cluster has so many different seeds"
        )
    seeds = np.zeros((clusters, members), object)
    open_ = np.arange(clusters)
    for place in range(members):
        # One seed after another, drawn again where it is taken: uniform over distinct ones.
        open_ = np.arange(clusters)
        while len(open_):
            drawn = below(entropy, seed_max, (len(open_),)) + 1
            taken = (seeds[open_, :place] == drawn[:, None]).any(axis=1)
            seeds[open_[~taken], place] = drawn[~taken]
            open_ = open_[taken]
    return seeds


def share(values: Any, coefficients: Any, seeds: Any) -> Any:
    """Evaluate each member's polynomial at each member's seed.

    Parameters
    ----------
    values : (..., m) array
        Readings by owner.
    coefficients : (..., m, m - 1) array
        By owner, the linear one first.
    seeds : (..., m) array
        By receiver.

    Returns
    -------
    (..., m, m) array
        ``[..., i, j]``: the share of owner i for receiver j.
    """
    m = coefficients.shape[-1] + 1
    result = np.zeros((*values.shape, seeds.shape[-1]), coefficients.dtype)
    for k in range(m - 2, -1, -1):
        result = (result + coefficients[..., k][..., None]) * seeds[..., None, :]
    return result + values[..., None]


def lagrange_sum(assembled: Any, seeds: Any) -> Any:
    """Solve the Vandermonde system for its first unknown, the sum: Lagrange's formula at zero.

    Parameters
    ----------
    assembled, seeds : (..., m) arrays
        The members' sums, and their seeds. Python integers give the exact sum; floats what double
        precision makes of it.
    """
    m = assembled.shape[-1]
    gaps = seeds[..., None, :] - seeds[..., :, None]  # [j, k]: x_k - x_j
    off = ~np.eye(m, dtype=np.bool_)
    ones = np.where(off, gaps, 1)
    below_ = np.multiply.reduce(ones, axis=-1)
    above = np.multiply.reduce(np.where(off, seeds[..., None, :], 1 + 0 * gaps), axis=-1)
    if assembled.dtype != object:
        return (assembled * (above / below_)).sum(axis=-1)
    common = np.multiply.reduce(below_, axis=-1)
    total = (assembled * above * (common[..., None] // below_)).sum(axis=-1)
    return total // common


def triangles(values: Any) -> _Bools:
    """Say whether all triples satisfy the triangle inequalities: two smallest above the largest.

    Parameters
    ----------
    values : (..., m) array
        Seeds of a cluster, or what one member holds.
    """
    ordered = np.sort(values, axis=-1)
    return np.asarray(ordered[..., 0] + ordered[..., 1] > ordered[..., -1], np.bool_)


@dataclass
class Record:
    """What the arrays drew for one cluster and number: every try.

    Attributes
    ----------
    seeds : list of (m,) arrays
        By try.
    coefficients : list of (m, m - 1) arrays
        By try.
    """

    seeds: list[Any] = field(default_factory=list, repr=False)
    coefficients: list[Any] = field(default_factory=list, repr=False)


@dataclass(frozen=True, eq=False)
class Shared:
    """A run of clusters of one size, with everything that its parties know.

    Attributes
    ----------
    seeds : (clusters, m) array
        By member.
    shares : (clusters, m, m) array
        ``[c, i, j]`` of owner i for receiver j.
    assembled : (clusters, m) array
        What each member sends to the leader in clear.
    total : (clusters,) array
        What the leader computes.
    seed_tries, share_tries : (clusters,) int64 arrays
        Draws, of ``cpda-sen-checked``.
    passed : (clusters,) bool array
        Whether its checks passed in the end.
    """

    seeds: _Objects
    shares: _Objects
    assembled: _Objects
    total: _Objects
    seed_tries: _Ints
    share_tries: _Ints
    passed: _Bools


def run(
    values: Any,
    params: Params,
    entropy: Entropy,
    leader: _Ints | None = None,
    records: Sequence[Record] = (),
) -> Shared:
    """Run clusters of one size, honestly.

    Parameters
    ----------
    values : (clusters, m) array
        Readings in steps (integers), or as they are for real arithmetic.
    params : Params
        Protocol, arithmetic, largest seed and coefficient.
    entropy : Entropy
        Of seeds and coefficients.
    leader : (clusters,) int64 array, optional
        Which member leads; the first, if not given. Matters to ``cpda-sen-efficient`` alone.
    records : sequence of Record
        One for each cluster, which take down what is drawn, if given.
    """
    clusters, m = values.shape
    once = np.ones(clusters, np.int64)
    good = np.ones(clusters, np.bool_)
    if params.protocol is Protocol.CPDA and params.arithmetic is Arithmetic.REAL:
        return _run_real(np.asarray(values, np.float64), params, entropy, records)
    numbers = np.asarray(values).astype(object)
    if params.protocol is Protocol.CPDA_SEN_EFFICIENT:
        return _run_efficient(numbers, params, entropy)
    if params.protocol is Protocol.CPDA_SEN_CHECKED:
        return _run_checked(numbers, params, entropy, records)
    seeds = draw_seeds(entropy, params.seed_max, clusters, m)
    coefficients = _coefficients(entropy, params, clusters, m)
    _take_down(records, seeds, coefficients)
    shares = share(numbers, coefficients, seeds)
    assembled = shares.sum(axis=1)
    return Shared(seeds, shares, assembled, lagrange_sum(assembled, seeds), once, once, good)


def _coefficients(entropy: Entropy, params: Params, clusters: int, m: int) -> _Objects:
    return below(entropy, params.coefficient_max + 1, (clusters, m, m - 1))


def _take_down(
    records: Sequence[Record], seeds: Any, coefficients: Any, rows: _Ints | None = None
) -> None:
    """Note a try of some clusters; of all, if no rows are given. None notes nothing."""
    taken = records if rows is None or not records else [records[row] for row in rows]
    for at, record in enumerate(taken):
        if seeds is not None:
            record.seeds.append(seeds[at])
        if coefficients is not None:
            record.coefficients.append(coefficients[at])


def _run_real(values: Any, params: Params, entropy: Entropy, records: Sequence[Record]) -> Shared:
    clusters, m = values.shape
    seeds = draw_seeds(entropy, params.seed_max, clusters, m).astype(np.float64)
    words = np.frombuffer(entropy.take(8 * clusters * m * (m - 1)), "<u8")
    unit = (words >> np.uint64(11)).astype(np.float64) / 2.0**53
    coefficients = params.coefficient_max * unit.reshape(clusters, m, m - 1)
    _take_down(records, seeds, coefficients)
    kind = np.float64 if params.real_bytes == 8 else np.float32
    # Large clusters overflow single precision: the sum is then no number, which callers see.
    with np.errstate(over="ignore", invalid="ignore"):
        shares = share(values, coefficients, seeds).astype(kind).astype(np.float64)
        assembled = shares.sum(axis=1).astype(kind).astype(np.float64)
        total = lagrange_sum(assembled, seeds)
    once = np.ones(clusters, np.int64)
    return Shared(seeds, shares, assembled, total, once, once, np.ones(clusters, np.bool_))


def _run_efficient(numbers: Any, params: Params, entropy: Entropy) -> Shared:
    """Shift readings to be non-negative, so that digits can be read off."""
    clusters, m = numbers.shape
    seed = efficient_seed(params, m)
    seeds = np.full((clusters, m), seed, object)
    shifted = numbers + params.bound
    shares = share(shifted, _coefficients(entropy, params, clusters, m), seeds)
    assembled = shares.sum(axis=1)
    total = assembled[:, 0] % seed - m * params.bound
    once = np.ones(clusters, np.int64)
    return Shared(seeds, shares, assembled, total, once, once, np.ones(clusters, np.bool_))


def _run_checked(
    numbers: Any, params: Params, entropy: Entropy, records: Sequence[Record]
) -> Shared:
    clusters, m = numbers.shape
    seeds = np.ones((clusters, m), object)
    shares = np.zeros((clusters, m, m), object)
    seed_tries = np.zeros(clusters, np.int64)
    share_tries = np.zeros(clusters, np.int64)
    good = np.zeros(clusters, np.bool_)
    open_ = np.arange(clusters)
    for _ in range(MAX_TRIES):
        if not len(open_):
            break
        seeds[open_] = draw_seeds(entropy, params.seed_max, len(open_), m)
        seed_tries[open_] += 1
        _take_down(records, seeds[open_], None, open_)
        good[open_] = triangles(seeds[open_])
        open_ = open_[~good[open_]]
    seeds_good = good.copy()
    open_ = np.flatnonzero(seeds_good)
    good = np.zeros(clusters, np.bool_)
    for _ in range(MAX_TRIES):
        if not len(open_):
            break
        coefficients = _coefficients(entropy, params, len(open_), m)
        shares[open_] = share(numbers[open_], coefficients, seeds[open_])
        share_tries[open_] += 1
        _take_down(records, None, coefficients, open_)
        held = np.swapaxes(shares[open_], 1, 2)
        good[open_] = triangles(held).all(axis=1)
        open_ = open_[~good[open_]]
    assembled = shares.sum(axis=1)
    total = np.zeros(clusters, object)
    if good.any():
        total[good] = lagrange_sum(assembled[good], seeds[good])
    return Shared(seeds, shares, assembled, total, seed_tries, share_tries, good)
