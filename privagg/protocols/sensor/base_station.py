"""The base station: asks, takes the reports of its children, and has the sum."""

from __future__ import annotations

from privagg import field as fields
from privagg.protocols.sensor import sound
from privagg.protocols.sensor.messages import Hello
from privagg.protocols.sensor.tree_node import TreeNode

__all__ = ["BaseStation"]


class BaseStation(TreeNode):
    """The root of the tree. It learns the sums of its children's subtrees, and the total."""

    def query(self, epoch: int) -> Hello:
        """Begin an epoch and return the query to flood."""
        self.begin_reports(epoch)
        return Hello(epoch=epoch, hops=0, leads=False)

    def total(self) -> tuple[list[int], int]:
        """Return the sums, signed, and how many readings are in them."""
        field = self._params.field
        lifted = sound.lift(fields.elements(self._numbers, field), field)
        return [int(value) for value in lifted], self._count
