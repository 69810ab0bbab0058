"""A simulated round of LightSecAgg, from the options to the report."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privagg._jit import JIT
from privagg.cli import _secagg_identities, _secagg_schedule
from privagg.cli._lightsecagg import guarantee, parameter_rows, parameters, params_of, size
from privagg.cli._reading import memory_here
from privagg.cli._secagg_inputs import Material
from privagg.cli._secagg_options import RoundOptions
from privagg.cli._secagg_report import summary
from privagg.cli._secagg_shared import blame_rows, blame_table, inputs_of
from privagg.cli._secagg_warm import compiling
from privagg.cli.common import Options, note, progress, warn
from privagg.cli.inputs import leaves as leaves_of
from privagg.entropy import Entropy
from privagg.errors import Abort, UsageError
from privagg.protocols import lightsecagg
from privagg.protocols.lightsecagg import ROUNDS, Params, Result, calibration
from privagg.protocols.secagg import Roster, Transcript, thresholds
from privagg.report import Cell, Column, Plot, Report, Series, Table, replacing

__all__ = ["check", "simulate"]


def check(workers: int | None, others: Mapping[str, object]) -> None:
    """Refuse what this protocol's simulation does not have; `others` are options by flag."""
    others = {"--workers": None if workers == 1 else workers} | dict(others)
    for flag, value in others.items():
        if value is not None:
            raise UsageError(flag, str(value), "nothing beside --protocol lightsecagg")


def simulate(
    given: RoundOptions,
    material: Material,
    *,
    drop_at: str | None,
    schedule: Path | None,
    roster: Path | None,
    identities: Path | None,
    roster_out: Path | None,
    transcript: Path | None,
    payloads: bool,
    seed: int | None,
    own: Entropy,
    options: Options,
) -> tuple[Result, Report]:
    """Run the round and report it; arguments are the command's.

    Raises
    ------
    UsageError, Abort
        As the run does; a transcript is written before an abort goes on.
    """
    inputs = material.inputs
    params = params_of(
        given,
        clients=inputs.clients,
        dim=inputs.dim,
        clip=material.clip,
        max_weight=material.max_weight,
    )
    agreed: Any = params  # only the cohort and whether messages are signed are looked at
    signers, directory = _secagg_identities.of(agreed, roster, identities, seed)
    _check_memory(params, payloads=payloads)
    leaves = _leaves(params, drop_at, schedule, own)
    if roster_out is not None:
        if directory is None:
            raise UsageError("--roster-out", roster_out.name, "--threat active, with identities")
        directory.save(roster_out)
        note(options, f"Wrote {roster_out}")
    record = None if transcript is None else Transcript(payloads=payloads)
    if JIT:
        with compiling(lambda: note(options, "Compiling kernels, once for this machine ...")):
            dtypes = (part.dtype for _, part in leaves_of(inputs.vectors[0]))
            _warm_up(params, np.result_type(*dtypes))

    def write(aborted: str | None) -> None:
        if record is not None and transcript is not None:
            _write(transcript, record, params, directory, seed, aborted)
            note(options, f"Wrote {transcript}")

    began = time.perf_counter()
    try:
        with progress(options) as step:
            result = lightsecagg.run(
                params,
                inputs.vectors,
                weights=inputs.weights,
                dropouts=leaves,
                seed=seed,
                identities=signers,
                roster=directory,
                transcript=record,
                progress=step,
            )
    except Abort as abort:
        write(str(abort))  # what was said before the end is what an auditor wants to see then
        raise
    wall = time.perf_counter() - began
    write(None)
    return result, _report(result, material, leaves, wall)


def _leaves(
    params: Params, drop_at: str | None, schedule: Path | None, own: Entropy
) -> dict[int, str]:
    if schedule is not None:
        return _secagg_schedule.read(schedule, params.clients, ROUNDS)
    before = drop_at or "masked-input"
    if before not in ROUNDS:
        raise UsageError("--drop-at", before, " or ".join(ROUNDS))
    gone = thresholds.dropouts(params.clients, params.dropout)
    return _secagg_schedule.draw(params.clients, gone, before, own.spawn("dropouts"))


def _check_memory(params: Params, *, payloads: bool) -> None:
    """Refuse what this machine's memory cannot hold at all; warn of what it may not hold now."""
    plan = lightsecagg.plan(params, units=calibration.free())
    # All parties are here, beside what the server relays: each client's shares of all masks and
    # its mask, and one code.
    held = (params.clients * params.piece + params.length) * params.word.itemsize
    needed = plan.memory_server + params.clients * held + plan.memory_code
    needed += plan.bytes_server if payloads else 0
    available, total = memory_here()
    if total is not None and needed > total:
        raise UsageError(
            "clients, dim",
            f"{params.clients} and {params.dim}, which need about {size(needed, 'B')} of memory",
            f"what fits this machine's {size(total, 'B')}",
            "Lower --dim or --clients, or choose --protocol bonawitz.",
        )
    if available is not None and needed > available:
        have = size(available, "B")
        warn(f"this needs about {size(needed, 'B')} of memory; {have} are available now.")


def _warm_up(params: Params, dtype: np.dtype[Any]) -> None:
    """Run a small round that needs the kernels of the large one."""
    encoding = replace(params.encoding, value_bits=min(params.encoding.value_bits, 8))
    small = replace(
        params,
        clients=6,
        dim=16,
        threshold=5,
        corrupt=0,
        dropout=0.0,
        min_cohort=2,
        encoding=encoding if encoding.clip is None else params.encoding,
    )
    weights = [1] * 6 if small.encoding.weighted else None
    lightsecagg.run(small, np.zeros((6, 16), dtype), weights=weights)


def _write(
    path: Path,
    record: Transcript,
    params: Params,
    roster: Roster | None,
    seed: int | None,
    aborted: str | None,
) -> None:
    header: dict[str, object] = {
        "schema_version": 1,
        "format": "privagg lightsecagg transcript 1",
        **parameters(params),
        "params_digest": params.digest().hex(),
        "identities": None if roster is None else [key.hex() for key in roster.identities],
        "insecure_seed": seed is not None,
        "messages": len(record),
        "aborted": aborted,
    }
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        record.write(text, header)
        text.detach()  # flushed, and the file left open to be named


def _report(result: Result, material: Material, leaves: Mapping[int, str], wall: float) -> Report:
    params, labels = result.params, material.inputs.labels
    learned = f"the sum over {result.count} clients' inputs, and who took part in each round"
    hidden = (
        "any single client's input, nor the sum over any other set of clients; what the sum itself "
        "says about its inputs is not hidden, and a client that sends a wrong input is not noticed"
    )
    data = parameters(params) | inputs_of(material)
    data |= {
        "dropouts": {name: sum(at == name for at in leaves.values()) for name in ROUNDS},
        "survivors": {name: len(who) for name, who in result.survivors.items()},
        "count": result.count,
        "weight_total": result.weight_total,
        "expansion": result.expansion,
        "bytes_up_per_client": result.bytes_up_per_client,
        "bytes_down_per_client": result.bytes_down_per_client,
        "bytes_up": {name: _mean(result, result.bytes_up, name) for name in result.survivors},
        "bytes_down": {name: _mean(result, result.bytes_down, name) for name in result.survivors},
        "seconds": _seconds(result, wall),
        "exact": result.exact,
        "max_error": result.max_error,
        "error_bound": result.error_bound,
        "sum": summary(result.sum, labels),
        "mean": summary(result.mean, labels),
        "guarantee": guarantee(params),
        "learned": learned,
        "not_learned": hidden,
        "model_bound": result.model_bound,
        "truth": {"clipped": result.clipped},
        "insecure_seed": result.insecure_seed,
        "blame": blame_rows(result.blame),
    }
    rows: list[list[Cell]] = [list(row) for row in parameter_rows(params)]
    tables = [Table("Parameters", ["", "value", "meaning"], rows), _rounds(result)]
    if result.blame:
        tables.append(blame_table(result.blame))
    notes = [f"The server learned {learned}.", f"It did not learn {hidden}."]
    if result.insecure_seed:
        notes.append("Seeded, so insecure: who knows the seed knows every secret of this run.")
    if result.clipped:
        notes.append(f"{result.clipped:,} values were beyond the clip; only a simulation knows.")
    right = "equals" if result.exact else "DIFFERS from"
    return Report(
        title=f"LightSecAgg: {material.inputs.source}",
        data=data,
        tables=tables,
        plots=[_plot(result)],
        notes=notes,
        verdict=f"The sum {right} the plain sum of the {result.count} survivors (off by "
        f"{result.max_error:.3g}, bound {result.error_bound:.3g}). Guarantee: {guarantee(params)}.",
    )


def _mean(result: Result, rounds: Mapping[str, Any], name: str) -> float:
    return float(rounds[name].sum() / len(result.survivors[name]))


def _seconds(result: Result, wall: float) -> dict[str, object]:
    client, server = (sum(result.seconds[party].values()) for party in ("client", "server"))
    return {
        "client": client / max(len(result.survivors["advertise-keys"]), 1),
        "server": server,
        "total_cpu": client + server,
        "wall": wall,
        "clients_by_round": result.seconds["client"],
        "server_by_round": result.seconds["server"],
    }


def _rounds(result: Result) -> Table:
    rows: list[list[Cell]] = []
    for name, who in result.survivors.items():
        up, down = (_mean(result, side, name) for side in (result.bytes_up, result.bytes_down))
        cpu = result.seconds["client"][name] / len(who)
        rows.append([name, len(who), up, down, cpu, result.seconds["server"][name]])
    columns: Sequence[Column | str] = [
        "round",
        "clients",
        Column("up per client", "B"),
        Column("down per client", "B"),
        Column("CPU per client", "s"),
        Column("CPU server", "s"),
    ]
    return Table("Rounds", columns, rows)


def _plot(result: Result) -> Plot:
    rounds = list(result.survivors)
    return Plot(
        kind="stacked-bar",
        title=f"Bytes per client: expansion {result.expansion:.4g}",
        x_label="round",
        y_label="bytes [B]",
        series=[
            Series("up", rounds, [_mean(result, result.bytes_up, name) for name in rounds]),
            Series("down", rounds, [_mean(result, result.bytes_down, name) for name in rounds]),
        ],
    )
