"""What a survey asks and how it protects: one object, and its file.

The file is JSON of one form only (sorted keys, an indent of 2, ASCII)::

    {"digest": 64 hex digits, "format": "privagg survey 1", "survey": {...}}

where ``survey`` describes one attribute and its mechanism, or several and their protocol. The
digest (SHA-256) covers the description and the randomisers' thresholds; reports and states carry
it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from privagg.accounting import Ledger
from privagg.domain import Domain, domain_from
from privagg.domain.base import Codes
from privagg.entropy import OS, Entropy
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import (
    GRR,
    OUE,
    FrequencyOracle,
    NumericMechanism,
    Reports,
    make,
    mechanism_from,
)
from privagg.mechanisms.exact import check_epsilon
from privagg.protocols.multidim import (
    Calibration,
    Params,
    Priors,
    Protocol,
    TupleReports,
    randomize_codes,
    report_bytes,
)

__all__ = ["Batch", "One", "Survey"]

Batch: TypeAlias = Reports | TupleReports
"""The reports of some respondents."""

One: TypeAlias = FrequencyOracle | NumericMechanism
"""What randomises a single attribute: for frequencies, or for the mean."""

_FORMAT = "privagg survey 1"
_DIGEST_LABEL = b"privagg survey 1\0"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    digest: str
    format: str
    survey: dict[str, Any]


class Survey:
    """Attributes with declared domains, their randomiser, and its epsilon.

    Guarantee of one report: :attr:`guarantee`; what it rests on is said in
    :mod:`privagg.mechanisms.base` for one attribute, and by
    :class:`privagg.protocols.multidim.Params` for several.

    Parameters
    ----------
    attributes : mapping of str to Domain
        One attribute, or several, in order.
    randomiser : FrequencyOracle, NumericMechanism or Params
        A mechanism of the one attribute's domain, for frequencies or for the mean, or the
        parameters of a survey of all of them.

    Raises
    ------
    UsageError
        If attributes and randomiser do not fit.
    """

    def __init__(self, attributes: Mapping[str, Domain], randomiser: One | Params) -> None:
        self._attributes = dict(attributes)
        for name in self._attributes:
            if not isinstance(name, str) or not name:
                raise UsageError("attributes", name, "names that are not empty")
        domains = list(self._attributes.values())
        match randomiser:
            case FrequencyOracle() | NumericMechanism():
                fits = domains == [randomiser.domain]
            case Params():
                fits = list(randomiser.attributes.items()) == list(self._attributes.items())
            case _:
                found = type(randomiser).__name__
                raise UsageError("randomiser", found, "a mechanism or Params")
        if not fits:
            raise UsageError("randomiser", "one of other attributes", "one of these attributes")
        self._randomiser = randomiser

    @classmethod
    def declare(
        cls,
        attributes: Mapping[str, Domain],
        epsilon: float,
        *,
        mechanism: str = "adp",
        protocol: Protocol | str = Protocol.SMP,
        calibration: Calibration | str = Calibration.TUPLE,
        priors: Priors | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Survey:
        """Declare a survey.

        Parameters
        ----------
        attributes : mapping of str to Domain
            What is asked, in order.
        epsilon : float
            What a report may have.
        mechanism : str
            Randomiser of each attribute. ``adp``: generalised randomised response or OUE, whichever
            has less variance at frequency 0.
        protocol, calibration, priors
            How several attributes share a report; see
            :class:`privagg.protocols.multidim.Params`. One attribute has no use for them.
        options : mapping, optional
            Of the mechanism of one attribute, such as ``{"g": 4}`` of ``lh``.

        Returns
        -------
        Survey

        Raises
        ------
        UsageError
            If an argument is refused, or epsilon cannot be realised.
        """
        if not isinstance(attributes, Mapping) or not attributes:
            raise UsageError("attributes", attributes, "a domain for each attribute")
        if len(attributes) > 1:
            if options:
                allowed = "a mechanism without options, where there are several attributes"
                raise UsageError("options", ", ".join(options), allowed)
            made = Params(
                attributes=attributes,
                epsilon=epsilon,
                protocol=Protocol(protocol),
                oracle=mechanism,
                calibration=Calibration(calibration),
                priors=priors,
            )
            return cls(attributes, made)
        if priors is not None:
            raise UsageError("priors", "priors", "none where there is one attribute")
        (domain,) = attributes.values()
        if mechanism == "adp":
            if options:
                raise UsageError("options", ", ".join(options), "none with adp")
            both = [GRR(domain, epsilon), OUE(domain, epsilon)]
            return cls(attributes, min(both, key=lambda one: float(one.variance(1))))
        return cls(attributes, _oracle(mechanism, domain, epsilon, options or {}))

    @property
    def attributes(self) -> dict[str, Domain]:
        """The attributes, in order."""
        return dict(self._attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(self._attributes)

    @property
    def mechanism(self) -> One | None:
        """The mechanism of the one attribute; None of a survey of several."""
        return None if isinstance(self._randomiser, Params) else self._randomiser

    @property
    def params(self) -> Params | None:
        """The parameters of a survey of several attributes; None of one."""
        return self._randomiser if isinstance(self._randomiser, Params) else None

    @property
    def randomiser(self) -> One | Params:
        """Whichever of the two there is."""
        return self._randomiser

    @property
    def cost(self) -> float:
        """What a report costs its respondent: the epsilon to charge."""
        one = self._randomiser
        return one.epsilon_tuple if isinstance(one, Params) else one.epsilon

    @property
    def guarantee(self) -> str:
        """What one report promises, in words."""
        return self._randomiser.guarantee

    @property
    def report_bytes(self) -> float:
        """Bytes of one report on the wire, among many."""
        one = self._randomiser
        return report_bytes(one) if isinstance(one, Params) else one.report_bytes

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that reports and states carry: SHA-256 of description and thresholds."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(_DIGEST_LABEL + self._randomiser.digest + text.encode()).digest()

    def describe(self) -> dict[str, Any]:
        """Return the survey as a dict of strings, numbers and lists."""
        if isinstance(self._randomiser, Params):
            return self._randomiser.describe()
        return {"attribute": self.names[0], **self._randomiser.describe()}

    def encode(self) -> bytes:
        """Return the survey's file; equal surveys give equal bytes."""
        table = {"format": _FORMAT, "digest": self.digest.hex(), "survey": self.describe()}
        return (json.dumps(table, sort_keys=True, indent=2, ensure_ascii=True) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, *, source: str = "data") -> Survey:
        """Read a survey's file, strictly.

        Parameters
        ----------
        data : bytes or bytearray or memoryview
            What was written; nothing in it is trusted.
        source : str
            What to call it in errors.

        Raises
        ------
        UsageError
            Naming `source`, if it is no such file, or not in its one form.
        PeerError
            Naming `source`, if its digest is not that of the survey in it: it was changed, or made
            by another version whose reports would be others.
        """
        content = bytes(data)
        try:
            table = msgspec.json.decode(content, type=_File)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UsageError(source, str(error), f"a file of a {_FORMAT}", _MAKE) from None
        if table.format != _FORMAT:
            raise UsageError(source, f"format {table.format!r}", f"{_FORMAT!r}", _MAKE)
        try:
            found = cls._from(table.survey)
        except UsageError as error:
            where = f"{source}, {error.argument}"
            raise UsageError(where, error.found, error.allowed, error.hint) from None
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise UsageError(source, repr(error), "what Survey.describe returns", _MAKE) from None
        if table.digest != found.digest.hex():
            reason = (
                f"digest {table.digest[:16]}... is not that of the survey in the file, "
                f"{found.digest.hex()[:16]}...: it was changed after it was made, or made by "
                "another version"
            )
            raise PeerError(source, "survey", reason)
        if found.encode() != content:
            hint = "Take the file as it was made; do not rewrite it."
            raise UsageError(source, "another form of the same survey", "its one form", hint)
        return found

    @classmethod
    def _from(cls, table: dict[str, Any]) -> Survey:
        if "attribute" in table:
            rest = {key: value for key, value in table.items() if key != "attribute"}
            made = mechanism_from(rest)
            if not isinstance(made, One):
                raise UsageError("mechanism", made.name, _ONES)
            return cls({table["attribute"]: made.domain}, made)
        attributes = {
            one["name"]: domain_from(one["domain"], f"attributes.{one['name']}")
            for one in table["attributes"]
        }
        if len(attributes) < len(table["attributes"]):
            raise UsageError("attributes", "a name twice", "distinct names")
        return cls(attributes, Params.from_description(table))

    def codes(self, columns: Mapping[str, Any], *, source: str = "columns") -> list[Codes]:
        """Return the codes of each attribute's column.

        Parameters
        ----------
        columns : mapping of str to column
            For each attribute the values of n respondents.
        source : str
            What messages call it.

        Raises
        ------
        UsageError
            If a column is missing, or holds what its domain refuses. The message says neither
            which value nor how many.
        """
        found = []
        for name, domain in self._attributes.items():
            if name not in columns:
                raise UsageError(source, f"no column {name!r}", f"all of: {', '.join(self.names)}")
            try:
                found.append(domain.encode(columns[name]))
            except UsageError as error:
                where = f"{source}, column {name!r}"
                raise UsageError(where, error.found, error.allowed, error.hint) from None
        return found

    def randomize(
        self, columns: Mapping[str, Any], entropy: Entropy = OS, *, source: str = "columns"
    ) -> Batch:
        """Return one report for each respondent: what leaves them.

        Parameters and errors as :meth:`codes`; `entropy` is the operating system's unless given,
        and a seeded one marks the reports insecure.
        """
        codes = self.codes(columns, source=source)
        if isinstance(self._randomiser, NumericMechanism):
            # It rounds to its grid at random, so that the mean stays what it is.
            return self._randomiser.randomize(columns[self.names[0]], entropy)
        return self.randomize_codes(codes, entropy)

    def randomize_codes(self, codes: Sequence[Codes], entropy: Entropy = OS) -> Batch:
        """Return one report for each respondent, whose values are codes of the domains.

        Parameters
        ----------
        codes : sequence of (n,) uint32 arrays
            One for each attribute.
        entropy : Entropy
            Where randomness comes from: the operating system, unless it is to be repeatable.
        """
        if isinstance(self._randomiser, Params):
            return randomize_codes(self._randomiser, codes, entropy)
        return self._randomiser.randomize_codes(codes[0], entropy)

    def charge(
        self, ledger: Ledger, respondents: Sequence[str | int] | str | int, *, round: int = 0
    ) -> None:
        """Charge respondents for a report each; `UsageError`, and nobody, beyond the limit.

        Parameters
        ----------
        ledger : Ledger
            Where it is charged.
        respondents : str, int or sequence of them
            Who.
        round : int
            Which report of theirs: a second charge for it is free.

        Raises
        ------
        UsageError
            If the ledger's limit would be passed: then nobody is charged.
        """
        if isinstance(self._randomiser, NumericMechanism) and self._randomiser.delta:
            hint = "A ledger adds epsilons up, which says nothing of what they are missed by."
            raise UsageError("ledger", f"a survey with delta {self._randomiser.delta:g}", "0", hint)
        survey = self.digest.hex()[:16]
        ledger.spend(respondents, self.cost, survey=survey, round=round)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Survey):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Survey({', '.join(self.names)}; {self.digest.hex()[:16]})"


_ONES = "one that estimates frequencies or a mean"
_MAKE = "privagg ldp init makes one."


def _oracle(name: str, domain: Domain, epsilon: float, options: Mapping[str, Any]) -> One:
    made = make(name, domain, check_epsilon(epsilon), **options)
    if not isinstance(made, One):
        raise UsageError("mechanism", name, _ONES)
    return made
