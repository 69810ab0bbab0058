"""Guess which attribute of a report with fakes is the true one.

RS+FD and RS+RFD hide which attribute a respondent reported. With F the distribution of fakes and
pi_j what the attacker believes of attribute j's values, the posterior is

    P(j | y)  proportional to  sum_v pi_j(v) R_j(y_j | v) / F_j(y_j)

and guessing its largest is the best that any attacker with that knowledge can do. A classifier
trained on made-up respondents, as in Arcolezi et al., "On the Risks of Collecting Multidimensional
Data Under Local Differential Privacy", PVLDB 2023, can only come close to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg.attacks.ldp_arguments import (
    check_beliefs,
    check_faked,
    check_reports,
    check_seed,
)
from privagg.attacks.ldp_classifiers import boosted, features, logistic, unpacked
from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.postprocess import norm_sub
from privagg.protocols.multidim import Aggregator, Params, TupleReports
from privagg.protocols.multidim.fields import Field
from privagg.protocols.multidim.kernels import codes_of
from privagg.protocols.multidim.layout import row_layout
from privagg.protocols.multidim.respondent import encode, sampled_attributes

__all__ = [
    "CLASSIFIERS",
    "KNOWLEDGE",
    "AttributeInference",
    "attribute_posterior",
    "infer_attributes",
]

KNOWLEDGE: Mapping[str, str] = {
    "marginals": "the true frequencies of each attribute's values",
    "estimates": "what the attacker estimates from the reports themselves",
    "nothing": "all values equally likely",
}
"""What the attacker believes of the values."""

CLASSIFIERS = ("logistic", "boosted")
"""Multinomial logistic regression; gradient-boosted trees, which need scikit-learn."""

_CHUNK = 1 << 15


@dataclass(frozen=True)
class AttributeInference:
    """How often the attacker guesses the true attribute.

    Attributes
    ----------
    users : int
        Reports attacked.
    success : float
        Part of them whose attribute was guessed right.
    expected : float
        What the attacker expects: the mean of the largest posterior. It is the success in
        expectation if the beliefs are true and the attributes independent.
    baseline : float
        1/d: guessing blindly.
    knowledge : str
        A key of :data:`KNOWLEDGE`.
    classified : float or None
        Success of the trained classifier; None where none was asked for.
    """

    users: int
    success: float
    expected: float
    baseline: float
    knowledge: str
    classified: float | None = None


def attribute_posterior(
    params: Params, reports: TupleReports, beliefs: Sequence[Vector]
) -> NDArray[np.float64]:
    """Return P(attribute j is the true one | report), ``(n, d)``.

    Parameters
    ----------
    params : Params
        A survey with fakes.
    reports : TupleReports
        Of that survey.
    beliefs : sequence of (k,) float arrays
        For each attribute, the probability of each value.

    Raises
    ------
    UsageError
        If the survey has no fakes, or the beliefs do not fit it.
    """
    check_faked(params)
    check_reports(params, reports)
    arrays = check_beliefs(params, beliefs)
    rows, layout = reports.groups[0][0], row_layout(params)
    odds = np.empty((len(rows), params.d))
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        for at, (offset, field) in enumerate(zip(layout.offsets, params.fields, strict=True)):
            odds[start : start + _CHUNK, at] = _odds(part, offset, field, arrays[at])
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _odds(rows: NDArray[np.uint64], offset: int, field: Field, belief: Vector) -> Vector:
    """Return the odds of each report's value of one attribute to be true, against fake."""
    p, q = float(field.p), float(field.q)
    if field.split is not None:
        table = (q + (p - q) * belief) / field.prior
        return np.asarray(table[codes_of(rows, offset, field.width)])
    bits = unpacked(rows, offset, field.width)
    lit, unlit = p / q, (1 - p) / (1 - q)
    own = unlit + (lit - unlit) * (bits @ belief)
    if field.fakes is None:
        return np.asarray(own)
    return np.asarray(own / (unlit + (lit - unlit) * (bits @ field.prior)))


def infer_attributes(
    params: Params,
    columns: Mapping[str, Any],
    *,
    knowledge: str = "estimates",
    classifier: str | None = None,
    seed: int = 0,
) -> AttributeInference:
    """Let respondents report, and guess the true attribute of each report.

    Parameters
    ----------
    params : Params
        A survey with fakes.
    columns : mapping of str to column
        For each attribute the respondents' values.
    knowledge : str
        A key of :data:`KNOWLEDGE`.
    classifier : str, optional
        Also train one of :data:`CLASSIFIERS` on respondents made up from the same knowledge.
    seed : int
        The experiment is repeatable: it attacks reports that it made itself.

    Returns
    -------
    AttributeInference

    Raises
    ------
    UsageError
        If an argument is not as described, or scikit-learn is asked for and not installed.
    """
    check_faked(params)
    if not isinstance(knowledge, str) or knowledge not in KNOWLEDGE:
        raise UsageError("knowledge", knowledge, ", ".join(KNOWLEDGE))
    known = isinstance(classifier, str) and classifier in CLASSIFIERS
    if classifier is not None and not known:
        raise UsageError("classifier", classifier, f"{', '.join(CLASSIFIERS)} or None")
    check_seed(seed)
    codes = encode(params, columns)
    if codes[0].size == 0:
        raise UsageError("columns", "no respondents", "at least one")
    source = entropies.from_seed(seed)
    reports, which = sampled_attributes(params, codes, source.spawn("respondents"))
    if knowledge == "marginals":
        sizes = zip(codes, params.sizes, strict=True)
        beliefs = [np.bincount(column, minlength=k) / column.size for column, k in sizes]
    elif knowledge == "estimates":
        aggregator = Aggregator(params)
        aggregator.receive(reports)
        found = aggregator.estimate(post=None)
        beliefs = [norm_sub(one.raw) for one in found.values()]
    else:
        beliefs = [np.full(k, 1 / k) for k in params.sizes]
    posterior = attribute_posterior(params, reports, beliefs)
    success = float((posterior.argmax(axis=1) == which).mean())
    trained = None
    if classifier is not None:
        made_up = made_up_respondents(beliefs, codes[0].size, seed)
        own, labels = sampled_attributes(params, made_up, source.spawn("training"))
        fit = logistic if classifier == "logistic" else boosted
        guesses = fit(features(params, own), labels, features(params, reports), params.d, seed)
        trained = float((guesses == which).mean())
    return AttributeInference(
        users=len(reports),
        success=success,
        expected=float(posterior.max(axis=1).mean()),
        baseline=1 / params.d,
        knowledge=knowledge,
        classified=trained,
    )


def made_up_respondents(beliefs: Sequence[Vector], n: int, seed: int) -> list[NDArray[np.uint32]]:
    """Return codes of n respondents whose attributes are independent, as believed."""
    rng = np.random.default_rng(seed)
    return [rng.choice(one.size, n, p=one / one.sum()).astype(np.uint32) for one in beliefs]
