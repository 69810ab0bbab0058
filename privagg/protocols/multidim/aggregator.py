"""The aggregator's side: reports become sums, sums add up, and frequencies are estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg.errors import PeerError, UsageError
from privagg.mechanisms._kernels.bits import count_bits
from privagg.mechanisms.estimate import Estimate
from privagg.mechanisms.state import State
from privagg.protocols.multidim import estimation
from privagg.protocols.multidim.kernels import count_codes
from privagg.protocols.multidim.layout import row_layout
from privagg.protocols.multidim.messages import TupleReports
from privagg.protocols.multidim.params import Params, Protocol

__all__ = ["Aggregator"]


class Aggregator:
    """Whoever collects the reports of one survey. Nobody needs to trust it.

    It keeps sums only, so its memory does not grow with the respondents. Aggregators of one survey
    that hold different reports merge; which reports one holds is for its user to know: a report
    counted twice is counted twice, and a made-up one like an honest one.

    Parameters
    ----------
    params : Params
        The survey.
    state : State, optional
        Where to go on from; empty unless given.

    Raises
    ------
    UsageError
        If `params` is none.
    PeerError
        If the state is of another survey.
    """

    def __init__(self, params: Params, state: State | None = None) -> None:
        if not isinstance(params, Params):
            raise UsageError("params", type(params).__name__, "Params")
        self._params = params
        self._state = State(params.digest, 0, np.zeros(estimation.sums_size(params), np.int64))
        if state is not None:
            self.merge(state)

    @property
    def params(self) -> Params:
        """The survey."""
        return self._params

    @property
    def state(self) -> State:
        """The sums so far; they add up with those of other aggregators."""
        return self._state

    @property
    def users(self) -> int:
        """How many reports were counted."""
        return self._state.users

    def receive(
        self,
        reports: TupleReports | bytes | bytearray | memoryview,
        *,
        peer: str | int = "respondent",
    ) -> int:
        """Count some reports, and return how many there were.

        Parameters
        ----------
        reports : reports or bytes
            The reports, or their wire form.
        peer : str or int
            Who sent it, for errors.

        Raises
        ------
        PeerError
            Naming `peer`, if they are of another survey or malformed: nothing is counted then.
        """
        if not isinstance(reports, TupleReports):
            reports = TupleReports.decode(reports, self._params, peer=peer)
        elif reports.params.digest != self._params.digest:
            raise PeerError(peer, "reports", "made for another survey: the digests differ")
        sums = self._sums(reports, peer)
        self._state += State(self._params.digest, len(reports), sums, reports.insecure)
        return len(reports)

    def merge(self, state: State) -> None:
        """Add the sums of another aggregator of this survey; `PeerError` if it is of another.

        Raises
        ------
        PeerError
            If it is of another survey.
        UsageError
            If it is no such thing.
        """
        if not isinstance(state, State):
            raise UsageError("state", type(state).__name__, "a State")
        flaw = "" if state.digest != self._params.digest else self._flaw_of(state)
        if flaw:
            raise PeerError("aggregator", "merge", flaw)
        self._state += state

    def dump_state(self) -> bytes:
        """Return the sums as bytes, for :meth:`load_state`."""
        return self._state.encode()

    @classmethod
    def load_state(
        cls, params: Params, data: bytes | bytearray | memoryview, *, peer: str = "aggregator"
    ) -> Aggregator:
        """Return an aggregator with the sums that :meth:`dump_state` wrote; trusts nothing.

        Parameters
        ----------
        params : Params
            The parameters that all parties agreed on.
        data : bytes or bytearray or memoryview
            What was written; nothing in it is trusted.
        peer : str or int
            Who sent it, for errors.

        Raises
        ------
        PeerError
            Naming `peer`, if the bytes are no such sums, or of another survey.
        """
        made = cls(params)
        state = State.decode(data, params.digest, estimation.sums_size(params), peer=peer)
        flaw = made._flaw_of(state)
        if flaw:
            raise PeerError(peer, "state", flaw)
        made._state = state
        return made

    def estimate(
        self,
        confidence: float = 0.95,
        post: str | None = "norm-sub",
        *,
        population: bool = False,
    ) -> dict[str, Estimate]:
        """Estimate every attribute; see :func:`privagg.protocols.multidim.estimation.estimate`."""
        return estimation.estimate(
            self._params,
            self._state,
            confidence=confidence,
            post=post,
            population=population,
        )

    def _sums(self, reports: TupleReports, peer: str | int) -> NDArray[np.int64]:
        params = self._params
        if params.protocol.faked:
            return self._count_rows(reports.groups[0][0], peer)
        parts = []
        for one, columns in self._by_mechanism(reports):
            flaw = one._flaw_of_reports(columns)
            if flaw:
                raise PeerError(peer, "reports", flaw)
            parts.append(one._sums(columns))
        if params.protocol is Protocol.SMP:
            parts.append(np.array(reports.counts, np.int64))
        return np.concatenate(parts)

    def _count_rows(self, rows: NDArray[np.uint64], peer: str | int) -> NDArray[np.int64]:
        layout = row_layout(self._params)
        bits = count_bits(rows, layout.unary) if layout.unary else np.zeros(0, np.int64)
        parts = []
        for offset, field in zip(layout.offsets, self._params.fields, strict=True):
            if field.split is None:
                parts.append(bits[offset : offset + field.k])
                continue
            counts = count_codes(rows, offset, field.width)
            if counts[field.k :].any():
                raise PeerError(peer, "reports", f"found a code of {field.k} or more")
            parts.append(counts[: field.k])
        return np.concatenate(parts)

    def _by_mechanism(self, reports: TupleReports) -> Any:
        """Return each attribute's mechanism with the columns of its reports."""
        mechanisms = self._params.mechanisms
        if self._params.protocol is Protocol.SMP:
            return zip(mechanisms, reports.groups, strict=True)
        columns = iter(reports.groups[0])
        return [(one, tuple(next(columns) for _ in one.layout)) for one in mechanisms]

    def _flaw_of(self, state: State) -> str:
        """Say why no reports have these sums; nothing is ""."""
        params = self._params
        if state.sums.size != estimation.sums_size(params):
            return f"expected {estimation.sums_size(params)} sums, found {state.sums.size}"
        parts = estimation.parts_of(params, state.sums, state.users)
        if params.protocol is Protocol.SMP:
            counts = [users for _, users in parts]
            if min(counts) < 0 or sum(counts) != state.users:
                return f"expected reports of the attributes that add up to {state.users}"
        for number, (sums, users) in enumerate(parts):
            if not params.protocol.faked:
                flaw = params.mechanisms[number]._flaw_of_sums(users, sums)
                if flaw:
                    return flaw
                continue
            if int(sums.min()) < 0 or int(sums.max()) > users:
                return f"expected counts from 0 to {users}, the number of reports"
            if params.fields[number].split is not None and int(sums.sum()) != users:
                return f"expected counts that add up to {users}, the number of reports"
        return ""

    def __repr__(self) -> str:
        return f"Aggregator({self._params.protocol.value}, {self.users} reports)"
