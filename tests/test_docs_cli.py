"""The page of the command line: its options, exit codes and JSON keys are those of the code."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib

import click
import numpy as np
import pytest
from doc_pages import CLI_PAGE, ROOT, SECAGG_PAGE, code_blocks, first_cells, section

from privagg.cli.envelope import KEYS
from privagg.cli.failures import ExitCode
from privagg.cli.main import COMMANDS, run
from privagg.protocols import secagg
from privagg.protocols.responses import Curator, Release
from privagg.protocols.responses.bags import Bags


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
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(keys) - set(KEYS)


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
    keys = all_keys(answer(capsys, words)) - set(KEYS)
    text = section(CLI_PAGE, f"## `privagg {words[0]} responses`").split("Keys of `--json`:")[1]
    assert set(re.findall(r"`(\w+)`", text)) - values == keys


def test_json_keys_of_audits_of_bags_are_documented(tmp_path, capsys):
    release = Curator(Release(classes=2), Bags.random(6, 3))
    release.release(np.arange(6) % 2).write(tmp_path / "released.parquet")
    found = answer(capsys, ["audit", "responses", "--bags", str(tmp_path / "released.parquet")])
    page = (ROOT / "docs" / "audit-responses.md").read_text(encoding="utf-8")
    text = section(page, "## Keys of `--json`")
    cells = " ".join(first_cells(text))
    assert set(re.findall(r"`(\w+)`", cells)) == set(found) - set(KEYS)
    assert all_keys(found) - set(KEYS) <= set(re.findall(r"`(\w+)`", text))


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
