"""Means of many numbers from each respondent, who reports a few of them, chosen at random."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.domain import Domain, Floats, Integers, domain_from
from privagg.domain.base import check_codes
from privagg.entropy import OS, Entropy
from privagg.errors import UsageError
from privagg.mechanisms._draws import Draws
from privagg.mechanisms.additive import Laplace
from privagg.mechanisms.collector import Collector, Columns
from privagg.mechanisms.duchi import Duchi, Hybrid
from privagg.mechanisms.mean_estimate import MeanEstimate
from privagg.mechanisms.numeric import NumericMechanism
from privagg.mechanisms.reports import Column, Reports
from privagg.mechanisms.square_wave import SquareWave
from privagg.mechanisms.state import MAX_REPORTS, State
from privagg.mechanisms.window import Piecewise

__all__ = ["SampledAttributes"]

_KINDS: Mapping[str, type[NumericMechanism]] = {
    kind.name: kind for kind in (Hybrid, Piecewise, Duchi, Laplace, SquareWave)
}
_MOST = 1024


class SampledAttributes(Collector):
    """Means of d numbers: each respondent reports `sampled` of them, with epsilon split among them.

    Which attributes are reported does not depend on the values, and the report shows it. Sampling
    one of d with all of epsilon has about a d-th of the error of reporting all with a d-th of it.

    Guarantee: for any two tuples of values and any report the probabilities differ by a factor of
    e**epsilon at most. Adjacency: **all** of one respondent's values replaced. The mechanisms'
    own ratios are exact, and `ratio` is the product of the `sampled` largest.

    Source: Wang et al., "Collecting and Analyzing Multidimensional Data with Local Differential
    Privacy", ICDE 2019, algorithm 4. Here an attribute's mean is that of the reports which have
    it, instead of n / d of them: sampling then adds less, and its part is in the intervals.

    Parameters
    ----------
    attributes : mapping of str to Integers or Floats
        The declared ranges, in their order; 1 to 1,024.
    epsilon : float
        The privacy parameter of one report.
    mechanism : str
        ``"hybrid"``, ``"pm"``, ``"duchi"``, ``"laplace"`` or ``"sw"``.
    sampled : int, optional
        How many attributes a respondent reports; the source's max(1, min(d, floor(epsilon / 2.5)))
        unless given.

    Raises
    ------
    UsageError
        If an argument is not as described, or a mechanism refuses its part of epsilon.
    """

    name = "attributes"

    def __init__(
        self,
        attributes: Mapping[str, Integers | Floats],
        epsilon: float,
        *,
        mechanism: str = "hybrid",
        sampled: int | None = None,
    ) -> None:
        super().__init__(epsilon)
        if not isinstance(attributes, Mapping) or not 1 <= len(attributes) <= _MOST:
            found = len(attributes) if isinstance(attributes, Mapping) else type(attributes)
            raise UsageError("attributes", found, f"a mapping of 1 to {_MOST} names to ranges")
        for name, domain in attributes.items():
            if not isinstance(name, str) or not isinstance(domain, Integers | Floats):
                found = type(domain).__name__ if isinstance(name, str) else type(name).__name__
                raise UsageError("attributes", found, "names, and Integers or Floats")
        if not isinstance(mechanism, str) or mechanism not in _KINDS:
            hint = "Deltas of Gaussian noise would add up." if mechanism == "gaussian" else ""
            raise UsageError("mechanism", mechanism, ", ".join(_KINDS), hint)
        best = max(1, min(len(attributes), math.floor(self.epsilon / 2.5)))
        self._sampled = whole("sampled", best if sampled is None else sampled, 1, len(attributes))
        self._kind = mechanism
        part = self.epsilon / self._sampled
        while Fraction(part) * self._sampled > Fraction(self.epsilon):
            part = math.nextafter(part, 0)
        kind = _KINDS[mechanism]
        self._mechanisms = {name: kind(domain, part) for name, domain in attributes.items()}

    @property
    def mechanisms(self) -> dict[str, NumericMechanism]:
        """The mechanism of each attribute."""
        return dict(self._mechanisms)

    @property
    def sampled(self) -> int:
        """How many attributes a respondent reports."""
        return self._sampled

    @cached_property
    def ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report under two tuples, exactly."""
        ratios = sorted((one.ratio for one in self._mechanisms.values()), reverse=True)
        return math.prod(ratios[: self._sampled], start=Fraction(1))

    @property
    def guarantee(self) -> str:
        """What one report promises, in words."""
        return (
            f"{self.epsilon_realised:.6g}-local differential privacy of one report (stated: "
            f"{self.epsilon:.6g}); adjacency: all {len(self._mechanisms)} values of one respondent "
            "replaced by any others of the domains"
        )

    @property
    def thresholds(self) -> dict[str, int]:
        """The integers that fix the distribution of reports, by number of attribute and name."""
        return {
            f"{at}.{name}": value
            for at, one in enumerate(self._mechanisms.values())
            for name, value in one.thresholds.items()
        }

    def describe(self) -> dict[str, Any]:
        """Return a dict from which :meth:`from_description` builds an equal one."""
        ranges = [
            {"name": name, "domain": one.domain.describe()}
            for name, one in self._mechanisms.items()
        ]
        return {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "attributes": ranges,
            "options": {"mechanism": self._kind, "sampled": self._sampled},
        }

    @staticmethod
    def from_description(table: Mapping[str, Any]) -> SampledAttributes:
        """Build what :meth:`describe` described.

        Raises
        ------
        UsageError
            If the table is not as :meth:`describe` returns it.
        """
        wanted = ("mechanism", "epsilon", "attributes", "options")
        if not isinstance(table, Mapping) or set(table) != set(wanted):
            raise UsageError("table", type(table).__name__, f"a mapping of {', '.join(wanted)}")
        options, ranges = table["options"], table["attributes"]
        if table["mechanism"] != SampledAttributes.name:
            raise UsageError("mechanism", table["mechanism"], SampledAttributes.name)
        if not isinstance(options, Mapping) or set(options) != {"mechanism", "sampled"}:
            raise UsageError("options", options, "a mapping of mechanism and sampled")
        attributes: dict[str, Any] = {}
        for one in ranges if isinstance(ranges, list) else [None]:
            if not isinstance(one, Mapping) or set(one) != {"name", "domain"}:
                raise UsageError("attributes", ranges, "a list of tables of name and domain")
            if not isinstance(one["name"], str) or one["name"] in attributes:
                raise UsageError("attributes", one["name"], "names, each once")
            attributes[one["name"]] = domain_from(one["domain"], f"attributes.{one['name']}")
        return SampledAttributes(attributes, table["epsilon"], **options)

    @cached_property
    def layout(self) -> tuple[Column, ...]:
        """Which attributes are reported, in ascending order, and the cell of each."""
        number, cells = len(self._mechanisms), max(m.cells for m in self._mechanisms.values())
        return (
            Column("attribute", max(1, (number - 1).bit_length()), self._sampled, number),
            Column("cell", (cells - 1).bit_length(), self._sampled, cells),
        )

    @property
    def sums_size(self) -> int:
        """How many sums a state has: of each attribute how many reports, and its sums."""
        return sum(1 + one.sums_size for one in self._mechanisms.values())

    def randomize(self, values: Mapping[str, Any], entropy: Entropy = OS) -> Reports:
        """Return one report for each respondent.

        Parameters
        ----------
        values : mapping of str to column
            A column of n numbers for each attribute, in any order; see
            :meth:`privagg.domain.Domain.encode`.
        entropy : Entropy
            The operating system's unless given.

        Raises
        ------
        UsageError
            If an attribute is missing or unknown, columns differ in length, or a number is out of
            its range.
        """
        if not isinstance(values, Mapping) or set(values) != set(self._mechanisms):
            found = sorted(map(str, values)) if isinstance(values, Mapping) else type(values)
            raise UsageError("values", found, f"columns of {', '.join(self._mechanisms)}")
        if not isinstance(entropy, Entropy):
            found = type(entropy).__name__
            raise UsageError("entropy", found, "an Entropy, such as privagg.entropy.OS")
        columns = [_encoded(one.domain, values[n], entropy) for n, one in self._mechanisms.items()]
        if len({column.size for column in columns}) > 1:
            raise UsageError("values", "columns of different lengths", "as many numbers in each")
        return self.randomize_codes(np.stack(columns, axis=1), entropy)

    def randomize_codes(self, codes: NDArray[Any], entropy: Entropy = OS) -> Reports:
        """Return one report for each row of codes, ``(n, d)`` integers of each domain's codes.

        Parameters
        ----------
        codes : (n, d) array of integers
            Codes of each attribute's domain.
        entropy : Entropy
            Where randomness comes from: the operating system, unless it is to be repeatable.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        number = len(self._mechanisms)
        if not isinstance(codes, np.ndarray) or codes.ndim != 2 or codes.shape[1] != number:
            found = getattr(codes, "shape", type(codes).__name__)
            raise UsageError("codes", found, f"an (n, {number}) array of integers")
        columns = [
            check_codes(codes[:, at], one.k) for at, one in enumerate(self._mechanisms.values())
        ]
        draws = Draws(entropy)
        chosen = _choose(len(codes), number, self._sampled, draws)
        cells = np.zeros(chosen.shape, np.uint32)
        for at, one in enumerate(self._mechanisms.values()):
            rows, places = np.nonzero(chosen == at)
            cells[rows, places] = one._randomize(columns[at][rows], draws)[0]
        if self._sampled == 1:
            return self._reports((chosen[:, 0], cells[:, 0]), draws.insecure)
        return self._reports((chosen, cells), draws.insecure)

    def estimate(
        self, state: State, confidence: float = 0.95, *, population: bool = False
    ) -> dict[str, MeanEstimate]:
        """Estimate the mean of each attribute, each from the reports that have it.

        Intervals count that only some respondents reported an attribute.

        Parameters
        ----------
        state : State
            The sums over all reports.
        confidence : float
            Probability with which each interval alone holds the true mean.
        population : bool
            Count the respondents as a sample of a large population.

        Raises
        ------
        UsageError
            If nobody reported an attribute, or an argument is not as described.
        PeerError
            If the state is of another configuration.
        """
        self._is_own(state)
        found = {}
        for (name, one), (users, sums) in zip(
            self._mechanisms.items(), self._parts(state.sums), strict=True
        ):
            if users == 0:
                raise UsageError("state", f"no reports of {name}", "at least one report")
            part = State(state.digest, users, sums, state.insecure)
            spread = Fraction(1) if population else 1 - Fraction(users, state.users)
            found[name] = one.estimate_from(part, confidence, spread, population)
        return found

    def variance(self, n: int, attribute: str, value: Any = None) -> Any:
        """Return the variance of an attribute's raw estimate if all respondents hold a value.

        As :meth:`NumericMechanism.variance`, with n sampled / d reports of the attribute. Where
        values differ, (1 - sampled / d) of their own variance comes on top.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        users = whole("n", n, 1, MAX_REPORTS)
        if not isinstance(attribute, str) or attribute not in self._mechanisms:
            raise UsageError("attribute", attribute, ", ".join(self._mechanisms))
        share = self._sampled / len(self._mechanisms)
        return self._mechanisms[attribute].variance(1, value) / (users * share)

    def _parts(self, sums: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return of each attribute how many reports there are, and its own sums."""
        found, at = [], 0
        for one in self._mechanisms.values():
            found.append((int(sums[at]), sums[at + 1 : at + 1 + one.sums_size]))
            at += 1 + one.sums_size
        return found

    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        chosen, cells = (column.reshape(-1) for column in columns)
        parts = []
        for at, one in enumerate(self._mechanisms.values()):
            mine = cells[chosen == at]
            parts += [np.array([mine.size], np.int64), one._sums((mine,))]
        return np.concatenate(parts)

    def _flaw_of_reports(self, columns: Columns) -> str:
        chosen, cells = (column.reshape(-1, self._sampled) for column in columns)
        if (chosen[:, 1:] <= chosen[:, :-1]).any():
            return "expected attributes in ascending order, each once"
        limits = np.array([one.cells for one in self._mechanisms.values()])
        if (cells >= limits[chosen]).any():
            return "expected a cell of the attribute's mechanism"
        return ""

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        parts = self._parts(sums)
        numbers = [number for number, _ in parts]
        if min(numbers) < 0 or max(numbers) > users or sum(numbers) != users * self._sampled:
            return f"expected {self._sampled} attributes from each of {users} respondents"
        flaws = (
            one._flaw_of_sums(number, own)
            for one, (number, own) in zip(self._mechanisms.values(), parts, strict=True)
        )
        return next((flaw for flaw in flaws if flaw), "")

    def __repr__(self) -> str:
        ranges = {name: one.domain for name, one in self._mechanisms.items()}
        options = f"mechanism={self._kind!r}, sampled={self._sampled}"
        return f"SampledAttributes({ranges!r}, {self.epsilon!r}, {options})"


def _encoded(domain: Domain, values: Any, entropy: Entropy) -> NDArray[np.uint32]:
    if isinstance(domain, Floats):
        return domain.encode(values, entropy=entropy)
    return domain.encode(values)


def _choose(rows: int, number: int, sampled: int, draws: Draws) -> NDArray[np.int64]:
    """Return ``(rows, sampled)`` different numbers below `number`, ascending, each set alike.

    The first steps of Fisher's and Yates' shuffle.
    """
    picks = draws.below([number - step for step in range(sampled)], rows).astype(np.int64)
    order = np.tile(np.arange(number), (rows, 1))
    every = np.arange(rows)
    for step in range(sampled):
        at = step + picks[:, step]
        held = order[every, at]
        order[every, at] = order[:, step]
        order[:, step] = held
    return np.sort(order[:, :sampled], axis=1)
