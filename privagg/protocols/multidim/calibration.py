"""From a stated epsilon to the epsilon of each attribute's randomiser, for a stated adjacency.

===========  =======================================================================================
tuple        any two tuples of values: what local differential privacy means, and the default
attribute    two tuples that differ in one attribute only
published    as the papers on RS+FD and RS+RFD state it: epsilon' = ln(d (e**epsilon - 1) + 1)
===========  =======================================================================================

What `published` states is neither of the others. Exactly, two tuples can be told apart by
epsilon', and with unequal domains even one attribute by more than epsilon. Rounding is directed:
where a calibration has a guarantee, the stated epsilon is never exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction

from privagg.mechanisms.exact import exp_lower, exp_upper, log_upper
from privagg.protocols.multidim.exact_epsilon import attribute_ratio
from privagg.protocols.multidim.fields import Field

__all__ = ["Calibration", "PrivacyWarning", "amplified", "published", "share_of", "solve"]

_STEPS = 44
"""Halvings of the interval that holds epsilon': what is left is below a trillionth of it."""


class Calibration(StrEnum):
    """For which adjacency the stated epsilon holds."""

    TUPLE = "tuple"
    ATTRIBUTE = "attribute"
    PUBLISHED = "published"


class PrivacyWarning(UserWarning):
    """The stated epsilon is less than what the reports really have."""


def amplified(epsilon: float, attributes: int) -> float:
    """Return epsilon' = ln(d (e**epsilon - 1) + 1), rounded down.

    Source: Arcolezi et al., "Random Sampling Plus Fake Data", CIKM 2021, after Li et al.,
    "On Sampling, Anonymization, and Differential Privacy", ASIACCS 2012.
    """
    return _log_lower(attributes * (exp_lower(epsilon) - 1) + 1)


def published(ratio: Fraction, attributes: int) -> float:
    """Return the epsilon that the papers would state: ln(1 + (E - 1) / d), rounded up.

    Parameters
    ----------
    ratio : Fraction
        E, the largest ratio of the attributes' randomisers.
    attributes : int
        d.
    """
    return log_upper(1 + (ratio - 1) / attributes)


def share_of(epsilon: float, attributes: int) -> float:
    """Return epsilon / d, rounded down."""
    share = epsilon / attributes
    while Fraction(share) * attributes > Fraction(epsilon):
        share = math.nextafter(share, 0.0)
    return share


def solve(
    make: Callable[[float], Sequence[Field]], epsilon: float, attributes: int
) -> tuple[float, Sequence[Field]]:
    """Return the largest epsilon' with which tuples that differ in one attribute have `epsilon`.

    There is no closed form where the attributes differ; bisection between epsilon, which always
    will do, and the published epsilon', which is never too small. The largest ratio is computed
    exactly at each step, so that what is returned does not exceed e**epsilon whatever the floats
    in between.

    Parameters
    ----------
    make : callable
        Makes the attributes for an epsilon'.
    epsilon : float
        The stated epsilon.
    attributes : int
        d.
    """
    limit = exp_lower(epsilon)
    low, high = epsilon, amplified(epsilon, attributes)
    best = make(low)
    if attributes == 1:
        return low, best
    for step in range(_STEPS):
        middle = high if step == 0 else (low + high) / 2
        if not low < middle <= high:
            break
        found = make(middle)
        if attribute_ratio([one.odds for one in found]) <= limit:
            low, best = middle, found
            if step == 0:
                break
        else:
            high = middle
    return low, best


def _log_lower(ratio: Fraction) -> float:
    """Return a float at or just below ln(ratio)."""
    found = log_upper(ratio)
    while exp_upper(found) > ratio:
        found = math.nextafter(found, 0.0)
    return found
