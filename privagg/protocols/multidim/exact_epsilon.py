"""The exact privacy of reports that hide which attribute is the true one, as a ratio of integers.

A report y of d attributes holds one true attribute j, drawn uniformly, and fakes elsewhere:

    P(y | v) = (1/d) sum_j R_j(y_j | v_j) prod_{i != j} F_i(y_i)
             = prod_i F_i(y_i) (1/d) sum_j o_j,      o_j = R_j(y_j | v_j) / F_j(y_j)

with R_j the randomiser of attribute j and F_j the distribution of its fakes. The product is the
same for every v, so that only the sums of the odds o_j count:

two arbitrary tuples
    The largest ratio of sum_j o_j(v_j) to sum_j o_j(v'_j). Each attribute may be chosen for itself,
    so it is the root of sum_j max (o_j - t o'_j) = 0, found in exact arithmetic by Dinkelbach's
    method ("On Nonlinear Fractional Programming", Management Science 1967). It is never above the
    largest ratio of any one randomiser, and equals it where all are alike: hiding which attribute
    is the true one gains nothing against whoever compares two whole tuples.
tuples that differ in one attribute j
    (o_j + s) / (o'_j + s) at its largest, with s the least that the other attributes' odds add up
    to. This is where the sampling amplifies.

The odds of the variants, with E the ratio of the randomiser, a the odds of what does not fit:

==================  ============================================================================
GRR, uniform fakes  o = E a where y = v, else a, with a = k / (E + k - 1)
GRR, prior f        o = E q / f(y) where y = v, else q / f(y)
UE-z                o = p / q where the bit of v is set, else (1 - p) / (1 - q), whatever the rest
UE-r, prior f       the same two over their mean, weighted by f, over the bits that are set and not
==================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privagg.mechanisms.exact import BitPair, Split

__all__ = ["Odds", "attribute_ratio", "grr_odds", "tuple_ratio", "ue_r_odds", "ue_z_odds"]


@dataclass(frozen=True)
class Odds:
    """What one attribute of a report can say of its value, as odds against a fake.

    Attributes
    ----------
    pairs : tuple of (Fraction, Fraction)
        Odds of one report under two values, at the extremes of what any report can have: every
        other pair is a mean of these or larger in its second part.
    least : Fraction
        The smallest odds of any report under any value.
    """

    pairs: tuple[tuple[Fraction, Fraction], ...]
    least: Fraction


def grr_odds(split: Split, rarest: Fraction, commonest: Fraction) -> Odds:
    """Return the odds of randomised response, whose fakes have these extreme probabilities."""
    pairs = tuple((split.p / fake, split.q / fake) for fake in (rarest, commonest))
    return Odds(pairs, split.q / commonest)


def ue_z_odds(pair: BitPair) -> Odds:
    """Return the odds of unary encoding, with the encoding of no value at all as fake."""
    lit, unlit = _bit_odds(pair)
    return Odds(((lit, unlit),), unlit)


def ue_r_odds(pair: BitPair, rarest: Fraction) -> Odds:
    """Return the odds of unary encoding, with the encoding of a random value as fake.

    Parameters
    ----------
    pair : BitPair
        The bits.
    rarest : Fraction
        Probability of the rarest fake value.
    """
    lit, unlit = _bit_odds(pair)
    # The fewest set bits that show a value are its own alone, the most are all but the other's.
    means = [lit * part + unlit * (1 - part) for part in (rarest, 1 - rarest)]
    return Odds(tuple((lit / mean, unlit / mean) for mean in means), unlit / means[-1])


def _bit_odds(pair: BitPair) -> tuple[Fraction, Fraction]:
    return pair.p / pair.q, (1 - pair.p) / (1 - pair.q)


def tuple_ratio(odds: Sequence[Odds]) -> Fraction:
    """Return the largest P(y | v) / P(y | v') over all reports and any two tuples; exact."""
    choices = [(*one.pairs, (one.least, one.least)) for one in odds]
    ratio = Fraction(1)
    while True:
        best = [max(pairs, key=lambda pair: pair[0] - ratio * pair[1]) for pairs in choices]
        better = sum(own for own, _ in best) / sum((other for _, other in best), Fraction(0))
        # It grows with every turn, over finitely many choices.
        if better <= ratio:
            return ratio
        ratio = better


def attribute_ratio(odds: Sequence[Odds]) -> Fraction:
    """Return the largest P(y | v) / P(y | v') over tuples that differ in one attribute; exact."""
    total = sum((one.least for one in odds), Fraction(0))
    worst = Fraction(1)
    for one in odds:
        rest = total - one.least
        worst = max(worst, *((own + rest) / (other + rest) for own, other in one.pairs))
    return worst
