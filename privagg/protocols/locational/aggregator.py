"""The aggregator's side: reports become sums, sums add up, regions are estimated."""

from __future__ import annotations

from privagg._validate import whole
from privagg.errors import PeerError, UsageError
from privagg.mechanisms import Reports, State
from privagg.protocols.locational.estimation import RegionEstimates, estimate
from privagg.protocols.locational.params import Params
from privagg.wire import Reader, Writer

__all__ = ["Aggregator"]

_MAGIC = b"PALG"
_VERSION = 1


class Aggregator:
    """Whoever collects the reports of one survey. Nobody needs to trust it.

    It keeps sums only, so its memory does not grow with the respondents. Aggregators that hold
    different reports merge, in any order; a report counted twice is counted twice, and a made-up
    one like an honest one.

    Parameters
    ----------
    params : Params
        The survey.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """

    def __init__(self, params: Params) -> None:
        if not isinstance(params, Params):
            raise UsageError("params", type(params).__name__, "Params")
        self._params = params
        self._states = [oracle.empty() for oracle in params.oracles]

    @property
    def params(self) -> Params:
        """The survey."""
        return self._params

    @property
    def states(self) -> tuple[State, ...]:
        """The sums so far, of each group."""
        return tuple(self._states)

    @property
    def users(self) -> int:
        """How many reports were counted."""
        return sum(state.users for state in self._states)

    def receive(
        self,
        reports: Reports | bytes | bytearray | memoryview,
        *,
        group: int = 0,
        peer: str | int = "respondent",
    ) -> int:
        """Count some reports of one group, or their wire form; return how many there were.

        Parameters
        ----------
        reports : reports or bytes
            The reports, or their wire form.
        group : int
            Which group of respondents they are of.
        peer : str or int
            Who sent it, for errors.

        Raises
        ------
        PeerError
            Naming `peer`, if they are of another survey or group, or malformed: nothing is counted.
        UsageError
            If an argument is not as described.
        """
        at = whole("group", group, 0, self._params.groups - 1)
        oracle = self._params.oracles[at]
        if not isinstance(reports, Reports):
            reports = oracle.decode_reports(reports, peer=peer)
        self._states[at] += oracle.aggregate(reports)
        return len(reports)

    def merge(self, other: Aggregator) -> None:
        """Add the sums of another aggregator; `PeerError` if it is of another survey.

        Raises
        ------
        PeerError
            If it is of another survey.
        UsageError
            If it is no such thing.
        """
        if not isinstance(other, Aggregator):
            raise UsageError("other", type(other).__name__, "an Aggregator")
        if other.params.digest != self._params.digest:
            raise PeerError("aggregator", "merge", "of another survey: the digests differ")
        pairs = zip(self._states, other.states, strict=True)
        self._states = [mine + theirs for mine, theirs in pairs]

    def dump_state(self) -> bytes:
        """Return the sums as bytes, for :meth:`load_state`.

        They are ``PALG``, a version (1 byte), the survey's digest (32 bytes), and each group's
        state after its length (u32).
        """
        writer = Writer().raw(_MAGIC).u8(_VERSION).raw(self._params.digest)
        for state in self._states:
            content = state.encode()
            writer.u32(len(content)).raw(content)
        return writer.getvalue()

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
        reader = Reader(data, peer=peer, round="state")
        if reader.raw(len(_MAGIC)) != _MAGIC or reader.u8() != _VERSION:
            reader.fail("expected the state of an aggregator of regions")
        if reader.raw(32) != params.digest:
            reader.fail("of another survey: the digests differ")
        made._states = []
        for oracle in params.oracles:
            content = reader.raw(reader.u32())
            made._states.append(oracle.decode_state(content, peer=peer))
        reader.end()
        return made

    def estimate(self, confidence: float = 0.95, post: str | None = "norm-sub") -> RegionEstimates:
        """Estimate every region; see :func:`privagg.protocols.locational.estimation.estimate`."""
        return estimate(self._params, self.states, confidence=confidence, post=post)

    def __repr__(self) -> str:
        return f"Aggregator({len(self._params.regions)} regions, {self.users} reports)"
