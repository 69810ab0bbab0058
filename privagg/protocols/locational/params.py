"""What a survey of values by region is: one frozen object for respondents and aggregator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.mechanisms import (
    GRR,
    OLH,
    OUE,
    PGR,
    SUE,
    FrequencyOracle,
    HadamardResponse,
    SubsetSelection,
)
from privagg.mechanisms.exact import check_epsilon
from privagg.mechanisms.geo_mechanisms import GeoMechanism
from privagg.protocols.locational.cells import Cells
from privagg.protocols.locational.gaussian import OneHotGaussian
from privagg.protocols.locational.geo_oracles import GEO, make_geo
from privagg.protocols.locational.privset import PrivSet
from privagg.protocols.locational.regions import Regions
from privagg.protocols.locational.values import Presence, Value

__all__ = ["FAMILIES", "MAX_ITEMS", "MECHANISMS", "ORACLES", "Params"]

ORACLES = ("ss", "grr", "oue", "sue", "olh", "pgr", "hr", "gaussian", "privset")
"""The mechanisms, each by its own name."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "randomised-response": ("grr", "oue", "sue"),
    "exponential": ("ss", "privset"),
    "gaussian": ("gaussian",),
}
"""The families of mechanisms; each stands for the best of its own.

``randomised-response`` is over the cells: generalised, or a bit for each cell. ``exponential`` is
the exponential mechanism over sets of cells, with the utility of holding the own one; sets of one
cell make it generalised randomised response. ``gaussian`` adds noise to the one-hot vector.
"""

MECHANISMS = ("auto", *FAMILIES, *(name for name in ORACLES if name not in FAMILIES), *GEO)
"""Every name that a survey's mechanism may have; ``auto`` is for :func:`recommend`."""

MAX_ITEMS = 64

_KINDS: Mapping[str, type[FrequencyOracle]] = {
    "ss": SubsetSelection,
    "grr": GRR,
    "oue": OUE,
    "sue": SUE,
    "olh": OLH,
    "pgr": PGR,
    "hr": HadamardResponse,
}

_DIGEST_LABEL = b"privagg locational 1\0"


@dataclass(frozen=True, kw_only=True, eq=False)
class Params:
    """Everything that respondents and aggregator must agree on. Validated when built.

    Guarantee of one report: epsilon-local differential privacy (with `delta` for the Gaussian
    mechanism) for any two respondents' regions **and** values, changed together: the report is one
    of a frequency oracle over the product of both. Of respondents with several items, the whole set
    of them is changed. It needs no assumption on the aggregator. That a respondent takes part is
    not hidden; nor is, of a ranking, which item it was asked for, which is public beforehand.

    Parameters
    ----------
    regions : Regions
        The declared regions.
    value : Value
        What respondents have there; :class:`Presence` unless given.
    epsilon : float
        What each report may have.
    mechanism : str
        One of :data:`ORACLES` or :data:`FAMILIES`.
    other : bool
        Whether there is a cell for those in no region; without, they are refused. Regions that
        points lie in should have it.
    missing : {"refuse", "other"}
        What becomes of a missing coordinate and of a value that is missing or not declared: an
        error, or that cell, which `other` has to declare.
    items : int
        How many pairs of region and value a respondent has at most, 1 to 64. With more than one,
        ``privset`` reports on the whole set; any other mechanism on one of them, drawn at random
        after filling up with "no item", and estimates are scaled back.
    delta : float
        For the Gaussian mechanism only.
    clamp : bool
        Whether numbers out of range move to the nearer end; otherwise they are refused.
    notion : {"local", "geo"}
        With ``geo``, geo-indistinguishability: epsilon is per metre, and the mechanism
        ``planar-laplace`` (grids) or ``region-exponential``. Only presence is reported then, and
        whoever is in no region is refused, as "no region" is at no distance.

    Raises
    ------
    UsageError
        If an argument is not as described, or epsilon cannot be realised.
    """

    regions: Regions
    epsilon: float
    value: Value = field(default_factory=Presence)
    mechanism: str = "ss"
    other: bool = False
    missing: str = "refuse"
    items: int = 1
    delta: float = 1e-6
    clamp: bool = False
    notion: str = "local"
    oracle: str = field(init=False)
    """The mechanism's own name: what a family chose."""
    oracles: tuple[FrequencyOracle, ...] = field(init=False, repr=False)
    """The mechanism of each group of respondents."""

    def __post_init__(self) -> None:
        for name, kind in (("regions", Regions), ("value", Value)):
            found = getattr(self, name)
            if not isinstance(found, kind):
                raise UsageError(name, type(found).__name__, f"a {kind.__name__}")
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        for name in ("other", "clamp"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(name, getattr(self, name), "True or False")
        if not isinstance(self.missing, str) or self.missing not in ("refuse", "other"):
            raise UsageError("missing", self.missing, '"refuse" or "other"')
        if self.missing == "other" and not self.other:
            raise UsageError("other", False, 'True where missing is "other"')
        object.__setattr__(self, "items", whole("items", self.items, 1, MAX_ITEMS))
        if self.items > 1 and self.value.groups > 1:
            raise UsageError("items", self.items, "1 with rankings")
        if self.items > len(self.regions) + self.other:
            raise UsageError("items", self.items, f"up to {len(self.regions)}, one in each region")
        if self.notion not in ("local", "geo"):
            raise UsageError("notion", self.notion, '"local" or "geo"')
        if self.notion == "geo":
            self._check_geo()
        elif not isinstance(self.mechanism, str) or self.mechanism not in (*ORACLES, *FAMILIES):
            allowed = ", ".join((*FAMILIES, *(n for n in ORACLES if n not in FAMILIES)))
            hint = "auto is for recommend()." if self.mechanism == "auto" else ""
            raise UsageError("mechanism", self.mechanism, allowed, hint)
        oracle, first = self._choose()
        more = (self._make(oracle, group) for group in range(1, self.value.groups))
        object.__setattr__(self, "oracle", oracle)
        object.__setattr__(self, "oracles", (first, *more))

    @property
    def groups(self) -> int:
        """Disjoint groups of respondents, each asked for another coordinate."""
        return self.value.groups

    @property
    def sampled(self) -> bool:
        """Whether a report is about one of several items, drawn at random."""
        return self.items > 1 and self.oracle != "privset"

    @property
    def scale(self) -> int:
        """What estimated frequencies are multiplied with, for reports on one of several items."""
        return self.items if self.sampled else 1

    @cached_property
    def cells(self) -> Cells:
        """The product domain of the first group; those of others differ in the group only."""
        return self._cells(self.oracle, 0)

    @property
    def ratio(self) -> Fraction:
        """The largest P(y | x) / P(y | x') of any two respondents; exact, but for `delta`."""
        return max(one.ratio for one in self.oracles)

    @property
    def epsilon_realised(self) -> float:
        """What reports really have, rounded up: never above `epsilon`."""
        return max(one.epsilon_realised for one in self.oracles)

    @property
    def delta_realised(self) -> float:
        """What epsilon may be missed by: 0 but for the Gaussian mechanism."""
        first = self.oracles[0]
        return first.delta_realised if isinstance(first, OneHotGaussian) else 0.0

    @property
    def report_bytes(self) -> float:
        """Bytes of one report on the wire, among many."""
        return self.oracles[0].report_bytes

    @property
    def guarantee(self) -> str:
        """What one report promises, in words."""
        first = self.oracles[0]
        if isinstance(first, GeoMechanism):
            return first.guarantee
        realised = f"{self.epsilon_realised:.6g}"
        promise = f"({realised}, {self.delta_realised:.3g})" if self.delta_realised else realised
        what = "region and value" if self.items == 1 else f"set of up to {self.items} items"
        return (
            f"{promise}-local differential privacy of one report (stated: {self.epsilon:.6g}); "
            f"adjacency: one respondent's {what} replaced together by any other"
        )

    def describe(self) -> dict[str, Any]:
        """Return what all must agree on, as strings, numbers and lists."""
        return {
            "regions": self.regions.digest.hex(),
            "value": self.value.describe(),
            "epsilon": self.epsilon,
            "oracle": self.oracle,
            "other": self.other,
            "missing": self.missing,
            "items": self.items,
            "clamp": self.clamp,
            "notion": self.notion,
            **({"delta": self.delta} if self.oracle == "gaussian" else {}),
        }

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that all who take part must share."""
        found = {**self.describe(), "oracles": [one.digest.hex() for one in self.oracles]}
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(_DIGEST_LABEL + text.encode()).digest()

    def _cells(self, oracle: str, group: int) -> Cells:
        return Cells(
            self.regions,
            self.value,
            other=self.other,
            padding=self.items > 1 and oracle != "privset",
            group=group,
        )

    def _make(self, oracle: str, group: int) -> FrequencyOracle:
        cells = self._cells(oracle, group)
        if oracle in GEO:
            return make_geo(oracle, cells, self.regions, self.epsilon)
        if oracle == "privset":
            return PrivSet(cells, self.epsilon, self.items)
        if oracle == "gaussian":
            return OneHotGaussian(cells, self.epsilon, self.delta)
        return _KINDS[oracle](cells, self.epsilon)

    def _check_geo(self) -> None:
        """Refuse what geo-indistinguishable reports do not have."""
        if self.mechanism not in GEO:
            raise UsageError("mechanism", self.mechanism, f"{' or '.join(GEO)}, with notion geo")
        if not isinstance(self.value, Presence):
            hint = "A value needs a report of its own: two surveys, and two budgets."
            raise UsageError("value", self.value.kind, "presence, with notion geo", hint)
        if self.other or self.items > 1:
            found = "a cell for no region" if self.other else f"{self.items} items"
            raise UsageError("other" if self.other else "items", found, "none with notion geo")

    def _choose(self) -> tuple[str, FrequencyOracle]:
        """Return the best of a family, by the error of a cell of average frequency."""
        names = FAMILIES.get(self.mechanism, (self.mechanism,))
        found: list[tuple[float, str, FrequencyOracle]] = []
        for name in names:
            try:
                made = self._make(name, 0)
            except UsageError:
                if len(names) == 1 or (name == names[-1] and not found):
                    raise
                continue
            found.append((self._average(name, made), name, made))
        _, oracle, first = min(found, key=lambda one: one[0])
        return oracle, first

    def _average(self, name: str, oracle: FrequencyOracle) -> float:
        frequency = min(1.0, self.items / oracle.k)
        if name == "privset" or self.items == 1:
            return float(oracle.variance(1, frequency))
        part = frequency / self.items
        drawn = part * (1 - 1 / self.items)
        return self.items**2 * (float(oracle.variance(1, part)) + drawn)
