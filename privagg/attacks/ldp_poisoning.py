"""What fake respondents gain: reports made up to push some values.

No report of local differential privacy can be told from an honest one, so whoever controls some
respondents sends what supports his values most (the maximal gain attack of Cao, Jia, Gong, "Data
Poisoning Attacks to Local Differential Privacy Protocols", USENIX Security 2021). With a fraction b
of fake respondents, each of whose reports supports s of r target values, the targets' estimated
frequencies gain in all, in expectation,

    b ((s - r q) / (p - q) - f)

with f their honest frequencies' sum. For surveys with fakes q and p stand for what reports without
and with the value support, fakes included: then a made-up report supports targets in every
attribute at once, and d-fold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg._validate import proportion, whole
from privagg.errors import UsageError
from privagg.mechanisms import (
    GRR,
    PGR,
    FrequencyOracle,
    LocalHashing,
    PureOracle,
    SubsetSelection,
    UnaryEncoding,
)
from privagg.mechanisms._kernels.bits import row_words
from privagg.mechanisms._kernels.hashing import Cells, hash_values
from privagg.protocols.multidim import Params
from privagg.protocols.multidim.kernels import put_codes
from privagg.protocols.multidim.layout import row_layout

__all__ = ["Poisoning", "crafted_rows", "most_supported", "poisoning_gain", "survey_gain"]

_SEEDS = 2000
"""Hash functions that an attacker tries for one that puts many targets into one cell."""


@dataclass(frozen=True)
class Poisoning:
    """What fake respondents gain.

    Attributes
    ----------
    fraction : float
        Of all respondents, the fake ones.
    targets : int
        Values to push.
    supported : float
        Targets that one made-up report supports.
    gain : float
        By how much the estimated frequencies of all targets grow, in expectation.
    honest_gain : float
        The same if the fake respondents followed the protocol, each with one of the targets.
    """

    fraction: float
    targets: int
    supported: float
    gain: float
    honest_gain: float

    @property
    def leverage(self) -> float:
        """How many times the gain of the same respondents if they followed the protocol."""
        return self.gain / self.honest_gain


def poisoning_gain(
    oracle: FrequencyOracle,
    *,
    targets: int = 1,
    fraction: float = 0.05,
    frequency: float = 0.0,
    seed: int = 0,
) -> Poisoning | None:
    """Return what fake respondents gain against a frequency oracle.

    Parameters
    ----------
    oracle : FrequencyOracle
        The mechanism.
    targets : int
        How many values to push: the domain's first ones.
    fraction : float
        Fake respondents among all, below 1.
    frequency : float
        Honest frequency of all targets together.
    seed : int
        For the search for hash functions.

    Returns
    -------
    Poisoning or None
        None if the best made-up report of this oracle is not known here.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """
    count = whole("targets", targets, 1, oracle.k)
    part = _fraction(fraction)
    honest = proportion("frequency", frequency)
    supported = most_supported(oracle, count, seed)
    if supported is None or not isinstance(oracle, PureOracle):
        return None
    p, q = float(oracle.p), float(oracle.q)
    gain = part * ((supported - count * q) / (p - q) - honest)
    return Poisoning(part, count, supported, gain, part * (1 - honest))


def most_supported(oracle: FrequencyOracle, targets: int, seed: int = 0) -> float | None:
    """Return how many of the domain's first `targets` values one report can support."""
    if isinstance(oracle, GRR):
        return 1.0
    if isinstance(oracle, UnaryEncoding):
        return float(targets)
    if isinstance(oracle, SubsetSelection):
        return float(min(targets, oracle.w))
    if isinstance(oracle, LocalHashing):
        return float(_best_hash(oracle.k, oracle.g, targets, seed))
    if isinstance(oracle, PGR) and targets == 1:
        return 1.0
    return None


def _best_hash(k: int, g: int, targets: int, seed: int) -> int:
    """Return the most targets in one cell of any of some hash functions."""
    cells = Cells(k, g, 64)
    rng = np.random.default_rng(seed)
    best = 1
    values = np.arange(targets, dtype=np.uint32)
    for a, b in rng.integers(0, 2**64, (_SEEDS, 2), dtype=np.uint64):
        found = hash_values(values, np.full(targets, a), np.full(targets, b), cells)
        best = max(best, int(np.bincount(found).max()))
    return best


def survey_gain(
    params: Params, *, fraction: float = 0.05, frequency: float = 0.0
) -> dict[str, Poisoning]:
    """Return what fake respondents gain for the first value of every attribute, by attribute.

    One made-up report pushes a value of each attribute with ``spl`` and with fakes; with ``smp`` it
    pushes one attribute, named by the attacker: the gain is then of the attribute that all fake
    respondents name, at the expected number of honest reports of it.
    """
    part = _fraction(fraction)
    honest = proportion("frequency", frequency)
    found: dict[str, Poisoning] = {}
    for at, name in enumerate(params.names):
        if params.protocol.faked:
            field = params.fields[at]
            p, q = float(field.p), float(field.q)
            fake = float(field.fake_support[0])
            gain = part * ((params.d - q - (params.d - 1) * fake) / (p - q) - honest)
            found[name] = Poisoning(part, 1, 1.0, gain, part * (1 - honest))
            continue
        oracle = params.mechanisms[at]
        share = part
        if params.protocol.value == "smp":
            share = part / (part + (1 - part) / params.d)
        one = poisoning_gain(oracle, fraction=share, frequency=honest)
        if one is not None:
            found[name] = Poisoning(part, 1, one.supported, one.gain, part * (1 - honest))
    return found


def crafted_rows(params: Params, values: list[int], count: int) -> NDArray[np.uint64]:
    """Return rows of made-up reports that support one value of each attribute, and nothing else."""
    layout = row_layout(params)
    rows = np.zeros((count, row_words(layout.width)), np.uint64)
    for offset, field, value in zip(layout.offsets, params.fields, values, strict=True):
        lit = np.uint32(1)
        place, width = offset + value, 1
        if field.split is not None:
            lit, place, width = np.uint32(value), offset, field.width
        put_codes(rows, np.full(count, lit, np.uint32), place, width)
    return rows


def _fraction(fraction: float) -> float:
    part = proportion("fraction", fraction)
    if part >= 1:
        raise UsageError("fraction", fraction, "below 1")
    return part
