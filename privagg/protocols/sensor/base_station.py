"""The base station: asks, takes the reports of its children, and has the sum."""

from __future__ import annotations

from typing import Any

from privagg import field as fields
from privagg.protocols.sensor import checks_papers, sound
from privagg.protocols.sensor.messages import Hello
from privagg.protocols.sensor.params import Arithmetic, Protocol
from privagg.protocols.sensor.tree_node import TreeNode

__all__ = ["BaseStation"]


class BaseStation(TreeNode):
    """The root of the tree. It learns the sums of its children's subtrees, and the total."""

    def query(self, epoch: int) -> Hello:
        """Begin an epoch and return the query to flood.

        Parameters
        ----------
        epoch : int
            Its number.

        Returns
        -------
        Hello
        """
        self.begin_reports(epoch)
        return Hello(epoch=epoch, hops=0, leads=False)

    def total(self) -> tuple[list[Any], int]:
        """Return the sums, signed, and how many readings are in them.

        Raises
        ------
        Abort
            With ``smart``: if the sums are none of so many readings, as a slice was lost.
        """
        if self._params.arithmetic is Arithmetic.REAL:
            return list(self._numbers), self._count
        field = self._params.field
        lifted = sound.lift(fields.elements(self._numbers, field), field)
        sums = [int(value) for value in lifted]
        if self._params.protocol is Protocol.SMART and not self._params.plain_slices:
            checks_papers.readings_are_in_range(sums, self._count, self._params)
        return sums, self._count
