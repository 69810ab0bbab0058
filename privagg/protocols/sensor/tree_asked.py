"""A node of a protocol on the tree alone: it answers the query with its own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from privagg.errors import UsageError
from privagg.protocols.sensor import checks_papers, sound
from privagg.protocols.sensor.channel import Keyring
from privagg.protocols.sensor.messages import Hello, Message, Report
from privagg.protocols.sensor.params import Params, Protocol
from privagg.protocols.sensor.states_papers import PAPER_TABLES, PaperState, follow, step
from privagg.protocols.sensor.tree_node import (
    TreeNode,
    message_of,
    own_numbers,
)

__all__ = ["AskedNode"]


class AskedNode(TreeNode):
    """A node that answers the query with its own numbers; the order is a table."""

    protocol: ClassVar[Protocol]

    def __init__(self, params: Params, keyring: Keyring, *, last_epoch: int = -1) -> None:
        super().__init__(params, keyring, last_epoch=last_epoch)
        if params.protocol is not self.protocol:
            raise UsageError("protocol", str(params.protocol), str(self.protocol))
        self._table = PAPER_TABLES[self.protocol]
        self._state = PaperState.IDLE

    @property
    def state(self) -> PaperState:
        """What this node has done in the epoch."""
        return self._state

    def _ask(self, hello: Hello, numbers: Sequence[int], sender: int) -> list[int]:
        """Begin the epoch of a query; return the numbers, checked."""
        message_of(Hello, hello)
        following = follow(self._table, self._state, Hello, sender)
        checks_papers.query_is_new(hello.epoch, self._report_epoch, sender)
        own = own_numbers(numbers, self._params)
        self.begin_reports(hello.epoch)
        self._state = following
        return own

    def _expect(self, kind: type[Message], peer: int) -> None:
        self._state = follow(self._table, self._state, kind, peer)

    def add(self, report: Report, child: int) -> None:
        """Add what a child reports; as :meth:`TreeNode.add`, and refused out of order."""
        message_of(Report, report)
        self._expect(Report, child)
        super().add(report, child)

    def report(self, parent: int) -> Report:
        """Report to the parent; as :meth:`TreeNode.report`."""
        following = step(self._table, self._state, "report")
        made = super().report(parent)
        self._state = following
        return made

    def _elements(self, numbers: Sequence[int]) -> Any:
        return sound.lower(np.array(numbers, np.int64), self._params.field)
