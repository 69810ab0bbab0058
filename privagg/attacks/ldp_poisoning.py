"""What fake respondents gain: reports made up to push some values.

No report of local differential privacy can be told from an honest one, so whoever controls some
respondents sends what supports his values most (the maximal gain attack of Cao, Jia, Gong, "Data
Poisoning Attacks to Local Differential Privacy Protocols", USENIX Security 2021). With a fraction b
of fake respondents, each of whose reports supports s of r target values, the targets' estimated
frequencies gain in all, in expectation,

    b ((s - r q) / (p - q) - f)

with f their honest frequencies' sum. Where estimates are no counts of support (HR, SHE, a table's
randomised response) the fraction is what the best report alone estimates for the targets. For
surveys with fakes q and p stand for what reports without and with the value support, fakes
included: then a made-up report supports targets in every attribute at once, and d-fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import proportion, whole
from privagg.attacks.ldp_arguments import check_faked, check_oracle, check_params
from privagg.errors import UsageError
from privagg.mechanisms import (
    GRR,
    PGR,
    SHE,
    FrequencyOracle,
    HadamardResponse,
    LocalHashing,
    PureOracle,
    RandomizedResponse,
    Reports,
    SubsetSelection,
    UnaryEncoding,
)
from privagg.mechanisms._kernels.bits import row_words
from privagg.mechanisms.state import State
from privagg.protocols.multidim import Params
from privagg.protocols.multidim.kernels import put_codes
from privagg.protocols.multidim.layout import row_layout

__all__ = ["Poisoning", "crafted_rows", "most_supported", "poisoning_gain", "survey_gain"]

_TRIED = 1 << 12
"""The most different reports of which each is tried."""


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

    Returns
    -------
    Poisoning or None
        None if the best made-up report of this oracle is not known here: of sketches, and of
        oracles whose reports are too many to try each.

    Raises
    ------
    UsageError
        If an argument is out of range.
    """
    check_oracle(oracle)
    count = whole("targets", targets, 1, oracle.k)
    part = _fraction(fraction)
    honest = proportion("frequency", frequency)
    found = _of_one_report(oracle, count)
    if found is None:
        return None
    supported, moved = found
    return Poisoning(part, count, supported, part * (moved - honest), part * (1 - honest))


def most_supported(oracle: FrequencyOracle, targets: int) -> float | None:
    """Return how many of the domain's first `targets` values one report can support."""
    if isinstance(oracle, GRR):
        return 1.0
    if isinstance(oracle, UnaryEncoding | LocalHashing):
        # The hash function is the respondent's to draw: with a = 0 all values share a cell.
        return float(targets)
    if isinstance(oracle, SubsetSelection):
        return float(min(targets, oracle.w))
    return None


def _of_one_report(oracle: FrequencyOracle, targets: int) -> tuple[float, float] | None:
    """Return how many targets the best report supports, and what it alone estimates for them."""
    supported = most_supported(oracle, targets)
    if supported is not None and isinstance(oracle, PureOracle):
        p, q = float(oracle.p), float(oracle.q)
        return supported, (supported - targets * q) / (p - q)
    if isinstance(oracle, SHE):
        top = np.full(oracle.sums_size, oracle.channel.outputs - 1, np.int64)
        alone = oracle.estimate(State(oracle.digest, 1, top), post=None).raw
        return float(targets), float(alone[:targets].sum())
    column = oracle.layout[0]
    reports = column.limit or 1 << column.bits
    if not isinstance(oracle, HadamardResponse | PGR | RandomizedResponse) or reports > _TRIED:
        return None
    each = np.arange(reports).astype(column.dtype)[:, None]
    # Estimates are means over reports, so the best report is the best one alone.
    alone = np.stack([_alone(oracle, one)[:targets] for one in each])
    best = int(alone.sum(axis=1).argmax())
    return float((alone[best] > 0).sum()), float(alone[best].sum())


def _alone(oracle: FrequencyOracle, column: NDArray[Any]) -> NDArray[np.float64]:
    """Return the raw estimates of one report."""
    report = Reports(oracle.digest, oracle.layout, (column,))
    return oracle.estimate(oracle.aggregate(report), post=None).raw


def survey_gain(
    params: Params, *, fraction: float = 0.05, frequency: float = 0.0
) -> dict[str, Poisoning]:
    """Return what fake respondents gain for the first value of every attribute, by attribute.

    One made-up report pushes a value of each attribute with ``spl`` and with fakes; with ``smp`` it
    pushes one attribute, named by the attacker: the gain is then of the attribute that all fake
    respondents name, at the expected number of honest reports of it.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    fraction : float
        Fraction of the respondents that are fake, from 0 to below 1.
    frequency : float
        True frequency of the attacked value, from 0 to 1.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    check_params(params)
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
    """Return rows of made-up reports that support one value of each attribute, and nothing else.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    values : list of int
        A code for each attribute.
    count : int
        How many rows.

    Returns
    -------
    (count, words) uint64 array
    """
    check_faked(params)
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
