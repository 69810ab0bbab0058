"""A report's tables on a terminal: columns shrink at blanks, never within a word that could fit.

Where even the longest words have no room beside each other, a table is continued below itself with
the columns that are left; its first column, which names the rows, comes along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from privagg._report_parts import Table, printable

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

__all__ = ["print_table", "shrink"]

_GAP = 3
"""Blanks between two columns."""

_LONGEST = 24
"""A longer word, such as a key or a path, is broken rather than the table."""


def print_table(console: Console, table: Table) -> None:
    """Print a table in the width of the `console`, in parts where it must be."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    texts = table.texts()
    natural, least = _needs(table, texts)
    room = console.width
    title = printable(table.title)
    for number, part in enumerate(_parts(natural, least, room)):
        grid = Grid(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        widths = shrink([natural[i] for i in part], [least[i] for i in part], room)
        for column, width in zip(part, widths, strict=True):
            justify: JustifyMethod = "right" if table.is_numeric(column) else "left"
            grid.add_column(
                Text(table.heads[column]), justify=justify, overflow="fold", width=width
            )
        for row in texts:
            grid.add_row(*(Text(row[column]) for column in part))
        console.print()
        if head := title if number == 0 else f"{title}, continued".lstrip(", "):
            console.print(Text(head, style="bold"))
        console.print(grid)


def shrink(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit the room: wide ones give way first, equally.

    Parameters
    ----------
    natural : sequence of int
        Widths without any line broken.
    least : sequence of int
        Widths without any word broken; at most `natural`. They are kept where they fit.
    room : int
        Of all columns and the gaps between them.
    """
    room -= _GAP * (len(natural) - 1)
    if sum(natural) <= room:
        return list(natural)
    floor = list(least) if sum(least) <= room else [1] * len(least)
    # The highest level to which the wide columns can be cut down.
    level = max(natural)
    while level > 1 and sum(_cut(natural, floor, level)) > room:
        level -= 1
    widths = _cut(natural, floor, level)
    for column in sorted(range(len(widths)), key=lambda i: widths[i] - natural[i]):
        spare = room - sum(widths)
        if spare > 0:
            widths[column] += min(spare, natural[column] - widths[column])
    return widths


def _cut(natural: Sequence[int], floor: Sequence[int], level: int) -> list[int]:
    return [max(low, min(high, level)) for high, low in zip(natural, floor, strict=True)]


def _needs(table: Table, texts: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
    """Return each column's width without a line broken, and without a word broken."""
    from rich.cells import cell_len

    natural, least = [], []
    for column, head in enumerate(table.heads):
        cells = [row[column] for row in texts]
        lines = [line for text in (head, *cells) for line in text.expandtabs().splitlines()]
        # A number stays on one line with its unit.
        words = head.split() + (
            cells if table.is_numeric(column) else [word for text in cells for word in text.split()]
        )
        natural.append(max(map(cell_len, lines), default=1) or 1)
        longest = max(map(cell_len, words), default=1) or 1
        least.append(min(longest, natural[-1], _LONGEST))
    return natural, least


def _parts(natural: Sequence[int], least: Sequence[int], room: int) -> list[list[int]]:
    """Return the columns of each part, the first column in every one."""
    parts = [[0]] if natural else []
    if sum(least) + _GAP * (len(least) - 1) <= room:
        return [list(range(len(natural)))]
    # Parts need not be narrow: a few more of them read better than broken lines.
    wanted = [max(low, min(high, _LONGEST)) for high, low in zip(natural, least, strict=True)]
    for column in range(1, len(natural)):
        part = [*parts[-1], column]
        if len(part) > 2 and sum(wanted[i] + _GAP for i in part) - _GAP > room:
            part = [0, column]
            parts.append(part)
        parts[-1] = part
    return parts
