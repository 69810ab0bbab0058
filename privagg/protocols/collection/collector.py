"""The collector's side: counts reports of one survey, and estimates."""

from __future__ import annotations

import numpy as np

from privagg.errors import PeerError, UsageError
from privagg.mechanisms import Estimate, MeanEstimate, NumericMechanism, Reports, State
from privagg.mechanisms.state import MAX_REPORTS
from privagg.protocols.collection.survey import Batch, Survey
from privagg.protocols.multidim import Aggregator, Params, TupleReports, estimation

__all__ = ["Collector"]


class Collector:
    """Whoever collects the reports of one survey. Nobody needs to trust it.

    It keeps sums only, so its memory does not grow with the respondents. Collectors of one survey
    that hold different reports merge, in any order; a report counted twice is counted twice, and a
    made-up one like an honest one.

    Parameters
    ----------
    survey : Survey
        What is collected.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, survey: Survey) -> None:
        if not isinstance(survey, Survey):
            raise UsageError("survey", type(survey).__name__, "a Survey")
        self._survey = survey
        one = survey.randomiser
        if isinstance(one, Params):
            self._state = State(one.digest, 0, np.zeros(estimation.sums_size(one), np.int64))
        else:
            self._state = one.empty()

    @property
    def survey(self) -> Survey:
        """What is collected."""
        return self._survey

    @property
    def state(self) -> State:
        """The sums so far."""
        return self._state

    @property
    def users(self) -> int:
        """How many reports were counted."""
        return self._state.users

    def receive(
        self, reports: Batch | bytes | bytearray | memoryview, *, peer: str | int = "respondent"
    ) -> int:
        """Count some reports, or their wire form, and return how many there were.

        Parameters
        ----------
        reports : batch or bytes
            The reports, or their wire form.
        peer : str or int
            Who sent it, for errors.

        Raises
        ------
        PeerError
            Naming `peer`, if they are of another survey or malformed: nothing is counted then.
        UsageError
            If an argument is not as described.
        """
        one = self._survey.randomiser
        if isinstance(one, Params):
            if isinstance(reports, Reports):
                raise UsageError("reports", "Reports", "TupleReports, of several attributes")
            part = Aggregator(one)
            part.receive(reports, peer=peer)
            new = part.state
        else:
            if isinstance(reports, TupleReports):
                raise UsageError("reports", "TupleReports", "Reports, of one attribute")
            if not isinstance(reports, Reports):
                reports = one.decode_reports(reports, peer=peer)
            new = one.aggregate(reports)
        return self._add(new, peer, "reports")

    def merge(
        self, state: State | bytes | bytearray | memoryview, *, peer: str = "collector"
    ) -> int:
        """Add the sums of another collector, or their wire form; return how many reports.

        Parameters
        ----------
        state : State or bytes
            The sums.
        peer : str or int
            Who sent it, for errors.

        Returns
        -------
        int
            How many reports were added.

        Raises
        ------
        PeerError
            Naming `peer`, if it is of another survey, or no reports have such sums.
        """
        data = state.encode() if isinstance(state, State) else state
        one = self._survey.randomiser
        if isinstance(one, Params):
            new = Aggregator.load_state(one, data, peer=peer).state
        else:
            new = one.decode_state(data, peer=peer)
        return self._add(new, peer, "state")

    def _add(self, new: State, peer: str | int, round: str) -> int:
        """Add sums that were checked; whoever claims more reports than can be is at fault."""
        if self._state.users + new.users > MAX_REPORTS:
            raise PeerError(peer, round, f"expected at most {MAX_REPORTS} reports in all")
        self._state += new
        return new.users

    def estimate(
        self, confidence: float = 0.95, post: str | None = "norm-sub", *, population: bool = False
    ) -> dict[str, Estimate | MeanEstimate]:
        """Estimate how frequent each value of each attribute is, or a numeric mechanism's mean.

        Parameters and errors as :meth:`privagg.mechanisms.FrequencyOracle.estimate`.
        """
        one = self._survey.randomiser
        if isinstance(one, Params):
            every = estimation.estimate(
                one, self._state, confidence=confidence, post=post, population=population
            )
            return dict(every)
        (name,) = self._survey.names
        if isinstance(one, NumericMechanism):
            return {name: one.estimate(self._state, confidence, population=population)}
        found = one.estimate(self._state, confidence, post, population=population)
        return {name: found}

    def __repr__(self) -> str:
        return f"Collector({self._survey!r}, {self.users} reports)"


def refuse_other(found: bytes, survey: Survey, peer: str, round: str) -> None:
    """Raise `PeerError` unless a digest is the survey's."""
    if found != survey.digest:
        reason = (
            f"made for another survey: digest {found[:8].hex()}..., expected "
            f"{survey.digest[:8].hex()}..."
        )
        raise PeerError(peer, round, reason)
