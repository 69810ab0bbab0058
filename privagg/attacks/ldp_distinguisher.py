"""How private are reports really? A lower bound of epsilon, from an attack on reports.

Many reports are made of one value (or tuple), many of another. The attacker watches an event; if
its probabilities are at least a under the one and at most b under the other, with confidence, then
epsilon is at least ln(a / b). No test of whether two inputs can be told apart beats the events "the
likelihood ratio is at least t" (Neyman and Pearson); t is chosen on reports that are not counted.

Source: the method is LDP-Audit's (Arcolezi, Gambs, "Revealing the True Cost of Locally
Differentially Private Protocols", PoPETs 2024), whose attack on RS+FD guesses the attribute and so
cannot see what its reports really give away; the likelihood ratio can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.attacks.ldp_arguments import (
    check_confidence,
    check_faked,
    check_oracle,
    check_reports,
    check_seed,
)
from privagg.attacks.ldp_binomial import lower_bound, upper_bound
from privagg.attacks.ldp_classifiers import unpacked
from privagg.attacks.ldp_guess import chunks, supports
from privagg.errors import UsageError
from privagg.mechanisms import FrequencyOracle
from privagg.protocols.multidim import Params, TupleReports, randomize_codes
from privagg.protocols.multidim.kernels import codes_of
from privagg.protocols.multidim.layout import row_layout

__all__ = [
    "LowerBound",
    "distinguish_oracle",
    "distinguish_tuples",
    "tuple_log_ratio",
    "worst_pair",
]

_THRESHOLDS = 64

_CHUNK = 1 << 16
"""Reports of a survey that are held at once."""


@dataclass(frozen=True)
class LowerBound:
    """What an attack proves of epsilon.

    Attributes
    ----------
    epsilon : float
        The lower bound; 0 where the attack proves nothing.
    stated : float
        What was stated.
    exact : float
        What the reports have by computation.
    trials : int
        Reports of each input that were counted.
    confidence : float
        Probability with which the bound is right.
    adjacency : str
        ``"value"``, ``"tuple"`` or ``"attribute"``: how the inputs differ.
    """

    epsilon: float
    stated: float
    exact: float
    trials: int
    confidence: float
    adjacency: str

    @property
    def exceeds(self) -> bool:
        """Whether the attack proves more than was stated."""
        return self.epsilon > self.stated


def distinguish_oracle(
    oracle: FrequencyOracle, *, trials: int = 20_000, confidence: float = 0.99, seed: int = 0
) -> LowerBound:
    """Tell reports of the domain's first value from reports of its last.

    Parameters
    ----------
    oracle : FrequencyOracle
        The mechanism.
    trials : int
        Reports of each value; half of them choose the event, half are counted.
    confidence : float
        Of the bound.
    seed : int
        The experiment is repeatable: it attacks reports that it made itself.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    check_oracle(oracle)
    count = whole("trials", trials, 2, 10**8)
    check_confidence(confidence)
    source = entropies.from_seed(check_seed(seed)).spawn("distinguisher")
    scores = []
    for number, value in enumerate((0, oracle.k - 1)):
        own = source.spawn(str(number))
        parts = []
        for part in chunks(oracle, count):
            reports = oracle.randomize_codes(np.full(part, value, np.uint32), own)
            found = supports(oracle, reports)
            parts.append(found[:, 0] - found[:, -1])
        scores.append(np.concatenate(parts))
    bound = _bound(scores[0], scores[1], confidence)
    return LowerBound(
        bound, oracle.epsilon, oracle.epsilon_realised, count - count // 2, confidence, "value"
    )


def distinguish_tuples(
    params: Params,
    *,
    adjacency: str = "tuple",
    trials: int = 200_000,
    confidence: float = 0.99,
    seed: int = 0,
) -> LowerBound:
    """Tell reports of one tuple from reports of another, by their exact likelihood ratio.

    Parameters
    ----------
    params : Params
        A survey with fakes.
    adjacency : str
        ``"tuple"``: the two tuples differ everywhere; ``"attribute"``: where it shows most.
    trials, confidence, seed
        As for :func:`distinguish_oracle`.
    """
    count = whole("trials", trials, 2, 10**8)
    check_confidence(confidence)
    first, second = worst_pair(params, adjacency)
    source = entropies.from_seed(check_seed(seed)).spawn("distinguisher")
    scores = []
    for number, values in enumerate((first, second)):
        own, parts = source.spawn(str(number)), []
        for start in range(0, count, _CHUNK):
            size = min(_CHUNK, count - start)
            codes = [np.full(size, value, np.uint32) for value in values]
            reports = randomize_codes(params, codes, own)
            parts.append(tuple_log_ratio(params, reports, first, second))
        scores.append(np.concatenate(parts))
    bound = _bound(scores[0], scores[1], confidence)
    exact = params.epsilon_tuple if adjacency == "tuple" else params.epsilon_attribute
    return LowerBound(bound, params.epsilon, exact, count - count // 2, confidence, adjacency)


def worst_pair(params: Params, adjacency: str) -> tuple[list[int], list[int]]:
    """Return two tuples that are told apart best: codes of the values.

    Parameters
    ----------
    params : Params
        A survey with fakes.
    adjacency : str
        ``"tuple"`` or ``"attribute"``.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    check_faked(params)
    if not isinstance(adjacency, str) or adjacency not in ("tuple", "attribute"):
        raise UsageError("adjacency", adjacency, "tuple, attribute")
    rarest = [int(field.prior.argmin()) for field in params.fields]
    others = [
        int(np.delete(np.arange(k), rare)[-1]) for k, rare in zip(params.sizes, rarest, strict=True)
    ]
    if adjacency == "tuple":
        return rarest, others
    total = sum(field.odds.least for field in params.fields)
    gains = []
    for field in params.fields:
        rest = total - field.odds.least
        gains.append(max((own + rest) / (other + rest) for own, other in field.odds.pairs))
    worst = gains.index(max(gains))
    # The others show least by a report that says a common value, and not theirs.
    first = list(rarest)
    second = list(first)
    second[worst] = others[worst]
    return first, second


def tuple_log_ratio(
    params: Params, reports: TupleReports, first: list[int], second: list[int]
) -> NDArray[np.float64]:
    """Return ln P(report | first) - ln P(report | second) of each report, ``(n,)``; exact.

    Parameters
    ----------
    params : Params
        The parameters that all parties agreed on.
    reports : TupleReports
        The reports.
    first : list of int
        Codes of one tuple, one per attribute.
    second : list of int
        Codes of the other.
    """
    check_faked(params)
    check_reports(params, reports)
    rows, layout = reports.groups[0][0], row_layout(params)
    sums = np.zeros((2, len(rows)))
    for at, (offset, field) in enumerate(zip(layout.offsets, params.fields, strict=True)):
        p, q = float(field.p), float(field.q)
        for side, values in enumerate((first, second)):
            value = values[at]
            if field.split is not None:
                codes = codes_of(rows, offset, field.width)
                sums[side] += np.where(codes == value, p, q) / field.prior[codes]
                continue
            bits = unpacked(rows, offset, field.width)
            lit, unlit = p / q, (1 - p) / (1 - q)
            own = np.where(bits[:, value] > 0, lit, unlit)
            mean = 1.0 if field.fakes is None else unlit + (lit - unlit) * (bits @ field.prior)
            sums[side] += own / mean
    return np.asarray(np.log(sums[0] / sums[1]), np.float64)


def _bound(first: NDArray[np.float64], second: NDArray[np.float64], confidence: float) -> float:
    """Return the lower bound of ln of a ratio of probabilities of one event, at least 0."""
    alpha = (1 - confidence) / 2
    half = first.size // 2
    levels = np.unique(np.quantile(first[:half], np.linspace(0, 1, _THRESHOLDS)))
    bounds = [_ratio(first[:half], second[:half], level, alpha) for level in levels]
    chosen = levels[int(np.argmax(bounds))]
    return max(0.0, _ratio(first[half:], second[half:], chosen, alpha))


def _ratio(
    first: NDArray[np.float64], second: NDArray[np.float64], level: float, alpha: float
) -> float:
    # A hair below, as equal ratios may differ in their last bits.
    edge = level - 1e-9
    low = lower_bound(int((first >= edge).sum()), first.size, alpha)
    high = upper_bound(int((second >= edge).sum()), second.size, alpha)
    return math.log(low / high) if low > 0 else 0.0
