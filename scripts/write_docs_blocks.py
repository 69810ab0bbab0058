"""Write the tables of the documentation that the code itself can give.

A block stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. Without arguments the
blocks of ``docs/*.md`` are written anew; with ``--check`` nothing is written, and stale blocks are
named and end the run with 1.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from docs_glance import BLOCKS as GLANCES
from docs_surveys import survey_epsilons, survey_errors
from docs_tables import cell, table

from privagg.errors import UsageError
from privagg.protocols import lightsecagg, secagg
from privagg.protocols.lightsecagg import calibration as lsa_calibration
from privagg.protocols.lightsecagg import checks as lsa_invariants
from privagg.protocols.secagg import calibration, checks, states, thresholds
from privagg.protocols.secagg.thresholds import Graph, Threat
from privagg.protocols.sensor import checks as sensor_rules
from privagg.protocols.sensor import checks_papers as sensor_paper_rules
from privagg.protocols.sensor import states as sensor_order
from privagg.protocols.sensor import states_papers as sensor_paper_order
from privagg.testing import secagg as kit

DOCS = Path(__file__).resolve().parent.parent / "docs"

_BLOCK = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def bill(params: secagg.Params) -> secagg.Plan:
    """Return the plan of a round, with its exact bytes and without measuring seconds."""
    fields = dataclasses.fields(calibration.Units)
    return secagg.plan(params, units=calibration.Units(**{field.name: 0.0 for field in fields}))


def client_states() -> str:
    """Return a diagram per threat model; loops are retransmissions and are said in the text."""
    parts = []
    for threat, transitions in states.CLIENT_TABLES.items():
        lines = ["```mermaid", "stateDiagram-v2"]
        lines.append(f"    [*] --> {states.ClientState.IDLE.name}")
        ends = set()
        for (state, message), following in transitions.items():
            if following is not state:
                lines.append(f"    {state.name} --> {following.name}: {message.__name__}")
                ends.add(following.name)
        ends -= {state.name for (state, _), following in transitions.items() if following != state}
        lines += [f"    {name} --> [*]" for name in sorted(ends)]
        parts.append("\n".join([f"Threat model: {threat.value}.", "", *lines, "```", ""]))
    return "\n".join(parts)


def client_checks() -> str:
    """Return the invariants that a client holds, by the name of their function."""
    return _rules(checks)


def _rules(module: ModuleType) -> str:
    rows: list[list[object]] = []
    for name in module.__all__:
        text = inspect.getdoc(getattr(module, name)) or ""
        rows.append([f"`{name}`", text.split("\n\n")[0].replace("\n", " ").replace("``", "`")])
    return table(["check", "what it holds"], rows)


def sensor_checks() -> str:
    """Return what a member of a cluster insists on."""
    return _rules(sensor_rules)


def sensor_paper_checks() -> str:
    """Return what parties of the other protocols insist on."""
    return _rules(sensor_paper_rules)


def sensor_paper_states() -> str:
    """Return what parties of the other protocols accept in which state."""
    rows: list[list[object]] = []
    for protocol, transitions in sensor_paper_order.PAPER_TABLES.items():
        for state in dict.fromkeys(at for at, _ in transitions):
            steps = [
                f"{kind if isinstance(kind, str) else kind.__name__} -> {after.name}"
                for (at, kind), after in transitions.items()
                if at is state
            ]
            rows.append([f"`{protocol}`", state.name, ", ".join(steps)])
    return table(["protocol", "in state", "accepts or does, and goes to"], rows)


def sensor_states() -> str:
    """Return what a member of a cluster accepts in which state, by mode."""
    rows: list[list[object]] = []
    for mode, transitions in sensor_order.TABLES.items():
        for state in sensor_order.MemberState:
            steps = [
                f"{kind.__name__} -> {after.name}"
                for (at, kind), after in transitions.items()
                if at is state
            ]
            if steps:  # else no member of this mode is ever in this state
                rows.append([mode.name, state.name, ", ".join(steps)])
    return table(["mode", "in state", "accepts, and goes to"], rows)


KINDS = [
    (Threat.SEMI_HONEST, Graph.COMPLETE),
    (Threat.ACTIVE, Graph.COMPLETE),
    (Threat.SEMI_HONEST, Graph.SPARSE),
    (Threat.SEMI_MALICIOUS, Graph.SPARSE),
]
"""The rounds that can be run: threat model and graph."""


def rounds() -> str:
    """Return the bytes of each message, of one client, for a round of 100 clients."""
    plans = [bill(_params(100, 10_000, graph=graph, threat=threat)) for threat, graph in KINDS]
    rows: list[list[object]] = []
    for name in secagg.ROUNDS:
        sides = [(plan.bytes_down.get(name, 0), plan.bytes_up.get(name, 0)) for plan in plans]
        rows.append([name, *(_both(*side) for side in sides)])
    rows.append(
        ["all", *(_both(plan.bytes_down_per_client, plan.bytes_up_per_client) for plan in plans)]
    )
    rows.append(["of these the graph's proof", *(cell(plan.bytes_graph_proof) for plan in plans)])
    return table(["round", *(f"{threat.value}, {graph.value}" for threat, graph in KINDS)], rows)


def _both(down: int, up: int) -> str:
    return f"{cell(down)} / {cell(up)}" if down or up else ""


def complete_thresholds() -> str:
    """Return the range and the recommendation of the complete graph's threshold."""
    rows: list[list[object]] = []
    for clients, corrupt, dropout in [
        (10, 0.1, 0.1),
        (100, 0.05, 0.05),
        (100, 0.33, 0.33),
        (1000, 0.05, 0.05),
        (1000, 0.05, 0.6),
        (1000, 0.33, 0.05),
    ]:
        bad = thresholds.corrupted(clients, corrupt)
        least = [bad + 1 if bad else 2, (clients + bad) // 2 + 1]
        row: list[object] = [clients, corrupt, dropout]
        row.append(clients - thresholds.dropouts(clients, dropout))
        for low, threat in zip(least, (Threat.SEMI_HONEST, Threat.ACTIVE), strict=True):
            try:
                thresholds.check_complete(
                    clients, corrupt=bad, dropout=dropout, threshold=low, threat=threat
                )
                chosen = thresholds.choose_complete(
                    clients, corrupt=bad, dropout=dropout, threat=threat
                )
                row.append(f"{low}, {chosen}")
            except UsageError:
                row.append("refused")
        rows.append(row)
    return table(
        [
            "clients",
            "corrupt",
            "dropout",
            "at most",
            "semi-honest: least, chosen",
            "active: least, chosen",
        ],
        rows,
    )


def sparse_thresholds() -> str:
    """Return neighbours and threshold of the sparse graph, for both threat models."""
    rows: list[list[object]] = []
    for clients in (100, 1000, 10_000, 1_000_000):
        for corrupt, dropout in ((0.05, 0.05), (0.05, 0.33), (0.33, 0.05)):
            row: list[object] = [clients, corrupt, dropout]
            for threat in (Threat.SEMI_HONEST, Threat.SEMI_MALICIOUS):
                choice = thresholds.choose_sparse(
                    clients, corrupt=corrupt, dropout=dropout, threat=threat
                )
                row.append(f"{choice.neighbours}, {choice.threshold}")
            rows.append(row)
    return table(
        ["clients", "corrupt", "dropout", "semi-honest: k, t", "semi-malicious: k, t"], rows
    )


def costs() -> str:
    """Return a client's bytes and the expansion beside the paper's formula."""
    rows: list[list[object]] = []
    for clients, dim in [(100, 100_000), (1000, 100_000), (2**10, 2**20), (2**14, 2**24)]:
        for threat, graph in KINDS:
            # The comparison with the paper's figures is at other fractions in the sparse graph.
            bad = 0.1 if graph is Graph.SPARSE and dim >= 2**20 else 0.05
            params = _params(clients, dim, graph=graph, bad=bad, threat=threat)
            plan = bill(params)
            rows.append(
                [
                    clients,
                    dim,
                    threat.value,
                    f"{graph.value}, k = {params.neighbours}",
                    bad,
                    plan.bytes_up_per_client,
                    plan.bytes_down_per_client,
                    plan.bytes_graph_proof,
                    plan.expansion,
                    plan.expansion_formula,
                ]
            )
    return table(
        [
            "clients",
            "dim",
            "threat",
            "graph",
            "corrupt = dropout",
            "bytes up",
            "bytes down",
            "of these proof",
            "expansion without it",
            "formula",
        ],
        rows,
    )


def _by_family(*families: ModuleType) -> list[kit.Behaviour]:
    """Return the behaviours in the order of their families, or those of some families."""
    return [
        one
        for family in families or kit.FAMILIES
        for one in kit.BEHAVIOURS.values()
        if one.act.__module__ == family.__name__
    ]


def _cited(one: kit.Behaviour) -> set[int]:
    """Return the pitfalls that a behaviour's source cites by number."""
    parts = [part for part in one.source.split(";") if "pitfall" in part]
    return {int(number) for part in parts for number in re.findall(r"\d+", part)}


def behaviours() -> str:
    """Return a table for each family of behaviours of the conformance kit."""
    parts = []
    for family in kit.FAMILIES:
        rows: list[list[object]] = []
        for one in _by_family(family):
            errors = " or ".join(error.__name__ for error in one.errors)
            caught = one.expect in (kit.Expect.CAUGHT, kit.Expect.ENDED)
            threats = "all" if len(one.threats) == len(Threat) else ", ".join(one.threats)
            invariant = f"`{one.invariant}`" if one.invariant in checks.__all__ else one.invariant
            rows.append(
                [
                    f"`{one.name}`",
                    one.text,
                    one.liar.value,
                    threats,
                    f"{one.expect.name.lower()}: {errors}" if caught else one.expect.name.lower(),
                    one.round,
                    invariant,
                    one.source,
                ]
            )
        title = (inspect.getdoc(family) or "").split("\n")[0].rstrip(".")
        head = ["name", "what is done", "who", "threats", "outcome", "round", "attacks", "source"]
        parts.append(f"### {title}\n\n{table(head, rows)}")
    return "\n".join(parts)


def pitfalls() -> str:
    """Return the known pitfalls, and the behaviours that try each or where it is answered."""
    rows: list[list[object]] = []
    for number, (what, elsewhere) in kit.PITFALLS.items():
        cited = [f"`{one.name}`" for one in _by_family() if number in _cited(one)]
        rows.append([str(number), what, elsewhere or ", ".join(cited)])
    return table(["no.", "what goes wrong", "tried by, or answered by"], rows)


def _params(
    clients: int,
    dim: int,
    *,
    graph: str = Graph.COMPLETE,
    bad: float = 0.05,
    threat: str = Threat.SEMI_HONEST,
) -> secagg.Params:
    return secagg.Params.recommend(
        clients=clients,
        dim=dim,
        value_bits=16,
        corrupt=bad,
        dropout=bad,
        graph=graph,
        threat=threat,
    )


def lsa_bill(clients: int, dim: int, **options: Any) -> lightsecagg.Plan:
    """Return a plan of the other protocol, with its exact bytes and without measuring seconds."""
    params = lightsecagg.Params.recommend(clients=clients, dim=dim, **options)
    return lightsecagg.plan(params, units=lsa_calibration.free())


def lsa_rounds() -> str:
    """Return the bytes of each message, of one client, for a round of 100 clients."""
    threats = (Threat.SEMI_HONEST, Threat.ACTIVE)
    plans = [lsa_bill(100, 10_000, threat=threat) for threat in threats]
    rows: list[list[object]] = [
        [name, *(_both(plan.bytes_down.get(name, 0), plan.bytes_up.get(name, 0)) for plan in plans)]
        for name in lightsecagg.ROUNDS
    ]
    rows.append(
        ["all", *(_both(plan.bytes_down_per_client, plan.bytes_up_per_client) for plan in plans)]
    )
    return table(["round", *(threat.value for threat in threats)], rows)


def lsa_checks() -> str:
    """Return the invariants that a client of the other protocol holds."""
    rows: list[list[object]] = []
    for name in lsa_invariants.__all__:
        text = inspect.getdoc(getattr(lsa_invariants, name)) or ""
        rows.append([f"`{name}`", text.split("\n\n")[0].replace("\n", " ").replace("``", "`")])
    return table(["check", "what it holds"], rows)


def lsa_bytes() -> str:
    """Return the expansion of both protocols over cohort, corruption and dropout."""
    rows: list[list[object]] = []
    for clients, bad, gone in [
        (20, 0.05, 0.05),
        (100, 0.05, 0.05),
        (100, 0.3, 0.3),
        (1000, 0.05, 0.05),
        (1000, 0.05, 0.3),
        (1000, 0.45, 0.3),
    ]:
        cohort: dict[str, Any] = {"clients": clients, "dim": 100_000}
        cohort |= {"corrupt": bad, "dropout": gone}
        ours = lsa_bill(**cohort)
        theirs = bill(secagg.Params.recommend(**cohort))
        params = ours.params
        row: list[object] = [clients, bad, gone, params.threshold - params.privacy, params.piece]
        rows.append([*row, ours.expansion, theirs.expansion])
    head = ["clients", "corrupt", "dropout", "U - T", "m", "LightSecAgg", "pairwise masks"]
    return table(head, rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "client-states": client_states,
    "client-checks": client_checks,
    "rounds": rounds,
    "complete-thresholds": complete_thresholds,
    "sparse-thresholds": sparse_thresholds,
    "costs": costs,
    "behaviours": behaviours,
    "pitfalls": pitfalls,
    "lsa-rounds": lsa_rounds,
    "lsa-checks": lsa_checks,
    "lsa-bytes": lsa_bytes,
    "sensor-checks": sensor_checks,
    "sensor-paper-checks": sensor_paper_checks,
    "sensor-paper-states": sensor_paper_states,
    "sensor-states": sensor_states,
    "survey-epsilons": survey_epsilons,
    "survey-errors": survey_errors,
    **GLANCES,
}
"""Every block, by its name in the pages."""


def rewrite(text: str) -> str:
    """Return a page's text with all its blocks as the code gives them now."""
    return _BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + found[3], text)


def main(arguments: list[str]) -> int:
    """Write or check all pages; return the exit code."""
    check = arguments == ["--check"]
    stale = 0
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = rewrite(text)
        if new == text:
            continue
        stale += 1
        print(f"{page.name}: {'stale' if check else 'written'}")
        if not check:
            page.write_text(new, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
