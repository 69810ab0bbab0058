"""The pages say what the code does: their code runs, their links and tables hold."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest

from privagg.cli.failures import ExitCode
from privagg.cli.main import COMMANDS, run
from privagg.errors import UsageError
from privagg.protocols import secagg
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.release import Curator, Release
from privagg.protocols.secagg import client_graph, derivations, merkle, messages, thresholds
from privagg.protocols.secagg.thresholds import Graph, Threat

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
SECAGG_PAGE = (ROOT / "docs" / "secagg.md").read_text(encoding="utf-8")


sys.path.append(str(ROOT / "scripts"))  # its modules import each other


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


blocks = load_script("write_docs_blocks")


def page_id(path):
    return path.relative_to(ROOT).as_posix()


def code_blocks(text, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [source for found, source in fenced if found == language]


def prose(text):
    """Return the page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Return the anchors that a page's headings get on the usual hosts."""
    titles = re.findall(r"^#+ (.+)$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def section(text, heading):
    """Return what stands under a heading, up to the next of the same level."""
    level = heading.split(" ")[0]
    found = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^{level} |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found, heading
    return found[1]


def first_cells(text):
    return [line.split(" | ")[0].lstrip("| ") for line in text.splitlines() if line[:1] == "|"][2:]


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_code_blocks_run(path, capsys):
    sources = code_blocks(path.read_text(encoding="utf-8"), "python")
    names = {"__name__": "__docs__"}
    for number, source in enumerate(sources):
        exec(compile(source, f"{path.name}, block {number}", "exec"), names)
    if path.name in {"README.md", "secagg.md", "sharp-edges.md"}:
        assert sources, "the page should have code"
    if path.name == "README.md":
        assert capsys.readouterr().out.startswith("19 inputs, ")


@pytest.mark.parametrize("path", [*PAGES, ROOT / "SECURITY.md"], ids=page_id)
def test_relative_links_exist(path):
    text = prose(path.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        where = (path.parent / name).resolve() if name else path
        if not where.exists() or (anchor and anchor not in anchors(where)):
            broken.append(target)
    assert broken == []


def test_pictures_are_small_and_all_used():
    pictures = sorted((ROOT / "docs" / "images").glob("*"))
    assert {path.suffix for path in pictures} == {".png", ".svg"}
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for path in pictures:
        assert path.stat().st_size < 200_000
        assert f"images/{path.name})" in text


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_named_tests_and_modules_exist(path):
    text = path.read_text(encoding="utf-8")
    for name, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / name).is_file(), name
        assert not test or f"def {test}(" in (ROOT / name).read_text(encoding="utf-8"), test
    for name in re.findall(r"`(scripts/\w+\.py)`", text):
        assert (ROOT / name).is_file(), name
    for dotted in re.findall(r"`(privagg(?:\.\w+)+)`", text):
        module, _, attribute = dotted.rpartition(".")
        if importlib.util.find_spec(module) and hasattr(importlib.import_module(module), attribute):
            continue
        assert importlib.util.find_spec(dotted), dotted


@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "README.md"], ids=page_id)
def test_blocks_are_those_of_the_code(path):
    text = path.read_text(encoding="utf-8")
    assert blocks.rewrite(text) == text, "run scripts/write_docs_blocks.py"


def test_every_block_is_in_a_page():
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert set(re.findall(r"<!-- begin ([\w-]+) -->", text)) == set(blocks.BLOCKS)


def test_a_stale_block_is_noticed():
    text = "<!-- begin rounds -->\n| 1 |\n<!-- end rounds -->"
    assert blocks.rewrite(text) == f"<!-- begin rounds -->\n{blocks.rounds()}<!-- end rounds -->"


def test_readme_tree_is_the_package():
    tree = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"), "")[0]
    named = {line.split()[0].split("/")[0] for line in tree.splitlines() if line.startswith("  ")}
    assert {name for name in named if not (ROOT / "privagg" / name).exists()} == set()
    public = {
        path.name
        for path in (ROOT / "privagg").iterdir()
        if not path.name.startswith("_")
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert public - named == set()


def test_named_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    targets = set(re.findall(r"`make (\w[\w-]*)", text)) | set(
        re.findall(r"^make (\w[\w-]*)", text, re.MULTILINE)
    )
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


# The page of the command line.


def commands(table=COMMANDS, before=""):
    for name, entry in table.items():
        if hasattr(entry, "target"):
            module, _, attribute = entry.target.partition(":")
            yield f"{before}{name}", getattr(importlib.import_module(module), attribute)
        else:
            yield from commands(entry.children, f"{before}{name} ")


def flags(command):
    return {
        flag
        for param in command.params
        if isinstance(param, click.Option)
        for flag in (*param.opts, *param.secondary_opts)
    }


def documented_flags(text):
    cells = [cell for cell in first_cells(text) if cell.startswith("`-")]
    return {word for cell in cells for word in re.findall(r"`(--?[\w-]+)", cell)}


SHARED = documented_flags(section(CLI_PAGE, "## Options of every command"))


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: str(value))
def test_options_of_each_command_are_documented(name, command):
    assert f"`privagg {name}" in CLI_PAGE
    heading = "## `privagg data list`, `privagg data show`" if name[:4] == "data" else None
    sections = {"keys new", "keys show"}
    if name in sections or name.startswith(("simulate ", "plan ", "audit ", "ldp ", "bench ")):
        heading = f"## `privagg {name}`"
    own = documented_flags(section(CLI_PAGE, heading)) if heading else set()
    assert flags(command) - SHARED - own == set()
    if name != "data list":
        assert own - flags(command) == set()


def test_every_documented_command_exists():
    named = {
        re.sub(r"( [A-Z]+)+$", "", name)
        for name in re.findall(r"^\| `privagg ([^`]+)`", CLI_PAGE, re.MULTILINE)
    }
    assert named == {name for name, _ in commands()}


def test_exit_codes_are_those_of_the_code():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", section(CLI_PAGE, "## Exit codes"), re.MULTILINE)
    assert {name: int(code) for code, name in rows} == {code.name: code.value for code in ExitCode}


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        (["simulate", "--data", "adult", "--column", "sex", "--clients", "9"], "Of `simulate`"),
        (["plan", "--clients", "9", "--dim", "2", "--no-calibrate"], "Of `plan`"),
    ],
    ids=["simulate", "plan"],
)
def test_json_keys_are_documented(words, heading):
    line = [sys.executable, "-m", "privagg", words[0], "secagg", *words[1:], "--json", "--quiet"]
    output = subprocess.run(line, cwd=ROOT, capture_output=True, check=True).stdout
    text = section(CLI_PAGE, "## JSON")
    shared, own = text.split("Of both commands:")[1].split("Of `simulate` also:")
    own = dict(zip(("Of `simulate`", "Of `plan`"), own.split("Of `plan` also:"), strict=True))
    cells = first_cells(shared) + first_cells(own[heading])
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(json.loads(output))


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "sensor", "--nodes", "30", "--area", "80"],
        ["audit", "sensor", "--protocol", "cmt", "--runs", "10"],
    ],
    ids=["simulate", "audit"],
)
def test_json_keys_of_sensor_networks_are_documented(words):
    line = [sys.executable, "-m", "privagg", *words, "--json", "--quiet"]
    output = subprocess.run(line, cwd=ROOT, capture_output=True, check=True).stdout
    text = section(CLI_PAGE, f"## `privagg {words[0]} sensor`")
    cells = first_cells("| key |" + text.split("| key |")[1])
    keys = json.loads(output)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(keys) - {"schema_version"}


def all_keys(value):
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in all_keys(item)}
    if isinstance(value, list):
        return {key for item in value for key in all_keys(item)}
    return set()


def answer(capsys, words):
    assert run([*words, "--json", "--quiet"]) in (ExitCode.GOOD, ExitCode.LEAK)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("simulate responses --target y --bag-size 2 --epsilon 1 --input", {"classes", "numbers"}),
        ("plan responses --samples 90 --features 9 --snr 1 --epsilon 1 --sizes 1,2", set()),
    ],
    ids=["simulate", "plan"],
)
def test_json_keys_of_responses_are_documented(line, values, tmp_path, capsys):
    rows = "".join(f"{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(60))
    (tmp_path / "people.csv").write_text(f"x,y\n{rows}", encoding="utf-8")
    words = line.split() + ([str(tmp_path / "people.csv")] if line.endswith("--input") else [])
    keys = all_keys(answer(capsys, words)) - {"schema_version"}
    text = section(CLI_PAGE, f"## `privagg {words[0]} responses`").split("Keys of `--json`:")[1]
    assert set(re.findall(r"`(\w+)`", text)) - values == keys


def test_json_keys_of_audits_of_bags_are_documented(tmp_path, capsys):
    release = Curator(Release(classes=2), Bags.random(6, 3))
    release.release(np.arange(6) % 2).write(tmp_path / "released.parquet")
    found = answer(capsys, ["audit", "responses", "--bags", str(tmp_path / "released.parquet")])
    page = (ROOT / "docs" / "audit-responses.md").read_text(encoding="utf-8")
    text = section(page, "## Keys of `--json`")
    cells = " ".join(first_cells(text))
    assert set(re.findall(r"`(\w+)`", cells)) == set(found) - {"schema_version"}
    assert all_keys(found) - {"schema_version"} <= set(re.findall(r"`(\w+)`", text))


def test_configuration_example_is_toml_of_the_command():
    (example,) = code_blocks(CLI_PAGE, "toml")
    table = tomllib.loads(example)
    inner = table.pop("simulate")["secagg"]
    assert inner["drop-at"] in secagg.ROUNDS
    documented = documented_flags(section(CLI_PAGE, "## `privagg simulate secagg`"))
    assert {f"--{key}" for key in (*table, *inner)} <= documented


def test_rounds_are_named_in_both_pages():
    for name in secagg.ROUNDS:
        assert f"`{name}`" in CLI_PAGE
        assert f"`{name}`" in SECAGG_PAGE


# The page of the protocol, and the claims of papers.


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
