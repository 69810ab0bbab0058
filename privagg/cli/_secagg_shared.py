"""What the reports of plans, of runs and of misbehaviours share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from privagg.cli._secagg_inputs import Material
from privagg.protocols import secagg
from privagg.protocols.secagg import Params
from privagg.protocols.secagg.client_graph import MAX_ATTEMPTS
from privagg.protocols.secagg.states import SEQUENCES
from privagg.report import Cell, Table

__all__ = [
    "blame_rows",
    "blame_table",
    "count",
    "guarantee",
    "inputs_of",
    "no_result",
    "parameters",
    "rounds_of",
]

_SHOWN = 10


def count(clients: int) -> str:
    """Return "no client", "1 client", "2 clients"."""
    return "no client" if clients == 0 else f"{clients} client{'s' if clients > 1 else ''}"


def guarantee(params: Params) -> str:
    """Say against whom the round protects its inputs."""
    who = "the server learns"
    if params.corrupt:
        who = f"the server and up to {count(params.corrupt)} colluding with it learn"
    match params.threat:
        case secagg.Threat.SEMI_HONEST:
            how = "as long as all follow the protocol and only look at what they see (semi-honest)"
        case secagg.Threat.SEMI_MALICIOUS:
            how = "whatever they do once the keys are collected honestly (semi-malicious)"
        case _:
            how = "whatever they do (active)"
    odds = f", but for a probability of 2**-{params.sigma}" if params.graph == "sparse" else ""
    if params.threat is secagg.Threat.SEMI_MALICIOUS:
        odds += f" for each of at most {MAX_ATTEMPTS} graphs drawn"
    return f"{who} no more of the other inputs than their sum, {how}{odds}"


def rounds_of(params: Params) -> tuple[str, ...]:
    """Return the names of the rounds that there are against the round's threat model."""
    return tuple(phase.title for phase in SEQUENCES[params.threat])


class _Blamed(Protocol):
    @property
    def dealer(self) -> int | None: ...
    @property
    def holder(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def verdict(self) -> str: ...


def blame_rows(blame: Sequence[_Blamed]) -> list[dict[str, object]]:
    """Return blame for JSON."""
    return [
        {"dealer": b.dealer, "holder": b.holder, "reason": b.reason, "verdict": b.verdict}
        for b in blame
    ]


def blame_table(blame: Sequence[_Blamed]) -> Table:
    """Return blame for people."""
    rows: list[list[Cell]] = [
        ["any" if b.dealer is None else b.dealer, b.holder, b.reason, b.verdict]
        for b in blame[:_SHOWN]
    ]
    title = "Shares that were not what they should be"
    if len(blame) > len(rows):
        title += f", {len(rows)} of {len(blame)}"
    return Table(title, ["dealer", "holder", "what", "whose fault"], rows)


def parameters(params: Params) -> dict[str, object]:
    """Return the JSON keys that a plan and a run share."""
    encoding = params.encoding
    return {
        "protocol": "secagg",
        "threat": params.threat.value,
        "graph": params.graph.value,
        "clients": params.clients,
        "corrupt": params.corrupt,
        "dropout": params.dropout,
        "threshold": params.threshold,
        "neighbours": params.neighbours,
        "min_cohort": params.min_cohort,
        "prg": params.prg.value,
        "modulus_bits": params.modulus_bits,
        "dim": params.dim,
        "value_bits": encoding.value_bits,
        "signed": encoding.signed or encoding.kind == "float",
        "clip": encoding.clip,
        "weighted": encoding.weighted,
        "max_weight": encoding.max_weight if encoding.weighted else None,
    }


def no_result(params: Params, material: Material) -> dict[str, object]:
    """Return the keys of a run's JSON object where there is no result, null but for the inputs."""
    return dict.fromkeys(_RESULT_KEYS) | parameters(params) | inputs_of(material)


_RESULT_KEYS = (
    *("dropouts", "survivors", "count", "weight_total", "expansion", "expansion_formula"),
    *("expansion_graph_proof", "bytes_up_per_client", "bytes_down_per_client", "bytes_up"),
    *("bytes_down", "seconds", "exact", "max_error", "error_bound", "sum", "mean", "histogram"),
    *("guarantee", "learned", "not_learned", "truth", "insecure_seed", "blame", "privacy"),
)


def inputs_of(material: Material) -> dict[str, object]:
    """Return the JSON keys that say where the inputs come from."""
    return {
        "clip_source": material.clip_source,
        "max_weight_source": material.max_weight_source,
        "input": {"source": material.inputs.source, "reading": material.inputs.reading},
    }
