"""One exchange with many nodes that never waits longer than said.

A node that was killed answers nothing: it shows only as a time-out. So messages are pushed, and
replies pulled until all are there or the time is over, whatever the grid's own waiting is like.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from privagg.integrations.flower.setup import KEY, REASONS

__all__ = ["Post"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_GRACE = 5.0
"""Seconds beyond the deadline for which a message lives, so that late replies are no errors."""


class Post:
    """Carries messages of one type between the server and its nodes.

    Parameters
    ----------
    grid : Grid
        Flower's.
    message_type, group_id : str
        As the strategy chose them.
    end : float, optional
        The time, by :func:`time.monotonic`, at which everything is over.
    """

    def __init__(
        self, grid: Grid, message_type: str, group_id: str, end: float | None = None
    ) -> None:
        self._grid, self._end = grid, end
        self.message_type, self.group_id = message_type, group_id
        self.failures: Counter[str] = Counter()

    def exchange(
        self, contents: Mapping[int, RecordDict], seconds: float
    ) -> Iterator[tuple[int, ConfigRecord]]:
        """Send each node its content; yield the nodes' records of ours as they come.

        Parameters
        ----------
        contents : mapping of node id to RecordDict
            What goes out.
        seconds : float
            How long replies are waited for, at most.
        """
        began = time.monotonic()
        end = began + seconds if self._end is None else min(began + seconds, self._end)
        ttl = max(end - began, 0.0) + _GRACE
        out = [
            Message(content, node, self.message_type, ttl=ttl, group_id=self.group_id)
            for node, content in contents.items()
        ]
        self._grid.push_messages(out)
        # Who may answer a message is the SuperLink's knowledge; what the reply says of its sender
        # is not looked at.
        waiting = {message.metadata.message_id: message.metadata.dst_node_id for message in out}
        del out
        pause = _FIRST_PAUSE
        while waiting:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is None:
                    continue
                pause = _FIRST_PAUSE
                record = self._record(reply)
                if record is not None:
                    yield node, record
            left = end - time.monotonic()
            if left <= 0:
                break
            if waiting:
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)
        if waiting:
            self.failures["no answer in time"] += len(waiting)

    def _record(self, reply: Message) -> ConfigRecord | None:
        if reply.has_error():
            reason = reply.error.reason
            # Of errors that are not ours, the code says enough: their text may be a client's.
            known = reason if reason in REASONS.values() else f"Flower error {reply.error.code}"
            self.failures[str(known)] += 1
            return None
        record = reply.content.config_records.get(KEY)
        if record is None:
            self.failures["a reply outside the protocol"] += 1
        return record
