"""What repeated reports of one value give away: noise that is fresh each time averages out.

A respondent who answers the same question again and again with fresh randomness spends the sum of
the epsilons, and the aggregator guesses from all reports together: the value that they support
most. A mechanism that answers from memory (:class:`privagg.mechanisms.Longitudinal`) is bounded by
its permanent epsilon however many reports follow. This attack shows both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.attacks.ldp_arguments import check_oracle, check_seed
from privagg.attacks.ldp_guess import supports
from privagg.errors import UsageError
from privagg.mechanisms import FrequencyOracle, Longitudinal

__all__ = ["AveragingSuccess", "averaging_success"]

_MOST_SUPPORTS = 1 << 24


@dataclass(frozen=True)
class AveragingSuccess:
    """How often a value was guessed right from so many reports of it.

    Attributes
    ----------
    reports : tuple of int
        How many reports each respondent had sent.
    success : tuple of float
        Part of the respondents guessed right from them.
    error : tuple of float
        Standard error of each.
    epsilon : tuple of float
        What each respondent had spent: the sum of the epsilons, or `permanent` where that is less.
    ceiling : tuple of float
        The most that any attack reaches at that epsilon, values being uniform:
        e**epsilon / (e**epsilon + k - 1).
    baseline : float
        1/k: guessing blindly.
    remembered : bool
        Whether respondents answered from memory.
    """

    reports: tuple[int, ...]
    success: tuple[float, ...]
    error: tuple[float, ...]
    epsilon: tuple[float, ...]
    ceiling: tuple[float, ...]
    baseline: float
    remembered: bool


def averaging_success(
    oracle: FrequencyOracle,
    reports: Sequence[int] = (1, 2, 5, 10, 20, 50),
    *,
    remembered: bool | None = None,
    trials: int = 2000,
    seed: int = 0,
) -> AveragingSuccess:
    """Attack respondents who report the same, uniformly drawn value again and again.

    Source: the attack is that against which the permanent answers of RAPPOR were made (Erlingsson,
    Pihur, Korolova, CCS 2014, section 1). The guess is the value of the largest sum of supports,
    the likeliest one for every oracle whose report depends on the value only by what supports it.

    Parameters
    ----------
    oracle : FrequencyOracle
        The mechanism.
    reports : sequence of int
        After how many reports to guess, from 1.
    remembered : bool, optional
        Whether a mechanism with memory is used with it. Yes unless given, where it has one; with
        False respondents forget, which its guarantee excludes.
    trials : int
        Respondents.
    seed : int
        The experiment is repeatable: it attacks reports that it made itself.

    Returns
    -------
    AveragingSuccess
        How often the value is guessed after each number of reports.

    Raises
    ------
    UsageError
        If an argument is not as described, or the reports are of too many kinds to be decoded.
    """
    check_oracle(oracle)
    counts = _counts(reports)
    respondents = whole("trials", trials, 1, max(1, _MOST_SUPPORTS // oracle.k))
    check_seed(seed)
    has_memory = isinstance(oracle, Longitudinal)
    if remembered not in (None, True, False) or (remembered and not has_memory):
        allowed = "True or False" if has_memory else f"False or None: {oracle.name} has no memory"
        raise UsageError("remembered", remembered, allowed)
    remembers = has_memory if remembered is None else bool(remembered)
    rng = np.random.default_rng(seed)
    source = entropies.from_seed(seed).spawn("averaging")
    codes = rng.integers(0, oracle.k, respondents, dtype=np.uint32)
    values = oracle.domain.decode(codes)
    # Ties are broken at random, and the same way for all counts.
    total = 1e-9 * rng.random((respondents, oracle.k))
    memory = oracle.remember(respondents, source) if isinstance(oracle, Longitudinal) else None
    found = {}
    for count in range(1, max(counts) + 1):
        if remembers and memory is not None and isinstance(oracle, Longitudinal):
            sent = oracle.report(values, memory, source)
        else:
            sent = oracle.randomize_codes(codes, source)
        total += supports(oracle, sent)
        found[count] = float((total.argmax(axis=1) == codes).mean())
    spent = [_spent(oracle, count, remembers) for count in counts]
    return AveragingSuccess(
        reports=counts,
        success=tuple(found[count] for count in counts),
        error=tuple(_error(found[count], respondents) for count in counts),
        epsilon=tuple(spent),
        ceiling=tuple(1 / (1 + (oracle.k - 1) * math.exp(-epsilon)) for epsilon in spent),
        baseline=1 / oracle.k,
        remembered=remembers,
    )


def _counts(reports: Sequence[int]) -> tuple[int, ...]:
    if isinstance(reports, str | bytes) or not isinstance(reports, Sequence) or not len(reports):
        raise UsageError("reports", type(reports).__name__, "a sequence of whole numbers from 1")
    return tuple(whole("reports", count, 1, 10_000) for count in reports)


def _spent(oracle: FrequencyOracle, count: int, remembers: bool) -> float:
    each = count * oracle.epsilon_realised
    if remembers and isinstance(oracle, Longitudinal):
        return min(each, oracle.permanent_realised)
    return each


def _error(success: float, trials: int) -> float:
    return math.sqrt(max(success * (1 - success), 1 / trials) / trials)
