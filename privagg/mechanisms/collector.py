"""Collecting reports under one configuration: what mechanisms of one or many attributes share."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privagg.errors import PeerError, UsageError
from privagg.mechanisms.exact import check_epsilon, log_upper
from privagg.mechanisms.reports import Column, Reports
from privagg.mechanisms.state import State

__all__ = ["Collector", "Columns"]

Columns = tuple[NDArray[Any], ...]

_DIGEST_LABEL = b"privagg mechanism 1\0"


class Collector(ABC):
    """Reports of one layout, the sums over them, and the digest that binds both.

    Parameters
    ----------
    epsilon : float
        The privacy parameter of one report, above 0.

    Raises
    ------
    UsageError
        If it is not.
    """

    name: ClassVar[str]
    """What the field calls the mechanism, in lower case."""

    def __init__(self, epsilon: float) -> None:
        self._epsilon = check_epsilon(epsilon)

    @property
    def epsilon(self) -> float:
        """The stated epsilon."""
        return self._epsilon

    @property
    @abstractmethod
    def ratio(self) -> Fraction:
        """The largest ratio P(y | x) / P(y | x') over all reports and values, exactly."""

    @cached_property
    def epsilon_realised(self) -> float:
        """The logarithm of :attr:`ratio`, rounded up: never above :attr:`epsilon`."""
        return log_upper(self.ratio)

    @property
    def delta(self) -> float:
        """What the ratio may be missed by: 0, but for mechanisms that say otherwise."""
        return 0.0

    @property
    @abstractmethod
    def thresholds(self) -> dict[str, int]:
        """The integers that fix the distribution of reports, by name."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a dict from which an equal one is built."""

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that reports and states carry: SHA-256 of description and thresholds."""
        described = {**self.describe(), "thresholds": self.thresholds}
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(_DIGEST_LABEL + text.encode()).digest()

    @property
    @abstractmethod
    def layout(self) -> tuple[Column, ...]:
        """The columns of a report."""

    @property
    def report_bytes(self) -> float:
        """Bytes of one report on the wire, among many."""
        return sum(column.report_bits for column in self.layout) / 8

    def _reports(self, columns: Columns, insecure: bool) -> Reports:
        """Return columns as reports, each in its smallest type."""
        small = zip(columns, self.layout, strict=True)
        kept = tuple(values.astype(column.dtype, copy=False) for values, column in small)
        return Reports(self.digest, self.layout, kept, insecure)

    def aggregate(self, reports: Reports) -> State:
        """Return the sums over reports. Add states up to go on: ``state + more``.

        Raises
        ------
        UsageError
            If `reports` is no batch of reports.
        PeerError
            If the reports were made under another configuration.
        """
        if not isinstance(reports, Reports):
            hint = "Bytes are read by decode_reports."
            raise UsageError("reports", type(reports).__name__, "Reports", hint)
        self._same(reports.digest, "reports", "respondent")
        sums = self._sums(reports.columns)
        return State(self.digest, len(reports), sums, reports.insecure)

    def empty(self) -> State:
        """Return the state of no report."""
        return State(self.digest, 0, np.zeros(self.sums_size, np.int64))

    def decode_reports(
        self,
        data: bytes | bytearray | memoryview,
        *,
        peer: str | int = "respondent",
        round: str = "reports",
    ) -> Reports:
        """Read the wire form of reports, and check that this mechanism makes such reports.

        Raises
        ------
        PeerError
            Naming `peer` and `round`, if it does not.
        """
        found = Reports.decode(data, self.digest, self.layout, peer=peer, round=round)
        flaw = self._flaw_of_reports(found.columns)
        if flaw:
            raise PeerError(peer, round, flaw)
        return found

    def decode_state(
        self,
        data: bytes | bytearray | memoryview,
        *,
        peer: str | int = "aggregator",
        round: str = "state",
    ) -> State:
        """Read the wire form of a state, and check that its sums can be.

        Raises
        ------
        PeerError
            Naming `peer` and `round`, if it is none of this mechanism's.
        """
        found = State.decode(data, self.digest, self.sums_size, peer=peer, round=round)
        flaw = self._flaw_of_sums(found.users, found.sums)
        if flaw:
            raise PeerError(peer, round, flaw)
        return found

    @property
    @abstractmethod
    def sums_size(self) -> int:
        """How many sums a state has."""

    @abstractmethod
    def _sums(self, columns: Columns) -> NDArray[np.int64]:
        """Return the sums over reports of the right layout."""

    def _flaw_of_reports(self, columns: Columns) -> str:
        """Say what is wrong with reports whose layout is right; nothing is ""."""
        return ""

    def _flaw_of_sums(self, users: int, sums: NDArray[np.int64]) -> str:
        """Say why no such number of reports has such sums; nothing is ""."""
        if sums.size and (int(sums.min()) < 0 or int(sums.max()) > users):
            return f"expected counts from 0 to {users}, the number of reports"
        return ""

    def _is_own(self, state: State) -> None:
        if not isinstance(state, State):
            raise UsageError("state", type(state).__name__, "a State", "aggregate returns one.")
        self._same(state.digest, "estimate", "aggregator")

    def _same(self, digest: bytes, round: str, peer: str) -> None:
        if digest != self.digest:
            reason = (
                f"made under another configuration than this {self.name} mechanism: mechanism, "
                "domain and epsilon must be the same"
            )
            raise PeerError(peer, round, reason)
