"""Attacks on reports of local differential privacy, and what they prove.

==========================  =============================================
:func:`guess_success`       guess the value from one report
:func:`averaging_success`   guess it from repeated reports
:func:`distinguish_oracle`  a lower bound of an oracle's epsilon
:func:`distinguish_tuples`  the same of a survey with fakes
:func:`infer_attributes`    which attribute of RS+FD or RS+RFD is true
:func:`reidentify`          find a respondent of several SMP surveys
:func:`poisoning_gain`      what fake respondents gain
==========================  =============================================

All of them attack reports that they make themselves, of known values: they audit a configuration,
not anyone's reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privagg._validate import whole
from privagg.attacks.ldp_attribute import (
    KNOWLEDGE,
    AttributeInference,
    attribute_posterior,
    infer_attributes,
)
from privagg.attacks.ldp_averaging import AveragingSuccess, averaging_success
from privagg.attacks.ldp_distinguisher import LowerBound, distinguish_oracle, distinguish_tuples
from privagg.attacks.ldp_guess import GuessSuccess, guess_success, guessing_rate
from privagg.attacks.ldp_poisoning import Poisoning, poisoning_gain, survey_gain
from privagg.attacks.ldp_reidentification import Reidentification, reidentify
from privagg.domain import Categorical
from privagg.domain.base import MAX_SIZE
from privagg.errors import UsageError
from privagg.mechanisms import CMS, HCMS, FrequencyOracle, make
from privagg.mechanisms.exact import check_epsilon
from privagg.protocols.multidim import Protocol, oracles_of

__all__ = [
    "KNOWLEDGE",
    "AttributeInference",
    "AveragingSuccess",
    "GuessSuccess",
    "LowerBound",
    "OracleAudit",
    "Poisoning",
    "Reidentification",
    "attribute_posterior",
    "audit_oracles",
    "averaging_success",
    "distinguish_oracle",
    "distinguish_tuples",
    "guess_success",
    "guessing_rate",
    "infer_attributes",
    "oracle_names",
    "poisoning_gain",
    "reidentify",
    "survey_gain",
]


@dataclass(frozen=True)
class OracleAudit:
    """All attacks on one frequency oracle.

    Attributes
    ----------
    oracle : FrequencyOracle
        The mechanism.
    bound : LowerBound
        Of its epsilon.
    guess : GuessSuccess
        Of the value from one report.
    poisoning : Poisoning or None
        None where the best made-up report is not known.
    """

    oracle: FrequencyOracle
    bound: LowerBound
    guess: GuessSuccess
    poisoning: Poisoning | None


def oracle_names() -> tuple[str, ...]:
    """Return the frequency oracles that are attacked: they need nothing but a domain and epsilon.

    Sketches (CMS, HCMS) are not among them: one report supports cells of a table, not values.
    """
    left_out = ("adp", "ue", "lh", "cms", "hcms")
    return tuple(name for name in oracles_of(Protocol.SMP) if name not in left_out)


def audit_oracles(
    k: int,
    epsilon: float,
    *,
    oracles: Sequence[str] | None = None,
    targets: int = 1,
    fraction: float = 0.05,
    trials: int = 20_000,
    seed: int = 0,
) -> list[OracleAudit]:
    """Attack frequency oracles over `k` values.

    Parameters
    ----------
    k : int
        How many values.
    epsilon : float
        Of each oracle.
    oracles : sequence of str, optional
        Which; unless given, those of :func:`oracle_names` that can realise epsilon.
    targets, fraction
        Of the poisoning; see :func:`~privagg.attacks.ldp_poisoning.poisoning_gain`.
    trials : int
        Reports of each value for the lower bound; a fifth of them for guessing.
    seed : int
        The experiments are repeatable.

    Raises
    ------
    UsageError
        If an argument is not as described, or an oracle that was asked for, or every one, cannot
        realise epsilon.
    """
    domain = Categorical(range(whole("k", k, 2, MAX_SIZE)))
    wanted = oracle_names() if oracles is None else oracles
    named = isinstance(wanted, list | tuple) and all(isinstance(one, str) for one in wanted)
    if not named or not wanted:
        raise UsageError("oracles", oracles, f"a list of {', '.join(oracle_names())}")
    check_epsilon(epsilon)
    found: list[OracleAudit] = []
    refusal: UsageError | None = None
    for name in wanted:
        try:
            oracle = make(name, domain, epsilon)
        except UsageError as error:
            if oracles is not None:
                raise
            refusal = error
            continue
        if not isinstance(oracle, FrequencyOracle) or isinstance(oracle, CMS | HCMS):
            raise UsageError("oracles", name, ", ".join(oracle_names()))
        found.append(
            OracleAudit(
                oracle,
                distinguish_oracle(oracle, trials=trials, seed=seed),
                guess_success(oracle, trials=max(trials // 5, 1), seed=seed),
                poisoning_gain(oracle, targets=targets, fraction=fraction),
            )
        )
    if refusal is not None and not found:
        raise refusal
    return found
