"""Maps of estimates by region: outlines where they are known, filled by colour."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from privagg.datasets.declared import STATE_CODES
from privagg.protocols.locational import outlines as shapes
from privagg.protocols.locational.geometry import Grid
from privagg.protocols.locational.regions import Merged, Regions
from privagg.protocols.locational.result import Result
from privagg.report import Area, Choropleth

__all__ = ["maps", "outlines_of"]

_MOST_AREAS, _MOST_MAPS = 2000, 3


def outlines_of(regions: Regions) -> list[shapes.Outline] | None:
    """Return the outline of each region, in their order; None where they are not known.

    States by name or postal code are hexagons; other lists have none. Merged regions have those of
    their children.
    """
    if isinstance(regions, Merged):
        own = outlines_of(regions.children)
        if own is None:
            return None
        above = regions.children.parents or ()
        return [
            shapes.Outline(
                name,
                tuple(
                    ring
                    for one, parent in zip(own, above, strict=True)
                    if parent == name
                    for ring in one.rings
                ),
            )
            for name in regions.names
        ]
    if isinstance(regions, Grid):
        south, west, north, east = regions.bounds
        rows, columns = regions.shape
        return shapes.grid(rows, columns, south=south, west=west, north=north, east=east)
    rings = regions.outline()
    if rings is not None:
        south, _, north, _ = _extent(rings)
        squeeze = math.cos(math.radians((south + north) / 2))
        return [
            shapes.Outline(
                name, tuple(tuple((float(x) * squeeze, float(y)) for x, y in ring) for ring in own)
            )
            for name, own in zip(regions.names, rings, strict=True)
        ]
    codes = [STATE_CODES.get(name, name.upper()) for name in regions.names]
    if all(code in shapes.STATES for code in codes) and len(set(codes)) == len(codes):
        found = shapes.us_states("hex", codes)
        return [
            shapes.Outline(name, one.rings, code)
            for name, one, code in zip(regions.names, found, codes, strict=True)
        ]
    return None


def maps(result: Result) -> Iterator[Choropleth]:
    """Return a map for each of the first columns of estimates, with the truth beside.

    There is none where outlines are not known, or regions are more than 2000.
    """
    found, truth = result.estimates, result.truth.estimates
    regions = result.params.regions
    outlines = outlines_of(regions) if len(regions) <= _MOST_AREAS else None
    if outlines is None:
        return
    unit = "mean" if found.means else "respondents"
    layers = [("Estimates by region", found.estimate, found.low, found.high, found.wide)]
    if found.smooth is not None and found.smooth_low is not None and found.smooth_high is not None:
        wide = ~(found.smooth_high - found.smooth_low < np.abs(found.smooth))
        title = "Smoothed estimates by region, by a model of all of them"
        layers.append((title, found.smooth, found.smooth_low, found.smooth_high, wide))
    for column, label in enumerate(found.columns[:_MOST_MAPS]):
        for title, values, low, high, wide in layers:
            areas = [
                Area(
                    region=outline.region,
                    rings=outline.rings,
                    estimate=_or_none(values[at, column]),
                    low=_or_none(low[at, column]),
                    high=_or_none(high[at, column]),
                    count=float(found.count[at]),
                    truth=_or_none(truth[at, column]),
                    label=outline.label,
                    flagged=bool(wide[at, column]),
                )
                for at, outline in enumerate(outlines)
            ]
            yield Choropleth(
                title=f"{title}: {label}" if label else title,
                value_label=f"{label}: {unit}" if label else unit,
                areas=areas,
                confidence=found.confidence,
            )


def _extent(rings: Sequence[Sequence[np.ndarray]]) -> tuple[float, float, float, float]:
    points = np.concatenate([ring for own in rings for ring in own])
    west, south = points.min(axis=0)
    east, north = points.max(axis=0)
    return float(south), float(west), float(north), float(east)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
