"""What all mechanisms of local differential privacy share.

A respondent's value becomes a report on the respondent's own side (:meth:`Mechanism.randomize`);
an aggregator, whom nobody trusts, adds reports up (:meth:`Mechanism.aggregate`) and estimates.

Guarantee, of every mechanism here: epsilon-local differential privacy of one report. For any two
values x, x' of the domain (the cell for unknown values included) and any report y,
P(y | x) <= e**epsilon P(y | x'). This needs no assumption on the aggregator, nor on its computing
power; the words drawn are pseudo-random (AES-128), which replaces "probability" by what can be told
apart. Adjacency: one respondent's value is replaced by any other. A respondent who reports
r times spends the sum of the epsilons (:class:`privagg.accounting.Ledger` adds them up). That a
respondent takes part is not hidden, and nobody can tell a report that was made up from an honest
one: a few dishonest respondents can move an estimate.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import as_array, whole
from privagg.domain import Domain
from privagg.domain.base import Codes, check_codes
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.collector import Collector, Columns
from privagg.mechanisms.estimate import Estimate, Vector, interval_factor
from privagg.mechanisms.postprocess import METHODS, norm_sub, post_process
from privagg.mechanisms.reports import Reports
from privagg.mechanisms.state import MAX_REPORTS, State

__all__ = ["Columns", "FrequencyOracle", "Mechanism", "PureOracle"]


class Mechanism(Collector):
    """A randomiser of one value, and the sums that an aggregator keeps of its reports.

    Parameters
    ----------
    domain : Domain
        The declared values.
    epsilon : float
        The privacy parameter of one report, above 0. Integer thresholds realise at most it, and
        nearly it; see :attr:`epsilon_realised`.

    Raises
    ------
    UsageError
        If an argument is not as described, or epsilon cannot be realised.
    """

    def __init__(self, domain: Domain, epsilon: float) -> None:
        if not isinstance(domain, Domain):
            hint = "Such as privagg.domain.Categorical([...])."
            raise UsageError("domain", type(domain).__name__, "a declared domain", hint)
        super().__init__(epsilon)
        self._domain = domain

    @property
    def domain(self) -> Domain:
        """The declared values."""
        return self._domain

    @property
    def k(self) -> int:
        """How many values the domain has."""
        return self._domain.size

    @property
    def guarantee(self) -> str:
        """What one report promises, in words."""
        realised = f"{self.epsilon_realised:.6g}"
        promise = f"({realised}, {self.delta:.6g})" if self.delta else realised
        return (
            f"{promise}-local differential privacy of one report (stated: {self.epsilon:.6g}); "
            f"adjacency: one respondent's value replaced by any other of the {self.k} of the domain"
        )

    @property
    def options(self) -> dict[str, Any]:
        """Arguments beside domain and epsilon with which an equal mechanism is built."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return a dict from which :func:`privagg.mechanisms.mechanism_from` builds an equal one.

        It has the keys mechanism, epsilon, domain and, where there are any, options.
        """
        found: dict[str, Any] = {
            "mechanism": self.name,
            "epsilon": self._epsilon,
            "domain": self._domain.describe(),
        }
        return {**found, "options": self.options} if self.options else found

    def randomize(self, values: Any, entropy: Entropy = OS) -> Reports:
        """Return one report for each value: what leaves the respondents.

        Parameters
        ----------
        values : list, tuple, ndarray or column
            Values of the domain; see :meth:`privagg.domain.Domain.encode`. They are not changed.
        entropy : Entropy
            The operating system's unless given. With a seeded one the run can be repeated, and the
            reports are marked insecure.

        Raises
        ------
        UsageError
            If a value is outside the domain and the domain has no cell for such values.
        """
        return self.randomize_codes(self._domain.encode(values), entropy)

    def randomize_codes(self, codes: NDArray[Any], entropy: Entropy = OS) -> Reports:
        """Return one report for each code of the domain, an integer from 0 to ``k - 1``.

        Parameters
        ----------
        codes : (n,) array of unsigned integers
            Codes of the domain's values.
        entropy : Entropy
            Where randomness comes from: the operating system, unless it is to be repeatable.
        """
        checked = check_codes(codes, self.k)
        draws = Draws(entropy)
        return self._reports(self._randomize(checked, draws), draws.insecure)

    @abstractmethod
    def _randomize(self, codes: Codes, draws: Draws) -> Columns:
        """Return the columns of the reports of checked codes."""

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({self._domain!r}, {self._epsilon!r}{options})"


class FrequencyOracle(Mechanism):
    """A mechanism whose reports estimate how frequent each value of a domain is.

    ``raw`` estimates are unbiased, whatever the values: the expectation of each is the frequency
    among the respondents, and :meth:`variance` is its variance, over the mechanism's randomness.

    Source: Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017, section 3.
    """

    def estimate(
        self,
        state: State,
        confidence: float = 0.95,
        post: str | None = "norm-sub",
        *,
        population: bool = False,
    ) -> Estimate:
        """Estimate the frequency of each value.

        Parameters
        ----------
        state : State
            The sums over all reports.
        confidence : float
            Probability with which each interval alone holds the true frequency.
        post : str or None
            Post-processing, one of :data:`privagg.mechanisms.METHODS`; None publishes the raw
            estimates. It costs no privacy, and the raw estimates are kept in any case.
        population : bool
            Count the respondents as a sample of a large population: adds f (1 - f) / n to each
            variance.

        Raises
        ------
        UsageError
            If the state holds no report, or an argument is not as described.
        PeerError
            If the state is of another configuration.
        """
        self._is_own(state)
        state.check_size(self.sums_size)
        if post is not None and (not isinstance(post, str) or post not in METHODS):
            raise UsageError("post", post, f"{', '.join(METHODS)} or None")
        factor = interval_factor(confidence)
        if state.users == 0:
            raise UsageError("state", "no reports", "at least one report")
        raw = self._raw(state)
        # The closed forms need frequencies: the nearest that are some.
        variance = self._variances(state.users, norm_sub(raw), population)
        reach = factor * np.sqrt(variance)
        values = raw if post is None else post_process(post, raw, state.users, self)
        return Estimate(
            self._domain.labels,
            raw,
            values,
            variance,
            raw - reach,
            raw + reach,
            users=state.users,
            confidence=float(confidence),
            population=bool(population),
            post=post,
            mechanism=self.name,
            epsilon=self.epsilon,
            epsilon_realised=self.epsilon_realised,
            insecure=state.insecure,
        )

    def variance(self, n: int, frequency: Any = 0.0, *, population: bool = False) -> Any:
        """Return the variance of the raw estimate of a value, in closed form.

        Parameters
        ----------
        n : int
            Number of reports.
        frequency : float or array
            Frequency of the value, from 0 to 1.
        population : bool
            See :meth:`estimate`.

        Returns
        -------
        float or float64 array of the shape of `frequency`

        Raises
        ------
        UsageError
            If an argument is out of range.
        """
        users = whole("n", n, 1, MAX_REPORTS)
        frequencies = check_frequencies(frequency)
        found = self._variance(frequencies) / users
        if population:
            found = found + frequencies * (1 - frequencies) / users
        return float(found) if np.ndim(frequency) == 0 else found

    def _variances(self, users: int, frequencies: Vector, population: bool) -> Vector:
        """Return the variance of each raw estimate, given the frequencies of all values."""
        found: Vector = np.asarray(self.variance(users, frequencies, population=population))
        return found

    @abstractmethod
    def _variance(self, frequencies: Vector) -> Vector:
        """Return the variance of the raw estimate for one report, times reports."""

    @abstractmethod
    def _raw(self, state: State) -> Vector:
        """Return the unbiased estimates."""


class PureOracle(FrequencyOracle):
    """A frequency oracle whose reports each support some values, symmetrically.

    A report supports its own value with probability `p`, and each other value with probability
    `q`, the same for all (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for
    Frequency Estimation", USENIX Security 2017, section 3). With C(v) reports that support v, the
    estimate is (C(v) / n - q) / (p - q), of variance (f p (1 - p) + (1 - f) q (1 - q)) /
    (n (p - q)**2) over the mechanism's randomness.
    """

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """Probability that a report supports its own value; exact."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """Probability that a report supports another value; exact."""

    @property
    def sums_size(self) -> int:
        """How many sums a state has: the supporting reports of each value."""
        return self.k

    def _raw(self, state: State) -> Vector:
        share = state.sums / state.users
        other, gap, _, _ = self._rates
        return np.asarray((share - other) / gap, np.float64)

    def _variance(self, frequencies: Vector) -> Vector:
        _, _, own, other = self._rates
        return frequencies * own + (1 - frequencies) * other

    @cached_property
    def _rates(self) -> tuple[float, float, float, float]:
        """The floats nearest to q, p - q, and n Var for frequencies 1 and 0."""
        p, q = self.p, self.q
        gap = p - q
        own, other = p * (1 - p) / gap**2, q * (1 - q) / gap**2
        return float(q), float(gap), float(own), float(other)


def check_frequencies(frequency: Any) -> Vector:
    """Return frequencies as floats, if they are numbers from 0 to 1.

    Raises
    ------
    UsageError
        If they are not.
    """
    array = as_array("frequency", frequency)
    if array.dtype.kind not in "iuf" or not bool(((array >= 0) & (array <= 1)).all()):
        raise UsageError("frequency", frequency, "numbers from 0 to 1")
    return array.astype(np.float64)
