"""The grid that a Message API strategy talks to: one reply, the mean, for a whole cohort."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NoReturn, cast

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from privagg.errors import UsageError
from privagg.integrations.flower.ranges import Job
from privagg.integrations.flower.rounds import Enrolled, run_round, same_content
from privagg.integrations.flower.settings import RoundReport, Settings
from privagg.integrations.flower.strategies import check_strategy
from privagg.integrations.flower.transport import Post

__all__ = ["SecAggGrid"]


class SecAggGrid(Grid):
    """A grid whose ``send_and_receive`` runs all rounds of the protocol.

    The strategy is given one synthetic reply: the weighted mean of the updates and metrics over all
    nodes that stayed, with the sum of their weights. It has nothing else to look at.

    Guarantee: see :class:`privagg.protocols.secagg.Server`; what clients check of it is theirs.

    Parameters
    ----------
    grid : Grid
        Flower's.
    strategy : Strategy
        The one that is given this grid; see :func:`check_strategy`.
    settings : Settings
        The server's choices.

    Raises
    ------
    UsageError
        If the strategy needs more than the mean, or evaluates what is not declared.

    Attributes
    ----------
    reports : list of RoundReport
        One per Flower round, in order.
    """

    def __init__(self, grid: Grid, strategy: object, settings: Settings) -> None:
        if not isinstance(grid, Grid):
            raise UsageError("grid", type(grid).__name__, "Flower's Grid")
        if isinstance(grid, SecAggGrid):
            raise UsageError("grid", "a SecAggGrid", "Flower's own Grid")
        if not isinstance(settings, Settings):
            raise UsageError("settings", type(settings).__name__, "Settings")
        check_strategy(strategy, settings.ranges)
        self._grid, self._settings = grid, settings
        self._enrolled = Enrolled()
        self.reports: list[RoundReport] = []

    def set_run(self, run: Any) -> None:
        """Set the run, as the grid inside does."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """The run's information."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message, as Flower's constructor makes it."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the nodes that are connected."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """Return the nodes that are connected."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> NoReturn:
        """Refuse: replies to single messages are replies of single nodes."""
        raise UsageError(
            "push_messages",
            "single messages",
            "send_and_receive, which gives back the mean",
            "Messages that are to be answered in the clear go through Flower's own grid.",
        )

    def pull_messages(self, message_ids: Iterable[str]) -> NoReturn:
        """Refuse, as :meth:`push_messages` does."""
        raise UsageError("pull_messages", "single replies", "send_and_receive")

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Aggregate what the nodes answer, and return one reply with the mean, or none.

        Parameters
        ----------
        messages : iterable of Message
            All of one type, ``train`` or ``evaluate``, and with the same content.
        timeout : float, optional
            Seconds after which everything is over; beside it each round has its own deadline.

        Returns
        -------
        list of Message
            One, or none if the round aborted; the reason is in :attr:`reports`.

        Raises
        ------
        UsageError, CapacityError
            If the messages or the settings do not fit.
        Abort, PeerError
            If the round aborted and ``settings.on_abort`` is ``raise``.
        """
        batch = list(messages)
        if not batch:
            return []
        types = {message.metadata.message_type for message in batch}
        kind = min(types)
        job = kind.split(".")[0]
        if len(types) > 1 or job not in ("train", "evaluate"):
            raise UsageError(
                "messages",
                f"of type {', '.join(sorted(types))}",
                "all of one type, train or evaluate",
                "Others go through Flower's own grid, if the clients' mod is told to answer them.",
            )
        received = {message.metadata.dst_node_id: message.content for message in batch}
        if len(received) < len(batch):
            raise UsageError("messages", "two for one node", "one per node")
        end = None if timeout is None else time.monotonic() + timeout
        post = Post(self._grid, kind, batch[0].metadata.group_id, end)
        content, report = run_round(
            post,
            self._settings,
            cast(Job, job),
            list(received),
            same_content(received),
            self._enrolled,
        )
        self.reports.append(report)
        return [] if content is None else [Message(content, reply_to=batch[0])]
