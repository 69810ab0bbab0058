"""Where each attribute's bits stand in a report with fakes.

The unary attributes' bits come first, side by side, so that they are made and counted as one row;
the codes of the others follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from privagg.mechanisms.reports import Column
from privagg.protocols.multidim.params import Params, Protocol

__all__ = ["RowLayout", "groups_of", "row_layout"]


@dataclass(frozen=True)
class RowLayout:
    """The bits of one report with fakes.

    Attributes
    ----------
    offsets : tuple of int
        The first bit of each attribute.
    unary : int
        Bits of all unary attributes: the first ones of the row.
    width : int
        Bits of the whole row.
    """

    offsets: tuple[int, ...]
    unary: int
    width: int


def row_layout(params: Params) -> RowLayout:
    """Return where the attributes of a protocol with fakes stand in a report."""
    offsets, at, unary = [0] * params.d, 0, 0
    for wanted in (True, False):
        for number, field in enumerate(params.fields):
            if (field.split is None) is wanted:
                offsets[number] = at
                at += field.width
        if wanted:
            unary = at
    return RowLayout(tuple(offsets), unary, at)


def groups_of(params: Params) -> tuple[tuple[Column, ...], ...]:
    """Return the columns of each group of reports.

    ``smp`` has a group for each attribute, as its reports say which they are about; the others have
    one group. Reports with fakes are one row of bits.
    """
    if params.protocol.faked:
        return ((Column("report", row_layout(params).width, bitmap=True),),)
    each = tuple(one.layout for one in params.mechanisms)
    if params.protocol is Protocol.SMP:
        return each
    return (tuple(column for layout in each for column in layout),)
