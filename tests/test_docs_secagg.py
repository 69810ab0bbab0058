"""The page of secure aggregation: bytes, labels, tables and claims are those of the code."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest
from doc_pages import SECAGG_PAGE, blocks, section

from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.secagg import client_graph, derivations, merkle, messages, thresholds
from privagg.protocols.secagg.thresholds import Graph, Threat


def recommend(**changes):
    chosen = {"clients": 12, "dim": 50, "value_bits": 12, "corrupt": 0.0, "dropout": 0.0}
    return secagg.Params.recommend(**chosen | changes)


ROUND_CASES = [
    {},
    {"clients": 9, "dim": 1, "value_bits": 1},
    {"clients": 30, "dim": 101, "value_bits": 7, "corrupt": 0.1, "dropout": 0.2},
    {"clients": 30, "graph": "sparse", "corrupt": 0.05, "dropout": 0.05},
    {"clients": 12, "clip": 1.0, "weighted": True, "max_weight": 9},
    {"threat": "active"},
    {
        "clients": 30,
        "dim": 101,
        "value_bits": 7,
        "corrupt": 0.1,
        "dropout": 0.2,
        "threat": "active",
    },
    {"clients": 30, "graph": "sparse", "corrupt": 0.05, "dropout": 0.05}
    | {"threat": "semi-malicious"},
    {"clients": 33, "graph": "sparse", "corrupt": 0.05, "threat": "semi-malicious"},
]


def measured(params):
    """Return the transcript of a round in which nobody leaves, payloads kept."""
    transcript = secagg.Transcript(payloads=True)
    vectors = np.zeros(
        (params.clients, params.dim), np.int64 if params.encoding.clip is None else float
    )
    weights = [1] * params.clients if params.encoding.weighted else None
    result = secagg.run(params, vectors, weights=weights, seed=1, transcript=transcript)
    assert result.exact
    return transcript


@pytest.mark.parametrize("changes", ROUND_CASES, ids=str)
def test_wire_formulas(changes):
    """Evaluate each formula of the page against the bytes of real messages."""
    rows = re.findall(
        r"^\| `(\w+)`(?:, ([\w -]+))? \| .* \| `([^`]+)` \|$",
        section(SECAGG_PAGE, "## Wire layout"),
        re.MULTILINE,
    )
    params = recommend(**changes)
    mine = {"", params.graph.value, params.threat.value, "in it"}
    mine |= {"signed"} if params.signed else set()
    mine |= set() if params.views_signed else {"unsigned"}
    formulas = {name: formula for name, variant, formula in rows if variant in mine}
    proof = formulas.pop("GraphProof")
    kinds = {kind.__name__: kind for kind in messages.Message.__subclasses__()}
    transcript = measured(params)
    seen = {entry.kind for entry in transcript}
    assert seen == set(formulas)
    complete = params.graph is Graph.COMPLETE
    values = {
        "n": params.clients,
        "a": params.clients,
        "h": merkle.depth(params.clients),
        "m": params.neighbours + complete,
        "u": params.neighbours + complete,
        "k": params.neighbours,
        "w": 0,
        "p": params.neighbours,
        "d": params.dim + params.encoding.weighted,
        "b": params.modulus_bits,
        "s": 64 * params.signed,
        "g": 0,
        "ceil": math.ceil,
        "log2": math.log2,
    }

    def evaluate(formula):
        return eval(formula, {"__builtins__": {}}, values)

    assert evaluate("ceil(log2(n))") == values["h"]
    if params.threat is Threat.SEMI_MALICIOUS:
        values["g"] = evaluate(proof)
    for entry in transcript:
        assert evaluate(formulas[entry.kind]) == entry.size
        message = kinds[entry.kind].decode(entry.payload, params, peer="server")
        assert message.encode() == entry.payload
        if entry.kind == "KeyRoster":
            assert values["g"] == (message.proof.encoded_size() if message.proof else 0)


@pytest.mark.parametrize("changes", ROUND_CASES, ids=str)
def test_planned_bytes_of_signed_rounds(changes):
    params = recommend(**changes)
    plan, transcript = blocks.bill(params), measured(params)
    for name in secagg.ROUNDS:
        down = [
            entry.size for entry in transcript if (entry.round, entry.sender) == (name, "server")
        ]
        up = [
            entry.size for entry in transcript if (entry.round, entry.receiver) == (name, "server")
        ]
        assert set(down) == ({plan.bytes_down[name]} if name in plan.bytes_down else set())
        assert set(up) == ({plan.bytes_up[name]} if name in plan.bytes_up else set())


def test_derivation_labels_are_all_in_the_page():
    sources = [derivations, importlib.import_module("privagg.protocols.secagg.params")]
    text = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in sources)
    labels = set(re.findall(r'b"(privagg secagg [a-z ]+?) ?"', text)) - {
        "privagg secagg key",
        "privagg secagg view",
    }
    labels |= {"privagg secagg key cipher", "privagg secagg key mask"}
    labels |= {"privagg secagg view sharers", "privagg secagg view survivors"}
    drawn = Path(client_graph.__file__).read_text(encoding="utf-8")
    labels |= set(re.findall(r'b"(privagg secagg [a-z ]+?)"', drawn))
    page = set(
        re.findall(r"`(privagg secagg [a-z ]+)`", section(SECAGG_PAGE, "## Keys and derivations"))
    )
    assert page == labels


def test_client_diagram_has_every_transition():
    for threat, transitions in secagg.states.CLIENT_TABLES.items():
        part = SECAGG_PAGE.split(f"Threat model: {threat.value}.")[1].split("```")[1]
        arrows = re.findall(r"(\w+) --> (\w+): (\w+)", part)
        expected = {
            (state.name, following.name, message.__name__)
            for (state, message), following in transitions.items()
            if state is not following
        }
        assert set(arrows) == expected


@pytest.mark.parametrize(
    ("threat", "clients", "dim", "fraction", "formula", "encoded", "limit"),
    [
        ("semi-honest", 2**10, 2**20, 0.05, 1.734, 1.728, 1.73),
        ("semi-honest", 2**14, 2**24, 0.05, 1.984, 1.978, 1.98),
        ("semi-honest, sparse", 2**10, 2**20, 0.1, 1.630, 1.630, 1.635),
        ("active", 2**10, 2**20, 0.05, 1.734, 1.791, 1.80),
        ("active", 2**14, 2**24, 0.05, 1.984, 2.041, 2.05),
        ("semi-malicious, sparse", 2**10, 2**20, 0.05, 1.630, 1.634, 1.645),
        ("semi-malicious, sparse", 2**10, 2**20, 0.1, 1.635, 1.642, 1.645),
    ],
)
def test_expansion_claims(threat, clients, dim, fraction, formula, encoded, limit):
    threat, _, graph = threat.partition(", ")
    plan = blocks.bill(
        secagg.Params.recommend(
            clients=clients,
            dim=dim,
            threat=threat,
            graph=graph or "complete",
            corrupt=fraction,
            dropout=fraction,
        )
    )
    assert (plan.bytes_graph_proof > 0) is (threat == "semi-malicious")
    assert round(plan.expansion_formula, 3) == formula
    assert round(plan.expansion, 3) == encoded
    assert plan.expansion <= limit


def test_threshold_claims():
    def least(clients, corrupt, threat):
        for threshold in range(1, clients + 1):
            try:
                thresholds.check_complete(
                    clients, corrupt=corrupt, dropout=0.0, threshold=threshold, threat=threat
                )
            except UsageError:
                continue
            return threshold
        raise AssertionError("no threshold is allowed")

    for clients in range(3, 40):
        for corrupt in range(clients // 2):
            assert least(clients, corrupt, Threat.SEMI_HONEST) == max(corrupt + 1, 2)
            found = least(clients, corrupt, Threat.ACTIVE)
            assert 2 * found > clients + corrupt >= 2 * (found - 1)
        assert least(clients, 0, Threat.ACTIVE) == clients // 2 + 1
        if clients % 3 == 0:
            assert least(clients, clients // 3, Threat.ACTIVE) == 2 * clients // 3 + 1


def test_a_billion_clients():
    choice = thresholds.choose_sparse(10**9, corrupt=0.05, dropout=0.05, threat=Threat.SEMI_HONEST)
    assert choice.neighbours < 999
