"""What fakes are drawn from in RS+RFD: a prior for each attribute, with a floor and a price.

A fake is the better, the more it looks like a true value; so priors are made from what is known of
the values. Two things follow, which the papers leave to the reader:

- A value that fakes (almost) never have is a value whose report is (almost) surely true. For a
  guarantee about one attribute each probability needs a floor.
- A prior that was computed from people's data has spent these people's privacy. What it cost is
  part of the prior here, and of every result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from privagg._validate import as_array, proportion
from privagg.domain import Domain
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.estimate import Estimate, Vector
from privagg.mechanisms.exact import check_epsilon
from privagg.mechanisms.postprocess import norm_sub
from privagg.protocols.multidim.fields import FAKE_BITS, Counts

__all__ = ["TRUSTS", "Priors"]

TRUSTS: Mapping[str, str] = {
    "public": "nobody's data",
    "central": "the data of people who trusted whoever computed it",
    "local": "the reports of an earlier survey under local differential privacy",
}
"""What a prior may have been made of."""


@dataclass(frozen=True, eq=False)
class Priors:
    """A probability for each value of each attribute, none of them below a floor.

    Build it with :meth:`of`, :meth:`central` or :meth:`from_estimates`.

    Attributes
    ----------
    fakes : tuple of (k,) uint64 array
        For each attribute, in the survey's order: how many of the ``2**32`` words of 32 bits draw
        each value. They add up to ``2**32`` and none is 0.
    floor : float
        Each value has at least this part of what it would have if all were alike, ``floor / k``.
    epsilon : float
        What the prior cost those whose data it was made of; 0 if nobody's.
    trust : str
        A key of :data:`TRUSTS`.
    """

    fakes: tuple[Counts, ...] = field(repr=False)
    floor: float
    epsilon: float = 0.0
    trust: str = "public"

    @classmethod
    def of(
        cls,
        probabilities: Sequence[Any],
        *,
        floor: float = 0.1,
        epsilon: float = 0.0,
        trust: str = "public",
    ) -> Priors:
        """Make priors of given probabilities.

        Parameters
        ----------
        probabilities : sequence of (k,) arrays
            For each attribute, numbers from 0 that add up to 1 (up to 1e-6).
        floor : float
            From above 0 to 1: each is mixed with the uniform distribution, which gets this weight.
        epsilon : float
            What computing them has cost, and of whom: see :data:`TRUSTS`.
        trust : str
            As above; "public" if, and only if, `epsilon` is 0.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        mixed = proportion("floor", floor)
        if mixed == 0:
            hint = "Without one, a value that no fake has gives its owner away."
            raise UsageError("floor", floor, "above 0, up to 1", hint)
        if not isinstance(trust, str) or trust not in TRUSTS:
            raise UsageError("trust", trust, ", ".join(TRUSTS))
        _check_list("probabilities", probabilities)
        if (trust == "public") != (epsilon == 0):
            raise UsageError("epsilon", epsilon, "0 for a public prior, above 0 for any other")
        cost = 0.0 if epsilon == 0 else check_epsilon(epsilon)
        return cls(tuple(_counts(one, mixed) for one in probabilities), mixed, cost, trust)

    @classmethod
    def central(
        cls,
        counts: Sequence[Any],
        epsilon: float,
        *,
        floor: float = 0.1,
        entropy: Entropy = OS,
    ) -> Priors:
        """Make priors of exact counts with discrete Laplace noise, by somebody who saw the data.

        Guarantee: `epsilon`-differential privacy (central) of all priors together; adjacency: one
        person's tuple is replaced by any other. A tuple moves two counts of each attribute, so each
        count gets noise of scale 2 d / epsilon. The noise is integer and exact (Canonne, Kamath,
        Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, algorithm 2).

        Parameters
        ----------
        counts : sequence of (k,) integer arrays
            For each attribute, how many people have each value.
        epsilon : float
            Above 0. The papers' experiments take 0.1.
        floor : float
            See :meth:`of`.
        entropy : Entropy
            The operating system's unless given.
        """
        cost = check_epsilon(epsilon)
        draws = Draws(entropy)
        _check_list("counts", counts)
        scale = Fraction(2 * len(counts)) / Fraction(cost)
        noisy = []
        for one in counts:
            exact = as_array("counts", one)
            if exact.ndim != 1 or exact.dtype.kind not in "iu" or (exact.size and exact.min() < 0):
                what = f"{exact.dtype} array of shape {exact.shape}"
                raise UsageError("counts", what, "(k,) integers from 0 per attribute")
            found = np.array([int(c) + _discrete_laplace(scale, draws) for c in exact], np.float64)
            total = max(float(found.sum()), 1.0)
            noisy.append(norm_sub(found / total))
        return cls.of(noisy, floor=floor, epsilon=cost, trust="central")

    @classmethod
    def from_estimates(
        cls, estimates: Mapping[str, Estimate], epsilon: float, *, floor: float = 0.1
    ) -> Priors:
        """Make priors of the estimates of an earlier survey of the same attributes.

        `epsilon` is what a report of that survey cost its respondent. Who answers both surveys
        spends both.

        Parameters
        ----------
        estimates : mapping of str to Estimate
            By attribute.
        epsilon : float
            What the earlier survey cost.
        floor : float
            Above 0, up to 1; see the class.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        if not isinstance(estimates, Mapping) or not all(
            isinstance(one, Estimate) for one in estimates.values()
        ):
            what = type(estimates).__name__
            raise UsageError("estimates", what, "what Aggregator.estimate returns")
        found = [norm_sub(one.raw) for one in estimates.values()]
        return cls.of(found, floor=floor, epsilon=epsilon, trust="local")

    def check(self, domains: Sequence[Domain]) -> None:
        """Raise `UsageError` unless there is a prior of the right size for each attribute.

        Parameters
        ----------
        domains : sequence of Domain
            The attributes'.

        Raises
        ------
        UsageError
            If there is not.
        """
        sizes = [one.size for one in self.fakes]
        needed = [one.size for one in domains]
        if sizes != needed:
            raise UsageError("priors", f"sizes {sizes}", f"one for each attribute, sizes {needed}")

    def describe(self) -> dict[str, Any]:
        """Return the priors as a dict of numbers and lists."""
        return {
            "fakes": [one.tolist() for one in self.fakes],
            "floor": self.floor,
            "epsilon": self.epsilon,
            "trust": self.trust,
        }

    @classmethod
    def from_description(cls, table: Mapping[str, Any]) -> Priors:
        """Build what :meth:`describe` described; `UsageError` if it is none.

        Parameters
        ----------
        table : mapping of str
            As written.

        Raises
        ------
        UsageError
            If a key is missing, or a value refused.
        """
        try:
            fakes = tuple(np.array(one, np.uint64) for one in table["fakes"])
            found = cls(fakes, table["floor"], table["epsilon"], table["trust"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UsageError("priors", repr(error), "what Priors.describe returns") from None
        for one in fakes:
            if (
                one.ndim != 1
                or not one.size
                or int(one.min()) < 1
                or int(one.sum()) != 2**FAKE_BITS
            ):
                raise UsageError("priors.fakes", "others", "counts from 1 that add up to 2**32")
        if found.trust not in TRUSTS or (found.trust == "public") != (found.epsilon == 0):
            raise UsageError("priors.trust", found.trust, ", ".join(TRUSTS))
        return found


def _check_list(name: str, found: object) -> None:
    if isinstance(found, str | bytes) or not isinstance(found, Sequence | np.ndarray):
        raise UsageError(name, type(found).__name__, "a list of arrays, one per attribute")


def _counts(probabilities: Any, floor: float) -> Counts:
    """Return how many words draw each value: rounded, none 0, ``2**32`` in all."""
    given = as_array("probabilities", probabilities)
    if given.dtype.kind not in "iuf":
        raise UsageError("probabilities", f"{given.dtype} array", "numbers")
    values: Vector = given.astype(np.float64)
    fine = values.ndim == 1 and values.size >= 2 and bool(np.isfinite(values).all())
    if not fine or values.min() < 0 or abs(values.sum() - 1) > 1e-6:
        allowed = "for each attribute, numbers from 0 that add up to 1"
        raise UsageError("probabilities", "others", allowed)
    mixed = (1 - floor) * values / values.sum() + floor / values.size
    counts = np.maximum(np.floor(mixed * 2.0**FAKE_BITS), 1.0).astype(np.int64)
    # What rounding left over goes to the likeliest value, which has far more.
    counts[int(np.argmax(counts))] += 2**FAKE_BITS - int(counts.sum())
    return np.asarray(counts, np.uint64)


def _discrete_laplace(scale: Fraction, draws: Draws) -> int:
    """Return an integer x with probability proportional to e**(-abs(x) / scale); exact.

    :func:`~privagg.mechanisms.discrete_laplace.discrete_laplace` has the same law by a table, which
    ends at a scale of 2**15 and whose seeded numbers are others. Here any scale is allowed, and
    there are few counts to add noise to.
    """
    top, bottom = scale.numerator, scale.denominator
    while True:
        low = _uniform(top, draws)
        if not _bernoulli_exp(Fraction(low, top), draws):
            continue
        high = 0
        while _bernoulli_exp(Fraction(1), draws):
            high += 1
        size = (low + top * high) // bottom
        negative = _uniform(2, draws)
        if not (negative and size == 0):
            return -size if negative else size


def _bernoulli_exp(exponent: Fraction, draws: Draws) -> bool:
    """Return True with probability e**-exponent, for an exponent from 0 to 1; exact."""
    turn = 1
    while True:
        below = exponent / turn
        if not _uniform(below.denominator, draws) < below.numerator:
            return turn % 2 == 1
        turn += 1


def _uniform(bound: int, draws: Draws) -> int:
    """Return an integer uniform below `bound`, by rejection."""
    bits = (bound - 1).bit_length()
    words = max(1, (bits + 63) // 64)
    while True:
        found = int.from_bytes(draws.words64(words).tobytes(), "little") & ((1 << bits) - 1)
        if found < bound:
            return found
