"""Grids of small pictures, such as true and recovered images: as data, and drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privagg._report_choropleth import INK
from privagg._report_parts import printable
from privagg.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

__all__ = ["ImageGrid", "draw", "height"]

_GAP = 2
"""White pixels between pictures, at least."""

_LEAST = 10
"""Places in a row at least: few pictures are not blown up."""


@dataclass(frozen=True)
class ImageGrid:
    """Rows of pictures, all of one size.

    Parameters
    ----------
    title : str
        What they are.
    names : sequence of str
        Of the rows.
    rows : sequence of (n, height, width, 3) float arrays
        Pictures from 0 to 1; what lies outside is shown as the nearest.
    captions : sequence of sequences of str
        Below each picture of each row; or none.

    Raises
    ------
    UsageError
        If shapes differ or a number is not finite.
    """

    title: str
    names: Sequence[str]
    rows: Sequence[NDArray[Any]] = field(repr=False)
    captions: Sequence[Sequence[str]] = ()

    def __post_init__(self) -> None:
        where = f"rows of grid {self.title!r}"
        if not self.rows or len(self.rows) != len(self.names):
            raise UsageError(where, f"{len(self.rows)} rows", f"{len(self.names)}, one a name")
        for row in self.rows:
            if row.ndim != 4 or row.shape[3] != 3 or row.shape != self.rows[0].shape:
                raise UsageError(where, row.shape, "(n, height, width, 3), all alike")
            if not np.isfinite(row).all() or not len(row):
                raise UsageError(where, "no pictures or numbers not finite", "pictures")
        if self.captions and len(self.captions) != len(self.rows):
            raise UsageError(f"captions of grid {self.title!r}", len(self.captions), "one a row")


def _places(grid: ImageGrid) -> int:
    return max(_LEAST, len(grid.rows[0]))


def height(grid: ImageGrid, width: float) -> float:
    """Return the height in inches of a grid of a given width."""
    count, tall, wide = _places(grid), *grid.rows[0].shape[1:3]
    lines = 0.24 if grid.captions else 0.0
    return float(0.6 + len(grid.rows) * ((width - 1.2) / count * tall / wide + lines))


def draw(grid: ImageGrid, whole: Figure, slot: SubplotSpec) -> None:
    """Draw the pictures of a grid into a slot of a figure."""
    count, tall, wide = _places(grid), *grid.rows[0].shape[1:3]
    gap = max(_GAP, wide // 12)
    below = gap + (tall // 3 if grid.captions else 0)
    canvas = np.full((len(grid.rows) * (tall + below), count * (wide + gap), 3), np.nan)
    axes = whole.add_subplot(slot)
    axes.set_title(printable(grid.title).replace("$", r"\$"), loc="left", fontsize=12, color=INK)
    for at, row in enumerate(grid.rows):
        top = at * (tall + below)
        for place, picture in enumerate(np.clip(row, 0, 1)):
            left = place * (wide + gap)
            canvas[top : top + tall, left : left + wide] = picture
            if grid.captions:
                axes.text(
                    left + wide / 2,
                    top + tall + 1,
                    printable(grid.captions[at][place]).replace("$", r"\$"),
                    ha="center",
                    va="top",
                    fontsize=8,
                    color=INK,
                )
    opaque = np.isfinite(canvas[:, :, :1]).astype(float)
    axes.imshow(
        np.concatenate([np.nan_to_num(canvas), opaque], axis=2),
        interpolation="nearest",
        aspect="equal",
    )
    middles = [at * (tall + below) + tall / 2 for at in range(len(grid.rows))]
    axes.set_yticks(middles, [printable(name).replace("$", r"\$") for name in grid.names])
    axes.set_xticks([])
    axes.tick_params(colors=INK, labelsize=9, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
