"""A simulated round as a report: JSON for programs; tables, plots and plain words for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import datasets
from privagg.cli._secagg_inputs import LARGEST, Material
from privagg.cli._secagg_shared import (
    blame_rows,
    blame_table,
    guarantee,
    inputs_of,
    parameters,
)
from privagg.protocols import secagg
from privagg.protocols.secagg import ROUNDS, Params, Result
from privagg.report import Cell, Column, Plot, Reference, Report, Series, Table

__all__ = ["simulation", "summary"]

_SHOWN = 10
_IN_JSON = 20
"""So many coordinates of the sum are in the table, and in the JSON object; --sum-out has all."""


def simulation(
    result: Result, material: Material, leaves: Mapping[int, str], wall: float
) -> Report:
    """Report a simulated round.

    Parameters
    ----------
    result : Result
        Of the round.
    material : Material
        Its inputs.
    leaves : mapping of client to round name
        Who was made to leave, and when.
    wall : float
        Seconds by the clock.
    """
    params = result.params
    histogram = None
    if material.histogram is not None:
        histogram = _histogram(result, material.histogram)
    learned, hidden = _learned(result), _hidden(result)
    formula = secagg.expansion_formula(params)
    data = parameters(params) | inputs_of(material)
    data |= {
        "dropouts": {name: sum(at == name for at in leaves.values()) for name in ROUNDS},
        "survivors": {name: len(who) for name, who in result.survivors.items()},
        "count": result.count,
        "weight_total": result.weight_total,
        "expansion": result.expansion,
        "expansion_formula": formula,
        "expansion_graph_proof": result.bytes_graph_proof / params.raw_bytes,
        "bytes_up_per_client": result.bytes_up_per_client,
        "bytes_down_per_client": result.bytes_down_per_client,
        "bytes_up": {name: _mean(result, result.bytes_up, name) for name in result.survivors},
        "bytes_down": {name: _mean(result, result.bytes_down, name) for name in result.survivors},
        "seconds": _seconds(result, wall),
        "exact": result.exact,
        "max_error": result.max_error,
        "error_bound": result.error_bound,
        "sum": summary(result.sum, material.inputs.labels),
        "mean": summary(_mean_of(result), material.inputs.labels, _shape_of(result)),
        "histogram": histogram,
        "guarantee": guarantee(params),
        "learned": learned,
        "not_learned": hidden,
        "truth": {"clipped": result.clipped},
        "privacy": None,
        "insecure_seed": result.insecure_seed,
        "blame": blame_rows(result.blame),
    }
    tables = [_parameter_table(params, material), _round_table(result), _bill(result, formula)]
    if material.histogram is not None and histogram is not None:
        tables.append(_histogram_table(material.histogram.column, histogram))
    else:
        tables.append(_sum_table(result, material))
    if result.blame:
        tables.append(blame_table(result.blame))
    return Report(
        title=f"Secure aggregation: {material.inputs.source}",
        data=data,
        tables=tables,
        plots=list(_plots(result, formula, material.histogram, histogram)),
        notes=[
            f"The server learned {learned}.",
            f"It did not learn {hidden}.",
            *_notes(result, material),
            *_declared(material),
        ],
        verdict=_verdict(result),
    )


def _seconds(result: Result, wall: float) -> dict[str, object]:
    client = sum(result.seconds["client"].values())
    server = sum(result.seconds["server"].values())
    return {
        "client": client / max(len(result.survivors["advertise-keys"]), 1),
        "server": server,
        "total_cpu": client + server,
        "wall": wall,
        "clients_by_round": result.seconds["client"],
        "server_by_round": result.seconds["server"],
    }


def _mean(result: Result, rounds: Mapping[str, NDArray[np.int64]], name: str) -> float:
    """Return the mean bytes in a round of those who answered it."""
    return float(rounds[name].sum() / len(result.survivors[name])) if name in rounds else 0.0


def _named(value: Any) -> dict[str, NDArray[Any]]:
    if isinstance(value, dict):
        return {name: np.asarray(array) for name, array in value.items()}
    return {"": np.asarray(value)}


def _shape_of(result: Result) -> tuple[int, ...] | None:
    """Return the shape of the sum, where it is one array."""
    return result.sum.shape if isinstance(result.sum, np.ndarray) else None


def _mean_of(result: Result) -> Any:
    """Return the mean, or the first numbers of one that is too long for memory."""
    if isinstance(result.mean, np.ndarray) and not result.mean.size:
        return np.asarray(result.sum[:_IN_JSON] / result.weight_total)
    return result.mean


def summary(
    value: Any, labels: tuple[str, ...] | None, shape: tuple[int, ...] | None = None
) -> list[dict[str, object]]:
    """Return arrays for JSON: names, shapes and the first values."""
    found: list[dict[str, object]] = []
    for name, array in _named(value).items():
        entry: dict[str, object] = {
            "name": name or None,
            "shape": list(shape or array.shape),
            "dtype": array.dtype.name,
            "first": array.reshape(-1)[:_IN_JSON],
        }
        if labels is not None:
            entry["labels"] = list(labels[:_IN_JSON])
        found.append(entry)
    return found


def _histogram(result: Result, table: datasets.HistogramInputs) -> dict[str, Any]:
    """Return the summed histogram beside the plain one of the clients that are in it."""
    survivors = result.survivors["masked-input"]
    plain = sum((table[client] for client in survivors), np.zeros_like(table[0]))
    return {
        "table": table.name,
        "column": table.column,
        "values": list(table.categories),
        "sum": result.sum,
        "plain_sum": plain,
    }


def _learned(result: Result) -> str:
    what = f"the sum over {result.count} clients' inputs"
    if result.params.encoding.weighted:
        what += f", weighted, and the sum of their weights ({result.weight_total})"
    return f"{what}, and who took part in each round"


def _hidden(result: Result) -> str:
    return (
        "any single client's "
        + ("input or weight" if result.params.encoding.weighted else "input")
        + ", nor the sum over any other set of clients; what the sum itself says about its inputs "
        "is not hidden, and a client that sends a wrong input is not noticed"
    )


def _verdict(result: Result) -> str:
    params = result.params
    if not result.exact:
        return (
            f"WRONG: the sum differs from the plain sum by up to {result.max_error:.6g}, which "
            f"{result.error_bound:.6g} at most could explain."
        )
    if params.encoding.clip is None:
        right = f"The sum equals the plain sum of the {result.count} survivors exactly."
    else:
        right = (
            f"The sum equals the plain sum of the {result.count} survivors up to the rounding: off "
            f"by {result.max_error:.3g}, bound {result.error_bound:.3g}."
        )
    told = guarantee(params)
    return f"{right} Guarantee: {told}."


def _notes(result: Result, material: Material) -> Iterator[str]:
    if material.inputs.labels is not None and (drowned := _drowned(result)):
        yield (
            f"{', '.join(material.inputs.labels[at] for at in drowned[:5])}: the sum of "
            f"{len(drowned)} of {result.params.dim:,} columns is below the rounding's bound, "
            f"{result.error_bound:.3g}, and says little: --clip is one for all columns. Bring them "
            "to one scale first, or take more --value-bits."
        )
    if result.insecure_seed:
        yield "Seeded, so insecure: who knows the seed knows every secret of this run."
    if result.clipped:
        yield (
            f"{result.clipped:,} values were beyond the clip; only a simulation can know this, and "
            "the plain sum is that of the clipped values."
        )


def _drowned(result: Result) -> list[int]:
    """Return which sums the rounding of floats alone may have made; of columns that are not 0."""
    if result.params.encoding.clip is None:
        return []
    sums = np.concatenate([np.abs(one).ravel() for one in _named(result.sum).values()])
    return np.flatnonzero((sums > 0) & (sums < result.error_bound)).tolist()


def _declared(material: Material) -> list[str]:
    return [
        f"{flag} is the {LARGEST}."
        for flag, source in (
            ("--clip", material.clip_source),
            ("--max-weight", material.max_weight_source),
        )
        if source == LARGEST
    ]


def _parameter_table(params: Params, material: Material) -> Table:
    shared = "everyone" if params.graph == "complete" else f"{params.neighbours} neighbours"
    plain = "residues" if params.encoding.kind == "ring" else "integers"
    numbers = f"{params.encoding.value_bits}-bit " + (
        plain if params.encoding.clip is None else f"floats within ±{params.encoding.clip:.6g}"
    )
    rows: list[list[Cell]] = [
        ["clients' input", material.inputs.reading],
        ["threat model", params.threat.value],
        ["graph", f"{params.graph.value}: each client shares its secrets with {shared}"],
        [
            "threshold",
            f"{params.threshold} shares rebuild a secret; up to {params.corrupt} corrupt",
        ],
        ["smallest cohort", f"{params.min_cohort} of {params.clients} clients"],
        ["numbers", f"{params.dim:,} {numbers} each, summed modulo 2**{params.modulus_bits}"],
        ["mask stream", params.prg.value],
    ]
    if params.encoding.weighted:
        rows.append(["weights", f"0 to {params.encoding.max_weight}, masked like the input"])
    return Table("Parameters", ["", "value"], rows)


def _round_table(result: Result) -> Table:
    rows: list[list[Cell]] = []
    for name, who in result.survivors.items():
        rows.append(
            [
                name,
                len(who),
                _mean(result, result.bytes_up, name),
                _mean(result, result.bytes_down, name),
                result.seconds["client"].get(name, 0.0) / len(who),
                result.seconds["server"].get(name, 0.0),
            ]
        )
    columns: list[Column | str] = [
        "round",
        "clients",
        Column("up per client", "B"),
        Column("down per client", "B"),
        Column("CPU per client", "s"),
        Column("CPU server", "s"),
    ]
    return Table("Rounds", columns, rows)


def _bill(result: Result, formula: float) -> Table:
    rows: list[list[Cell]] = [
        ["a client's bytes, up and down, over its vector's as it is", f"{result.expansion:.4g}"],
        ["the paper's formula for that (no tags, ids, commitments, framing)", f"{formula:.4g}"],
    ]
    if result.bytes_graph_proof:
        proof = result.bytes_graph_proof / result.params.raw_bytes
        what = "apart from it: the proof that its neighbours are those of the drawn graph"
        rows.append([what, f"{proof:.4g}"])
    return Table("Expansion, measured on encoded messages", ["what", "value"], rows)


def _histogram_table(column: str, histogram: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for value, summed, plain in zip(
        histogram["values"], histogram["sum"].tolist(), histogram["plain_sum"].tolist(), strict=True
    ):
        name = "missing" if value is None else str(value)
        rows.append([name, summed, plain, "equal" if summed == plain else "DIFFERENT"])
    return Table(
        f"{column}: secure sum and plain sum",
        [column, "secure sum", "plain sum", ""],
        rows,
    )


def _sum_table(result: Result, material: Material) -> Table:
    labels = material.inputs.labels
    rows: list[list[Cell]] = []
    means = _named(_mean_of(result))
    for name, array in _named(result.sum).items():
        flat, mean = array.reshape(-1), means[name].reshape(-1)
        for at in range(min(flat.size, _SHOWN)):
            index = ", ".join(map(str, np.unravel_index(at, array.shape)))
            coordinate = labels[at] if labels is not None else f"{name}[{index}]" if index else name
            rows.append([coordinate or "sum", flat[at].item(), mean[at].item()])
    more = result.params.dim - len(rows)
    title = f"Sum and mean, {len(rows)} of {result.params.dim:,} coordinates" if more else "Sum"
    return Table(title, ["coordinate", "sum", "mean"], rows)


def _plots(
    result: Result,
    formula: float,
    table: datasets.HistogramInputs | None,
    histogram: dict[str, Any] | None,
) -> Iterator[Plot]:
    if table is not None and histogram is not None:
        names = ["missing" if c is None else str(c) for c in table.categories]
        yield Plot(
            kind="bar",
            title=f"{table.column}: secure sum over {result.count} clients",
            x_label=table.column,
            y_label="rows",
            series=[
                Series("secure sum", names, histogram["sum"]),
                Series("plain sum", names, histogram["plain_sum"]),
            ],
        )
    rounds = list(result.survivors)
    sent = [_mean(result, result.bytes_up, name) for name in rounds]
    received = [_mean(result, result.bytes_down, name) for name in rounds]
    yield Plot(
        kind="stacked-bar",
        title=f"Bytes per client: expansion {result.expansion:.4g}, formula {formula:.4g}",
        x_label="round",
        y_label="bytes [B]",
        series=[Series("up", rounds, sent), Series("down", rounds, received)],
    )
    yield Plot(
        kind="bar",
        title="Clients that answered each round",
        x_label="round",
        y_label="clients",
        series=[Series("clients", rounds, [len(who) for who in result.survivors.values()])],
        references=[Reference(result.params.min_cohort, "smallest cohort")],
    )
    yield Plot(
        kind="stacked-bar",
        title="CPU seconds of all clients, and of the server",
        x_label="round",
        y_label="CPU time [s]",
        series=[
            Series(party, rounds, [result.seconds[key].get(name, 0.0) for name in rounds])
            for party, key in (("all clients", "client"), ("server", "server"))
        ],
    )
