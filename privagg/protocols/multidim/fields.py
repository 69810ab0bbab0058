"""One attribute of a report with fakes: how the true value is randomised, how a fake is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privagg.errors import UsageError
from privagg.mechanisms.estimate import Vector
from privagg.mechanisms.exact import BitPair, Split, bit_pair, split
from privagg.protocols.multidim.exact_epsilon import Odds, grr_odds, ue_r_odds, ue_z_odds

__all__ = ["FAKE_BITS", "VARIANTS", "Counts", "Field", "make_field", "uniform_fakes"]

FAKE_BITS = 32
"""A fake value is drawn with one word of so many bits: its probability is a count of words."""

VARIANTS = ("grr", "sue-z", "sue-r", "oue-z", "oue-r")
"""The randomisers. Fakes are uniform values (grr), the encoding of no value (-z), or the encoding
of a random value (-r)."""

Counts = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Field:
    """One attribute: randomiser and fakes, as counts of words.

    Attributes
    ----------
    variant : str
        One of :data:`VARIANTS`.
    k : int
        How many values the attribute has.
    split : Split or None
        The thresholds of ``grr``.
    pair : BitPair or None
        Those of the others.
    fakes : (k,) uint64 array or None
        How many of the ``2**32`` words draw each fake value; None where fakes are no values.
    """

    variant: str
    k: int
    split: Split | None
    pair: BitPair | None
    fakes: Counts | None = field(repr=False)

    @property
    def p(self) -> Fraction:
        """Probability that the true value is supported, if this attribute is the true one."""
        return self._chances.p

    @property
    def q(self) -> Fraction:
        """Probability that another value is supported, if this attribute is the true one."""
        return self._chances.q

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the randomiser's probabilities: e to its realised epsilon."""
        return self._chances.ratio

    @property
    def width(self) -> int:
        """Bits in a report."""
        return self.k if self.split is None else (self.k - 1).bit_length()

    @cached_property
    def odds(self) -> Odds:
        """What a report can say of the value, as odds against a fake."""
        if self.fakes is None:
            assert self.pair is not None
            return ue_z_odds(self.pair)
        rarest = Fraction(int(self.fakes.min()), 2**FAKE_BITS)
        if self.split is not None:
            return grr_odds(self.split, rarest, Fraction(int(self.fakes.max()), 2**FAKE_BITS))
        assert self.pair is not None
        return ue_r_odds(self.pair, rarest)

    @cached_property
    def prior(self) -> Vector:
        """Probability of each fake value, ``(k,)``; zeros where fakes are no values."""
        if self.fakes is None:
            return np.zeros(self.k)
        return np.asarray(self.fakes / 2.0**FAKE_BITS, np.float64)

    @cached_property
    def fake_support(self) -> Vector:
        """Probability that a fake supports each value, ``(k,)``."""
        if self.split is not None:
            return self.prior
        return float(self.q) + float(self.p - self.q) * self.prior

    def shares(self, frequencies: Vector, attributes: int) -> tuple[Vector, Vector]:
        """Return the probability that a report supports a value: of those who have it, of others.

        Parameters
        ----------
        frequencies : (k,) float64 array
            Only its shape matters.
        attributes : int
            d: the attribute is the true one with probability 1/d.
        """
        fake = np.broadcast_to((attributes - 1) * self.fake_support, frequencies.shape)
        return (float(self.p) + fake) / attributes, (float(self.q) + fake) / attributes

    def raw(self, counts: NDArray[np.int64], users: int, attributes: int) -> Vector:
        """Return the unbiased estimates of the frequencies from supporting reports.

        E N(v) / n = (q + f(v) (p - q) + (d - 1) F(v)) / d, with F(v) the probability that a fake
        supports v; solved for f(v).
        """
        mean = attributes * (counts / users) - (attributes - 1) * self.fake_support
        return np.asarray((mean - float(self.q)) / float(self.p - self.q), np.float64)

    def variance(self, frequencies: Vector, attributes: int) -> Vector:
        """Return n times the variance of the raw estimates, over the protocol's randomness.

        d**2 (f s1 (1 - s1) + (1 - f) s0 (1 - s0)) / (p - q)**2, with s1 and s0 as in
        :meth:`shares`. With f (1 - f) added it is the papers' d**2 s (1 - s) / (p - q)**2, where
        the respondents are themselves a sample.
        """
        own, other = self.shares(frequencies, attributes)
        spread = frequencies * own * (1 - own) + (1 - frequencies) * other * (1 - other)
        return np.asarray(attributes**2 * spread / float(self.p - self.q) ** 2, np.float64)

    @property
    def _chances(self) -> Split | BitPair:
        if self.split is not None:
            return self.split
        assert self.pair is not None
        return self.pair

    def thresholds(self) -> dict[str, int]:
        """Return the integers that fix the distribution of true values' reports, by name."""
        if self.split is not None:
            return {"bits": self.split.bits, "other": self.split.other}
        assert self.pair is not None
        return {"bits": self.pair.bits, "one": self.pair.one, "zero": self.pair.zero}


def make_field(variant: str, k: int, epsilon: float, fakes: Counts | None = None) -> Field:
    """Return an attribute's randomiser at `epsilon`, with uniform fakes unless given.

    Parameters
    ----------
    variant : str
        One of :data:`VARIANTS`.
    k : int
        How many values the attribute has.
    epsilon : float
        Of the randomiser: e to it bounds the ratio of its probabilities.
    fakes : (k,) uint64 array, optional
        How many of the ``2**32`` words draw each fake value, none of them zero.

    Raises
    ------
    UsageError
        If 64-bit thresholds cannot realise epsilon, or the variant has no such fakes.
    """
    if variant not in VARIANTS:
        raise UsageError("oracle", variant, ", ".join(VARIANTS))
    if variant.endswith("-z"):
        if fakes is not None:
            raise UsageError("priors", "given", "none: fakes of this variant are no values")
    elif fakes is None:
        fakes = uniform_fakes(k)
    if variant == "grr":
        return Field(variant, k, split(k, epsilon), None, fakes)
    half = Fraction(1, 2) if variant.startswith("oue") else None
    return Field(variant, k, None, bit_pair(epsilon, half), fakes)


def uniform_fakes(k: int) -> Counts:
    """Return how many words ``w`` of 32 bits have ``w * k >> 32`` equal to each of `k` values.

    They differ by at most one: what is not quite uniform is in the accounts, not thrown away.
    """
    starts = np.arange(k + 1, dtype=np.uint64) << np.uint64(FAKE_BITS)
    return np.diff((starts + np.uint64(k - 1)) // np.uint64(k))
