"""What a survey of several attributes is: one frozen object for respondents and aggregator."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privagg.domain import Domain, domain_from
from privagg.errors import UsageError
from privagg.mechanisms import MECHANISMS, FrequencyOracle, make
from privagg.mechanisms.exact import check_epsilon, log_upper
from privagg.mechanisms.longitudinal import Longitudinal
from privagg.protocols.multidim.calibration import (
    Calibration,
    PrivacyWarning,
    amplified,
    published,
    share_of,
    solve,
)
from privagg.protocols.multidim.exact_epsilon import attribute_ratio, tuple_ratio
from privagg.protocols.multidim.fields import VARIANTS, Counts, Field, make_field
from privagg.protocols.multidim.priors import Priors

__all__ = ["MAX_ATTRIBUTES", "ORACLES", "Params", "Protocol", "oracles_of"]

MAX_ATTRIBUTES = 1024

_DIGEST_LABEL = b"privagg multidim 1\0"


class Protocol(StrEnum):
    """How a respondent's d attributes share a report.

    ``spl`` reports every attribute with a d-th of epsilon. ``smp`` reports one, drawn at random,
    and says which. ``rs+fd`` reports one with fakes for the others, and does not say which.
    ``rs+rfd`` draws the fakes from priors.
    """

    SPL = "spl"
    SMP = "smp"
    RSFD = "rs+fd"
    RSRFD = "rs+rfd"

    @property
    def faked(self) -> bool:
        """Whether reports hide which attribute is the true one."""
        return self in (Protocol.RSFD, Protocol.RSRFD)


ORACLES: Mapping[Protocol, tuple[str, ...]] = {
    Protocol.RSFD: ("adp", *VARIANTS),
    Protocol.RSRFD: ("adp", "grr", "sue-r", "oue-r"),
}
"""The oracles of the protocols with fakes; the others take any frequency oracle, or ``adp``."""


def oracles_of(protocol: Protocol) -> tuple[str, ...]:
    """Return the names of the oracles that a protocol takes."""
    if protocol in ORACLES:
        return ORACLES[protocol]
    # Those for repeated surveys memoise answers, and have budgets of their own.
    return (
        "adp",
        *(
            name
            for name, kind in MECHANISMS.items()
            if issubclass(kind, FrequencyOracle) and not issubclass(kind, Longitudinal)
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Params:
    """Everything that respondents and aggregator must agree on. Validated when built.

    Guarantee of one report: :attr:`epsilon_tuple` for any two tuples of values,
    :attr:`epsilon_attribute` for two that differ in one attribute; both exact, whatever the
    calibration, and the one that `calibration` names is at most `epsilon`. It needs no assumption
    on the aggregator. That a respondent takes part is not hidden, and made-up reports cannot be
    told from honest ones.

    Source: Arcolezi, Couchot, Al Bouna, Xiao, "Random Sampling Plus Fake Data: Multidimensional
    Frequency Estimates With Local Differential Privacy", CIKM 2021 (arXiv 2109.07269); RS+RFD:
    Arcolezi, Gambs, Couchot, Palamidessi, "On the Risks of Collecting Multidimensional Data Under
    Local Differential Privacy", PVLDB 2023. Their privacy is restated in
    :mod:`privagg.protocols.multidim.exact_epsilon`.

    Parameters
    ----------
    attributes : mapping of str to Domain
        The declared attributes, in order.
    protocol : Protocol or str
        See :class:`Protocol`.
    oracle : str
        One of :func:`oracles_of`: ``adp`` takes for each attribute ``grr`` or the unary encoding,
        whichever has less variance at frequency 0.
    epsilon : float
        The stated epsilon, above 0.
    calibration : Calibration or str
        What the stated epsilon is about. ``published`` has to be named, and warns where the stated
        epsilon is not the real one.
    priors : Priors, optional
        What fakes are drawn from: needed by ``rs+rfd``, refused by the others.

    Raises
    ------
    UsageError
        If an argument is not as described, or epsilon cannot be realised.

    Warns
    -----
    PrivacyWarning
        If the calibration is ``published`` and reports have more than the stated epsilon.
    """

    attributes: Mapping[str, Domain]
    epsilon: float
    protocol: Protocol = Protocol.SMP
    oracle: str = "adp"
    calibration: Calibration = Calibration.TUPLE
    priors: Priors | None = None
    fields: tuple[Field, ...] = field(init=False, repr=False)
    mechanisms: tuple[FrequencyOracle, ...] = field(init=False, repr=False)
    epsilon_local: float = field(init=False)
    """epsilon': what each attribute's randomiser was asked for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", _attributes(self.attributes))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "protocol", _choice("protocol", Protocol, self.protocol))
        calibration = _choice("calibration", Calibration, self.calibration)
        object.__setattr__(self, "calibration", calibration)
        allowed = oracles_of(self.protocol)
        if not isinstance(self.oracle, str) or self.oracle not in allowed:
            raise UsageError("oracle", self.oracle, f"with {self.protocol}: {', '.join(allowed)}")
        if (self.priors is not None) != (self.protocol is Protocol.RSRFD):
            found = "nothing" if self.priors is None else "priors"
            raise UsageError("priors", found, "priors with rs+rfd, and only there")
        if self.priors is not None:
            if not isinstance(self.priors, Priors):
                raise UsageError("priors", type(self.priors).__name__, "Priors")
            self.priors.check(self.domains)
        local, fields, mechanisms = self._calibrated()
        object.__setattr__(self, "epsilon_local", local)
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "mechanisms", tuple(mechanisms))
        if calibration is Calibration.PUBLISHED and self.epsilon_tuple > self.epsilon:
            warnings.warn(
                f"calibration 'published': reports have epsilon {self.epsilon_tuple:.4g} for two "
                f"tuples and {self.epsilon_attribute:.4g} for one attribute, not the stated "
                f"{self.epsilon:.4g}",
                PrivacyWarning,
                stacklevel=3,
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(self.attributes)

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes' domains."""
        return tuple(self.attributes.values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(domain.size for domain in self.domains)

    @property
    def d(self) -> int:
        """How many attributes there are."""
        return len(self.attributes)

    @cached_property
    def oracles(self) -> tuple[str, ...]:
        """The oracle of each attribute: what ``adp`` chose."""
        return tuple(one.variant for one in self.fields) or tuple(m.name for m in self.mechanisms)

    @cached_property
    def tuple_ratio(self) -> Fraction:
        """The largest P(y | v) / P(y | v') of any two tuples; exact."""
        if self.fields:
            return tuple_ratio([one.odds for one in self.fields])
        ratios = [one.ratio for one in self.mechanisms]
        if self.protocol is Protocol.SMP:
            return max(ratios)
        product = Fraction(1)
        for ratio in ratios:
            product *= ratio
        return product

    @cached_property
    def attribute_ratio(self) -> Fraction:
        """The same of two tuples that differ in one attribute; exact."""
        if self.fields:
            return attribute_ratio([one.odds for one in self.fields])
        return max(one.ratio for one in self.mechanisms)

    @cached_property
    def epsilon_tuple(self) -> float:
        """What a report has for any two tuples: exact, rounded up."""
        return log_upper(self.tuple_ratio)

    @cached_property
    def epsilon_attribute(self) -> float:
        """What a report has for two tuples that differ in one attribute: exact, rounded up."""
        return log_upper(self.attribute_ratio)

    @cached_property
    def epsilon_published(self) -> float:
        """What the papers would state for these randomisers."""
        if self.fields:
            return published(max(one.ratio for one in self.fields), self.d)
        return self.epsilon_tuple

    @property
    def epsilon_prior(self) -> float:
        """What the priors have cost those whose data they were made of."""
        return 0.0 if self.priors is None else self.priors.epsilon

    @property
    def guarantee(self) -> str:
        """What one report promises, in words."""
        if self.calibration is Calibration.PUBLISHED and self.epsilon_tuple > self.epsilon:
            about = "stated as published, which is no guarantee"
        elif self.calibration is Calibration.ATTRIBUTE:
            about = "stated for tuples that differ in one attribute"
        else:
            about = "stated for any two tuples"
        return (
            f"local differential privacy of one report, exactly {self.epsilon_tuple:.6g} for any "
            f"two tuples and {self.epsilon_attribute:.6g} for tuples that differ in one attribute "
            f"({self.epsilon:.6g} {about})"
        )

    def describe(self) -> dict[str, Any]:
        """Return a dict from which :meth:`from_description` builds an equal one."""
        found: dict[str, Any] = {
            "protocol": self.protocol.value,
            "oracle": self.oracle,
            "epsilon": self.epsilon,
            "calibration": self.calibration.value,
            "attributes": [
                {"name": name, "domain": domain.describe()}
                for name, domain in self.attributes.items()
            ],
        }
        return found if self.priors is None else {**found, "priors": self.priors.describe()}

    @classmethod
    def from_description(cls, table: Mapping[str, Any]) -> Params:
        """Build what :meth:`describe` described; `UsageError` if a key is missing or refused.

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
            attributes = {
                one["name"]: domain_from(one["domain"], f"attributes.{one['name']}")
                for one in table["attributes"]
            }
            priors = table.get("priors")
            return cls(
                attributes=attributes,
                epsilon=table["epsilon"],
                protocol=table["protocol"],
                oracle=table["oracle"],
                calibration=table["calibration"],
                priors=None if priors is None else Priors.from_description(priors),
            )
        except (KeyError, TypeError) as error:
            raise UsageError("table", repr(error), "what Params.describe returns") from None

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that reports and states carry: SHA-256 of description and thresholds."""
        parts = [one.thresholds() for one in self.fields] or [m.thresholds for m in self.mechanisms]
        described = {**self.describe(), "oracles": list(self.oracles), "thresholds": parts}
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(_DIGEST_LABEL + text.encode()).digest()

    def _calibrated(self) -> tuple[float, Sequence[Field], Sequence[FrequencyOracle]]:
        """Return epsilon', and the randomisers at it."""
        if not self.protocol.faked:
            # Which attribute is reported says nothing of its value, but what is said of it is said
            # with all of epsilon: without fakes sampling amplifies nothing.
            whole = self.protocol is Protocol.SMP or self.calibration is Calibration.ATTRIBUTE
            local = self.epsilon if whole else share_of(self.epsilon, self.d)
            return local, (), [_mechanism(self.oracle, domain, local) for domain in self.domains]
        if self.calibration is Calibration.ATTRIBUTE:
            local, fields = solve(self._fields_at, self.epsilon, self.d)
            return local, fields, ()
        wanted = self.calibration is Calibration.PUBLISHED
        local = amplified(self.epsilon, self.d) if wanted else self.epsilon
        return local, self._fields_at(local), ()

    def _fields_at(self, local: float) -> list[Field]:
        priors: Sequence[Counts | None] = (
            [None] * self.d if self.priors is None else self.priors.fakes
        )
        found = []
        for k, fakes in zip(self.sizes, priors, strict=True):
            if self.oracle != "adp":
                found.append(make_field(self.oracle, k, local, fakes))
                continue
            unary = "oue-z" if fakes is None else "oue-r"
            both = [make_field(name, k, local, fakes) for name in ("grr", unary)]
            found.append(min(both, key=lambda one: _at_zero(one, self.d)))
        return found


def _at_zero(one: Field, attributes: int) -> float:
    """Return the mean variance over the values, were each of frequency 0."""
    return float(one.variance(np.zeros(one.k), attributes).mean())


def _mechanism(oracle: str, domain: Domain, epsilon: float) -> FrequencyOracle:
    """Build an oracle by its name; ``adp`` is the better of GRR and OUE."""
    if oracle == "adp":
        both = [_mechanism(name, domain, epsilon) for name in ("grr", "oue")]
        return min(both, key=lambda one: float(one.variance(1)))
    found = make(oracle, domain, epsilon)
    assert isinstance(found, FrequencyOracle)
    return found


def _attributes(found: Any) -> dict[str, Domain]:
    if not isinstance(found, Mapping) or not 1 <= len(found) <= MAX_ATTRIBUTES:
        what = type(found).__name__ if not isinstance(found, Mapping) else f"{len(found)} of them"
        raise UsageError("attributes", what, f"a mapping of 1 to {MAX_ATTRIBUTES} names to domains")
    for name, domain in found.items():
        if not isinstance(name, str) or not name:
            raise UsageError("attributes", name, "names that are not empty")
        if not isinstance(domain, Domain):
            hint = "Such as privagg.domain.Categorical([...])."
            raise UsageError(f"attributes.{name}", type(domain).__name__, "a Domain", hint)
    return dict(found)


def _choice(name: str, kind: Any, value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(name, value, ", ".join(one.value for one in kind)) from None
