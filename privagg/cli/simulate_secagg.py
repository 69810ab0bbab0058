"""``privagg simulate secagg``: a round with all its parties in this process."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import rich_click as click
from click import get_current_context
from click.exceptions import Exit

from privagg.cli._privacy_options import PrivacyOptions, privacy_options
from privagg.cli._secagg_options import RoundOptions, round_options
from privagg.cli.common import (
    Options,
    command,
    emit,
    file_option,
    note,
    progress,
    seed_option,
)
from privagg.errors import Abort, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from privagg.cli._secagg_inputs import Material
    from privagg.entropy import Entropy
    from privagg.protocols.secagg import Params, Roster, Signer, Transcript

__all__ = ["DROP_AT", "ENGINES", "LAYOUTS", "secagg"]

DROP_AT = (
    *("advertise-keys", "commit-graph", "reveal-graph", "share-keys", "masked-input"),
    *("consistency-check", "unmasking"),
)
LAYOUTS = ("auto", "rows", "arrays")
ENGINES = ("local", "ray")
"""Said again here, so that the help needs no import of the protocol; a test compares them."""

_READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@command(
    "secagg",
    examples=[
        "privagg simulate secagg --input updates.npz",
        "privagg simulate secagg --clients 200 --dim 100000 --dropout 0.1",
        "privagg simulate secagg --data adult --column education --clients 100",
        "privagg simulate secagg --clients 20 --dim 100 --threat active --misbehave keys-replaced",
        "privagg simulate secagg --clients 50 --dim 10000 --protocol lightsecagg --dropout 0.3",
        "privagg simulate secagg --streamed --input updates.npy --sum-out sum.npy",
    ],
    plots=True,
    library_names={
        "name": "--data",
        "column": "--column",
        "words_sum": "the sum",
        "address": "--ray-address",
    },
)
@click.option(
    "--input",
    "source",
    type=_READABLE,
    metavar="FILE",
    help="A row, or an array, per client: .npy .npz .csv .parquet .safetensors.",
)
@click.option("--layout", type=click.Choice(LAYOUTS), default="auto", help="How to read arrays.")
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of a .csv names its columns; must be said if it is all numbers.",
)
@click.option("--data", metavar="NAME", help="Clients count a column of this bundled table.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="Of a table; may be repeated.",
)
@round_options
@privacy_options
@click.option(
    "--protocol",
    "kind",
    type=click.Choice(("bonawitz", "lightsecagg")),
    default="bonawitz",
    show_default=True,
    help="Pairwise masks, or one-shot recovery of coded masks.",
)
@click.option(
    "--drop-at",
    type=click.Choice((*DROP_AT, "share-masks")),
    help="Before this round the dropout fraction leaves.  [default: masked-input]",
)
@click.option(
    "--schedule",
    type=_READABLE,
    metavar="FILE.json",
    help='Who leaves instead: {"masked-input": [3, 5], "unmasking": [7]}.',
)
@click.option(
    "--roster",
    type=_READABLE,
    metavar="FILE",
    help="Pinned identities, of `privagg keys roster`.  [default: new ones]",
)
@click.option(
    "--identities",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with the identity files of all clients in --roster.",
)
@click.option(
    "--misbehave",
    metavar="NAME",
    help="Let somebody lie in this way, and show how it is caught; `list` names the ways.",
)
@seed_option
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="INT",
    help="Processes that the clients live in, and threads that unmask. The result is the same. "
    "[default: one per core, or 1 for a round of a few seconds]",
)
@click.option(
    "--engine",
    "place",
    type=click.Choice(ENGINES),
    default="local",
    show_default=True,
    help="Where the clients live: processes here, or actors of a Ray cluster.",
)
@click.option(
    "--ray-address",
    metavar="ADDRESS",
    help="Of a running cluster, or auto, with --engine ray.  [default: start Ray here]",
)
@click.option(
    "--streamed",
    is_flag=True,
    help="For vectors too long for memory: of an .npy --input, or drawn; the sum goes to an .npy.",
)
@click.option(
    "--scratch",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --streamed: a folder for what is on its way.  [default: beside --sum-out]",
)
@file_option("--sum-out", "FILE.npz", "Write the sum to this file; .npy for a single array.")
@file_option("--transcript", "FILE.jsonl", "Write every message's round, parties, size and digest.")
@click.option("--transcript-payloads", is_flag=True, help="Write the messages' bytes too: base64.")
@file_option("--roster-out", "FILE.json", "Write the clients' identities, for `audit secagg`.")
def secagg(
    source: Path | None,
    layout: str,
    header: bool | None,
    data: str | None,
    columns: tuple[str, ...],
    kind: str,
    drop_at: str | None,
    schedule: Path | None,
    roster: Path | None,
    identities: Path | None,
    misbehave: str | None,
    seed: int | None,
    workers: int | None,
    place: str,
    ray_address: str | None,
    streamed: bool,
    scratch: Path | None,
    sum_out: Path | None,
    transcript: Path | None,
    transcript_payloads: bool,
    roster_out: Path | None,
    options: Options,
    **values: Any,
) -> None:
    """Run a secure aggregation round with all its parties in this process.

    Every party does its own work, every message is encoded, measured and decoded, and the sum is
    compared with the plain one. Inputs come from a file, from a bundled table (each client counts a
    column over its part of the rows), or are drawn (--clients, --dim).
    """
    from privagg import entropy as entropies
    from privagg.cli import (
        _lightsecagg_run,
        _secagg_costs,
        _secagg_identities,
        _secagg_places,
        _secagg_streamed,
        _secagg_sum_out,
    )
    from privagg.cli._secagg_report import simulation
    from privagg.cli._secagg_shared import rounds_of
    from privagg.cli._secagg_warm import warm_up
    from privagg.protocols import secagg as protocol

    given = RoundOptions.take(values)
    privacy = PrivacyOptions.take(values, given)
    if privacy is not None:
        from privagg.cli import _privacy_run

        _privacy_run.check(kind, misbehave, streamed)
    if schedule is not None and drop_at is not None:
        raise UsageError("--drop-at", drop_at, "nothing beside --schedule, which says who leaves")
    if kind == "lightsecagg":
        others = {"--misbehave": misbehave, "--streamed": streamed or None}
        _lightsecagg_run.check(workers, others | {"--engine": _secagg_places.elsewhere(place)})
    elif drop_at == "share-masks":
        raise UsageError("--drop-at", drop_at, " or ".join(DROP_AT))
    if misbehave is not None:
        apart: dict[str, object]
        apart = {"--drop-at": drop_at, "--schedule": schedule, "--sum-out": sum_out}
        _check_apart(apart | {"--transcript": transcript, "--roster-out": roster_out})
        # The liar takes the place of one of the parties, which are all in this process then.
        _check_apart({"--workers": None if workers == 1 else workers})
        _check_apart({"--engine": _secagg_places.elsewhere(place)})
        if _catalogue(misbehave, given, options):
            return
    if ray_address is not None and place != "ray":
        raise UsageError("--ray-address", ray_address, "an address for --engine ray")
    if transcript_payloads and transcript is None:
        raise UsageError("--transcript-payloads", "no file", "payloads in --transcript FILE")
    folder: Path | None = None
    if streamed:
        apart = {"--data": data, "--misbehave": misbehave, "--transcript": transcript}
        _secagg_streamed.check(
            source, sum_out, apart | {"--engine": _secagg_places.elsewhere(place)}
        )
        folder = get_current_context().with_resource(_secagg_streamed.room(scratch, sum_out))
    elif scratch is not None:
        raise UsageError("--scratch", str(scratch), "a folder for --streamed")
    own = entropies.from_seed(seed).spawn("simulation")
    # Numbers are not bounded one by one where their norm is.
    bounded = given if privacy is None or data is not None else replace(given, clip=1.0)
    material = _material(bounded, source, data, columns, layout, header, own, folder)
    if privacy is not None:
        material = replace(material, clip=None, clip_source=None, histogram=None)
    inputs = material.inputs
    note(options, f"{inputs.source}: {inputs.reading}.")
    if material.clip_source not in (None, "given"):
        note(options, f"--clip {material.clip:.6g}: the {material.clip_source}.")
    if material.max_weight_source not in (None, "given"):
        note(options, f"--max-weight {material.max_weight}: the {material.max_weight_source}.")
    if kind == "lightsecagg":
        if sum_out is not None:
            _secagg_sum_out.check(sum_out, inputs.vectors[0])
        outcome, report = _lightsecagg_run.simulate(
            given,
            material,
            drop_at=drop_at,
            schedule=schedule,
            roster=roster,
            identities=identities,
            roster_out=roster_out,
            transcript=transcript,
            payloads=transcript_payloads,
            seed=seed,
            own=own,
            options=options,
        )
        _secagg_sum_out.finish(outcome, report, sum_out, folder, options)
        return
    if privacy is None:
        params = given.params(
            clients=inputs.clients,
            dim=inputs.dim,
            clip=material.clip,
            max_weight=material.max_weight,
        )
    else:
        private = _privacy_run.Private.of(privacy, given, inputs, own)
        params, inputs = private.params, private.inputs
    signers, directory = _secagg_identities.of(params, roster, identities, seed)
    if misbehave is not None:
        count = 1
    else:
        count = _secagg_places.workers(params, workers, place, ray_address, options)
    if folder is not None:
        _secagg_streamed.check_room(params, count, folder, generated=source is None)
    else:
        if sum_out is not None:
            _secagg_sum_out.check(sum_out, inputs.vectors[0])
        _secagg_costs.check_memory(params, count, payloads=transcript_payloads)
    if misbehave is not None:
        _misbehave(misbehave, params, material, seed, signers, directory, options)
    leaves = _leaves(params, drop_at, schedule, own)
    for absent in sorted(set(leaves.values()) - set(rounds_of(params))):
        note(options, f"No round {absent} against {given.threat}: they are gone in the next one.")
    record = None if transcript is None else protocol.Transcript(payloads=transcript_payloads)
    if roster_out is not None:
        if directory is None:
            allowed = "a threat model with identities: --threat semi-malicious or active"
            raise UsageError("--roster-out", roster_out.name, allowed)
        directory.save(roster_out)
        note(options, f"Wrote {roster_out}")
    try:
        # Processes start while kernels are made ready.
        with _secagg_places.engine(params, count, workers, place, ray_address) as engine:
            sample = inputs if folder is None else _secagg_streamed.sample(inputs)
            warm_up(params, sample, lambda text: note(options, text))
            began = time.perf_counter()
            with progress(options) as step:
                settings: dict[str, Any] = {
                    "weights": inputs.weights,
                    "dropouts": leaves,
                    "seed": seed,
                    "engine": engine,
                    "identities": signers,
                    "roster": directory,
                    "progress": step,
                }
                if folder is not None:
                    result = _secagg_streamed.play(params, inputs, folder, **settings)
                else:
                    result = protocol.run(params, inputs.vectors, transcript=record, **settings)
            wall = time.perf_counter() - began
    except Abort as abort:
        # What was said before the end is what an auditor wants to see then.
        _write_transcript(transcript, record, params, directory, seed, str(abort), options)
        raise
    _write_transcript(transcript, record, params, directory, seed, None, options)
    if privacy is None:
        report = simulation(result, material, leaves, wall)
    else:
        result, report = private.report(result, material, leaves, wall)
    _secagg_sum_out.finish(result, report, sum_out, folder, options)


def _material(
    given: RoundOptions,
    source: Path | None,
    data: str | None,
    columns: tuple[str, ...],
    layout: str,
    header: bool | None,
    own: Entropy,
    folder: Path | None,
) -> Material:
    from privagg.cli import _secagg_inputs, _secagg_streamed

    if source is not None and data is not None:
        raise UsageError("--data", data, "either --input or --data")
    if source is not None:
        material = _secagg_inputs.from_file(source, given, layout, columns, header)
        if folder is not None:
            return replace(material, inputs=_secagg_streamed.flat(material.inputs))
        return material
    if layout != "auto":
        raise UsageError("--layout", layout, "a way to read --input FILE")
    if header is not None:
        raise UsageError(
            "--header" if header else "--no-header", "given", "only for a .csv --input"
        )
    if data is not None:
        return _secagg_inputs.from_data(data, columns, given)
    if columns:
        raise UsageError("--column", ", ".join(columns), "a column of --data or --input")
    return _secagg_inputs.generated(given, own.spawn("inputs"), folder)


def _check_apart(others: Mapping[str, object]) -> None:
    """Refuse what only a round that is not spoiled has."""
    for flag, value in others.items():
        if value is not None:
            raise UsageError(flag, str(value), "nothing beside --misbehave")


def _catalogue(name: str, given: RoundOptions, options: Options) -> bool:
    """Say what ``--misbehave list`` asks for; refuse an unknown name before inputs are read."""
    from privagg.cli import _secagg_misbehave

    if name != "list":
        _secagg_misbehave.named(name)
        return False
    emit(_secagg_misbehave.catalogue(given.threat), options)
    return True


def _misbehave(
    name: str,
    params: Params,
    material: Material,
    seed: int | None,
    identities: Sequence[Signer] | None,
    roster: Roster | None,
    options: Options,
) -> NoReturn:
    """Play the round with a liar in it, report, and end."""
    from privagg.cli import _secagg_misbehave

    finding = _secagg_misbehave.play(
        name, params, material, seed=seed, identities=identities, roster=roster
    )
    report = _secagg_misbehave.report(finding, params, material, seeded=seed is not None)
    emit(report, options)
    raise Exit(_secagg_misbehave.exit_code(finding))


def _leaves(
    params: Params, drop_at: str | None, schedule: Path | None, own: Entropy
) -> dict[int, str]:
    from privagg.cli import _secagg_schedule
    from privagg.protocols.secagg import thresholds

    if schedule is not None:
        return _secagg_schedule.read(schedule, params.clients)
    gone = thresholds.dropouts(params.clients, params.dropout)
    before = drop_at or "masked-input"
    return _secagg_schedule.draw(params.clients, gone, before, own.spawn("dropouts"))


def _write_transcript(
    path: Path | None,
    record: Transcript | None,
    params: Params,
    roster: Roster | None,
    seed: int | None,
    aborted: str | None,
    options: Options,
) -> None:
    if path is None or record is None:
        return
    from privagg.protocols.secagg import transcript_file
    from privagg.report import replacing

    header = transcript_file.header_of(
        params, record, roster=roster, insecure_seed=seed is not None, aborted=aborted
    )
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        record.write(text, header)
        text.detach()  # flushed, and the file left open to be named
    note(options, f"Wrote {path}")
