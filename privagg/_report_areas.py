"""A choropleth as data: regions as polygons, each with an estimate, its interval and its count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privagg._report_parts import cell_text, printable
from privagg.errors import UsageError

__all__ = ["Area", "Choropleth", "Panel"]

Ring = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One region of a map.

    Parameters
    ----------
    region : str
        Its name, each once in a map.
    rings : sequence of rings of points (x, y)
        Closed lines, y upwards; where they overlap an even number of times there is a hole.
    estimate : float or None
        None where nothing is published.
    low, high : float or None
        The ends of its interval, both or neither.
    count : float or None
        How many respondents are estimated to stand behind it.
    truth : float or None
        What a simulation knows.
    label : str
        A short name, written on the map where there is room.
    flagged : bool
        Hatched: its interval is wider than useful.

    Raises
    ------
    UsageError
        If a number is not finite, an end of the interval is missing, or there is no polygon.
    """

    region: str
    rings: Sequence[Ring]
    estimate: float | None
    low: float | None = None
    high: float | None = None
    count: float | None = None
    truth: float | None = None
    label: str = ""
    flagged: bool = False

    def __post_init__(self) -> None:
        where = f"of region {self.region!r}"
        rings = tuple(tuple((float(x), float(y)) for x, y in ring) for ring in self.rings)
        if not rings or any(len(ring) < 3 for ring in rings):
            raise UsageError(f"rings {where}", "no polygon", "rings of at least 3 points")
        if not all(math.isfinite(v) for ring in rings for point in ring for v in point):
            raise UsageError(f"rings {where}", "a point that is not finite", "finite numbers")
        for name in ("estimate", "low", "high", "count", "truth"):
            value = getattr(self, name)
            if value is not None:
                if not math.isfinite(value):
                    raise UsageError(f"{name} {where}", value, "a finite number, or None")
                object.__setattr__(self, name, float(value))
        if (self.low is None) != (self.high is None):
            raise UsageError(f"low {where}", self.low, "both ends of the interval, or neither")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise UsageError(f"low {where}", self.low, f"at most high = {self.high:g}")
        object.__setattr__(self, "rings", rings)

    @property
    def width(self) -> float | None:
        """The width of the interval."""
        return None if self.low is None or self.high is None else self.high - self.low


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the maps side by side.

    Attributes
    ----------
    title : str
        What its colours mean, with the unit.
    values : tuple of float or None
        One for each area.
    low, high : float
        The ends of its colour scale.
    hatched : bool
        Whether flagged areas are hatched in it.
    """

    title: str
    values: tuple[float | None, ...]
    low: float
    high: float
    hatched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choropleth:
    """Regions filled by colour: the estimates, beside them the widths of intervals and the truth.

    Estimates and truth share one colour scale. In a page each region shows its numbers when it is
    pointed at, tapped or reached by the keyboard.

    Parameters
    ----------
    title : str
        What is shown.
    value_label : str
        What the numbers are, with the unit: ``"mean weekly income [$]"``.
    areas : sequence of Area
        At least one.
    confidence : float
        Of the intervals.
    count_label : str
        What the counts are.

    Raises
    ------
    UsageError
        If there is no area, or two have one name.
    """

    title: str
    value_label: str
    areas: Sequence[Area]
    confidence: float = 0.95
    count_label: str = "respondents"

    def __post_init__(self) -> None:
        object.__setattr__(self, "areas", tuple(self.areas))
        if not self.areas:
            raise UsageError(f"areas of {self.title!r}", "none", "at least one")
        names = [area.region for area in self.areas]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"areas of {self.title!r}", twice, "each region once")
        if not 0 < self.confidence < 1:
            raise UsageError("confidence", self.confidence, "a number between 0 and 1")

    def panels(self) -> list[Panel]:
        """Return the maps: estimates, then widths of intervals and truths where there are any."""
        estimates = tuple(area.estimate for area in self.areas)
        widths = tuple(area.width for area in self.areas)
        truths = tuple(area.truth for area in self.areas)
        low, high = _range(estimates + truths)
        label = printable(self.value_label)
        found = [Panel(f"Estimate: {label}", estimates, low, high, hatched=True)]
        if any(width is not None for width in widths):
            title = f"Width of the {100 * self.confidence:g} % interval: {label}"
            found.append(Panel(title, widths, 0.0, _range((*widths, 0.0))[1]))
        if any(truth is not None for truth in truths):
            found.append(Panel(f"Truth: {label}", truths, low, high))
        return found

    def lines(self, area: Area) -> list[str]:
        """Return what is said of an area: its name, its estimate, and the rest."""
        estimate = "no estimate" if area.estimate is None else f"estimate {_text(area.estimate)}"
        if area.low is not None and area.high is not None:
            estimate += f" ({_text(area.low)} to {_text(area.high)})"
        rest = []
        if area.count is not None:
            rest.append(f"{printable(self.count_label)} {_text(area.count)}")
        if area.truth is not None:
            rest.append(f"truth {_text(area.truth)}")
        if area.flagged:
            rest.append("interval wider than useful")
        return [printable(area.region), estimate, ", ".join(rest)]


def _range(values: Sequence[float | None]) -> tuple[float, float]:
    """Return the ends of a scale, never equal."""
    known = [value for value in values if value is not None] or [0.0]
    low, high = min(known), max(known)
    return (low, high) if low < high else (low, low + (abs(low) or 1.0))


def _text(value: float) -> str:
    whole = value.is_integer() and abs(value) < 1e15
    return cell_text(int(value) if whole else value)
