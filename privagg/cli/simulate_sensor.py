"""``privagg simulate sensor``: a sensor network that aggregates, simulated on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from click import get_current_context

from privagg.cli._sensor_options import check_effect, network_options, protocol_options
from privagg.cli.common import (
    Options,
    command,
    emit,
    file_option,
    note,
    seed_option,
    warn,
)
from privagg.errors import UsageError

if TYPE_CHECKING:
    from privagg.protocols.sensor import Query

__all__ = ["sensor"]

_POWERS = (1, 2, 4, 8, 16, 32, 64)

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@command(
    "sensor",
    examples=[
        "privagg simulate sensor --protocol cpda-field --nodes 600 --area 400 --range 50",
        "privagg simulate sensor --input meters.csv --range 80 --query mean --scale 100",
        "privagg simulate sensor --query max --approximation power --power 8 --power 64",
        "privagg simulate sensor --protocol smart --nodes 600 --loss 0.05 --retries 3 --json",
        "privagg simulate sensor --protocol cpda --allow-insecure",
    ],
    plots=True,
    library_names={"range": "--range", "edges": "--edge", "deaths": "--die"},
)
@protocol_options
@click.option(
    "--input",
    "source",
    type=_READABLE,
    metavar="FILE",
    help="Real readings: .csv or .parquet with a row for each node, its place and its value.",
)
@click.option("--x-column", metavar="COLUMN", default="x", show_default=True, help="Of --input.")
@click.option("--y-column", metavar="COLUMN", default="y", show_default=True, help="Of --input.")
@click.option(
    "--value-column", metavar="COLUMN", default="value", show_default=True, help="Of --input."
)
@network_options
@click.option(
    "--die",
    multiple=True,
    metavar="NODE:STEP",
    help="A node dies before this step of the first epoch: hello, join, roster, shares, answers or "
    "report; may be repeated.",
)
@click.option(
    "--death-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="FRACTION",
    help="So many nodes, drawn at random, die at a random step of a random epoch.",
)
@file_option(
    "--transcript",
    "FILE.jsonl",
    "Write who sent what to whom and what arrived: simulation truth, for audit linear.",
)
@seed_option
def sensor(
    source: Path | None,
    x_column: str,
    y_column: str,
    value_column: str,
    die: tuple[str, ...],
    death_rate: float,
    transcript: Path | None,
    seed: int | None,
    options: Options,
    **values: Any,
) -> None:
    """Simulate a sensor network that aggregates without showing single readings.

    Places nodes, forms clusters and a tree over a radio with limited range, frames and losses, runs
    the protocol, and compares the result with the truth. Readings come from a file, or are whole
    numbers from 0 to 100. Three protocols of the literature are insecure and need
    --allow-insecure. Ends with 3 if the base station has nothing of any epoch.
    """
    from privagg.cli import _sensor_input, _sensor_report
    from privagg.protocols import sensor as protocol

    check_effect(get_current_context())

    nodes, area = values.pop("nodes"), values.pop("area")
    readings = positions = None
    if source is not None:
        if nodes is not None:
            raise UsageError("--nodes", nodes, "nothing beside --input, which has a row for a node")
        table = _sensor_input.read(source, x_column, y_column, value_column)
        readings, positions, nodes = table.values, table.positions, len(table.values)
        area = table.side if area is None else area
        note(options, f"{source.name}: {nodes} nodes in {table.side:.6g} m x {table.side:.6g} m.")
    deployment = protocol.Deployment(
        nodes=600 if nodes is None else nodes,
        area=400.0 if area is None else area,
        range=values.pop("range_"),
        leader_probability=values.pop("leader_probability"),
        flood=values.pop("flood"),
        base_station=values.pop("base_station"),
        seed=seed,
        positions=positions,
    )
    radio = protocol.Radio(**{name: values.pop(name) for name in ("loss", "retries", "payload")})
    energy = protocol.Energy(
        model=values.pop("energy"),
        **{name: values.pop(name) for name in ("overhearing", "duty_cycle", "epoch_seconds")},
    )
    query = _query(values)
    epochs = values.pop("epochs")
    approximation, powers = values.pop("approximation"), values.pop("powers")
    if approximation and not query.bisects:
        raise UsageError("--approximation", f"given with the query {query.kind}", "max or min")
    if approximation and readings is None:
        readings = protocol.generated_readings(deployment, epochs)
    deaths = _sensor_input.deaths(die, death_rate, deployment.nodes, epochs, seed)
    given = {name: value for name, value in values.items() if value is not None}
    result = protocol.simulate(
        deployment,
        readings=readings,
        query=query,
        epochs=epochs,
        radio=radio,
        energy=energy,
        deaths=deaths,
        transcript=transcript is not None,
        **given,
    )
    if transcript is not None and result.transcript is not None:
        result.transcript.write(transcript)
        note(options, f"Wrote {transcript}")
    if result.params.protocol.broken:
        warn(f"{result.params.protocol} is {result.guarantee}")
    elif not result.secure:
        warn(f"{result.params.protocol}: {result.guarantee}")
    if result.rounded:
        warn(f"readings rounded to whole steps: {result.rounded:,}; see --scale")
    if result.abort:
        raise result.abort
    name = "generated readings" if source is None else source.name
    shown = None
    if approximation:
        shown = _powers(readings, powers or _POWERS, query, result.scale)
    emit(_sensor_report.report(result, name, shown), options)


def _query(values: dict[str, Any]) -> Query:
    from privagg.protocols import sensor as protocol

    edges = values.pop("edge")
    return protocol.Query(
        kind=protocol.QueryKind(values.pop("query")),
        at_least=values.pop("at_least"),
        edges=tuple(edges) if edges else None,
    )


def _powers(
    readings: Any, exponents: tuple[int, ...], query: Query, scale: int
) -> list[tuple[int, float, float, int]]:
    """Return what sums of powers give, and the bits that a sum of integers so large may have."""
    from privagg.protocols import sensor as protocol

    smallest = query.kind is protocol.QueryKind.MIN
    rows = protocol.power_maximum(readings, exponents, minimum=smallest)
    largest = round(float(readings.max()) * scale)
    return [(k, *rest, (readings.size * largest**k).bit_length()) for k, *rest in rows]
