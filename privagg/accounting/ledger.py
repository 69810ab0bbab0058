"""What each respondent has spent: epsilon over surveys and rounds, added up exactly.

Basic (sequential) composition of local differential privacy: a respondent who sends several reports
about the same or different values is protected by the sum of their epsilons, whatever the
mechanisms (Dwork and Roth, "The Algorithmic Foundations of Differential Privacy", theorem 3.16).
Adjacency: everything this respondent holds may change at once. Different respondents' reports do
not add up: each has a ledger's line of its own.

Mechanisms that memoise an answer spend its epsilon once, however often they report it; such a
charge has a key, and is not charged again under the same key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from typing import Any

import msgspec
import numpy as np

from privagg.errors import UsageError

__all__ = ["Entry", "Ledger"]

_FORMAT = "privagg ledger 1"


@dataclass(frozen=True)
class Entry:
    """One charge.

    Attributes
    ----------
    respondent : str or int
        Who was charged.
    survey : str
        Which survey; a digest, or a name.
    round : int
        Which round of it.
    epsilon : float
        What was spent.
    key : str
        What the charge pays for once and for all; "" for a report that is made afresh.
    """

    respondent: str | int
    survey: str
    round: int
    epsilon: float
    key: str = ""


class Ledger:
    """Epsilon spent by each respondent, with a limit that no charge may pass.

    The limit is checked before anything is charged, and charges for many respondents are made for
    all of them or for none. Sums are exact: floats are added as fractions.

    Parameters
    ----------
    limit : float, optional
        The most that a respondent may spend in all; no limit unless given.

    Raises
    ------
    UsageError
        If `limit` is no finite number above 0.
    """

    def __init__(self, limit: float | None = None) -> None:
        self._limit = None if limit is None else _positive("limit", limit)
        self._entries: list[Entry] = []
        self._spent: dict[str | int, Fraction] = {}
        self._paid: set[Hashable] = set()

    @property
    def limit(self) -> float | None:
        """The most that a respondent may spend in all."""
        return self._limit

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges, in their order."""
        return tuple(self._entries)

    def spend(
        self,
        respondents: str | int | Iterable[str | int],
        epsilon: float,
        *,
        survey: str,
        round: int = 0,
        key: str = "",
    ) -> None:
        """Charge one respondent, or many, for one report each: call it before they report.

        Parameters
        ----------
        respondents : str, int, or iterable of these
            Who reports.
        epsilon : float
            What a report spends: a mechanism's `epsilon`.
        survey : str
            What the report is for.
        round : int
            Which round of the survey, from 0.
        key : str
            For memoised answers: what is paid for once. A respondent who has paid for the same key
            of the same survey is not charged again.

        Raises
        ------
        UsageError
            If a respondent would pass the limit: nobody is charged then. Or if an argument is not
            as described.
        """
        price = Fraction(_positive("epsilon", epsilon))
        if not isinstance(survey, str) or not survey:
            raise UsageError("survey", survey, "a name that is not empty")
        if isinstance(round, bool) or not isinstance(round, int | np.integer) or round < 0:
            raise UsageError("round", round, "a whole number from 0")
        if not isinstance(key, str):
            raise UsageError("key", type(key).__name__, "a string")
        _text("survey", survey)
        _text("key", key)
        owing: dict[str | int, Fraction] = {}
        charged: list[str | int] = []
        for one in _everyone(respondents):
            if key and ((one, survey, key) in self._paid or one in owing):
                continue
            owing[one] = owing.get(one, self._spent.get(one, Fraction(0))) + price
            charged.append(one)
            if self._limit is not None and owing[one] > Fraction(self._limit):
                left = self.remaining(one)
                hint = f"{left:g} of {self._limit:g} is left; nobody was charged."
                raise UsageError("epsilon", float(price), "what each respondent has left", hint)
        self._spent.update(owing)
        for one in charged:
            self._entries.append(Entry(one, survey, int(round), float(price), key))
            if key:
                self._paid.add((one, survey, key))

    def spent(self, respondent: str | int) -> float:
        """Return what a respondent has spent in all, rounded up; 0 for one never charged.

        Infinite where the sum is beyond all floats: it is never stated too small.

        Parameters
        ----------
        respondent : str or int
            Who: the name or number that the ledger knows.
        """
        return _rounded_up(self._spent.get(_identity(respondent), Fraction(0)))

    def remaining(self, respondent: str | int) -> float:
        """Return what a respondent may still spend, rounded down; infinite without a limit.

        Parameters
        ----------
        respondent : str or int
            Who: the name or number that the ledger knows.
        """
        if self._limit is None:
            return inf
        left = Fraction(self._limit) - self._spent.get(_identity(respondent), Fraction(0))
        near = float(left)
        return near if Fraction(near) <= left else nextafter(near, -inf)

    def most(self) -> float:
        """Return the most that any respondent has spent, rounded up: what all of them have."""
        return _rounded_up(max(self._spent.values(), default=Fraction(0)))

    def encode(self) -> bytes:
        """Return the ledger as JSON. It says who took part in what, and is as private as that."""
        return msgspec.json.encode(
            {
                "format": _FORMAT,
                "limit": self._limit,
                "entries": [
                    [one.respondent, one.survey, one.round, one.epsilon, one.key]
                    for one in self._entries
                ],
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Ledger:
        """Read a ledger that :meth:`encode` wrote; every charge is checked again.

        Parameters
        ----------
        data : bytes
            What was written; nothing in it is trusted.

        Raises
        ------
        UsageError
            If it is none, or a charge in it passes its limit.
        """
        try:
            table: Any = msgspec.json.decode(data)
            if not isinstance(table, Mapping) or set(table) != {"format", "limit", "entries"}:
                raise ValueError("other keys")
            if table["format"] != _FORMAT:
                raise ValueError(f"format {table['format']!r}")
            rows = [(a, b, c, d, e) for a, b, c, d, e in table["entries"]]
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise UsageError("data", str(error), f"JSON of a {_FORMAT}") from None
        ledger = cls(table["limit"])
        for respondent, survey, number, epsilon, key in rows:
            ledger.spend(respondent, epsilon, survey=survey, round=number, key=key)
        return ledger

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f", limit {self._limit:g}"
        return f"Ledger({len(self._spent)} respondents, {len(self._entries)} charges{limit})"


def _positive(name: str, value: Any) -> float:
    real = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool) or not real or not 0 < value < inf:
        raise UsageError(name, value, "a finite number above 0")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(name, "an integer beyond all floats", "a number that fits one") from None


def _identity(respondent: Any) -> str | int:
    if isinstance(respondent, str) and respondent:
        return _text("respondent", respondent)
    if isinstance(respondent, int | np.integer) and not isinstance(respondent, bool):
        return int(respondent)
    raise UsageError("respondent", type(respondent).__name__, "a name or a number")


def _everyone(respondents: Any) -> list[str | int]:
    one = isinstance(respondents, str | bytes | bytearray | memoryview | int | np.integer)
    if one or not isinstance(respondents, Iterable):
        return [_identity(respondents)]
    return [_identity(one) for one in respondents]


def _text(name: str, value: str) -> str:
    """Return a string that JSON can hold: half a surrogate pair is no character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(name, "half a surrogate pair", "text of whole characters") from None
    return str(value)


def _rounded_up(value: Fraction) -> float:
    try:
        near = float(value)
    except OverflowError:
        return inf
    return near if Fraction(near) >= value else nextafter(near, inf)
