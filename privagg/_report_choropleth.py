"""Choropleths drawn: by matplotlib for files, and as SVG of our own that needs no script in a page.

In a page every region is a group with its name in ``data-region``. What is said of it stands in a
strip below the map that no region covers, and style rules alone show it.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from privagg._report_areas import Area, Choropleth, Panel
from privagg._report_parts import cell_text, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

__all__ = ["GRID", "INK", "colour", "draw", "markup"]

INK, GRID = "#1d2733", "#d5dae0"

# From dark blue to yellow, evenly lighter: readable in grey, and with the common kinds of colour
# blindness, which leave blue and yellow apart.
_SCALE = (
    (8, 29, 88),
    (44, 66, 110),
    (92, 99, 116),
    (137, 134, 117),
    (191, 173, 100),
    (253, 231, 76),
)
_NOTHING = "#c3c7cc"
_LABELLED = 80
_WIDTH, _TALLEST = 400.0, 520.0
"""Of a map in a page, in its own units: 13 of them are letters' height, readable on a phone."""


def colour(value: float | None, low: float, high: float) -> str:
    """Return the colour of a value on the scale, as ``#rrggbb``; grey for none."""
    if value is None:
        return _NOTHING
    part = min(max((value - low) / (high - low), 0.0), 1.0) * (len(_SCALE) - 1)
    index = min(int(part), len(_SCALE) - 2)
    mixed = [
        round(one + (other - one) * (part - index))
        for one, other in zip(_SCALE[index], _SCALE[index + 1], strict=True)
    ]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _on(fill: str) -> str:
    """Return black or white, whichever is read more easily on a colour."""
    red, green, blue = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


def draw(plot: Choropleth, whole: Figure, slot: SubplotSpec) -> None:
    """Draw the maps of a choropleth side by side into a slot of a figure."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.patches import PathPatch

    shades = [tuple(channel / 255 for channel in shade) for shade in _SCALE]
    scale = LinearSegmentedColormap.from_list("privagg", shades)
    panels = plot.panels()
    inner = slot.subgridspec(1, len(panels))
    for number, panel in enumerate(panels):
        axes = whole.add_subplot(inner[0, number])
        axes.set_aspect("equal")
        axes.set_axis_off()
        for area, value in zip(plot.areas, panel.values, strict=True):
            fill = colour(value, panel.low, panel.high)
            hatched = panel.hatched and area.flagged
            axes.add_patch(
                PathPatch(
                    _path(area),
                    facecolor=fill,
                    edgecolor=_on(fill) if hatched else "#ffffff",
                    hatch="////" if hatched else None,
                    linewidth=0.6,
                )
            )
            if area.label and len(plot.areas) <= _LABELLED:
                x, y = _middle(area)
                box = {"facecolor": fill, "edgecolor": "none", "pad": 0.6} if hatched else None
                text = printable(area.label).replace("$", r"\$")
                axes.text(
                    x, y, text, ha="center", va="center", fontsize=7, color=_on(fill), bbox=box
                )
        axes.autoscale_view()
        bar = whole.colorbar(
            ScalarMappable(Normalize(panel.low, panel.high), scale),
            ax=axes,
            orientation="horizontal",
            shrink=0.8,
            pad=0.02,
            aspect=30,
        )
        label = textwrap.fill(panel.title.replace("$", r"\$"), 48)
        for note in _notes(plot, panel):
            label += "\n" + note
        bar.set_label(label, fontsize=9, color=INK)
        bar.ax.tick_params(colors=INK, labelsize=8)
        bar.outline.set_visible(False)
        if number == 0:
            title = printable(plot.title).replace("$", r"\$")
            axes.set_title(title, loc="left", fontsize=12, color=INK, pad=10)


def _notes(plot: Choropleth, panel: Panel) -> list[str]:
    notes = []
    if panel.hatched and any(area.flagged for area in plot.areas):
        notes.append("hatched: interval wider than useful")
    if any(value is None for value in panel.values):
        notes.append("grey: nothing published")
    return notes


def _path(area: Area) -> Any:
    """Return an area as one path whose holes run the other way around."""
    from matplotlib.path import Path

    points: list[tuple[float, float]] = []
    codes: list[int] = []
    for index, ring in enumerate(area.rings):
        others = [other for at, other in enumerate(area.rings) if at != index]
        depth = sum(_inside(ring[0], other) for other in others)
        turned = list(ring) if (_signed(ring) > 0) == (depth % 2 == 0) else list(ring)[::-1]
        points += [*turned, turned[0]]
        codes += [int(Path.MOVETO), *[int(Path.LINETO)] * (len(ring) - 1), int(Path.CLOSEPOLY)]
    return Path(points, codes)


def _signed(ring: Sequence[tuple[float, float]]) -> float:
    """Return the area of a ring, negative if it runs clockwise."""
    following = [*ring[1:], ring[0]]
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, following, strict=True)) / 2


def _inside(point: tuple[float, float], ring: Sequence[tuple[float, float]]) -> bool:
    x, y = point
    found = False
    for (ax, ay), (bx, by) in zip(ring, [*ring[1:], ring[0]], strict=True):
        if (ay > y) != (by > y) and x < ax + (y - ay) / (by - ay) * (bx - ax):
            found = not found
    return found


def _middle(area: Area) -> tuple[float, float]:
    """Return the centroid of an area's largest ring."""
    ring = max(area.rings, key=lambda one: abs(_signed(one)))
    size = _signed(ring)
    if size == 0:
        return ring[0]
    x = y = 0.0
    for a, b in zip(ring, [*ring[1:], ring[0]], strict=True):
        cross = a[0] * b[1] - b[0] * a[1]
        x += (a[0] + b[0]) * cross
        y += (a[1] + b[1]) * cross
    return x / (6 * size), y / (6 * size)


def markup(plot: Choropleth, prefix: str) -> str:
    """Return a choropleth as HTML to stand in a page, in the page's own colours for ink and ground.

    Parameters
    ----------
    plot : Choropleth
        What to draw.
    prefix : str
        Put before every id, so that several can share a page.
    """
    maps = [
        f'<div class="panel">{_svg(plot, panel, f"{prefix}{number}-")}</div>'
        for number, panel in enumerate(plot.panels())
    ]
    return f'<div class="panels">{"".join(maps)}</div>'


def _svg(plot: Choropleth, panel: Panel, prefix: str) -> str:
    xs = [x for area in plot.areas for ring in area.rings for x, _ in ring]
    ys = [y for area in plot.areas for ring in area.rings for _, y in ring]
    left, top = min(xs), max(ys)
    wide, tall = max(xs) - left or 1.0, top - min(ys) or 1.0
    scale = min((_WIDTH - 4) / wide, _TALLEST / tall)
    shift = (_WIDTH - wide * scale) / 2
    bottom = tall * scale + 4

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return shift + (point[0] - left) * scale, 2 + (top - point[1]) * scale

    notes = textwrap.wrap(panel.title, 54) + _notes(plot, panel)
    strip = bottom + 12
    legend = strip + 56
    height = legend + 30 + 16 * len(notes)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH:g} {height:.0f}" role="group" '
        f'aria-label="{html.escape(panel.title)}" font-size="13" fill="var(--ink)">',
        f'<defs><linearGradient id="{prefix}scale">{_stops()}</linearGradient>',
        f"{_hatch(prefix)}</defs>",
        f'<text class="hint" x="2" y="{strip + 14:.0f}">Point at a region, or tap it.</text>',
    ]
    for area, value in zip(plot.areas, panel.values, strict=True):
        fill = colour(value, panel.low, panel.high)
        parts.append(_region(plot, panel, area, fill, prefix, place, strip))
    parts.append(_legend(panel, prefix, legend))
    for number, note in enumerate(notes):
        parts.append(f'<text x="2" y="{legend + 42 + 16 * number:.0f}">{html.escape(note)}</text>')
    return "".join(parts) + "</svg>"


def _region(
    plot: Choropleth, panel: Panel, area: Area, fill: str, prefix: str, place: Any, strip: float
) -> str:
    lines = plot.lines(area)
    steps = []
    for ring in area.rings:
        points = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in ring)
        steps.append(f"M{points}Z")
    path = "".join(steps)
    shape = f'<path class="shape" fill-rule="evenodd" fill="{fill}" d="{path}"/>'
    hatched = panel.hatched and area.flagged
    if hatched:
        pattern = f"{prefix}{'dark' if _on(fill) == '#000000' else 'light'}"
        shape += f'<path fill-rule="evenodd" fill="url(#{pattern})" d="{path}"/>'
    if area.label and len(plot.areas) <= _LABELLED:
        x, y = place(_middle(area))
        halo = f' stroke="{fill}" stroke-width="3" paint-order="stroke"' if hatched else ""
        shape += (
            f'<text class="label" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="11" '
            f'fill="{_on(fill)}"{halo}>{html.escape(printable(area.label))}</text>'
        )
    said = "".join(
        f'<text x="2" y="{strip + 14 + 17 * at:.0f}" font-weight="{600 if at == 0 else 400}">'
        f"{html.escape(textwrap.shorten(line, 58, placeholder='…'))}</text>"
        for at, line in enumerate(lines)
    )
    name = html.escape(". ".join(line for line in lines if line))
    return (
        f'<g class="region" tabindex="0" role="img" aria-label="{name}" '
        f'data-region="{html.escape(printable(area.region))}">{shape}<g class="tip">'
        f'<rect class="ground" x="0" y="{strip - 2:.0f}" width="{_WIDTH:g}" height="54"/>'
        f"{said}</g></g>"
    )


def _stops() -> str:
    last = len(_SCALE) - 1
    return "".join(
        f'<stop offset="{at / last:.2f}" stop-color="{colour(at, 0, last)}"/>'
        for at in range(last + 1)
    )


def _hatch(prefix: str) -> str:
    """Return diagonal lines, for dark grounds and for light ones."""
    return "".join(
        f'<pattern id="{prefix}{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path d="M0,0V6" stroke="{ink}" stroke-width="1.6"/>'
        "</pattern>"
        for name, ink in (("dark", "#000000"), ("light", "#ffffff"))
    )


def _legend(panel: Panel, prefix: str, at: float) -> str:
    middle = (panel.low + panel.high) / 2
    digits = 3 - math.floor(math.log10(max(abs(panel.low), abs(panel.high), 1e-300)))
    marks = ((panel.low, 2.0, "start"), (middle, _WIDTH / 2, "middle"), (panel.high, 398.0, "end"))
    texts = "".join(
        f'<text x="{x:g}" y="{at + 24:.0f}" text-anchor="{anchor}">'
        f"{cell_text(round(value, digits) if digits < 300 else value)}</text>"
        for value, x, anchor in marks
    )
    bar = f'<rect x="2" y="{at:.0f}" width="396" height="10" fill="url(#{prefix}scale)"/>'
    return bar + texts
